"""`inid record --registry`: a release as the public registry of deployments describes it.

The registry (github.com/opendp/deployments-registry-data, its schema of autumn 2026) describes a deployment in six
parts: basic facts, variant of privacy, privacy loss, model, implementation, administration. A record and a ledger know
the privacy of it: unit, neighbours, parameters, mechanisms, composition, post-processing. Who publishes it, and why,
only the publisher knows: these fields say TODO.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from inid._version import __version__
from inid.accounting import Ledger, verify_record
from inid.cli.commands.verify import read_json
from inid.cli.console import Console
from inid.cli.options import COMMON, Command, Values, argument, switch
from inid.errors import ArgumentError, MissingExtraError, RecordError
from inid.jobs.ledgers import open_existing
from inid.numbers.decimals import decimal_fraction, decimal_up
from inid.promises import budget_from_dict
from inid.schema import key
from inid.tables import verify_result

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


_TODO = "TODO"
_VARIANTS = {  # the registry has no name for Gaussian DP, and no fields for the numbers of the last two
    "PureDP": "Pure DP",
    "ApproxDP": "Approximate DP",
    "ZCDP": "Zero-concentrated DP",
    "GaussianDP": "Custom",
    "RenyiDP": "Renyi DP",
}
_RELATIONS = {
    "add_remove": "Adjacent datasets differ by the data of one {unit}, added or removed; how many there are is secret.",
    "replace": "Adjacent datasets differ by the data of one {unit}, replaced by any other; how many there are is "
    "public.",
    "zero_out": "Adjacent datasets differ by the data of one {unit}, which become nothing; how many there are is "
    "public.",
}
_LAWS = {
    "laplace": "Laplace noise, planned per number for the least error, drawn exactly and rounded to a public grid",
    "gaussian": "Gaussian noise, planned per number for the least error, drawn exactly and rounded to a public grid",
    "staircase": "Staircase noise, drawn jointly over blocks of numbers, exactly and in whole numbers",
}


def deployment(record: Mapping[str, Any], ledger: Ledger | None = None) -> dict[str, Any]:
    """The description of a release, from its record and the ledger that paid for it.

    The record is proved first. With a ledger the privacy loss is that of the ledger's total, since one person is in all
    that was charged to it.
    """
    plans, promise, relation, person = _facts(record)
    unit = "row" if person is None else f"person ({person})"
    total = promise
    composition = f"One charge under {_words(promise)}."
    if ledger is not None:
        ledger.verify()
        total = ledger.total.to_dict()
        unit = ledger.unit if ledger.unit != "row" else unit
        charges = len(ledger.history())
        composition = (
            f"{charges} charge{'s' * (charges != 1)} so far to one ledger whose total is {ledger.total}; each was "
            f"committed before the data were read. This release was charged as {_words(promise)}. Sums per currency "
            "stay valid when later questions depend on earlier answers."
        )
    return {
        "url_slug": _TODO,
        "deployment": {
            "basic": {
                "name": _TODO,
                "data_curators": [{"data_curator_name": _TODO, "data_curator_type": _TODO}],
                "description": _TODO,
                "intended_use": _TODO,
                "data_product_type": "Synthetic data" if _is_synthetic(record) else "Summary statistics",
                "data_product_region": _TODO,
                "data_product_sector": _TODO,
                "publication_date": str(_time(record))[:10],
            },
            "dp_variant": {
                "variant_name": _VARIANTS[total["kind"]],
                "data_domain": _domain(record),
                "unprotected_quantities": "Bounds, categories, names of columns and assumed numbers of rows were "
                "stated as public; none was taken from the data.",
            },
            "privacy_loss": {
                "privacy_unit": unit,
                "privacy_unit_details": _RELATIONS[relation].format(unit=unit),
                "privacy_parameters": {name: total[name] for name in ("epsilon", "delta", "rho") if name in total},
                "privacy_parameters_details": f"The promise is {_words(total)}.",
            },
            "deployment_model": {
                "model_name": "Central",
                "actors": _TODO,
                "release_type": "One release" if ledger is None else "Many releases",
                "data_source_type": _TODO,
                "access_type": "Non-interactive",
            },
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": _TODO,
                "mechanisms": "\n".join(f"- {_LAWS[name]}." for name in sorted({plan["mechanism"] for plan in plans})),
                "composition": composition,
                "post_processing": "Means and other derived numbers, and all intervals, follow from the noisy sums.",
                "justification": _TODO,
                "additional_information": f"Made with inid {__version__}. The record can be proved again by `inid "
                f"verify`, or by inid_check.py, which needs Python alone. Digest: {record.get('digest', 'none')}",
            },
            "administrative": {"status": "Draft", "registry_authors": [_TODO], "tier": _TODO},
        },
    }


def as_yaml(description: Mapping[str, Any]) -> str:
    """A description in the form of the registry's files."""
    try:
        import yaml
    except ImportError:
        raise MissingExtraError("the registry's YAML", "cli") from None
    text: str = yaml.safe_dump(dict(description), sort_keys=False, allow_unicode=True, width=100)
    return text


def _facts(record: Mapping[str, Any]) -> tuple[list[Mapping[str, Any]], dict[str, Any], str, str | None]:
    """The plans of noise, the promise of the whole, the relation and the column of people."""
    if "inid_publication" in record:
        verify_result(record)
        charge = record["charge"]
        questions = [result["question"] for result in record["results"].values()]
        plans = [result["release"]["plan"] for result in record["results"].values()]
        if charge["promise"] is None:
            raise ArgumentError("the record promises nothing for its parts together: describe one that does.")
        return plans, charge["promise"], charge["neighbours"], _person(questions)
    if "question" in record:
        verify_result(record)
        plan, earlier = record["release"]["plan"], record.get("earlier") or []
        plans = [plan, *(one["plan"] for one in earlier if isinstance(one.get("plan"), Mapping))]
        return plans, _whole(record), plan["sensitivity"]["neighbours"], _person([record["question"]])
    if "inid_release" in record:
        verify_record(record)
        plan = record["plan"]
        return [plan], plan["budget"], plan["sensitivity"]["neighbours"], None
    raise ArgumentError("the record is of no release: name what inid release --record wrote.")


def _whole(record: Mapping[str, Any]) -> dict[str, Any]:
    """What a question promises for all its steps, with the delta by which keys appear that nobody listed."""
    promise: dict[str, Any] = dict(record.get("promise") or record["release"]["plan"]["budget"])
    delta = record["question"].get("delta")
    if not delta:
        return promise
    if promise["kind"] not in ("PureDP", "ApproxDP"):
        raise ArgumentError(
            "the record's keys take a delta, which its promise does not have: describe one that promises an epsilon."
        )
    both = decimal_fraction(delta) + decimal_fraction(promise.get("delta", 0.0))
    return {"kind": "ApproxDP", "epsilon": promise["epsilon"], "delta": decimal_up(both, "delta")}


def _is_synthetic(record: Mapping[str, Any]) -> bool:
    return any(one.get("kind") == "synthetic" for one in (record, *(record.get("results") or {}).values()))


def _person(questions: Sequence[Mapping[str, Any]]) -> str | None:
    for question in questions:
        person = question.get("person")
        if isinstance(person, Mapping):
            return str(person.get("column", "person"))
        if person:
            return str(person)
    return None


def _domain(record: Mapping[str, Any]) -> str:
    """The columns that were asked for, with their public bounds and categories."""
    questions = (
        [result["question"] for result in record["results"].values()]
        if "results" in record
        else [record.get("question") or {}]
    )
    columns = {}
    for question in questions:
        for name, bounds in (question.get("bounds") or {}).items():
            columns[name] = f"{name}: a number from {bounds[0]:g} to {bounds[1]:g}"
        for name, values in (question.get("by") or {}).items():
            columns[name] = f"{name}: one of {len(values)} stated categories" if isinstance(values, list) else name
    return "; ".join(columns.values()) or _TODO


def _time(record: Mapping[str, Any]) -> object:
    results: Mapping[str, Any] = record.get("results") or {"": record}
    first = next(iter(results.values()))
    return (first.get("release") or first).get("time", _TODO)


def _words(promise: Mapping[str, Any]) -> str:
    return str(budget_from_dict(promise))
