"""Every option once, as data: flags and help, TOML, the page, exports and the reference follow from it.

`key` says what an option is; `table_entries` and `entries` list all of them; `error_messages` says what is wrong.

>>> from inid.schema import key
>>> key("bounds").flag, key("bounds").type.from_text("--bounds", "age=0:100")
('--bounds', {'age': ['0', '100']})
"""

from inid.schema import table_entries as _table_entries  # isort: split

from inid.schema import entries as _entries
from inid.schema.by_column import Cells, Fills, Intervals, Keys, NumbersByName, group_sizes
from inid.schema.error_messages import MESSAGES, error_message
from inid.schema.key import (
    Key,
    Naming,
    find_key,
    flag_words,
    from_fields,
    key,
    keys,
    keys_of_a_question,
    register,
    to_fields,
)
from inid.schema.values import Choice, File, Names, Number, Numbers, Switch, Word, positive, probability, whole

del _entries, _table_entries

__all__ = [
    "Key",
    "Naming",
    "find_key",
    "flag_words",
    "from_fields",
    "group_sizes",
    "key",
    "keys",
    "keys_of_a_question",
    "register",
    "to_fields",
]
