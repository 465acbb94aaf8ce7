"""Every option once, as data: flags and help, TOML, the page, exports and the reference follow from it.

Start reading in `key` (what an option is), `table_entries`, `entries`, `stream_entries` and `ledger_entries` (all of
them). `values`, `number_types`, `by_column`, `by_tables`, `periods` and `questions` hold the types of values: how each
is read from texts, files and fields, checked, and written back.

>>> from inid.schema import key
>>> key("bounds").flag, key("bounds").type.from_text("--bounds", "age=0:100")
('--bounds', {'age': ['0', '100']})
"""

from inid.schema import table_entries as _table_entries  # isort: split

from inid.schema import entries as _entries  # isort: split

from inid.schema import stream_entries as _stream_entries  # isort: split

from inid.schema import ledger_entries as _ledger_entries
from inid.schema.key import Key, Naming, flag_words, from_fields, key, keys, keys_of_a_question, register, to_fields

del _entries, _ledger_entries, _stream_entries, _table_entries

__all__ = [
    "Key",
    "Naming",
    "flag_words",
    "from_fields",
    "key",
    "keys",
    "keys_of_a_question",
    "register",
    "to_fields",
]
