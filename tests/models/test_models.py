"""Models: closed forms, the paper's matrices, parameters and states by name, what is refused."""

import math

import pandas as pd
import pytest
import torch

import stationary as st
from stationary.errors import InputError, RateError
from stationary.models import registry

MMmK, MultiDiagonal, UpperTriangular = (
    st.models.MMmK,
    st.models.MultiDiagonal,
    st.models.UpperTriangular,
)


def tensor(*values):
    return torch.tensor(values, dtype=torch.float64)


EVERY = [
    MMmK(servers=2, capacity=5, service_rate=3.0),
    MultiDiagonal(depth=2, capacity=5, rate_1=3.0, rate_2=0.5),
    UpperTriangular(states=5),
    st.models.Relaxed(MMmK(servers=1, capacity=3), alpha=2.0),
]


# The paper's chains.


@pytest.mark.parametrize(
    ("model", "rows"),
    [
        (
            MMmK(servers=2, capacity=4, service_rate=3.0),
            [[0, 7, 0, 0, 0], [3, 0, 7, 0, 0], [0, 6, 0, 7, 0], [0, 0, 6, 0, 7], [0, 0, 0, 6, 0]],
        ),
        (
            MultiDiagonal(depth=2, capacity=3, rate_1=1.0, rate_2=2.0),
            [[0, 7, 0, 0], [1, 0, 7, 0], [2, 1, 0, 7], [0, 2, 1, 0]],
        ),
        (
            UpperTriangular(
                states=4, **{f"rate_{i}_{j}": 10.0 * i + j for i in range(4) for j in range(i)}
            ),
            [[0, 7, 0, 0], [10, 0, 7, 0], [20, 21, 0, 7], [30, 31, 32, 0]],
        ),
    ],
    ids=["mmmk", "multidiagonal", "uppertriangular"],
)
def test_matrices_of_the_paper(model, rows):
    Q = tensor(*rows)
    assert torch.equal(model([7.0]).dense()[0], Q - torch.diag(Q.sum(-1)))


def test_upper_triangular_ends_in_overload():
    model = UpperTriangular(states=5)
    assert model.states == ("0", "1", "2", "3", "overload")
    assert len(model.theta) == 5 * 4 // 2
    assert model.state_index("overload") == 4
    # In overload the queue is full: as long as in the state before it.
    only_overload = model.at([1.0]).with_pi(tensor([0, 0, 0, 0, 1]))
    assert model.measure("mean_queue")(only_overload).tolist() == [3.0]
    assert model.measure("loss")(only_overload).tolist() == [1.0]


# Relaxed.


def test_relaxed_adds_rates_only_where_there_are_none():
    base = MMmK(servers=1, capacity=3, service_rate=2.0)
    model = st.models.Relaxed(base, alpha=5.0, initial=0.25)
    known, all_of_it = base([1.0]).dense()[0], model([1.0]).dense()[0]
    off = ~torch.eye(4, dtype=torch.bool)
    free = off & (known == 0)
    assert torch.equal(all_of_it[off & ~free], known[off & ~free])
    assert bool((all_of_it[free] == 0.25).all())
    assert len(model.theta) == 1 + int(free.sum())
    assert "extra_0_2" in model.param_names
    assert "extra_0_1" not in model.param_names


def test_relaxed_penalty_is_alpha_times_the_sum_of_squares_and_relaxed_twice_adds_nothing():
    once = st.models.Relaxed(MMmK(servers=1, capacity=3), alpha=5.0, initial=1.0)
    theta = torch.arange(7.0, dtype=torch.float64)
    assert float(once.penalty(theta)) == pytest.approx(5.0 * float((theta**2).sum()))
    assert once.penalty(theta).shape == ()
    twice = st.models.Relaxed(once, alpha=7.0)
    assert twice.param_names == once.param_names
    assert twice.penalty(twice.theta).item() == once.penalty(once.theta).item() == 30.0


def test_relaxed_takes_inputs_as_its_model_does():
    model = st.models.Relaxed(MMmK(servers=1, capacity=3), alpha=1.0)
    with pytest.raises(InputError, match="load must be positive"):
        model([-1.0])
    start = model.start(model.as_inputs([2.0, 4.0]))
    assert start.tolist() == [3.0] + [1e-3] * 6


# FromFunction: load and temperature as inputs, in all forms.


def failing(load, warm, p):
    return p.wear * load * torch.exp(p.heat * warm)


def by_name(load, warm, p):
    return {("up", "down"): failing(load, warm, p), ("down", "up"): p.repair}


def as_edges(load, warm, p):
    return torch.cat(torch.broadcast_tensors(failing(load, warm, p), p.repair), -1)


BOTH = ("load", "temperature")


def as_matrix(load, warm, p):
    fail = failing(load, warm, p)[..., 0]
    Q = fail.new_zeros(*fail.shape, 2, 2)
    Q[..., 0, 1] = fail
    Q[..., 1, 0] = p.repair[..., 0]
    Q[..., 1, 1] = 99.0  # a diagonal, which is ignored
    return Q


def machine(rates_fn, **options):
    return st.models.FromFunction(
        rates_fn,
        states=["up", "down"],
        params={"wear": 0.1, "heat": st.models.Param(-0.5, positive=False), "repair": 2.0},
        inputs=["load", "temperature"],
        **options,
    )


@pytest.mark.parametrize(
    "model",
    [machine(as_matrix), machine(as_edges, edges=[(0, 1), (1, 0)]), machine(by_name)],
    ids=["dense", "edges", "names"],
)
def test_a_model_from_a_function_of_two_inputs(model):
    x = tensor([10.0, 0.0], [10.0, 2.0], [40.0, 2.0])
    fail = tensor(1.0, math.exp(-1), 4 * math.exp(-1))
    pi = st.steady_state(model(x)).pi
    torch.testing.assert_close(pi[:, 1].detach(), fail / (fail + 2.0))
    (gradient,) = torch.autograd.grad(pi[:, 1].sum(), model.theta)
    assert bool((gradient != 0).all())
    assert model.estimates == {"wear": 0.1, "heat": -0.5, "repair": 2.0}
    down = model.measure("p_down")
    assert torch.equal(down(model.at(x)), pi[:, 1])
    assert (down.low, down.high) == (0.0, 1.0)


def test_a_function_may_number_its_states():
    model = st.models.FromFunction(
        lambda load, p: p.rate[..., None].expand(*p.rate.shape[:-1], 3, 3),
        states=3,
        params={"rate": 1.0},
    )
    assert model.states == ("0", "1", "2")
    assert model.measures == ("p_0", "p_1", "p_2")
    pi = st.steady_state(model([1.0, 2.0])).pi
    torch.testing.assert_close(pi.detach(), torch.full((2, 3), 1 / 3, dtype=torch.float64))


def test_a_function_that_returns_a_negative_rate_is_told_which():
    model = machine(lambda *args: -as_matrix(*args))
    with pytest.raises(RateError, match=r"from state 0 to state 1 is -0\.1 in chain \(0,\)"):
        model(torch.tensor([[1.0, 0.0]]))


# Inputs.


@pytest.mark.parametrize(
    "x",
    [
        {"load": [3.0], "more": [1]},
        pd.DataFrame({"load": [3.0]}),
        3.0,
        [3.0],
        [[3.0]],
        range(3, 4),
        tensor(3.0),
        torch.tensor([3]),
        torch.tensor([[3.0]]),
    ],
)
def test_many_ways_to_write_one_load(x):
    inputs = MMmK().as_inputs(x)
    assert inputs.tolist() == [[3.0]]
    assert inputs.dtype == torch.float64


def test_no_windows_is_an_empty_batch():
    assert MMmK(capacity=3)([]).batch_shape == (0,)


# Parameters.


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([1.0], "has 2 parameters; got 1"),
        ([1.0, 0.0], "rate_2 must be positive; got 0"),
        ([-1.0, 1.0], "rate_1 must be positive; got -1"),
        ([1.0, math.inf], "rate_2 must be positive; got inf"),
    ],
)
def test_bad_parameters_are_named(values, words):
    model = MultiDiagonal(depth=2, capacity=4)
    with pytest.raises(InputError, match=words):
        model.set_theta(values)
    assert model.theta.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("model", [*EVERY, machine(as_matrix)], ids=lambda m: type(m).__name__)
def test_the_free_scale_and_back(model):
    theta = model.theta.detach()
    z = model.free(theta)
    torch.testing.assert_close(model.natural(z), theta, rtol=1e-15, atol=0)
    assert torch.equal(z[model.positive], theta[model.positive].log())
    assert torch.equal(z[~model.positive], theta[~model.positive])
    assert torch.autograd.gradcheck(model.natural, z.clone().requires_grad_())


def test_a_large_real_parameter_does_not_overflow():
    # exp(1000) is infinite; 0 times its derivative would be NaN.
    z = tensor(0.0, 1000.0, 0.0).requires_grad_()
    theta = machine(as_matrix).natural(z)
    theta.sum().backward()
    assert theta.tolist() == [1.0, 1000.0, 1.0]
    assert z.grad.tolist() == [1.0, 1.0, 1.0]


def test_fits_start_where_service_just_keeps_up():
    x = tensor([10.0], [20.0])
    assert MMmK(servers=3).start(x).tolist() == [5.0]
    source = st.models.OnOffArrivals(servers=2, service_rate=2.0, burst=0.7, switching=0.5)
    assert source.start(x).tolist() == [7.5, 0.7, 1.875]  # rates in proportion, shapes as they are
    assert st.models.Slowing(servers=2, slowdown=0.5).start(x).tolist() == [7.5, 0.5]
    depths = st.models.StateDependent(depth=2, service_1=1.0, service_2=2.0)
    assert depths.start(x).tolist() == [15.0, 30.0]
    assert MultiDiagonal(depth=2).start(x).tolist() == [15.0, 15.0]
    assert machine(as_matrix).start(x).tolist() == [0.1, -0.5, 2.0]


def test_a_model_prints_its_options_and_parameters():
    text = repr(MMmK(servers=2, capacity=5, service_rate=3.0))
    assert text == "MMmK(servers=2, capacity=5, service_rate=3)"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: machine(as_edges, edges=[(0, 1)]), r"an axis of 1 edges; got \(1, 2\)"),
        (lambda: machine(as_edges), r"\[\.\.\., 2, 2\] where no edges.*got \(1, 2\)"),
        (lambda: machine(as_matrix).set_theta([0.1, -math.inf, 1.0]), "heat must be finite"),
        (lambda: st.models.Relaxed(MMmK(), alpha=0.0), "alpha must be positive and finite; got 0"),
        (lambda: MMmK()([[1.0, 2.0]]), r"1 input column.*load.*got x of shape \(1, 2\)"),
        (lambda: machine(as_matrix)([1.0, 2.0]), r"2 input column.*load, temperature"),
        (lambda: machine(as_matrix)({"load": [1.0]}), "x needs a column 'temperature'"),
        (lambda: MMmK()(["many"]), "inputs must be numbers.*'many'"),
        (lambda: MMmK().as_inputs([], least=1), "x is empty"),
        (lambda: MMmK()([1.0, 0.0]), "positive and finite; got 0 in window 1"),
        (lambda: MMmK()([1.0, math.nan]), "positive and finite; got nan in window 1"),
        (lambda: MMmK(service_rate=[1.0, 2.0]), "'service_rate' must be a number"),
        (lambda: MultiDiagonal(depth=4, capacity=3), "depth .* to 3, the capacity; got 4"),
        (lambda: st.models.FiniteClients(capacity=5, clients=4), "clients .* from 5 .*got 4"),
        (lambda: st.models.Balking(balking=0.0), "balking must be positive; got 0"),
        (lambda: st.models.Slowing(slowdown=math.nan), "slowdown must be finite"),
        (lambda: st.models.Leaking(spill=2), "spill must be .* from 0 to 1; got 2"),
        (lambda: MMmK(capacity=1.5), "capacity must be a whole number from 1 to .*; got 1.5"),
        (lambda: MMmK(servers=True), "servers must be a whole number"),
        (lambda: MMmK(service_rate=-1.0), "service_rate must be positive; got -1"),
        (lambda: MultiDiagonal(depth=2, rate_3=1.0), "option 'rate_3'"),
        (lambda: UpperTriangular(states=2), "states must be a whole number from 3 to"),
        (lambda: machine(as_matrix, edges=[(0, 0)]), "self-loop"),
        (
            lambda: st.models.FromFunction(
                as_matrix, inputs=BOTH, states=["up", "up"], params={"wear": 1.0}
            ),
            "different names of its states; got 2, 1 of them",
        ),
        (
            lambda: st.models.FromFunction(
                as_matrix,
                inputs=BOTH,
                states=2,
                params={"wear": st.models.Param([1.0], labels=["a", "b"])},
            ),
            "'wear' has 1 values and 2 labels",
        ),
        (
            lambda: st.models.FromFunction(
                as_matrix, inputs=BOTH, states=2, params={"a_0": 1.0, "a": st.models.Param([1.0])}
            ),
            "two parameters have the same name: a_0, a_0",
        ),
    ],
)
def test_bad_options_are_named(make, words):
    with pytest.raises(InputError, match=words):
        make()


# States.


@pytest.mark.parametrize(
    ("state", "index"), [(0, 0), ("0", 0), ("3", 3), ("overload", 4), (4, 4), ("4", 4)]
)
def test_states_by_name_and_by_position(state, index):
    assert UpperTriangular(states=5).state_index(state) == index


@pytest.mark.parametrize("state", [-1, 5, "5", "-1", "full", "", "1.0", True])
def test_unknown_states_are_refused(state):
    with pytest.raises(InputError, match=r"not in the model: its 5 states are 0\.\.overload"):
        UpperTriangular(states=5).state_index(state)


# The registry.


def test_a_description_may_set_parameters():
    model = registry.build({"name": "multidiagonal", "depth": 2, "capacity": 4, "rate_2": 0.5})
    assert model.estimates == {"rate_1": 1.0, "rate_2": 0.5}


@pytest.mark.parametrize(
    ("description", "words"),
    [
        ({"name": "mmk"}, "no model 'mmk'; did you mean 'mmmk'.*there are: .*mmmk"),
        ({"name": "zzz"}, "no model 'zzz'; there are: .*mmmk"),
        ({}, "no model ''"),
        ({"name": "mmmk", "server": 2}, "option 'server'; did you mean 'servers'"),
        ({"name": "multidiagonal", "speed": 2.0}, "option 'speed'"),
        ({"name": "relaxed"}, "relaxed.*argument: .model."),
        ({"name": "relaxed", "model": {"name": "mmk"}}, "did you mean 'mmmk'"),
        ({"name": "mmmk", "servers": 0}, "servers must be a whole number"),
    ],
)
def test_bad_descriptions_are_refused(description, words):
    with pytest.raises(InputError, match=words):
        registry.build(description)
