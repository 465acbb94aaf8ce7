"""Hypothesis strategies for sensitivity sets of every kind, weights, orders and promises."""

import numpy as np
from hypothesis import strategies as st

import inid

MECHANISMS = st.sampled_from(["gaussian", "laplace"])
ORDERS = st.one_of(st.sampled_from([1, 1.5, 2, 3, 4]), st.floats(1, 6))


def numbers(low=1e-3, high=1e3):
    """Numbers whose logarithm is spread evenly; equal ones are common, since ties are where sorting goes wrong."""
    spread = st.floats(np.log(low), np.log(high)).map(np.exp).map(float)
    return st.one_of(spread, st.sampled_from([v for v in (0.5, 1.0, 2.0, 3.0) if low <= v <= high]))


@st.composite
def boxes(draw, most=5, caps=("none", "l1", "l2", "both"), zeros=True):
    size = draw(st.integers(1, most))
    entry = st.one_of(numbers(), numbers(), numbers(), st.just(0.0)) if zeros else numbers()
    limits = draw(st.lists(entry, min_size=size, max_size=size))
    which = draw(st.sampled_from(caps))
    extra = {}
    # A cap between the largest limit and the box's own norm binds; beyond these ends it must still be handled.
    for norm in (1, 2):
        if which in (f"l{norm}", "both") and max(limits) > 0:
            most_norm = float(np.linalg.norm(limits, norm))
            extra[f"l{norm}"] = draw(st.floats(0.2, 0.6)) * (max(limits) + most_norm)
    return inid.Sensitivity.box(limits, **extra)


@st.composite
def balls(draw, most=5):
    return inid.Sensitivity.ball(draw(st.integers(1, most)), **{draw(st.sampled_from(["l1", "l2"])): draw(numbers())})


@st.composite
def groups(draw, most=3, size=3, totals=(True, False)):
    number = draw(st.integers(1, most))
    sizes = draw(st.lists(st.integers(1, size), min_size=number, max_size=number))
    bounds = draw(st.lists(numbers(), min_size=number, max_size=number))
    norm = draw(st.sampled_from([1, 2]))
    total = None
    if draw(st.sampled_from(totals)):
        largest, whole = max(bounds), float(np.linalg.norm(bounds, norm))
        total = largest * 0.5 + draw(st.floats(0, 1)) * (whole * 1.05 - largest * 0.5)
    return inid.Sensitivity.groups(sizes, total=total, **{f"l{norm}": bounds})


@st.composite
def ellipsoids(draw, most=5):
    size = draw(st.integers(1, most))
    return inid.Sensitivity.ellipsoid(draw(st.lists(numbers(), min_size=size, max_size=size)))


def sets():
    return st.one_of(boxes(), boxes(caps=("l1", "l2", "both")), balls(), groups(), ellipsoids())


@st.composite
def weights_for(draw, sensitivity, low=1e-2, high=1e2):
    """None, or one weight per coordinate."""
    if draw(st.booleans()):
        return None
    size = sensitivity.dimension
    return np.array(draw(st.lists(numbers(low, high), min_size=size, max_size=size)))


def closed_form(sensitivity, mechanism):
    """Whether the optimum is known in closed form; the other sets are planned by a search, right to a few digits."""
    capped = [cap is not None for cap in (sensitivity.l1, sensitivity.l2)]
    if mechanism == "gaussian":
        return not (capped[0] or (sensitivity.norm == 1 and sensitivity.total is not None))
    return not all(capped)


def per_coordinate(sensitivity, weights):
    return np.ones(sensitivity.dimension) if weights is None else np.asarray(weights, dtype=float)
