"""The public names and signatures, as text: `python tests/public_names.py` writes them to records/public_names.txt."""

import importlib
import inspect
import sys
from pathlib import Path

RECORD = Path(__file__).parent / "records" / "public_names.txt"
MODULES = ("inid", "inid.tables", "inid.learn", "inid.dpsgd", "inid.testing")


def _parameters(function):
    """Names, kinds and defaults; annotations are left out, since Python's versions print them in different ways."""
    try:
        found = inspect.signature(function)
    except (TypeError, ValueError):
        return "(...)"
    plain = [p.replace(annotation=inspect.Parameter.empty) for p in found.parameters.values()]
    return str(found.replace(parameters=plain, return_annotation=inspect.Signature.empty))


def _own(kind):
    """What a class itself adds, or takes from a class of the library: not its host's methods, nor dunders."""
    for name in sorted(dir(kind)):
        if name.startswith("_"):
            continue
        home = next((base for base in kind.__mro__ if name in vars(base)), kind)
        if home.__module__.split(".")[0] == "inid":
            yield name, inspect.getattr_static(kind, name)


def _described(name, value):
    if inspect.isclass(value):
        if issubclass(value, BaseException):
            return [f"{name}: error"]
        lines = [f"{name}{_parameters(value)}"]
        for member, thing in _own(value):
            plain = thing.__func__ if isinstance(thing, (classmethod, staticmethod)) else thing
            call = _parameters(plain) if inspect.isroutine(plain) else ""
            lines.append(f"    .{member}{call}")
        return lines
    return [f"{name}{_parameters(value)}"] if callable(value) else [name]


def public_names():
    """One line per public name, and one per public member of a class."""
    lines = []
    for module in MODULES:
        loaded = importlib.import_module(module)
        lines.append(f"[{module}]")
        for name in sorted(loaded.__all__):
            lines += _described(name, getattr(loaded, name))
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    RECORD.write_text(public_names())
    sys.stdout.write(f"wrote {RECORD.name}\n")
