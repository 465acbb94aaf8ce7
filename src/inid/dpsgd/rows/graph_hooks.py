"""What a graph of torch's calls in a backward, without holding on to the training that it belongs to.

A graph holds its hooks where Python's collector does not look. Were the training in them, one that is given up between
a forward and its backward would stay for good, with its model and the batch.
"""

from collections.abc import Callable
from typing import Any
from weakref import WeakMethod, ref

from inid.dpsgd.rows.forward_pass import EARLIER, ForwardPass
from inid.dpsgd.rows.units import Unit
from inid.errors import GuaranteeError

__all__ = ["graph_hook"]


def graph_hook(collect: Callable[..., None], unit: Unit, turn: ForwardPass, *others: object) -> Callable[..., None]:
    """A method with a unit, a forward and other arguments as a hook; what comes in the backward follows them.

    The method's object, the unit and the forward are not kept. They are there for the latest forward of a training.
    """
    held, unit_there, turn_there = WeakMethod(collect), ref(unit), ref(turn)

    def hook(*come: Any) -> None:
        found, of, at = held(), unit_there(), turn_there()
        if found is None or of is None or at is None:
            raise GuaranteeError(EARLIER)
        found(of, at, *others, *come)

    return hook
