"""Jobs that ask for rows go into the page's fields and come out the same, whatever their columns are called."""

import json
import random

import pytest

from inid.jobs import Job
from inid.studio import form_of, job_values
from studio_browser import Server, Tab, launched

COLUMNS = ["age", "home region", "x,y", "a=b", "=1+1", "<img src=x onerror=alert(1)>", "__proto__", "'quoted'"]
KEYS = [["F", "M"], [1, 2, 3], ["=evil", "a, b", "it's"], ["1", "02"], [f"code {at}" for at in range(12)]]
BINS = [[7], [0, 17.5, 100], [-5, 0, 5, 10]]


def generated(random_source):
    """A job of rows, alone or beside other questions, with some columns listed and others in bins."""
    columns = random_source.sample(COLUMNS, random_source.randint(2, len(COLUMNS)))
    cut = random_source.randint(1, len(columns) - 1)
    domains = {name: random_source.choice(KEYS) for name in columns[:cut]}
    bins = {name: random_source.choice(BINS) for name in columns[cut:]}
    bounds = {name: [-5, 100] for name in bins}
    own = {"synthetic": True}
    if random_source.random() < 0.5:
        own["synthetic_columns"] = random_source.sample(columns, random_source.randint(2, len(columns)))
    if random_source.random() < 0.5:
        own["synthetic_target"] = random_source.choice(own.get("synthetic_columns", columns))
    if random_source.random() < 0.5:
        own["synthetic_rules"] = ["age >= 3", "not (age > 9 and col('x,y') == ';')"][: random_source.randint(1, 2)]
        own["synthetic_triples"] = True
        own["synthetic_heaps"] = {random_source.choice(list(bins)): [0, 40]}
    facts = {"table": "odd.csv", "bounds": bounds, "epsilon": 1, "delta": 1e-6, "bins": bins}
    if "synthetic_columns" not in own:
        facts["domains"] = domains
    else:  # the page states what a question needs
        facts["domains"] = {name: keys for name, keys in domains.items() if name in own["synthetic_columns"]}
    if random_source.random() < 0.5:
        return {name: value for name, value in (facts | own).items() if value != {}}
    name, other = random_source.choice([("rows", "number"), ("it's", "2027")])
    questions = {name: own | {"share": "1/3"}, other: {"count": True, "where": "age > 3"}}
    return {key: value for key, value in (facts | {"question": questions}).items() if value != {}}


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    home = tmp_path_factory.mktemp("home")
    header = ",".join('"' + name.replace('"', '""') + '"' for name in COLUMNS)
    (home / "odd.csv").write_text(header + "\n" + ",".join("1" for _ in COLUMNS) + "\n", encoding="utf-8")
    with launched() as browser, Server(home, "odd.csv") as server, Tab(browser, server) as tab:
        yield tab.page


THROUGH = """text => {
  const values = JSON.parse(text);
  for (const area of form.querySelectorAll(".list")) area.value = ""; // as on a page that was just opened
  fill(values);
  keep(values);
  return JSON.stringify([collect(), kept]);
}"""


@pytest.mark.parametrize("seed", range(40))
def test_a_job_of_rows_is_the_same_behind_the_fields(page, seed):
    job = Job.from_dict(generated(random.Random(seed)))  # noqa: S311 - which example it is
    seen, kept = json.loads(page.evaluate(THROUGH, json.dumps(form_of(job.to_dict()))))
    assert kept == {}
    assert Job.from_dict(job_values(seen)) == job
