"""What every model must do, of the registry or one's own: batches, copies, units, descriptions."""

import copy
import pickle
import subprocess
import sys
from typing import ClassVar

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

import stationary as st
from rule_models import TANDEM
from stationary.errors import InputError
from stationary.models import FromFunction, FromModule, Model, Param, Relaxed, RuleModel, registry

try:
    import stormpy
except ImportError:
    stormpy = None

SMALL = {"capacity": 5, "states": 5}
"""Options by which the named models are small, as far as they have them."""


def small(name):
    fewer = registry.model_class(name)().options.keys() & SMALL
    model = registry.build({"name": name, **{option: SMALL[option] for option in fewer}})
    # No two parameters alike, that none may stand for another.
    model.set_theta(model.theta * torch.linspace(1.0, 1.7, len(model.theta)).double() + 0.01)
    return model


def turning(load, warmth, p):
    """A wheel that turns at rates of two inputs, a vector and a parameter of either sign."""
    on = torch.cat(torch.broadcast_tensors(load * p.turn[..., :1], load * p.turn[..., 1:]), -1)
    back = p.back * torch.exp(p.heat * warmth)
    batch = torch.broadcast_shapes(on.shape[:-1], back.shape[:-1])
    return torch.cat([on.expand(*batch, -1), back.expand(*batch, -1)], -1)


def wheel():
    return FromFunction(
        turning,
        states=["a", "b", "c"],
        edges=[(0, 1), (1, 2), (2, 0)],
        inputs=["load", "warmth"],
        params={
            "turn": Param([0.5, 2.0], labels=["first", "second"]),
            "back": Param(3.0, per_time=1),
            "heat": Param(-0.4, positive=False),
        },
    )


class Crashing(Model):
    """A server that crashes under load; what it is stands in its class."""

    states = ("up", "slow", "down")
    params: ClassVar = {
        "wear": 0.1,
        "repair": Param(1.0, per_time=1),
        "help": Param(2.0, per_time=1),
    }

    def rates(self, load, p):
        return {
            ("up", "slow"): load * p.wear,
            ("slow", "up"): p.help,
            ("slow", "down"): 2 * load * p.wear,
            ("down", "up"): p.repair,
        }


PRISM = """ctmc
const int c;
const double load;
const double mu1;
const double mu2;
module both
  s : [0..c] init 0;
  q : [0..c] init 0;
  [] s < c -> load : (s' = s + 1);
  [] s > 0 & q < c -> mu1 : (s' = s - 1) & (q' = q + 1);
  [] q > 0 -> mu2 * q / (q + 1) : (q' = q - 1);
endmodule
label "full" = s = c;
rewards "work" s > 0 : mu1 * load; endrewards
"""


def prism():
    if stormpy is None:
        pytest.skip("stormpy is not installed")
    theta = {"mu1": 4.0, "mu2": 3.0}
    return st.models.Prism(PRISM, x="load", theta=theta, constants={"c": 2}, count="s")


class Turning(torch.nn.Module):
    """Rates of a ring of three states that a small network makes of two inputs."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Tanh())
        for k, weights in enumerate(self.parameters(), 1):
            torch.nn.init.constant_(weights, 0.1 * k)

    def forward(self, x):
        return torch.cat([x[..., :1], self.layers(x).exp()], -1)


def network():
    return FromModule(
        Turning().double(),
        states=["a", "b", "c"],
        edges=[("a", "b"), ("b", "c"), ("c", "a")],
        inputs=["load", "warmth"],
    )


ALL = {
    **{name: lambda name=name: small(name) for name in registry.names()},
    "relaxed": lambda: Relaxed(small("onoff"), alpha=2.0, initial=0.01),
    "relaxed batch": lambda: Relaxed(small("batch"), alpha=2.0, initial=0.01),
    "function": wheel,
    "module": network,
    "class": lambda: Crashing(wear=0.2),
    "rules": lambda: RuleModel(**TANDEM),
    "prism": prism,
}
every = pytest.mark.parametrize("make", ALL.values(), ids=ALL)


def inputs(model, rows=3):
    """Loads, and other inputs, of so many windows."""
    return torch.linspace(0.7, 2.9, rows * len(model.inputs)).double().reshape(rows, -1)


def parameters(model, sets):
    """Several sets of parameters, none of them the model's own."""
    factor = torch.linspace(0.8, 1.3, sets * len(model.theta)).double()
    return model.theta.detach() * factor.reshape(sets, -1)


def batches(model):
    """Inputs and parameters by every rule of broadcasting that is promised."""
    x, three = inputs(model), parameters(model, 3)
    yield x, three[0]
    yield x, three[:2, None]
    yield x, three
    yield x[:, None], three[:, None]


def agree(of, point, points, batch, size=()):
    """Hold what a batch has against what its rows have alone, and return the latter."""
    together = of(point).expand(*batch, *size).flatten(0, len(batch) - 1)
    alone = torch.cat([of(at).expand(1, *size) for at in points])
    torch.testing.assert_close(together, alone, rtol=1e-11, atol=0)
    return alone


@every
def test_rates_arrivals_and_measures_of_a_batch_are_those_one_by_one(make):
    model = make()
    assert len(model.measures) > 1
    for x, theta in batches(model):
        batch = torch.broadcast_shapes(x.shape[:-1], theta.shape[:-1])
        flat = (part.expand(*batch, -1).flatten(0, -2) for part in (x, theta))
        each = model.at(x, theta), [model.at(a[None], b) for a, b in zip(*flat, strict=True)], batch
        agree(lambda at: model.edge_rates(at.x, at.theta), *each, [len(model.edges)])
        if model.arrivals(each[0]) is not None:
            agree(model.arrivals, *each, [len(model.states)])
        for name in model.measures:
            measure = model.measure(name)
            assert measure(each[0]).shape == batch, name
            alone = agree(measure, *each)
            assert bool(((alone >= measure.low - 1e-12) & (alone <= measure.high + 1e-12)).all())


# Copies.


def steady(model):
    return st.steady_state(model(inputs(model))).pi.detach()


class SteadyStates(Dataset):
    """Steady states of a model, one for every window, found where they are asked for."""

    def __init__(self, model):
        self.model, self.x = model, inputs(model)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, k):
        return st.steady_state(self.model(self.x[k : k + 1])).pi.detach()[0]


@every
def test_copies_have_the_same_steady_state(make):
    model = make()
    expected = steady(model)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):  # noqa: S301
        assert torch.equal(steady(other), expected)
        assert other.estimates == model.estimates
        assert other.measures == model.measures
        assert list(other.states) == list(model.states)
        point = model.at(inputs(model))
        for name in model.measures:
            theirs = other.measure(name)(other.at(inputs(model)))
            assert torch.equal(theirs, model.measure(name)(point)), name
        other.set_theta(parameters(other, 1)[0])
        assert torch.equal(steady(model), expected)
        assert not torch.equal(steady(other), expected)


def test_another_process_finds_the_same_steady_states():
    # All models in one, for a process takes seconds to start.
    models = [make() for name, make in ALL.items() if name != "prism" or stormpy is not None]
    together = torch.utils.data.ConcatDataset([SteadyStates(model) for model in models])
    loader = DataLoader(
        together, batch_size=None, num_workers=1, multiprocessing_context="spawn", timeout=120
    )
    expected = torch.cat([steady(model).flatten() for model in models])
    torch.testing.assert_close(torch.cat(list(loader)), expected, rtol=1e-12, atol=0)


# Units.


@every
def test_another_unit_of_time_changes_nothing_else(make):
    model = make()
    if not bool((model.per_time != 0).any()):
        # Rules, texts and networks do not say what a rate is.
        assert model.name in ("rules", "prism") or model.weights
        return
    x, theta = inputs(model), parameters(model, 3)
    faster = x.clone()
    faster[:, 0] *= 60.0
    scaled = theta * 60.0**model.per_time
    torch.testing.assert_close(
        model.edge_rates(faster, scaled), 60.0 * model.edge_rates(x, theta), rtol=1e-12, atol=0
    )


# Made again.


@pytest.mark.parametrize("name", [*registry.names(), "relaxed", "relaxed batch", "rules", "prism"])
def test_a_description_makes_a_model_of_the_same_rates(name):
    model = ALL[name]()
    assert registry.can_rebuild(model)
    again = registry.build(registry.describe(model))
    assert again.options == model.options
    assert again.param_names == model.param_names
    again.set_theta(model.theta)
    x, theta = inputs(model), parameters(model, 3)
    assert torch.equal(again.edge_rates(x, theta), model.edge_rates(x, theta))
    assert torch.equal(steady(again), steady(model))


OTHER = {"capacity": 7, "K": 5, "c": 3}
"""Options of which a change keeps all parameters."""


@every
def test_a_changed_model_keeps_its_parameters(make):
    model = make()
    assert model.changed().estimates == model.estimates
    assert torch.equal(steady(model.changed()), steady(model))
    for option in OTHER.keys() & model.changeable.keys():
        if isinstance(model, Relaxed):
            with pytest.raises(InputError, match=rf"{option}.*fit the other model"):
                model.changed(**{option: OTHER[option]})
            continue
        larger = model.changed(**{option: OTHER[option]})
        assert larger.estimates == model.estimates
        assert larger.changeable[option] == OTHER[option]
        assert len(larger.states) > len(model.states)
        assert model.changeable[option] != OTHER[option]


def test_a_change_of_the_parameters_themselves_is_refused():
    with pytest.raises(InputError, match=r"states=7.*rate_1_0.*rate_6_5.*fit the other model"):
        small("uppertriangular").changed(states=7)


# Refused when they are made.

ANY = r"FromFunction must take any batch.*no \.item\(\) and no 'if' on values \(torch\.where"


@pytest.mark.parametrize(
    ("up", "down", "words"),
    [
        (lambda load, p: load / load.mean(), lambda p: p.repair, ANY),
        (lambda load, p: load.cumsum(0), lambda p: p.repair, ANY),
        (lambda load, p: load if load > 1 else 2 * load, lambda p: p.repair, ANY),
        (lambda load, p: load, lambda p: p.repair if p.repair > 1 else 1 + p.repair, ANY),
        (lambda load, p: load * p.repair.item(), lambda p: p.repair, ANY),
        (lambda load, p: torch.full_like(p.repair, float(load)), lambda p: p.repair, ANY),
        (lambda load, p: load, None, r"must name the same edges.*in one order"),
    ],
)
def test_rates_that_do_not_treat_rows_alike_are_refused(up, down, words):
    def rates(load, p):
        if down is None:
            found = {("up", "down"): load, ("down", "up"): p.repair}
            return dict(reversed(found.items())) if len(load) > 1 else found
        return {("up", "down"): up(load, p), ("down", "up"): down(p)}

    with pytest.raises(InputError, match=words):
        FromFunction(rates, states=["up", "down"], params={"repair": 1.0})


def test_a_class_is_tried_as_well():
    class Mixed(Crashing):
        def rates(self, load, p):
            found = super().rates(load, p)
            return {**found, ("down", "up"): p.repair * load / load.sum(0)}

    with pytest.raises(InputError, match=r"rates of Mixed must take any batch"):
        Mixed()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Crashing(speed=1.0), "Crashing has no .* 'speed'.*wear, repair"),
        (lambda: Crashing(wear=-1.0), "wear must be positive; got -1"),
        (lambda: Crashing(states=["up", "down"]), "state 'slow' is not in the model.*up..down"),
        (lambda: Model(states=["up"]), "Model must declare its params"),
        (lambda: Model(params={}), "Model must declare its states"),
        (lambda: Crashing(groups=["on", "off"]), "groups= must name 3 states; got 2"),
    ],
)
def test_what_a_model_lacks_is_said(make, words):
    with pytest.raises(InputError, match=words):
        make()


def test_names_of_models_are_known_without_torch():
    code = "import sys; sys.modules['torch'] = None; from stationary.models import registry"
    code += "; print(*registry.names())"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == list(registry.names())


def test_a_model_may_have_nothing_to_learn():
    model = FromFunction(lambda load, p: {(0, 1): load, (1, 0): 2.0}, states=2, params={})
    assert model.estimates == {}
    assert steady(model).shape == (3, 2)
    torch.testing.assert_close(steady(model)[:, 1:], inputs(model) / (2 + inputs(model)))
