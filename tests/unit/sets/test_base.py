"""Sensitivity sets as values: dimension, labels, records."""

import json

import numpy as np
import pytest

import inid
from inid.errors import RecordError

SETS = {
    "box": inid.Sensitivity.box([1.0, 0.1, 1e-300], l1=1.05, l2=1.0, labels=["a", "b", "c"], neighbours="replace"),
    "runs": inid.Sensitivity.box([1.0, 3.0], counts=[5, 10**12]),
    "ball": inid.Sensitivity.ball(7, l1=0.1),
    "groups": inid.Sensitivity.groups([3, 2], l2=[0.1, 0.2], total=0.25, labels=["x", "y"]),
    "ellipsoid": inid.Sensitivity.ellipsoid([1.0, 0.0], counts=[2, 3]),
}


@pytest.mark.parametrize("name", SETS)
def test_a_record_makes_the_same_set_bit_for_bit(name):
    sensitivity = SETS[name]
    again = inid.Sensitivity.from_dict(json.loads(json.dumps(sensitivity.to_dict())))
    assert again == sensitivity
    assert hash(again) == hash(sensitivity)
    assert again.to_dict() == sensitivity.to_dict()
    assert again.limits.tobytes() == sensitivity.limits.tobytes()


def test_sets_that_differ_in_anything_are_not_equal():
    base = inid.Sensitivity.box([1.0, 2.0])
    others = [
        inid.Sensitivity.box([1.0, np.nextafter(2.0, 3.0)]),
        inid.Sensitivity.box([1.0, 2.0], l1=2.5),
        inid.Sensitivity.box([1.0, 2.0], l2=2.5),
        inid.Sensitivity.box([1.0, 2.0], counts=[1, 2]),
        inid.Sensitivity.box([1.0, 2.0], labels=["a", "b"]),
        inid.Sensitivity.box([1.0, 2.0], neighbours="replace"),
        inid.Sensitivity.ellipsoid([1.0, 2.0]),
        "box",
    ]
    assert all(base != other for other in others)


def test_dimension_counts_coordinates_without_overflow():
    assert SETS["runs"].dimension == 10**12 + 5
    assert SETS["groups"].dimension == 5
    with pytest.raises(inid.InidError, match="sizes"):  # beyond 64 bits
        inid.Sensitivity.groups([2**52] * 5000, l2=[1.0] * 5000)


def test_the_profile_is_expanded_and_tightened():
    assert SETS["groups"].profile.tolist() == [0.1] * 3 + [0.2] * 2
    assert inid.Sensitivity.box([1.0, 9.0], counts=[2, 1], l2=4.0).profile.tolist() == [1.0, 1.0, 4.0]


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("field", ["kind", "limits", "counts", "norm", "neighbours"])
def test_a_record_with_a_spoilt_field_is_refused(name, field):
    record = SETS[name].to_dict()
    if (field == "norm" and record["norm"] is None) or (field == "counts" and name == "box"):
        record[field] = "x"
        field = "kind"
    with pytest.raises(RecordError):
        inid.Sensitivity.from_dict(record | {field: "x"})
    del record[field]
    with pytest.raises(RecordError):
        inid.Sensitivity.from_dict(record)


def test_the_representation_can_be_read_back_as_python():
    for sensitivity in (inid.Sensitivity.box([1.0, 3.0], l1=3.5), SETS["ball"], inid.Sensitivity.ellipsoid([1.0, 2.0])):
        assert eval(repr(sensitivity), {"Sensitivity": inid.Sensitivity}) == sensitivity  # noqa: S307
