"""Whether the plan of a lazy Polars frame draws at random.

A function of the user's own, or a source that is read from outside, is not looked into: a release reads a frame once,
so that what it finds there is one table.
"""

import json
import warnings
from typing import Any

__all__ = ["draws_at_random"]

_SUSPECTS = (".shuffle", ".sample", ".rank")  # as Polars prints them; it does not say how ties are ranked


def draws_at_random(frame: Any) -> bool:
    """Whether a node of the plan is random: shuffle, sample, or a rank by chance.

    The plan as JSON says so exactly, but holds the data of frames in memory: it is made only where the printed plan
    names a suspect. A plan that has no JSON is judged by what is printed.

    >>> import polars
    >>> frame = polars.LazyFrame({"shuffle": [1, 2]})
    >>> draws_at_random(frame), draws_at_random(frame.select(polars.all().shuffle(seed=1)))
    (False, True)
    """
    printed = frame.explain(optimized=False)
    if not any(word in printed for word in _SUSPECTS):
        return False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its JSON may change from version to version
            plan = json.loads(frame.serialize(format="json"))
    except Exception:  # noqa: BLE001 - a plan with somebody's function may hold what cannot be written
        return any(f"{word}(" in printed or f"{word}_" in printed for word in _SUSPECTS[:2])
    return _is_random(plan)


def _is_random(part: Any) -> bool:
    if isinstance(part, list):
        return any(map(_is_random, part))
    if not isinstance(part, dict):
        return False
    function = part.get("function")
    if isinstance(function, dict):
        inside = [value for value in function.values() if isinstance(value, dict)]
        by_chance = any(value.get("options", {}).get("method") == "Random" for value in inside if _has_options(value))
        if "Random" in function or any("Sample" in value for value in inside) or by_chance:
            return True
    return any(map(_is_random, part.values()))


def _has_options(function: dict[str, Any]) -> bool:
    return isinstance(function.get("options"), dict)
