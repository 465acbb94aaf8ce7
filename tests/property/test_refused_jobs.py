"""Odd jobs, drawn at random: whatever refuses them is an error of the library, in the words of each surface."""

import random
import re

import pytest

from command_line import folder
from inid.errors import InidError
from inid.jobs import Job, plan_job, sentence_of

__all__ = ["folder"]

COMMAND = re.compile(r"(?<!\w)--[a-z]|\binid [a-z]")
PYTHON = re.compile(r"Table\(|tables\.[a-z]|inid\.[a-z]|DP\(|Person\(|query\(|\bTrue\b|=\.\.\.|is_in|to_dict|Decimal\(")

# For each option values that suit most jobs, first, and odd ones.
ASKED = {
    "count": [True],
    "count_distinct": [True],
    "mean": [["age"], ["income", "age"], ["sex"], ["nope"], {"age": [["sex"]]}, {"age": 1}, {"age": [[]]}],
    "sum": [["age"], {"income": [["sex"], ["sex", "age"]]}],
    "covariance": [["age", "income"], ["age"]],
    "histogram": [{"age": [0, 10, 20]}, {"sex": ["F", "M"]}, {"age": [5]}, {"age": [3, 1]}, {"sex": ["F", "F"]}],
    "marginals": [1, 2, 3, 0, [["sex"]], [["sex"], ["sex"]], [["sex", "sex"]], [["nope"]], [[]]],
    "quantile": [{"age": [0.5]}, {"age": [0.0]}, {"sex": [0.5]}, {"nope": [0.1]}],
    "cdf": [{"age": [[]]}, {"age": [["sex"]]}],
    "cumulative": [{"income": [["sex"]]}],
    "choose": [{"sex": ["F", "M"]}, {"sex": ["F"]}],
    "discover": ["sex", "nope", "age"],
    "synthetic": [True],
}
STATED = {
    "by": [{"sex": ["F", "M"]}, {"sex": [1, 2]}, {"age": [1, 1]}, [["sex"]], [["sex"], ["sex", "age"]], {"nope": [1]}],
    "bounds": [{"age": [0, 100], "income": [0, 1e5]}, {"age": [0, 1e300]}, {"sex": [0, 1]}, {"age": [5, 5]}],
    "missing": [{"age": 40}, {"age": -3}, {"nope": 1}, {"sex": 1}],
    "domains": [{"sex": ["F", "M"], "age": [30, 40]}, {"sex": ["F"]}, {"sex": ["(other)", "F"]}, {"age": ["a", "b"]}],
    "bins": [{"age": 4}, {"age": [0, 50, 100]}, {"age": 1}, {"sex": 3}, {"nope": 3}, {"age": [200, 300]}],
    "other": ["cell", "drop"],
    "where": ["age > 30", "3 > 2", "age", "sex < 'F'", "nope > 1", "year(age) > 3", "age >", "age + 'x' > 1", "x > 1"],
    "derive": [{"x": "age * 2"}, {"x": "'abc'"}, {"x": "3"}, {"age": "age"}, {"x": "when(age, 1, 2)"}, {"x": "nope"}],
    "person": ["user_id", "nope", "age"],
    "max_rows": [1, 5, 2**40],
    "neighbours": ["add_remove", "replace", "zero_out"],
    "mechanism": ["laplace", "gaussian"],
    "tolerance": [{"age": 1}, {"nope": 1}, {"mean(age)": 1}, {"sex*age": 2}, {"quantile(age)": 1}, [1, 2]],
    "weights": [{"age": 1}, {"nope": 1}],
    "discover_delta": [1e-8, 0.5],
    "synthetic_columns": [["sex", "age"], ["sex"], ["nope"]],
    "tidy": [True],
    "integers": [True],
    "combine": [{"g": "count(sex='F')"}, {"g": "count(nope='F')"}, {"g": "1"}, {"g": "sum(age, sex='F')"}],
    "called": [{"age": "Age"}, {"nope": "x"}, {"sex:Q": "x"}],
    "ledger": ["new.db", ".", ":memory:", "postgresql://", "http://x"],
    "part": ["1/3", "rest", "2"],
}
PROMISES = [
    {"epsilon": 1, "delta": 1e-6},
    {"epsilon": 1},
    {"mu": 0.3},
    {"epsilon": "1e400"},
    {"epsilon": 1, "delta": "1e-400"},
]
FORMS = ("by", "discover_delta", "synthetic_columns", "tidy", "integers", "combine", "tolerance", "where", "derive")


def drawn(chance):
    """A job: one question or two, and a few options, most of them as they should be."""

    def pick(values):
        return values[0] if chance.random() < 0.7 else chance.choice(values)

    names = [*chance.sample([*ASKED], chance.choice((1, 1, 2))), *chance.sample([*STATED], chance.choice((0, 1, 2, 3)))]
    made = {name: pick((ASKED | STATED)[name]) for name in names} | pick(PROMISES)
    for name in ("bounds", "domains"):
        made.setdefault(name, pick(STATED[name]))
    if chance.random() < 0.25:
        own = {name: made.pop(name) for name in [*made] if name in ASKED or name in FORMS}
        other = chance.choice(["count", "synthetic", "quantile", "discover"])
        made["question"] = {"one": own, "two": {other: ASKED[other][0]}}
    return {"table": "people.csv"} | made


@pytest.mark.parametrize("seed", range(4))
def test_odd_jobs_are_refused_in_the_words_of_each_surface(folder, seed):
    """An error of another kind would end the test; so does a sentence that names what a surface does not have."""
    chance = random.Random(seed)  # noqa: S311 - not noise
    refused = 0
    for _ in range(60):
        values = drawn(chance)
        try:
            plan_job(Job.from_dict(values))
        except InidError as error:
            refused += 1
            command, page = sentence_of(error, "command"), sentence_of(error, "page")
            assert not PYTHON.search(command), (command, values)
            assert not PYTHON.search(page), (page, values)
            assert not COMMAND.search(page), (page, values)
    assert refused > 20
