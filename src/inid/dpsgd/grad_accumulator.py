"""What a backward gathers: the gradients of each group, clipped and added as soon as the last of its layers is done."""

from collections import Counter
from collections.abc import Collection, Sequence
from typing import cast

from torch import Tensor, nn

from inid.dpsgd.grad_sample.call_plan import CallPlan, Unit
from inid.dpsgd.grad_sample.clipped_sums import GroupGrads
from inid.dpsgd.grad_sample.ghost_clipping import PositionGrads, ghost_grads, ghost_product, loss_of, sum_of_uses
from inid.dpsgd.grad_sample.grad_samples import DenseGrads, GradSampler, GradSamples, SlicedGrads
from inid.dpsgd.grad_sample.stacked_layers import JointStack, Kind, SeparateStack, room
from inid.dpsgd.step_state import ForwardPass, StepState
from inid.errors import GuaranteeError

_KINDS = 2**10  # of layers alike that are known at a time
Places = dict[nn.Parameter, tuple[int, int]]  # the group of a parameter, and where in the group it stands


class GradAccumulator:
    """Takes what flows back to layers, or their gradients, and adds them to a step's sums once they are clipped."""

    def __init__(self, places: Places, state: StepState, *, mean: bool) -> None:
        self._places, self._state, self._mean = places, state, mean
        self._lengths = Counter(at for at, _ in places.values())
        self._known: dict[Unit, tuple[bool, bool]] = {}
        self._kinds: dict[Unit, tuple[object, Kind | None]] = {}
        self._alike: dict[object, Kind] = {}
        self._expected: tuple[CallPlan | None, dict[int, int]] = (None, {})
        self.lost: dict[nn.Parameter, float] = {}
        self.uses: Counter[nn.Parameter] = Counter()
        self.tied: Collection[nn.Parameter] = ()
        self.stacking = True

    def forget(self) -> None:
        """Look anew at which parameters are used where."""
        self._known.clear()
        self._kinds.clear()

    def expect(self, forward: ForwardPass) -> None:
        """Note that a gradient will come for each parameter of each layer that is going to be called."""
        if self._expected[0] is not forward.plan:
            units = [call.unit for call in forward.plan.calls]
            self._expected = (
                forward.plan,
                Counter(self._places[p][0] for unit in units for p in unit.parameters.values()),
            )
        forward.waiting = dict(self._expected[1])

    def take(self, forward: ForwardPass, unit: Unit, inputs: Tensor, gradients: Tensor) -> None:
        """Take what a layer with a formula met and what flows back to it; it may wait for others."""
        # Under autocast a layer may have met its input in another precision than it was given in.
        if inputs.dtype != gradients.dtype and inputs.is_floating_point():
            inputs = inputs.to(gradients.dtype)
        inputs, gradients = _sampler(unit).split_positions(forward.examples, inputs, gradients)
        kind = self._kind(forward, unit, inputs, gradients) if self.stacking else None
        if kind is None or not forward.stacked.add(kind, unit, inputs, gradients):
            self._work_out(forward, [unit], inputs, gradients)
        elif forward.stacked.size > kind.most:
            self._take_waiting(forward)

    def take_positions(
        self, forward: ForwardPass, unit: Unit, name: str, inputs: Tensor | None, gradients: Tensor
    ) -> None:
        """Take what one parameter of a recurrent layer met, at all positions, and what flows back to them."""
        parameter, rule = unit.parameters[name], self._state.rule
        back = gradients.reshape(forward.examples, -1, gradients.shape[-1])
        if inputs is None:
            self.add(forward, parameter, DenseGrads(back.sum(1)))
            return
        storable = rule.total is not None or not self._circumstances(unit)[0]
        positions = inputs.reshape(forward.examples, -1, inputs.shape[-1])
        grads = ghost_product(positions, back, stored=storable) if rule.by_length else None
        if grads is not None and parameter not in self.lost:
            self.lost[parameter] = loss_of(grads, parameter.shape)
        self.add(forward, parameter, grads or DenseGrads((back.mT @ positions).flatten(1)))

    def add(self, forward: ForwardPass, parameter: nn.Parameter, grads: GradSamples, uses: int = 1) -> None:
        """Add the gradients of a parameter, or of several in its group, to those of its group."""
        at, place = self._places[parameter]
        if at in forward.done:
            raise GuaranteeError("a gradient came after its group had been clipped: call backward after the forward.")
        group = forward.grads.setdefault(at, [None] * self._lengths[at])
        before = group[place]
        # A parameter that is used twice has one gradient per example, the sum, and is clipped once.
        group[place] = grads if before is None else sum_of_uses(before, grads)
        forward.waiting[at] -= uses
        if forward.waiting[at] == 0 and self._state.rule.total is None:
            forward.done.add(at)
            self._state.sums.add_group(at, forward.grads.pop(at), forward.scale(mean=self._mean), self._state.rule)

    def finish(self, forward: ForwardPass) -> None:
        """Clip and add what is left at the end of a backward."""
        scale = forward.scale(mean=self._mean)
        self._take_waiting(forward)
        if self._state.rule.total is not None:
            self._state.sums.add_all(forward.grads, scale, self._state.rule)
        else:
            for at, group in forward.grads.items():  # some of their layers took no part in the loss
                self._state.sums.add_group(at, group, scale, self._state.rule)
        self._state.sums.count(scale, self._state.rule)
        if self._state.used is not None:
            self._state.used |= forward.plan.parameters
        forward.grads.clear()

    def _kind(self, forward: ForwardPass, unit: Unit, inputs: Tensor, gradients: Tensor) -> Kind | None:
        """What a layer has in common with those that it may be clipped together with; None for one that is alone."""
        rule, formula = self._state.rule, _sampler(unit)
        settings = formula.alike(unit.layer, inputs) if formula.settings else None
        key = (inputs.shape, inputs.dtype, gradients.shape, gradients.dtype, gradients.device)
        known = self._kinds.get(unit)
        if known is None or known[0] != (rule, forward.plan, forward.examples, settings, key):
            kind = self._new_kind(forward, unit, inputs, gradients)
            known = self._kinds[unit] = (rule, forward.plan, forward.examples, settings, key), kind
        return known[1]

    def _new_kind(self, forward: ForwardPass, unit: Unit, inputs: Tensor, gradients: Tensor) -> Kind | None:
        rule, most = self._state.rule, room(gradients.device)
        if not most or not rule.by_length or rule.total is not None:
            return None
        alone, tied = self._circumstances(unit)
        single = not tied and unit in forward.plan.once and (alone or len(self._lengths) == 1)
        settings = _sampler(unit).alike(unit.layer, inputs) if single and inputs.shape[0] == forward.examples else None
        if settings is None:
            return None
        places = [self._places[parameter] for parameter in unit.parameters.values()]
        common = (
            settings,
            rule.thresholds[places[0][0]],
            *((name, place if alone else 0) for name, (_, place) in zip(unit.parameters, places, strict=True)),
            *((each.shape, each.dtype, each.device) for each in (inputs, gradients)),
        )
        if common not in self._alike:
            if len(self._alike) > _KINDS:  # thresholds that adapt are others in every step
                self._alike.clear()
            self._alike[common] = Kind(inputs, gradients, most)
        return self._alike[common]

    def _take_waiting(self, forward: ForwardPass) -> None:
        for units, inputs, gradients in forward.stacked.taken():
            self._work_out(forward, units, inputs, gradients)

    def _work_out(self, forward: ForwardPass, units: Sequence[Unit], inputs: Tensor, gradients: Tensor) -> None:
        """Work out the gradients of one layer, or of several like it whose examples follow one another."""
        unit, count = units[0], forward.examples * len(units)
        grads = self._fused(units, inputs, gradients) if len(inputs) == count else None
        if grads is None:
            grads = _sampler(unit).grad_samples(unit.layer, inputs, gradients, count)
        if len(units) == 1:
            for name, parameter in unit.parameters.items():
                self.add(forward, parameter, grads[name])
            return
        every = {name: [each.parameters[name] for each in units] for name in unit.parameters}
        places = {name: [self._state.sums.place(*self._places[p]) for p in every[name]] for name in every}
        written = cast("dict[str, DenseGrads | SlicedGrads | PositionGrads]", grads)
        if not self._circumstances(unit)[0]:
            for name, parameters in every.items():
                self.add(forward, parameters[0], JointStack(written[name], places[name]), len(units))
            return
        groups = [self._places[parameter][0] for parameter in next(iter(every.values()))]
        forward.done.update(groups)
        of_group: GroupGrads = [None] * self._lengths[groups[0]]
        for name, parameters in every.items():
            of_group[self._places[parameters[0]][1]] = SeparateStack(written[name], places[name])
        self._state.sums.add_groups(groups, of_group, forward.scale(mean=self._mean), self._state.rule)

    def _fused(self, units: Sequence[Unit], inputs: Tensor, gradients: Tensor) -> dict[str, GradSamples] | None:
        """The layers' gradients for ghost clipping, where the rule allows it."""
        if not self._state.rule.by_length:
            return None
        unit = units[0]
        alone, tied = self._circumstances(unit)
        storable = self._state.rule.total is not None or not alone
        grads = ghost_grads(
            _sampler(unit), unit.layer, inputs, gradients, stored=storable, tied=tied, layers=len(units)
        )
        if grads is not None and "weight" in unit.parameters:
            weights = [each.parameters["weight"] for each in units]
            if any(weight not in self.lost for weight in weights):
                self.lost |= dict.fromkeys(weights, loss_of(grads["weight"], weights[0].shape))
        return grads

    def _circumstances(self, unit: Unit) -> tuple[bool, bool]:
        """Whether a layer's parameters are a group of their own, and whether one of them has other uses."""
        if (circumstances := self._known.get(unit)) is None:
            groups = {self._places[parameter][0] for parameter in unit.parameters.values()}
            alone = len(groups) == 1 and self._lengths[next(iter(groups))] == len(unit.parameters)
            tied = any(self.uses[p] > 1 or p in self.tied for p in unit.parameters.values())
            circumstances = self._known[unit] = alone, tied
        return circumstances


def _sampler(unit: Unit) -> GradSampler:
    return cast("GradSampler", unit.rule)
