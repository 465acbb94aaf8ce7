"""Print the least allowed version of every dependency of pyproject.toml, as constraints for pip.

PyTorch is left out, since constraints.txt pins it; so are the tools of the tests, whose ranges bind nobody else.
"""

import re
import tomllib
from pathlib import Path

BOUND = re.compile(r"^([A-Za-z0-9_.-]+)(?:\[[^]]*\])?>=([0-9][0-9.]*)")


def least_versions(project):
    extras = project["optional-dependencies"]
    lists = [project["dependencies"], *(names for extra, names in extras.items() if extra not in {"test", "docs"})]
    found = {}
    for requirement in (text for names in lists for text in names):
        match = BOUND.match(requirement)
        if match and match[1] != "torch":
            found[match[1]] = match[2]
    return found


if __name__ == "__main__":
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for name, version in sorted(least_versions(project).items()):
        print(f"{name}=={version}")  # noqa: T201 - what the script is for
