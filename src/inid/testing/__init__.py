"""For tests and audits: seeded sources, exact laws and tests of fit, record and replay, a lower bound on epsilon.

Nothing that is shipped for releases imports this package. What is released inside `unsafe_seed` or `unsafe_no_noise`
protects nobody, and says so.
"""

from inid.testing.auditing import Audit, TrainingAudit, audit_epsilon, audit_training
from inid.testing.laws import chi_square, fit_to_law, grid_pmf, interval_mass, staircase_error, staircase_gamma
from inid.testing.neighbours import neighbours_of
from inid.testing.recording import (
    Comparison,
    Recording,
    SeededSource,
    Violation,
    record,
    replay,
    unsafe_no_noise,
    unsafe_seed,
)

__all__ = [
    "Audit",
    "Comparison",
    "Recording",
    "audit_epsilon",
    "audit_training",
    "chi_square",
    "fit_to_law",
    "grid_pmf",
    "interval_mass",
    "neighbours_of",
    "record",
    "replay",
    "staircase_error",
    "staircase_gamma",
    "unsafe_no_noise",
    "unsafe_seed",
]
