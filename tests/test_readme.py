"""The README's examples run as they stand, in order, and print what they say."""

import pytest

from markdown_examples import DRAWN, PROJECT, blocks, compare, every_block, run, run_page, run_shell

README = PROJECT / "README.md"


def test_every_example_of_the_readme_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = README.read_text(encoding="utf-8")
    assert sum(bool(shown.strip()) for _, _, shown in every_block(text)) >= 3
    assert run_page(README) >= 5
    (release,) = (block.split("\n", 1)[1] for _, block, _ in every_block(text) if "inid ledger create" in block)
    assert "It takes three of these and refuses a fourth." in text
    for _ in range(2):
        run_shell(release, "")
    with pytest.raises(AssertionError, match="no room for this charge"):
        run_shell(release, "")


def test_the_readme_stays_short_and_shows_a_picture():
    text = README.read_text(encoding="utf-8")
    assert len(text.splitlines()) < 200
    assert "docs/pictures/private-table.svg" in text


def test_the_runner_notices_a_wrong_example():
    for wrong, shown in ((">>> 1 + 1\n3\n", ""), ("raise RuntimeError\n", ""), ("print(1)\n", "\n    2\n")):
        with pytest.raises((AssertionError, RuntimeError)):
            run(wrong, shown, {})
    for wrong, shown in (("false\n", ""), ("echo 1\n", "2"), ("inid no-such-command\n", "")):
        with pytest.raises(AssertionError):
            run_shell(wrong, shown)


def test_shown_output_is_compared_in_order():
    compare("a ... c", "a b c")
    compare(f"{DRAWN}mean age 49.01 [47.9, 50.0]", "mean  age  51.44 [50.1, 52.2]")
    with pytest.raises(AssertionError):
        compare(f"{DRAWN}mean age 49.01", "mean income 51.44")
    with pytest.raises(AssertionError):
        compare("c ... a", "a b c")


def test_blocks_share_one_namespace_and_other_languages_are_left_alone():
    text = "```toml\na = 1\n```\n```python\na = 1\n```\ntext\n```python\n>>> a + 1\n2\n```\n"
    namespace = {}
    for block, shown in blocks(text):
        run(block, shown, namespace)
    assert len(blocks(text)) == 2
    assert namespace["a"] == 1


def test_a_text_block_after_a_block_is_what_it_prints():
    assert blocks("```python\nprint(1)\n```\n\n```text\n1\n```\n") == [("print(1)\n", "\n1\n")]
