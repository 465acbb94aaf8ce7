"""From a sensitivity set and a promise to a certified noise plan. Start reading in `plan`."""

from inid.planning.accuracy import AccuracyPlan, plan_for_accuracy
from inid.planning.calibration import calibrated
from inid.planning.certificate import Certificate
from inid.planning.comparison import Comparison
from inid.planning.curve import laplace_delta_estimate, shrink_factor
from inid.planning.division import Division, divide, whole_of
from inid.planning.laplace_bounds import dominated, laplace_divergence, most_by_signs, most_epsilon, mu_squared_above
from inid.planning.noise_plan import NoisePlan
from inid.planning.noise_sums import half_width
from inid.planning.plan import (  # the function: from here on it stands where the module of that name did
    plan,
    plan_independent,
)
from inid.planning.staircase_plan import StaircasePlan, staircase_plan

__all__ = [
    "AccuracyPlan",
    "Certificate",
    "Comparison",
    "NoisePlan",
    "StaircasePlan",
    "half_width",
    "plan",
    "plan_for_accuracy",
    "plan_independent",
    "staircase_plan",
]
