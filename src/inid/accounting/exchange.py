"""Exchange with dp_accounting: compositions as `DpEvent`s and back. Needs the extra `inid[interop]`."""

import math
from typing import Any

import numpy as np

from inid.accounting.composition import Composition
from inid.arguments import real
from inid.curves import Composed, Loss, PrivacyLoss, Subsampled
from inid.curves.description import flatten
from inid.errors import ArgumentError, MissingExtraError


def to_dp_event(composition: Composition) -> Any:
    """The `DpEvent` of a composition: Gaussian and Laplace events, composed, with Poisson sampling where it applies.

    A Laplace ratio e is a `LaplaceDpEvent` with noise multiplier 1/e, a Gaussian part mu a `GaussianDpEvent` with noise
    multiplier 1/mu. Multipliers are floats rounded to nearest: the event is for exchange, the certified curve is here.
    """
    return _event(_library(), composition.loss)


def from_dp_event(event: Any) -> Composition:
    """The composition that a `DpEvent` describes, for neighbours="add_remove"."""
    return Composition(_loss(_library(), event), "add_remove")


def _library() -> Any:
    try:
        import dp_accounting
    except ImportError:
        raise MissingExtraError(
            "exchange of events needs dp_accounting: run pip install '.[interop]' in inid's checkout."
        ) from None
    return dp_accounting


def _event(dp: Any, loss: PrivacyLoss) -> Any:
    if isinstance(loss, Subsampled):
        step = dp.PoissonSampledDpEvent(loss.rate, _event(dp, loss.loss))
        return step if loss.steps == 1 else dp.SelfComposedDpEvent(step, loss.steps)
    if isinstance(loss, Composed):
        return dp.ComposedDpEvent([_event(dp, part) for part in loss.parts])
    events = []
    for ratio, count in zip(loss.ratios.tolist(), loss.counts.tolist(), strict=True):
        single = dp.LaplaceDpEvent(1.0 / ratio)
        events.append(single if count == 1 else dp.SelfComposedDpEvent(single, int(count)))
    if loss.mu > 0:
        events.append(dp.GaussianDpEvent(1.0 / loss.mu))
    if not events:
        return dp.NoOpDpEvent()
    return events[0] if len(events) == 1 else dp.ComposedDpEvent(events)


def _loss(dp: Any, event: Any) -> PrivacyLoss:
    if isinstance(event, dp.NoOpDpEvent):
        return Loss()
    if isinstance(event, dp.GaussianDpEvent):
        return Loss(mu=_ratio(event))
    if isinstance(event, dp.LaplaceDpEvent):
        return Loss(np.array([_ratio(event)]))
    if isinstance(event, dp.ComposedDpEvent):
        return Composed(tuple(_loss(dp, part) for part in event.events))
    if isinstance(event, dp.SelfComposedDpEvent):
        return _repeated(_loss(dp, event.event), event.count)
    if isinstance(event, dp.PoissonSampledDpEvent):
        base = _loss(dp, event.event)
        if isinstance(base, Composed):
            base = _merged(base)
        if isinstance(base, Loss):
            return Subsampled(base, event.sampling_probability)
    raise ArgumentError(
        f"events of type {type(event).__name__} are not understood here: pass Gaussian, Laplace, composed, "
        "self-composed or Poisson-sampled events."
    )


def _ratio(event: Any) -> float:
    """Sensitivity over scale, rounded up."""
    multiplier = real("noise_multiplier", event.noise_multiplier, above=0, cure="an event without noise has no privacy")
    return math.nextafter(1.0 / multiplier, math.inf)


def _repeated(loss: PrivacyLoss, count: int) -> PrivacyLoss:
    if isinstance(loss, Subsampled):
        return Subsampled(loss.loss, loss.rate, loss.steps * count)
    if isinstance(loss, Composed):
        return Composed(tuple(_repeated(part, count) for part in loss.parts))
    return Subsampled(loss, 1.0, count)


def _merged(composed: Composed) -> PrivacyLoss:
    """Parts released together on one sample, as one loss; only plain ones can be merged."""
    flat = flatten(composed)
    return composed if flat.steps else Loss(flat.ratios, flat.counts, flat.mu_bounds[1])
