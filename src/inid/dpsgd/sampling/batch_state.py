"""What a private loader has handed out, and what of it has been used."""

import gc
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from weakref import ref

import torch
from torch import Tensor, nn

from inid.errors import GuaranteeError


class PreexistingTensors:
    """The tensors that are there when this is made, of torch's own kinds, with how often each was written to.

    >>> import torch
    >>> weights = torch.ones(3)
    >>> earlier = PreexistingTensors()
    >>> weights in earlier, weights[1:] in earlier, weights + 1 in earlier, weights.zero_() in earlier
    (True, True, False, False)
    """

    def __init__(self) -> None:
        kinds = {Tensor, nn.Parameter, nn.Buffer}
        found = [each for each in gc.get_objects() if type(each) in kinds]
        # Not pairs of both: Python's collector would go through as many, and so would whoever looks for tensors next.
        self._found = {id(each): ref(each) for each in found}
        self._versions = {id(each): _version(each) for each in found}

    def __contains__(self, tensor: Tensor) -> bool:
        whole = tensor if tensor._base is None else tensor._base  # noqa: SLF001 - what a view is of
        kept = self._found.get(id(whole))
        return kept is not None and kept() is whole and self._versions[id(whole)] == _version(whole)


def _version(tensor: Tensor) -> int | None:
    return None if tensor.is_inference() else tensor._version  # noqa: SLF001 - the only way to see a change in place


_WATCHED = 16  # physical batches that are looked at: on a GPU each look waits


@dataclass(eq=False)
class BatchState:
    """What the loader has handed out, and what of it has been used: one batch for one step."""

    batch: int = 0
    placed: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.bool, device="cpu"))
    padded: bool = True
    complete: bool = True
    fresh: bool = False
    seen: bool = False
    ahead: bool = False
    used: int = 0
    stepped: int = 0
    private: bool = True
    number: int = 0
    watched: int = 0
    views: int = 1
    reader: object = None
    refused: bool = False
    tensors: Sequence[tuple[Tensor, int]] = ()
    quiet: bool = False
    handed: int = 0
    copies: Sequence[Tensor] = ()
    interrupted: int = 0
    earlier: PreexistingTensors | None = None
    _begun: bool = False  # whether the model has been run

    @property
    def rows(self) -> int:
        """How many rows the latest physical batch has, padding included."""
        return len(self.placed) * self.views

    @property
    def examples(self) -> int:
        """How many drawn examples it has."""
        return int(self.placed.sum())

    @property
    def mask(self) -> Tensor:
        """True for the rows of the latest physical batch that are of drawn examples: for metrics, not for the loss."""
        return self.placed.repeat_interleave(self.views)

    def views_of(self, rows: int) -> int:
        """How many of these rows are one example; other numbers than the loader's are no views, and are refused."""
        return self.views if rows % self.views == 0 else 1

    def hand_out(
        self,
        reader: object,
        tensors: Sequence[Tensor],
        placed: Tensor,
        *,
        first: bool,
        last: bool,
        private: bool,
        number: int = 0,
    ) -> None:
        """Note a physical batch that an iterator hands out."""
        self.number = number
        same = self.reader is reader
        if same:
            self.ahead = self.ahead or not self.seen
        else:  # a look at another batch, in a loop that has not used its own, would leave open which one comes next
            unused = self.fresh and self.stepped < self.batch and not self.refused
            self.ahead = self.reader is not None and unused
        if first:
            if 0 < self.stepped < self.batch:
                warnings.warn(
                    "a batch was drawn and no step was taken: whether to step must not depend on the data, since "
                    "skipped steps are not counted. Step on every batch, also on one that is all padding.",
                    stacklevel=3,
                )
            self.batch, self.private = self.batch + 1, True
        self.placed, self.complete, self.fresh, self.seen = placed, last, True, False
        self.reader, self.refused = reader, False
        self.tensors = [(tensor, tensor._version) for tensor in tensors]  # noqa: SLF001 - shows a change in place
        self.handed += 1
        # Not all that writes shows in the version: NumPy, `.data` and collectives do not.
        self.copies = [tensor.clone() for tensor in tensors] if self.handed.bit_count() == 1 else ()
        # Looking for all tensors takes long, so a loop that only looks at batches does it ever more rarely.
        if not self._begun and not (same and self.handed.bit_count() > 1):
            self.earlier = PreexistingTensors()
        self.private = self.private and private

    def gave(self, tensor: Tensor) -> bool:
        """Whether a tensor is one that was handed out last, as it was then."""
        for at, (each, version) in enumerate(self.tensors):
            if each is tensor and version == tensor._version:  # noqa: SLF001 - as above
                return not self.copies or same_values(tensor, self.copies[at])
        return False

    def had(self, tensor: Tensor) -> bool:
        """Whether a tensor was there before the first batch, as it is, and does not lie in what was handed out."""
        memory = {each.untyped_storage().data_ptr() for each, _ in self.tensors}
        return self.earlier is None or (tensor in self.earlier and tensor.untyped_storage().data_ptr() not in memory)

    def is_part(self, tensor: Tensor) -> bool:
        """Whether a tensor lies in the memory of one that was handed out by rows."""
        memory = {each.untyped_storage().data_ptr() for each, _ in self.tensors if len(each) == self.rows}
        return tensor.untyped_storage().data_ptr() in memory

    @contextmanager
    def looked_at(self) -> Iterator[None]:
        """Let gradients flow that count nowhere."""
        self.quiet = True
        try:
            yield
        finally:
            self.quiet = False

    def let_go(self, reader: object) -> None:
        """Note that an iterator was given up, and its latest batch with it."""
        if self.reader is reader:
            self.reader = None

    def see(self, rows: int) -> None:
        """Note that the model is run on so many rows."""
        self.seen, self._begun = self.seen or rows == self.rows, True

    @property
    def to_be_watched(self) -> bool:
        """Whether the batch that is out is among the first, of those that may have padding.

        Whether it has some is secret, and nothing that is computed should go by it.
        """
        return self.padded and self.watched < _WATCHED

    def admit(self, rows: int, *, begun: bool) -> Tensor:
        """Say at which places of a backward examples stand, or refuse one that would count an example twice."""
        if begun and self.used != self.batch:
            raise GuaranteeError(
                "backward ran over two batches since the last step, and a step uses one: call step() of the returned "
                "optimizer after every batch, without gradient accumulation (accumulate_grad_batches=1). To spare "
                "memory pass max_physical_batch_size, which splits a batch."
            )
        if self.stepped == self.batch or rows != self.rows:
            left = 0 if self.stepped == self.batch else self.rows
            raise GuaranteeError(
                f"backward ran over {rows} rows where the private loader handed out {left}: train on the batches of "
                "the returned data_loader, each of them once and whole."
            )
        self.check_order(self.seen)
        if not self.fresh:
            raise GuaranteeError(
                "backward ran twice over what the loader handed out once: call it once per batch, or throw the first "
                "away with optimizer.zero_grad() (adversarial examples). To spare memory pass max_physical_batch_size, "
                "which splits a batch."
            )
        self.used, self.fresh = self.batch, False
        return self.placed

    def check_order(self, seen: bool = True) -> None:
        """Refuse to train on a batch while another one is out, or was passed over."""
        if self.ahead or not seen:
            self.refused = True
            raise GuaranteeError(
                "a physical batch was handed out and passed over, or the loader is read ahead of the training; then it "
                "is not certain which rows are padding: train on each batch before taking the next, without gradient "
                "accumulation (gradient_accumulation_steps=1; to spare memory pass max_physical_batch_size), also in "
                "another loop or for a look, and begin a new iteration instead of passing batches over."
            )

    def renew(self) -> None:
        """Note that the gradients of the batch were thrown away: it may be used again."""
        self.fresh = True

    def close(self) -> None:
        """Refuse a step for which no batch was drawn; else take the batch as used up."""
        if self.stepped == self.batch:
            raise GuaranteeError(
                "optimizer.step() was called without a new batch: take one batch of the returned data_loader per step, "
                "also when it is all padding."
            )
        self.stepped = self.batch


@torch.no_grad()
def same_values(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors hold the same, gaps included."""
    return torch.equal(one, other) or bool(((one == other) | (one.isnan() & other.isnan())).all())
