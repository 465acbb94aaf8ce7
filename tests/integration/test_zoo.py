"""Architectures of Hugging Face as they come, called by keyword as Trainer calls them: they train, by the right sums.

Twenty run always, the others in `make slow`. Grouped kernels of experts know no float64, and are not tried here.
"""

import copy
import inspect

import pytest
import torch
import transformers as hugging_face
from torch import nn
from torch.utils.data import DataLoader

from inid import dpsgd
from inid.testing import unsafe_no_noise

pytestmark = pytest.mark.filterwarnings("ignore")  # about their own future
ROWS, LENGTH, WORDS, STEPS, CLIP = 6, 7, 41, 3, 0.5
DRAW = torch.Generator().manual_seed(4)
TOKENS = torch.randint(5, WORDS, (ROWS, LENGTH), generator=DRAW)
IMAGES = torch.rand(ROWS, 3, 16, 16, generator=DRAW)
SOUND = torch.randn(ROWS, 800, generator=DRAW)

# What configurations call the same sizes; each takes those that it has.
SIZES = {
    "vocab_size": WORDS,
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "dim", "embedding_size", "embed_dim"), 16),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers", "decoder_layers"), 2),
    "num_decoder_layers": 2,
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads"), 2),
    "decoder_attention_heads": 2,
    "num_key_value_heads": 1,
    **dict.fromkeys(("head_dim", "rotary_dim"), 8),
    **dict.fromkeys(("intermediate_size", "d_ff", "encoder_ffn_dim", "decoder_ffn_dim", "hidden_dim", "ffn_dim"), 32),
    "n_inner": 32,
    "d_kv": 8,
    **dict.fromkeys(("max_position_embeddings", "n_positions", "max_seq_len"), 32),
    "image_size": 16,
    "patch_size": 8,
    "word_embed_proj_dim": 16,
    "num_local_experts": 3,
    "num_experts": 3,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 16,
    "use_cache": False,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
}
# Chance by row is no concern of sums that are compared with those of single rows.
OFF = ("drop", "prob")

ALWAYS = [
    "AlbertForMaskedLM",
    "BartForConditionalGeneration",
    "BertForMaskedLM",
    "BloomForCausalLM",
    "CTRLLMHeadModel",
    "DebertaV2ForMaskedLM",
    "DistilBertForMaskedLM",
    "ElectraForMaskedLM",
    "FalconForCausalLM",
    "GPT2LMHeadModel",
    "GPTNeoXForCausalLM",
    "Gemma2ForCausalLM",
    "LlamaForCausalLM",
    "MistralForCausalLM",
    "MixtralForCausalLM",
    "MptForCausalLM",
    "OpenAIGPTLMHeadModel",
    "Qwen2ForCausalLM",
    "RobertaForMaskedLM",
    "ViTForImageClassification",
]
SLOW = [
    "AfmoeForCausalLM",
    "ApertusForCausalLM",
    "ArceeForCausalLM",
    "AriaTextForCausalLM",
    "BailingHybridForCausalLM",
    "BeamForCausalLM",
    "BeitForImageClassification",
    "BertForSequenceClassification",
    "BertGenerationDecoder",
    "BigBirdForCausalLM",
    "BigBirdPegasusForCausalLM",
    "BioGptForCausalLM",
    "BitNetForCausalLM",
    "BlenderbotForConditionalGeneration",
    "BlenderbotSmallForCausalLM",
    "CamembertForCausalLM",
    "Cohere2ForCausalLM",
    "Cohere2MoeForCausalLM",
    "CohereForCausalLM",
    "ConvBertForMaskedLM",
    "CwmForCausalLM",
    "Data2VecTextForCausalLM",
    "Data2VecVisionForImageClassification",
    "DebertaForMaskedLM",
    "DeepseekV4ForCausalLM",
    "DeiTForImageClassification",
    "Dinov2ForImageClassification",
    "Dinov2WithRegistersForImageClassification",
    "DogeForCausalLM",
    "Emu3ForCausalLM",
    "Ernie4_5ForCausalLM",
    "Ernie4_5_MoeForCausalLM",
    "ErnieForCausalLM",
    "EsmForMaskedLM",
    "EuroBertForMaskedLM",
    "Exaone4ForCausalLM",
    "ExaoneMoeForCausalLM",
    "FNetForMaskedLM",
    "FalconMambaForCausalLM",
    "FlaubertWithLMHeadModel",
    "FlexOlmoForCausalLM",
    "FlintForCausalLM",
    "FocalNetForImageClassification",
    "FunnelForMaskedLM",
    "GPTBigCodeForCausalLM",
    "GPTJForCausalLM",
    "GPTNeoXJapaneseForCausalLM",
    "Gemma3ForCausalLM",
    "GemmaForCausalLM",
    "Glm4ForCausalLM",
    "Glm4MoeForCausalLM",
    "GlmForCausalLM",
    "GptOssForCausalLM",
    "GraniteForCausalLM",
    "GraniteMoeForCausalLM",
    "GraniteMoeSWAForCausalLM",
    "GraniteMoeSharedForCausalLM",
    "GraniteSWAForCausalLM",
    "GteForMaskedLM",
    "HYV3ForCausalLM",
    "HeliumForCausalLM",
    "HrmTextForCausalLM",
    "HubertForSequenceClassification",
    "HunYuanDenseV1ForCausalLM",
    "HunYuanMoEV1ForCausalLM",
    "HyperCLOVAXForCausalLM",
    "IJepaForImageClassification",
    "ImageGPTForImageClassification",
    "Jais2ForCausalLM",
    "JambaForCausalLM",
    "JetMoeForCausalLM",
    "JinaEmbeddingsV3ForMaskedLM",
    "Kolibri1ForCausalLM",
    "LagunaForCausalLM",
    "LayoutLMForMaskedLM",
    "Lfm2ForCausalLM",
    "Lfm3ForCausalLM",
    "Llama4ForCausalLM",
    "LongT5ForConditionalGeneration",
    "M2M100ForConditionalGeneration",
    "MBartForConditionalGeneration",
    "MPNetForMaskedLM",
    "MT5ForConditionalGeneration",
    "MambaForCausalLM",
    "MarianMTModel",
    "MarkupLMForSequenceClassification",
    "MegatronBertForCausalLM",
    "MellumForCausalLM",
    "MiMoV2FlashForCausalLM",
    "MiniMaxForCausalLM",
    "MiniMaxM2ForCausalLM",
    "MiniMaxM3VLForCausalLM",
    "Ministral3ForCausalLM",
    "MinistralForCausalLM",
    "MllamaForCausalLM",
    "MobileBertForMaskedLM",
    "ModernBertDecoderForCausalLM",
    "ModernBertForMaskedLM",
    "MoshiForCausalLM",
    "MvpForCausalLM",
    "NanoChatForCausalLM",
    "NemotronForCausalLM",
    "NllbMoeForConditionalGeneration",
    "NomicBertForMaskedLM",
    "NystromformerForMaskedLM",
    "OPTForCausalLM",
    "Olmo2ForCausalLM",
    "Olmo3ForCausalLM",
    "OlmoForCausalLM",
    "OlmoHybridForCausalLM",
    "OlmoeForCausalLM",
    "PLBartForCausalLM",
    "PegasusForConditionalGeneration",
    "PegasusXForConditionalGeneration",
    "PersimmonForCausalLM",
    "Phi3ForCausalLM",
    "PhiForCausalLM",
    "PhimoeForCausalLM",
    "Qwen2MoeForCausalLM",
    "Qwen3ForCausalLM",
    "Qwen3MoeForCausalLM",
    "RemBertForMaskedLM",
    "RoFormerForMaskedLM",
    "RobertaPreLayerNormForMaskedLM",
    "RwkvForCausalLM",
    "SEWForSequenceClassification",
    "SeamlessM4TForTextToText",
    "SeamlessM4Tv2ForTextToText",
    "SeedOssForCausalLM",
    "SmolLM3ForCausalLM",
    "SolarOpenForCausalLM",
    "SqueezeBertForMaskedLM",
    "StableLmForCausalLM",
    "Starcoder2ForCausalLM",
    "SwitchTransformersForConditionalGeneration",
    "T5ForConditionalGeneration",
    "TapasForMaskedLM",
    "TrOCRForCausalLM",
    "UMT5ForConditionalGeneration",
    "UltrabertForMaskedLM",
    "UniSpeechForSequenceClassification",
    "VaultGemmaForCausalLM",
    "ViTMSNForImageClassification",
    "Wav2Vec2ForSequenceClassification",
    "WhisperForCausalLM",
    "XLMRobertaForMaskedLM",
    "XLMRobertaXLForMaskedLM",
    "XLMWithLMHeadModel",
    "XLNetLMHeadModel",
    "YosoForMaskedLM",
    "xLSTMForCausalLM",
]


def built(name):
    """A tiny model of an architecture, in float64."""
    kind = getattr(hugging_face, name)
    known = kind.config_class()
    fixed = {key for each in type(known).__mro__ for key, value in vars(each).items() if isinstance(value, property)}
    given = {key: value for key, value in SIZES.items() if hasattr(known, key) and key not in fixed}
    for key, value in vars(known).items():
        if isinstance(value, float) and any(word in key for word in OFF):
            given[key] = 0.0
    torch.manual_seed(0)
    config = kind.config_class(**given | {"attn_implementation": "eager"})
    config._experts_implementation = "eager"  # the other kernels know no float64
    model = kind(config).double().train()
    for parameter in model.parameters():  # zeros would hide what is behind them
        if not parameter.any():
            nn.init.normal_(parameter, std=0.05)
    return model


def batch_of(model):
    if model.main_input_name == "pixel_values":
        return {"pixel_values": IMAGES.double()}
    if model.main_input_name == "input_values":
        return {"input_values": SOUND.double()}
    batch = {"input_ids": TOKENS}
    if "attention_mask" in inspect.signature(model.forward).parameters:
        batch["attention_mask"] = torch.ones_like(TOKENS)
    return batch | ({"decoder_input_ids": TOKENS.flip(1)} if model.config.is_encoder_decoder else {})


def loss(logits):
    return logits.square().mean()


@pytest.mark.parametrize("name", [*ALWAYS, *(pytest.param(each, marks=pytest.mark.slow) for each in SLOW)])
def test_an_architecture_trains_by_the_sums_of_the_slow_loop(name):
    model = built(name)
    batch = batch_of(model)
    rows = [{key: value[at] for key, value in batch.items()} for at in range(ROWS)]
    own = copy.deepcopy(model)
    training = dpsgd.make_private(
        module=own,
        optimizer=torch.optim.SGD(own.parameters(), lr=0.0),
        data_loader=DataLoader(rows, batch_size=ROWS),
        noise_multiplier=1.0,
        clipping=dpsgd.Clipping(max_grad_norm=CLIP, loss_reduction="sum"),
    )
    with unsafe_no_noise():
        for _ in range(STEPS):
            for drawn in training.data_loader:
                training.optimizer.zero_grad()
                training.backward(loss, training.module(**drawn).logits)
                training.optimizer.step()
    assert training.accountant.steps == STEPS
    trained = [p for p in model.parameters() if p.requires_grad]
    wanted = [torch.zeros_like(p) for p in trained]
    for at in range(ROWS):
        alone = {key: value[at : at + 1] for key, value in batch.items()}
        found = torch.autograd.grad(loss(model(**alone).logits), trained, allow_unused=True)
        length = sum(float(g.square().sum()) for g in found if g is not None) ** 0.5
        for total, gradient in zip(wanted, found, strict=True):
            total.add_(0 if gradient is None else gradient * min(1.0, CLIP / length))
    whole = torch.cat([each.flatten() for each in wanted])
    given = [torch.zeros_like(p) if p.grad is None else p.grad for p in own.parameters() if p.requires_grad]
    sums = torch.cat([each.flatten() for each in given])  # what no layer uses has no gradient
    assert float((sums - whole).norm()) <= 1.5e-5 * float(whole.norm())
