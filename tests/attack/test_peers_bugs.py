"""Bugs that other libraries have mended, tried here: each test names the thread, and fails on a twin with that bug."""

import math
import warnings

import mpmath
import numpy as np
import pandas as pd
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import inid
from inid import tables
from internals import module_with
from training import make_private

DRAWS = 200_000


# opendp/opendp pull 2639: additive noise was biased by a wrong division of rationals.


def biases(draws, scale, mechanism):
    """The mean, the share of either sign and the mean size of draws, each in its own standard errors."""
    n = len(draws)
    size, spread = (scale, scale) if mechanism == "laplace" else (scale * math.sqrt(2 / math.pi), 0.6028 * scale)
    std = scale * (math.sqrt(2) if mechanism == "laplace" else 1)
    positive = (draws > 0).sum() + (draws == 0).sum() / 2
    return np.array(
        [
            draws.mean() / std * math.sqrt(n),
            (positive - n / 2) / math.sqrt(n) * 2,
            (np.abs(draws).mean() - size) / spread * math.sqrt(n),
        ]
    )


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("size", [1 / 3, 10 / 7, 1e-3, 12345.678])
def test_noise_of_odd_scales_is_not_biased(mechanism, size):
    promise = inid.PureDP(1.0) if mechanism == "laplace" else inid.GaussianDP(1.0)
    plan = inid.plan(inid.Sensitivity.box([size], counts=[DRAWS]), promise, mechanism=mechanism)
    with inid.testing.unsafe_seed(5):
        draws = inid.release(np.zeros(DRAWS), plan).values
    scale = float(plan.scales[0])
    assert np.abs(biases(draws, scale, mechanism)).max() < 5.5
    for twin in (draws * 1.02, draws + 0.02 * scale, np.abs(draws)):
        assert np.abs(biases(twin, scale, mechanism)).max() > 5.5


# opendp/opendp pull 2820: the delta of zero-concentrated privacy was rounded to the wrong side.


def zcdp_delta(rho, epsilon):
    """The least delta that Renyi divergences alpha rho prove at epsilon, with 60 digits (Canonne and others, 2020)."""
    with mpmath.workdps(60):
        rho, epsilon = mpmath.mpf(repr(rho)), mpmath.mpf(repr(epsilon))

        def log_delta(a):
            return (a - 1) * (a * rho - epsilon) + (a - 1) * mpmath.log(1 - 1 / a) - mpmath.log(a)

        # log_delta has one minimum in log(a - 1): thirds of a wide range are cut off until nothing is left.
        low, high = mpmath.mpf(-20), mpmath.mpf(30)
        for _ in range(160):
            left, right = low + (high - low) / 3, high - (high - low) / 3
            if log_delta(1 + mpmath.exp(left)) < log_delta(1 + mpmath.exp(right)):
                high = right
            else:
                low = left
        return mpmath.exp(log_delta(1 + mpmath.exp(low)))


@pytest.mark.parametrize("rho", [1e-4, 0.01, 0.1, 0.5, 2.0, 20.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-12])
def test_the_delta_of_zcdp_ends_on_the_safe_side(rho, delta):
    promise = inid.ZCDP(rho).to_approx(delta)
    assert zcdp_delta(rho, promise.epsilon) <= mpmath.mpf(repr(delta)) * (1 + mpmath.mpf("1e-15"))
    with mpmath.workdps(30):  # the twin: an epsilon one per cent smaller proves nothing of the kind
        assert zcdp_delta(rho, promise.epsilon * 0.97) > mpmath.mpf(repr(delta))


# opendp/opendp pull 2837: counts past 2^31 wrapped around, so that one person moved a count by 2^32.


@pytest.mark.parametrize("count", [2**31 - 1, 2**31, 2**32, 2**40])
def test_counts_beyond_32_bits_are_kept(monkeypatch, count):
    engine = module_with("inid.tables.engines", "Pandas").Pandas
    people = pd.DataFrame({"k": ["a", "b"]})
    query = tables.Table(people).statistics(count=True, by={"k": ["a", "b"]})
    exact = []
    for rows in (count, count + 1):
        monkeypatch.setattr(engine, "rows", lambda *_, rows=rows: [("a", rows)])
        exact.append(query.exact_sums())
    assert exact[0].tolist() == [count, 0]
    assert (exact[1] - exact[0]).tolist() == [1, 0]


# opendp/opendp pull 2825: one-way tables under synthesis were biased.


def test_one_way_tables_of_synthetic_rows_are_not_biased():
    rng = np.random.default_rng(3)
    people = pd.DataFrame({"a": rng.choice(3, 3000, p=[0.7, 0.25, 0.05]), "b": rng.choice(2, 3000)})
    people["c"] = (people.a + people.b) % 2
    table = tables.Table(people, domains={"a": [0, 1, 2], "b": [0, 1], "c": [0, 1]})
    query = table.synthesize()
    plan = query.plan(inid.ApproxDP(1.0, 1e-6))
    shares = []
    for seed in range(24):
        with inid.testing.unsafe_seed(seed):
            rows = query.release(plan).rows(3000)
        shares.append(pd.DataFrame(rows).a.value_counts(normalize=True).reindex([0, 1, 2]).to_numpy(float))
    shares = np.array(shares)
    truth = people.a.value_counts(normalize=True).sort_index().to_numpy()
    error = shares.std(axis=0, ddof=1) / math.sqrt(len(shares)) + 1e-4
    assert (np.abs(shares.mean(axis=0) - truth) < 6 * error).all()
    assert (np.abs(shares.mean(axis=0) - np.array([0.65, 0.25, 0.1])) > 6 * error)[[0, 2]].all()  # a twin's shares


# OpenMined/PipelineDP issue 551: a vector was clipped after summing, so that one person moved it by anything.
# OpenMined/PipelineDP issue 552: epsilon was divided by the length of a vector whose norm is bounded.


def test_each_row_is_clipped_before_the_sum():
    people = pd.DataFrame({"x": np.ones(100), "y": np.ones(100)})
    loud = pd.concat([people, pd.DataFrame({"x": [1e300], "y": [-1e300]})])
    bounds = {"x": (0.0, 2.0), "y": (0.0, 2.0)}
    queries = [tables.Table(data, bounds=bounds).statistics(sum=["x", "y"]) for data in (people, loud)]
    plan = queries[0].plan(inid.PureDP(1.0))
    with inid.testing.unsafe_no_noise():
        first, second = (np.array([row.estimate for row in query.release(plan).answers]) for query in queries)
    assert np.abs(second - first).max() <= 2.0
    clipped_late = np.clip([people.x.sum(), loud.x.sum()], 0, 1e6)  # the twin
    assert clipped_late[1] - clipped_late[0] > 2


@pytest.mark.parametrize("length", [1, 4, 100])
def test_a_vector_of_bounded_norm_costs_what_a_number_does(length):
    def scale(length):
        ball = inid.Sensitivity.ball(dimension=length, l2=1.0)
        return float(inid.plan(ball, inid.GaussianDP(0.5), mechanism="gaussian").scales[0])

    assert math.isclose(scale(length), 2.0, rel_tol=1e-9)


# interpretml/interpret issue 523: the sensitivity of a sum was the range of the target, which lies far from 0.


@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
def test_a_sum_far_from_zero_moves_by_no_more_than_its_set(neighbours):
    rng = np.random.default_rng(1)
    y = rng.uniform(9_000, 10_000, 50)
    frame = pd.DataFrame({"y": y})
    other = frame.iloc[1:] if neighbours == "add_remove" else frame.assign(y=[9_000.0, *y[1:]])
    first, second = (
        tables.Table(data, bounds={"y": (9_000, 10_000)}, neighbours=neighbours, rows=50).statistics(sum=["y"])
        for data in (frame, other)
    )
    plan = first.plan(inid.PureDP(1.0))
    with inid.testing.unsafe_no_noise():
        sums = [query.release(plan).answers[0].estimate for query in (first, second)]
    assert math.isclose(sums[0] - sums[1], frame.y.sum() - other.y.sum(), abs_tol=1)
    # The sums that get noise are a count and a sum about the middle of the bounds: both stay within the plan's set.
    units = np.array([1.0, float(first.layout.values["y"].step)])
    change = np.abs(first.exact_sums() - second.exact_sums()) * units
    assert (change / plan.noise.scales).sum() <= 1.0
    if neighbours == "add_remove":  # the twin: the range alone does not cover what one person moves
        assert sums[0] - sums[1] > 1_000


# meta-pytorch/opacus issue 807: thresholds followed quantiles of the norms whose release nobody counted.


def test_thresholds_that_follow_quantiles_are_paid_for():
    data = TensorDataset(torch.randn(64, 3), torch.randint(0, 2, (64,)))

    def spent(**arguments):
        model = torch.nn.Linear(3, 2)
        private = make_private(
            module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
            data_loader=DataLoader(data, batch_size=16), noise_multiplier=1.0, steps=3, **arguments,
        )  # fmt: skip
        for x, y in private.data_loader:
            private.optimizer.zero_grad()
            private.backward(torch.nn.functional.cross_entropy, private.module(x), y)
            private.optimizer.step()
        return private.accountant.get_epsilon(delta=1e-5)

    def draws(**arguments):
        return len(inid.testing.record(lambda _: spent(**arguments), None).draws)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what a recording draws is not private
        assert draws(thresholds="adaptive", clipping="per_layer") == 2 * draws(clipping="per_layer")  # one more a step
        still = spent(clipping="per_layer")
        assert spent(thresholds="adaptive", clipping="per_layer") >= still * (1 - 1e-6)


# meta-pytorch/opacus issue 808: with ignore_index the mean divides by a number that depends on all examples.


def test_a_mean_over_counted_targets_cannot_divide_by_those_of_others():
    torch.manual_seed(0)
    rows, labels = torch.randn(8, 3), torch.randint(0, 2, (8,))

    def gradient(targets):
        model = torch.nn.Linear(3, 2)
        torch.nn.init.ones_(model.weight)
        torch.nn.init.zeros_(model.bias)
        private = make_private(
            module=model, optimizer=torch.optim.SGD(model.parameters(), lr=1.0), sample_rate=1.0,
            data_loader=DataLoader(TensorDataset(rows, targets), batch_size=8), noise_multiplier=1.0, steps=1,
            max_grad_norm=100.0,
        )  # fmt: skip
        loss = torch.nn.CrossEntropyLoss(ignore_index=-100)
        with inid.testing.unsafe_no_noise():
            for x, y in private.data_loader:
                private.optimizer.zero_grad()
                private.backward(loss, private.module(x), y)
                private.optimizer.step()
        return model.weight.detach().clone()

    ignored = labels.clone()
    ignored[1:] = -100
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        change = gradient(ignored) - torch.ones(2, 3)
    model = torch.nn.Linear(3, 2)
    torch.nn.init.ones_(model.weight)
    torch.nn.init.zeros_(model.bias)
    torch.nn.functional.cross_entropy(model(rows[:1]), labels[:1]).backward()
    # One counted target: its gradient is divided by the public batch of 8, not by the one target that counts.
    torch.testing.assert_close(change, -model.weight.grad / 8)
