"""A model that nobody has touched is not described anew; each single thing that somebody touches is seen.

The model here changes nothing itself, so that its settings are known to be untouched by comparing objects. A twin that
takes them for untouched without looking misses every change.
"""

import gc
import weakref
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from inid.dpsgd.rows.walked_model import WalkedModel
from inid.dpsgd.trial import watched_settings
from inid.dpsgd.trial.watched_settings import Settings
from inid.errors import GuaranteeError
from training import private, train_once

X = torch.randn(8, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def apart(x):
    return x


def mixed(x):
    return x - x.mean(0)


class Mixing(nn.Module):
    def forward(self, x):
        return mixed(x)


class Still(nn.Module):
    """Mixes examples once one of its settings is touched, and touches none itself."""

    def __init__(self):
        super().__init__()
        self.layer, self.last, self.part = nn.Linear(6, 4).double(), nn.Linear(4, 2).double(), nn.Identity()
        self.number, self.yes, self.real, self.text, self.nothing, self.pair = 7, True, 0.5, "a", None, (0, 0)
        self.table, self.entries, self.kinds = {"mix": 0}, [0, {"deep": (0,)}], {"a"}
        self.inside = ([0],)  # a tuple that holds what can be changed
        self.plain, self.function = torch.zeros(1), apart
        self.config = SimpleNamespace(mix=0, list=[0], table={"a": [0]}, inner=SimpleNamespace(mix=0, list=[0]))
        self.spare, self.hooks = Mixing(), [0]  # a part that waits, and a name that others use, too
        self.register_buffer("buffer", torch.zeros(1))
        self.register_buffer("other", torch.ones(1))
        self.start = self.seen()

    def seen(self):
        found = (self.number, self.yes, self.real, self.text, self.nothing, self.pair)
        return str(
            (
                *((type(each), each) for each in found),
                self.table,
                self.entries,
                self.kinds,
                self.inside,
                self.plain.tolist(),
                self.config,
                self.hooks,
                self.buffer.tolist(),
                self.training,
                self.part.training,
                hasattr(self, "late"),
            )
        )

    def forward(self, x):
        return self.last(self.part(self.layer(self.function(x if self.seen() == self.start else mixed(x)))))


def put(name, value):
    return lambda model: setattr(model, name, value)


def exchanged_hook(model):
    model.handle.remove()
    model.part.register_forward_hook(lambda _part, _args, out: mixed(out))


def exchanged_buffer(model):
    model.buffer = torch.ones(1)


def renamed(model):
    """The same objects, under other names."""
    held = vars(model)
    held["late"] = held.pop("start")
    held["start"] = ""


def exchanged_parts(model):
    """The same parts, each in the other's place."""
    model.part, model.spare = model.spare, model.part


def exchanged_names(held, one, other):
    """The same objects in the same order, of which two have each other's name."""
    entries = [({one: other, other: one}.get(name, name), value) for name, value in held.items()]
    held.clear()
    held.update(entries)


def another_class(model):
    model.part.__class__ = Mixing


CHANGES = {
    "int": put("number", 8),
    "another type of number": put("number", 7.0),
    "True as a number": put("yes", 1),
    "float": put("real", 0.25),
    "text": put("text", "b"),
    "None": put("nothing", 0),
    "tuple": put("pair", (0, 1)),
    "entry of a dict": lambda m: m.table.update(mix=1),
    "key of a dict": lambda m: m.table.update(late=0),
    "entry of a list": lambda m: m.entries.__setitem__(0, 1),
    "nested": lambda m: m.entries[1].update(deep=(1,)),
    "inside a tuple": lambda m: m.inside[0].append(1),
    "set": lambda m: m.kinds.add("mix"),
    "tensor": put("plain", torch.ones(1)),
    "tensor in place": lambda m: m.plain.fill_(1),
    "buffer": exchanged_buffer,
    "buffer in place": lambda m: m.buffer.fill_(1),
    "callable": put("function", mixed),
    "attribute of an object": lambda m: setattr(m.config, "mix", 1),
    "list of an object": lambda m: m.config.list.append(1),
    "list in a dict of an object": lambda m: m.config.table["a"].append(1),
    "attribute of an object's object": lambda m: setattr(m.config.inner, "mix", 1),
    "list of an object's object": lambda m: m.config.inner.list.append(1),
    "attribute that is called hooks": lambda m: m.hooks.append(1),
    "parts exchanged": exchanged_parts,
    "names of parts exchanged": lambda m: exchanged_names(m._modules, "part", "spare"),
    "names of buffers exchanged": lambda m: exchanged_names(m._buffers, "buffer", "other"),
    "new attribute": put("late", 1),
    "attributes renamed": renamed,
    "hook exchanged": exchanged_hook,
    "hook added": lambda m: m.last.register_forward_hook(lambda _part, _args, out: mixed(out)),
    "hook before": lambda m: m.last.register_forward_pre_hook(lambda _part, args: (mixed(args[0]),)),
    "another part": lambda m: setattr(m, "part", Mixing()),
    "forward of a part": lambda m: setattr(m.part, "forward", mixed),
    "class of a part": another_class,
    "mode": lambda m: m.eval(),
    "mode of a part": lambda m: m.part.eval(),
}


def ready():
    """A training of five steps, whose settings are known to be untouched."""
    training = private(Still(), X)
    training.module.handle = training.module.part.register_forward_hook(lambda _part, _args, out: out)
    for _ in range(5):
        train_once(training)
    assert training.optimizer.gradients.settings._untouched is not None
    return training


@pytest.mark.parametrize("name", CHANGES)
def test_each_change_is_seen_at_the_next_forward(name):
    training = ready()
    CHANGES[name](training.module)
    with pytest.raises(GuaranteeError, match="example"):
        train_once(training)
    assert training.accountant.steps == 5


@pytest.mark.parametrize("kind", ["hook", "pre_hook"])
def test_a_hook_of_all_modules_is_seen(kind):
    def hook(part, args, *out):
        given = out or args
        return mixed(given[0]) if isinstance(part, nn.Identity) else None

    training = ready()
    handle = getattr(nn.modules.module, f"register_module_forward_{kind}")(hook)
    try:
        with pytest.raises(GuaranteeError, match="example"):
            train_once(training)
    finally:
        handle.remove()


def test_a_mixing_forward_of_a_class_is_seen(monkeypatch):
    training = ready()
    monkeypatch.setattr(nn.Identity, "forward", lambda _, x: mixed(x))
    with pytest.raises(GuaranteeError, match="example"):
        train_once(training)


# Parts and buffers that were exchanged make a list of their own, and a model's own mode is asked for beside settings.
EXCHANGED = {"another part", "parts exchanged", "names of parts exchanged", "names of buffers exchanged", "buffer"}


@pytest.mark.parametrize("name", sorted(set(CHANGES) - EXCHANGED - {"mode"}))
def test_a_twin_that_does_not_look_misses_the_change(name, monkeypatch):
    training = ready()
    monkeypatch.setattr(watched_settings._Untouched, "holds", lambda self, parts: parts is self._parts)
    CHANGES[name](training.module)
    train_once(training)
    assert training.accountant.steps == 6


def test_nothing_is_described_while_nothing_is_touched(monkeypatch):
    training, met = ready(), []
    before = watched_settings.described
    monkeypatch.setattr(watched_settings, "described", lambda *args: met.append(args) or before(*args))
    for _ in range(2):
        train_once(training)
    assert not met
    training.module.number = 7.0
    with pytest.raises(GuaranteeError, match="example"):
        train_once(training)
    assert met


@pytest.mark.parametrize("name", CHANGES)
def test_settings_agree_with_a_full_description(name):
    """Whether or not settings were known to be untouched, each change is one to them, and once."""
    model = Still()
    model.handle = model.part.register_forward_hook(lambda _part, _args, out: out)
    settings, fresh = Settings(), Settings()
    walked = WalkedModel(model, list(model.parameters()))
    for _ in range(3):
        walked = walked.now()
        settings.changed(walked.parts)
        fresh.changed(list(walked.parts))
    assert settings._untouched is not None
    CHANGES[name](model)
    walked = walked.now()
    assert settings.changed(walked.parts)
    assert fresh.changed(list(walked.parts))
    assert not settings.changed(walked.parts)


class Keeps(nn.Module):
    """Keeps its output, in an object that stays the same."""

    def __init__(self):
        super().__init__()
        self.layer, self.kept = nn.Linear(6, 2).double(), []

    def forward(self, x):
        self.kept[:] = [self.layer(x)]
        return self.kept[0] * 1


def test_outputs_that_a_model_keeps_are_not_held():
    training = private(Keeps(), X)
    for _ in range(3):
        train_once(training)
    assert training.optimizer.gradients.settings._untouched is None
    held = weakref.ref(training.module.kept[0])
    train_once(training)
    gc.collect()
    assert held() is None


def exchanged_parameter(model):
    model.last.bias = nn.Parameter(torch.zeros(2, dtype=torch.float64), requires_grad=False)


PARTS = {
    "a parameter": exchanged_parameter,
    "a parameter less": lambda m: setattr(m.last, "bias", None),
    "a buffer": exchanged_buffer,
    "a buffer less": lambda m: delattr(m, "buffer"),
    "a buffer more": lambda m: m.last.register_buffer("late", torch.zeros(1)),
    "a part": lambda m: setattr(m, "part", nn.Identity()),
    "a part more": lambda m: m.add_module("late", nn.Identity()),
    "a part less": lambda m: delattr(m, "part"),
    "names": lambda m: exchanged_names(m._modules, "part", "spare"),
    "a dictionary": lambda m: vars(m.last).update(_parameters=dict(m.last._parameters)),
}


@pytest.mark.parametrize("name", PARTS)
def test_a_model_that_is_made_of_others_is_walked_again(name):
    model = Still()
    walked = WalkedModel(model, list(model.parameters()))
    assert walked.now() is walked
    PARTS[name](model)
    assert walked.now() is not walked
