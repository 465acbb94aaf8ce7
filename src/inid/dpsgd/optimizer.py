"""An optimizer whose steps are private."""

import math
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import ReduceLROnPlateau

from inid.accounting.training_runs import Segment
from inid.dpsgd.accountant import Accountant, ChargedRun
from inid.dpsgd.adam import AdamBC
from inid.dpsgd.grad_sample.clipped_sums import MARGIN, Rule
from inid.dpsgd.independence.check import Independence
from inid.dpsgd.loss import PerSampleLoss
from inid.dpsgd.noise.correlated_noise import CorrelatedRun
from inid.dpsgd.noise.step_noise import Recipe, Source, add_planned_noise, element_bounds, quanta_of
from inid.dpsgd.noise.training_plan import Correlation
from inid.dpsgd.parallel import Processes, holding_of
from inid.dpsgd.per_example_gradients import PerExampleGradients
from inid.dpsgd.sampling.poisson_loader import PoissonLoader
from inid.dpsgd.step_state import StepState
from inid.dpsgd.thresholds import Adaptive, Group, share_thresholds
from inid.errors import ArgumentError, GuaranteeError, RecordError
from inid.noise import current_source
from inid.planning import NoisePlan
from inid.planning.noise_plan import aligned


class PrivateOptimizer(torch.optim.Optimizer):
    """Wraps an optimizer: `step` charges the accountant, adds noise to the clipped sums and hands them on as gradients.

    Made by `make_private`. Learning-rate schedulers work on it as on any optimizer.

    Attributes:
        original: The optimizer inside.
        accountant: What the run has cost.
        plan: The noise of the next step, by groups.
        thresholds: The groups' thresholds in the next step.
        correlation: How noise is correlated over the steps.
        groups: The names of the groups.
        gradients: What clips the gradients of examples.
        losses: What takes losses row by row.
        step_state: How far the step under way has come.
        recipe: What the noise of a step depends on besides the thresholds.
        planned_runs: What will have been spent when the run is over, oldest first.
        target_delta: The delta that was asked for, if any.
    """

    def __init__(
        self,
        original: torch.optim.Optimizer,
        *,
        module: nn.Module,
        groups: list[Group],
        recipe: Recipe,
        noise_multiplier: float,
        thresholds: list[float],
        adaptive: Adaptive | None,
        loader: PoissonLoader,
        accountant: Accountant,
        source: Source,
        mean: bool,
        processes: Processes,
        planned: int | None = None,
        runs: tuple[Segment, ...] = (),
        target_delta: float | None = None,
        example: object = None,
        charged: ChargedRun | None = None,
        correlation: Correlation | None = None,
        correlated: CorrelatedRun | None = None,
    ) -> None:
        # The base class would start a second set of books; groups and state stay the original's.
        self.original, self.accountant = original, accountant
        self.groups = [group.name for group in groups]
        self._members = [p for group in groups for _, p in group.parameters]
        self.recipe, self._multiplier, self._adaptive = recipe, noise_multiplier, adaptive
        self._loader, self._source, self._mean, self._processes = loader, source, mean, processes
        self._planned, self._charged = planned, charged
        self.planned_runs, self.target_delta = runs, target_delta
        self._correlation, self._correlated = correlation, correlated
        self._step_count = 0
        first = self._members[0]
        places = {p: (at, k) for at, group in enumerate(groups) for k, (_, p) in enumerate(group.parameters)}
        self._group_of = {p: at for p, (at, _) in places.items()}
        sizes = [[p.numel() for _, p in group.parameters] for group in groups]
        self._holding = holding_of([[p for _, p in group.parameters] for group in groups], processes)
        sums = self._holding.sums(sizes, torch.float64 if source == "exact" else first.dtype, first.device)
        self._set_thresholds(thresholds)
        self.step_state = StepState(loader.drawn, sums, self._rule())
        check = Independence(module, first.device, self.step_state.drawn, example)
        self.gradients = PerExampleGradients(module, places, self.step_state, mean=mean, check=check)
        self.losses = PerSampleLoss(self.gradients, mean=mean)

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """The original's parameter groups."""
        if sys._getframe(1).f_code is ReduceLROnPlateau.__init__.__code__:  # noqa: SLF001 - nothing else says who asks
            warnings.warn(
                "ReduceLROnPlateau decides by the numbers that it is given: exact losses of training examples are "
                "facts about them that no noise covers. Give it losses on public data, or fix the schedule "
                "beforehand.",
                stacklevel=3,
            )
        return self.original.param_groups

    @param_groups.setter
    def param_groups(self, groups: list[dict[str, Any]]) -> None:
        self.original.param_groups = groups

    @property
    def state(self) -> Any:  # type: ignore[override]
        """The original's state."""
        return self.original.state

    @property
    def defaults(self) -> dict[str, Any]:  # type: ignore[override]
        """The original's defaults."""
        return self.original.defaults

    @property
    def noise_multiplier(self) -> float:
        """1/mu (Gaussian) or 1/epsilon (Laplace) of one step before sampling."""
        return self._multiplier

    @property
    def plan(self) -> NoisePlan:
        """The noise of the next step; with correlated noise, its fresh part."""
        return self._plan

    @property
    def correlation(self) -> Correlation | None:
        """How noise is correlated over the steps; prints gains and costs. None for independent noise."""
        return self._correlation

    def summary(self) -> str:
        """The next step, group by group: threshold, noise, and the signal that allowances for rounding cost.

        The last is known after the first backward, for groups whose gradients are not written down; it depends on
        shapes and types alone. For a group of several layers it is the largest of theirs.
        """
        lost: dict[int, float] = {}
        for weight, share in self.gradients.lost.items():
            at = self._group_of[weight]
            lost[at] = max(lost.get(at, 0.0), share)
        return step_summary(self.groups, self._thresholds, self._plan, lost)

    @property
    def thresholds(self) -> list[float]:
        """The groups' thresholds in the next step."""
        return list(self._thresholds)

    @property
    def norm(self) -> float:
        """The norm of all thresholds together, which bounds an example's whole gradient."""
        return math.hypot(*self._thresholds) if self.recipe.mechanism == "gaussian" else math.fsum(self._thresholds)

    @property
    def paid_by(self) -> str:
        """The unit in which the run is counted: steps, or rounds of a cyclic schedule with correlated noise."""
        return "steps" if self._correlated is None else "rounds of turns"

    @property
    def charge(self) -> str | None:
        """The digest of the ledger's charge for this run, once it was made."""
        return None if self._charged is None or self._charged.charge is None else self._charged.charge[1]

    def zero_grad(self, set_to_none: bool = True) -> None:  # noqa: ARG002 - as torch has it
        """Forget the gradients; while the parts of one batch are being added up, keep their sums.

        They are set to None whatever `set_to_none` says: a gradient beside the clipped sums could not be told from one
        that was not clipped.
        """
        self.step_state.throw_away()
        self.original.zero_grad(set_to_none=True)

    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], float]) -> float: ...
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """One private step, or, for a part of a batch that is not the last, none yet.

        The ledger and the accountant are charged first. The clipped sums, with noise, become the parameters' gradients
        (divided by the expected size of a batch for losses that are means), and the original optimizer steps.

        Raises:
            GuaranteeError: No batch was drawn for this step, or a gradient came around the clipping.
            BudgetError: The ledger does not pay for the step.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        if self.step_state.keep_part():
            return loss
        self._processes.check()
        self._check_gradients()
        self._pay()
        self._hand_out_gradients()
        self.step_state.clear()
        self.original.step()
        return loss

    def _pay(self) -> None:
        private = current_source().private and self._loader.drawn.private
        if self._correlated is not None:
            self._correlated.pay(self._loader.drawn, self.accountant, self._charged, private=private)
            return
        if self._charged is not None:
            self._charged.take_step()
        self._loader.drawn.close()
        self.accountant.step(
            mechanism=self.recipe.mechanism,
            noise_multiplier=self._multiplier,
            sample_rate=self._loader.sample_rate,
            neighbours=self.recipe.neighbours,
            private=private,
        )
        self._warn_beyond_plan()

    def _warn_beyond_plan(self) -> None:
        if self._planned is not None and self.accountant.steps == self._planned + 1:
            warnings.warn(
                f"this run was planned for {self._planned} steps, and goes beyond them: it costs more than planned. "
                "accountant.get_epsilon(delta) says what it has cost.",
                stacklevel=3,
            )

    def _check_gradients(self) -> None:
        given = self.step_state.given
        for group in self.original.param_groups:
            for parameter in group["params"]:
                gradient = parameter.grad
                if gradient is not None and gradient is not given.get(parameter):
                    raise GuaranteeError(
                        "a parameter has a gradient that was not clipped: use every parameter through its own module's "
                        "forward (a penalty on weights belongs into the optimizer's weight_decay), call zero_grad() "
                        "before training, and do not unfreeze parameters after make_private."
                    )

    @torch.no_grad()
    def _hand_out_gradients(self) -> None:
        used = self.step_state.used if self._correlated is None else None  # it takes back noise of earlier steps
        noisy = self._holding.noisy(self.step_state.sums.flat, self._with_noise, used)
        if isinstance(self.original, AdamBC):
            self.original.variances = self._variances
        if self._adaptive is not None:
            self._adapt()
        if self._mean:
            noisy /= self._loader.expected_batch_size
        given = self.step_state.given
        given.clear()
        gradients = self._holding.gradients(noisy.to(self._members[0].dtype))
        for parameter, gradient in zip(self._members, gradients, strict=True):
            parameter.grad = gradient
            if gradient is not None:
                given[parameter] = gradient

    @property
    def _variances(self) -> dict[nn.Parameter, float]:
        """The variance of the noise in each parameter's gradient."""
        several = 1.0 if self.recipe.mechanism == "gaussian" else 2.0
        parts = self._loader.expected_batch_size if self._mean else 1.0
        scales = [scale / parts for scale, _ in self._plan.runs]
        return {parameter: several * scales[self._group_of[parameter]] ** 2 for parameter in self._members}

    def _with_noise(self, sums: Tensor, counts: list[int] | None) -> Tensor:
        if self._correlated is not None:
            return self._correlated.noisy(sums, self._plan, counts)
        return add_planned_noise(sums, self._plan, self._source, counts)

    def _adapt(self) -> None:
        assert self._adaptive is not None  # noqa: S101 - for the type checker
        adaptive = self._adaptive
        # Centred, so that one example moves each entry by one half.
        sums = self.step_state.sums
        centred = self._processes.total(sums.inside - sums.examples / 2)

        def move() -> Tensor:
            moved = adaptive.moved(
                self._thresholds,
                centred,
                examples=self._loader.expected_batch_size,
                level=adaptive.split(1 / self._multiplier, self.recipe.mechanism)[1],
                mechanism=self.recipe.mechanism,
                source=self._source,
            )
            return torch.tensor(moved, dtype=torch.float64, device=centred.device)

        self._set_thresholds(self._processes.once(move, centred).tolist())
        self.step_state.rule = self._rule()

    def _set_thresholds(self, thresholds: list[float]) -> None:
        self._thresholds = thresholds
        self._plan = self.recipe.plan(thresholds)

    def _rule(self) -> Rule:
        recipe = self.recipe
        norm = 2 if recipe.mechanism == "gaussian" else 1
        return Rule(
            norm=norm,
            thresholds=self._thresholds,
            margin=MARGIN[self._members[0].dtype],
            bounds=element_bounds(self._thresholds, recipe.sizes, norm) if recipe.clipping == "elementwise" else None,
            total=recipe.total,
            stability=recipe.stability,
            quanta=quanta_of(self._plan) if self._source == "exact" else None,
            # What correlated noise holds of earlier steps is counted in quanta.
            most=0 if self._correlated is not None else self._loader.most_examples * self._processes.world,
            counts=self._adaptive is not None,
        )

    def detach(self) -> None:
        """Restore the module's own forward: it is ordinary again, and this optimizer cannot be used any more."""
        self.gradients.remove()

    def state_dict(self) -> dict[str, Any]:
        """The original's state, the accountant's and the thresholds: save it with the model's at every checkpoint."""
        state: dict[str, Any] = {"accountant": self.accountant.state_dict(), "thresholds": self.thresholds}
        if self._charged is not None:
            state["ledger"] = self._charged.state_dict()
        return {**self.original.state_dict(), "inid": state}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a checkpoint, with its count of what was spent.

        Raises:
            RecordError: The record is not of a private optimizer with the same groups; nothing was changed.
        """
        stored = state_dict.get("inid") if isinstance(state_dict, dict) else None
        stored = stored if isinstance(stored, dict) else {}
        thresholds = stored.get("thresholds")
        if not isinstance(thresholds, list) or len(thresholds) != len(self._thresholds):
            raise RecordError(
                "the state is not of a private optimizer with the same groups: pass what state_dict() returned."
            )
        try:
            checked = share_thresholds(thresholds, self.recipe.sizes, 2, "flat")
        except ArgumentError as error:
            raise RecordError("the state's thresholds are damaged: pass what state_dict() returned.") from error
        if self._charged is None and stored.get("ledger") is not None:
            raise RecordError("the run was charged to a ledger, which has its steps: pass that ledger to make_private.")
        spent = Accountant()
        spent.load_state_dict(self.accountant.state_dict())
        spent.load_state_dict(stored.get("accountant", {}))  # both refusals come before anything is changed
        if self._charged is not None:
            self._charged.load_state_dict(stored.get("ledger"))
        self.original.load_state_dict({key: value for key, value in state_dict.items() if key != "inid"})
        self.accountant.load_state_dict(spent.state_dict())
        # Gradients that were clipped at other thresholds must not meet the noise for these.
        self.step_state.clear()
        self._set_thresholds(checked)
        self.step_state.rule = self._rule()
        if self._correlated is not None:
            self._correlated.resume(self.accountant, self._charged)

    @property
    def _step_supports_amp_scaling(self) -> bool:
        # What GradScaler.step asks first. It scales losses, and with them gradients before they are clipped.
        raise ArgumentError(
            "GradScaler changes the gradients that are clipped: use torch.autocast with bfloat16, without scaling."
        )

    def register_step_pre_hook(self, hook: Any) -> Any:
        """A hook before the original's step; it sees the noisy gradients. Likewise for the other hooks."""
        return self.original.register_step_pre_hook(hook)

    def register_step_post_hook(self, hook: Any) -> Any:
        """A hook after the original's step."""
        return self.original.register_step_post_hook(hook)

    def register_state_dict_pre_hook(self, hook: Any, prepend: bool = False) -> Any:
        """A hook before the original's `state_dict`."""
        return self.original.register_state_dict_pre_hook(hook, prepend=prepend)

    def register_state_dict_post_hook(self, hook: Any, prepend: bool = False) -> Any:
        """A hook after the original's `state_dict`."""
        return self.original.register_state_dict_post_hook(hook, prepend=prepend)

    def register_load_state_dict_pre_hook(self, hook: Any, prepend: bool = False) -> Any:
        """A hook before the original's `load_state_dict`."""
        return self.original.register_load_state_dict_pre_hook(hook, prepend=prepend)

    def register_load_state_dict_post_hook(self, hook: Any, prepend: bool = False) -> Any:
        """A hook after the original's `load_state_dict`."""
        return self.original.register_load_state_dict_post_hook(hook, prepend=prepend)

    def __reduce_ex__(self, _protocol: Any) -> Any:
        raise ArgumentError(
            "a private optimizer counts what was spent on the data, so it is not copied or pickled: save state_dict(), "
            "and copy the module, which becomes an ordinary one."
        )

    def __repr__(self) -> str:
        return f"<PrivateOptimizer: {type(self.original).__name__}, {len(self.groups)} groups, {self.accountant!r}>"


def step_summary(names: Sequence[str], thresholds: Sequence[float], plan: NoisePlan, lost: Mapping[int, float]) -> str:
    """A table of the groups of a step."""
    lines = [["group", "size", "threshold", "noise scale", "signal lost"]]
    for at, (name, threshold, (scale, size)) in enumerate(zip(names, thresholds, plan.runs, strict=True)):
        shown = f"{100 * lost[at]:.2g} %" if lost.get(at) else "none"
        lines.append([name, f"{size:,}", f"{threshold:.6g}", f"{scale:.6g}", shown])
    return "\n".join(aligned(lines, left=1))
