"""`inid record --registry`: the fields of the public registry, from a record and a ledger."""

import json

import pandas as pd
import pytest
import yaml

import inid
from command_line import run
from inid import tables
from inid.cli.commands.record import deployment

FIELDS = {  # of the registry's schema, in its order, which its pages rely on; None: TODO of the publisher
    "basic": [
        "name", "data_curators", "description", "intended_use", "data_product_type", "data_product_region",
        "data_product_sector", "publication_date",
    ],
    "dp_variant": ["variant_name", "data_domain", "unprotected_quantities"],
    "privacy_loss": ["privacy_unit", "privacy_unit_details", "privacy_parameters", "privacy_parameters_details"],
    "deployment_model": ["model_name", "actors", "release_type", "data_source_type", "access_type"],
    "implementation": [
        "preprocessing_and_hyperparameter_tuning", "mechanisms", "composition", "post_processing", "justification",
        "additional_information",
    ],
    "administrative": ["status", "registry_authors", "tier"],
}  # fmt: skip
WORDS = {
    ("basic", "data_product_type"): {"Summary statistics", "Synthetic data"},
    ("dp_variant", "variant_name"): {"Pure DP", "Approximate DP", "Zero-concentrated DP", "Renyi DP", "Custom"},
    ("deployment_model", "model_name"): {"Local", "Central", "Shuffle", "Federated", "Varies"},
    ("deployment_model", "release_type"): {"One release", "Many releases"},
    ("deployment_model", "access_type"): {"Interactive", "Non-interactive"},
    ("administrative", "status"): {"Draft"},
}


def checked(entry):
    """An entry, if it has the fields and the words of the schema."""
    assert list(entry) == ["url_slug", "deployment"]
    deployment = entry["deployment"]
    assert {part: list(fields) for part, fields in deployment.items()} == FIELDS
    for (part, name), words in WORDS.items():
        assert deployment[part][name] in words
    (curator,) = deployment["basic"]["data_curators"]
    assert set(curator) == {"data_curator_name", "data_curator_type"}
    assert deployment["privacy_loss"]["privacy_parameters"].keys() <= {"epsilon", "delta", "rho"}
    return deployment


@pytest.fixture
def released(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.csv").write_text("sex,age\n" + "f,30\nm,41\n" * 40)
    assert run("inid ledger create budget.db --epsilon 3 --delta 1e-6").exit_code == 0
    done = run(
        "inid release people.csv --count --mean age --by sex=f,m --bounds age=0:100 --epsilon 1 --delta 1e-7 "
        "--ledger budget.db --record made.json --quiet"
    )
    assert done.exit_code == 0, done.stderr


def test_a_record_becomes_an_entry_of_the_registry(released):
    done = run("inid record made.json --registry")
    assert done.exit_code == 0, done.stderr
    entry = checked(yaml.safe_load(done.stdout))
    loss = entry["privacy_loss"]
    assert loss["privacy_parameters"]["epsilon"] == 1.0
    assert "added or removed" in loss["privacy_unit_details"]
    assert "age: a number from 0 to 100" in entry["dp_variant"]["data_domain"]
    assert entry["deployment_model"]["release_type"] == "One release"


def test_with_its_ledger_the_loss_is_that_of_the_total(released):
    found = json.loads(run("inid record made.json --registry --ledger budget.db --json").stdout)["registry"]
    entry = checked(found)
    assert entry["privacy_loss"]["privacy_parameters"] == {"epsilon": 3.0, "delta": 1e-6}
    assert entry["dp_variant"]["variant_name"] == "Approximate DP"
    assert "1 charge so far" in entry["implementation"]["composition"]


@pytest.mark.parametrize(
    ("promise", "variant", "parameters"),
    [("--mu 0.5", "Custom", {}), ("--rho 0.1", "Zero-concentrated DP", {"rho": 0.1})],
)
def test_promises_without_an_epsilon_are_named_and_told(released, promise, variant, parameters):
    done = run(f"inid release people.csv --count {promise} --record other.json --quiet")
    assert done.exit_code == 0, done.stderr
    entry = checked(yaml.safe_load(run("inid record other.json --registry").stdout))
    assert entry["dp_variant"]["variant_name"] == variant
    assert entry["privacy_loss"]["privacy_parameters"] == parameters
    assert promise.split()[1] in entry["privacy_loss"]["privacy_parameters_details"]


def described(query, promise):
    record = query.release(query.plan(promise)).to_dict()
    return checked(deployment(json.loads(json.dumps(record))))


def test_synthetic_rows_promise_what_all_their_steps_do():
    frame = pd.DataFrame({"sex": ["f", "m"] * 300, "place": ["a", "b", "c"] * 200})
    table = tables.Table(frame, domains={"sex": ["f", "m"], "place": ["a", "b", "c"]}, rows=600)
    entry = described(table.synthesize(), inid.ZCDP(rho=0.5))
    assert entry["basic"]["data_product_type"] == "Synthetic data"
    assert entry["privacy_loss"]["privacy_parameters"] == {"rho": 0.5}


def test_keys_that_were_found_take_their_delta_too():
    people = pd.DataFrame({"who": range(600), "place": ["a", "b", "c"] * 200})
    table = tables.Table(people, unit=tables.Person("who", max_rows=1))
    entry = described(table.select_partitions("place", delta=1e-6), inid.PureDP(epsilon=1.0))
    assert entry["dp_variant"]["variant_name"] == "Approximate DP"
    assert entry["privacy_loss"]["privacy_parameters"] == {"epsilon": 1.0, "delta": 1e-6}
    assert entry["privacy_loss"]["privacy_unit"] == "person (who)"


def test_a_record_that_was_changed_is_not_described(released, tmp_path):
    path = tmp_path / "made.json"
    record = json.loads(path.read_text())
    record["release"]["plan"]["budget"]["epsilon"] = 0.1
    path.write_text(json.dumps(record))
    assert run("inid record made.json --registry").exit_code == 4
    assert run("inid record made.json").exit_code == 2
    assert run("inid record none.json --registry").exit_code == 2
