"""From --epsilon, --delta, --mu, --rho to a promise."""

from inid.cli import reading
from inid.cli.options import Promise
from inid.errors import ArgumentError
from inid.promises import ZCDP, ApproxDP, Budget, GaussianDP, PureDP

__all__ = ["promised"]


def promised(options: Promise) -> Budget:
    """The promise that the options state.

    Raises:
        ArgumentError: None, or more than one, or a number that no promise can have.
    """
    given = {
        "epsilon": reading.positive("--epsilon", options.epsilon, "1"),
        "delta": reading.probability("--delta", options.delta, "1e-6"),
        "mu": reading.positive("--mu", options.mu, "0.3"),
        "rho": reading.positive("--rho", options.rho, "0.1"),
    }
    stated = {name: value for name, value in given.items() if value is not None}
    match tuple(stated):
        case ("epsilon",):
            return PureDP(**stated)  # type: ignore[arg-type]
        case ("epsilon", "delta"):
            return ApproxDP(**stated)  # type: ignore[arg-type]
        case ("mu",):
            return GaussianDP(**stated)  # type: ignore[arg-type]
        case ("rho",):
            return ZCDP(**stated)  # type: ignore[arg-type]
        case ():
            raise ArgumentError(
                "a promise is missing: pass --epsilon 1 (pure), --epsilon 1 --delta 1e-6, --mu 0.3 or --rho 0.1."
            )
        case _:
            listed = ", ".join(f"--{name}" for name in stated)
            raise ArgumentError(
                f"{listed} do not make one promise: pass --epsilon, --epsilon and --delta, --mu or --rho."
            )
