"""Rows keep apart, bit for bit: the one check of a model before it is trained on people.

**The test (B1).** Physical batches have one public number of rows, padding included. Fix weights and random seeds. Run
the trained model, with every wrapper in place, forward and backward on a made-up batch of that shape, then again with
only *other* examples changed: the pivots stay as they are, every other example holds something else and sends back
other gradients, 2^20 times as long. What every layer with parameters sees of a pivot (its input, the gradients of its
output) and the model's outputs are equal to the bit.

*Why equal:* at equal shapes a kernel does the same operations in the same order whatever other rows hold, and dropout
draws the same mask from the same seed. *Why it suffices:* the number of rows is public and constant, so that nothing
that depends on it alone tells anything. What is left to leak is the values of other examples, and these were changed.

**Pivots (B2)** are examples with all their views: the first, the last and one at random, with another between any two;
in some runs one of them stays alone. **State:** the base batch after a changed one is equal again, buffers included.

**What is not seen:** hooks that act on long gradients alone, writes through `.data` or NumPy, closures and globals,
and branches that no made-up batch takes.
"""

import copy
import hashlib
import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count, pairwise
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from inid.dpsgd.grad_sample.call_plan import APART, Call, CallPlan, OtherwiseDividedError, SameForAllError, Unit
from inid.dpsgd.grad_sample.wrapped_forward import rows_in, signature_of
from inid.dpsgd.independence.attribute_snapshot import AttributeSnapshot, kept_tensors
from inid.dpsgd.independence.digests import Digest, digest_of
from inid.dpsgd.independence.layout import NoDropout, Shapes, infer_call_plan, merged
from inid.dpsgd.independence.made_up import Batch, MadeUp
from inid.dpsgd.independence.selected_rows import SelectedRows
from inid.dpsgd.independence.validation import check_module
from inid.dpsgd.parallel import Processes
from inid.dpsgd.per_example_gradients import PerExampleGradients
from inid.dpsgd.sampling.batch_state import BatchState
from inid.dpsgd.seeding import generator_states, preserve_rng, seed_all
from inid.dpsgd.sharded_parameters import is_sharded, put_away, put_root_together
from inid.dpsgd.step_state import CallsChanged, LayerFailedError
from inid.errors import GuaranteeError

_FEW = 8  # examples of later checks, and where chance decides
_CHANCES = 8  # seeds that are tried where chance decides
_LONG = {torch.float16: 2.0**10}  # how much longer other examples' gradients are; 2^20 where it is not said
_TIMES = 8.0  # of what a repeated run differs by, where no deterministic algorithm is to be had
_ROUNDING = 2.0**10  # units of rounding that such a run may differ by, at most
_COARSE = 2.0**-4  # how far outputs may differ that are computed in two ways, relative to how they vary by example
_SHOWN = 300  # characters of an error
_ZEROS = "zeros"  # in the place of gradients that are all 0
_FIRST_SEED = 1  # of the checks of one training, whatever ran before in the process
_ELSEWHERE = "another process, which runs the private module together with this one, refuses it: see what it says."


class Independence:
    """Checks a model, and finds out the plan of its calls."""

    def __init__(self, module: nn.Module, device: torch.device, drawn: BatchState, example: object = None) -> None:
        self._module, self._device, self._drawn, self._example = module, device, drawn, example
        self._seeds = count(_FIRST_SEED)  # another for every check
        self._failures: dict[object, dict[str, str | None]] = {}  # what the model raises on a CPU, by kind of batch

    def kept(self, known: Iterable[int] = ()) -> list[Tensor]:
        """Tensors that the model keeps as attributes."""
        return kept_tensors(self._module, known)

    def plan(
        self, model: PerExampleGradients, args: tuple[Any, ...], kwargs: dict[str, Any], rows: int, *, full: bool
    ) -> CallPlan:
        """The plan of the calls of a model that keeps examples apart; at full size, or with few rows."""
        check_module(self._module)
        made_up = MadeUp(args, kwargs, rows, self._module, self._example)
        views = self._drawn.views_of(rows)
        failures = self._failures.setdefault(signature_of(args, kwargs, rows, training=self._module.training), {})
        check = _Check(model, self._module, self._device, made_up, views, next(self._seeds), full, failures)
        try:
            return self._tried(check, args, kwargs)
        except GuaranteeError:
            if not model.take_whole():
                raise
            return self._tried(check, args, kwargs)

    def _tried(self, check: "_Check", args: tuple[Any, ...], kwargs: dict[str, Any]) -> CallPlan:
        try:
            plan = check.plan()
        except GuaranteeError:
            raise
        except Exception as error:
            if "inplace operation" in str(error):  # in the backward: as it would be reported without the check
                raise
            with torch.no_grad():
                self._module(*args, **kwargs)  # a mistake in the model itself is better reported as such
            shown = f"It raised {type(error).__name__}: {' '.join(str(error).split())[:_SHOWN]}"  # no data is in it
            raise GuaranteeError(
                "the private module cannot be run on made-up examples to see that it keeps examples apart: keep the "
                "examples in the first dimension of every layer, and pass Sampling(example=...) (three made-up or "
                f"public examples, as the model is called with) where random ones are not valid. {shown}"
            ) from error
        if check.skipped:
            kinds = "; ".join(f"{kind} ({why})" for kind, why in check.skipped.items())
            cure = "" if self._example is not None else " Pass Sampling(example=...) with public examples."
            warnings.warn(
                "the check that examples keep apart passed over what the private module cannot be run on: "
                f"{kinds}.{cure}",
                stacklevel=2,
            )
        return plan


@dataclass(eq=False)
class Evidence:
    """What layers see of the pivots in one run: digests of 128 bits, so that the memory is that of one step."""

    plan: CallPlan
    examples: int
    views: int
    pivots: Sequence[int]
    seed: int
    others: Sequence[int] = ()  # examples whose gradients are others
    keep: bool = False  # values instead of digests
    in_order: bool = False  # deterministic algorithms are at work
    calls: list[tuple[Unit, list[Any]]] = field(default_factory=list)
    back: dict[tuple[int, str], list[Any]] = field(default_factory=dict)
    output: list[Any] = field(default_factory=list)
    draws: object = None

    def called(self, at: int, call: Call, leaves: list[Any]) -> None:  # noqa: ARG002 - as a probe has it
        """Note the arguments of a call."""
        lying = call.split or [None] * len(leaves)
        self.calls.append((call.unit, [self._seen(leaf, d) for leaf, d in zip(leaves, lying, strict=True)]))

    def flowed(self, at: int, name: str, gradients: Tensor) -> None:
        """Note gradients, with the examples first."""
        size = len(gradients) // self.examples
        parts = {e: gradients.detach().narrow(0, e * size, size) for e in self.pivots}
        # A layer that no example has used gets no gradient, and is not told from one that gets zeros. Nor is -0 from 0:
        # to add the zeros of examples that used it makes one the other.
        seen = {e: self._noted(part + 0.0) if bool(part.any()) else _ZEROS for e, part in parts.items()}
        self.back.setdefault((at, name), []).append(seen)

    def ends(self, output: list[Any]) -> tuple[list[Tensor], list[Tensor]]:
        """Note outputs; where gradients are sent back from, and which."""
        self.draws = hashlib.sha256(repr(generator_states()).encode()).digest()
        # A table that is filled in once is kept by the first run, and not made again by the next.
        self.output = [self._seen(leaf, d) for leaf, d in zip(output, self.plan.output, strict=False)]
        ends, sent = [], []
        for at, (leaf, along) in enumerate(zip(output, self.plan.output, strict=False)):
            if isinstance(leaf, Tensor) and leaf.requires_grad and along is not None:
                gradient = _drawn(leaf, self.seed + at)
                size = leaf.shape[along] // self.examples
                draw = torch.Generator(leaf.device).manual_seed(self.seed + at + 1)
                for each in self.others:
                    longer = gradient.narrow(along, each * size, size)
                    longer.normal_(generator=draw).mul_(_LONG.get(leaf.dtype, 2.0**20))
                ends.append(leaf)
                sent.append(gradient)
        if self.in_order:
            _order_attention(ends)
        return ends, sent

    def _seen(self, leaf: Any, along: int | None) -> Any:
        if not isinstance(leaf, Tensor):
            return leaf if isinstance(leaf, (bool, int, float, str, type(None))) else type(leaf)
        leaf = leaf.detach()
        if along is None:
            return self._noted(leaf)
        size = leaf.shape[along] // self.examples
        return {e: self._noted(leaf.narrow(along, e * size, size)) for e in self.pivots}

    def _noted(self, part: Tensor) -> Any:
        part = (torch.view_as_real(part.resolve_conj()) if part.is_complex() else part).contiguous()
        if self.keep:
            return part.cpu()
        return digest_of(part)


@dataclass(frozen=True)
class _Difference:
    """Where two runs differ: in the arguments of a layer, in what flows back to it, or in an output."""

    unit: Unit | None
    backward: bool = False


class _Check:
    """One check of a model."""

    def __init__(
        self,
        model: PerExampleGradients,
        module: nn.Module,
        device: torch.device,
        made_up: MadeUp,
        views: int,
        seed: int,
        full: bool,
        failures: dict[str, str | None],
    ) -> None:
        self._model, self._module, self._made_up, self._views, self._full = model, module, made_up, views, full
        self._gpus = [device] if device.type == "cuda" else []
        self._seed = seed
        self._keep = self._deterministic = False
        self._chances = _CHANCES
        self._widened: GuaranteeError | None = None
        self._floor: Evidence | None = None
        self.skipped: dict[str, str] = {}
        self._failures = failures
        self._on_cpu: nn.Module | None = None

    def plan(self) -> CallPlan:
        """The plan of the model's calls, if it keeps examples apart."""
        with (
            _no_silent_weights(self._module, sharded=self._model.sharded),
            preserve_rng(self._gpus),
            ExitStack() as stack,
        ):
            self._start = AttributeSnapshot(self._module)
            try:
                self._made_up.learn_ranges(self._module, self._called)
                while True:
                    try:
                        plan = self._inferred()
                        plan = self._checked(plan)
                        break
                    except (SameForAllError, OtherwiseDividedError) as error:
                        self._model.widen(error)
                        self._widened = error
                    except LayerFailedError as error:
                        self._widen_failed(error)
                    except _PlanAgainError:
                        if self._chances > _CHANCES:
                            raise GuaranteeError(_OTHER_CALLS) from None
                        self._chances = 4 * _CHANCES  # a layer that is often left out may have been in none
                    except _DifferenceSeenError:
                        if self._deterministic:  # and not every operation has such an algorithm
                            self._keep = True
                        else:
                            stack.enter_context(_deterministic())
                        self._deterministic = True
            finally:
                self._start.put_back()
        return plan

    def _widen_failed(self, error: LayerFailedError) -> None:
        """Take the parent of a layer as one that cannot be run on one example alone; or show what it raised."""
        try:
            self._model.widen(OtherwiseDividedError(error.unit))
        except GuaranteeError:
            raise (error.__cause__ or error) from None

    def _called(self, batch: Batch) -> None:
        self._begin(self._seed)
        self._shapes(batch, frozenset())

    def _shapes(self, batch: Batch, shared: frozenset[Unit]) -> Shapes:
        shapes = Shapes(rows_in(*batch), shared, selected=SelectedRows(pytree.tree_leaves(batch)))
        shapes.output = [leaf.detach() if isinstance(leaf, Tensor) else leaf for leaf in self._followed(batch, shapes)]
        return shapes

    def _followed(self, batch: Batch, shapes: Shapes) -> list[Any]:
        assert shapes.selected is not None  # noqa: S101 - for the type checker
        with shapes.selected:
            return self._model.shapes(*batch, shapes)

    def _begin(self, seed: int, state: AttributeSnapshot | None = None) -> None:
        (state or self._start).put_back()
        put_root_together(self._module)  # the backward before has dropped them
        seed_all(seed, self._gpus)

    def _inferred(self) -> CallPlan:
        """The plan by shapes; of a model that leaves layers out by chance, that of several draws together."""
        moved = False

        def run(seed: int, rows: int, shared: frozenset[Unit]) -> Shapes:
            nonlocal moved
            self._begin(seed)
            before = generator_states()
            with NoDropout():
                shapes = self._shapes(self._made_up.batch(rows, seed), shared)
            moved = moved or generator_states() != before
            return shapes

        plans: list[CallPlan] = []
        refused: GuaranteeError | None = None
        for seed in range(self._seed, self._seed + self._chances):
            try:
                plans.append(infer_call_plan(partial(run, seed), 2 * self._views, 3 * self._views))
            except (SameForAllError, OtherwiseDividedError):
                raise
            except GuaranteeError as error:
                refused = error
            if not moved:
                break
        if not plans:
            raise refused or GuaranteeError(APART)
        return replace(merged(plans), by_chance=moved)

    def _checked(self, plan: CallPlan) -> CallPlan:
        few = min(self._made_up.rows, _FEW * self._views)
        rows = max(self._views, (self._made_up.rows if self._full else few) // self._views * self._views)
        alike = next((SameForAllError(call.unit) for call in plan.calls if call.returns != "beside"), None)
        if error := self._widened or alike:
            self._compare_function(plan, error)
        base, evidence, moved = self._base(plan, rows, self._seed)
        after = AttributeSnapshot(self._module)
        written = frozenset(map(id, self._start.written()))
        drifts = after.differs(self._start) is not None
        for at, kind in enumerate(self._made_up.kinds):
            if self._possible(kind):
                self._compare_kind(plan, base, evidence, kind, at, after)
        self._compare_again(plan, base, evidence, after if drifts else None)
        for kind in ("reverse", *(("reverse, with gaps",) if "NaN" in self._made_up.kinds else ())):
            self._compare_reverse(plan, rows, kind)
        if moved and self._full:
            for chance in range(1, _CHANCES + 1):
                small, seen, _ = self._base(plan, few, self._seed + chance)
                kinds = self._made_up.kinds[:2]
                self._compare_kind(plan, small, seen, kinds[chance % len(kinds)], 0, None)
        return replace(plan, written=written)

    def _compare_function(self, plan: CallPlan, error: GuaranteeError) -> None:
        """Refuse a module that is run example by example and computes something else then: it mixes examples.

        Their privacy would be kept, but another function would be trained. So this is a coarse look.
        """
        rows = 3 * self._views
        self._begin(self._seed)
        before = generator_states()
        with NoDropout():
            plain = self._shapes(self._made_up.batch(rows, self._seed), plan.shared).output
            if self._anywhere(generator_states() != before):
                return
            self._begin(self._seed)
            every = tuple(range(rows // self._views))
            evidence = Evidence(plan, len(every), self._views, every, self._seed, keep=True)
            self._run(plan, self._made_up.batch(rows, self._seed), evidence)
        for leaf, along, found in zip(plain, plan.output, evidence.output, strict=False):
            if along is not None and isinstance(leaf, Tensor) and leaf.is_floating_point():
                joint = torch.stack([found[each] for each in every]).double().nan_to_num()
                split = leaf.unflatten(along, (len(every), -1)).movedim(along, 0)  # type: ignore[no-untyped-call]
                apart = torch.linalg.vector_norm(joint - split.cpu().double().nan_to_num())
                # Outputs are often nearly the same for all examples; what another function does shows in the rest.
                varies = _COARSE * torch.linalg.vector_norm(joint - joint.mean(0))
                rounding = min(_COARSE, _ROUNDING * self._eps(leaf)) * torch.linalg.vector_norm(joint)
                if not apart <= torch.maximum(varies, rounding):
                    raise GuaranteeError(str(error))

    def _eps(self, leaf: Tensor) -> float:
        kind = self._gpus[0].type if self._gpus else "cpu"
        within = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else leaf.dtype
        return max(torch.finfo(within).eps, torch.finfo(leaf.dtype).eps)

    def _base(self, plan: CallPlan, rows: int, seed: int) -> tuple[Batch, Evidence, bool]:
        base = self._made_up.batch(rows, seed)
        self._begin(seed)
        before = generator_states()
        evidence = self._run(plan, base, Evidence(plan, rows // self._views, self._views, (), seed))
        return base, evidence, generator_states() != before

    def _run(self, plan: CallPlan, batch: Batch, evidence: Evidence) -> Evidence:
        evidence.pivots = _pivots(evidence.examples, self._seed) if not evidence.pivots else evidence.pivots
        evidence.keep, evidence.in_order = evidence.keep or self._keep, self._deterministic
        # A model may change its input.
        args, kwargs = pytree.tree_map_only(Tensor, torch.clone, batch)
        try:
            self._model.probe(args, kwargs, plan, self._views, evidence)
        except CallsChanged as changed:
            if changed.unit is None or (plan.by_chance and self._chances == _CHANCES):
                raise _PlanAgainError from None
            raise OtherwiseDividedError(changed.unit) from None
        return evidence

    def _compare_kind(
        self, plan: CallPlan, base: Batch, evidence: Evidence, kind: str, at: int, after: AttributeSnapshot | None
    ) -> None:
        """Run a batch in which one kind of thing is planted in other examples."""
        stay = _staying(evidence.pivots, kind)
        others = [each for each in range(evidence.examples) if each not in stay]
        rows = [each * self._views + view for each in others for view in range(self._views)]
        batch = self._made_up.batch(
            evidence.examples * self._views, evidence.seed + 1 + at, kind, base=base, others=rows
        )
        self._begin(evidence.seed)
        found = self._made_evidence(plan, batch, evidence, stay, others, kind)
        if found is None:
            return
        self._judge(plan, base, evidence, found, f" when others hold {_SAID[kind]}", kind)
        left = AttributeSnapshot(self._module).differs(after, self._start) if after is not None else None
        self._refuse(None if left is None else GuaranteeError(_KEPT.format(left)))

    def _made_evidence(
        self, plan: CallPlan, batch: Batch, like: Evidence, stay: Sequence[int], others: Sequence[int], kind: str
    ) -> Evidence | None:
        made = Evidence(plan, like.examples, like.views, tuple(stay), like.seed, others)
        try:
            return self._run(plan, batch, made)
        except (GuaranteeError, _PlanAgainError, _DifferenceSeenError):
            raise
        except Exception as error:  # noqa: BLE001 - the model's own, on what it may never meet
            self.skipped[_SAID[kind]] = type(error.__cause__ or error).__name__
            return None

    def _compare_again(self, plan: CallPlan, base: Batch, evidence: Evidence, after: AttributeSnapshot | None) -> None:
        """Run the base batch again from what a changed one has left behind: it is what it was."""
        expected = evidence
        if after is not None:  # something that every forward changes, such as a counter
            left = AttributeSnapshot(self._module)
            self._begin(evidence.seed, after)
            expected = self._run(plan, base, replace(evidence, calls=[], back={}, output=[]))
            left.put_back()
        put_root_together(self._module)
        seed_all(evidence.seed, self._gpus)
        again = self._run(plan, base, replace(evidence, calls=[], back={}, output=[]))
        if self._anywhere(_difference(expected, again, evidence.pivots, self._floor) is not None):
            self._settle(plan, base, evidence)
            if self._anywhere(_difference(expected, again, evidence.pivots, self._floor) is not None):
                raise GuaranteeError(_KEPT.format("what the next forward computes"))

    def _compare_reverse(self, plan: CallPlan, rows: int, kind: str) -> None:
        """Begin with a batch in which everything is special, and let one row that is no pivot be ordinary."""
        examples = rows // self._views
        pivots = _pivots(examples, self._seed)
        free = [each for each in range(examples) if each not in pivots]
        if not free or not pivots or not self._possible(kind):
            return
        base = self._made_up.batch(rows, self._seed, kind)
        self._begin(self._seed)
        first = self._made_evidence(
            plan, base, Evidence(plan, examples, self._views, pivots, self._seed), pivots, (), kind
        )
        if first is None:
            return
        one = free[self._seed % len(free)]
        which = range(one * self._views, (one + 1) * self._views)
        batch = self._made_up.batch(rows, self._seed + 1, base=base, others=list(which))
        self._begin(self._seed)
        second = self._made_evidence(plan, batch, first, pivots, [one], kind)
        if second is not None:
            self._judge(plan, base, first, second, " when one other is ordinary and the rest is not", kind)

    def _possible(self, kind: str) -> bool:
        """Whether the model can be run on such a batch: tried on a CPU first, where a wrong index ends nothing."""
        if not self._gpus or self._model.sharded:
            return True
        if kind not in self._failures:
            rows = 2 * self._views
            try:
                with torch.no_grad():
                    self._on_cpu = self._on_cpu or _on_cpu(self._module)
                    args, kwargs = pytree.tree_map_only(Tensor, Tensor.cpu, self._made_up.batch(rows, 1, kind))
                    self._on_cpu(*args, **kwargs)
                self._failures[kind] = None
            except Exception as error:  # noqa: BLE001 - the model's own, on what it may never meet
                self._failures[kind] = type(error).__name__
        why = self._failures[kind]
        if why is not None:
            self.skipped[_SAID[kind]] = why
        return why is None

    def _judge(self, plan: CallPlan, base: Batch, expected: Evidence, found: Evidence, when: str, kind: str) -> None:
        difference = _difference(expected, found, found.pivots, self._floor) if found.pivots else None
        if not self._anywhere(difference is not None):
            return
        self._settle(plan, base, expected)
        difference = _difference(expected, found, found.pivots, self._floor) if found.pivots else None
        self._refuse(self._refusal(difference, expected, found, when, kind) if difference else None)

    def _settle(self, plan: CallPlan, base: Batch, evidence: Evidence) -> None:
        """Find out whether a difference can be the order of addition, which may change from run to run.

        Some kernels of a GPU add in another order once in many runs, so that a few repeats need not show it: the first
        difference of all begins the check anew with deterministic algorithms, where what mixes examples does so again.
        If the same batch differs even then, values are compared by how much it does.

        The run at hand counts among the repeats: a kernel that is compiled or chosen in the first runs may round
        otherwise from then on, and is no reason to refuse a model.
        """
        if not self._deterministic:
            raise _DifferenceSeenError
        runs = [evidence]
        for _ in range(2):
            self._begin(evidence.seed)
            made = replace(evidence, calls=[], back={}, output=[])
            runs.append(self._run(plan, base, made))
        pairs = list(pairwise(runs))
        differs = [_difference(one, other, evidence.pivots, None) is not None for one, other in pairs]
        if not self._anywhere(any(differs)):
            return
        if not self._keep:
            self._refuse(GuaranteeError(_ANOTHER) if any(_grossly(*pair) for pair in pairs) else None)
            raise _DifferenceSeenError
        self._floor = self._floor or _floor_of(*pairs[0 if differs[0] else 1])

    def _refusal(self, found: _Difference, expected: Evidence, made: Evidence, when: str, kind: str) -> GuaranteeError:
        if expected.draws != made.draws:
            named = "the private module" if found.unit is None else found.unit.title
            return GuaranteeError(
                f"before {named} random numbers are drawn by the values of the examples (as gamma, Dirichlet and "
                "Poisson samplers do), so that one example decides what others draw: draw as many numbers for every "
                "example (torch.rand, torch.randn), and transform those."
            )
        config = getattr(self._module, "config", None)
        if kind in {"padding", "gaps", "reverse"} and getattr(config, "_attn_implementation", None) == "sdpa":
            when += (
                " (models of Hugging Face drop the attention mask when no row has padding, and another kernel rounds "
                'otherwise: pass attn_implementation="eager")'
            )
        if found.unit is None:
            return GuaranteeError(
                "the output of the private module for one example, or a tensor that it keeps as an attribute, depends "
                f"on other examples{when}: {APART}."
            )
        if not found.backward or found.unit.direct_parameters:
            return OtherwiseDividedError(found.unit, when)
        return GuaranteeError(
            f"the gradients that flow back to {found.unit.title} for one example depend on other examples{when} (a "
            f"hook, or a function with a backward of its own?): {APART}."
        )

    def _anywhere(self, seen: bool) -> bool:
        """Whether something is seen here or, where processes run the model together, in any of them."""
        return Processes().anywhere(seen) if self._model.sharded else seen

    def _refuse(self, refused: GuaranteeError | None) -> None:
        """Refuse the model if this process does, or another that runs it together with this one."""
        if self._anywhere(refused is not None):
            if self._model.sharded:  # one that went on with another unit while others stop would wait for them in vain
                raise GuaranteeError(_ELSEWHERE if refused is None else str(refused))
            raise refused or GuaranteeError(_ELSEWHERE)


class _PlanAgainError(Exception):
    """Layers were left out that were planned for, or weights are used in another way than it seemed."""


_OTHER_CALLS = (
    "the private module calls other layers for other examples: let the calls depend neither on the number of examples "
    "nor on their values."
)


class _DifferenceSeenError(Exception):
    """Two runs differ, perhaps by the order of addition alone."""


_ANOTHER = (
    "the private module computes something else when it is run on the same examples again, with the same seeds, so "
    "that it cannot be seen whether it keeps examples apart: draw random numbers by torch's, NumPy's or Python's own "
    "generators, which seeds fix, and keep nothing from one forward to the next."
)
_KEPT = (
    "the forward of the private module leaves something behind that depends on its examples, which would carry facts "
    "about them without noise: {} differs for other made-up examples. Compute it outside, from public data, or drop "
    "it; what every forward changes alike, such as a counter, is fine."
)
_SAID = {
    "times 2^-10": "much smaller numbers",
    "times 2^10": "larger numbers",
    "times 2^20": "much larger numbers",
    "negative values": "negative numbers",
    "NaN": "NaN",
    "infinities": "infinities",
    "padding": "padding",
    "gaps": "masks with gaps",
    "one token": "one token everywhere",
    "one label": "one label everywhere",
    "other values": "other values",
    "reverse": "ordinary values",
    "reverse, with gaps": "no NaN",
}


def _pivots(examples: int, seed: int) -> tuple[int, ...]:
    """The examples that stay: at most three, with another between any two (B2)."""
    if examples < 2:
        return ()
    if examples < 4:
        return (seed % examples,)
    if Processes().rank % 2:  # a row that meets the same row of another process meets one that changes there
        return (1, 3 + seed % (examples - 6), examples - 2) if examples > 6 else (1,)
    if examples < 6:
        return 0, examples - 1
    return 0, 2 + seed % (examples - 4), examples - 1


def _staying(pivots: Sequence[int], kind: str) -> Sequence[int]:
    """Which pivots stay: mostly all but the first, so that the first row, too, has every kind of thing (B3)."""
    if kind in {"times 2^-10", "one token", "other values"} or len(pivots) < 2:
        return pivots
    if kind in {"infinities", "one label"}:
        return pivots[:1]
    return pivots[1:2] if kind == "times 2^10" else pivots[1:]


def _drawn(like: Tensor, seed: int) -> Tensor:
    """Normal numbers drawn where they are used: those of a large head would take a CPU many steps' time."""
    draw = torch.Generator(like.device).manual_seed(seed)
    return torch.randn(like.shape, generator=draw, dtype=like.dtype, device=like.device)


def _difference(one: Evidence, other: Evidence, pivots: Sequence[int], floor: "Evidence | None") -> _Difference | None:
    """The first difference between what layers saw of some examples, forward first."""
    for at, ((unit, seen), (called, again)) in enumerate(zip(one.calls, other.calls, strict=False)):
        allowed = floor.calls[at][1] if floor else None
        if unit is not called or not _same(seen, again, pivots, allowed):
            return _Difference(called)
    if len(one.calls) != len(other.calls):
        longer = max(one.calls, other.calls, key=len)
        return _Difference(longer[min(len(one.calls), len(other.calls))][0])
    both = min(len(one.output), len(other.output))
    if not _same(one.output[:both], other.output[:both], pivots, floor.output if floor else None):
        return _Difference(None)
    for at, name in sorted({**one.back, **other.back}, reverse=True):
        allowed = floor.back.get((at, name)) if floor else None
        none = [dict.fromkeys(pivots, _ZEROS)]
        if not _same(one.back.get((at, name), none), other.back.get((at, name), none), pivots, allowed):
            return _Difference(one.plan.calls[at].unit, backward=True)
    return None


def _same(one: list[Any], other: list[Any], pivots: Sequence[int], allowed: list[Any] | None) -> bool:
    if len(one) != len(other):
        return False
    for at, (left, right) in enumerate(zip(one, other, strict=True)):
        room = allowed[at] if allowed is not None else None
        if isinstance(left, dict) and isinstance(right, dict):
            if not all(_equal(left.get(e), right.get(e), max(room.values()) if room else 0.0) for e in pivots):
                return False
        elif not _equal(left, right, room or 0.0):
            return False
    return True


def _equal(one: Any, other: Any, room: float) -> bool:
    if isinstance(one, Tensor) and other is _ZEROS:
        other = torch.zeros_like(one)
    elif isinstance(other, Tensor) and one is _ZEROS:
        one = torch.zeros_like(other)
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        if one.shape != other.shape or one.dtype != other.dtype:
            return False
        apart = _apart(one, other)
        return bool(apart <= _TIMES * room)
    return type(one) is type(other) and bool(one == other or (one != one and other != other))  # noqa: PLR0124 - NaN


def _apart(one: Tensor, other: Tensor) -> float:
    """How far two tensors differ at most; infinitely where one is not finite and the other is something else."""
    left, right = one.double(), other.double()
    same = (left == right) | (left.isnan() & right.isnan())
    return float(torch.where(same, 0.0, (left - right).abs().nan_to_num(torch.inf)).max()) if one.numel() else 0.0


def _grossly(one: Evidence, other: Evidence) -> bool:
    """Whether two runs on the same batch differ by more than kernels may that round otherwise once they are warm."""

    def lengths(run: Evidence) -> list[float]:
        leaves = [seen for _, seen in run.calls] + [run.output] + [run.back[key] for key in sorted(run.back)]
        return [each.length for each in pytree.tree_leaves(leaves) if isinstance(each, Digest)]

    both = list(zip(lengths(one), lengths(other), strict=False))
    return any(not abs(a - b) <= _COARSE * max(a, b) for a, b in both if math.isfinite(a) or math.isfinite(b))


def _floor_of(one: Evidence, other: Evidence) -> Evidence:
    """How far two runs on the same batch differ, at every place; refused where it is more than rounding (B4)."""

    def room(left: Any, right: Any) -> Any:
        if isinstance(left, dict):
            return {e: room(left[e], right[e]) for e in left}
        if not isinstance(left, Tensor) or not isinstance(right, Tensor) or not left.is_floating_point():
            return 0.0
        apart = _apart(left, right)
        if not apart <= _ROUNDING * torch.finfo(left.dtype).eps * float(left.double().abs().nan_to_num().max()):
            raise GuaranteeError(_ANOTHER)
        return apart

    def rooms(left: list[Any], right: list[Any]) -> list[Any]:
        return [room(a, b) for a, b in zip(left, right, strict=True)]

    calls = [(unit, rooms(seen, again)) for (unit, seen), (_, again) in zip(one.calls, other.calls, strict=True)]
    back = {key: rooms(seen, other.back.get(key, seen)) for key, seen in one.back.items()}
    return replace(one, calls=calls, back=back, output=rooms(one.output, other.output))


def _on_cpu(module: nn.Module) -> nn.Module:
    """A copy of a model that takes no room on the GPU, be it for a moment."""
    ours: dict[int, Any] = {id(p): nn.Parameter(p.detach().cpu(), p.requires_grad) for p in module.parameters()}
    ours |= {id(buffer): buffer.detach().cpu() for buffer in module.buffers()}
    return copy.deepcopy(module, ours).cpu()


@contextmanager
def _deterministic() -> Iterator[None]:
    """Ask torch for algorithms that add in the same order every time."""
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of operations that have none
            yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])


def _order_attention(ends: Sequence[Tensor]) -> None:
    """Let the backward of fused attention add in the same order every time.

    Its kernels look at the flag of deterministic algorithms themselves, and pass over one that only warns; matrix
    products would refuse to run under one that does more, unless the environment was set before torch was loaded.
    """
    nodes = [leaf.grad_fn for leaf in ends]
    seen = set(nodes)
    while nodes:
        node: Any = nodes.pop()
        if "Attention" in node.name():
            node.register_prehook(lambda _: torch.use_deterministic_algorithms(True))
            node.register_hook(lambda *_: torch.use_deterministic_algorithms(True, warn_only=True))
        further = {parent for parent, _ in node.next_functions if parent is not None} - seen
        seen |= further
        nodes.extend(further)


@contextmanager
def _no_silent_weights(module: nn.Module, *, sharded: bool = False) -> Iterator[None]:
    """Let no layer be silent by having only zeros: what lies behind it would not show.

    Of a sharded model that goes for parameters of parts that are put together when they run. What the model holds
    itself is put together anew in every run, and changes in it are lost.
    """
    trained = [p for p in module.parameters() if p.requires_grad and p.numel() > 1]
    # Of a parameter that is sharded each process looks at its own piece, which the others get from it.
    pieces = [
        cast("Any", p.detach()).to_local() if sharded else p.detach() for p in trained if is_sharded(p) or not sharded
    ]
    silent = [p for p in pieces if p.numel() and not bool(p.any())]
    for parameter in silent:  # the same wherever the same piece is held, and none of the user's randomness
        parameter.normal_(std=0.02, generator=torch.Generator(parameter.device).manual_seed(parameter.numel()))
    try:
        yield
    finally:
        for parameter in silent:
            parameter.zero_()
        if sharded:
            put_away(module)
        put_root_together(module)
