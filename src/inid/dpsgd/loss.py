"""The loss of a private step, taken row by row: `private.loss`, `private.backward` and `private.frozen`.

**The contract.** A loss is a function of one row's outputs and targets, which returns one number; what it captures is
constant. Outputs are what the latest forward returned, targets what the loader (or a frozen module) gave, and both are
told by identity: whatever is made of them is made inside the function. So no row can reach the loss of another, and no
statistics of the batch have a way in. The function runs under `vmap`; in a loop over the rows where `vmap` cannot run
it; and for all rows at once where it is one of torch's own (`known_loss`).

**The backward** from the outputs to the layers is begun here and nowhere else. The loss that is returned is not
connected to the model by autograd: its own backward begins that of the model, with the gradients that were worked out
row by row. A backward of anything else that reaches a layer is refused there.
"""

import inspect
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.func import vmap
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from inid.dpsgd.grad_sample.call_plan import CallPlan, Probe
from inid.dpsgd.grad_sample.wrapped_forward import first_tensor, output_leaves, rows_in, signature_of
from inid.dpsgd.independence.check import Independence
from inid.dpsgd.per_example_gradients import PerExampleGradients
from inid.dpsgd.sampling.batch_state import BatchState
from inid.dpsgd.step_state import NOT_PER_SAMPLE, ForwardPass
from inid.errors import ArgumentError, GuaranteeError

_Constants = dict[int, tuple[Tensor, int]]  # tensors by `id`, and how often each was written to


class _LossInputs(NamedTuple):
    """What a loss is a function of: leaves, the dimension along which each has its rows, and their number."""

    leaves: list[Any]
    along: list[int | None]
    form: Any
    examples: int


class PerSampleLoss:
    """Takes losses over what the latest forward of a private model returned."""

    def __init__(self, gradients: PerExampleGradients, *, mean: bool) -> None:
        self._gradients, self._state, self._mean = gradients, gradients.state, mean
        self._drawn = gradients.state.drawn
        self._constants: dict[object, _Constants] = {}
        self._looped: set[object] = set()

    def loss(self, loss_fn: Callable[..., Tensor], outputs: Any, targets: tuple[Any, ...]) -> Tensor:
        """The mean or sum over the rows of what a function gives for each; its backward is that of the model."""
        if not torch.is_grad_enabled():
            return self._reduced(self._losses(loss_fn, _plain(outputs, targets), None))
        value, send = self._begun(loss_fn, outputs, targets)
        anchor = torch.empty((), device=value.device, dtype=value.dtype, requires_grad=True)
        loss: Tensor = _Loss.apply(anchor, value, send)  # type: ignore[no-untyped-call]
        return loss

    def backward(self, loss_fn: Callable[..., Tensor], outputs: Any, targets: tuple[Any, ...]) -> Tensor:
        """The same and its backward; gives the loss, detached."""
        value, send = self._begun(loss_fn, outputs, targets)
        send()
        return value

    def _begun(
        self, loss_fn: Callable[..., Tensor], outputs: Any, targets: tuple[Any, ...]
    ) -> tuple[Tensor, Callable[[], None]]:
        if not callable(loss_fn):
            raise GuaranteeError(NOT_PER_SAMPLE)
        forward = self._gradients.forward_to_differentiate()
        inputs = self._identified(forward, outputs, targets)
        tensors = {at: leaf for at, leaf in enumerate(inputs.leaves) if isinstance(leaf, Tensor) and leaf.requires_grad}
        ends = [at for at in tensors if inputs.along[at] is not None]
        for at, leaf in tensors.items():
            inputs.leaves[at] = leaf.detach().requires_grad_(at in ends)
        loss = self._reduced(self._losses(loss_fn, inputs, forward))
        if not ends or not loss.requires_grad:
            raise GuaranteeError(
                "loss_fn returns a number that does not depend on the outputs by differentiable functions: compute it "
                "from the outputs that are passed to it."
            )
        with torch.no_grad():
            sent = torch.autograd.grad(loss, [inputs.leaves[at] for at in ends], allow_unused=True)
        flowing = [(tensors[at], gradient) for at, gradient in zip(ends, sent, strict=True) if gradient is not None]
        return loss.detach(), partial(self._gradients.send_back, forward, flowing)

    def _identified(self, forward: ForwardPass, outputs: Any, targets: tuple[Any, ...]) -> _LossInputs:
        """Outputs and targets, if they are what the model returned and the loader gave."""
        leaves, form = pytree.tree_flatten((outputs, targets))
        _check_plain(leaves)
        along = [self._along(forward, leaf) if isinstance(leaf, Tensor) else None for leaf in leaves]
        return _LossInputs(leaves, along, form, forward.rows)

    def _along(self, forward: ForwardPass, leaf: Tensor) -> int | None:
        """Along which dimension the rows of an output or target lie; others are refused."""
        output = forward.output_at(leaf)
        if output is not None:
            return output.along
        if leaf.requires_grad:
            raise GuaranteeError(
                "an output was changed between the forward and the loss, so that its rows may have met: hand over the "
                "module's outputs as they came; calculate inside loss_fn."
            )
        if not self._drawn.holds(leaf, checked=forward.checked):
            raise GuaranteeError(
                "a target is not a tensor of the drawn batch as it came (is this batch from private.data_loader?), so "
                "that it may be made of other rows: compute it inside loss_fn from the row's own columns, and a "
                "teacher's outputs by private.frozen(teacher)."
            )
        if leaf.ndim == 0 or leaf.shape[0] % forward.rows:
            raise GuaranteeError(
                "a target does not have the rows of the batch in its first dimension: pass tensors of the batch; what "
                "is the same for all rows, loss_fn may read from outside, if it is made once before training."
            )
        return 0

    def _losses(self, loss_fn: Callable[..., Tensor], inputs: _LossInputs, forward: ForwardPass | None) -> Tensor:
        """What a function gives for each row."""
        per_row = [
            leaf.unflatten(at, (inputs.examples, -1)) if at is not None and leaf.shape[at] != inputs.examples else leaf
            for leaf, at in zip(inputs.leaves, inputs.along, strict=True)
        ]
        losses = None
        if not any(inputs.along):
            losses = known_loss(loss_fn, *pytree.tree_unflatten(per_row, inputs.form))
        if losses is None:
            reads = None if forward is None else _Reads([*inputs.leaves, *(each for each, _ in self._drawn.tensors)])

            def one(*example: Any) -> Any:
                if reads is None:
                    return loss_fn(*_opened(example, inputs.form))
                with reads.of_row(example):
                    return loss_fn(*_opened(example, inputs.form))

            losses = self._per_sample_losses(loss_fn, one, per_row, inputs)
            if reads is not None:
                self._check_constants(_code_of(loss_fn), reads.constants)
        if not isinstance(losses, Tensor) or losses.shape != (inputs.examples,):
            raise GuaranteeError(
                "loss_fn must return one number for each row, a tensor without dimensions: take the mean or the sum "
                "over the row's own entries."
            )
        return losses

    def _per_sample_losses(
        self, loss_fn: object, one: Callable[..., Any], leaves: Sequence[Any], inputs: _LossInputs
    ) -> Any:
        try:
            if (code := _code_of(loss_fn)) not in self._looped:
                try:
                    return vmap(one, in_dims=tuple(inputs.along), randomness="different")(*leaves)
                except (RuntimeError, NotImplementedError) as error:
                    if "vmap" not in str(error) and "atching rule" not in str(error):
                        raise
                    self._looped.add(code)
                    warnings.warn(
                        "loss_fn is run row by row in a loop, which is slow, since torch.func.vmap cannot run it (a "
                        "mask that selects, an `if` on values, .item()?): multiply by masks instead of selecting, and "
                        "use torch.where.",
                        stacklevel=2,
                    )
            every = zip(leaves, inputs.along, strict=True)
            per_row = [leaf.unbind(at) if at is not None else [leaf] * inputs.examples for leaf, at in every]
            return torch.stack([one(*row_leaves) for row_leaves in zip(*per_row, strict=True)])
        except (IndexError, ValueError, TypeError) as error:
            raise GuaranteeError(
                "loss_fn does not fit one row, or returns no tensor: it gets one row of the outputs and of every "
                "target, without the dimension of the batch; write logits[:-1] for logits[:, :-1]. "
                f"It raised {type(error).__name__}."
            ) from error

    def _reduced(self, losses: Tensor) -> Tensor:
        return losses.mean() if self._mean else losses.sum()

    def _check_constants(self, code: object, constants: _Constants) -> None:
        known = self._constants.setdefault(code, constants)
        if any(at not in known or known[at][1] != version for at, (_, version) in constants.items()):
            raise GuaranteeError(
                "loss_fn reads a tensor from outside that changes from step to step, so that it may be made of a "
                "batch: make constants once, before training, and pass what belongs to the rows as a target."
            )


class _Loss(torch.autograd.Function):
    """The loss of a batch, whose backward begins that of the model."""

    @staticmethod
    def forward(ctx: Any, _anchor: Tensor, value: Tensor, send: Callable[..., None]) -> Tensor:
        ctx.send = send
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        ctx.send(factor=gradients[0])
        return None, None, None


def _plain(outputs: Any, targets: tuple[Any, ...]) -> _LossInputs:
    """Outputs and targets without gradients, for a metric: nothing depends on where they come from."""
    leaves, form = pytree.tree_flatten((outputs, targets))
    _check_plain(leaves)
    along = [0 if isinstance(leaf, Tensor) and leaf.ndim else None for leaf in leaves]
    rows = next((len(leaf) for leaf, at in zip(leaves, along, strict=True) if at == 0), 0)
    return _LossInputs(leaves, along, form, rows)


def _check_plain(leaves: list[Any]) -> None:
    others = [leaf for leaf in leaves if not isinstance(leaf, Tensor)]
    if any(isinstance(each, Tensor) for each in output_leaves(others)):
        raise ArgumentError(
            "outputs and targets must be tensors, in tuples, lists or dictionaries: take them out of other objects."
        )


def _opened(leaves: Sequence[Any], form: Any) -> tuple[Any, ...]:
    outputs, targets = pytree.tree_unflatten(list(leaves), form)
    return (outputs, *targets)


def _code_of(function: object) -> object:
    """What stays the same of a function that is made anew for every batch: its code, or its kind."""
    while isinstance(function, partial):
        function = function.func
    return getattr(function, "__code__", type(function))


class _Reads(TorchFunctionMode):
    """Sees every tensor that a function of one row reads and that is neither its own nor made of its own."""

    def __init__(self, batch: Sequence[Any]) -> None:
        super().__init__()
        self.constants: _Constants = {}
        self._memory = {_memory_of(each) for each in batch if isinstance(each, Tensor)} - {None}
        self._derived: dict[int, Tensor] = {}
        self._earlier: dict[int, Tensor] = {}  # what was made of earlier rows

    def of_row(self, leaves: Sequence[Any]) -> "_Reads":
        """Begin with the next row, or with all of them under `vmap`."""
        self._earlier |= self._derived
        self._derived = {id(leaf): leaf for leaf in leaves if isinstance(leaf, Tensor)}
        return self

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        if any(tensor._version != version for tensor, version in self.constants.values()):  # noqa: SLF001 - the only way to see a change in place
            raise GuaranteeError(_KEEPS_A_ROW)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in {functional.cross_entropy, functional.nll_loss}:
            check_weights(*args, **kwargs)
        for leaf in pytree.tree_leaves((args, kwargs)):
            if isinstance(leaf, Tensor) and id(leaf) not in self._derived:
                self._note(leaf)
        output = func(*args, **kwargs)
        for leaf in [output] if isinstance(output, Tensor) else pytree.tree_leaves(output):
            if isinstance(leaf, Tensor):
                self._derived[id(leaf)] = leaf
        return output

    def _note(self, leaf: Tensor) -> None:
        if id(leaf) in self._earlier:
            raise GuaranteeError(_KEEPS_A_ROW)
        if leaf.requires_grad or _memory_of(leaf) in self._memory:
            raise GuaranteeError(
                "loss_fn reads outputs or targets of the whole batch, or something that is trained, from outside: pass "
                "what it needs as outputs and targets, of which it gets the row, and put what learns into the module."
            )
        self.constants.setdefault(id(leaf), (leaf, leaf._version))  # noqa: SLF001 - as above


_KEEPS_A_ROW = (
    "loss_fn keeps something of one row and reads it for another: what it captures must be constant; centres, queues "
    "and running means have no place in a private loss."
)


def _memory_of(tensor: Tensor) -> int | None:
    try:
        return tensor.untyped_storage().data_ptr()
    except (RuntimeError, NotImplementedError):  # what vmap left behind
        return None


_ELEMENTWISE: dict[Any, Callable[..., Tensor]] = {
    nn.MSELoss: functional.mse_loss,
    nn.L1Loss: functional.l1_loss,
    nn.SmoothL1Loss: functional.smooth_l1_loss,
    nn.HuberLoss: functional.huber_loss,
    nn.BCELoss: functional.binary_cross_entropy,
    nn.BCEWithLogitsLoss: functional.binary_cross_entropy_with_logits,
}
_LOSSES: dict[Any, Callable[..., Tensor]] = {nn.CrossEntropyLoss: functional.cross_entropy} | _ELEMENTWISE


def per_example_loss(logits: Tensor, labels: Tensor, *, ignore_index: int = -100, shift: bool = False) -> Tensor:
    """The cross-entropy of each example: the mean over its own labels, whatever the others have.

    A mean over all labels of a batch divides by how many there are in all examples, so that one example changes the
    gradients of the others: that is what torch's `cross_entropy` does with `ignore_index`, and a Hugging Face model
    with `labels=`. Pass this function to `private.backward`, or `functools.partial(per_example_loss, shift=True)`.

    Args:
        logits: Shape (examples, classes), or (examples, positions, classes).
        labels: Shape (examples,), or (examples, positions).
        ignore_index: Labels that do not count; an example that has no other has a loss of 0.
        shift: For language models: each position predicts the next label.

    Returns:
        One loss per example.

    Raises:
        ArgumentError: The shapes do not fit.

    >>> import torch
    >>> logits, labels = torch.zeros(2, 3, 4), torch.tensor([[1, 2, -100], [0, 0, 0]])
    >>> per_example_loss(logits, labels).tolist() == [torch.tensor(4.0).log().item()] * 2
    True
    """
    if logits.ndim not in {2, 3} or logits.shape[:-1] != labels.shape:
        raise ArgumentError(
            f"logits of shape {tuple(logits.shape)} do not fit labels of shape {tuple(labels.shape)}: pass (examples, "
            "classes) with (examples,), or (examples, positions, classes) with (examples, positions)."
        )
    if logits.ndim == 2:
        logits, labels = logits.unsqueeze(1), labels.unsqueeze(1)
    if shift:  # of the labels, which are small
        labels = functional.pad(labels[:, 1:], (0, 1), value=ignore_index)
    return _cross_entropy(logits, labels, ignore_index=ignore_index)


def known_loss(loss_fn: Callable[..., Any], outputs: Any, targets: tuple[Any, ...]) -> Tensor | None:
    """The losses of all rows at once, as `loss_fn` has them for each; None of a function that is not known."""
    settings: dict[str, Any] = {}
    function: Any = loss_fn
    if isinstance(function, partial) and not function.args:
        function, settings = function.func, function.keywords
    if type(function) in _LOSSES:
        names = inspect.signature(_LOSSES[type(function)]).parameters
        settings = {name: getattr(function, name) for name in names if hasattr(function, name)}
        function = _LOSSES[type(function)]
    target = targets[0] if len(targets) == 1 else None
    if not isinstance(outputs, Tensor) or not isinstance(target, Tensor):
        return None
    if function is per_example_loss:
        losses: Tensor = per_example_loss(outputs, target, **settings)
        return losses
    if function is functional.cross_entropy and not {"size_average", "reduce"} & settings.keys():
        check_weights(outputs[0], target[0], **settings)
        if settings.get("reduction", "mean") not in {"mean", "sum"} or outputs.ndim not in {2, 3}:
            return None
        if target.shape in {outputs.shape, outputs.shape[:-1]}:
            flattened = (outputs, target) if outputs.ndim == 3 else (outputs.unsqueeze(1), target.unsqueeze(1))
            return _cross_entropy(*flattened, **settings)
    if function in _ELEMENTWISE.values() and outputs.shape == target.shape and outputs.ndim > 1:
        return _elementwise(function, outputs, target, **settings)
    return None


def check_weights(_input: Tensor, target: Tensor, weight: Tensor | None = None, *_: Any, **settings: Any) -> None:
    """Refuse class weights in the mean over a single label, where they cancel."""
    if weight is not None and settings.get("reduction", "mean") == "mean" and target.ndim == 0:
        raise GuaranteeError(
            "class weights cancel in the mean over one target, which divides by its weight: pass reduction='sum'."
        )


def _cross_entropy(
    logits: Tensor, labels: Tensor, weight: Tensor | None = None, reduction: str = "mean", **settings: Any
) -> Tensor:
    """Of logits by rows, positions and classes. Over a stride, as `logits.mT` has it, torch's softmax is slow."""
    flat = labels.flatten(0, 1)
    losses = functional.cross_entropy(logits.flatten(0, 1), flat, weight=weight, reduction="none", **settings)
    losses = losses.view(logits.shape[:2]).sum(1)
    if reduction != "mean":
        return losses
    if flat.is_floating_point():  # probabilities
        return losses / labels.shape[1]
    counted = labels != settings.get("ignore_index", -100)
    shares = counted if weight is None else weight[labels.where(counted, 0)] * counted
    total = shares.sum(1)
    mean: Tensor = losses / total.where(total > 0, 1)
    return mean


def _elementwise(
    function: Callable[..., Tensor], outputs: Tensor, target: Tensor, reduction: str = "mean", **settings: Any
) -> Tensor | None:
    tensors = [each for each in settings.values() if isinstance(each, Tensor)]
    if reduction not in {"mean", "sum"} or any(each.ndim >= outputs.ndim for each in tensors):
        return None
    losses = function(outputs, target, reduction="none", **settings).flatten(1)
    return losses.mean(1) if reduction == "mean" else losses.sum(1)


class FrozenModule:
    """Runs a model without gradients. On tensors of the drawn batch it is checked that it keeps their rows apart.

    It is checked when it is first called, and again at calls 2, 4, 8 and so on. On other tensors, as in an evaluation,
    it is an ordinary model, whose outputs are no targets.
    """

    sharded = False

    def __init__(self, module: nn.Module, drawn: BatchState) -> None:
        if not isinstance(module, nn.Module):
            raise ArgumentError(f"frozen takes a torch.nn.Module, got {type(module).__name__}: pass the teacher.")
        self.module, self._drawn = module, drawn
        self._checks: dict[torch.device, Independence] = {}
        self._plans: dict[object, CallPlan] = {}
        self._calls: Counter[object] = Counter()

    @torch.no_grad()
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the model returns."""
        leaves = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        if not leaves or not all(self._drawn.holds(leaf, checked=True) for leaf in leaves):
            return self.module(*args, **kwargs)
        rows = rows_in(args, kwargs)
        device = cast("Tensor", first_tensor(args, kwargs)).device
        check = self._checks.setdefault(device, Independence(self.module, device, self._drawn))
        key = signature_of(args, kwargs, rows, training=self.module.training)
        self._calls[key] += 1
        if self._calls[key].bit_count() == 1:
            self._plans[key] = check.plan(
                cast("PerExampleGradients", self), args, kwargs, rows, full=key not in self._plans
            )
        output = self.module(*args, **kwargs)
        outputs = zip(output_leaves(output), self._plans[key].output, strict=False)
        self._drawn.add(leaf for leaf, along in outputs if along == 0)
        return output

    def shapes(self, args: tuple[Any, ...], kwargs: dict[str, Any], _trace: object) -> list[Any]:
        """What the model returns on made-up examples; so too `probe`, of which a check is told."""
        return output_leaves(self.module(*args, **kwargs))

    def probe(self, args: tuple[Any, ...], kwargs: dict[str, Any], _plan: CallPlan, _views: int, probe: Probe) -> None:
        """See `shapes`."""
        probe.ends(output_leaves(self.module(*args, **kwargs)))

    def widen(self, error: Exception) -> None:
        """It has no layers that could be run example by example."""
        raise error

    def take_whole(self) -> bool:
        """See `widen`."""
        return False
