"""A forward and backward recorded once as a CUDA graph, and replayed: host overhead is paid once, at capture.

A private step of a network of many small layers spends most of its time on launching kernels. Physical batches have one
public size, so that what is launched is always the same, and may be recorded. Noise is not: it is drawn in
`optimizer.step()`, outside, from a fresh key.

**What replays keep.** A recording holds the kernels of one forward, one loss and one backward, clipping included, and
the numbers of Python that they were given: the thresholds among them, so a rule that changes is recorded anew (and one
that changes at every step, adaptive thresholds, is refused). Padding is told from examples by a mask that lies at one
place and is written before every replay. Whatever is checked about a batch is checked before each replay too
(`PerExampleGradients.begin_replay`); what is checked about the model and the loss was checked when they last ran as
usual: the first runs are ordinary.
"""

from collections.abc import Callable
from contextlib import suppress
from itertools import chain
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from inid.dpsgd.private_training import PrivateTraining
from inid.errors import ArgumentError, InidError

_ORDINARY = 3  # runs before a recording, in which kernels are compiled and libraries set up


def captured_backward(private: PrivateTraining, loss: Callable[..., Tensor]) -> "CapturedBackward":
    """Make a function of a batch that runs `loss` and its backward; on a GPU it replays a recording after a few runs.

    Call it in place of the forward and `backward()`. Batches are to be those of the private loader, whole; everything
    else that the loss reads (numbers of Python, tensors) stays what it was when the recording was made.

    Args:
        private: What `make_private` returned.
        loss: Takes a batch, calls `private.module` and returns what `private.loss` gives.

    Returns:
        A function of a batch that returns the loss, detached.

    Raises:
        ArgumentError: Thresholds are adaptive, or the model is sharded: then no step is like the one before.

    >>> from inid import dpsgd
    >>> model = torch.nn.Linear(2, 1)
    >>> data = torch.utils.data.TensorDataset(torch.randn(8, 2))
    >>> private = dpsgd.make_private(
    ...     module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), noise_multiplier=1.0,
    ...     data_loader=torch.utils.data.DataLoader(data, batch_size=4))
    >>> def loss(x):
    ...     return private.loss(lambda out: out.square().mean(), private.module(x))
    >>> backward = captured_backward(private, loss)
    >>> for (x,) in private.data_loader:
    ...     private.optimizer.zero_grad()
    ...     loss = backward(x)
    ...     private.optimizer.step()
    >>> private.accountant.steps
    2
    """
    if private.optimizer.step_state.rule.counts:
        raise ArgumentError(
            "thresholds that adapt change at every step, and a recorded step has fixed ones: call backward() as usual, "
            "or make the training private with fixed thresholds."
        )
    if private.optimizer.gradients.sharded:
        raise ArgumentError("a sharded model gathers its parameters anew in every step: call backward() as usual.")
    return CapturedBackward(private, loss)


class CapturedBackward:
    """Made by `captured_backward`. Call it with a batch."""

    def __init__(self, private: PrivateTraining, loss: Callable[..., Tensor]) -> None:
        self._module, self._loss = private.module, loss
        self._gradients, self._state = private.optimizer.gradients, private.optimizer.step_state
        self._device = self._state.sums.flat.device
        self._key: object = None
        self._ordinary = 0  # runs with this key
        self._recording: Recording | None = None
        self._history: list[Any] = []
        self._rows = 0

    def __call__(self, *args: Any, **kwargs: Any) -> Tensor:
        """Run the loss and its backward on a batch."""
        leaves, form = pytree.tree_flatten((args, kwargs))
        leaves = [leaf.to(self._device, non_blocking=True) if _is_tensor(leaf) else leaf for leaf in leaves]
        key = self._described(leaves, form)
        if key != self._key:
            self._key, self._ordinary, self._recording = key, 0, None
        if not Recording.possible(self._device) or self._ordinary < _ORDINARY:
            loss = self._run(leaves, form)
            self._ordinary += 1  # one that failed has not set up what a recording needs, the mask among it
            return loss
        if self._recording is None:
            self._record(leaves, form)
        assert self._recording is not None  # noqa: S101 - for the type checker
        for buffer, leaf in zip(self._history, leaves, strict=True):
            if _is_tensor(leaf):
                buffer.copy_(leaf)
        self._gradients.begin_replay(self._rows)
        return self._recording.replay()

    def _described(self, leaves: list[Any], form: object) -> object:
        """What a recording depends on: the batch's form, the rule, settings, and where the model's numbers lie."""
        kinds = [(leaf.shape, leaf.stride(), leaf.dtype) if _is_tensor(leaf) else leaf for leaf in leaves]
        model = chain(self._module.parameters(), self._module.buffers())
        settings = self._gradients.settings()
        return form, kinds, self._state.rule, settings, [each.data_ptr() for each in model]

    def _run(self, leaves: list[Any], form: Any) -> Tensor:
        args, kwargs = pytree.tree_unflatten(leaves, form)
        loss = self._loss(*args, **kwargs)
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach()

    def _record(self, leaves: list[Any], form: Any) -> None:
        self._history = [leaf.clone() if _is_tensor(leaf) else leaf for leaf in leaves]
        recording = Recording()
        try:
            self._rows = self._gradients.record(lambda: recording.record(lambda: self._run(self._history, form)))
        except InidError:
            raise
        except Exception as error:
            raise ArgumentError(
                "the loss and its backward cannot be recorded as a CUDA graph (does something in it wait for the GPU, "
                "or choose by values?): call backward() as usual instead."
            ) from error
        self._recording = recording


class Recording:
    """A CUDA graph and what it returns."""

    def __init__(self) -> None:
        self._graph = torch.cuda.CUDAGraph()
        self._output: Tensor | None = None

    @staticmethod
    def possible(device: torch.device) -> bool:
        """Whether anything can be recorded there."""
        return device.type == "cuda"

    def record(self, work: Callable[[], Tensor]) -> None:
        """Record what a function launches; it is not run."""
        before, pool = torch.cuda.current_stream(), torch.cuda.graph_pool_handle()
        try:
            # Other threads (loaders that pin memory) may go on: only this one's calls belong to the recording.
            with torch.cuda.graph(self._graph, pool=pool, capture_error_mode="thread_local"):
                self._output = work()
        except BaseException:
            _mend(self._graph, before, pool)
            raise

    def replay(self) -> Tensor:
        """Run what was recorded."""
        assert self._output is not None  # noqa: S101 - for the type checker
        self._graph.replay()
        return self._output.clone()  # the next replay writes over it


_FAILED: list[torch.cuda.CUDAGraph] = []  # torch's allocators may go on asking them what they record


def _mend(graph: torch.cuda.CUDAGraph, before: torch.cuda.Stream, pool: Any) -> None:
    """Undo what a recording that failed leaves behind in torch, so that the process can go on.

    What waits for the GPU ends a recording at once, and torch stops halfway through cleaning up: it stays on the stream
    of the recording, goes on setting memory apart for it, and its generator believes that it is being recorded, so that
    nobody can draw from it any more, nor replay another recording. A recording that succeeds sets the generator right.
    """
    _FAILED.append(graph)
    torch.cuda.set_stream(before)
    with suppress(RuntimeError):  # nothing is set apart any more where torch got as far as that
        torch._C._cuda_endAllocateToPool(before.device_index, pool)  # noqa: SLF001 - no other way
        torch._C._cuda_releasePool(before.device_index, pool)  # noqa: SLF001 - as above
    one = torch.zeros(1, device=before.device)
    with torch.cuda.graph(torch.cuda.CUDAGraph(), capture_error_mode="thread_local"):
        one.add_(1)


def _is_tensor(leaf: object) -> bool:
    return isinstance(leaf, Tensor)
