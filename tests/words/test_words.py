"""Sentences about results: one for every outcome, complete, and with its numbers in it."""

import math
import pkgutil
import subprocess
import sys
from dataclasses import replace

import pytest

from stationary import words
from stationary.learning.estimate import End, Ended
from stationary.terms.findings import Finding, Verdict
from stationary.terms.trust import Choice, Chosen, Doubt, Horizon, Reach, Reason
from stationary.trust import checks
from stationary.trust.identifiability import Direction, DirectionKind
from stationary.words.findings import _ANY_CHECK, _SENTENCES

SHIFT = {"size": 2.13, "more": True, "unit": "requests"}
LASTS = {
    "times": 1.3,
    "duration": 1.0,
    "estimated": False,
    "relaxation": 0.77,
    "load": 15.0,
    "enough": 7.7,
    "intervals_allow": True,
}
QUEUES = {
    "times": False,
    "load": 6.0,
    "category": "4",
    "or_more": True,
    "observed": 0.06,
    "expected": 0.02,
    "arrives_alone": True,
    "sampling": "time",
    "slightly": False,
}
RANGE = {
    "measure": "response_time",
    "inputs": {"load": 40.0},
    "value": 0.2,
    "low": 0.1,
    "high": 0.3,
    "nats": 2.0,
}
RATE = {"parameter": "service_rate", "change": 0.41, "relative": True}

# Check, code, facts, and what the sentences must name.
OUTCOMES = [
    ("overtaking", "no_requests", {}, "no service times"),
    ("overtaking", "in_order", {"share": 0.0}, "that service in turn allows"),
    ("overtaking", "overtake", {"share": 0.12}, "12%"),
    ("overtaking", "overtake_several", {"share": 0.12, "servers": 4}, "more than 4 servers"),
    ("servers", "no_requests", {}, "no service times"),
    ("servers", "servers_fit", {"servers": 4}, "than 4"),
    ("servers", "other_servers", {"servers": 2, "better": 3}, "were 3, not 2"),
    ("steady state", "pooled", {"recorded": 600}, ["600", "pooled"]),
    ("drift", "few_windows", {"windows": 1, "fewest": 8}, ["8 windows", "has 1"]),
    ("drift", "no_states", {}, ["states"]),
    ("steady state", "duration_unknown", {}, ["--duration", "Windows(duration=...)"]),
    ("steady state", "too_many_states", {"states": 4096, "most": 1000}, ["4096"]),
    ("steady state", "relaxation_unknown", {}, ["slowly"]),
    ("steady state", "long_enough", LASTS, ["1.3 times", "load 15", "long enough"]),
    ("steady state", "long_enough", LASTS | {"estimated": True}, ["about 1 against"]),
    ("steady state", "too_short", LASTS, ["too short", "intervals allow", "7.7 or longer"]),
    ("steady state", "too_short", LASTS | {"intervals_allow": False}, ["Successive windows"]),
    ("drift", "ordered_by_load", {}, ["mixed order"]),
    ("drift", "no_drift", {"windows": 60}, ["60"]),
    ("drift", "drifted", SHIFT, ["fuller or slower by 2.1 requests on average", "changed"]),
    ("drift", "drifted", SHIFT | {"more": False}, ["emptier or faster by 2.1 requests"]),
    ("drift", "drifted", SHIFT | {"unit": "categories"}, ["slower by 2.1 categories"]),
    ("serial correlation", "uncorrelated", {"autocorrelation": -0.031}, ["-0.03"]),
    (
        "serial correlation",
        "correlated",
        {"autocorrelation": 0.62, "windows": 150, "block": 12},
        ["0.62", "150", "blocks of about 12"],
    ),
    ("hysteresis", "few_moves", {"rises": 1, "falls": 0}, ["1 time ", "0 times", "mixed order"]),
    ("hysteresis", "same_change", {}, ["same change", "mixed order"]),
    ("hysteresis", "no_memory", {}, ["rise", "fall"]),
    ("hysteresis", "remembers", SHIFT | {"more": False}, ["faster by 2.1 requests", "Lengthen"]),
    ("bursts", "not_a_queue", {}, ["not a queue"]),
    ("bursts", "no_bursts", {}, ["no bursts"]),
    ("bursts", "totals_vary", {"dispersion": 1.84}, ["1.8 times", "Poisson", "bursts"]),
    ("bursts", "totals_poisson", {"dispersion": 1.02}, ["1", "Poisson"]),
    ("bursts", "load_counted", {"dispersion": 0.012}, ["0.012", "the load was counted"]),
    ("bursts", "two_categories", {}, ["three"]),
    ("bursts", "few_light_windows", {"windows": 3, "fewest": 6}, ["has 3", "6"]),
    ("bursts", "long_queues", QUEUES, ["up to 6", "4 or more", "3 times as often", "single"]),
    (
        "bursts",
        "long_queues",
        QUEUES | {"sampling": "arrival", "arrives_alone": False, "or_more": False},
        ["3 times as many requests", "the model's arrivals", "found 4 others"],
    ),
    ("bursts", "long_queues", QUEUES | {"expected": 0.0}, ["more than 1000 times"]),
    ("bursts", "usual_queues", QUEUES, ["4 or more", "no more frequent"]),
    ("bursts", "usual_queues", QUEUES | {"slightly": True}, ["hardly more frequent"]),
    ("service rate", "load_not_positive", {}, ["not positive"]),
    ("service rate", "one_load", {}, ["same load"]),
    ("service rate", "little_information", {}, ["too little"]),
    ("service rate", "rate_constant", {"parameter": "service_rate"}, ["same service rate"]),
    ("service rate", "rate_changes", RATE, ["service rate", "rises by 41%", "load doubles"]),
    (
        "service rate",
        "rate_changes",
        RATE | {"change": -0.12, "relative": False},
        ["falls by 0.12 when"],
    ),
    ("lack of fit", "rare_categories", {"least": 0.01}, ["1%", "Combine"]),
    ("lack of fit", "fits", {"windows": 60}, ["60 windows"]),
    (
        "lack of fit",
        "misfit",
        {"low": 11.0, "high": 12.5, "category": "3", "observed": 0.123, "predicted": 0.08},
        ["11 to 12.5", "category 3", "12.3%", "8%", "other models"],
    ),
    (
        "parameters",
        "determined",
        {"rank": 1, "parameters": 1, "barely": 0},
        ["the only parameter."],
    ),
    ("parameters", "undetermined", {"rank": 0, "parameters": 1, "barely": 0}, ["do not"]),
    ("parameters", "undetermined", {"rank": 3, "parameters": 4, "barely": 1}, ["3 of 4", "1 of"]),
    (
        "parameters",
        "answers_determined",
        {"rank": 1, "parameters": 2, "barely": 0},
        ["1 of 2", "all the same"],
    ),
    ("measure", "determined", RANGE, ["response time at load 40", "0.1 and 0.3", "at most 2"]),
    ("parameters", "not_searched", {"rank": 2, "parameters": 4, "barely": 0}, ["2 of 4", "limit"]),
    ("measure", "not_searched", RANGE, ["between 0.1 and 0.3", "may be wider", "fewer loads"]),
    ("measure", "undetermined", RANGE | {"high": None}, ["above 0.1", "do not determine"]),
    ("measure", "undetermined", RANGE | {"low": None}, ["below 0.3"]),
    ("measure", "undetermined", RANGE | {"low": None, "high": None}, ["lies anywhere."]),
    ("convergence", "not_converged", {}, ["did not converge"]),
]


@pytest.mark.parametrize(("check", "code", "facts", "named"), OUTCOMES)
def test_every_outcome_has_its_sentences(check, code, facts, named):
    found = Finding(check, Verdict.OK, code, facts)
    text = words.finding(found)
    assert [part for part in named if part not in text] == []
    assert text[0].isupper()
    assert text.endswith(".")
    assert "nan" not in text
    first = words.clause(found)
    assert first[0].islower()
    assert not first.endswith(".")
    assert ". " not in first
    assert text.lower().startswith(first.lower())


def test_the_table_has_every_outcome():
    shown = {(check, code) for check, code, *_ in OUTCOMES}
    own = {(check, code) for check, outcomes in _SENTENCES.items() for code in outcomes}
    assert own <= shown
    assert set(_ANY_CHECK) <= {code for _, code in shown}
    files = [m.name for m in pkgutil.iter_modules(checks.__path__) if m.name[0] != "_"]
    assert {name.replace("_", " ") for name in files} < set(_SENTENCES)


def test_the_parts_of_bursts_are_joined():
    parts = [{"code": "load_counted", "dispersion": 0.01}, {"code": "usual_queues", **QUEUES}]
    found = Finding("bursts", Verdict.OK, "load_counted", {"parts": parts})
    text = words.finding(found)
    assert "the load was counted from it. At light load" in text
    assert words.clause(found).endswith("the load was counted from it")


ALONE, FACTOR = DirectionKind.ALONE, DirectionKind.COMMON_FACTOR
TOGETHER, ZERO = DirectionKind.COMBINATION, DirectionKind.AT_ZERO


def direction(kind, *names, **rest):
    return Direction(kind, dict.fromkeys(names, 1.0), 0.0, raised=names, **rest)


@pytest.mark.parametrize(
    ("found", "named"),
    [
        (direction(ALONE, "q_3_2"), ["nothing about q_3_2", "depends on it."]),
        (direction(ALONE, "slow", nearly=True), ["hardly determine slow."]),
        (direction(FACTOR, "a", "b"), ["a and b by one common factor", "changes nothing"]),
        (direction(FACTOR, "a", "b", nearly=True), ["hardly changes"]),
        (direction(FACTOR, *(f"r{k}" for k in range(9))), ["r0, r1, r2 and 6 more by one"]),
        (direction(TOGETHER, "a", lowered=("b",)), ["Raising a while lowering b", "combination"]),
        (direction(TOGETHER, "a", "b"), ["Raising a and b together"]),
        (direction(ZERO, "rate_2", at_most=1.234), ["rate_2 is zero", "up to 1.23"]),
        (direction(ZERO, "rate_2", at_most=math.inf), ["any value explains"]),
        (direction(ZERO, "rate_2"), ["only while the others stay"]),
    ],
)
def test_every_kind_of_direction_has_its_sentence(found, named):
    text = words.direction(found)
    assert [part for part in named if part not in text] == []
    assert text.endswith(".")


def test_parameters_that_are_open_alone_share_a_sentence():
    found = [direction(ALONE, "a"), direction(FACTOR, "b", "c"), direction(ALONE, "d")]
    first, second = words.directions(found)
    assert "a and d" in first
    assert "depends on them" in first
    assert second == words.direction(found[1])
    many = words.directions([direction(FACTOR, "b", "c")] * 8, most=5)
    assert len(many) == 6
    assert "3 more" in many[-1]


def test_words_load_no_numerical_library():
    script = (
        "import sys\n"
        "for name in ('torch', 'numpy', 'pandas'): sys.modules[name] = None\n"
        "import stationary.words\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.parametrize("why", [*End, *Reach, *Chosen, *Reason])
def test_every_end_horizon_choice_and_doubt_has_words(why):
    finding = Finding("drift", Verdict.OK, "no_drift", {"windows": 9})
    facts = {"cut": 5.0, "share": 0.02, "low": 1.0, "high": 9.0, "states": 30.0}
    horizon = Horizon(9.0, why, facts, 9.0, finding if why is Reach.FINDING else None)
    choice = Choice(why, "a", "b", "c", 0.01, 1.0, 9.0)
    parts = replace(horizon, why=Reach.TOO_FEW), replace(choice, why=Chosen.RIVAL)
    make = {
        End: lambda: words.ended(Ended(why, False, "mu", 1.0, 3, 2, 0.1)),
        Reach: lambda: words.horizon(horizon),
        Chosen: lambda: words.choice(choice),
        Reason: lambda: words.doubt(Doubt(why, "loss", *parts)),
    }
    assert make[type(why)]()
