"""What people write around their models works in private training, or the refusal names the cure."""

import copy

import pytest
import torch
import transformers as hugging_face
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from inid import dpsgd
from inid.errors import GuaranteeError
from training import assert_close, by_row, groups_of, private, slow_sums, sums, train_once

pytestmark = pytest.mark.filterwarnings("ignore")  # of torch.compile, about its own future
T, E, WORDS = 5, 8, 11
TOKENS = torch.randint(0, WORDS, (4, T), generator=torch.Generator().manual_seed(2))


class NanoGPT(nn.Module):
    """Tables of words and places, a block, and the table of words again as the last layer."""

    def __init__(self, places=lambda: torch.arange(T), *, tied="module"):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(WORDS, E), nn.Embedding(T, E)
        self.block = nn.TransformerEncoderLayer(E, 2, 2 * E, dropout=0.0, batch_first=True)
        self.norm, self.places, self.tied = nn.LayerNorm(E), places, tied
        if tied == "module":
            self.head = nn.Linear(E, WORDS, bias=False)
            self.wte.weight = self.head.weight

    def forward(self, tokens):
        x = self.norm(self.block(self.wte(tokens) + self.wpe(self.places())))
        return self.head(x) if self.tied == "module" else functional.linear(x, self.wte.weight)


class Checkpointed(NanoGPT):
    """Checkpointing within checkpointing."""

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe(torch.arange(T))

        def inner(y):
            return checkpoint(self.block, y, use_reentrant=False)

        return self.head(checkpoint(lambda y: self.norm(inner(y)), x, use_reentrant=False))


class Reentrant(NanoGPT):
    """The older kind of checkpointing, which runs a backward within the backward."""

    def forward(self, tokens):
        return self.head(checkpoint(self.norm, self.wte(tokens), use_reentrant=True))


class Parents(nn.Module):
    """One table under three names, as T5 and BART have it."""

    def __init__(self):
        super().__init__()
        self.shared = nn.Embedding(WORDS, E)
        self.encoder = nn.ModuleDict({"table": self.shared, "layer": nn.Linear(E, E)})
        self.decoder = nn.ModuleDict({"table": self.shared, "layer": nn.Linear(E, E)})

    def forward(self, tokens):
        one = self.encoder["layer"](self.encoder["table"](tokens))
        return self.decoder["layer"](self.decoder["table"](tokens.flip(1)) + one.tanh())


class Adapted(nn.Module):
    """LoRA around GPT-2's Conv1D, which is frozen."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(WORDS, E)
        self.layer = hugging_face.pytorch_utils.Conv1D(E, E).requires_grad_(False)
        self.into, self.out_of = nn.Linear(E, 2, bias=False), nn.Linear(2, E, bias=False)
        self.own = hugging_face.pytorch_utils.Conv1D(3, E)

    def forward(self, tokens):
        x = self.table(tokens)
        return self.own((self.layer(x) + self.out_of(self.into(x))).tanh())


MODELS = {
    "positions by arange": NanoGPT,
    "positions in one row": lambda: NanoGPT(lambda: torch.arange(T)[None]),
    "a head by functional.linear": lambda: NanoGPT(tied="function"),
    "nested checkpointing": Checkpointed,
    "several parents": Parents,
    "adapters and Conv1D": Adapted,
}


def losses(output):
    return output.flatten(1).square().sum(1) / 2


@pytest.mark.parametrize("clipping", ["global", "per_layer"])
@pytest.mark.parametrize("name", MODELS)
def test_the_clipped_sums_are_those_of_the_slow_loop(name, clipping):
    torch.manual_seed(3)
    check(MODELS[name]().double(), clipping)


def check(model, clipping="global", prepare=lambda m: m, tokens=TOKENS):
    groups = groups_of(model, clipping)
    thresholds = [0.3 + 0.1 * at for at in range(len(groups))]
    wanted = slow_sums(model, tokens, thresholds, groups=groups, clipping=clipping, loss=losses)
    found = sums(prepare(copy.deepcopy(model)), tokens, loss=losses, clipping=clipping, max_grad_norm=thresholds)
    assert_close({name.removeprefix("_orig_mod."): each for name, each in found.items()}, wanted, torch.float32)


def part_compiled(model):
    model.norm.compile(backend="eager")
    return model


def whole_compiled(model):
    model.compile(backend="eager")
    return model


@pytest.mark.parametrize("prepare", [part_compiled, whole_compiled, lambda m: torch.compile(m, backend="eager")])
def test_compiled_models_have_the_same_sums(prepare):
    """The layers run as they are; a model that is compiled before or in parts is no obstacle, and loses nothing."""
    torch.manual_seed(3)
    check(NanoGPT().double(), prepare=prepare)


def test_a_private_model_may_be_compiled_afterwards():
    torch.manual_seed(3)
    model = nn.Sequential(nn.Embedding(WORDS, E), nn.Linear(E, 2)).double()
    compiled = private(model, TOKENS, clipping="global", max_grad_norm=0.3)
    whole = torch.compile(compiled.module, backend="eager")
    (tokens,) = next(iter(compiled.data_loader))
    compiled.backward(by_row(losses), whole(tokens))
    assert torch.allclose(compiled.optimizer.step_state.sums.flat, added(model), rtol=1e-9)


def added(model):
    wanted = slow_sums(model, TOKENS, [0.3], groups=groups_of(model, "global"), clipping="global", loss=losses)
    return torch.cat([each.flatten() for each in wanted.values()])


def test_checkpointing_that_runs_layers_in_the_backward_is_refused_with_the_cure():
    with pytest.raises(GuaranteeError, match="use_reentrant=False"):
        train_once(private(Reentrant().double(), TOKENS), losses)


def test_every_problem_of_a_model_is_listed_with_its_cure_and_fixed_where_possible():
    model = nn.Sequential(nn.BatchNorm1d(4), nn.GRU(4, 4), nn.Embedding(4, 4, max_norm=1.0), nn.LazyLinear(2))
    found = dpsgd.validate(model)
    cures = ["GroupNorm(1, 4)", "batch_first=True", "leave max_norm out", "run the model once"]
    assert len(found) == len(cures)
    assert all(cure in text for text, cure in zip(found, cures, strict=True))
    assert len(dpsgd.validate(dpsgd.fix(model[:3]))) == 2
