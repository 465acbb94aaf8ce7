"""Private training of PyTorch models: clipping by groups, noise allocated optimally among them.

Start with `make_private`, then `optimizer`: a step. `grad_sample.layers` has the formula of every layer.
"""

from inid.errors import MissingExtraError

try:
    import torch as _torch
except ImportError as _error:
    raise MissingExtraError("inid.dpsgd needs PyTorch: run pip install '.[torch]' in inid's checkout.") from _error

from inid.accounting.training_runs import Segment, TrainingRecord
from inid.dpsgd.accountant import Accountant, ChargedRun, noise_multiplier_for
from inid.dpsgd.adam import AdamBC
from inid.dpsgd.cuda_graph import CapturedBackward, captured_backward
from inid.dpsgd.grad_sample.grad_samples import GradSampler
from inid.dpsgd.grad_sample.layers import grad_sampler_of, register_layer
from inid.dpsgd.independence.validation import fix, validate
from inid.dpsgd.loss import per_example_loss
from inid.dpsgd.make_private import make_private, retain_malloc
from inid.dpsgd.noise.banded import Banded
from inid.dpsgd.noise.training_plan import Correlation, TrainingPlan, plan_training
from inid.dpsgd.optimizer import PrivateOptimizer
from inid.dpsgd.options import Clipping, Noise, Sampling
from inid.dpsgd.private_training import ParameterAverage, PrivateTraining
from inid.dpsgd.sampling.poisson_loader import PoissonLoader
from inid.dpsgd.step_state import PHASES, ForwardPass
from inid.dpsgd.thresholds import Adaptive

__all__ = [
    "Accountant",
    "AdamBC",
    "Adaptive",
    "Banded",
    "CapturedBackward",
    "Clipping",
    "Correlation",
    "GradSampler",
    "Noise",
    "ParameterAverage",
    "PoissonLoader",
    "PrivateOptimizer",
    "PrivateTraining",
    "Sampling",
    "Segment",
    "TrainingPlan",
    "TrainingRecord",
    "captured_backward",
    "fix",
    "make_private",
    "noise_multiplier_for",
    "per_example_loss",
    "plan_training",
    "register_layer",
    "validate",
]
