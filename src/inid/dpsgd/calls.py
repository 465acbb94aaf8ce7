"""Whether a call is still under way: one that an interrupt cut short is not.

torch runs the hooks after a forward when the forward raised an `Exception`, but not when Ctrl-C or an exit ended it. A
flag set before would stay set, so what is asked instead is whether the frame that began the call is among the callers.
"""

import inspect
from types import FrameType
from typing import Any

__all__ = ["Call"]


class Call:
    """A call that is under way for as long as the frame that began it runs.

    >>> def work(frame):
    ...     return Call(frame).under_way()
    >>> work(inspect.currentframe()), Call(None).under_way()
    (True, False)
    """

    def __init__(self, frame: FrameType | None) -> None:
        self._frame = frame

    def under_way(self) -> bool:
        """Whether the frame is among those that called this."""
        frame = inspect.currentframe()
        while frame is not None and frame is not self._frame:
            frame = frame.f_back
        return frame is not None

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy of a call, which a copied model brings along, is not under way: no frame can be copied."""
        return Call, (None,)
