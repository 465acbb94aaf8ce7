"""For tests and audits: sources that are not secret, exact laws, tests of fit, a lower bound on epsilon, the staircase.

Nothing that is shipped for releases imports this package. What is released inside `unsafe_seed` or `unsafe_no_noise`
protects nobody, and says so.
"""

from inid.testing.auditing import Audit, audit_epsilon
from inid.testing.laws import chi_square, fit_to_law, grid_pmf, interval_mass, staircase_error, staircase_gamma
from inid.testing.sources import SeededSource, unsafe_no_noise, unsafe_seed

__all__ = [
    "Audit",
    "audit_epsilon",
    "chi_square",
    "fit_to_law",
    "grid_pmf",
    "interval_mass",
    "staircase_error",
    "staircase_gamma",
    "unsafe_no_noise",
    "unsafe_seed",
]
