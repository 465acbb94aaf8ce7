"""The built site: no warnings, nothing from a network, no broken link or anchor, every public name in the reference."""

import html
import importlib
import inspect
import re
import subprocess
import sys
from urllib.parse import unquote

import pytest

from markdown_examples import PROJECT

pytestmark = pytest.mark.slow
RECORD = PROJECT / "tests" / "records" / "public_names.txt"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site as `make docs` builds it, warnings being errors; notebooks are executed."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html"]
    done = subprocess.run([*command, str(PROJECT / "docs"), str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def listed():
    """Module, class and member of each line of the record; one without a class is a name of its module."""
    module = owner = ""
    for line in RECORD.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            module = line.strip("[]")
        elif line.startswith("    ."):
            yield module, owner, re.match(r"    \.(\w+)", line).group(1)
        else:
            owner = re.match(r"\w+", line).group()
            yield module, owner, None


def is_for_the_library_alone(thing, member):
    """Members that say so in their docstring, and what scikit-learn adds to every estimator."""
    said = inspect.getdoc(getattr(thing, "__func__", thing)) or ""
    return member is not None and (":meta private:" in said or re.fullmatch("set_.*_request", member) is not None)


def test_nothing_comes_from_a_network(site):
    home = (site / "index.html").read_text(encoding="utf-8")
    assert not re.findall(r'<(?:script|link)[^>]+(?:src|href)="https?://', home)


def test_every_public_name_is_in_the_reference(site):
    """What is called has an entry of its own; an attribute may be described in that of its class."""
    missing = []
    for module, owner, member in listed():
        text = (site / "reference" / f"{module.rpartition('.')[2]}.html").read_text(encoding="utf-8")
        name = f"{module}.{owner}" + (f".{member}" if member else "")
        thing = getattr(importlib.import_module(module), owner)
        if member:
            thing = inspect.getattr_static(thing, member)
        called = callable(getattr(thing, "__func__", thing))
        written = re.search(rf"\b{member or owner}\b", re.sub(r"<[^>]+>", "", text))
        if f'id="{name}"' not in text and (called or not written) and not is_for_the_library_alone(thing, member):
            missing.append(name)
    assert missing == []


def test_links_and_anchors_exist(site):
    pages = {page: page.read_text(encoding="utf-8") for page in site.rglob("*.html")}
    anchors = {page: set(re.findall(r'id="([^"]+)"', text)) for page, text in pages.items()}
    broken = []
    for page, text in pages.items():
        for target in map(html.unescape, re.findall(r'<a [^>]*href="([^"]+)"', text)):
            if re.match(r"[a-z]+:", target):
                continue
            path, _, anchor = target.partition("#")
            aim = (page.parent / unquote(path)).resolve() if path else page
            if not aim.exists() or (anchor and aim in anchors and unquote(anchor) not in anchors[aim]):
                broken.append(f"{page.relative_to(site)} -> {target}")
    assert broken == []


def test_every_plot_of_a_tutorial_is_shown(site):
    """A notebook that has lost a setting of its backend draws without showing anything, and without an error."""
    cells, shown = {}, {}
    for page in (PROJECT / "docs" / "tutorials").glob("*.md"):
        found = re.findall(
            r"^```\{code-cell\}.*?\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
        )
        cells[page.stem] = sum(".plot(" in cell for cell in found)
        text = (site / "tutorials" / f"{page.stem}.html").read_text(encoding="utf-8")
        shown[page.stem] = len(re.findall(r'<img [^>]*src="\.\./_images/[0-9a-f]{64}\.png"', text))
    assert shown == cells
    assert sum(cells.values()) >= 3
