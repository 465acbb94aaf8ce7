"""From a sensitivity set and a promise to a certified noise plan. Start reading here, in `plans`.

`plans` holds `plan()` and `NoisePlan`; `certificates` the proof that a plan keeps its promise; `comparing` the
baselines; `accuracy` the inverse question, what a wanted accuracy costs.
"""

from inid.planning.accuracy import AccuracyPlan, plan_for_accuracy
from inid.planning.certificates import Certificate
from inid.planning.comparing import Comparison
from inid.planning.plans import NoisePlan, plan

__all__ = ["AccuracyPlan", "Certificate", "Comparison", "NoisePlan", "plan", "plan_for_accuracy"]
