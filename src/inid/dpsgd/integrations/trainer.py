"""Hugging Face's Trainer, private: its batches, its loss and its logs."""

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, cast

import transformers
from torch import Tensor, nn
from torch.nn import functional
from torch.utils import _pytree as pytree
from torch.utils.data import DataLoader

from inid.dpsgd.loss import per_example_loss
from inid.dpsgd.make_private import make_private
from inid.dpsgd.options import Sampling
from inid.dpsgd.private_training import PrivateTraining
from inid.errors import ArgumentError


class PrivateTrainer(transformers.Trainer):
    """A `transformers.Trainer` that trains privately: evaluation, logging and checkpoints stay its own.

    Pass `privacy`, the arguments of `make_private` beyond the model, the optimizer and the data: those are made of the
    Trainer's own settings. `per_device_train_batch_size` times `gradient_accumulation_steps` is the mean size of a
    batch, and with accumulation the first is `max_physical_batch_size`. Or pass `private`, what `make_private`
    returned.

    Args:
        model: The model, where `privacy` is passed.
        args: The Trainer's settings.
        privacy: Arguments of `make_private`, such as `target_epsilon` and `target_delta`.
        private: What `make_private` returned.
        compute_loss_func: A loss of *one row*: its outputs and its labels. By default the cross-entropy of its logits,
            of each position against the next label for a model that predicts tokens, or the mean of squares where
            labels are real numbers.
        delta: The delta at which epsilon is logged, wherever the Trainer logs to; `target_delta` by default.
        **settings: As `transformers.Trainer` takes them.

    Raises:
        ArgumentError: Both `privacy` and `private` are passed, or neither.

    Examples:
        >>> from inid.dpsgd.integrations import PrivateTrainer
        >>> PrivateTrainer(privacy={}, private=None)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        inid.errors.ArgumentError: pass a model and privacy=dict(target_epsilon=..., target_delta=...), or private=...
    """

    def __init__(
        self,
        model: nn.Module | None = None,
        args: Any = None,
        *,
        privacy: Mapping[str, Any] | None = None,
        private: PrivateTraining | None = None,
        compute_loss_func: Callable[..., Tensor] | None = None,
        delta: float | None = None,
        **settings: Any,
    ) -> None:
        if (private is None) == (not privacy) or (private is None) == (model is None):
            raise ArgumentError(
                "pass a model and privacy=dict(target_epsilon=..., target_delta=...), or private=, what make_private "
                "returned."
            )
        args = copy.copy(args) if args is not None else transformers.TrainingArguments()
        if private is not None and args.gradient_accumulation_steps > 1:
            raise ArgumentError(
                f"gradient_accumulation_steps={args.gradient_accumulation_steps} would add up several batches: pass "
                "sampling=dpsgd.Sampling(max_physical_batch_size=...) to make_private, which splits one, and "
                "gradient_accumulation_steps=1."
            )
        batch_size, parts = args.per_device_train_batch_size, args.gradient_accumulation_steps
        args.gradient_accumulation_steps, args.max_grad_norm, args.ignore_data_skip = 1, 0, True
        if private is not None:
            settings["optimizers"] = (private.optimizer, (settings.get("optimizers") or (None, None))[1])
        super().__init__(model=model if private is None else private.module, args=args, **settings)
        if private is None:
            options = dict(privacy or {})
            if parts > 1:
                options["sampling"] = replace(options.get("sampling") or Sampling(), max_physical_batch_size=batch_size)
            private = make_private(
                module=cast("Any", self.model),
                optimizer=cast("Any", self.create_optimizer()),
                data_loader=DataLoader(
                    cast("Any", self.train_dataset), batch_size=batch_size * parts, collate_fn=self.data_collator
                ),
                **{"epochs": round(args.num_train_epochs), **options},
            )
            self.optimizer = private.optimizer
        self.private, self._row_loss = private, compute_loss_func
        self._delta = delta if delta is not None else (privacy or {}).get("target_delta")

    def get_train_dataloader(self) -> Any:
        """The private loader."""
        return self.private.data_loader

    def compute_loss(
        self, model: nn.Module, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: object = None
    ) -> Any:
        """The mean of the losses of rows; how many labels a batch has is secret, and divides nothing."""
        del num_items_in_batch
        inputs = dict(inputs)
        labels = [inputs.pop(name) for name in self.label_names if name in inputs]
        outputs = model(**inputs)
        loss_fn, shown = self._row_loss, _tensors(outputs)
        if loss_fn is None:
            shown = outputs["logits"] if isinstance(outputs, Mapping) else outputs[0]
            loss_fn = _default_loss(self.private.module, shown, labels)
        loss = self.private.loss(loss_fn, shown, *labels)
        return (loss, outputs) if return_outputs else loss

    def log(self, logs: dict[str, float], *args: Any, **settings: Any) -> None:
        """Log epsilon beside the rest, so that TensorBoard, W&B and the history have it."""
        if self._delta is not None:
            logs = {**logs, "epsilon": self.private.accountant.get_epsilon(self._delta)}
        super().log(logs, *args, **settings)


def _tensors(outputs: Any) -> Any:
    """What of the outputs are tensors: a cache of keys and values is no part of a loss."""
    if not isinstance(outputs, Mapping):
        return outputs
    return cast("Any", type(outputs))(
        {key: each for key, each in outputs.items() if all(isinstance(x, Tensor) for x in pytree.tree_leaves(each))}
    )


def _default_loss(model: nn.Module, logits: Tensor, labels: list[Tensor]) -> Callable[..., Tensor]:
    if len(labels) != 1:
        raise ArgumentError(
            f"the batch has {len(labels)} labels, and the loss by default takes one: pass compute_loss_func, a "
            "function of one row's outputs and labels (and label_names in the TrainingArguments)."
        )
    if labels[0].is_floating_point():
        return _squares if logits.shape != labels[0].shape else functional.mse_loss
    inner: Any = model
    predicts = getattr(inner, "can_generate", lambda: False)() and not inner.config.is_encoder_decoder
    return partial(per_example_loss, shift=bool(predicts))


def _squares(logits: Tensor, labels: Tensor) -> Tensor:
    return functional.mse_loss(logits.reshape(labels.shape), labels)
