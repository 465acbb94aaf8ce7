"""Gaussian and Laplace noise: what each is (`mechanism`), and what a promise affords it (`gaussian`, `laplace`)."""

from inid.mechanisms.gaussian import epsilon_of, meets, mu_of, profile, profile_bounds
from inid.mechanisms.laplace import laplace_mu_squared, norm_in_gaussian
from inid.mechanisms.mechanism import (
    GAUSSIAN,
    LAPLACE,
    Exponent,
    Mechanism,
    MechanismChoice,
    MechanismName,
    NoiseChoice,
    NoiseName,
    log2_least_error,
    optimal_shape,
)

__all__ = [
    "GAUSSIAN",
    "LAPLACE",
    "Exponent",
    "Mechanism",
    "MechanismChoice",
    "MechanismName",
    "NoiseChoice",
    "NoiseName",
    "log2_least_error",
    "optimal_shape",
]
