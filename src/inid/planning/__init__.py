"""From a sensitivity set and a promise to a certified noise plan. Start reading here, in `choosing`.

`choosing` holds `plan()`, `plans` the `NoisePlan` it makes; `calibration` finds the factor that meets the budget;
`certificates` the proof that a plan keeps its promise; `curve` its privacy curve; `comparing` the baselines; `accuracy`
the inverse question, what a wanted accuracy costs; `tables` prints.
"""

from inid.planning.accuracy import AccuracyPlan, plan_for_accuracy
from inid.planning.certificates import Certificate
from inid.planning.choosing import plan
from inid.planning.comparing import Comparison
from inid.planning.plans import NoisePlan

__all__ = ["AccuracyPlan", "Certificate", "Comparison", "NoisePlan", "plan", "plan_for_accuracy"]
