"""The reference of the configuration file: every key is in it, and its examples are jobs."""

import re
import sys
import tomllib
from pathlib import Path

from inid.jobs import STREAM_KEYS, Job, job_keys
from inid.schema import keys

DOCS = Path(__file__).parents[3] / "docs"
TEXT = (DOCS / "reference" / "configuration.md").read_text(encoding="utf-8")


def test_every_key_is_explained(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS / "_ext"))
    sys.modules.pop("configuration_keys", None)
    from configuration_keys import listed

    tables = re.findall(r"^```{configuration-keys} (.*)$", TEXT, re.MULTILINE)
    lines = [line for groups in tables for line in listed(groups.split())[2:]]
    explained = [re.match(r"\| `(\w+)` \| .+ \| .+ \|$", line)[1] for line in lines]
    assert sorted(explained) == sorted({*job_keys(), *STREAM_KEYS, *(one.name for one in keys("own"))})
    assert "| `mean` | list of columns; or a table of lists of tables by column" in "\n".join(lines)
    assert "| `max_rows` | whole number | With `person`: how many rows of one person count" in "\n".join(lines)


def test_the_examples_are_jobs():
    examples = re.findall(r"^```toml\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)
    assert len(examples) == 2
    for example in examples:
        job = Job.from_dict(tomllib.loads(example))
        assert Job.from_dict(tomllib.loads(job.to_toml())) == job
