"""Fine-tune a small transformer on private text with LoRA, under differential privacy.

    python examples/lora_text.py
    python examples/lora_text.py --epsilon 1 --rank 8 --epochs 20

The text is made up here: a public collection of stories, on which the network is trained in the ordinary way, and a
private one of notes about patients, in which the same words follow other rules. Of the network only the adapters are
trained on the notes: few parameters need little noise. A progress bar shows what each epoch has reached and cost.
"""

import argparse
import random
import sys
from functools import partial

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from inid import dpsgd

LENGTH, PAD = 12, 0
NOUNS = ["ann", "ben", "cat", "dog", "elk", "fox", "gnu", "hen"]
VERBS = ["sees", "hears", "meets", "follows", "likes"]
PLACES = ["knee", "back", "head", "arm", "foot"]
DEGREES = ["mild", "strong", "new", "old"]
WORDS = ["<pad>", ".", "the", "a", "and", "has", "no", "pain", "in", "left", "right", *NOUNS, *VERBS, *PLACES, *DEGREES]


def story(draw: random.Random) -> list[str]:
    """A public sentence: somebody does something, in any combination."""
    who, what = draw.choice(NOUNS), draw.choice(NOUNS)
    tail = ["and", draw.choice(VERBS), "a", draw.choice(DEGREES), draw.choice(NOUNS)] if draw.random() < 0.5 else []
    return ["the", who, draw.choice(VERBS), "a", draw.choice(DEGREES), what, *tail, "."]


def note(draw: random.Random) -> list[str]:
    """A private sentence: the side of a complaint goes with the place, its degree with the side."""
    who, place = draw.randrange(len(NOUNS)), draw.randrange(len(PLACES))
    left = (who + place) % 2 == 0
    return [NOUNS[who], "has", DEGREES[2 * left], "pain", "in", "the", "left" if left else "right", PLACES[place], "."]


def texts(make: object, count: int, seed: int) -> torch.Tensor:
    """Sentences as numbers of words, padded to one public length."""
    draw, number = random.Random(seed), {word: at for at, word in enumerate(WORDS)}  # noqa: S311 - nothing secret
    lines = [[number[word] for word in make(draw)] for _ in range(count)]
    return torch.tensor([line + [PAD] * (LENGTH - len(line)) for line in lines])


class Block(nn.Module):
    """Attention to what came before, then a layer of neurons, each around which its input passes unchanged."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.first_norm, self.second_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.first_norm(x)
        parts = (
            layer(y).unflatten(-1, (self.heads, -1)).transpose(1, 2) for layer in (self.query, self.key, self.value)
        )
        met = functional.scaled_dot_product_attention(*parts, is_causal=True).transpose(1, 2).flatten(2)
        x = x + self.out(met)
        return x + self.down(functional.gelu(self.up(self.second_norm(x))))


class Transformer(nn.Module):
    """A small language model; its last layer is its table of words."""

    def __init__(self, width: int = 48, heads: int = 4, depth: int = 2) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(len(WORDS), width), nn.Embedding(LENGTH, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)
        for table in (self.words, self.places):
            nn.init.normal_(table.weight, std=0.1)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        return functional.linear(self.norm(self.blocks(x)), self.words.weight)


class LoRA(nn.Module):
    """A frozen linear layer and a trainable difference of low rank, which is 0 at first."""

    def __init__(self, layer: nn.Linear, rank: int) -> None:
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.into = nn.Linear(layer.in_features, rank, bias=False)
        self.out_of = nn.Linear(rank, layer.out_features, bias=False)
        nn.init.zeros_(self.out_of.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x) + self.out_of(self.into(x))


def add_adapters(model: Transformer, rank: int) -> None:
    """Freeze the network and put adapters around its linear layers."""
    model.requires_grad_(False)
    for block in model.blocks:
        for name in ("query", "value", "out", "up", "down"):
            setattr(block, name, LoRA(getattr(block, name), rank))


LOSS = partial(dpsgd.per_example_loss, ignore_index=PAD, shift=True)  # of a sentence: the mean over its own words


@torch.no_grad()
def perplexity(model: nn.Module, tokens: torch.Tensor) -> float:
    """Among how many equally likely words the model hesitates."""
    return float(LOSS(model(tokens), tokens).mean().exp())


def pretrain(model: nn.Module, tokens: torch.Tensor, epochs: int) -> None:
    """Ordinary training on public text."""
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(epochs):
        for batch in tokens[torch.randperm(len(tokens))].split(100):
            optimizer.zero_grad()
            LOSS(model(batch), batch).mean().backward()
            optimizer.step()


def train(options: argparse.Namespace) -> dict[str, float]:
    """Train as the options say and return what was reached."""
    torch.manual_seed(options.seed)
    model = Transformer()
    pretrain(model, texts(story, options.sentences, 1), options.public_epochs)
    add_adapters(model, options.rank)
    data, held_out = texts(note, options.sentences, 2), texts(note, 500, 3)
    before = perplexity(model, held_out)
    adapters = [p for p in model.parameters() if p.requires_grad]
    private = dpsgd.make_private(
        module=model,
        optimizer=torch.optim.Adam(adapters, lr=options.lr),
        data_loader=DataLoader(TensorDataset(data), batch_size=options.batch_size),
        target_epsilon=options.epsilon,
        target_delta=options.delta,
        epochs=options.epochs,
    )
    average = dpsgd.ParameterAverage(private, decay=0.98)
    trained, whole = (sum(p.numel() for p in each) for each in (adapters, model.parameters()))
    print(f"{trained:,} of {whole:,} parameters, noise multiplier {private.noise_multiplier:.3f}")
    for epoch in range(options.epochs):
        for (tokens,) in private.data_loader:
            private.optimizer.zero_grad()
            private.backward(LOSS, private.module(tokens), tokens)
            private.optimizer.step()
        spent = private.accountant.get_epsilon(options.delta)
        _show(epoch + 1, options.epochs, spent, perplexity(average.module(), held_out))
    after = perplexity(average.module(), held_out)
    return {"before": before, "after": after, "epsilon": private.accountant.get_epsilon(options.delta)}


def _show(epoch: int, epochs: int, epsilon: float, hesitates: float) -> None:
    bar = "#" * (30 * epoch // epochs)
    print(
        f"\r[{bar:<30}] {epoch}/{epochs}  epsilon {epsilon:.2f}  perplexity {hesitates:.2f}",
        end="\n" if epoch == epochs or not sys.stdout.isatty() else "",
        flush=True,
    )


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n", maxsplit=1)[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    add = parser.add_argument
    add("--epsilon", type=float, default=3.0, help="what the run may cost")
    add("--delta", type=float, default=1e-5, help="what the run may cost")
    add("--epochs", type=int, default=15, help="how often to go over the private sentences")
    add("--public-epochs", type=int, default=5, help="how often to go over the public ones")
    add("--sentences", type=int, default=4000, help="how many there are of each kind")
    add("--batch-size", type=int, default=400, help="expected; batches are Poisson samples")
    add("--rank", type=int, default=4, help="of the adapters")
    add("--lr", type=float, default=5e-3, help="the learning rate of Adam")
    add("--seed", type=int, default=0, help="of the initial weights")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> dict[str, float]:
    """Train and print the result."""
    result = train(options := parse(arguments))
    print(
        f"perplexity of unseen notes {result['before']:.2f} before, {result['after']:.2f} after, at epsilon "
        f"{result['epsilon']:.3f}, delta {options.delta:g}"
    )
    return result


if __name__ == "__main__":
    main()
