"""Private training as a slow loop would do it: one example at a time, clipped by the definition, added up."""

import copy
from dataclasses import fields, replace

import torch
from torch import nn
from torch.utils import _pytree as pytree
from torch.utils.data import DataLoader, TensorDataset

from inid import dpsgd
from inid.dpsgd.thresholds import group_parameters
from inid.testing import unsafe_no_noise

__all__ = [
    "Picked",
    "Tokens",
    "assert_close",
    "by_row",
    "groups_of",
    "make_private",
    "private",
    "row_squares",
    "slow_sums",
    "squares",
    "sums",
    "train_once",
]

torch.set_num_threads(1)  # the models are small: threads would only wait for each other

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12}


def make_private(**arguments):
    """The same with fields of Clipping, Sampling and Noise one by one, as tables of cases list them."""
    for name, kind, alone in (
        ("clipping", dpsgd.Clipping, "kind"),
        ("sampling", dpsgd.Sampling, None),
        ("noise", dpsgd.Noise, "source"),
    ):
        own = {each.name: arguments.pop(each.name) for each in fields(kind) if each.name in MOVED & arguments.keys()}
        if not own:
            continue
        if kind is dpsgd.Clipping and "max_grad_norm" in arguments:
            own["max_grad_norm"] = arguments.pop("max_grad_norm")
        given = arguments.pop(name, None)
        if isinstance(given, kind):
            arguments[name] = replace(given, **own)
        else:
            arguments[name] = kind(**own | ({} if given is None else {alone: given}))
    return dpsgd.make_private(**arguments)


MOVED = {each.name for kind in (dpsgd.Clipping, dpsgd.Sampling, dpsgd.Noise) for each in fields(kind)} - {
    "kind",
    "source",
    "max_grad_norm",
}


def squares(output):
    """Half the squared output, example by example: its gradients grow with it, so that examples differ in length."""
    return output.flatten(1).square().sum(1) / 2


def row_squares(row):
    """The same of one row."""
    return row.square().sum() / 2


def by_row(losses):
    """A function of a batch that gives a loss for each row, as one of a single row."""

    def loss(*row):
        (made,) = losses(*pytree.tree_map_only(torch.Tensor, lambda leaf: leaf[None], row))
        return made

    return loss


class Picked(nn.Module):
    """A layer with several outputs, of which the first is used."""

    def __init__(self, layer, *, three_times=False):
        super().__init__()
        self.layer, self.three_times = layer, three_times

    def forward(self, x):
        return self.layer(x, x, x)[0] if self.three_times else self.layer(x)[0]


class Tokens(nn.Module):
    """Numbers to tokens, so that every model here takes the same input."""

    def __init__(self, layer, height):
        super().__init__()
        self.layer, self.height = layer, height

    def forward(self, x):
        return self.layer((x.abs() * 10).long() % self.height)


def private(model, x, *, batch_size=None, optimizer=None, **options):
    """A private copy of a model over x; by default every batch is all of x, and gradients are not divided."""
    own = copy.deepcopy(model)
    options = {"noise_multiplier": 1.0, "loss_reduction": "sum", "clipping": "per_layer"} | options
    return make_private(
        module=own,
        optimizer=optimizer or torch.optim.SGD(own.parameters(), lr=0.0),
        data_loader=DataLoader(TensorDataset(x), batch_size=batch_size or len(x)),
        **options,
    )


def train_once(training, loss=squares, unwrap=lambda output: output):
    """One step over the loader's next batch, with a loss for each row of what is taken out of the output."""
    for (x,) in training.data_loader:
        training.optimizer.zero_grad()
        training.backward(by_row(loss), unwrap(training.module(x)))
        training.optimizer.step()


def sums(model, x, *, loss=squares, unwrap=lambda output: output, **options):
    """The clipped sums of one step over all of x, parameter by parameter; 0 of one that no layer uses."""
    with unsafe_no_noise():
        training = private(model, x, **options)
        train_once(training, loss, unwrap)
    trained = [(name, p) for name, p in training.module.named_parameters() if p.requires_grad]
    return {name: torch.zeros_like(p) if p.grad is None else p.grad for name, p in trained}


def groups_of(model, clipping="per_layer", groups=None):
    """The names of the parameters of each group."""
    made = group_parameters(model, groups, together=clipping == "global")
    return [[name for name, _ in group.parameters] for group in made]


def slow_sums(model, x, thresholds, *, groups, norm=2, clipping="per_layer", total=None, loss=squares):
    """The same by a loop over examples, in float64 where it matters."""
    model = copy.deepcopy(model)
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    added = {name: torch.zeros_like(p, dtype=torch.float64) for name, p in trained.items()}
    for at in range(len(x)):
        made = torch.autograd.grad(loss(model(x[at : at + 1])).sum(), list(trained.values()), allow_unused=True)
        one = {
            name: torch.zeros_like(p, dtype=torch.float64) if gradient is None else gradient.double()
            for (name, p), gradient in zip(trained.items(), made, strict=True)
        }
        if total is not None:
            one = _clipped(one, total, norm)
        for names, threshold in zip(groups, thresholds, strict=True):
            size = sum(one[name].numel() for name in names)
            if clipping == "elementwise":
                bound = threshold / (size**0.5 if norm == 2 else size)
                one |= {name: one[name].clamp(-bound, bound) for name in names}
            else:
                one |= _clipped({name: one[name] for name in names}, threshold, norm)
        for name, gradient in one.items():
            added[name] += gradient
    return added


def _clipped(pieces, threshold, norm):
    length = torch.linalg.vector_norm(torch.cat([piece.flatten() for piece in pieces.values()]), ord=norm)
    factor = min(1.0, threshold / max(float(length), 1e-300))
    return {name: piece * factor for name, piece in pieces.items()}


def assert_close(found, wanted, dtype):
    """Every parameter's sum within the tolerance, relative to its own length or to a tenth of the longest.

    A weight that a normalisation undoes has almost no gradient, of which rounding leaves few digits.
    """
    assert found.keys() == wanted.keys()
    lengths = {name: float(torch.linalg.vector_norm(sum_)) for name, sum_ in wanted.items()}
    for name, sum_ in wanted.items():
        error = float(torch.linalg.vector_norm(found[name].double() - sum_))
        assert error <= TOLERANCE[dtype] * max(lengths[name], 0.1 * max(lengths.values())), name


def assert_close_under_autocast(model, x):
    """Sums of half-precision steps are those of single examples in full precision, within what bfloat16 resolves."""
    groups = groups_of(model)
    thresholds = [0.5] * len(groups)
    wanted = slow_sums(model, x, thresholds, groups=groups)
    with unsafe_no_noise(), torch.autocast("cpu", dtype=torch.bfloat16):
        training = private(model, x, max_grad_norm=thresholds)
        train_once(training)
    for name, p in training.module.named_parameters():
        assert float((p.grad - wanted[name]).norm()) <= 0.05 * max(0.1, float(wanted[name].norm()))
