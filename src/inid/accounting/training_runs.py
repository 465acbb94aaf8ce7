"""What a training run has cost, as a record that anybody can check again without PyTorch, and a model card of it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from json import dumps
from typing import Any, Literal

from inid import arguments
from inid._version import RECORD_FORMAT
from inid.accounting.composition import Composition, compose, subsample
from inid.errors import ArgumentError, GuaranteeError, RecordError, unread_format
from inid.planning import plan
from inid.promises import ApproxDP, GaussianDP, PureDP
from inid.sets import Neighbours, Sensitivity

Mechanism = Literal["gaussian", "laplace"]


@dataclass(frozen=True)
class Segment:
    """Steps in a row that cost the same.

    Attributes:
        mechanism: The noise.
        noise_multiplier: 1/mu of a step on the whole data (Gaussian) or 1/epsilon (Laplace).
        sample_rate: The probability with which an example takes part in a step.
        steps: How many steps.
        neighbours: "zero_out" where the number of examples is public (a rate of batch size / number), "add_remove"
            where rate and steps were stated without it.
    """

    mechanism: Mechanism
    noise_multiplier: float
    sample_rate: float
    steps: int
    neighbours: Neighbours = "zero_out"

    def composition(self) -> Composition:
        """The privacy of these steps.

        A Laplace step with pure epsilon e is accounted as a single coordinate of ratio e: among all ratios of the same
        sum that is the worst (the curve is Schur-convex in the ratios, E5), so it covers every clipping and allocation.
        """
        alone = Sensitivity.box([1.0], neighbours=self.neighbours)
        if self.mechanism == "gaussian":
            step = plan(alone, GaussianDP(mu=1 / self.noise_multiplier), mechanism="gaussian")
        else:
            step = plan(alone, PureDP(epsilon=1 / self.noise_multiplier), mechanism="laplace")
        return subsample(step, rate=self.sample_rate, steps=self.steps)


def composed(history: Sequence[Segment]) -> Composition:
    """The privacy of several stretches of steps.

    Where they mix relations it is that of "zero_out": data sets that differ by one example becoming nothing differ by
    one example removed, once those that are nothing are dropped.
    """
    one = len({segment.neighbours for segment in history}) == 1
    parts = history if one else [replace(segment, neighbours="zero_out") for segment in history]
    return compose(*(segment.composition() for segment in parts))


def read_segment(
    mechanism: object, noise_multiplier: object, sample_rate: object, steps: object, neighbours: object = "zero_out"
) -> Segment:
    """Steps from a record, or the refusal of one that holds something else."""
    cure = "pass the record as it was written"
    name: Mechanism = (
        "laplace" if arguments.choice("mechanism", mechanism, ("gaussian", "laplace")) == "laplace" else "gaussian"
    )
    multiplier = arguments.real("noise_multiplier", noise_multiplier, above=0, cure=cure)
    rate = arguments.real("sample_rate", sample_rate, above=0, cure=cure)
    if not rate <= 1:
        raise ArgumentError(f"sample_rate must be at most 1, got {rate!r}: {cure}.")
    relation: Neighbours = (
        "add_remove"
        if arguments.choice("neighbours", neighbours, ("zero_out", "add_remove")) == "add_remove"
        else "zero_out"
    )
    return Segment(name, multiplier, rate, arguments.integer("steps", steps, least=1, cure=cure), relation)


_ROOM = 1 + 1e-9  # another machine may round the same cost otherwise
_DIGITS = 6  # of an epsilon that is stated, rounded up
_WORDS = {
    "model": "Model",
    "trained": "Trained weights",
    "optimizer": "Optimizer",
    "unit": "Unit of privacy",
    "units": "Units in the data",
    "expected_batch": "Expected batch",
    "physical_batch": "Rows at a time",
    "clipping": "Clipping",
    "max_grad_norm": "Clipping norm",
    "inid": "inid",
    "torch": "PyTorch",
    "charge": "Charge of the ledger",
}


@dataclass(frozen=True, kw_only=True)
class TrainingRecord:
    """The promise of a training run: made by `private.record()`, proved again by `verify` and by `inid verify`.

    Attributes:
        runs: The steps that were taken, oldest first.
        delta: The delta at which epsilon is stated.
        epsilon: What all steps have cost at that delta, rounded up.
        private: Whether noise and batches came from secret randomness.
        facts: Public facts about the run, which are shown and not proved: the model, the batch, the unit of privacy.

    >>> run = Segment("gaussian", 1.0, 0.01, 1000)
    >>> record = TrainingRecord.of([run], delta=1e-5, private=True, facts={"model": "Linear"})
    >>> record.epsilon
    1.82825
    >>> TrainingRecord.from_dict(record.to_dict()).verify() <= record.epsilon
    True
    """

    runs: tuple[Segment, ...]
    delta: float
    epsilon: float
    private: bool
    facts: Mapping[str, str | int | float] = field(default_factory=dict)

    @classmethod
    def of(
        cls, runs: Sequence[Segment], *, delta: float, private: bool, facts: Mapping[str, str | int | float]
    ) -> "TrainingRecord":
        """The record of steps that were taken."""
        if not runs:
            raise ArgumentError("no step has been taken yet, so there is nothing to record: train first.")
        checked = ApproxDP(0.0, delta).delta
        epsilon = _rounded_up(composed(runs).epsilon(checked) * _ROOM)
        return cls(runs=tuple(runs), delta=checked, epsilon=epsilon, private=private, facts=dict(facts))

    @property
    def steps(self) -> int:
        """How many steps were taken; with correlated noise, how many rounds."""
        return sum(run.steps for run in self.runs)

    @property
    def neighbours(self) -> Neighbours:
        """The relation for which the promise holds."""
        return "add_remove" if all(run.neighbours == "add_remove" for run in self.runs) else "zero_out"

    @property
    def relation(self) -> str:
        """What neighbours differ in, in words."""
        unit = self.facts.get("unit", "example")
        if self.neighbours == "zero_out":
            return f"one {unit} becomes nothing; how many there are is public"
        return f"one {unit} more or less; how many there are is secret"

    def verify(self) -> float:
        """Compute the cost of all steps anew, and return it.

        That a run went as recorded, that its noise was random and which data it saw, no record can prove.

        Raises:
            GuaranteeError: The steps cost more than the record says, or their noise was a test's.
        """
        if not self.private:
            raise GuaranteeError(
                "the record is of a run that is not private: a test's source drew its noise or its batches."
            )
        cost = composed(self.runs).epsilon(self.delta)
        if not cost <= self.epsilon:
            raise GuaranteeError(
                f"the recorded steps cost epsilon={cost:g} at delta={self.delta:g}, and the record says "
                f"{self.epsilon:g}: it was changed."
            )
        return cost

    def to_dict(self) -> dict[str, Any]:
        """A JSON-safe dictionary, with a digest of itself."""
        content: dict[str, Any] = {
            "inid_training": RECORD_FORMAT,
            "promise": {"epsilon": self.epsilon, "delta": self.delta},
            "private": self.private,
            "runs": [[s.mechanism, s.noise_multiplier, s.sample_rate, s.steps, s.neighbours] for s in self.runs],
            "facts": dict(self.facts),
        }
        return content | {"digest": _digest(content)}

    @classmethod
    def from_dict(cls, record: object) -> "TrainingRecord":
        """The record that `to_dict` wrote.

        Raises:
            RecordError: It does not parse, has other names, or its digest is not that of its content.
        """
        names = {"inid_training", "promise", "private", "runs", "facts", "digest"}
        if not (isinstance(record, Mapping) and set(record) == names):
            raise RecordError(f"a training record must hold exactly {', '.join(sorted(names))}.")
        if record["inid_training"] != RECORD_FORMAT:
            raise unread_format("the training record", record["inid_training"])
        content = {name: record[name] for name in record if name != "digest"}
        if record["digest"] != _digest(content):
            raise RecordError("the training record does not have its own digest: it was cut, or changed.")
        promise, facts, runs = record["promise"], record["facts"], record["runs"]
        known = (
            isinstance(promise, Mapping) and set(promise) == {"epsilon", "delta"} and type(record["private"]) is bool
        )
        plain = isinstance(facts, Mapping) and all(type(each) in {str, int, float} for each in facts.values())
        if not (known and plain and set(facts) <= set(_WORDS) and isinstance(runs, list) and runs):
            raise RecordError("the training record does not parse: pass the record as it was written.")
        try:
            return cls(
                runs=tuple(read_segment(*run) for run in runs),
                delta=ApproxDP(0.0, promise["delta"]).delta,
                epsilon=arguments.real(
                    "epsilon", promise["epsilon"], least=0, cure="pass the record as it was written"
                ),
                private=record["private"],
                facts=dict(facts),
            )
        except (ArgumentError, TypeError) as error:
            raise RecordError(f"the training record does not parse: {error}") from None

    def card(self) -> str:
        """A model card in Markdown: what is promised to whom, how it was trained, and what that does not cover."""
        unit = str(self.facts.get("unit", "example"))
        shown = [(word, self.facts[name]) for name, word in _WORDS.items() if name in self.facts]
        steps = "; ".join(
            f"{each.steps} with {each.mechanism} noise, multiplier {each.noise_multiplier:.6g}, rate "
            f"{each.sample_rate:.6g}"
            for each in self.runs
        )
        marked = "" if self.private else "\n**This run is not private: a test's source drew noise or batches.**\n"
        return "\n".join(
            [
                "# Model card",
                marked,
                "## Privacy",
                "",
                f"Differential privacy with epsilon = {self.epsilon:g} at delta = {self.delta:g}, for each {unit}.",
                "",
                f"- Neighbours: {self.relation}.",
                f"- Steps: {steps}.",
                "- Every weight, and whatever is computed from the weights alone, keeps this promise.",
                "- Not covered: choices made by looking at the data or at exact losses, such as early stopping.",
                "- Not covered: data for evaluation, and what was trained before.",
                "- Check: `inid verify` proves epsilon from the steps in the training record, not that they went so.",
                "",
                "## Training",
                "",
                *(f"- {word}: {each if isinstance(each, str) else format(each, ',.12g')}" for word, each in shown),
                "",
                "## For you to fill in",
                "",
                "- Data: whose they are, how they were collected, with which consent.",
                "- Use: what the model is for, and what it must not be used for.",
                "- Accuracy: on public data, or on data that were paid for.",
                "",
            ]
        )

    def __str__(self) -> str:
        mark = "" if self.private else "; NOT PRIVATE"
        return f"Training record: epsilon = {self.epsilon:g} at delta = {self.delta:g} after {self.steps} steps{mark}."


def _digest(content: Mapping[str, Any]) -> str:
    try:
        return sha256(dumps(content, sort_keys=True, allow_nan=False).encode()).hexdigest()
    except (TypeError, ValueError):
        raise RecordError("the training record does not parse: pass the record as it was written.") from None


def _rounded_up(value: float) -> float:
    """A number with few digits that is not below."""
    if not 0 < value < math.inf:
        return value
    unit = 10.0 ** (math.floor(math.log10(value)) - _DIGITS + 1)
    rounded = float(f"{math.ceil(value / unit) * unit:.{_DIGITS}g}")
    return rounded if rounded >= value else float(f"{(math.ceil(value / unit) + 1) * unit:.{_DIGITS}g}")
