"""A Llama of 1.2 billion weights, as `dpsgd_gpu --large` trains it: whole, with checkpoints, and by peft's adapters."""

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from bench._gpu_jobs import Job

__all__ = ["LARGE", "LargeJob"]

# Sequences, tokens of each, whether the forward is run again in the backward, and the rank of adapters, if any.
LARGE = {
    "llama": (8, 512, False, None),
    "llama-checkpointed": (16, 1024, True, None),
    "lora": (8, 512, False, 16),
}
SIZES = {
    "vocab_size": 128_256,
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
}
SMALL = {
    "vocab_size": 500,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}


class LargeJob(Job):
    """Random weights in float32, bfloat16 by autocast, AdamW."""

    looks_at_norms = False

    @property
    def shape(self) -> tuple[int, int]:
        count, length, _, _ = LARGE[self.name]
        return (4, 16) if self.small else (count, length)

    @property
    def tokens(self) -> int:
        return (SMALL if self.small else SIZES)["vocab_size"]

    def model(self) -> nn.Module:
        import transformers as hugging_face

        hugging_face.logging.set_verbosity_error()
        _, _, checkpointed, rank = LARGE[self.name]
        torch.manual_seed(0)
        config = hugging_face.LlamaConfig(
            **(SMALL if self.small else SIZES), tie_word_embeddings=True, use_cache=False, attn_implementation="sdpa"
        )
        with torch.device(self.device):
            model: Any = hugging_face.LlamaForCausalLM(config)
        if rank is not None:
            import peft

            names = ["q_proj", "k_proj", "v_proj", "o_proj"]
            model = peft.get_peft_model(model, peft.LoraConfig(r=rank, target_modules=names, task_type="CAUSAL_LM"))
        if checkpointed:
            model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        return model.train()

    def data(self) -> tuple[Tensor, Tensor]:
        drawn = torch.Generator().manual_seed(1)
        tokens = torch.randint(0, self.tokens, self.shape, generator=drawn)
        return tokens.to(self.device), tokens.clone().to(self.device)

    def outputs(self, module: nn.Module, x: Tensor) -> Tensor:
        return module(input_ids=x).logits

    @property
    def row_loss(self) -> Any:
        from inid import dpsgd

        return partial(dpsgd.per_example_loss, shift=True)

    def losses(self, module: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        with torch.autocast(self.device, dtype=torch.bfloat16):
            logits = self.outputs(module, x)
        shifted = functional.pad(y[:, 1:], (0, 1), value=-100)
        each = functional.cross_entropy(logits.flatten(0, 1).float(), shifted.flatten(), reduction="none")
        return each.view(len(y), -1).sum(1) / (y.shape[1] - 1)

    def optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-5)
