"""Integer bounds of the densities, against mpmath."""

import mpmath
from hypothesis import given, settings
from hypothesis import strategies as st

from inid.noise import decay, density

pairs = st.tuples(st.integers(0, 2**410), st.integers(0, 400))
arguments = pairs.map(lambda pair: (pair[0] % (1 << pair[1] + 5), pair[1]))
precisions = st.sampled_from([1, 2, 17, 64, 96, 300])


@settings(max_examples=300, deadline=None)
@given(arguments, precisions)
def test_decay_is_enclosed_tightly(argument, bits):
    numerator, shift = argument
    low, high = decay(numerator, shift, bits)
    with mpmath.workprec(900):
        exact = mpmath.exp(-mpmath.ldexp(numerator, -shift)) * mpmath.ldexp(1, bits)
        assert low <= exact <= high
    assert high - low <= 2


@settings(max_examples=300, deadline=None)
@given(arguments, precisions, st.sampled_from(["laplace", "gaussian"]))
def test_density_is_enclosed_tightly(argument, bits, law):
    numerator, shift = argument
    low, high = density(law, numerator, shift, bits)
    with mpmath.workprec(1800):
        x = mpmath.ldexp(numerator, -shift)
        exact = mpmath.exp(-x) / 2 if law == "laplace" else mpmath.exp(-x * x / 2) / mpmath.sqrt(2 * mpmath.pi)
        assert low <= exact * mpmath.ldexp(1, bits) <= high
    assert high - low <= 2
