"""How many examples a property test draws: some of them in `make test`, all of them in `make slow`."""

import os
from collections.abc import Callable
from typing import TypeVar

import pytest
from hypothesis import settings

__all__ = ["examples"]

_Test = TypeVar("_Test", bound=Callable[..., None])


def examples(some: int, many: int) -> Callable[[_Test], _Test]:
    """Draw `some` examples; `many` in `make slow`, which sets INID_EXAMPLES=many and runs the marked test again."""
    number = many if os.environ.get("INID_EXAMPLES") == "many" else some

    def counted(test: _Test) -> _Test:
        return pytest.mark.examples(settings(max_examples=number)(test))

    return counted
