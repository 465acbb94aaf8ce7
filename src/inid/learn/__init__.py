"""scikit-learn estimators under differential privacy.

Two ways to learn. `moments` releases second moments once and solves exactly on the result (`PrivateMoments`, the linear
models, `PrivatePCA`); `coordinate_descent` releases one noisy gradient coordinate at a time
(`PrivateLogisticRegression`, `PrivateLasso(solver="coordinate_descent")`). Start reading in `moments`, then
`public_units` and `fixed_point` (why no rounding error and no malformed record can exceed the stated sensitivity).

Neighbours are those of the ledger or of the table, else "zero_out": one person's row becomes nothing, which adds 0 to
every sum, and the number of rows is public. Under "add_remove" the number is secret, and released too. Bounds are
required and never read from the data.

>>> import inid, numpy as np
>>> from inid import learn
>>> X = np.linspace(0, 1, 2000).reshape(1000, 2)
>>> model = learn.PrivateRidge(1.0, budget=inid.ApproxDP(1.0, 1e-6), bounds=(0, 1), bounds_y=(0, 2))
>>> model.fit(X, X.sum(axis=1)).coef_.shape
(2,)
"""

from inid.errors import MissingExtraError

try:
    import sklearn as _sklearn  # noqa: F401 - its absence has one message, here
except ImportError:
    raise MissingExtraError("inid.learn needs scikit-learn: pip install 'inid[learn]'.") from None

from inid.learn.base import RepeatedSpendingWarning
from inid.learn.bounds import bounds_of
from inid.learn.encoded_bounds import EncodedBounds
from inid.learn.encoders import PublicCategories
from inid.learn.glm import PrivateGammaRegressor, PrivatePoissonRegressor
from inid.learn.k_means import PrivateKMeans
from inid.learn.lasso import PrivateElasticNet, PrivateLasso
from inid.learn.linear import PrivateLinearRegression, PrivateRidge
from inid.learn.logistic import PrivateLogisticRegression
from inid.learn.lost_in_noise import NoisyFitWarning
from inid.learn.moments import PrivateMoments
from inid.learn.naive_bayes import PrivateGaussianNB
from inid.learn.not_private_steps import NotPrivateStepWarning, row_wise
from inid.learn.on_synthetic_rows import OnSyntheticRows
from inid.learn.pca import PrivatePCA, subspace_recovery_error
from inid.learn.pipelines import make_private_pipeline
from inid.learn.quantiles import PrivateImputer, PrivateQuantileTransformer
from inid.learn.scaling import BoundsScaler, PrivateStandardScaler
from inid.learn.search import PrivateSearchCV
from inid.learn.smoothness import NotPrivateWarning, estimate_smoothness

__all__ = [
    "BoundsScaler",
    "EncodedBounds",
    "NoisyFitWarning",
    "NotPrivateStepWarning",
    "NotPrivateWarning",
    "OnSyntheticRows",
    "PrivateElasticNet",
    "PrivateGammaRegressor",
    "PrivateGaussianNB",
    "PrivateImputer",
    "PrivateKMeans",
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
    "bounds_of",
    "estimate_smoothness",
    "make_private_pipeline",
    "row_wise",
    "subspace_recovery_error",
]
