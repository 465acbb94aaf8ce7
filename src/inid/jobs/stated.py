"""What a job states by the keys of some groups of the schema, checked."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar, Self

from inid.schema import Key, Naming, keys

__all__ = ["Stated"]


@dataclass(frozen=True)
class Stated:
    """Values of the keys of some groups; each is an attribute, and one that is not stated is what its type says.

    Attributes:
        values: What is stated, by key, checked.
        groups: The groups of the schema whose keys these are.
    """

    values: Mapping[str, Any] = field(default_factory=dict)
    groups: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def own_keys(cls) -> tuple[Key, ...]:
        """Its keys, in order."""
        return keys(*cls.groups)

    @classmethod
    def read(cls, values: Mapping[str, Any], named: Naming = str) -> Self:
        """Check every value.

        Args:
            values: Plain values by key, those of other groups among them; None is the same as leaving a key out.
            named: How errors name a key.

        Raises:
            ArgumentError: A value is malformed, or values do not go together.
        """
        read = {key.name: key.of(values, named) for key in cls.own_keys()}
        return cls({key.name: read[key.name] for key in cls.own_keys() if read[key.name] != key.type.nothing})

    def __getattr__(self, name: str) -> Any:
        for key in self.own_keys():
            if key.name == name:
                return self.values.get(name, key.type.nothing)
        raise AttributeError(f"{type(self).__name__} has no {name}")

    def stating(self, **values: Any) -> Self:
        """The same with other checked values."""
        return replace(self, values={**self.values, **values})

    def of(self, group: str) -> dict[str, Any]:
        """What is stated of one group, in order."""
        return {key.name: self.values[key.name] for key in keys(group) if key.name in self.values}

    def to_dict(self) -> dict[str, Any]:
        """What is stated, as plain values."""
        return {name: _plain(value) for name, value in self.values.items()}


def _plain(value: Any) -> Any:
    """A checked value as TOML and JSON hold it."""
    if isinstance(value, Stated):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, Path):
        return value.as_posix()
    return float(value) if isinstance(value, Decimal) else value
