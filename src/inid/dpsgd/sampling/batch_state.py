"""What a private loader has handed out, and what of it has been used."""

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from inid.errors import GuaranteeError


@dataclass(eq=False)
class BatchState:
    """What the loader has handed out, and what of it has been used: one batch for one step."""

    batch: int = 0
    placed: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.bool, device="cpu"))
    padded: bool = True
    complete: bool = True
    fresh: bool = False
    was_run: bool = False
    ahead: bool = False
    used: int = 0
    stepped: int = 0
    private: bool = True
    number: int = 0
    views: int = 1
    reader: object = None
    refused: bool = False
    tensors: list[tuple[Tensor, int]] = field(default_factory=list)

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
            self.ahead = self.ahead or not self.was_run
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
        self.placed, self.complete, self.fresh, self.was_run = placed, last, True, False
        self.reader, self.refused = reader, False
        self.tensors = []
        self.add(tensors)
        self.private = self.private and private

    def add(self, tensors: Iterable[Tensor]) -> None:
        """Note tensors each of whose rows is of one row of the batch."""
        self.tensors += [(tensor, tensor._version) for tensor in tensors]  # noqa: SLF001 - shows a change in place

    def holds(self, tensor: Tensor, *, checked: bool) -> bool:
        """Whether a tensor is one that was handed out last, as it was then, maybe moved, cast or reshaped since.

        What was moved to a GPU is compared at the looks alone, since each comparison waits.
        """
        as_handed = [each for each, version in self.tensors if version == each._version]  # noqa: SLF001 - as above
        if any(each is tensor for each in as_handed) or (tensor.is_cuda and not checked):
            return True
        alike = [each for each in as_handed if each.numel() == tensor.numel() and each.shape[:1] == tensor.shape[:1]]
        return any(same_values(each.to(tensor).reshape(tensor.shape), tensor) for each in alike)

    def let_go(self, reader: object) -> None:
        """Note that an iterator was given up, and its latest batch with it."""
        if self.reader is reader:
            self.reader = None

    def see(self, rows: int) -> None:
        """Note that the model is run on so many rows."""
        self.was_run = self.was_run or rows == self.rows

    def admit(self, rows: int, *, begun: bool) -> Tensor:
        """Say at which places of a backward examples stand, or refuse one that would count an example twice."""
        if begun and self.used != self.batch:
            raise GuaranteeError(
                "backward ran over two batches since the last step, and a step uses one: call step() of the returned "
                "optimizer after every batch, without gradient accumulation (accumulate_grad_batches=1). To spare "
                "memory pass Sampling(max_physical_batch_size=...), which splits a batch."
            )
        if self.stepped == self.batch or rows != self.rows:
            left = 0 if self.stepped == self.batch else self.rows
            raise GuaranteeError(
                f"backward ran over {rows} rows where the private loader handed out {left}: train on the batches of "
                "the returned data_loader, each of them once and whole."
            )
        self.check_order(self.was_run)
        if not self.fresh:
            raise GuaranteeError(
                "backward ran twice over what the loader handed out once: call it once per batch, or throw the first "
                "away with optimizer.zero_grad() (adversarial examples). To spare memory pass "
                "Sampling(max_physical_batch_size=...), which splits a batch."
            )
        self.used, self.fresh = self.batch, False
        return self.placed

    def check_order(self, is_used: bool = True) -> None:
        """Refuse to train on a batch while another one is out, or was passed over."""
        if self.ahead or not is_used:
            self.refused = True
            raise GuaranteeError(
                "a physical batch was handed out and passed over, or the loader is read ahead of the training; then it "
                "is not certain which rows are padding: train on each batch before taking the next, without gradient "
                "accumulation (gradient_accumulation_steps=1; to spare memory pass "
                "Sampling(max_physical_batch_size=...)), also in another loop or for a look, and begin a new iteration "
                "instead of passing batches over."
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
