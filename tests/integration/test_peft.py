"""Adapters of `peft` on frozen models: their clipped sums are the slow loop's, and nothing else is trained."""

import copy

import peft
import pytest
import torch
import transformers as hugging_face
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from inid import dpsgd
from inid.dpsgd.integrations import PrivateTrainer
from training import assert_close, groups_of, make_private, slow_sums, sums

pytestmark = pytest.mark.filterwarnings("ignore")  # about their own future
TOKENS = torch.randint(1, 20, (6, 5), generator=torch.Generator().manual_seed(1))


class Logits(nn.Module):
    """The logits of a model of Hugging Face, over all positions."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, tokens):
        return self.model(input_ids=tokens, attention_mask=torch.ones_like(tokens)).logits


def adapted(name, **options):
    """A small model whose weights are frozen, with adapters that are not zero, as they would be at the start."""
    torch.manual_seed(0)
    sizes = {"vocab_size": 20, "num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 8}
    drop = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    none = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    model, into = {
        "bert": lambda: (
            hugging_face.BertForSequenceClassification(
                hugging_face.BertConfig(**sizes, **none, intermediate_size=16, max_position_embeddings=8)
            ),
            ["query", "value"],
        ),
        "llama": lambda: (
            hugging_face.LlamaForCausalLM(hugging_face.LlamaConfig(**sizes, intermediate_size=16)),
            ["q_proj", "v_proj"],
        ),
        "gpt2": lambda: (
            hugging_face.GPT2LMHeadModel(
                hugging_face.GPT2Config(vocab_size=20, n_layer=2, n_head=2, n_embd=8, n_positions=8, **drop)
            ),
            ["c_attn"],
        ),
    }[name]()
    whole = peft.get_peft_model(model, peft.LoraConfig(r=2, lora_dropout=0.0, target_modules=into, **options))
    for key, parameter in whole.named_parameters():
        if "lora_B" in key:
            nn.init.normal_(parameter)
    return Logits(whole)


@pytest.mark.parametrize("clipping", ["global", "per_layer"])
@pytest.mark.parametrize("name", ["bert", "llama", "gpt2"])
def test_the_clipped_sums_of_adapters_are_those_of_the_slow_loop(name, clipping):
    model = adapted(name).double()
    groups = groups_of(model, clipping)
    thresholds = [0.3 + 0.05 * at for at in range(len(groups))]
    wanted = slow_sums(model, TOKENS, thresholds, groups=groups, clipping=clipping)
    assert wanted
    assert all("lora" in key for key in wanted)
    assert_close(sums(model, TOKENS, clipping=clipping, max_grad_norm=thresholds), wanted, torch.float32)


def test_adapters_are_trained_and_the_model_is_not():
    model = adapted("bert", modules_to_save=["classifier"])
    before = {key: each.clone() for key, each in model.state_dict().items()}
    trained = [p for p in model.parameters() if p.requires_grad]
    labels = torch.randint(0, 2, (6,))
    private = dpsgd.make_private(
        module=model,
        optimizer=torch.optim.AdamW(trained, lr=0.01),
        data_loader=DataLoader(TensorDataset(TOKENS, labels), batch_size=3),
        noise_multiplier=1.0,
    )
    for tokens, y in private.data_loader:
        private.optimizer.zero_grad()
        private.backward(functional.cross_entropy, private.module(tokens), y)
        private.optimizer.step()
    changed = {key for key, each in model.state_dict().items() if not torch.equal(each, before[key])}
    names = {key for key, each in model.named_parameters() if each.requires_grad}
    assert changed == names
    assert any("lora_A" in key for key in names)
    assert any("classifier" in key for key in names)


def test_a_trained_adapter_is_merged_and_saved_as_usual(tmp_path):
    model = adapted("bert")
    trained = [p for p in model.parameters() if p.requires_grad]
    private = dpsgd.make_private(
        module=model,
        optimizer=torch.optim.SGD(trained, lr=0.1),
        data_loader=DataLoader(TensorDataset(TOKENS, torch.randint(0, 2, (6,))), batch_size=3),
        noise_multiplier=1.0,
    )
    for tokens, y in private.data_loader:
        private.optimizer.zero_grad()
        private.backward(functional.cross_entropy, private.module(tokens), y)
        private.optimizer.step()
    private.optimizer.detach()
    with torch.no_grad():
        wanted = model(TOKENS)
    model.model.save_pretrained(tmp_path)
    assert (tmp_path / "adapter_model.safetensors").exists()
    merged = Logits(copy.deepcopy(model).model.merge_and_unload())
    with torch.no_grad():
        assert torch.allclose(merged(TOKENS), wanted, atol=1e-5)


@pytest.mark.parametrize("parts", [None, 4])
def test_a_trainer_trains_the_adapters_of_a_llama_and_saves_them_alone(parts, tmp_path):
    model = adapted("llama", task_type="CAUSAL_LM").model
    before = {key: each.clone() for key, each in model.state_dict().items()}
    rows = [{"input_ids": each, "labels": each} for each in TOKENS]
    private = make_private(
        module=model,
        optimizer=torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.01),
        data_loader=DataLoader(rows, batch_size=6),
        noise_multiplier=1.0,
        epochs=2,
        max_physical_batch_size=parts,
    )
    settings = hugging_face.TrainingArguments(
        output_dir=str(tmp_path),
        num_train_epochs=2,
        label_names=["labels"],
        eval_strategy="epoch",
        save_strategy="epoch",
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
    )
    trainer = PrivateTrainer(private=private, args=settings, eval_dataset=rows)
    trainer.train()
    assert private.accountant.steps == 2
    assert all("eval_loss" in each for each in trainer.state.log_history if "eval_runtime" in each)
    changed = {key for key, each in model.state_dict().items() if not torch.equal(each, before[key])}
    assert changed == {key for key in before if "lora_" in key}
    saved = {path.name for path in tmp_path.glob("checkpoint-*/*.safetensors")}
    assert saved == {"adapter_model.safetensors"}
