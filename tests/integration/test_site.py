"""The site: links between pages lead somewhere, pages stay readable, pictures are those that the script draws."""

import re
import runpy

import pytest

from markdown_examples import PROJECT, run_page
from needs import needs

DOCS = PROJECT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
GUIDES = sorted(path for path in (DOCS / "guides").glob("*.md") if path.name != "index.md")
# Tutorials are executed when the site is built, the reference shows formats, and the page in the browser stays open.
LEFT_OUT = {"reference", "tutorials", "studio.md"}
WITH_EXAMPLES = [page for page in PAGES if not {page.parent.name, page.name} & LEFT_OUT]
# What mathematics needs may be longer than 1,500 words.
THEORY = {"theory", "curves", "noise"}
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
# Some pages speak of a server of the reader's own; the test starts one and puts its address there.
ADDRESS = re.compile(r'postgresql://[^"]*@[a-z.]*example[a-z.]*/[a-z]+')


def linked_files(page):
    """Files that a page links to, relative to the page; addresses and anchors on the page itself are left out."""
    for target in LINK.findall(
        re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    ):
        if not re.match(r"[a-z]+:|#", target):
            yield target.split("#")[0]


@pytest.mark.parametrize("page", [*PAGES, PROJECT / "README.md"], ids=lambda page: str(page.relative_to(PROJECT)))
def test_links_between_pages_lead_somewhere(page):
    missing = [target for target in linked_files(page) if not (page.parent / target).exists()]
    assert not missing


def test_a_link_that_leads_nowhere_is_noticed(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("[one](other.md#part) and [two](https://example.org) and ![three](pictures/x.svg)")
    assert list(linked_files(page)) == ["other.md", "pictures/x.svg"]


@pytest.mark.parametrize(
    "page",
    [
        # Lightning warns about its own future.
        pytest.param(page, marks=pytest.mark.filterwarnings("ignore") if page.stem == "trainer-and-lightning" else ())
        for page in WITH_EXAMPLES
    ],
    ids=[str(page.relative_to(DOCS)) for page in WITH_EXAMPLES],
)
def test_the_examples_of_a_page_run(page, tmp_path, monkeypatch, request):
    monkeypatch.chdir(tmp_path)
    text = page.read_text(encoding="utf-8")
    if ADDRESS.search(text):
        needs("postgres")
        page = tmp_path / page.name
        page.write_text(ADDRESS.sub(request.getfixturevalue("server").url, text), encoding="utf-8")
    for name, block in re.findall(r"Save this as `([a-z.]+)`:\n\n```toml\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        (tmp_path / name).write_text(block, encoding="utf-8")
    run_page(page)


def prose(text):
    """A page without its code blocks: what somebody reads."""
    return re.sub(r"^( *)```.*?^\1```", "", text, flags=re.DOTALL | re.MULTILINE)


def too_long(text):
    """Lines beyond 120 characters; rows of tables cannot wrap and may have 160."""
    return [line for line in text.splitlines() if len(line) > (160 if line.startswith("|") else 120)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_a_page_is_short_and_so_are_its_lines(page):
    text = page.read_text(encoding="utf-8")
    long = too_long(prose(text))
    if page.stem in THEORY:
        long = [line for line in long if not line.startswith("|")]  # a step of a proof in each row
    assert long == []
    words = [word for word in prose(text).split() if re.search("[a-zA-Z0-9]", word)]
    assert len(words) <= 1_500 or page.parent.name == "reference" or page.stem in THEORY


def test_a_long_line_is_noticed_and_code_is_left_alone():
    code = "```python\n" + "x" * 200 + "\n```\n"
    assert too_long(prose(code + "short\n" + "y" * 121 + "\n" + "| " + "z" * 150)) == ["y" * 121]
    assert too_long("| " + "z" * 159) != []


@pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: guide.stem)
def test_a_guide_has_a_picture_near_its_top(guide):
    assert re.search(
        r"^!\[[^\]]{20,}\]\(\.\./pictures/[a-z-]+\.svg\)$", guide.read_text(encoding="utf-8"), re.MULTILINE
    )


def test_pictures_are_those_that_the_script_draws(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(DOCS / "pictures")  # puts the whole path back: the script may put more before it
    runpy.run_path(str(DOCS / "pictures" / "draw.py"))["draw_all"](tmp_path)
    drawn = {path.name: path.read_text() for path in tmp_path.glob("*.svg")}
    assert drawn == {path.name: path.read_text() for path in (DOCS / "pictures").glob("*.svg")}


def test_the_short_page_on_the_paper_counts_as_the_long_one_does():
    page = (PROJECT / "results" / "verdicts.md").read_text()
    total, counts = re.search(r"^(\d+ claims) of the paper: (holds .*\.)$", page, re.MULTILINE).groups()
    assert f"{total}: {counts}" in " ".join((DOCS / "explanations" / "paper.md").read_text().split())
