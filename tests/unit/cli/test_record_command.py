"""`inid record --registry`: the fields of the public registry, from a record and a ledger."""

import json

import pytest
import yaml

from command_line import run

FIELDS = {
    "product": {
        "name", "data_curators", "intended_use", "data_product_type", "data_product_region", "description",
        "publication_date", "data_product_sector",
    },
    "dp_flavor": {"name", "data_domain", "unprotected_quantities"},
    "privacy_loss": {"privacy_unit", "privacy_unit_description", "privacy_parameters"},
    "model": {"model_name", "actors", "release_type", "data_source_type", "access_type"},
    "accounting": {"post_processing", "composition"},
    "implementation": {"pre_processing_eda_hyperparameter_tuning", "mechanisms", "justification"},
    "resources": {"sources", "registry_authors"},
}  # fmt: skip


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
    entry = yaml.safe_load(done.stdout)
    assert {part: set(fields) for part, fields in entry["deployment"].items()} == FIELDS
    loss = entry["deployment"]["privacy_loss"]
    assert loss["privacy_parameters"]["epsilon"] == 1.0
    assert "added or removed" in loss["privacy_unit_description"]
    assert "age: a number from 0 to 100" in entry["deployment"]["dp_flavor"]["data_domain"]
    assert entry["deployment"]["model"]["release_type"] == "Single release"


def test_with_its_ledger_the_loss_is_that_of_the_total(released):
    entry = json.loads(run("inid record made.json --registry --ledger budget.db --json").stdout)["registry"]
    deployment = entry["deployment"]
    assert deployment["privacy_loss"]["privacy_parameters"] == {"epsilon": 3.0, "delta": 1e-6}
    assert deployment["dp_flavor"]["name"] == "Approximate DP"
    assert "1 charges so far" in deployment["accounting"]["composition"]


def test_a_record_that_was_changed_is_not_described(released, tmp_path):
    path = tmp_path / "made.json"
    record = json.loads(path.read_text())
    record["release"]["plan"]["budget"]["epsilon"] = 0.1
    path.write_text(json.dumps(record))
    assert run("inid record made.json --registry").exit_code == 4
    assert run("inid record made.json").exit_code == 2
    assert run("inid record none.json --registry").exit_code == 2
