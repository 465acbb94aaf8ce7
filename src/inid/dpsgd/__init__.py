"""Private training of PyTorch models: clipping by groups, noise allocated optimally among them.

Start with `make_private`, then `optimizer`: a step. `layers` has their rules, `accountant` what a run costs.

sampling  which examples a step draws
trial     that a model keeps examples apart
loss      that a training loop and its loss do
rows      gradients of single examples, clipped and added
kernels   how that is fast
noise     of a step, and correlated over steps
parallel  several processes
"""

from inid.errors import MissingExtraError

try:
    import torch as _torch  # noqa: F401 - asked for here, so that its absence is explained once
except ImportError as _error:
    raise MissingExtraError("inid.dpsgd needs PyTorch: install it with `pip install 'inid[torch]'`.") from _error

from inid.dpsgd.accountant import Accountant, Segment, noise_multiplier_for
from inid.dpsgd.choices import Clipping, Sampling
from inid.dpsgd.layers import LayerRule, register_layer
from inid.dpsgd.loss.per_example_loss import per_example_loss
from inid.dpsgd.make_private import make_private
from inid.dpsgd.noise.banded import Banded
from inid.dpsgd.noise.correlation import Correlation
from inid.dpsgd.noise.training_plan import TrainingPlan, plan_training
from inid.dpsgd.optimizer import PrivateOptimizer
from inid.dpsgd.parameter_average import ParameterAverage
from inid.dpsgd.private_training import PrivateTraining
from inid.dpsgd.recording import CapturedBackward, captured_backward
from inid.dpsgd.rows.adaptive import Adaptive
from inid.dpsgd.sampling.poisson_loader import PoissonLoader
from inid.dpsgd.trial.validation import fix, validate

__all__ = [
    "Accountant",
    "Adaptive",
    "Banded",
    "CapturedBackward",
    "Clipping",
    "Correlation",
    "LayerRule",
    "ParameterAverage",
    "PoissonLoader",
    "PrivateOptimizer",
    "PrivateTraining",
    "Sampling",
    "Segment",
    "TrainingPlan",
    "captured_backward",
    "fix",
    "make_private",
    "noise_multiplier_for",
    "per_example_loss",
    "plan_training",
    "register_layer",
    "validate",
]
