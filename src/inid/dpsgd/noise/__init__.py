"""The noise of a step (`step_noise`), and noise that is correlated over steps: later noise takes back earlier noise."""

from inid.dpsgd.noise.banded import Banded
from inid.dpsgd.noise.correlated_noise import (
    CorrelatedNoise,
    CorrelatedRun,
    ExactCorrelatedNoise,
    NoiseHistory,
    whole_coefficients,
)
from inid.dpsgd.noise.step_noise import Recipe, add_scaled, quanta_of
from inid.dpsgd.noise.training_plan import Correlation, TrainingChoice, TrainingPlan, best_of, plan_training
