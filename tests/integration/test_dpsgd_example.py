"""The CIFAR-10 example runs, keeps a checkpoint, goes on from it with the right count, and prints what it reached."""

import importlib.util
import json
import math
import re
import sys
from pathlib import Path

import pytest
import torch

from inid import dpsgd

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "cifar10.py"
TINY = ["--synthetic", "--limit", "48", "--batch-size", "16", "--device", "cpu", "--noise-multiplier", "1.0"]


@pytest.fixture(scope="module")
def example():
    sys.path.insert(0, str(SCRIPT.parent))  # as for a script: what it imports lies beside it
    spec = importlib.util.spec_from_file_location("cifar10_example", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    torch.set_num_threads(1)
    return module


def epsilon_of(steps):
    accountant = dpsgd.Accountant()
    for _ in range(steps):
        accountant.step(mechanism="gaussian", noise_multiplier=1.0, sample_rate=16 / 48)
    return accountant.get_epsilon(1e-5)


def test_it_trains_keeps_a_checkpoint_and_resumes(example, tmp_path, capsys):
    kept, record = tmp_path / "run.pt", tmp_path / "runs.jsonl"
    more = ["--checkpoint", str(kept), "--record", str(record), "--max-physical-batch-size", "8"]
    example.main([*TINY, *more, "--epochs", "1"])
    first = capsys.readouterr().out
    assert re.search(r"accuracy \d+\.\d\d % at epsilon \d+\.\d+, delta 1e-05 \(3 steps", first)
    assert f"at epsilon {epsilon_of(3):.3f}" in first
    assert "1/1" in first  # the bar
    assert kept.exists()
    assert not kept.with_suffix(".part").exists()
    example.main([*TINY, *more, "--epochs", "2"])
    second = capsys.readouterr().out
    assert "going on after epoch 1" in second
    assert f"at epsilon {epsilon_of(6):.3f}" in second
    assert "(6 steps" in second
    runs = [json.loads(line) for line in record.read_text().splitlines()]
    assert [run["steps"] for run in runs] == [3, 6]
    assert runs[1]["epsilon"] == epsilon_of(6)


@pytest.mark.parametrize("clipping", ["global", "elementwise"])
def test_other_options_run(example, clipping, capsys):
    options = ["--clipping", clipping, "--thresholds", "flat", "--epochs", "1", "--quiet", "--schedule", "cosine"]
    example.main([*TINY, *options, "--filter-size", "0.05", "--filter-lr", "0.5", "--centre", "--every", "5"])
    assert "(3 steps" in capsys.readouterr().out


def test_laplace_noise_keeps_a_pure_promise(example):
    options = [*TINY[:-2], "--mechanism", "laplace", "--delta", "0", "--epochs", "2", "--quiet"]
    result = example.train(example.parse([*options, "--epsilon", "6"]))
    step = math.log1p((math.exp(1 / result["noise_multiplier"]) - 1) / 3)  # one of rate 1/3
    assert result["steps"] == 6
    assert 6 * step == pytest.approx(6, rel=1e-12)
    assert result["epsilon"] == pytest.approx(6, rel=1e-12)


def test_filters_are_centred_and_brought_to_one_size(example):
    options = example.parse(["--centre", "--filter-size", "0.05"])
    filters = [torch.randn(4, 3, 3, 3) + 1, 7 * torch.randn(2, 8, 1, 1)]
    before = [each.clone() for each in filters]
    example._adjust(filters, options)
    for each, old in zip(filters, before, strict=True):
        assert each.mean((1, 2, 3)).abs().max() < 1e-6
        assert torch.allclose(each.square().mean((1, 2, 3)).sqrt(), torch.tensor(0.05))
        centred = old - old.mean((1, 2, 3), keepdim=True)
        assert torch.allclose(each / 0.05, centred / centred.square().mean((1, 2, 3), keepdim=True).sqrt(), atol=1e-5)
    untouched = [each.clone() for each in before]
    example._adjust(untouched, example.parse([]))
    assert all(torch.equal(*pair) for pair in zip(untouched, before, strict=True))


def test_filters_may_have_a_rate_of_their_own(example):
    model = example.ResNet20()
    filters, others = example._by_rate(model, example.parse(["--lr", "2", "--filter-lr", "0.5"]))
    assert (filters["lr"], others["lr"]) == (0.5, 2.0)
    assert len(filters["params"]) == 19
    assert {*filters["params"], *others["params"]} == set(model.parameters())
    same, _ = example._by_rate(model, example.parse(["--lr", "2"]))
    assert same["lr"] == 2.0


def test_every_says_how_often_it_is_tested_and_kept(example, tmp_path, capsys):
    kept = tmp_path / "run.pt"
    example.main([*TINY, "--epochs", "3", "--every", "2", "--seconds", "0.01", "--checkpoint", str(kept)])
    out = capsys.readouterr().out
    assert "(3 steps" in out  # stopped by the clock after the first epoch
    assert "1/3" not in out
    assert torch.load(kept)["epoch"] == 1


def test_the_mirrored_accuracy_is_of_the_mean_with_the_mirror_image(example):
    class Left(torch.nn.Module):
        def forward(self, x):
            return torch.stack([x[:, 0, 0, 0], torch.full((len(x),), 0.5)], 1)

    images = torch.zeros(2, 3, 32, 32)
    images[1, :, :, -1] = 4.0  # bright on the right: seen in the mirror alone
    data = example.TensorDataset(images, torch.tensor([1, 0]))
    assert example.accuracy(Left(), data) == 0.5
    assert example.accuracy(Left(), data, mirrored=True) == 1.0


def test_views_and_averages_go_on_from_a_checkpoint(example, tmp_path, capsys):
    more = ["--augmentations", "2", "--average", "0.9", "--checkpoint", str(tmp_path / "run.pt")]
    example.main([*TINY, *more, "--epochs", "1", "--quiet"])
    example.main([*TINY, *more, "--epochs", "2", "--quiet"])
    assert "(6 steps" in capsys.readouterr().out
    assert torch.load(tmp_path / "run.pt")["average"]["steps"] == 6


def test_moved_images_keep_their_order_and_their_pixels(example):
    images = torch.arange(5.0)[:, None, None, None] + 1 + torch.zeros(5, 3, 32, 32)
    made = example.augmented(images, 4)
    assert made.shape == images.shape
    for at, image in enumerate(made):
        assert set(image.unique().tolist()) <= {0.0, at + 1.0}
        assert float(image.max()) == at + 1


def test_every_second_view_is_mirrored_and_moved_by_the_pixels_asked(example):
    images = torch.rand(4, 3, 32, 32)
    still = example.augmented(images, 0)
    assert torch.equal(still[::2], images[::2])
    assert torch.equal(still[1::2], images[1::2].flip(3))


def test_the_networks_are_those_of_the_papers(example):
    assert sum(p.numel() for p in example.ResNet20().parameters()) == 269_722
    wide = example.NETWORKS["wrn16-4"]()
    assert sum(p.numel() for p in wide.parameters()) == 2_748_890
    assert wide(torch.zeros(2, 3, 32, 32)).shape == (2, 10)
