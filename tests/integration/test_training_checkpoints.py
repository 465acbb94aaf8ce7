"""Trainer and Lightning around a private run: evaluation, checkpoints, options that must be off, epsilon in logs."""

import copy

import accelerate
import lightning
import pytest
import torch
import transformers as hugging_face
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from inid import dpsgd
from inid.dpsgd.integrations import LogEpsilon, PrivateLightningModule, PrivateTrainer
from inid.errors import ArgumentError, GuaranteeError
from integration.test_training_frameworks import BATCH, ROWS, Classifier, Rows, X, Y
from integration.test_training_frameworks import made as made_of

pytestmark = pytest.mark.filterwarnings("ignore")  # about their own future
torch.set_num_threads(1)
STEPS = ROWS // BATCH


def made(data, **options):
    return made_of(data, Classifier(), **options)


def trainer(folder, private, **settings):
    settings = {"num_train_epochs": 2, "save_strategy": "no"} | settings
    own = hugging_face.TrainingArguments(
        output_dir=str(folder), report_to=[], disable_tqdm=True, use_cpu=True, label_names=["labels"], **settings
    )
    return PrivateTrainer(private=private, args=own, eval_dataset=Rows(), delta=1e-5)


def of_logits(outputs, y):
    return functional.cross_entropy(outputs["logits"], y)


class Module(PrivateLightningModule):
    """A module whose model returns a dictionary, and that evaluates."""

    def __init__(self, private):
        super().__init__(private, of_logits)

    def validation_step(self, batch, _at):
        x, y = batch
        self.log("validation", functional.cross_entropy(self.model(x)["logits"], y))

    def val_dataloader(self):
        return DataLoader(TensorDataset(X, Y), batch_size=ROWS)


def fitting(folder, **settings):
    settings = {"max_epochs": 2, "enable_checkpointing": False} | settings
    return lightning.Trainer(
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
        **settings,
    )


def plain_loss(model):
    with torch.no_grad():
        return float(functional.cross_entropy(model(X)["logits"], Y))


def test_a_trainer_evaluates_as_an_ordinary_model_would(tmp_path):
    private = made(Rows())
    own = trainer(tmp_path, private, eval_strategy="epoch")
    own.train()
    found = own.evaluate()["eval_loss"]
    assert private.accountant.steps == 2 * STEPS  # evaluation counts as no step
    assert found == pytest.approx(plain_loss(copy.deepcopy(private.module)), rel=1e-5)


@pytest.mark.parametrize("at", [2, STEPS], ids=["within an epoch", "between epochs"])
def test_a_trainer_resumes_with_the_count_of_the_checkpoint(at, tmp_path):
    trainer(tmp_path, made(Rows()), save_strategy="steps", save_steps=at).train()
    again = made(Rows())
    resumed = trainer(tmp_path, again)
    resumed.train(resume_from_checkpoint=str(tmp_path / f"checkpoint-{at}"))
    assert again.accountant.steps == 2 * STEPS
    assert again.accountant.get_epsilon(1e-5) == pytest.approx(once(2 * STEPS), rel=1e-9)


def once(steps):
    accountant = dpsgd.Accountant()
    for _ in range(steps):
        accountant.step(mechanism="gaussian", noise_multiplier=1.0, sample_rate=BATCH / ROWS)
    return accountant.get_epsilon(1e-5)


def test_a_saved_model_is_an_ordinary_one(tmp_path):
    private = made(Rows())
    own = trainer(tmp_path, private)
    own.train()
    own.save_model(str(tmp_path / "model"))
    hugging_face.utils.logging.set_verbosity_error()
    state = private.module.state_dict()
    plain = Classifier()
    plain.load_state_dict(state)
    assert set(state) == set(Classifier().state_dict())
    assert plain_loss(plain) == plain_loss(private.module)
    assert (tmp_path / "model" / "model.safetensors").exists()


@pytest.mark.parametrize("parts", [None, 4])
def test_a_trainers_clipping_of_gradients_does_nothing(parts, tmp_path):
    """It finds none: the guide says to turn it off, and a run that forgets to is the same run."""
    private = made(Rows(), max_physical_batch_size=parts)
    seen = []
    own = trainer(tmp_path, private, max_grad_norm=1e-9)
    whole = own.accelerator.clip_grad_norm_
    own.accelerator.clip_grad_norm_ = lambda *args, **more: seen.append(float(whole(*args, **more)))
    own.train()
    assert seen
    assert set(seen) == {0.0}
    assert private.accountant.steps == 2 * STEPS


def test_accumulation_in_a_trainer_is_refused_by_name(tmp_path):
    private = made(Rows())
    with pytest.raises(ArgumentError, match=r"max_physical_batch_size.*gradient_accumulation_steps=1"):
        trainer(tmp_path, private, gradient_accumulation_steps=2)
    assert private.accountant.steps == 0


def of_settings(folder, **settings):
    """The settings of a Trainer that makes the training private itself."""
    own = {"num_train_epochs": 2, "save_strategy": "no", "report_to": [], "disable_tqdm": True, "use_cpu": True}
    return hugging_face.TrainingArguments(output_dir=str(folder), label_names=["labels"], **own | settings)


def test_accumulation_becomes_the_size_of_physical_batches(tmp_path):
    args = of_settings(tmp_path, per_device_train_batch_size=3, gradient_accumulation_steps=2)
    own = PrivateTrainer(
        Classifier(), args, privacy={"target_epsilon": 3.0, "target_delta": 1e-3}, train_dataset=Rows()
    )
    loader = own.private.data_loader
    assert (loader.physical_batch_size, loader.expected_batch_size) == (3, 6)
    own.train()
    assert own.private.accountant.steps == 2 * ROWS // 6
    assert own.state.log_history[-1]["epsilon"] <= 3.0
    assert own.private.accountant.get_epsilon(1e-3) == own.state.log_history[-1]["epsilon"]


@pytest.mark.parametrize("both", [{}, {"privacy": {"noise_multiplier": 1.0}, "private": True}])
def test_a_trainer_is_told_its_privacy_once(both, tmp_path):
    both = both | ({"private": made(Rows())} if both else {})
    with pytest.raises(ArgumentError, match=r"privacy=dict\(target_epsilon"):
        PrivateTrainer(args=of_settings(tmp_path), train_dataset=Rows(), **both)


@pytest.mark.parametrize("function", ["of a row", "by default"])
def test_a_trainers_compute_loss_func_is_of_one_row(function, tmp_path):
    shapes = []

    def of_a_row(outputs, labels):
        shapes.append((outputs["logits"].shape, labels.shape))
        return functional.cross_entropy(outputs["logits"], labels)

    own = PrivateTrainer(
        Classifier(),
        of_settings(tmp_path, per_device_train_batch_size=BATCH),
        privacy={"noise_multiplier": 1.0},
        train_dataset=Rows(),
        compute_loss_func=of_a_row if function == "of a row" else None,
        delta=1e-5,
    )
    own.train()
    assert own.private.accountant.steps == 2 * STEPS
    assert set(shapes) == ({((2,), ())} if function == "of a row" else set())


def test_accelerate_goes_around_a_private_training():
    private = made(Rows())
    accelerator = accelerate.Accelerator(cpu=True)
    module, optimizer, loader = accelerator.prepare(private.module, private.optimizer, private.data_loader)
    for batch in loader:
        optimizer.zero_grad()
        outputs = module(x=batch["x"])
        loss = private.loss(functional.cross_entropy, outputs["logits"], batch["labels"])
        accelerator.backward(loss)
        optimizer.step()
    assert private.accountant.steps == STEPS


def test_a_trainer_logs_epsilon_to_whoever_listens(tmp_path):
    """As TensorBoard and W&B do, which are callbacks of a Trainer."""
    private, seen = made(Rows()), []

    class Listener(hugging_face.TrainerCallback):
        def on_log(self, _args, _state, _control, logs=None, **_more):
            seen.append(logs["epsilon"])

    own = trainer(tmp_path, private, logging_strategy="epoch")
    own.add_callback(Listener())
    own.train()
    assert seen[:2] == pytest.approx([once(STEPS), once(2 * STEPS)], rel=1e-9)
    logged = [each["epsilon"] for each in own.state.log_history if "epsilon" in each]
    assert logged == seen


def test_a_lightning_module_logs_epsilon_itself(tmp_path):
    private = made(TensorDataset(X, Y))
    module = PrivateLightningModule(
        private, lambda outputs, y: functional.cross_entropy(outputs["logits"], y), delta=1e-5
    )
    own = fitting(tmp_path)
    own.fit(module)
    assert float(own.callback_metrics["epsilon"]) == pytest.approx(once(2 * STEPS), rel=1e-6)


def test_lightning_evaluates_and_logs_epsilon(tmp_path):
    private = made(TensorDataset(X, Y))
    own = fitting(tmp_path, callbacks=[LogEpsilon(private, 1e-5)])
    own.fit(Module(private))
    assert float(own.callback_metrics["validation"]) == pytest.approx(plain_loss(private.module), rel=1e-5)
    assert float(own.callback_metrics["epsilon"]) == pytest.approx(once(2 * STEPS), rel=1e-6)


def test_lightning_resumes_with_the_count_of_the_checkpoint(tmp_path):
    first = fitting(tmp_path, max_epochs=1, enable_checkpointing=True)
    first.fit(Module(made(TensorDataset(X, Y))))
    again = made(TensorDataset(X, Y))
    fitting(tmp_path).fit(Module(again), ckpt_path=first.checkpoint_callback.best_model_path)
    assert again.accountant.steps == 2 * STEPS


@pytest.mark.parametrize("options", [{"gradient_clip_val": 1e-9}, {"precision": "bf16-mixed"}], ids=str)
def test_lightnings_clipping_does_nothing_and_narrow_numbers_work(options, tmp_path):
    private = made(TensorDataset(X, Y))
    fitting(tmp_path, **options).fit(Module(private))
    assert private.accountant.steps == 2 * STEPS


def test_accumulation_in_lightning_is_refused_by_name(tmp_path):
    private = made(TensorDataset(X, Y))
    with pytest.raises(GuaranteeError, match=r"accumulate_grad_batches=1.*max_physical_batch_size"):
        fitting(tmp_path, accumulate_grad_batches=2).fit(Module(private))
    assert private.accountant.steps == 0
