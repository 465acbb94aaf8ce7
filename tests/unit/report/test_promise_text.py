"""The promise in plain words: the rate it quotes is a true bound, and it names no symbol."""

import re
from pathlib import Path

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

import inid
from inid.report import belief_after, detection_in_words, detection_rate, promise_in_words, promise_symbols
from inid.schema import key


def test_the_rate_of_detection_is_reached_by_the_best_test_against_laplace_noise():
    """Laplace noise of scale 1/epsilon on one number: the likelihood-ratio test at level 5 % is a threshold."""
    for epsilon in (0.1, 1.0, 2.0):
        # P(X > t) = 5 % for Laplace(0, 1/epsilon), t > 0; the power against a shift by 1 (t > 1) is e^epsilon times it.
        t = np.log(0.5 / 0.05) / epsilon
        power = 0.5 * np.exp(-epsilon * (t - 1)) if t > 1 else 1 - 0.5 * np.exp(epsilon * (t - 1))
        assert detection_rate(inid.PureDP(epsilon)) >= power * (1 - 1e-12)
        if t > 1:
            assert detection_rate(inid.PureDP(epsilon)) == pytest.approx(power)


def test_a_gaussian_release_cannot_be_detected_better_than_its_promises_say():
    mu = 0.5
    power = float(ndtr(ndtri(0.05) + mu))
    assert detection_rate(inid.GaussianDP(mu)) == pytest.approx(power)
    assert detection_rate(inid.ZCDP(mu**2 / 2)) >= power
    for delta in (1e-9, 1e-6, 1e-3):
        assert detection_rate(inid.GaussianDP(mu).to_approx(delta)) >= power


def test_large_promises_are_certain_and_small_ones_tell_nothing():
    assert detection_rate(inid.PureDP(1e6)) == 1
    assert detection_rate(inid.PureDP(1e-9)) == pytest.approx(0.05)
    assert "100.000 %" in detection_in_words(inid.PureDP(50))
    assert "all but certain" in promise_in_words(inid.PureDP(50), "one row", "replace")
    assert "50 % sure" in promise_in_words(inid.PureDP(1e-9), "one row", "replace")


def test_the_belief_is_reached_by_the_best_guess_against_laplace_noise_and_never_passed():
    """Two worlds, equally likely, 0 or 1 with Laplace noise of scale 1/epsilon: the posterior at any answer."""
    for epsilon in (0.1, 1.0, 3.0):
        answers = np.linspace(-30, 30, 2_001)
        ones, zeros = np.exp(-epsilon * np.abs(answers - 1)), np.exp(-epsilon * np.abs(answers))
        posterior = ones / (ones + zeros)
        assert belief_after(inid.PureDP(epsilon)) == (pytest.approx(posterior.max()), 0.0)


def test_the_belief_under_a_gaussian_promise_is_passed_no_more_often_than_stated():
    """P(loss > epsilon) - e^epsilon Q(loss > epsilon) is what an exception has to cover: at most its chance."""
    for mu in (0.1, 0.5, 2.0):
        belief = belief_after(inid.GaussianDP(mu))
        epsilon = np.log(belief.sure / (1 - belief.sure))
        covered = ndtr(mu / 2 - epsilon / mu) - np.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu)
        assert 0.99 * belief.exception < covered <= belief.exception * (1 + 1e-9)
    assert belief_after(inid.ApproxDP(1, 1e-7)) == (pytest.approx(np.e / (1 + np.e)), 1e-7)
    assert "1 in 10,000,000" in promise_in_words(inid.ApproxDP(1, 1e-7), "one row", "replace")


def test_no_python_in_the_words():
    for budget in (inid.PureDP(1), inid.ApproxDP(1, 1e-6), inid.GaussianDP(0.3), inid.ZCDP(0.1)):
        words = promise_in_words(budget, "one row", "add_remove") + promise_symbols(budget)
        assert "DP(" not in words
        assert "1.0" not in words


def test_a_row_that_becomes_nothing_is_never_called_blank():
    """A null is not nothing: it may be filled in, or counted. What becomes nothing adds 0 to every sum and count."""
    words = promise_in_words(inid.PureDP(epsilon=1.0), "one row", "zero_out")
    assert "adds nothing, 0 to every sum and every count" in words
    project = Path(__file__).resolve().parents[3]
    texts = [
        path
        for end in ("py", "html", "js", "md")
        for part in ("src", "docs")
        for path in (project / part).rglob(f"*.{end}")
    ]
    blank = re.compile(r"(left|numbers?|values?|columns?|cells?|answers?)\s+(is |are |as |left )?blank")
    assert [str(path) for path in texts if blank.search(path.read_text(encoding="utf-8"))] == []
    assert "adds nothing, 0 to every sum and every count" in (key("neighbours").note or "")
