"""What may change how a model computes from one forward to the next, besides its input: attributes, hooks, parts.

A change that somebody makes between two forwards lets the model be looked at again. What a forward changes itself (a
counter, tensors that it keeps) is known after the first, and is compared with what the forward left behind.
"""

import warnings
from collections.abc import Iterable
from itertools import chain
from operator import is_
from typing import Any

from torch import nn

from inid.dpsgd.trial.described_settings import HOOKS, HOOKS_OF_ALL, Key, Known, described, is_fixed, token
from inid.dpsgd.trial.plain_state import MODULES_OWN

__all__ = ["Settings"]

_OFTEN = 16
_IN_VAIN = 3  # models that put equal objects in place of others in every forward are described in every forward


class Settings:
    """The settings of a model, as they were before its latest forward and after it.

    >>> model = nn.Linear(1, 1)
    >>> settings = Settings()
    >>> settings.changed([model]), settings.changed([model])
    (True, False)
    >>> model.scale = 2.0
    >>> settings.changed([model])
    True
    """

    def __init__(self) -> None:
        self._before: dict[Key, Any] = {}
        self._after: dict[Key, Any] = {}
        self._moving: dict[Key, nn.Module] | None = None  # what forwards change themselves; None if not known yet
        self._often = 0
        self._untouched: _Untouched | None = None
        self._in_vain = 0

    def changed(self, parts: list[nn.Module]) -> bool:
        """Whether somebody has changed something since the latest forward; asked before each.

        Args:
            parts: The model's parts: the same list only as long as their parameters are the same.
        """
        if self._untouched is not None:
            if self._untouched.holds(parts):
                return False
            self._untouched = None
            self._in_vain += 1
        known, before, after = Known.of(parts), self._before, self._after
        now = described(parts, known)
        if now == before:
            if self._in_vain < _IN_VAIN and not known.outputs:  # to hold an output would hold its graph
                self._untouched = _Untouched(parts)
            return False
        self._in_vain = 0
        found = [key for key in {**before, **now} if _differs(key, now, before) and _differs(key, now, after)]
        self._before = now
        if not found:
            return False
        self._moving = None
        self._often += 1
        if self._often == _OFTEN:
            named = {id(part): type(part).__name__ for part in parts}
            warnings.warn(
                f"attribute {found[0][1]!r} of a {named.get(found[0][0], 'part')} of the private module has changed "
                f"{_OFTEN} times between forwards, and each time the model is looked at again, which takes a few "
                "steps' time: pass what changes as a tensor to the forward, or keep it outside the module.",
                stacklevel=2,
            )
        return True

    def note(self, parts: Iterable[nn.Module]) -> None:
        """Note what a forward has left behind; called after each."""
        if self._moving is None:
            held = {id(part): part for part in parts}
            self._after = described(held.values(), Known.of(held.values()))
            self._moving = {
                key: held[key[0]] for key in self._after if _differs(key, self._after, self._before) and key[0] in held
            }
        elif self._moving:
            now = described({id(part): part for part in self._moving.values()}.values(), Known.of(parts))
            self._after |= {key: now.get(key) for key in self._moving}

    def fixed(self, parts: Iterable[nn.Module]) -> dict[Key, Any]:
        """The settings that forwards do not change themselves, to be compared."""
        moving = self._moving or {}
        parts = list(parts)
        return {key: value for key, value in described(parts, Known.of(parts)).items() if key not in moving}


class _Untouched:
    """Settings that were described, and whether anybody has touched them since.

    Claim: while `holds`, `described` gives what it gave when this was made. What it gives follows from the attributes
    of the parts, the hooks and buffers in some of them, and the forward of a class. Here the attributes are the same
    objects under the same names. They are kept, so that no other can have the `id` of one of them. Those that can be
    changed in place, and buffers, have a token, which is made anew; hooks and forwards are the same objects.
    """

    def __init__(self, parts: list[nn.Module]) -> None:
        self._parts, self._known = parts, Known.of(parts)
        held = [vars(part) for part in parts]
        self._lengths, self._names = list(map(len, held)), list(chain.from_iterable(held))
        self._values = list(chain.from_iterable(map(dict.values, held)))
        self._kinds = [part.__class__ for part in parts]
        self._forwards = {kind: kind.forward for kind in self._kinds}
        inner = [*(each[name] for each in held for name in HOOKS), *HOOKS_OF_ALL]
        self._hooks = [(hooks, list(hooks.values())) for hooks in inner if hooks]
        buffers = [each["_buffers"] for each in held]
        self._empty = [each for each in (*inner, *buffers) if not each]
        own = {id(value): value for each in held for name, value in each.items() if name not in MODULES_OWN}
        deep = [value for value in own.values() if not is_fixed(value)]
        self._filled = [each for each in buffers if each]
        self._deep, self._tokens = deep, self._described(deep)

    def holds(self, parts: list[nn.Module]) -> bool:
        """Whether nothing was touched; for the very list that this was made of."""
        if parts is not self._parts:
            return False
        held = [vars(part) for part in parts]
        return (
            list(map(len, held)) == self._lengths
            and list(chain.from_iterable(held)) == self._names
            and all(map(is_, chain.from_iterable(map(dict.values, held)), self._values))
            and not any(self._empty)
            and all(map(is_, [part.__class__ for part in parts], self._kinds))
            and all(kind.forward is own for kind, own in self._forwards.items())
            and all(_same(hooks.values(), own) for hooks, own in self._hooks)
            and self._described(self._deep) == self._tokens
        )

    def _described(self, deep: list[Any]) -> list[Any]:
        known = Known(self._known.trained)
        buffers = [token(each, 0, known) for held in self._filled for each in held.values()]
        return [*(token(value, 0, known) for value in deep), len(buffers), *buffers]


def _same(some: Iterable[object], others: list[object]) -> bool:
    now = list(some)
    return len(now) == len(others) and all(map(is_, now, others))


def _differs(key: Key, one: dict[Key, Any], other: dict[Key, Any]) -> bool:
    return key not in one or key not in other or one[key] != other[key]
