"""scikit-learn is loaded with `inid.learn` and not before; without it the message names the extra."""

import subprocess
import sys

from inid import learn


def test_every_name_exists():
    assert all(hasattr(learn, name) for name in learn.__all__)


def test_without_scikit_learn_the_error_names_the_extra():
    lines = ("import sys", "sys.modules['sklearn'] = None", "try:", " import inid.learn", "except ImportError as e:")
    code = "\n".join([*lines, " print(type(e).__name__, e)"])
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.startswith("MissingExtraError")
    assert "inid[learn]" in result.stdout
