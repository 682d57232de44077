"""What a plan says: bounds, limits, and when a load that grows reaches one."""

import math
from datetime import date
from types import SimpleNamespace

import pytest

import stationary as st
from stationary import words
from stationary.errors import InputError
from stationary.planning.limits import Limit
from stationary.terms.growth import Growth
from stationary.terms.slo import Slo
from stationary.words.plans import outlying_windows, service

LOSS, P99 = Slo.parse("loss<0.1%"), Slo.parse("p99<200ms")
TODAY = date(2026, 1, 1)


def limit(load, low, high, *slos, present=100.0):
    slos = slos or (LOSS,)
    return Limit(slos, slos[0], load, low, high, present=present)


@pytest.mark.parametrize(
    ("text", "factor", "days"),
    [
        ("100%/day", 2.0, 1.0),
        ("10% per week", 1.1**3, 21.0),
        ("3%/month", 1.03**12, 365.25),
        ("50%/year", 1.5, 365.25),
        ("5%/quarter", 0.5, math.log(0.5) / math.log(1.05) * 365.25 / 4),
    ],
)
def test_growth_compounds(text, factor, days):
    assert Growth.parse(text).days_until(factor) == pytest.approx(days)


@pytest.mark.parametrize("text", ["3/month", "3%", "-3%/month", "0%/month", "3%/moon", "nan%/day"])
def test_growth_that_is_wrong(text):
    with pytest.raises(InputError, match="3%/month"):
        Growth.parse(text)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (limit(200.0, 150.0, 400.0), "12 months: January 2027 (August 2026 to January 2028)."),
        (limit(200.0, 90.0, math.inf), "(now to more than a century from now)."),
        (limit(90.0, 80.0, 95.0), "has reached the limit already."),
        (limit(102.0, 101.0, 103.0), "10 days: 11 January 2026 (06 January 2026 to 16 January"),
    ],
)
def test_when_growth_uses_a_limit_up(found, said):
    share = 2 ** (1 / 12) - 1
    assert said in words.used_up(found, Growth(share, "month"), TODAY)


def test_the_answer_names_every_bound_and_the_one_that_binds():
    both = limit(120.0, 110.0, 130.0, P99, LOSS)
    text = words.plan_answer(both, [both, limit(150.0, 140.0, 160.0)], "req/s")
    assert text == (
        "p99 < 200 ms and loss < 0.1% hold up to 120 req/s (95% interval 110 to 130). "
        "p99 is missed first; loss < 0.1% alone would hold up to 150 (140 to 160)."
    )
    assert words.plan_answer(limit(0.0, 0.0, 0.0)) == "Loss < 0.1% holds at no load."
    assert words.plan_answer(limit(math.inf, 90.0, math.inf)) == (
        "Loss < 0.1% holds at any load (95% interval 90 to any)."
    )


@pytest.mark.parametrize(
    ("sampling", "said"),
    [
        ("time", "Queue lengths at regular times in 2 windows, at loads of 5 to 7 req/s."),
        ("arrival", "Queue lengths that requests found in 2 windows, at loads of 5 to 7 req/s."),
    ],
)
def test_what_an_answer_rests_on_says_how_states_were_counted(sampling, said):
    windows = st.Windows([5.0, 7.0], [[9, 1], [7, 3]], [0, 1], sampling=sampling)
    assert words.sentence(words.rests_on(windows, "req/s")) == said


@pytest.mark.parametrize(
    ("in_seconds", "overhead", "said"),
    [
        (True, 0.0, "serving a request takes 20 ms (standard deviation 10 ms)"),
        (
            True,
            0.001,
            "serving a request takes 20 ms (standard deviation 10 ms); another 1 ms passes outside "
            "the queue",
        ),
        (
            False,  # loads per minute, for instance
            0.001,
            "serving a request takes 0.02 (standard deviation 0.01); another 0.001 passes outside "
            "the queue",
        ),
    ],
)
def test_what_a_service_takes_is_in_seconds_only_where_times_are(in_seconds, overhead, said):
    learnt = {"service_rate": 50.0, "variability": 0.25, "overhead": overhead}
    found = SimpleNamespace(change=None, estimates=learnt, in_seconds=in_seconds)
    assert service(found) == said


@pytest.mark.parametrize(
    ("far", "weights", "said"),
    [
        ([], None, ""),
        ([1], None, "window 2 (load 7) is {}"),
        ([1], [1, 0.1], "window 2 (load 7) is {} and counts little"),
        ([0, 1], None, "windows 1 (load 5) and 2 (load 7) are {}"),
    ],
)
def test_windows_out_of_the_ordinary_are_named(far, weights, said):
    windows = st.Windows([5.0, 7.0], [[9, 1], [7, 3]], [0, 1])
    windows = windows if weights is None else windows.weighed(weights)
    named = outlying_windows(SimpleNamespace(outlying=far, windows=windows))
    assert named == said.format("unlike others at nearly the same load")
