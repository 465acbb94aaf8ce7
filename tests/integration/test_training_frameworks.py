"""Hugging Face's Trainer and Lightning train privately: a private loss goes through, a mixing one is refused."""

import lightning
import pytest
import torch
import transformers as hugging_face
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, TensorDataset

from inid.dpsgd.integrations import PrivateTrainer
from inid.errors import GuaranteeError, InidError
from training import make_private

pytestmark = pytest.mark.filterwarnings("ignore")  # about their own future
torch.set_num_threads(1)
ROWS, BATCH = 24, 6
DRAW = torch.Generator().manual_seed(2)
X, Y = torch.randn(ROWS, 5, generator=DRAW), torch.randint(0, 2, (ROWS,), generator=DRAW)


class Classifier(nn.Module):
    """As models of Hugging Face are called: by names, with a dictionary as output."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 2))

    def forward(self, x):
        return {"logits": self.layers(x)}


class Rows(Dataset):
    def __len__(self):
        return ROWS

    def __getitem__(self, at):
        return {"x": X[at], "labels": Y[at]}


def made(data, model, **options):
    return make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=DataLoader(data, batch_size=BATCH),
        noise_multiplier=1.0,
        epochs=2,
        **options,
    )


class Batchwise(PrivateTrainer):
    """A Trainer whose loss is of the whole batch, as most are."""

    def __init__(self, take_loss, **settings):
        super().__init__(**settings)
        self.take_loss = take_loss
        self.model_accepts_loss_kwargs = True  # so that it counts labels, as it does for its own models

    def compute_loss(self, model, inputs, num_items_in_batch=None, **_settings):
        labels = inputs.pop("labels")
        return self.take_loss(self.private, model(**inputs), labels, num_items_in_batch)


def by_rows(private, outputs, labels, _count):
    return private.loss(lambda out, label: functional.cross_entropy(out["logits"], label), outputs, labels)


def ordinary(_private, outputs, labels, _count):
    return functional.cross_entropy(outputs["logits"], labels)


def by_count(_private, outputs, labels, count):
    assert isinstance(count, torch.Tensor)  # how many labels the batch has that count
    return functional.cross_entropy(outputs["logits"], labels, reduction="sum") / count


def trainer(tmp_path, private, take_loss, **options):
    settings = hugging_face.TrainingArguments(
        output_dir=str(tmp_path),
        num_train_epochs=2,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        use_cpu=True,
        label_names=["labels"],
        **options,
    )
    common = {"private": private, "args": settings, "train_dataset": Rows()}
    return PrivateTrainer(**common) if take_loss is by_rows else Batchwise(take_loss, **common)


@pytest.mark.parametrize("options", [{}, {"max_physical_batch_size": 4}], ids=["one batch", "several"])
def test_a_trainer_takes_all_steps(options, tmp_path):
    private = made(Rows(), Classifier(), **options)
    trainer(tmp_path, private, by_rows).train()
    assert private.accountant.steps == 2 * private.data_loader.steps


def test_a_trainer_takes_all_steps_in_narrow_numbers(tmp_path):
    """It casts the outputs to float32 after the forward, outside of the private module."""
    private = made(Rows(), Classifier())
    kinds = []
    private.module.layers[0].register_forward_hook(lambda _layer, _args, output: kinds.append(output.dtype))
    trainer(tmp_path, private, by_rows, bf16=True).train()
    assert private.accountant.steps == 2 * private.data_loader.steps
    assert kinds[-1] is torch.bfloat16
    assert not torch.is_autocast_enabled("cpu")  # the checks run within it, and leave it as it was


class Normalised(Classifier):
    def __init__(self):
        super().__init__()
        self.layers.insert(1, nn.BatchNorm1d(8))


def test_batch_normalisation_stays_frozen_in_a_trainer_by_the_guides_line(tmp_path):
    """As the guide has it; without it Trainer's `model.train()` lets the layer be refused, before anything is spent."""
    frozen, thawed = Normalised(), Normalised()
    for model in (frozen, thawed):
        layer = model.layers[1].requires_grad_(False)
        layer.eval()
        layer.running_mean.fill_(0.5)
    layer = frozen.layers[1]
    layer.train = lambda mode=True: layer
    private = made(Rows(), frozen)
    trainer(tmp_path, private, by_rows).train()
    assert private.accountant.steps == 2 * private.data_loader.steps
    assert frozen.training
    assert not layer.training
    assert bool((layer.running_mean == 0.5).all())
    private = made(Rows(), thawed)
    with pytest.raises(InidError, match="BatchNorm1d"):
        trainer(tmp_path, private, by_rows).train()
    assert private.accountant.steps == 0
    assert bool((thawed.layers[1].running_mean == 0.5).all())


@pytest.mark.parametrize("take_loss", [ordinary, by_count])
def test_a_trainers_loss_of_the_whole_batch_is_refused(take_loss, tmp_path):
    private = made(Rows(), Classifier())
    with pytest.raises(GuaranteeError, match="row by row"):
        trainer(tmp_path, private, take_loss).train()
    assert private.accountant.steps == 0


class Module(lightning.LightningModule):
    """A loop of Lightning's around a private model."""

    def __init__(self, private, take_loss):
        super().__init__()
        self.model, self.private, self.take_loss = private.module, [private], take_loss
        self.ended = 0

    def training_step(self, batch, _at):
        x, y = batch
        return self.take_loss(self.private[0], self.model(x), y, None)

    def configure_optimizers(self):
        return self.private[0].optimizer

    def train_dataloader(self):
        return self.private[0].data_loader

    def on_train_epoch_end(self):
        self.ended += 1


def fit(tmp_path, private, take_loss):
    module = Module(private, take_loss)
    lightning.Trainer(
        max_epochs=2,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=tmp_path,
    ).fit(module)
    return module


@pytest.mark.parametrize("options", [{}, {"max_physical_batch_size": 4}], ids=["one batch", "several"])
def test_lightning_takes_all_steps(options, tmp_path):
    private = made(TensorDataset(X, Y), Classifier(), **options)
    module = fit(tmp_path, private, by_rows)
    assert private.accountant.steps == 2 * private.data_loader.steps
    assert module.ended == 2


def test_lightning_with_class_weights_is_refused(tmp_path):
    private = made(TensorDataset(X, Y), Classifier())
    weight = torch.tensor([1.0, 1000.0])
    with pytest.raises(GuaranteeError, match="row by row"):
        fit(tmp_path, private, lambda _, out, y, __: functional.cross_entropy(out["logits"], y, weight=weight))


def test_the_length_of_a_loader_is_that_of_its_physical_batches():
    private = made(TensorDataset(X, Y), Classifier(), max_physical_batch_size=4)
    assert len(private.data_loader) == private.data_loader.steps * private.data_loader.physical_batches
    assert len(list(private.data_loader)) == len(private.data_loader)
    bare = made(TensorDataset(X, Y), Classifier(), pad_batches=False, loss_reduction="sum")
    with pytest.raises(TypeError, match=r"loader\.steps"):
        len(bare.data_loader)
    assert len(list(bare.data_loader)) >= bare.data_loader.steps
