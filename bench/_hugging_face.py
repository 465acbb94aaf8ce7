"""Hugging Face's own BERT, ViT and GPT-2 of base size, as `dpsgd_gpu` trains them: AdamW, bfloat16, with dropout."""

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from bench._gpu_jobs import Job

__all__ = ["SHAPES", "HuggingFaceJob"]

# Examples, and tokens of each; pictures are 224 x 224.
SHAPES = {"bert": (64, 128), "vit": (64, 0), "gpt2": (32, 128)}
SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}


class HuggingFaceJob(Job):
    """One of their models with random weights, of which nothing is fetched."""

    looks_at_norms = False  # that is said of transformers in general, by the other jobs

    @property
    def shape(self) -> tuple[int, int]:
        count, length = SHAPES[self.name]
        return (8, min(length, 16)) if self.small else (count, length)

    @property
    def side(self) -> int:
        return 32 if self.small else 224

    @property
    def tokens(self) -> int:
        return 500 if self.small else 30_000

    def model(self) -> nn.Module:
        import transformers as hugging_face

        hugging_face.logging.set_verbosity_error()
        torch.manual_seed(0)
        sizes: dict[str, Any] = SMALL if self.small else {}
        with torch.device(self.device):
            if self.name == "bert":
                return hugging_face.BertForSequenceClassification(hugging_face.BertConfig(**sizes)).train()
            if self.name == "vit":
                config = hugging_face.ViTConfig(**sizes, image_size=self.side)
                return hugging_face.ViTForImageClassification(config).train()
            sizes = {"n_embd": 32, "n_layer": 2, "n_head": 2} if self.small else {}
            return hugging_face.GPT2LMHeadModel(hugging_face.GPT2Config(**sizes)).train()

    def data(self) -> tuple[Tensor, Tensor]:
        drawn, (count, length) = torch.Generator().manual_seed(1), self.shape
        if self.name == "vit":
            x = torch.randn(count, 3, self.side, self.side, generator=drawn)
        else:
            x = torch.randint(0, self.tokens, (count, length), generator=drawn)
        y = x.clone() if self.name == "gpt2" else torch.randint(0, 2, (count,), generator=drawn)
        return x.to(self.device), y.to(self.device)

    def outputs(self, module: nn.Module, x: Tensor) -> Tensor:
        if self.name == "vit":
            return module(pixel_values=x).logits
        return module(input_ids=x, **({"use_cache": False} if self.name == "gpt2" else {})).logits

    @property
    def row_loss(self) -> Any:
        from inid import dpsgd

        return partial(dpsgd.per_example_loss, shift=True) if self.name == "gpt2" else functional.cross_entropy

    def losses(self, module: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        with torch.autocast(self.device, dtype=torch.bfloat16):
            logits = self.outputs(module, x)
            logits = logits[:, :-1] if self.name == "gpt2" else logits
        if self.name != "gpt2":
            return functional.cross_entropy(logits.float(), y, reduction="none")
        each = functional.cross_entropy(logits.flatten(0, 1).float(), y[:, 1:].flatten(), reduction="none")
        return each.view(len(y), -1).mean(1)

    def optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.AdamW(model.parameters(), lr=1e-4)
