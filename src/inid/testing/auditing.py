"""A lower bound on epsilon from samples: what an attacker could prove, with a stated confidence.

**From one training run**: canaries that are in or out by the toss of a coin.

Each canary is put into the data or left out by a fair coin. After the run a score says how much the noisy gradients
look as if it was in. The `guesses` with the most extreme scores, half of each kind, are guessed; how many are right
bounds epsilon from below (Steinke, Nasr and Jagielski 2023). Two statements turn right guesses into a bound. With g
guesses of m canaries, v right:

    Under (epsilon, delta)-DP the chance of v or more right ones is at most B (1 + m delta (1 - B) / (v b)), with
    B = P(W >= v) and b = P(W = v), W binomial of g draws with chance q = 1 / (1 + exp(-epsilon)); see
    `chance_of_guesses`. No mechanism with a larger chance exists, and one with this chance does where it is below 1.
    (Theorem 5.2 of that paper, B + 2 m delta max_i P(v > W >= v - i) / i, is not valid for every v: at m = g = 2,
    v = 1, epsilon = 1, delta = 0.1 it says 0.957, and some mechanism reaches 0.962.)

    Under f-DP a recursion over the number of right ones bounds that chance (Mahloujifar, Melis and Chaudhuri 2024,
    arXiv 2410.22235); here f is the curve of Gaussian noise. It is tighter where the run is really Gaussian, and a
    bound on mu in any case.

The number of guesses is fixed before the run: a choice by what came out would need a correction. The bounds hold with
the stated confidence over coins and noise, for any score.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special, stats

from inid import arguments
from inid.errors import ArgumentError, MissingExtraError
from inid.mechanisms import gaussian

if TYPE_CHECKING:
    from torch import Tensor, nn

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Audit:
    """The outcome of an audit.

    Attributes:
        epsilon: With probability `confidence` at least, the mechanism is not (e, delta)-private for any smaller e.
        delta: The delta that was granted.
        confidence: Probability, over the samples, that the bound holds.
        threshold: The attacker guesses one input where the statistic is beyond this number.
        above: Whether beyond means above.
        swapped: Whether the input guessed is the second one.
    """

    epsilon: float
    delta: float
    confidence: float
    threshold: float
    above: bool
    swapped: bool


def audit_epsilon(first: ArrayLike, second: ArrayLike, *, delta: float = 0.0, confidence: float = 0.999) -> Audit:
    """Bound epsilon from below, from a statistic of the output sampled under two neighbouring inputs.

    If a mechanism is (epsilon, delta)-private, then P1(E) <= exp(epsilon) P2(E) + delta for every event E. The events
    tried are {statistic > t} and {statistic < t}, either input in the role of P1. One half of the samples picks the
    event; the other half, which played no part in the choice, bounds P1 from below and P2 from above by Clopper and
    Pearson, each with probability (1 + confidence) / 2. The log-likelihood ratio of the two inputs is the best
    statistic.

    Args:
        first: The statistic under one input, one number per independent run.
        second: The statistic under the other input.
        delta: The delta to grant.
        confidence: Probability with which the bound is to hold.

    >>> rng = np.random.default_rng(0)
    >>> found = audit_epsilon(rng.laplace(1.0, 1.0, 20_000), rng.laplace(0.0, 1.0, 20_000))
    >>> 0.8 < found.epsilon <= 1.0
    True
    """
    granted = arguments.real("delta", delta, least=0.0, cure="pass the delta of the promise")
    sure = arguments.real("confidence", confidence, above=0.0, cure="pass a probability below 1, such as 0.999")
    if not sure < 1.0:
        raise ArgumentError(f"confidence must be below 1, got {arguments.shown(confidence)}: pass 0.999, for example.")
    one, two = _halves("first", first), _halves("second", second)
    choices = []
    for above in (True, False):
        for swapped in (False, True):
            guess, other = (two, one) if swapped else (one, two)
            lower, at = _best_threshold(guess[0], other[0], granted, sure, above)
            choices.append((lower, at, above, swapped))
    _, threshold, above, swapped = max(choices)
    guess, other = (two, one) if swapped else (one, two)
    bound = _bound(
        _beyond(guess[1], np.array([threshold]), above),
        guess[1].size,
        _beyond(other[1], np.array([threshold]), above),
        other[1].size,
        granted,
        sure,
    )
    return Audit(max(float(bound[0]), 0.0), granted, sure, threshold, above, swapped)


def _halves(name: str, samples: ArrayLike) -> tuple[Floats, Floats]:
    numbers = np.asarray(samples, np.float64)
    if numbers.ndim != 1 or numbers.size < 4 or bool(np.isnan(numbers).any()):
        raise ArgumentError(f"{name} must be a flat array of at least 4 numbers: pass one statistic for each run.")
    return np.sort(numbers[0::2]), np.sort(numbers[1::2])


def _beyond(ordered: Floats, thresholds: Floats, above: bool) -> Floats:
    """How many of the sorted samples lie beyond each threshold."""
    if above:
        return np.asarray(ordered.size - np.searchsorted(ordered, thresholds, side="right"), np.float64)
    return np.asarray(np.searchsorted(ordered, thresholds, side="left"), np.float64)


def _best_threshold(guess: Floats, other: Floats, delta: float, confidence: float, above: bool) -> tuple[float, float]:
    pooled = np.concatenate([guess, other])
    candidates = np.unique(np.quantile(pooled, np.linspace(0.001, 0.999, 500)))
    bounds = _bound(
        _beyond(guess, candidates, above), guess.size, _beyond(other, candidates, above), other.size, delta, confidence
    )
    best = int(np.argmax(bounds))
    return float(bounds[best]), float(candidates[best])


def _bound(hits: Floats, size: int, false_alarms: Floats, other_size: int, delta: float, confidence: float) -> Floats:
    """log((lower bound of P1 - delta) / upper bound of P2), or minus infinity."""
    miss = (1.0 - confidence) / 2
    low = np.where(hits > 0, special.betaincinv(np.maximum(hits, 1), size - hits + 1, miss), 0.0)
    room = np.maximum(other_size - false_alarms, 1)
    high = np.where(false_alarms < other_size, special.betaincinv(false_alarms + 1, room, 1.0 - miss), 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(low > delta, np.log((low - delta) / high), -np.inf), np.float64)


_STEEP = 1e3  # the length of a canary's gradient before clipping
_MOST_EPSILON = 50.0
_SHARE = 0.08  # of the canaries that are guessed; the best share at epsilon 3 to 8, by simulation


@dataclass(frozen=True)
class TrainingAudit:
    """What a run gave away of its canaries.

    Attributes:
        epsilon: With probability `confidence` at least, the run is not (e, delta)-private for any e below this.
        epsilon_if_gaussian: The same by the second statement, for a run whose trade-off curve is of Gaussian noise.
        mu: The bound on mu from which it follows.
        claimed: The epsilon that the accountant states at this delta.
        canaries: How many there were.
        guesses: How many were guessed; fixed before the run.
        right: How many guesses were right.
        delta: The delta that was granted.
        confidence: The probability, over coins and noise, with which each bound holds.
        kind: "gradient" or "example".
    """

    epsilon: float
    epsilon_if_gaussian: float
    mu: float
    claimed: float
    canaries: int
    guesses: int
    right: int
    delta: float
    confidence: float
    kind: Literal["gradient", "example"]

    @property
    def exposed(self) -> bool:
        """Whether the run gave away more than it claims: then something is broken."""
        return self.epsilon > self.claimed

    def __str__(self) -> str:
        verdict = "The run gave away more than it claims: it is broken." if self.exposed else ""
        return (
            f"{self.right} of {self.guesses} guesses about {self.canaries} canaries ({self.kind}) are right.\n"
            f"With confidence {self.confidence:g} epsilon is at least {self.epsilon:.3g} at delta {self.delta:g} "
            f"({self.epsilon_if_gaussian:.3g} if the noise is Gaussian); claimed are {self.claimed:.3g}.\n{verdict}"
        ).rstrip()


def chance_of_guesses(right: int, guesses: int, canaries: int, epsilon: float, delta: float) -> float:
    """The most probable that so many right guesses, or more, are under (epsilon, delta)-DP.

    *Why.* Permuting the canaries and exchanging the sides of a coin keep the promise, and so does the average over
    both: the best guesses have the chance u_j q^j (1 - q)^(g - j) for each vector of which j are right. Another coin
    makes a right guess wrong, so that sum_j j b_j (u_j - u_(j-1))_+ <= m delta, b_j = P(W = j). One step of u by s at
    j costs j b_j s and adds s B_max(j,v) (1 - B_min(j,v)) to the chance B_v of a constant u. That is most per cost at
    j = v: B_j / (j b_j) falls with j, and (1 - B_j) / (j b_j) rises.

    >>> round(chance_of_guesses(10, 10, 100, 0.0, 0.0) * 2**10, 6)
    1.0
    """
    chance = float(special.expit(epsilon))
    if not right:
        return 1.0
    beyond = float(stats.binom.sf(right - 1, guesses, chance))
    exactly = float(stats.binom.pmf(right, guesses, chance))
    if not delta or not beyond:
        return beyond
    more = canaries * delta * float(stats.binom.cdf(right - 1, guesses, chance)) / right
    return min(1.0, beyond + more * beyond / exactly) if exactly else 1.0


def least_epsilon(right: int, guesses: int, canaries: int, delta: float, confidence: float) -> float:
    """The largest epsilon that so many right guesses refute, at this confidence."""
    return _last(lambda epsilon: chance_of_guesses(right, guesses, canaries, epsilon, delta) <= 1 - confidence)


def least_mu(right: int, guesses: int, canaries: int, confidence: float) -> float:
    """The largest mu whose Gaussian trade-off curve so many right guesses refute, at this confidence."""
    return _last(lambda mu: _refuted(right, guesses, canaries, mu, 1 - confidence))


def _refuted(right: int, guesses: int, canaries: int, mu: float, chance: float) -> bool:
    """Whether `right` or more right guesses have a smaller chance than `chance` under mu-GDP.

    Parts of all canaries: r_i, of guesses among runs with at least i right ones that are right, and h_i, that are
    wrong. The curve bounds h from below by r, each step down the number of right ones adds to both, and together they
    cannot exceed the part of canaries that is guessed.
    """
    r, h = chance * right / canaries, chance * (guesses - right) / canaries
    for i in range(right - 1, -1, -1):
        more = max(h, float(special.ndtr(special.ndtri(min(r, 1.0)) - mu)))
        if more == h:
            break
        r, h = r + i / (guesses - i) * (more - h), more
    return r + h > guesses / canaries


def _last(holds: Callable[[float], bool]) -> float:
    """The last number from 0 on at which something holds that holds up to some number; 0 if it does nowhere."""
    if not holds(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while high < _MOST_EPSILON and holds(high):
        low, high = high, 2 * high
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def audit_training(
    make: Callable[..., Any],
    module: "nn.Module",
    data: "tuple[Tensor, Tensor]",
    loss: "Callable[[Tensor, Tensor], Tensor]",
    *,
    epochs: int,
    batch_size: int,
    delta: float,
    canaries: int = 5000,
    guesses: int | None = None,
    kind: Literal["gradient", "example"] = "gradient",
    confidence: float = 0.95,
    lr: float = 0.01,
    seed: int = 0,
) -> TrainingAudit:
    """Train once with canaries, and bound epsilon from below by how well noisy gradients, or the model, reveal them.

    "gradient" canaries are extra examples whose gradient, after clipping, is one threshold in a direction of its own:
    the worst that an attacker who sees every step can do, so that the bound can come close to the claim. "example"
    canaries are the last examples of the data, scored by their loss in the trained model: what somebody who sees only
    the model finds. Such bounds are usually far below the claim, which proves nothing in favour of the run.

    A canary that is out stays in the data as an example without a gradient, as neighbours under "zero_out" have it.

    Args:
        make: Makes a run private: called with module=, optimizer= and data_loader=, as `dpsgd.make_private` is. State
            the promise in it, and as many epochs as here.
        module: The model.
        data: Inputs and targets, one row for each example.
        loss: The loss of one row, of its output and its target.
        epochs: How many the run has.
        batch_size: The expected batch, of data and canaries together.
        delta: The delta to grant.
        canaries: How many. More prove more; they take part in batches like other examples.
        guesses: How many to guess, fixed beforehand; by default 8 % of the canaries.
        kind: "gradient" or "example".
        confidence: The probability with which the bounds hold.
        lr: The learning rate of the run, by plain SGD.
        seed: Decides the coins. Noise and batches stay secret.

    >>> import torch
    >>> from inid import dpsgd
    >>> make = lambda **parts: dpsgd.make_private(
    ...     **parts, noise_multiplier=0.7, steps=1, clipping="global", max_grad_norm=1.0)
    >>> data = torch.randn(200, 3), torch.randn(200, 1)
    >>> found = audit_training(make, torch.nn.Linear(3, 1), data, torch.nn.functional.mse_loss,
    ...     epochs=1, batch_size=400, delta=1e-5, canaries=200, guesses=40)
    >>> found.guesses, found.epsilon <= found.claimed
    (40, True)
    """
    try:
        import torch
        from torch.utils.data import DataLoader, TensorDataset
    except ImportError:
        raise MissingExtraError("inid.testing.audit_training", "torch") from None
    cure = "pass a whole number"
    number = arguments.integer("canaries", canaries, least=2, cure=cure)
    tries = arguments.integer("guesses", guesses or max(2, round(_SHARE * number)), least=2, cure=cure)
    if tries > number:
        raise ArgumentError(f"guesses must be at most canaries, {number}, got {tries}: guess fewer.")
    arguments.choice("kind", kind, ("gradient", "example"))
    granted = arguments.real("delta", delta, least=0.0, cure="pass the delta of the promise")
    sure = arguments.real("confidence", confidence, above=0.0, cure="pass a probability below 1, such as 0.95")
    if not sure < 1:
        raise ArgumentError(f"confidence must be below 1, got {arguments.shown(confidence)}: pass 0.95, for example.")
    inputs, targets = data
    if kind == "example" and not number < len(inputs):
        raise ArgumentError(f"data must have more than {number} examples, got {len(inputs)}: pass fewer canaries.")
    inside = np.random.default_rng(seed).integers(0, 2, number).astype(bool)
    dataset, model, row_loss = (_with_gradients if kind == "gradient" else _with_examples)(
        module, inputs, targets, loss, inside
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    loader = DataLoader(TensorDataset(*dataset), batch_size=batch_size)
    private = make(module=model, optimizer=optimizer, data_loader=loader)
    for _ in range(arguments.integer("epochs", epochs, least=1, cure=cure)):
        for *features, target, weight in private.data_loader:
            private.optimizer.zero_grad()
            private.backward(row_loss, private.module(*features), target, weight)
            private.optimizer.step()
    if kind == "gradient":
        scores = model.canary.weight.detach()[:number, 0].double().cpu().numpy()
    else:
        with torch.no_grad():
            model.eval()
            each = [loss(model(x[None]), t[None]) for x, t in zip(inputs[-number:], targets[-number:], strict=True)]
        scores = -torch.stack(each).reshape(-1).double().cpu().numpy()
    right = _right(scores, inside, tries)
    mu = least_mu(right, tries, number, sure)
    return TrainingAudit(
        epsilon=least_epsilon(right, tries, number, granted, sure),
        epsilon_if_gaussian=_epsilon_of(mu, granted),
        mu=mu,
        claimed=float(private.accountant.get_epsilon(delta=granted)),
        canaries=number,
        guesses=tries,
        right=right,
        delta=granted,
        confidence=sure,
        kind=kind,
    )


def _epsilon_of(mu: float, delta: float) -> float:
    from fractions import Fraction

    return float(gaussian.epsilon_of(Fraction(mu), delta)) if mu and delta else math.inf if mu else 0.0


def _right(scores: NDArray[np.float64], inside: NDArray[np.bool_], guesses: int) -> int:
    """How many guesses are right: the largest scores are said to be in, the smallest to be out."""
    order = np.argsort(scores, kind="stable")
    low = guesses // 2
    return int((~inside[order[:low]]).sum() + inside[order[len(order) - (guesses - low) :]].sum())


def _with_gradients(
    module: "nn.Module",
    inputs: "Tensor",
    targets: "Tensor",
    loss: "Callable[[Tensor, Tensor], Tensor]",
    inside: NDArray[np.bool_],
) -> tuple[Any, Any, Callable[..., Any]]:
    """Data with canaries at the end, a model with a weight for each of them, and the loss of a row."""
    import torch

    number, ordinary = len(inside), len(inputs)
    which = torch.full((ordinary + number, 1), number)
    which[ordinary:, 0] = torch.arange(number)
    weight = torch.full((ordinary + number,), -1.0)  # of canaries: 0 out, 1 in; ordinary examples have -1
    weight[ordinary:] = torch.from_numpy(inside).float()
    place = torch.arange(number) % ordinary
    doubled = [torch.cat([part, part[place]]) for part in (inputs, targets)]

    class WithCanaries(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.module, self.canary = module, torch.nn.Embedding(number + 1, 1)
            torch.nn.init.zeros_(self.canary.weight)

        def forward(self, x: Any, canary: Any) -> Any:
            output = self.module(x)
            return torch.cat([output.flatten(1), self.canary(canary).flatten(1)], dim=1)

    with torch.no_grad():
        shape = module(inputs[:1]).shape[1:]

    def row_loss(output: Any, target: Any, of_canary: Any) -> Any:
        usual = loss(output[..., :-1].reshape(*output.shape[:-1], *shape), target).reshape(())
        return torch.where(of_canary < 0, usual, -_STEEP * of_canary.clamp(min=0) * output[..., -1].reshape(()))

    return (doubled[0], which, doubled[1], weight), WithCanaries(), row_loss


def _with_examples(
    module: "nn.Module",
    inputs: "Tensor",
    targets: "Tensor",
    loss: "Callable[[Tensor, Tensor], Tensor]",
    inside: NDArray[np.bool_],
) -> tuple[Any, Any, Callable[..., Any]]:
    """Data whose last examples count or do not, the model as it is, and the loss of a row."""
    import torch

    weight = torch.ones(len(inputs))
    weight[len(inputs) - len(inside) :] = torch.from_numpy(inside).float()

    def row_loss(output: Any, target: Any, counts: Any) -> Any:
        return counts * loss(output, target).reshape(())

    return (inputs, targets, weight), module, row_loss
