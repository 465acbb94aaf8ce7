"""Table III: principal components of rows of unit norm, by noise on the matrix of second moments.

Three readings of "i.n.i.d." are run. As described: the entries of each x x^T are clipped to 1/sqrt(K) on the diagonal
and 1/sqrt(2K) off it, and a box of these sensitivities is planned. Without the clipping: the same noise on the exact
matrix, which is *not private* (a row along an axis moves the diagonal by 1). And E8, ours: the ellipsoid that contains
every x x^T, without clipping.
"""

from collections.abc import Callable

import numpy as np

import inid
from experiments.claims import DIFFERENTLY, HOLDS, NOT, UNATTAINABLE, Claim, Estimate, Outcome, Table
from experiments.plotting import COLOURS, drawing
from experiments.study import Study
from inid import learn

__all__ = ["run"]

_EPSILONS = (1.0, 2.0, 5.0)
_PRINTED = {
    "Gaussian i.i.d.": (0.4762, 0.2484, 0.1067),
    "Gaussian i.n.i.d.": (0.3269, 0.1728, 0.0752),
    "Laplace i.i.d.": (0.6185, 0.3272, 0.1389),
    "Laplace i.n.i.d.": (0.5034, 0.2523, 0.1093),
}
_METHODS = (
    "Gaussian i.i.d.",
    "Gaussian i.n.i.d., E8",
    "Gaussian i.n.i.d., entries clipped, as described",
    "Gaussian i.n.i.d., not clipped, not private",
    "Laplace i.i.d.",
    "Laplace i.n.i.d., E8",
    "Laplace i.n.i.d., entries clipped, as described",
    "Laplace i.n.i.d., entries clipped to l1 norm 1",
)


def rows_in_a_subspace(rng: np.random.Generator, width: int, rows: int, rank: int) -> tuple[np.ndarray, np.ndarray]:
    """The fully random model: unit rows, uniform in a random subspace."""
    basis = np.linalg.qr(rng.normal(size=(width, rank)))[0]
    data = rng.normal(size=(rows, rank)) @ basis.T
    return data / np.linalg.norm(data, axis=1, keepdims=True), basis


class _Triangle:
    """The upper triangle of symmetric matrices: the paper's sensitivities, and releases under them."""

    def __init__(self, width: int, power: float) -> None:
        """`power` 1/2 gives the printed 1/sqrt(K) and 1/sqrt(2K), 1 their l1 counterpart 1/K and 1/2K."""
        self.width, (self.i, self.j) = width, np.triu_indices(width)
        size = len(self.i)
        self.on, self.off = size**-power, (2 * size) ** -power
        self.reach = np.where(self.i == self.j, self.on, self.off)

    def exact(self, data: np.ndarray) -> np.ndarray:
        """The sum of all x x^T."""
        return (data.T @ data)[self.i, self.j]

    def clipped(self, data: np.ndarray) -> np.ndarray:
        """The sum of their clipped entries."""
        total = np.zeros((self.width, self.width))
        for start in range(0, len(data), 20):
            part = data[start : start + 20]
            products = part[:, :, None] * part[:, None, :]
            total += np.clip(products, -self.off, self.off, out=products).sum(axis=0)
        np.fill_diagonal(total, np.minimum(data**2, self.on).sum(axis=0))
        return total[self.i, self.j]

    def components(self, answer: np.ndarray, plan: inid.NoisePlan, rank: int) -> np.ndarray:
        """The leading eigenvectors of the answer with noise."""
        matrix = np.zeros((self.width, self.width))
        matrix[self.i, self.j] = inid.release(answer, plan).values
        matrix = np.triu(matrix) + np.triu(matrix, 1).T
        return np.linalg.eigh(matrix)[1][:, -rank:]


def _methods(width: int, rank: int, epsilon: float, delta: float) -> Callable[[np.ndarray], dict[str, np.ndarray]]:
    """What each method makes of the data: a basis."""
    budgets = {"gaussian": inid.ApproxDP(epsilon=epsilon, delta=delta), "laplace": inid.PureDP(epsilon=epsilon)}
    half, whole = _Triangle(width, 0.5), _Triangle(width, 1.0)
    plans = {m: inid.plan(inid.Sensitivity.box(half.reach), b, mechanism=m) for m, b in budgets.items()}
    tight = inid.plan(inid.Sensitivity.box(whole.reach), budgets["laplace"], mechanism="laplace")

    def by_rows(data: np.ndarray, mechanism: str, allocation: str) -> np.ndarray:
        model = learn.PrivatePCA(
            rank, budget=budgets[mechanism], row_norm=1.0, mechanism=mechanism, allocation=allocation, center=False
        )
        return model.fit(data).components_.T

    def all_of_them(data: np.ndarray) -> dict[str, np.ndarray]:
        clipped = half.clipped(data)
        bases = (
            by_rows(data, "gaussian", "iid"),
            by_rows(data, "gaussian", "optimal"),
            half.components(clipped, plans["gaussian"], rank),
            half.components(half.exact(data), plans["gaussian"], rank),
            by_rows(data, "laplace", "iid"),
            by_rows(data, "laplace", "optimal"),
            half.components(clipped, plans["laplace"], rank),
            whole.components(whole.clipped(data), tight, rank),
        )
        return dict(zip(_METHODS, bases, strict=True))

    return all_of_them


def run(study: Study) -> Outcome:
    """The subspace recovery error of all methods on the same data, trial by trial."""
    out = Outcome("Table III: DP principal component analysis")
    width, rows, rank, trials = study.pick((100, 1000, 10, 1000), (30, 1000, 3, 12))
    delta = 1e-6
    errors = {}
    with study.progress("trials", len(_EPSILONS) * trials):
        for epsilon in _EPSILONS:
            methods = _methods(width, rank, epsilon, delta)

            def trial(seed: int, methods: Callable[[np.ndarray], dict[str, np.ndarray]] = methods) -> list[float]:
                data, basis = rows_in_a_subspace(np.random.default_rng(seed), width, rows, rank)
                return [learn.subspace_recovery_error(found, basis) for found in methods(data).values()]

            block = min(trials, 50)
            parts = [
                study.sample(block, trial, epsilon=epsilon, M=width, N=rows, r=rank, methods=list(_METHODS), block=b)
                for b in range(trials // block)
            ]
            errors[epsilon] = dict(zip(_METHODS, np.concatenate(parts).T, strict=True))
    found = {(name, e): Estimate.of(values) for e, by in errors.items() for name, values in by.items()}
    study.table(
        "table3", ["method", "epsilon", "sre", "standard_error", "trials"],
        [[name, e, found[name, e].mean, found[name, e].error, trials] for name in _METHODS for e in _EPSILONS],
    )  # fmt: skip
    out.tables.append(
        Table(
            f"Subspace recovery error, {trials} trials, M = {width}, N = {rows}, rank {rank}",
            ["", *(f"epsilon = {e:g}" for e in _EPSILONS)],
            [[f"{name} (printed)", *(f"{x:.4f}" for x in line)] for name, line in _PRINTED.items()]
            + [[name, *(str(found[name, e]) for e in _EPSILONS)] for name in _METHODS],
        )
    )
    _judge_gaussian(out, errors, found, width)
    _judge_laplace(out, found, width, rank)
    full = inid.plan(inid.Sensitivity.box(_Triangle(100, 0.5).reach), inid.GaussianDP(mu=1.0), mechanism="gaussian")
    out.values["M = 100: what the noise as described spends without clipping, in mu_0"] = float(1 / full.scales[0])
    caption = (
        f"Subspace recovery error, M = {width}, N = {rows}, rank {rank}, {trials} trials, delta = 1e-6 (Gaussian) "
        "and 0 (Laplace), one row "
        "added or removed. Crosses: printed. Standard errors are smaller than the marks."
    )
    with drawing(study, "table3", caption, panels=2) as (axes, figure):
        for ax, kind in zip(axes, ("Gaussian", "Laplace"), strict=True):
            for number, name in enumerate(n for n in _METHODS if n.startswith(kind)):
                line = [found[name, e].mean for e in _EPSILONS]
                label = name.removeprefix(f"{kind} ")
                ax.plot(_EPSILONS, line, color=COLOURS[number], marker="osD^"[number], label=label)
            for number, (name, line) in enumerate((n, x) for n, x in _PRINTED.items() if n.startswith(kind)):
                ax.plot(
                    _EPSILONS,
                    line,
                    "x",
                    color=COLOURS[number],
                    markersize=7,
                    label=f"{name.removeprefix(kind + ' ')}, printed",
                )
            ax.set(title=f"{kind} noise", xlabel="epsilon", ylabel="SRE", yscale="log")
            ax.set_ylim(bottom=ax.get_ylim()[0] / 6)
            ax.legend(fontsize=7, loc="lower left")
    out.figures.append(figure)
    out.choices += [
        (
            "The text prints N twice; M = 100 and N = 1000 are taken. The data model: basis uniform, rows Gaussian "
            "in it, scaled to norm 1."
        ),
        (
            "Neighbours: one row added or removed, as the text says for PCA. i.i.d. noise is calibrated to l2 norm 1 "
            "(Gaussian) and to the l1 norm "
            "(M + 1)/2 of the upper triangle (Laplace); the text does not say which l1 norm it used."
        ),
        "Noise for Gaussian rows is calibrated exactly (mu_0), not by the classical formula.",
    ]
    return out


def _judge_gaussian(
    out: Outcome, errors: dict[float, dict[str, np.ndarray]], found: dict[tuple[str, float], Estimate], width: int
) -> None:
    same, ours, described, bare = _METHODS[:4]
    ratios = {e: Estimate.of(by[ours] / by[same]) for e, by in errors.items()}
    printed = [b / a for a, b in zip(_PRINTED["Gaussian i.i.d."], _PRINTED["Gaussian i.n.i.d."], strict=True)]
    iid_levels = [found[same, e].mean / p for e, p in zip(_EPSILONS, _PRINTED["Gaussian i.i.d."], strict=True)]
    smaller = all(found[described, e].below(found[same, e]) for e in _EPSILONS)
    gain = all(abs(r.mean - p) < 0.03 for r, p in zip(ratios.values(), printed, strict=True))
    # What the noise without clipping really spends: a row along an axis moves the first entry of the diagonal by 1.
    box = inid.plan(inid.Sensitivity.box(_Triangle(width, 0.5).reach), inid.GaussianDP(mu=1.0), mechanism="gaussian")
    spent = float(1 / box.scales[0])
    out.claims += [
        Claim(
            "Gaussian i.i.d. noise, SRE at epsilon = 1, 2, 5",
            ", ".join(f"{x:.4f}" for x in _PRINTED["Gaussian i.i.d."]),
            ", ".join(str(found[same, e]) for e in _EPSILONS),
            HOLDS
            if all(found[same, e].agrees(p, 4) for e, p in zip(_EPSILONS, _PRINTED["Gaussian i.i.d."], strict=True))
            else DIFFERENTLY
            if all(0.8 < level < 1.25 for level in iid_levels)
            else NOT,
            f"ours is {min(iid_levels):.2f} to {max(iid_levels):.2f} of the printed error at the same promise; the "
            "text does not say how its i.i.d. noise was calibrated or how rows were drawn, and the cause is not known",
        ),
        Claim(
            "Gaussian i.n.i.d. noise as described (entries clipped) has the smaller SRE",
            ", ".join(f"{x:.4f}" for x in _PRINTED["Gaussian i.n.i.d."]),
            ", ".join(str(found[described, e]) for e in _EPSILONS),
            HOLDS if smaller else NOT,
            "clipping entries to 1/sqrt(K) destroys more than the smaller noise saves",
        ),
        Claim(
            "The gain of i.n.i.d. over i.i.d. noise: ratio of SRE",
            ", ".join(f"{x:.3f}" for x in printed),
            ", ".join(str(r) for r in ratios.values()) + " (E8)",
            DIFFERENTLY if gain else NOT,
            "by the ellipsoid of E8, without clipping. The paper's noise on the unclipped matrix has the same "
            f"SRE ({found[bare, 1.0]} at epsilon = 1) "
            f"but is not private: a row along an axis spends {spent:.3f} mu_0",
        ),
    ]
    out.beyond.append(
        f"E8 reaches {', '.join(str(found[ours, e]) for e in _EPSILONS)}: the gain over our own i.i.d. noise is that "
        "of the ratios above, with a proof of privacy."
    )


def _judge_laplace(out: Outcome, found: dict[tuple[str, float], Estimate], width: int, rank: int) -> None:
    rng = np.random.default_rng(3)
    data, _ = rows_in_a_subspace(rng, width, 2000, rank)
    typical = float(((np.abs(data).sum(axis=1) ** 2 + 1) / 2).mean())  # the l1 norm of the upper triangle of x x^T
    for kind, name in (("Laplace i.i.d.", _METHODS[4]), ("Laplace i.n.i.d.", _METHODS[5])):
        others = [found[m, e].mean for m in _METHODS[4:] for e in _EPSILONS[:1]]
        reached = min(others) <= _PRINTED[kind][0]
        out.claims.append(
            Claim(
                f"{kind} noise under pure DP, SRE at epsilon = 1, 2, 5",
                ", ".join(f"{x:.4f}" for x in _PRINTED[kind]),
                ", ".join(str(found[name, e]) for e in _EPSILONS),
                DIFFERENTLY if reached else UNATTAINABLE,
                f"the upper triangle of x x^T has l1 norm up to (M + 1)/2 = {(width + 1) / 2:g}, and "
                f"{typical:.0f} for a typical row of this very data; "
                f"of four valid readings the best has SRE {min(others):.2f} at epsilon = 1",
            )
        )
