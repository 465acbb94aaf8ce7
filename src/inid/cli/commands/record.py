"""`inid record --registry`: a release as the public registry of deployments describes it."""

from pathlib import Path

from inid.cli.commands.verify import read_json
from inid.cli.console import Console
from inid.cli.options import COMMON, Command, Values, argument, switch
from inid.errors import ArgumentError, RecordError
from inid.jobs.ledgers import open_existing
from inid.jobs.registry import as_yaml, deployment
from inid.schema import key

_FILE = argument("file", "FILE", "What inid release --record wrote.")
_REGISTRY = switch("registry", "Describe the release for the public registry of deployments, in YAML.", in_file=False)
_LEDGER = key("ledger").saying("The ledger that paid for it: the privacy loss is then that of its total.")


def record(values: Values) -> None:
    """Describe a release for others."""
    console = Console(values)
    name = _FILE.of(values)
    if name is None:
        raise ArgumentError("a file is missing: name what inid release --record wrote.")
    if not _REGISTRY.of(values):
        raise ArgumentError("say what to make of the record: pass --registry.")
    path = Path(name)
    if not path.exists():
        raise ArgumentError(f"there is no file {str(path)!r}.")
    content = read_json(path, path.read_bytes())
    if not isinstance(content, dict):
        raise RecordError(f"{path} is no record of a release.")
    address = _LEDGER.of(values)
    if address is None:
        description = deployment(content)
    else:
        with open_existing(str(address), key("name").of(values) or "default") as ledger:
            description = deployment(content, ledger)
    console.document({"command": "record", "registry": description})
    if console.prints:
        console.text(as_yaml(description))


RECORD = Command(
    "record",
    record,
    (_FILE, _REGISTRY, _LEDGER, key("name"), *COMMON),
    """Describe a release for the public registry of deployments.

    The record is proved first. What only the publisher knows says TODO: the name and use of the product, its curators,
    its authors. The form is that of github.com/opendp/deployments-registry-data.
    """,
    """
  inid record made.json --registry
  inid record made.json --registry --ledger budget.db > deployment.yaml
""",
)
