"""Estimates from noisy prefixes: mirrored levels give mirrored answers, bias is small, scales are what they say."""

import itertools

import numpy as np
import pytest

from inid.tables.questions.prefix_sums import Prefixes, best_strategy, strategy

SIZE = 201
LEVELS = np.linspace(0.0, 100.0, SIZE)


def noisy(rng, rows, mechanism, groups, *, mirrored=False, level=0.95):
    """Groups of a skewed law, or of its mirror image, with the noise of PureDP(1) or GaussianDP(1); exact counts."""
    made = best_strategy(SIZE, mechanism, replace=False, cells=2)
    values = np.clip(rng.gamma(3, 8, (groups, rows)), 0, 100)
    places = np.rint((100 - values if mirrored else values) * (SIZE - 1) / 100).astype(int)
    counts = np.array([np.bincount(row, minlength=SIZE) for row in places]).astype(float)
    scale = made.radius(1 if mechanism == "laplace" else 2, replace=False, cells=2)
    draw = rng.laplace if mechanism == "laplace" else rng.normal
    released = counts @ made.matrix.T + draw(0, scale, (groups, made.matrix.shape[0]))
    return Prefixes(made, released, scale, mechanism, level), np.cumsum(counts, axis=1)


def quantile(exact, probability):
    return LEVELS[(exact >= probability * exact[:, -1:]).argmax(axis=1)]


def nearest(row, total):
    """The nearest F with 0 <= F_1 <= ... <= F_m = total, by the max-min formula of monotone regression."""
    head = row[:-1]
    fit = [
        max(min(head[low : high + 1].mean() for high in range(at, len(head))) for low in range(at + 1))
        for at in range(len(head))
    ]
    return [*np.clip(fit, 0.0, total), total]


@pytest.mark.parametrize("rows", [-15.0, 0.0, 2.0, 40.0])
@pytest.mark.parametrize("made", [strategy("counts", 16), strategy("tree4", 16)])
def test_mirrored_levels_under_the_same_noise_give_mirrored_answers(made, rows):
    """Counts of levels and of blocks of four, in reverse order: every part of the estimate is the mirror image."""
    rng = np.random.default_rng(5)
    exact = np.repeat(rows / 16, 16)
    noise = rng.laplace(0, 3, (50, made.matrix.shape[0]))
    turned = np.concatenate([at[::-1] for at in np.split(np.arange(noise.shape[1]), np.cumsum([16, 4]))])
    one, two = (
        Prefixes(made, made.matrix @ exact + part, 3.0, "laplace", 0.95)
        for part in (noise, noise[:, turned[: noise.shape[1]]])
    )
    assert (one.counts[:, -1] < 1).any() or rows > 2
    (shares, *_), (mirror, *_) = one.shares(), two.shares()
    assert mirror[:, :-1] == pytest.approx(1 - shares[:, -2::-1], abs=1e-9)
    for probability in (0.052, 0.31, 0.77):
        (first, *_), (other, *_) = one.quantiles(probability), two.quantiles(1 - probability)
        assert (first + other == 15).all()
        ends = one.quantile_scales(probability, np.arange(16.0)), two.quantile_scales(1 - probability, np.arange(16.0))
        assert ends[0] == pytest.approx(ends[1])


def test_shares_are_the_nearest_that_rise_from_0_to_the_total():
    rng = np.random.default_rng(2)
    made = strategy("counts", 12)
    values = rng.integers(0, 6, 12) + rng.normal(0, 4, (30, 12))
    found = Prefixes(made, values, 4.0, "gaussian", 0.95)
    fitting = found.counts[:, -1] >= 1
    assert fitting.sum() > 15
    for row, shares in zip(found.counts[fitting], found.shares()[0][fitting], strict=True):
        assert shares * row[-1] == pytest.approx(nearest(row, row[-1]), abs=1e-9)


@pytest.mark.parametrize(("mechanism", "rows"), [("laplace", 500), ("gaussian", 500), ("laplace", 50)])
def test_upper_quantiles_are_as_good_as_the_lower_ones_of_the_mirror_image(mechanism, rows):
    """Seeded: bias beside the error, the two tails beside each other, and as many too high as too low."""
    rng = np.random.default_rng(11)
    errors = []
    for mirrored, probability in ((False, 0.95), (True, 0.05)):
        made, exact = noisy(rng, rows, mechanism, 400, mirrored=mirrored)
        errors.append(LEVELS[made.quantiles(probability)[0]] - quantile(exact, probability))
    upper, lower = errors
    rms = [float(np.sqrt(np.mean(np.square(error)))) for error in errors]
    most = 0.25 if rows == 500 else 0.45  # of 50 rows the noise reaches over the whole tail
    assert abs(upper.mean()) < most * rms[0]
    assert abs(lower.mean()) < most * rms[1]
    if mechanism == "laplace":  # the root of the running sums has no mirror image: its noise grows towards the top
        assert abs(upper.mean() + lower.mean()) < 0.15 * rms[1]
    assert rms[0] < 1.35 * rms[1]
    assert abs(np.mean(upper > 0) - np.mean(upper < 0)) < 0.25


def test_shares_near_the_top_are_as_good_as_those_near_the_bottom_of_the_mirror_image():
    rng = np.random.default_rng(12)
    at = (SIZE - 1) * 8 // 10
    made, exact = noisy(rng, 500, "laplace", 400)
    high = made.shares()[0][:, at] - exact[:, at] / 500
    made, exact = noisy(rng, 500, "laplace", 400, mirrored=True)
    low = made.shares()[0][:, SIZE - 2 - at] - exact[:, SIZE - 2 - at] / 500
    assert abs(high.mean()) < 0.007
    assert abs(high.mean() + low.mean()) < 0.002


@pytest.mark.parametrize("rows", [500, 4000])
@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_scales_are_those_of_one_noise_with_the_deviation_of_the_answers(mechanism, rows):
    """Many releases of one group: the deviation of the answers beside the scales that each release states by itself."""
    rng = np.random.default_rng(8)
    one, exact = noisy(rng, rows, mechanism, 1)
    made, unit = one.strategy, 1.0 if mechanism == "gaussian" else np.sqrt(2)
    draw = rng.laplace if mechanism == "laplace" else rng.normal
    counts = np.diff(exact[0], prepend=0)
    values = made.matrix @ counts + draw(0, one.scale, (600, made.matrix.shape[0]))
    found = [Prefixes(made, values, one.scale, mechanism, level) for level in (0.5, 0.999)]
    for probability in (0.25, 0.8, 0.95):
        scales, same = (release.quantile_scales(probability, LEVELS) for release in found)
        assert (scales == same).all()
        answers = LEVELS[found[0].quantiles(probability)[0]]
        assert np.mean(scales) * unit == pytest.approx(np.std(answers), rel=0.5)  # first order, of a skewed law
    for kind, at in itertools.product(("cumulative", "shares"), (20, 60, 120)):
        answers, _, _, scales = getattr(found[0], kind)()
        assert np.mean(scales[:, at]) * unit == pytest.approx(np.std(answers[:, at]), rel=0.25)  # shares are cut at 1
