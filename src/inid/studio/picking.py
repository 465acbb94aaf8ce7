"""What is picked and not typed: codes from a file, two public lists beside each other, bands of numbers, ledgers."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from inid.accounting import Ledger
from inid.errors import ArgumentError
from inid.jobs import read_budget
from inid.jobs.ledgers import make_ledger
from inid.schema import key
from inid.studio.bands import make_bands
from inid.studio.code_lists import compare_lists, read_code_list
from inid.studio.folder import Folder
from inid.studio.form import field_name
from inid.studio.live import Planner

__all__ = ["Picking"]

_LEDGER_KEYS = ("epsilon", "delta", "mu", "rho", "name", "unit", "currency", "reserve")


class Picking:
    """The page's helpers for lists, bands and ledgers of one folder."""

    def __init__(self, folder: Folder, planner: Planner) -> None:
        self._folder = folder
        self._planner = planner

    def codes(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The columns of a file of codes, which the browser read and nobody keeps."""
        table = body.get("table")
        names = [column.name for column in self._planner.columns(table)] if table else []
        found = read_code_list(_text(body, "text"), names)
        return {"columns": [{"name": one.name, "values": list(one.values)} for one in found]}

    def compare(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Two public lists beside each other."""
        here, there = (_words(_text(body, name)) for name in ("here", "there"))
        if not here or not there:
            raise ArgumentError("a list is empty: fill in both.")
        found = compare_lists(here, there)
        return {
            "agree": found.agree,
            "here": list(found.only_here),
            "there": list(found.only_there),
            "near": [list(pair) for pair in found.near],
        }

    def bands(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Bands of a column: edges of a histogram, and a computed column with its public values."""
        computed = body.get("computed") is True
        asked = {name: body.get(name) for name in ("edges", "lower", "upper", "width", "whole")}
        made = make_bands(body.get("column"), **asked, computed=computed)
        texts = key("domains").type.to_field({made.name: made.values})
        edges = key("histogram").type.to_field({made.column: [float(edge) for edge in made.edges]})
        shown = {"name": made.name, "names": made.values, "text": texts[made.name], "edges": edges[made.column]}
        return shown | ({"formula": made.formula} if computed else {})

    def ledger_names(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The names of the ledgers in one file or database."""
        address = self._folder.ledger(body.get("ledger"))
        return {"names": list(Ledger.names(address))}

    def new_ledger(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Make a ledger, as `inid ledger create` does."""
        if not all(isinstance(value, str) for value in body.values()):
            raise ArgumentError("the fields of a ledger are texts: fill them in again.")
        values = {name: body.get(name, "").strip() or None for name in (*_LEDGER_KEYS, "ledger")}
        file = values["ledger"] or ""
        file = file if Path(file).suffix else f"{file}.db"
        total = read_budget({name: values[name] for name in ("epsilon", "delta", "mu", "rho")}, field_name)
        if total is None:
            raise ArgumentError("a total is missing: state Epsilon, with or without Delta, for all releases together.")
        settings = {name: key(name).of(values, field_name) for name in ("unit", "currency", "reserve")}
        settings = {name: value for name, value in settings.items() if value is not None}
        if "reserve" in settings:
            settings["reserve"] = float(settings["reserve"])
        name = key("name").of(values, field_name) or "default"
        make_ledger(self._folder.ledger(file), name, total, **settings).close()
        return {"ledger": file, "name": name}


def _text(body: Mapping[str, Any], name: str) -> str:
    text = body.get(name)
    if not isinstance(text, str):
        raise ArgumentError("a list is a text: paste it again.")
    return text


def _words(text: str) -> list[str]:
    """The entries of a field of public values, as texts."""
    return [str(code) for code in key("domains").type.from_field("", {"list": text}).get("list", [])]
