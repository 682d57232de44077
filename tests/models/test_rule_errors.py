"""What is wrong with rules is said, and where."""

import pytest

from rule_models import TANDEM
from stationary.errors import InputError, RateError
from stationary.models import RuleModel

WRONG = [
    ({"rules": {"a": "q1 += 1 at load"}}, r"rule 'a': in state q1=4,q2=0 it would make q1 = q1 \+ 1"
     r" = 5, outside its range 0..4: forbid it with a guard such as 'q1 < 4 -> ...'"),
    ({"rules": {"a": "q1 < K -> q1 += 1 / 2 at load"}}, r"= 0.5, and a variable is a whole number"),
    ({"rules": {"a": "q1 < Z -> q1 += 1 at load"}}, r"rule 'a', column 6: there is no 'Z' here"),
    ({"rules": {"a": "q1 < mu1 -> q1 += 1 at load"}}, "column 6: there is no 'mu1' here"),
    ({"rules": {"a": "q1 + 1 -> q1 += 1 at load"}}, "column 1: this must be a condition"),
    ({"rules": {"a": "q1 < K -> load += 1 at load"}}, "expected a change such as 'q1"),
    ({"rules": {"a": "q1 < K -> q1 += 1, q1 = 2 at load"}}, "q1 is changed twice"),
    ({"rules": {"a": "q1 < K -> q1 += 1"}}, "column 18: a rule is 'GUARD -> CHANGES at RATE'"),
    ({"rules": {"a": "q1 < K -> q1 += 1 at q1 > 2"}}, "column 22: this must be a number"),
    ({"rules": {"a": "q1 += 1 else lost at load"}}, "'else lost' needs a guard"),
    ({"rules": {"a": "q1 < K -> q1 += 1 else q2 += 1 at load"}}, "'else' needs 'lost'; got 'q2'"),
    ({"rules": {"a": 3}}, "rule 'a': it must be a text; got 3"),
    ({"rules": {}}, "rules: it must be a table of names"),
    ({"rules": {"a": "q1 > 9 -> q1 -= 1 at 1"}},
     "the rules never leave the first state, q1=0,q2=0"),
    ({"rules": {"a": "q1 < 2 -> q1 += 1 at load"}},
     r"the chain leaves \{q1=0,q2=0; q1=1,q2=0\} for ever, and ends in \{q1=2,q2=0\}"),
    ({"rules": {"a": "q1 = 0 -> q1 += 1 at 1", "b": "q1 = 0 -> q2 = 1, q1 = 2 at 1"}},
     r"2 sets of states that it never leaves, such as \{q1=.,q2=.\} or \{q1=.,q2=.\}: its"),
    ({"variables": {"q1": (0, "K")}}, "there is no 'q2' here"),
    ({"variables": {"q1": 3, "q2": (0, 1)}}, "variable 'q1': it must be a pair"),
    ({"variables": {"q1": (3, 1), "q2": (0, 1)}}, "its range must go up; got 3 to 1"),
    ({"variables": {"q1": (0, "K / 3"), "q2": (0, 1)}}, "it needs a whole number; got 'K / 3'"),
    ({"variables": {"q1": (0, 10**9), "q2": (0, 10**10)}}, "at most 2\\*\\*62"),
    ({"variables": {"if": (0, 1)}}, "variable 'if': formulas and rules use this word"),
    ({"variables": {"q 1": (0, 1)}}, "a name is letters, digits and _"),
    ({"constants": {3: 4}}, "constant '3': it must be a name; got 3"),
    ({"constants": {"K": "4"}}, "constant 'K': it must be a finite number; got '4'"),
    ({"constants": {"K": 4, "L": 3, "servers": 2, "mu1": 2}}, "params has this name already"),
    ({"constants": {"count": 4}}, "constant 'count': every model has this name already"),
    ({"params": {"mu1": True, "mu2": 1.0}}, "parameter 'mu1': it must be a finite number"),
    ({"params": {"mu1": -1.0, "mu2": 1.0}}, "parameter mu1 must be positive"),
    ({"start": {"q1": 7}}, "q1 = 7 is outside its range 0..4"),
    ({"start": {"q": 7}}, "there is no variable 'q'; did you mean 'q2'"),
    ({"count": "q1 > 2"}, "count, column 1: this must be a number"),
    ({"count": "mu1"}, "there is no 'mu1' here"),
    ({"arrivals": "arive"}, "there is no rule 'arive'; did you mean 'arrive'"),
    ({"arrivals": ["leave"]}, "'arrive' says 'else lost', so requests arrive by it"),
    ({"measures": {"m": "q1 +"}}, "measure 'm', column 5"),
    ({"inputs": "load"}, "inputs: it must be a list of names"),
    ({"Z": 3}, "no constant or parameter 'Z'"),
    ({"count": "log(q1)"}, r"count: log\(q1\) is -inf in state q1=0,q2=0, and must be finite"),
    ({"jobs": "1 / (q1 - 1)"}, r"jobs: 1 / \(q1 - 1\) is inf in state q1=1,q2=0"),
    ({"measures": {"m": "sqrt(q2 - 1)"}}, r"measure 'm': sqrt\(q2 - 1\) is nan in state q1=0,q2=0"),
    ({"constants": {"K": 10**400}}, "constant 'K': it must be a finite number; got 1000"),
    ({"params": {"mu1": 10**5000}}, "'mu1': it must be a finite number; got a number of thousands"),
    ({"variables": {"q1": (0, 10**400)}}, "variable 'q1': it must be a finite number"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "message"), WRONG, ids=[m[:30] for _, m in WRONG])
def test_what_is_wrong_is_said(change, message):
    with pytest.raises(InputError, match=message):
        RuleModel(**{**TANDEM, **change})


def test_a_bad_rate_is_blamed_on_its_rule():
    model = RuleModel(
        {"n": (0, 3)},
        {"arrive": "n < 3 -> n += 1 at load", "serve": "n > 0 -> n -= 1 at mu * (2.5 - n)"},
        {"mu": 1.0},
    )
    with pytest.raises(RateError, match=r"rule 'serve' has the rate -0.5 in state 'n=3' at load=2"):
        model([2.0])


def test_too_many_states_are_refused(monkeypatch):
    monkeypatch.setattr("stationary.models.rules.states.MOST_STATES", 1000)
    monkeypatch.setattr("stationary.models.rules.states._AT_ONCE", 10)
    with pytest.raises(InputError, match="the rules reach more than 1000 states"):
        RuleModel(**TANDEM, K=99, L=99)


def test_zero_has_one_name():
    model = RuleModel(**{**TANDEM, "count": "-q2"})
    assert model.visible == ("-3", "-2", "-1", "0")


@pytest.mark.parametrize(
    ("other", "named"),
    [
        (
            "n > 0 -> n -= 1 at 2 - n",
            r"rule 'other' has the rate -1 in state 'n=3' at load=1, mu=9",
        ),
        ("n < 3 -> n += 1 else lost at 2 - n", r"rule 'other' has the rate -1 in state 'n=3'"),
        ("n = 3 -> n = 3 at 2 - n", r"rule 'other' has the rate -1 in state 'n=3'"),
        ("n < 3 -> n += 1 else lost at 1 / (3 - n)", r"has the rate inf in state 'n=3'"),
    ],
)
def test_a_bad_rate_is_not_hidden_by_another_rule(other, named):
    rules = {"arrive": "n < 3 -> n += 1 at load", "serve": "n > 0 -> n -= 1 at mu", "other": other}
    model = RuleModel({"n": (0, 3)}, rules, {"mu": 9.0})
    with pytest.raises(RateError, match=named):
        model([1.0])


def test_many_variables_are_refused_before_memory_runs_out(monkeypatch):
    monkeypatch.setattr("stationary.models.rules.states._MOST_CELLS", 1_000_000)
    names = [f"v{k}" for k in range(61)]
    rules = {f"up_{v}": f"{v} = 0 -> {v} = 1 at load" for v in names}
    rules |= {f"down_{v}": f"{v} = 1 -> {v} = 0 at 1" for v in names}
    with pytest.raises(InputError, match="reach more than 5464 states, the most for 61 variables"):
        RuleModel(dict.fromkeys(names, (0, 1)), rules)


def test_states_are_the_same_however_the_search_is_cut(monkeypatch):
    whole = list(RuleModel(**TANDEM).states)
    monkeypatch.setattr("stationary.models.rules.states._AT_ONCE", 10)
    assert list(RuleModel(**TANDEM).states) == whole


def test_a_range_without_an_end_is_refused_soon(monkeypatch):
    monkeypatch.setattr("stationary.models.rules.states._MOST_STEPS", 1000)
    rules = {"arrive": "n < 10^9 -> n += 1 at load", "serve": "n > 0 -> n -= 1 at 1"}
    with pytest.raises(InputError, match=r"more than 1000 steps from.*narrow the ranges"):
        RuleModel({"n": (0, 10**9)}, rules)
