"""The LoRA example runs, learns, and prints what it reached and cost; adapters are clipped like anything else."""

import copy
import importlib.util
import re
from pathlib import Path

import pytest
import torch

from training import assert_close, groups_of, slow_sums, sums

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "lora_text.py"


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("lora_example", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    torch.set_num_threads(1)
    return module


def test_it_learns_within_its_budget(example, capsys):
    small = ["--epochs", "3", "--sentences", "600", "--batch-size", "100", "--public-epochs", "2", "--epsilon", "8"]
    result = example.main(small)
    said = capsys.readouterr().out
    assert result["after"] < 0.7 * result["before"]
    assert result["epsilon"] <= 8
    assert "6,144 of 64,944 parameters, noise multiplier" in said
    assert re.search(r"\[#{30}\] 3/3  epsilon \d+\.\d\d  perplexity", said)
    assert f"at epsilon {result['epsilon']:.3f}, delta 1e-05" in said


@pytest.mark.parametrize("clipping", ["global", "per_layer"])
def test_the_clipped_sums_of_adapters_are_those_of_the_slow_loop(example, clipping):
    """Also with the tied head trained, which is used by functional.linear and as a table of words."""
    torch.manual_seed(1)
    model = example.Transformer(width=8, heads=2, depth=1)
    example.add_adapters(model, 2)
    model.words.requires_grad_(True)
    model = model.double()
    torch.nn.init.normal_(model.blocks[0].up.out_of.weight, std=0.1)
    tokens = example.texts(example.note, 5, 4)
    groups = groups_of(model, clipping)
    thresholds = [0.05 + 0.01 * at for at in range(len(groups))]

    def loss(output):
        return output.flatten(1).square().sum(1)

    found = sums(copy.deepcopy(model), tokens, loss=loss, clipping=clipping, max_grad_norm=thresholds)
    wanted = slow_sums(model, tokens, thresholds, groups=groups, clipping=clipping, loss=loss)
    assert_close(found, wanted, torch.float32)
