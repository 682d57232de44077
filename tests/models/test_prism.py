"""Models in the PRISM language, against Storm itself and against models of our own."""

from fractions import Fraction
from pathlib import Path

import pytest
import stormpy
import torch
from stormpy import developer

import stationary as st
from stationary.errors import InputError
from stationary.models import Prism, Relaxed, from_prism

FILES = Path(__file__).parents[1] / "prism"

CASES = {
    # Constants; the input and its value; parameters: where the file has values, the same ones.
    "mmck": ({"c": 2, "K": 6}, ("load", 2.0), {"service": 1.3}),
    "tandem": ({"c": 4}, ("lambda", 2.5), {"mu1": 4.0, "mu2": 3.0}),
    "polling": ({}, ("load", 1.5), {"mu": 2.0, "walk": 5.0}),
    "repair": ({}, ("load", 1.0), {"wear": 0.5, "odds": 0.25}),
}


def made(name, **changes):
    constants, (x, _), theta = CASES[name]
    given = {"x": [x], "theta": theta, "constants": constants, **changes}
    return from_prism(FILES / f"{name}.sm", **given)


class Oracle:
    """Storm's own chain of a file, all constants fixed, in rational numbers."""

    def __init__(self, name):
        constants, (x, load), theta = CASES[name]
        level = developer.get_log_level()
        developer.set_log_level(developer.LogLevel.OFF)
        program = stormpy.parse_prism_program(FILES / f"{name}.sm", prism_compatibility=True)
        values = {**constants, x: load, **theta}
        missing = {c.name for c in program.get_undefined_constants()}
        self.program, _ = stormpy.instantiate_constants(
            program, {name: value for name, value in values.items() if name in missing}
        )
        options = stormpy.BuilderOptions(build_full=True)
        self.model = stormpy.build_model[stormpy.Rational](self.program, options=options)
        developer.set_log_level(level)

    def value(self, query):
        result = stormpy.model_checking(self.model, stormpy.parse_property(query, self.program))
        return float(result.get_value(self.model.initial_states[0]))

    def states(self):
        """What the variables are in each state."""
        known = self.model.state_valuations
        columns = {v.name: known.get_values_states(v) for v in known.get_all_variables()}
        return [
            {name: str(values[k]).lower() for name, values in columns.items()}
            for k in range(self.model.nr_states)
        ]

    def pi(self):
        """Steady state by elimination in fractions: not Storm's solver, and not ours."""
        n = self.model.nr_states
        rate = [[Fraction(0)] * n for _ in range(n)]
        for i in range(n):
            for entry in self.model.transition_matrix.get_row(i):
                rate[i][entry.column] = Fraction(str(entry.value))
        for k in range(n - 1, 0, -1):
            out = sum(rate[k][:k])
            for i in range(k):
                share = rate[i][k] / out
                if share:
                    for j in range(k):
                        rate[i][j] += share * rate[k][j]
                rate[i][k] = share
        weight = [Fraction(1)]
        for k in range(1, n):
            weight.append(sum(weight[i] * rate[i][k] for i in range(k)))
        return [float(w / sum(weight)) for w in weight]


def named(text):
    return dict(part.split("=") for part in text.split(","))


@pytest.mark.parametrize("name", CASES)
def test_the_chain_is_the_one_that_storm_builds(name):
    oracle, model, load = Oracle(name), made(name), CASES[name][1][1]
    pi = st.steady_state(model([load])).pi[0].detach()
    ours = {frozenset(named(s).items()): p for s, p in zip(model.states, pi.tolist(), strict=True)}
    theirs = {frozenset(s.items()): p for s, p in zip(oracle.states(), oracle.pi(), strict=True)}
    assert ours == pytest.approx(theirs, rel=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_labels_and_rewards_are_what_storm_says(name):
    oracle, model, load = Oracle(name), made(name), CASES[name][1][1]
    point = model.at([load])
    found = {
        name: model.measure(name)(point).item()
        for name in model.measures
        if not name.startswith("mean_")
    }
    labels = [label.name for label in oracle.program.labels]
    asked = {
        name: f'S=? ["{name}"]'
        if name in labels
        else ("R=? [LRA]" if name == "reward" else f'R{{"{name}"}}=? [LRA]')
        for name in found
    }
    assert len(found) >= 3
    assert found == pytest.approx({k: oracle.value(q) for k, q in asked.items()}, rel=1e-12)


@pytest.mark.parametrize("name", ["tandem", "repair"])
def test_rates_have_every_derivative_also_by_the_inputs(name):
    model, load = made(name), CASES[name][1][1]
    x = torch.tensor([[load], [2 * load]], dtype=torch.float64, requires_grad=True)
    theta = model.theta.detach().clone().requires_grad_()
    assert torch.autograd.gradcheck(model.edge_rates, (x, theta))
    assert torch.autograd.gradgradcheck(model.edge_rates, (x, theta))


def test_a_constant_with_a_value_is_a_parameter_that_stands_still():
    free, fixed = made("tandem"), made("tandem", theta={"mu2": 3.0}, constants={"c": 4, "mu1": 5})
    assert fixed.param_names == ("mu2",)
    theta = torch.tensor([5.0, 3.0], dtype=torch.float64)
    assert torch.equal(free.generator(free.as_inputs([2.0]), theta).dense(), fixed([2.0]).dense())


def test_definitions_of_the_file():
    model = made("repair", theta=["wear", "odds"])
    assert model.estimates == {"wear": 0.5, "odds": 1.0}  # as in the file; 1 where it has none
    assert made("repair", theta={"wear": None, "odds": 2.0}).estimates == {"wear": 0.5, "odds": 2}
    # mend is twice the wear, whatever that is.
    theta = torch.tensor([3.0, 0.5], dtype=torch.float64)
    Q = model.generator(model.as_inputs([1.0]), theta).dense()[0]
    down, up = model.states.index("broken=1"), model.states.index("broken=0")
    assert float(Q[down, up]) == pytest.approx(2 * 3.0 / 1.5)
    assert float(Q[up, down]) == pytest.approx(3 * 3.0)
    assert len(made("repair", constants={"machines": 5}).states) == 6
    # A botched repair leaves all as it is: no edge.
    assert len(model.edges) == 6


def test_rewards_find_their_parameters_when_more_follow():
    model = made("repair")
    relaxed, point = Relaxed(model), model.at([1.0])
    ours = model.measure("reward")(point)
    theirs = relaxed.measure("reward")(relaxed.at([1.0]).with_pi(point.pi))
    assert torch.equal(theirs, ours)


@pytest.mark.parametrize(
    ("rate", "value"),
    [
        ("min(q, 2) * a", lambda q: min(q, 2) * 1.5),
        ("max(min(q, 3), 2, 4 - q) * a", lambda q: max(min(q, 3), 2, 4 - q) * 1.5),
        ("(q > 2 ? a : max((q), 1)) + min(1, pow(q, 2))", lambda q: (1.5 if q > 2 else q) + 1),
        ("min(q, 3, 4 - q, 2) + a", lambda q: min(q, 3, 4 - q, 2) + 1.5),
        ("max(max(1, q), max(4 - q, 2)) * a", lambda q: max(1, q, 4 - q, 2) * 1.5),
        ("min(min(4, q), max(q - 2, (q + 1) / 2)) + a", lambda q: max(q - 2, (q + 1) / 2) + 1.5),
        ("floor(q / 2) + ceil(q / 3) + mod(q, 3) + a", lambda q: q // 2 - -q // 3 + q % 3 + 1.5),
        ("mod(q - 6, 7) + a", lambda q: (q - 6) % 7 + 1.5),
        ("((q > 1 => q > 3) != (q = 1) ? 2 : 1) * a", lambda q: 3.0 if q == 4 else 1.5),
    ],
)
def test_operations_on_what_a_state_is(rate, value):
    source = f"""ctmc
    const double a; const double b;
    module m q : [0..4] init 0;
      [] q < 4 -> b : (q' = q + 1);
      [] q > 0 -> {rate} : (q' = q - 1);
    endmodule"""
    model = Prism(source, "b", {"a": 1.5})
    Q = model([1.0]).dense()[0].detach()
    place = [model.states.index(f"q={k}") for k in range(5)]
    found = [float(Q[place[k], place[k - 1]]) for k in range(1, 5)]
    assert found == pytest.approx([value(k) for k in range(1, 5)])


def test_a_long_sum_is_read_and_what_is_nested_too_deeply_is_refused():
    source = """ctmc
    const double a; const double b;
    module m q : [0..1] init 0; [] q = 0 -> a : (q' = 1); [] q = 1 -> {} : (q' = 0); endmodule"""
    model = Prism(source.format(" + ".join(["b * q"] * 400)), "a", "b")
    assert model([1.0]).rates.tolist() == [[1.0, 400.0]]
    with pytest.raises(InputError, match="nests more than 150 operations"):
        Prism(source.format("min(max(" * 100 + "b" + ", 1), 2)" * 100), "a", "b")


def test_what_has_no_rate_leads_nowhere():
    source = """ctmc
    const double a; const double b;
    module m q : [0..3] init 0;
      [] q < 3 -> a : (q' = q + 1); [] true -> q * b : (q' = q - 1); [] q = 2 -> b : true;
    endmodule
    rewards [] true : 1; endrewards"""
    model = Prism(source, "a", {"b": 2.0})
    assert model.edges.src.tolist() == [0, 1, 1, 2, 2, 3]
    point = model.at([1.0])
    moves = torch.tensor([1.0, 3.0, 7.0, 6.0], dtype=torch.float64)  # also those that lead nowhere
    assert model.measure("reward")(point).item() == pytest.approx((point.pi[0] @ moves).item())


@pytest.mark.parametrize(
    ("rate", "value"),
    [
        ("max(0, mu - 2)", 3.0),
        ("mu > 2 ? mu : 0", 5.0),
        ("lam > 0.9 ? mu : 0", 5.0),
        ("mu - 0.7", 4.3),
        ("mu - 1.7", 3.3),
        ("mu * min(1, max(0, lam - 0.5))", 2.5),
    ],
)
def test_a_rate_that_is_zero_only_for_some_constants_keeps_its_moves(rate, value):
    model = Prism(
        f"ctmc\nconst double lam;\nconst double mu;\nmodule q\nn: [0..1] init 0;\n"
        f"[] n < 1 -> lam: (n' = 1);\n[] n > 0 -> {rate}: (n' = 0);\nendmodule\n",
        x=["lam"],
        theta={"mu": 5.0},
    )
    assert model.at([1.0]).pi[0, 1].item() == pytest.approx(1 / (1 + value))


def test_rates_of_modules_that_move_together_are_multiplied():
    source = """ctmc
    const double a; const double b;
    module m p : bool init true; [go] p -> a : (p' = false); [] !p -> 1 : (p' = true); endmodule
    module n q : bool init true; [go] q -> b : (q' = false); [] !q -> 1 : (q' = true); endmodule"""
    model = Prism(source, "a", {"b": 3.0})
    Q = model([5.0]).dense()[0].detach()
    both, none = model.states.index("p=true,q=true"), model.states.index("p=false,q=false")
    assert float(Q[both, none]) == 15
    assert list(model.measures) == ["mean_p", "mean_q"]  # the file names nothing else


def test_what_can_be_observed():
    model = made("tandem", count="q")
    assert model.visible == ("0", "1", "2", "3", "4")
    assert len(model.states_of("full")) == 5
    assert len(model.states_of(3)) == 5
    assert [model.states[k] for k in model.states_of("empty")] == ["s=0,q=0"]
    assert model.states_of("s=2,q=1") == [model.states.index("s=2,q=1")]
    some = model.states_of("s >= 2 and q + s = 4")
    columns = model.states.columns
    assert [(columns["s"][k], columns["q"][k]) for k in some] == [(2, 2), (3, 1), (4, 0)]
    A = st.Windows([1.0], [[1, 2]], observe=["full", "empty"]).observation(model)
    assert A.dense().sum(1).tolist() == [5, 1]
    with pytest.raises(InputError, match="'0' and 'full' are both state 's=4,q=0'"):
        st.Windows([1.0], [[1, 2]], observe=[0, "full"]).observation(model)
    with pytest.raises(InputError, match=r"'9' is not in the model: .*counted as 0..4"):
        model.states_of(9)


def test_a_number_is_no_position():
    model = made("tandem")  # two variables: which of them would 0 be?
    with pytest.raises(InputError, match=r"state '0' is not.*labels full, empty.*count="):
        st.Windows([1.0], [[1, 2]], observe=[0, 1]).observation(model)
    with pytest.raises(InputError, match="label 'never' holds in no reachable state"):
        made("repair").states_of("never")
    assert "never" not in made("repair").measures
