"""Names from outside on a page: titles, columns, keys, labels, units and sources never become markup.

A page with hostile names has the tags and attributes of one with plain names, and shows the names as they are. Both
have the same noise: some sentences are on a page for some numbers alone.
"""

import pandas as pd
import pytest

import inid
from html_outline import outline
from inid import tables, testing

TOTAL = inid.ApproxDP(9.0, 1e-6)
PROMISE = inid.ApproxDP(1.0, 1e-6)
USUAL = "zebra"
HOSTILE = [
    "\"><img src=x onerror=alert(1)>' onmouseover='alert(1)' x='</style></title><script>alert(1)</script>",
    "</td></tr></table></svg><h1>Forged</h1><iframe srcdoc='x'><a href=javascript:alert(1)>]]><!-- -->",
    "&lt;script&gt;&#60;b&#62;{{7*7}}${7*7}%(title)s{title}{0}\\1",
]


def frame(name):
    rows = 60
    return pd.DataFrame(
        {
            name: [k % 90 for k in range(rows)],
            f"{name}2": [f"{name}{k % 3}" for k in range(rows)],
            "id": [k // 2 for k in range(rows)],
        }
    )


def table(name, **facts):
    keys = [f"{name}0", f"{name}1"]
    return tables.Table(frame(name), bounds={name: (0, 100)}, domains={f"{name}2": keys}, rows=60, **facts)


def ledger(name):
    return inid.Ledger(total=TOTAL, unit=f"unit {name}", reserve=1e-7)


def labels(name):
    keys = {f"{name}0": f"label {name}", f"{name}1": "other"}
    return {f"{name}2": (f"column {name}", keys), name: f"number {name}"}


PERSON = tables.Person("id", max_rows=2)


QUERIES = {
    "means by key": lambda t, n: t.statistics(mean=[n], count=True, by={f"{n}2": [f"{n}0", f"{n}1"]}),
    "a histogram": lambda t, n: t.statistics(histogram={f"{n}2": [f"{n}0", f"{n}1"]}),
    "a covariance": lambda t, n: t.statistics(covariance=[n]),
    "tables of counts": lambda t, n: t.marginals([(f"{n}2",)]),
    "quantiles": lambda t, n: t.quantiles({n: [0.5]}, by={f"{n}2": [f"{n}0", f"{n}1"]}),
    "a distribution": lambda t, n: t.quantiles(cdf={n: [(), (f"{n}2",)]}),
    "discovery": lambda t, n: t.select_partitions(f"{n}2", delta=1e-8, count_distinct=True),
    "a choice": lambda t, n: t.largest_group({f"{n}2": [f"{n}0", f"{n}1"]}),
}


def single(kind, name, path):
    query = QUERIES[kind](table(name, unit=PERSON), name)
    promise = inid.PureDP(1.0) if kind in ("a choice", "discovery") else PROMISE
    result = query.release(query.plan(promise), ledger=ledger(name), label=f"note {name}")
    result.report(path, title=f"title {name}")


def publication(_kind, name, path):
    t = table(name, unit=PERSON)
    made = tables.Publication(part=QUERIES["means by key"](t, name), cells=QUERIES["tables of counts"](t, name))
    result = made.release(made.plan(PROMISE), ledger(name), label=f"note {name}")
    named = labels(name) | {"part": f"heading {name}"}
    result.report(path, title=f"title {name}", labels=named, rows_are=f"people {name}")


def stream(_kind, name, path):
    made = tables.Stream.open(
        path.with_suffix(".db"),
        table(name, unit=PERSON),
        query={"count": True, "sum": [name], "by": {f"{name}2": [f"{name}0", f"{name}1"]}},
        periods=[f"first {name}", f"second {name}"],
        contributes=1,
        promise=inid.GaussianDP(mu=0.5),
        ledger=inid.Ledger(total=inid.GaussianDP(mu=1.0), unit=f"unit {name}"),
    )
    made.release(f"first {name}", frame(name))
    made.release(f"second {name}", None)
    made.report(path, title=f"title {name}")


PAGES = {**dict.fromkeys(QUERIES, single), "publication": publication, "stream": stream}


@pytest.mark.parametrize("kind", PAGES)
def test_no_name_on_a_page_becomes_markup(kind, tmp_path):
    def page(name, file):
        with testing.unsafe_seed(7):
            PAGES[kind](kind, name, tmp_path / file)
        return outline((tmp_path / file).read_text(encoding="utf-8"))

    usual = page(USUAL, "usual.html")
    for at, name in enumerate(HOSTILE):
        odd = page(name, f"{at}.html")
        assert odd.tags == usual.tags, name
        assert odd.attributes == usual.attributes, name
        assert f"title {name}" in odd.text
        assert odd.text.count(name) == usual.text.count(USUAL), name
