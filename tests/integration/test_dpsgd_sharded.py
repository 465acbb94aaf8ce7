"""Sharded models (`fully_shard`) on two processes: the sums of one process, noise by shard, one draw for replicas."""

import numpy as np
import pytest
import torch

from inid import Ledger
from inid.testing import unsafe_no_noise
from integration import sharded_children
from processes import trained_together
from statistical.false_alarms import REJECT_BELOW
from statistical.test_dpsgd import WRONG, p_value


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("shards")


@pytest.fixture(scope="module")
def ranks(folder):
    return trained_together(sharded_children, folder, timeout=240)


def alone(**options):
    with unsafe_no_noise():
        model = sharded_children.network(options.pop("kind", torch.float64))
        return sharded_children.snapshot(sharded_children.train(model, sharded_children.SIZE, **options))


GLOBAL = {"clipping": "global", "max_grad_norm": 0.5}
SILENT = {
    "per layer": {},
    "global": GLOBAL,
    "parts": {},
    "left out": {},
    "replicas": {},
    "not resharded": GLOBAL,
    "bfloat16": {"kind": torch.float32},
}


@pytest.mark.parametrize("case", SILENT)
def test_the_clipped_sums_are_those_of_one_process(ranks, case):
    """Float32 sums also where the network itself runs in bfloat16, which moves the gradients, not the thresholds."""
    wanted, rough = alone(**SILENT[case])["whole"], case == "bfloat16"
    assert all(torch.equal(a, b) for a, b in zip(*(rank[case]["whole"] for rank in ranks), strict=True))
    for found, each in zip(ranks[0][case]["whole"], wanted, strict=True):
        assert found.dtype == each.dtype
        assert float((found - each).norm()) <= (0.05 if rough else 1e-12) * float(each.norm())
        assert float(each.norm()) > 1e-3


def test_every_process_holds_its_pieces_alone(ranks):
    sizes = [sum(p.numel() for p in sharded_children.network().parameters())]
    held = [rank["per layer"]["held"] for rank in ranks]
    assert sum(held) == sizes[0]
    assert abs(held[0] - held[1]) < 0.02 * sizes[0]
    assert [rank["replicas"]["held"] for rank in ranks] == sizes * 2
    last = 201 * 3 + 3  # of the layer that is left out, which both hold
    assert sum(rank["left out"]["held"] for rank in ranks) == sizes[0] + last


@pytest.mark.parametrize("case", ["noise", "noise of replicas", "noise of what is left out"])
def test_the_noise_has_the_planned_scale_group_by_group(ranks, case):
    kept = ranks[0][case]
    values = [gradient.numpy().ravel() for gradient in kept["whole"]]
    scale, count = kept["scales"][0]
    first = np.concatenate(values[:2])
    assert first.size == count > 60_000
    assert p_value(first, scale, "gaussian") > REJECT_BELOW
    for wrong in (WRONG, 1 / WRONG, 2**0.5):  # drawn twice, by two processes, it would be 1.41 times as large
        assert p_value(first, scale * wrong, "gaussian") < REJECT_BELOW
    for at, pair in enumerate((values[2:4], values[4:6], values[6:8]), 1):
        each = np.concatenate(pair) / kept["scales"][at][0]
        assert 0.7 < each.std() < 1.3  # some 400 or 600 draws: ten standard errors


def correlation(one, two):
    size = min(len(one), len(two))
    return float(np.corrcoef(one[:size], two[:size])[0, 1])


def test_shards_have_noise_of_their_own(ranks):
    """With one key for all processes the shards' noise would be equal, and cancel in their difference."""
    mine, theirs = ([piece.numpy().ravel() for piece in rank["noise"]["pieces"]] for rank in ranks)
    assert abs(correlation(mine[0], theirs[0])) < 6 / 29_000**0.5
    twin = [rank["one key for all"]["pieces"][0].numpy().ravel() for rank in ranks]
    assert correlation(*twin) > 0.99


def test_replicas_share_one_draw(ranks):
    for case in ("noise of replicas", "noise of what is left out"):
        one, two = (rank[case]["pieces"] for rank in ranks)
        shared = range(len(one)) if case == "noise of replicas" else (6, 7)
        assert all(torch.equal(one[at], two[at]) and bool(one[at].any()) for at in shared)


@pytest.mark.parametrize("case", ["adaptive", "exact", "paid"])
def test_runs_end_with_equal_parameters_whatever_each_process_draws(ranks, case):
    """Draws differ between processes, and so would the number of physical batches: they run the network as often."""
    one, two = (rank[case] for rank in ranks)
    assert all(torch.equal(a, b) for a, b in zip(one["parameters"], two["parameters"], strict=True))
    assert one["thresholds"] == two["thresholds"]
    assert one["steps"] == two["steps"] == {"adaptive": 6, "exact": 3, "paid": 9}[case]


def test_the_ledger_is_charged_once(folder, ranks):
    with Ledger.open(folder / "budget.db") as ledger:
        assert len(ledger.history()) == 1
        assert ledger.steps_left(ledger.history()[0].id) == 0


def test_tensor_parallelism_and_batches_without_padding_are_refused(ranks):
    for rank in ranks:
        first, second = rank["refused"]
        assert "fully_shard, over all processes" in first
        assert "leave pad_batches out" in second


APART = ["room for all", "steep", "steep, put together once", "steep for many", "halved", "too late"]


@pytest.mark.parametrize("way", sharded_children.WAYS)
@pytest.mark.parametrize("name", APART)
def test_models_that_keep_examples_apart_are_accepted(ranks, name, way):
    """Also where rounding looks like mixing, and in float64 does not."""
    assert [rank["looks"][f"{name}, {way}"] for rank in ranks] == ["", ""]


@pytest.mark.parametrize("way", sharded_children.WAYS)
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("room for few", "depends on other examples"),
        ("steep, mixing", "does not see every example"),
        ("steep for many, mixing", "does not see every example"),
        ("halved, mixing", "does not see every example"),
        ("late", "does not see every example"),
    ],
)
def test_models_that_mix_examples_are_refused(ranks, name, said, way):
    """Also those that mix many only, less than rounding changes, or later than in the first step."""
    found = [rank["looks"][f"{name}, {way}"] for rank in ranks]
    assert all(found)
    assert any(each in text for text in found for each in (said, "depend on other examples"))


def test_twin_without_the_look_at_a_full_batch_accepts_one_that_mixes_many(ranks):
    assert [rank["not looked at among many"] for rank in ranks] == ["", ""]


@pytest.mark.parametrize("way", sharded_children.WAYS)
@pytest.mark.parametrize("name", ["mixing elsewhere", "mixing many elsewhere"])
def test_what_one_process_refuses_no_other_trains(ranks, name, way):
    """They run the model together: one that went on while another looked again would never meet it."""
    first, second = (rank["looks"][f"{name}, {way}"] for rank in ranks)
    assert "another process" in first
    assert "every example" in second
