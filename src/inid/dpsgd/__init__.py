"""Private training of PyTorch models: clipping by groups, noise allocated optimally among them.

Start with `make_private`. Reading order: `make_private`, `optimizer` (a step), `per_example_gradients`, `clipped_sums`.
"""

from inid.errors import MissingExtraError

try:
    import torch as _torch  # noqa: F401 - asked for here, so that its absence is explained once
except ImportError as _error:
    raise MissingExtraError("inid.dpsgd needs PyTorch: install it with `pip install 'inid[torch]'`.") from _error

from inid.dpsgd.accountant import Accountant, Segment, noise_multiplier_for
from inid.dpsgd.adaptive import Adaptive
from inid.dpsgd.make_private import make_private
from inid.dpsgd.noise.banded import Banded
from inid.dpsgd.noise.training_plan import TrainingPlan, plan_training
from inid.dpsgd.optimizer import PrivateOptimizer
from inid.dpsgd.parameter_average import ParameterAverage
from inid.dpsgd.per_example_loss import per_example_loss
from inid.dpsgd.poisson_loader import PoissonLoader
from inid.dpsgd.private_training import PrivateTraining
from inid.dpsgd.recording import CapturedBackward, captured_backward
from inid.dpsgd.validation import fix, validate

__all__ = [
    "Accountant",
    "Adaptive",
    "Banded",
    "CapturedBackward",
    "ParameterAverage",
    "PoissonLoader",
    "PrivateOptimizer",
    "PrivateTraining",
    "Segment",
    "TrainingPlan",
    "captured_backward",
    "fix",
    "make_private",
    "noise_multiplier_for",
    "per_example_loss",
    "plan_training",
    "validate",
]
