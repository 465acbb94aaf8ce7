"""Models of Hugging Face, built from small configurations: their clipped sums are those of a slow loop."""

import copy
from functools import partial

import pytest
import torch
import transformers as hugging_face
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from inid import dpsgd
from inid.errors import GuaranteeError
from inid.testing import unsafe_no_noise
from training import make_private, row_squares

pytestmark = pytest.mark.filterwarnings("ignore")  # about their own future
torch.set_num_threads(1)

SMALL = {"vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def gpt2():
    config = hugging_face.GPT2Config(
        vocab_size=50, n_embd=16, n_layer=2, n_head=2, n_positions=32, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0
    )
    return hugging_face.GPT2LMHeadModel(config)


def checkpointed_gpt2():
    model = gpt2()
    model.gradient_checkpointing_enable({"use_reentrant": False})
    return model


def bert():
    config = hugging_face.BertConfig(**SMALL, **NO_DROPOUT, max_position_embeddings=32)
    return hugging_face.BertForSequenceClassification(config)


def masked_bert():
    return hugging_face.BertForMaskedLM(hugging_face.BertConfig(**SMALL, **NO_DROPOUT, max_position_embeddings=32))


def distilbert():
    config = hugging_face.DistilBertConfig(
        vocab_size=50,
        dim=16,
        n_layers=2,
        n_heads=2,
        hidden_dim=32,
        max_position_embeddings=32,
        dropout=0.0,
        attention_dropout=0.0,
        seq_classif_dropout=0.0,
    )
    return hugging_face.DistilBertForSequenceClassification(config)


def llama():
    config = hugging_face.LlamaConfig(**SMALL, max_position_embeddings=32, num_key_value_heads=2)
    return hugging_face.LlamaForCausalLM(config)


def opt():
    config = hugging_face.OPTConfig(
        vocab_size=50,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        ffn_dim=32,
        max_position_embeddings=32,
        word_embed_proj_dim=16,
        dropout=0.0,
    )
    return hugging_face.OPTForCausalLM(config)


def vit():
    config = hugging_face.ViTConfig(
        **{key: value for key, value in SMALL.items() if key != "vocab_size"}, **NO_DROPOUT, image_size=8, patch_size=4
    )
    return hugging_face.ViTForImageClassification(config)


def t5():
    config = hugging_face.T5Config(
        vocab_size=50, d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2, dropout_rate=0.0
    )
    return hugging_face.T5ForConditionalGeneration(config)


def bart():
    config = hugging_face.BartConfig(
        vocab_size=50,
        d_model=16,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        max_position_embeddings=40,
        dropout=0.0,
    )
    return hugging_face.BartForConditionalGeneration(config)


class Logits(nn.Module):
    """Called with one tensor; what else a model takes is made of it."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        if x.is_floating_point():
            return self.model(pixel_values=x).logits
        if self.model.config.is_encoder_decoder:
            return self.model(input_ids=x, decoder_input_ids=x.flip(1), use_cache=False).logits
        return self.model(input_ids=x, attention_mask=torch.ones_like(x)).logits


@pytest.mark.parametrize(
    "make",
    [gpt2, checkpointed_gpt2, bert, masked_bert, distilbert, llama, opt, vit, t5, bart],
    ids=lambda m: m.__name__,
)
def test_clipped_sums(make):
    torch.manual_seed(0)
    model = Logits(make()).train().double()
    x = torch.randn(5, 3, 8, 8, dtype=torch.float64) if make is vit else torch.randint(3, 50, (5, 7))
    own = copy.deepcopy(model)
    training = private(own, x, max_grad_norm=0.5)
    with unsafe_no_noise():
        for (batch,) in training.data_loader:
            training.backward(row_squares, own(batch))
            training.optimizer.step()
    parameters = [p for p in model.parameters() if p.requires_grad]
    wanted = [torch.zeros_like(p) for p in parameters]
    for at in range(len(x)):
        found = torch.autograd.grad(row_squares(model(x[at : at + 1])), parameters, allow_unused=True)
        length = sum(float(g.square().sum()) for g in found if g is not None) ** 0.5
        for total, gradient in zip(wanted, found, strict=True):
            total.add_(0 if gradient is None else gradient * min(1.0, 0.5 / length))
    for parameter, total in zip((p for p in own.parameters() if p.requires_grad), wanted, strict=True):
        assert torch.allclose(parameter.grad, total, rtol=1e-9, atol=1e-12)


def private(model, x, **options):
    return make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.0),
        data_loader=DataLoader(TensorDataset(x), batch_size=len(x)),
        noise_multiplier=1.0,
        loss_reduction="sum",
        **options,
    )


def test_a_loss_over_all_labels_of_the_batch_is_refused_with_the_cure():
    x = torch.randint(3, 50, (5, 7))
    training = private(gpt2().train(), x)
    with pytest.raises(GuaranteeError, match="per_example_loss"):
        training.module(input_ids=x, labels=x)
    (batch,) = next(iter(training.data_loader))
    loss = partial(dpsgd.per_example_loss, shift=True)
    training.backward(loss, training.module(input_ids=batch).logits, batch)
    training.optimizer.step()
    assert training.accountant.steps == 1
