"""Questions without a table: the user states how far one person moves each number."""

from inid.cli import reading
from inid.cli.options import Noise, Stated
from inid.cli.planned import Planned, planned
from inid.errors import ArgumentError
from inid.planning import AccuracyPlan, plan, plan_for_accuracy
from inid.promises import Budget
from inid.sets import Sensitivity

__all__ = ["is_stated", "noise_arguments", "stated_accuracy", "stated_plan"]

_OF_A_TABLE = (
    "bounds",
    "count",
    "sum",
    "mean",
    "variance",
    "std",
    "covariance",
    "histogram",
    "by",
    "missing",
    "rows",
    "table_max_rows",
    "person",
    "max_rows",
    "order_by",
)
_WITHOUT_ONE = ("labels", "l1", "l2")


def is_stated(options: Stated) -> bool:
    """Whether the question is about stated sensitivities; False for a table.

    Raises:
        ArgumentError: It is about neither, or options of both are mixed.
    """
    if (options.table is None) == (options.sensitivity is None):
        raise ArgumentError("say what is asked: name a TABLE, or pass --sensitivity 1,3,40, and not both.")
    stated = options.sensitivity is not None
    for name in _OF_A_TABLE if stated else _WITHOUT_ONE:
        if getattr(options, name) is not None:
            wanted = "a TABLE" if stated else "--sensitivity"
            raise ArgumentError(f"--{name.replace('_', '-')} goes with {wanted} only: leave it out here.")
    return stated


def noise_arguments(options: Noise) -> dict[str, object]:
    """The options that say how the promise is spent, as the library takes them; tolerance and weights stay aside."""
    given = {
        "mechanism": reading.word("--mechanism", options.mechanism),
        "allocation": reading.word("--allocation", options.allocation),
        "order": reading.number(
            "--order", options.order, "a number from 1 to 1,000,000, such as 2", lambda x: 1 <= x <= 1_000_000
        ),
    }
    return {name: value for name, value in given.items() if value is not None}


def stated_plan(options: Stated, noise: Noise, budget: Budget) -> Planned:
    """The plan for stated sensitivities."""
    sensitivity, labels = _sensitivity(options)
    tolerance = _per_coordinate("--tolerance", noise.tolerance, labels)
    weights = _per_coordinate("--weights", noise.weights, labels)
    arguments = noise_arguments(noise)
    made = plan(sensitivity, budget, tolerance=tolerance, weights=weights, **arguments)  # type: ignore[arg-type]
    return planned(made, labels, tolerance, str(arguments.get("mechanism", "auto")))


def stated_accuracy(
    options: Stated, tolerance: object, failure: float, delta: float | None
) -> tuple[AccuracyPlan, list[str]]:
    """The least budget that reaches the tolerances."""
    sensitivity, labels = _sensitivity(options)
    wanted = _per_coordinate("--tolerance", tolerance, labels)
    return plan_for_accuracy(sensitivity, wanted, failure=failure, delta=delta), labels


def _sensitivity(options: Stated) -> tuple[Sensitivity, list[str]]:
    limits = reading.numbers("--sensitivity", options.sensitivity)
    names = reading.words("--labels", options.labels)
    made = Sensitivity.box(
        limits,
        l1=reading.number("--l1", options.l1),  # type: ignore[arg-type]
        l2=reading.number("--l2", options.l2),  # type: ignore[arg-type]
        labels=names or None,
        neighbours=reading.word("--neighbours", options.neighbours) or "add_remove",
    )
    return made, names or [str(at) for at in range(len(limits))]


def _per_coordinate(option: str, value: object, labels: list[str]) -> list[float] | None:
    """One number per label, in their order; entries by name must name every label."""
    found = reading.named_numbers(option, value)
    if not isinstance(found, dict):
        return found
    unknown = [name for name in found if name not in labels]
    absent = [name for name in labels if name not in found]
    if unknown or absent:
        wrong = f"{unknown[0]!r} is no label" if unknown else f"{absent[0]!r} is missing"
        raise ArgumentError(f"{option}: {wrong}: give one number for each of {', '.join(labels[:20])}.")
    return [found[name] for name in labels]
