"""scikit-learn estimators under differential privacy.

There are two algorithms. `moments` releases second moments once and solves models exactly on them; `descent` releases
one noisy gradient coordinate at a time. Neighbours are those of the ledger or of the table, else "zero_out": one
person's row becomes nothing, and the number of rows is public. Bounds are required and never read from the data.

>>> import inid, numpy as np
>>> from inid import learn
>>> X = np.linspace(0, 1, 2000).reshape(1000, 2)
>>> model = learn.PrivateRidge(1.0, budget=inid.ApproxDP(1.0, 1e-6), bounds=(0, 1), bounds_y=(0, 2))
>>> model.fit(X, X.sum(axis=1)).coef_.shape
(2,)
"""

from inid.errors import MissingExtraError

try:
    import sklearn as _sklearn
except ImportError:
    raise MissingExtraError("inid.learn needs scikit-learn: run pip install '.[learn]' in inid's checkout.") from None

from inid.learn.additive.additive_models import PrivateAdditiveClassifier, PrivateAdditiveRegressor
from inid.learn.additive.backfitting import Backfitting
from inid.learn.additive.backfitting_plan import BackfittingSteps
from inid.learn.additive.shapes import Shape, monotone, roughness, smoothed
from inid.learn.base import NoisyEstimator, RepeatedSpendingWarning
from inid.learn.bounds import EncodedBounds, bounds_of, codes, enforce_one_hot, read_bounds
from inid.learn.budget_splitting import split_budget
from inid.learn.cox import PrivateCox
from inid.learn.descent.clipped_gradients import FEATURE_BITS, Gradients, feature_grid, grid_thresholds, short
from inid.learn.descent.objective import LogisticLoss, Objective, SquaredLoss, StepTable, exponentials
from inid.learn.descent.preliminary_release import (
    CELLS,
    NotPrivateWarning,
    estimate_smoothness,
    posterior_mean,
    release_target_summary,
    signed_sum,
    truncation_limit,
)
from inid.learn.glm import PrivateGammaRegressor, PrivatePoissonRegressor
from inid.learn.inputs import read_labels, read_rows
from inid.learn.k_means import PrivateKMeans, cluster_sensitivity
from inid.learn.kaplan_meier import PrivateKaplanMeier, SurvivalCounts, SurvivalTimes, exact_totals, survival_question
from inid.learn.lasso import PrivateElasticNet, PrivateLasso
from inid.learn.linear import PrivateLinearRegression, PrivateRidge
from inid.learn.logistic import PrivateLogisticRegression
from inid.learn.moments.bootstrap import perturbed, shrinkage
from inid.learn.moments.normal_equations import Equations, Normal, least_squares
from inid.learn.moments.private_moments import (
    MomentSource,
    PrivateMoments,
    column_costs,
    narrowed,
    table_moments,
    typical_cost,
)
from inid.learn.moments.second_moments import (
    MomentLayout,
    Moments,
    block_sets,
    exact_moments,
    moment_sets,
    nearest_psd,
    plan_moments,
)
from inid.learn.naive_bayes import PrivateGaussianNB, class_sensitivity, share_weights, shrunk_moments
from inid.learn.not_private_steps import NotPrivateStepWarning, readers_of, row_wise
from inid.learn.on_synthetic_rows import OnSyntheticRows
from inid.learn.pca import PrivatePCA, subspace_recovery_error
from inid.learn.pipelines import make_private_pipeline
from inid.learn.preprocessing import (
    BoundsScaler,
    PrivateImputer,
    PrivateQuantileTransformer,
    PrivateStandardScaler,
    PublicCategories,
)
from inid.learn.public_units import Units, cover_answers, exact_columns, row_products, row_sums
from inid.learn.search import PrivateSearchCV
from inid.learn.significance import (
    NoisyFitWarning,
    class_p_value,
    coefficient_p_value,
    noise_diagnosis,
    noise_of_steps,
    shrinkage_factor,
)
from inid.learn.table_sums import TableRows

__all__ = [
    "BoundsScaler",
    "EncodedBounds",
    "NoisyFitWarning",
    "NotPrivateStepWarning",
    "NotPrivateWarning",
    "OnSyntheticRows",
    "PrivateAdditiveClassifier",
    "PrivateAdditiveRegressor",
    "PrivateCox",
    "PrivateElasticNet",
    "PrivateGammaRegressor",
    "PrivateGaussianNB",
    "PrivateImputer",
    "PrivateKMeans",
    "PrivateKaplanMeier",
    "PrivateLasso",
    "PrivateLinearRegression",
    "PrivateLogisticRegression",
    "PrivateMoments",
    "PrivatePCA",
    "PrivatePoissonRegressor",
    "PrivateQuantileTransformer",
    "PrivateRidge",
    "PrivateSearchCV",
    "PrivateStandardScaler",
    "PublicCategories",
    "RepeatedSpendingWarning",
    "Shape",
    "bounds_of",
    "estimate_smoothness",
    "make_private_pipeline",
    "row_wise",
    "subspace_recovery_error",
]
