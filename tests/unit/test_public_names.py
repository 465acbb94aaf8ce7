"""The public names and their signatures are a contract: a change to them is made on purpose, in the record too."""

import pytest

import inid
from public_names import RECORD, public_names


def test_public_names_and_signatures_are_those_of_the_record():
    now = public_names()
    assert now == RECORD.read_text(), "on purpose? Then run: python tests/public_names.py"


def test_the_design_s_names_are_there():
    wanted = {
        "Sensitivity", "PureDP", "ApproxDP", "GaussianDP", "ZCDP", "plan", "NoisePlan", "plan_for_accuracy", "gini",
        "disparity", "majorizes", "InidError", "__version__",
    }  # fmt: skip
    assert wanted <= set(inid.__all__)


@pytest.mark.parametrize("package", [inid, inid.dpsgd, inid.learn, inid.tables, inid.testing])
def test_every_name_exists_once_and_is_documented(package):
    assert len(set(package.__all__)) == len(package.__all__)
    for name in package.__all__:
        assert getattr(package, name).__doc__, name


def test_every_error_is_an_inid_error():
    for name in inid.__all__:
        value = getattr(inid, name)
        if isinstance(value, type) and issubclass(value, Exception):
            assert issubclass(value, inid.InidError)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'tabels'"):
        _ = inid.tabels
