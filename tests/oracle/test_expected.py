"""experiments/expected holds what the printed formulas give: recomputed here with mpmath, without the library."""

import json
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest
from experiments.datasets import load

from needs import needs

EXPECTED = Path(__file__).resolve().parents[2] / "experiments" / "expected"
THIRD = mp.mpf(1) / 3


@pytest.fixture(autouse=True)
def digits():
    with mp.workdps(40):
        yield


def survival(x):
    return mp.erfc(x / mp.sqrt(2)) / 2


def largest_mu(epsilon, delta, near):
    def profile(mu):
        return survival(epsilon / mu - mu / 2) - mp.exp(epsilon) * survival(epsilon / mu + mu / 2)

    return mp.findroot(lambda mu: mp.log(profile(mu) / delta), near)


def mu_0():
    return largest_mu(mp.mpf("0.5"), mp.mpf("1e-6"), mp.mpf("0.124"))


def decibel(ratio):
    return 10 * mp.log10(ratio)


SHAPES = {
    "linear": lambda i, k: mp.mpf(i),
    "quadratic": lambda i, k: mp.mpf(i) ** 2,
    "exponential": lambda i, k: mp.exp(i - k),
}


def shape(name, size):
    return [SHAPES[name](i, size) for i in range(1, size + 1)]


def gaussian_gain(x):
    return len(x) * sum(v**2 for v in x) / sum(x) ** 2


def laplace_gain(x):
    return len(x) * sum(x) ** 2 / sum(v ** (2 * THIRD) for v in x) ** 3


def gini(x):
    return sum(abs(a - b) for a in x for b in x) / (2 * len(x) * sum(x))


def table1():
    return {
        "mu_0(0.5, 1e-6)": mu_0(),
        "scale, K = 1, epsilon = 1, delta = 0.1": 1 / (1 - 2 * mp.log(mp.mpf("0.9"))),
    }


def algorithm1():
    epsilon, delta = mp.mpf(1), mp.mpf("1e-5")
    normal_quantile = mp.findroot(lambda z: survival(z) - delta, mp.mpf("4.26"))
    root = mp.sqrt(normal_quantile**2 + 2 * epsilon) - normal_quantile
    return {"mu_0(1, 1e-5)": largest_mu(epsilon, delta, mp.mpf("0.25")), "R(1e-5), epsilon = 1": root}


def allocation():
    squares = sum(i**2 for i in range(1, 21))
    return {
        "SPR / i.i.d., Laplace, linear profile, K = 20": mp.mpf(20 * squares) / 210**2,
        # Within an ellipsoid the l2 norm is its largest radius, and that of the rescaled query is 1.
        "ellipsoid, SPR as defined / i.i.d.": mp.mpf(squares) / 20**2,
        "ellipsoid, SPR of its norm / i.i.d.": mp.mpf(squares) / (20 * 20**2),
    }


def section4():
    def total(power):
        return sum(mp.mpf(i) ** -power for i in range(1, 1001))

    return {
        "nu, linear profile, K = 20": mp.mpf("0.525"),
        "Gaussian total, i^-2, K = 1000, of its limit": (total(2) / mp.zeta(2)) ** 2,
        "Gaussian per coordinate, i^-1/2, K = 1000, of its limit": total(mp.mpf("0.5")) ** 2 / 4000,
        "Laplace total, i^-2, K = 1000, of its limit": (total(4 * THIRD) / mp.zeta(4 * THIRD)) ** 3,
        "Laplace per coordinate, i^-1, K = 1000, of its limit": total(2 * THIRD) ** 3 / 27_000,
        "mean absolute error, linear profile, K = 20": 2 * sum(mp.sqrt(i) for i in range(1, 21)) ** 2,
        "Laplace total, (1, 1/K, ..., 1/K), K = 1000": 8 * (1 + 999 * mp.mpf(1000) ** (-2 * THIRD)) ** 3,
    }


def figure1():
    tail = shape("exponential", 200)
    found = {
        "one-hot, dB": decibel(20),
        "saturation, dB": decibel(sum(tail) ** 2 / sum(v**2 for v in tail) / mu_0() ** 2),
    }
    for name in SHAPES:
        gain = gaussian_gain(shape(name, 20))
        found |= {f"gain {name}, dB": decibel(gain), f"gain {name}, factor": gain}
    for name in ("linear", "quadratic"):
        found[f"K = 20 to 25, {name}, dB"] = decibel(gaussian_gain(shape(name, 25)) / gaussian_gain(shape(name, 20)))
    return found


def figure2():
    found = {f"Gini {name}, K = 20": gini(shape(name, 20)) for name in SHAPES}
    found |= {f"Gini {name}, K = 2": gini(shape(name, 2)) for name in ("quadratic", "exponential")}
    return found | {"Gini uniform, K = 20": mp.mpf(0), "Gini one-hot, K = 20": mp.mpf(19) / 20}


def figure3():
    tail = shape("exponential", 200)
    found = {f"gain {name}, dB": decibel(laplace_gain(shape(name, 20))) for name in SHAPES}
    return found | {"saturation, dB": decibel(8 * 200 / laplace_gain(tail)), "one-hot, dB": decibel(8)}


def figure4():
    # 8 k^2 for Laplace noise, k / mu_0^2 for Gaussian noise, on k equal sensitivities of l2 norm 1.
    crossing = next(k for k in range(1, 60) if 8 * k**2 > k / mu_0() ** 2)
    return {"crossing, uniform, pure": mp.mpf(crossing)}


def staircase(epsilon):
    ratio = mp.exp(-epsilon)
    last = int(60 / epsilon) + 20

    def error(gamma):
        mass = moment = mp.mpf(0)
        for k in range(last):
            weight = ratio**k * (k + gamma) ** 2
            mass, moment = mass + weight, moment + weight * (k + gamma)
        return 2 * THIRD * moment / mass

    low, high = mp.mpf(0), mp.mpf(1)
    for _ in range(40):  # the error is flat at its minimum: half of the digits of gamma suffice
        left, right = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, right) if error(left) < error(right) else (left, high)
    return error(low)


def table2():
    found = {}
    for text in ("0.5", "1", "1.5", "2", "2.5", "3"):
        epsilon = mp.mpf(text)
        small = mp.sqrt(mp.mpf("0.15"))
        found |= {
            f"i.i.d. Laplace, epsilon = {text}": 2 / epsilon,
            f"i.n.i.d. Laplace, epsilon = {text}": (mp.sqrt(mp.mpf("0.85")) + small) ** 2 / epsilon,
            # With the cap the profile is the water level (0.7, 0.15).
            f"i.n.i.d. Laplace, l1 cap 0.85 (E2), epsilon = {text}": (mp.sqrt(mp.mpf("0.7")) + small) ** 2 / epsilon,
        }
        with mp.workdps(22):
            found[f"staircase, epsilon = {text}"] = staircase(epsilon)
    return found


def coupled():
    found = {}
    for size in (4, 16, 64):
        found[f"one-hot answers, gaussian, K = {size}, dB"] = decibel(size / mu_0() ** 2)
        found[f"one-hot answers, laplace, K = {size}, dB"] = decibel(8 * size)
    best = sum(mp.sqrt(size) for size in (400, 40, 4)) ** 2
    return found | {"groups, i.i.d. / E3": 3 * 444 / best, "groups, SPR / E3": 3 * 444 / best}


def table3():
    entries = mp.mpf(5050)
    total = 100 / mp.sqrt(entries) + 4950 / mp.sqrt(2 * entries)
    return {"M = 100: what the noise as described spends without clipping, in mu_0": mp.sqrt(mp.sqrt(entries) / total)}


def table4():
    layers = [432, 32, *[2304, 32] * 6, 4608, 64, *[9216, 64] * 5, 18_432, 128, *[36_864, 128] * 5, 650]
    count = sum(layers)
    ours = sum(mp.sqrt(size) for size in layers) ** 2 / len(layers)
    step = mp.log1p(mp.expm1(mp.mpf(8) / 5000) / mp.mpf("0.02"))
    same = ("global clipping", "SPR per layer", "element-wise clipping, SPR")
    found = {f"total variance, {name}": mp.mpf(count) for name in same}
    found |= {f"total variance, {name}": ours for name in ("the paper's, element-wise clipping", "E3 per layer")}
    ratio = 2 * count / (step * 1000 * mp.sqrt(mp.pi))
    return found | {"Laplace epsilon of one step": step, "Laplace noise over signal": ratio}


ORACLES = {
    f.__name__: f
    for f in (
        table1,
        algorithm1,
        allocation,
        section4,
        figure1,
        figure2,
        figure3,
        figure4,
        table2,
        coupled,
        table3,
        table4,
    )
}


@pytest.mark.parametrize("name", ORACLES)
def test_expected_values_are_those_of_the_printed_formulas(name):
    expected = json.loads((EXPECTED / f"{name}.json").read_text())["values"]
    found = {what: float(value) for what, value in ORACLES[name]().items()}
    beyond = {what for what in expected if what.endswith(", E5")}  # certified curves have tests of their own
    assert found.keys() == expected.keys() - beyond
    for what, value in found.items():
        assert expected[what] == pytest.approx(value, rel=1e-11, abs=1e-15), what


def test_every_expected_file_has_its_oracle_or_its_data():
    assert {path.stem for path in EXPECTED.glob("*.json")} == {*ORACLES, "figure5", "figure6"}


@pytest.mark.parametrize(("name", "data"), [("figure5", "california"), ("figure6", "electricity")])
def test_the_losses_of_improved_coordinate_descent_have_a_closed_form(name, data):
    # Noise of variance proportional to 1/sqrt(M_i) on parameters of curvature M_i, beside 1/M_i: at least 1, by Cauchy
    # and Schwarz, and the same whether noise is put on parameters or on gradients.
    needs("data")
    squares = (load(data).X ** 2).mean(axis=0)
    loss = np.sqrt(squares).sum() * (1 / np.sqrt(squares)).sum() / len(squares) ** 2
    values = json.loads((EXPECTED / f"{name}.json").read_text())["values"]
    for reading in ("noise on parameters (as printed)", "noise on gradients"):
        assert values[f"planned loss, {reading}"] == pytest.approx(loss, rel=1e-11)
    assert values["planned loss, curvature weights (ours)"] == 1
