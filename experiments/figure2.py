"""Figure 2: Gini coefficients of the five profiles."""

import numpy as np

import inid
from experiments.claims import HOLDS, NOT, Claim, Outcome
from experiments.plotting import drawing, line_styles, whole_number_axis
from experiments.profiles import NAMES, profile
from experiments.study import Study

__all__ = ["run"]


def _gini(name: str, dimension: int) -> float:
    return inid.gini(inid.Sensitivity.box(profile(name, dimension, 2)))


def run(study: Study) -> Outcome:
    """Recompute the curves and the order at K = 2."""
    out = Outcome("Figure 2: Gini coefficients")
    sizes = list(range(1, study.pick(51, 12)))
    curves = {name: [_gini(name, k) for k in sizes] for name in NAMES}
    study.table("figure2", ["K", *NAMES], [[k, *(curves[name][i] for name in NAMES)] for i, k in enumerate(sizes)])
    double_sum = {}
    for name in NAMES:
        x = profile(name, 20, 2)
        double_sum[name] = float(np.abs(x[:, None] - x).sum() / (2 * len(x) * x.sum()))
        out.values[f"Gini {name}, K = 20"] = _gini(name, 20)
    agree = all(abs(double_sum[name] - _gini(name, 20)) < 1e-12 for name in NAMES)
    two = _gini("quadratic", 2) > _gini("exponential", 2)
    later = all(_gini("exponential", k) > _gini("quadratic", k) for k in range(3, 51))
    out.values |= {"Gini quadratic, K = 2": _gini("quadratic", 2), "Gini exponential, K = 2": _gini("exponential", 2)}
    out.claims += [
        Claim(
            "The quadratic profile is more spread out than the exponential one at K = 2, less from K = 3 on",
            "Figure 2",
            f"K = 2: {_gini('quadratic', 2):.4f} against {_gini('exponential', 2):.4f}",
            HOLDS if two and later else NOT,
            "K = 3 to 50 checked one by one",
        ),
        Claim(
            "The Gini coefficient as the printed double sum",
            "formula of Section V",
            f"uniform {_gini('uniform', 20):.4f}, one-hot {_gini('one-hot', 20):.4f} = (K - 1)/K at K = 20",
            HOLDS if agree else NOT,
            "the double sum, written out, against inid.gini for all five profiles",
        ),
    ]
    with drawing(study, "figure2", "Gini coefficient of sensitivity profiles of l2 norm 1.") as (ax, figure):
        for number, name in enumerate(NAMES):
            ax.plot(
                sizes,
                curves[name],
                label=name,
                markevery=[k - 1 for k in sizes if k in (1, 2, 3, 5, 10, 20, 50)],
                **line_styles(number),
            )
        ax.set(ylabel="Gini coefficient", ylim=(-0.02, 1.02))
        whole_number_axis(ax)
        ax.legend(ncols=2)
    out.figures.append(figure)
    return out
