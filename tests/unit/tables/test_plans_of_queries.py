"""Every plan of a query proves itself and writes itself down."""

import json
from dataclasses import replace

import pandas as pd
import pytest

import inid
from inid.planning import NoisePlan
from inid.tables import Table

FRAME = pd.DataFrame({"sex": ["F", "M"], "age": [31.0, 44.0]})
TABLE = Table(FRAME, bounds={"age": (0, 100)}, domains={"sex": ["F", "M"]})
QUERIES = {
    "sums": TABLE.statistics(mean=["age"], by={"sex": ["F", "M"]}),
    "tables": TABLE.marginals(1),
    "quantiles": TABLE.quantiles({"age": [0.5]}),
    "keys": TABLE.select_partitions("sex", delta=1e-8),
    "largest": TABLE.largest_group({"sex": ["F", "M"]}),
}


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_a_plan_is_written_down_with_its_noise(query):
    plan = query.plan(inid.PureDP(1.0))
    record = json.loads(json.dumps(plan.to_dict()))
    assert NoisePlan.from_dict(record["noise"]).verify().promise == plan.verify().promise == "PureDP(epsilon=1.0)"


@pytest.mark.parametrize("name", ["tables", "quantiles", "keys", "largest"])
def test_noise_for_a_smaller_set_does_not_verify(name):
    """The noise keeps its own promise, and the set is too small for what is asked."""
    plan = QUERIES[name].plan(inid.PureDP(1.0))
    small = inid.plan(inid.Sensitivity.ball(plan.noise.dimension, l1=0.5), inid.PureDP(1.0))
    assert small.verify()
    with pytest.raises(inid.GuaranteeError, match="does not hold what one person can change"):
        replace(plan, noise=small).verify()
