"""Without PyTorch, `inid.dpsgd` says what to install; `inid` itself never loads it."""

import subprocess
import sys


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_without_torch_the_extra_is_named():
    lines = ("import sys", "sys.modules['torch'] = None", "import inid", "try:", " import inid.dpsgd")
    code = "\n".join([*lines, "except inid.InidError as error:", " print(type(error).__name__, error)"])
    done = run(code)
    assert done.stdout.startswith("MissingExtraError")
    assert "pip install 'inid[torch]'" in done.stdout


def test_the_library_does_not_load_torch():
    done = run("import sys, inid; print('torch' in sys.modules, 'inid.dpsgd' in sys.modules)")
    assert done.stdout.split() == ["False", "False"]


def test_public_names_exist():
    from inid import dpsgd

    for name in dpsgd.__all__:
        assert getattr(dpsgd, name).__doc__
