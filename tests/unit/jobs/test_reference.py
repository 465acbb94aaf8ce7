"""The reference of the configuration file: every key is in it, and its examples are jobs."""

import re
import tomllib
from pathlib import Path

from inid.jobs import KEYS, Job

TEXT = (Path(__file__).parents[3] / "docs" / "reference" / "configuration.md").read_text(encoding="utf-8")


def test_every_key_is_explained():
    explained = {
        word
        for line in TEXT.splitlines()
        if line.startswith("| `")
        for word in re.findall(r"`(\w+)`", line.split("|")[1])
    }
    assert explained == set(KEYS)


def test_the_examples_are_jobs():
    examples = re.findall(r"^```toml\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)
    assert len(examples) == 2
    for example in examples:
        job = Job.from_dict(tomllib.loads(example))
        assert Job.from_dict(tomllib.loads(job.to_toml())) == job
