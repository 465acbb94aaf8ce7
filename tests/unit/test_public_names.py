"""The public names and their signatures are a contract: a change to them is made on purpose, in the record too."""

import subprocess
import sys

import pytest

import inid
from public_names import RECORD, public_names


def test_public_names_and_signatures_are_those_of_the_record():
    now = public_names()
    assert now == RECORD.read_text(), "on purpose? Then run: python tests/public_names.py"


@pytest.mark.parametrize("name", ["tables", "learn", "dpsgd", "testing"])
def test_packages_load_when_they_are_first_named(name):
    code = f"import sys, inid; assert 'inid.{name}' not in sys.modules; assert inid.{name}.__all__"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert name in dir(inid)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'tabels'"):
        _ = inid.tabels
