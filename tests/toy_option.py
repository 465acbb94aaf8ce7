"""An option in one entry: registered, it is in the help, in files, on the page, in every export and in the reference.

Run as a program, it prints as JSON where the option was found; the schema of the tests that look at it stays as it is.
"""

import json
import sys
import tomllib
from pathlib import Path

from inid.schema import Choice, Key, register

WORDS = {"up": "away from zero", "down": "towards zero"}
TOY = Key(
    "rounding", Choice(WORDS, "the nearest"), "WORD", "How answers are rounded.", "question", "Rounding of answers"
)
LINE = "inid release a.csv --count --rounding up --epsilon 1"


def found():
    """What each surface makes of the option."""
    from configuration_keys import listed

    from command_line import flags, run
    from inid.cli import job_from
    from inid.jobs import Job
    from inid.studio import field_name, form_of, job_values, studio_page

    job = job_from(flags(LINE))
    form = form_of(job.to_dict())
    return {
        "help": {name: run(f"{name} --help").stdout for name in ("plan", "release", "studio", "stream open")},
        "toml": tomllib.loads(job.to_toml()),
        "form": form,
        "page": studio_page("table"),
        "command": job.to_command(),
        "script": job.to_python(),
        "reference": listed(["question"]),
        "again": Job.from_dict(job_values(form)) == Job.from_dict(tomllib.loads(job.to_toml())) == job,
        "refused": [
            refusal(Job, {"table": "a.csv", "count": True, "rounding": "x"}, named) for named in (str, field_name)
        ],
        "on the command line": run("release a.csv --count --rounding x --epsilon 1").stderr,
    }


def refusal(job, values, named):
    """What is said about a value that does not fit."""
    try:
        job.from_dict(values, named)
    except ValueError as error:
        return str(error)
    return None


if __name__ == "__main__":
    sys.path.append(str(Path(__file__).parents[1] / "docs" / "_ext"))
    register(TOY)
    print(json.dumps(found()))  # noqa: T201 - what the test reads
