"""From a sensitivity set and a promise to a certified noise plan. Start reading in `plan`.

`plan` holds the function `plan()`, `noise_plan` the `NoisePlan` it makes; `calibration` finds the factor that meets the
budget; `certificate` the proof that a plan keeps its promise; `curve` its privacy curve; `comparison` the baselines;
`accuracy` the inverse question, what a wanted accuracy costs; `text` prints.
"""

from inid.planning.accuracy import AccuracyPlan, plan_for_accuracy
from inid.planning.certificate import Certificate
from inid.planning.comparison import Comparison
from inid.planning.noise_plan import NoisePlan
from inid.planning.plan import plan  # the function: from here on it stands where the module of that name did

__all__ = ["AccuracyPlan", "Certificate", "Comparison", "NoisePlan", "plan", "plan_for_accuracy"]
