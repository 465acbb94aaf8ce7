"""A model is tried on made-up examples before it sees others: together and alone, and twice where chance decides."""

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils import _pytree as pytree

from inid.dpsgd.parallel.distributed import Processes
from inid.dpsgd.parallel.sharded_parameters import is_sharded, while_whole
from inid.dpsgd.rows.wrapped_forward import WRITTEN, parts_of, tensors_of
from inid.dpsgd.trial.call_plan import CallPlan, OtherwiseDividedError, SameForAllError, found_out
from inid.dpsgd.trial.examples import EXAMPLES, MadeUp
from inid.dpsgd.trial.fixed_randomness import generator_states, no_randomness, sow, unspent
from inid.dpsgd.trial.full_batch import AmongMany
from inid.dpsgd.trial.plain_state import PlainState
from inid.dpsgd.trial.state import looked_for_state
from inid.dpsgd.trial.trace import ForwardTrace, Trace
from inid.dpsgd.trial.validation import check_module
from inid.errors import GuaranteeError

__all__ = ["Trial"]

_PIECE = 2**24  # numbers that are added up at a time
_COARSE = (torch.bfloat16, torch.float16)
_SHOWN = 300  # characters of an error
_CHANCES = 8  # further looks where single random numbers decide
_LARGE = 2.0**20  # how much larger than made-up ones the examples are on which a maximum shows
_SEEDS = count(1)  # another for every look
_ELSEWHERE = "another process, which runs the private module together with this one, refuses it: see what it says."


@dataclass(frozen=True)
class Trial:
    """A model, and how it is tried.

    Attributes:
        run: Runs the model inside a context, which comes first, on arguments and arguments by name; last comes what
            makes a trace for a number of examples.
        made_up: The examples.
        module: The model.
        device: Where it is trained.
        sharded: Whether its parameters are spread over processes.
        thorough: Whether what flows back is also looked at among many, which takes a backward over a full batch.
        widen: Takes the parent of a layer as one layer; may refuse.
        whole: Takes modules with bare parameters as one layer each; says whether there are any.
    """

    run: Callable[..., Trace]
    made_up: MadeUp
    module: nn.Module
    device: torch.device
    sharded: bool
    thorough: bool
    widen: Callable[[SameForAllError | OtherwiseDividedError], None]
    whole: Callable[[], bool]

    def plan(self, alone: Callable[[], object]) -> CallPlan:
        """The plan of the model's calls.

        Args:
            alone: Runs the model on the batch at hand.

        Raises:
            ArgumentError: A part of it is refused by name, in the mode that it is in now.
            GuaranteeError: The examples do not stay apart, or the model keeps what it saw of them, or cannot be tried.
        """
        check_module(self.module)
        try:
            return self._planned(alone)
        except GuaranteeError:
            if not self.whole():
                raise
            return self._planned(alone)

    def _planned(self, alone: Callable[[], object]) -> CallPlan:
        # In full precision; models of several types (a frozen part in bfloat16) may run under autocast alone.
        precisions = [torch.autocast(self.device.type, enabled=False)]
        if torch.is_autocast_enabled(self.device.type):
            precisions.append(torch.autocast(self.device.type))
        for precision in precisions:
            try:
                with precision:
                    return self._looked_at()
            except GuaranteeError:
                raise
            except Exception as error:  # noqa: BLE001 - whatever the model raises
                failed = error
        with torch.no_grad():
            alone()  # a mistake in the model itself is better reported as such
        shown = f"It raised {type(failed).__name__}: {' '.join(str(failed).split())[:_SHOWN]}"  # no data is in it
        raise GuaranteeError(
            "the private module cannot be run on made-up examples, three together and each alone, to see that it "
            "keeps examples apart: keep the examples in the first dimension of every layer, and pass example= "
            f"(three made-up or public examples, as the model is called with) where random ones are not valid. {shown}"
        ) from failed

    def _looked_at(self) -> CallPlan:
        most: int | None = None  # for tokens; then 2, for what may also be a mask
        batches = self.made_up.batches()
        start = PlainState(self.module)

        with no_randomness(self.module) as fixed, _arguments_as_they_are(), _put_back(start), unspent():
            # Models run inside `fixed`; comparisons do not, in which every call would take longer.
            dice = _Dice(partial(self.run, fixed), [self.device] if self.device.type == "cuda" else [])

            joint: list[Trace] = []  # the latest run on the three together, if it left everything as it was

            def run(*args: Any) -> Trace:
                start.put_back()
                if args[0] is not batches[0][0]:
                    return dice.run(*args)
                joint.clear()
                versions = _versions(batches[0])
                trace = dice.run(*args)
                if PlainState(self.module).differs(start) is None and _versions(batches[0]) == versions:
                    joint.append(trace)
                return trace

            before = _values(self.module, sharded=self.sharded)
            while True:
                try:
                    plan = self._agreed(run, batches)
                    break
                except (SameForAllError, OtherwiseDividedError) as error:
                    self.widen(error)
                except GuaranteeError:
                    raise
                except Exception:
                    if most is not None:
                        raise
                    most, batches = 2, self.made_up.batches(2)
            if self._anywhere(fixed.met or self.made_up.names_kinds):
                fixed.low = True
                self._look_again(run, self.made_up.batches(alike=True))
                fixed.low = False
            for _ in range(_CHANCES if self._anywhere(dice.thrown) else 0):
                dice.throw_again()
                self._look_again(run, batches)
            known = None if self._anywhere(not joint) else joint[0]
            joint.clear()
            left, three = self._left_behind(dice.run, start, plan, most, batches[0], known)
            self._look_among_many(run, batches[0], plan, three)
            # What is written once, in the first run, follows from made-up examples alone: tables filled in late.
            after = _values(self.module, sharded=self.sharded)
            if self._anywhere(_written(before, after)):
                self._agreed(run, batches)
                if self._anywhere(_written(after, _values(self.module, sharded=self.sharded))):
                    raise GuaranteeError(WRITTEN)
        if before != after:
            left.put_back()  # such a table stays, and with it the attribute that says that it is there
        return plan

    def _left_behind(
        self,
        run: Callable[..., Trace],
        start: PlainState,
        plan: CallPlan,
        most: int | None,
        batch: Any,
        known: Trace | None,
    ) -> tuple[PlainState, Trace]:
        """The state that a forward leaves behind, whatever its examples, and the run on a batch of three.

        Args:
            run: Runs the model.
            start: The state that it is in.
            plan: The plan of its calls.
            most: What whole numbers stay below.
            batch: The three examples.
            known: A run on them that left everything as it was, if there has been one.

        Raises:
            GuaranteeError: It depends on them.
        """
        times = (1.0, -1.0, _LARGE) if self.made_up.may_grow else (1.0,)
        others = [self.made_up.others(most, times=each) for each in times]
        left, three, refused = looked_for_state(run, self.module, start, plan, batch, others, known)
        self._refuse(refused)
        return left, three

    def _agreed(self, run: Callable[..., Trace], batches: list[Any]) -> CallPlan:
        """What the runs agree on: as the model computes or, where that is too coarse, in float64.

        A trained network can be so steep that what rounds differently for one and for three examples grows beyond the
        tolerance. In float64 it stays below, and mixing shows as before, since the tolerance shrinks too.
        """
        plan, refused = None, None
        try:
            plan = found_out(run, batches)
        except SameForAllError:
            raise
        except GuaranteeError as error:
            refused = error
        if not self._anywhere(plan is None):
            self._confirm(run, batches)
        else:
            plan = None
            with suppress(Exception), _in_float64(self.module):
                plan = found_out(run, pytree.tree_map_only(Tensor, _finer, batches))
            self._refuse(None if plan else refused or GuaranteeError(_ELSEWHERE))
        assert plan is not None  # noqa: S101 - for the type checker: without one it was refused
        return plan

    def _anywhere(self, seen: bool) -> bool:
        """Whether something is seen here or, where processes run the model together, in any of them.

        One that looks again while another does not would wait for it in vain, or read what was sent for something else.
        """
        return Processes().anywhere(seen) if self.sharded else seen

    def _refuse(self, refused: GuaranteeError | None) -> None:
        """Refuse the model if this process does, or another that runs it together with this one."""
        if self._anywhere(refused is not None):
            raise refused or GuaranteeError(_ELSEWHERE)

    def _confirm(self, run: Callable[..., Trace], batches: list[Any]) -> None:
        """Compare in float64 too what is partly in bfloat16, whose tolerance is half of the largest number.

        What cannot run in float64 says nothing.

        Raises:
            GuaranteeError: The examples do not stay apart.
        """
        if all(each.dtype not in _COARSE for each in tensors_of(parts_of(self.module))):
            return
        refused = None
        try:
            with _in_float64(self.module):
                found_out(run, pytree.tree_map_only(Tensor, _finer, batches))
        except GuaranteeError as error:
            refused = error
        except Exception:  # noqa: BLE001, S110 - a model that casts by itself
            pass
        self._refuse(refused)

    def _look_again(self, run: Callable[..., Trace], alike: list[Any]) -> None:
        """Look at what the first look may not have met.

        In that, random tensors are large and no two examples are of one kind: what is done with rows where a number is
        below a limit, or among examples of a kind, does not show. Single random numbers decide once, so they are thrown
        again. What fails here, or is not a number, says nothing.
        """
        gaps: list[bool] = []

        def noted(*args: Any) -> Trace:
            trace = run(*args)
            gaps.append(trace.has_gaps())
            return trace

        try:
            self._agreed(noted, alike)
        except SameForAllError:
            return
        except GuaranteeError:
            if not any(gaps):
                raise
        except Exception:  # noqa: BLE001 - the model's own, in a case that it may never meet
            return

    def _look_among_many(self, run: Callable[..., Trace], batch: Any, plan: CallPlan, three: Trace) -> None:
        """Look whether three examples are the same among as many as there are; in float64 where rounding may differ."""
        if self.made_up.rows <= EXAMPLES:
            return
        refused = None
        try:
            self._compare_among_many(run, batch, plan, three)
        except GuaranteeError as error:
            refused = error
        if not self._anywhere(refused is not None):
            return
        fine = False
        try:
            with _in_float64(self.module):
                fine = self._compare_among_many(run, pytree.tree_map_only(Tensor, _finer, batch), plan)
        except GuaranteeError as error:
            refused = error
        self._refuse(None if fine else refused or GuaranteeError(_ELSEWHERE))

    def _compare_among_many(
        self, run: Callable[..., Trace], batch: Any, plan: CallPlan, three: Trace | None = None
    ) -> bool:
        """Whether it could be seen; what fails in the model's own code says nothing.

        Args:
            run: Runs the model.
            batch: The three examples.
            plan: The plan of its calls.
            three: A run on them, where there has been one like those to come, with gradients or without.

        Raises:
            GuaranteeError: Others change what three examples are, or what flows back to them.
        """
        begin = partial(AmongMany, shared=plan.shared, plan=plan)
        try:
            many = self.made_up.among_many(batch)  # first of all: a model may change its input
            if self.thorough and not self.sharded:
                if three is None or not three.gradients:
                    three = run(*batch, partial(Trace, shared=plan.shared))
                run(*many, partial(begin, three=three))
                return True
            three = three.forward_alone() if three else run(*batch, partial(ForwardTrace, shared=plan.shared))
            with saved_tensors_hooks(lambda _: None, _not_kept):
                run(*many, partial(begin, three=three))
        except GuaranteeError:
            raise
        except Exception:  # noqa: BLE001 - the batch at hand will meet it too
            return False
        return True


@contextmanager
def _put_back(start: PlainState) -> Iterator[None]:
    """Leave nothing of the model's own that runs on made-up examples have changed."""
    try:
        yield
    finally:
        start.put_back()


def _not_kept(_: object) -> Tensor:
    raise RuntimeError("nothing is kept of a run that is not to be differentiated")


@contextmanager
def _in_float64(module: nn.Module) -> Iterator[None]:
    """Let a model compute in float64; the tensors come back as they were, to the bit."""
    held = [each for each in tensors_of(parts_of(module)) if not is_sharded(each)]
    with _replaced(held), while_whole(module, _replaced):
        yield


@contextmanager
def _replaced(tensors: Iterable[Tensor]) -> Iterator[None]:
    before = [(each, each.data) for each in tensors if each.is_floating_point()]
    try:
        for tensor, values in before:
            tensor.data = _finer(values)
        yield
    finally:
        for tensor, values in before:
            tensor.data = values


def _finer(tensor: Tensor) -> Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor


@contextmanager
def _arguments_as_they_are() -> Iterator[None]:
    """Keep cuDNN from rounding float32 to TF32, as it does by default.

    Its kernels go by the number of examples. What that rounds differently grows on the way back through a trained
    network, up to what mixing would give, where its gradients change quickly.
    """
    library: Any = torch.backends.cudnn
    parts = [part for part in (getattr(library, "conv", None), getattr(library, "rnn", None)) if part is not None]
    name, wanted = ("fp32_precision", "ieee") if parts else ("allow_tf32", False)  # torch below 2.9 has one setting
    before = [(part, getattr(part, name)) for part in parts or [library]]
    try:
        for part, _ in before:
            setattr(part, name, wanted)
        yield
    finally:
        for part, value in before:
            setattr(part, name, value)


class _Dice:
    """Runs a model so that every run draws the same single numbers; used where none is spent (`unspent`).

    Attributes:
        thrown: Whether there were any.
    """

    def __init__(self, run: Callable[..., Trace], gpus: list[torch.device]) -> None:
        self._run, self._gpus = run, gpus
        self.thrown = False
        self.throw_again()

    def throw_again(self) -> None:
        """Let other numbers be drawn."""
        self._seed = next(_SEEDS)
        sow(self._seed)
        self._start = generator_states()

    def run(self, *args: Any) -> Trace:
        """One run."""
        sow(self._seed)
        with torch.random.fork_rng(self._gpus) if self._gpus else nullcontext():
            trace = self._run(*args)
        self.thrown = self.thrown or generator_states() != self._start
        return trace


def _versions(batch: Any) -> list[int]:
    """How often each tensor of a batch was written to: a model may change its input."""
    return [leaf._version for leaf in pytree.tree_leaves(batch) if isinstance(leaf, Tensor)]  # noqa: SLF001 - shows it


def _written(before: dict[int, tuple[float, float]], after: dict[int, tuple[float, float]]) -> bool:
    return any(before.get(at, value) != value for at, value in after.items())


@torch.no_grad()
def _values(module: nn.Module, *, sharded: bool) -> dict[int, tuple[float, float]]:
    """Sums over each buffer and parameter, which show what was written to it by whatever way."""
    found = {}
    for tensor in tensors_of(parts_of(module), sharded=sharded):
        if not tensor.is_complex() and tensor.layout == torch.strided:
            pieces = [each.double() for each in torch.split(tensor.detach().flatten(), _PIECE)]
            sums = [(float(each.sum()), float(each.dot(each))) for each in pieces]
            if not all(math.isfinite(number) for pair in sums for number in pair):
                pieces = [each.nan_to_num() for each in pieces]
                sums = [(float(each.sum()), float(each.square().sum())) for each in pieces]
            found[id(tensor)] = sum(one for one, _ in sums), sum(two for _, two in sums)
    return found
