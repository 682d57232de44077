"""What checks found, in sentences.

Each outcome has a function of its facts, which returns its statements: clauses in lower case and
without a full stop. The first one says what was found and can stand inside another sentence; the
others give its cause and what to do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from stationary.words.numbers import load_range, number, percent, plain, plural, sentence

if TYPE_CHECKING:
    from stationary.terms.findings import Finding

Facts = Mapping[str, Any]
Statements = tuple[str, ...]

_MIXED = "record loads in mixed order"


def finding(found: Finding) -> str:
    """Return what a check found, in one or more sentences.

    Examples
    --------
    >>> from stationary.terms.findings import Check, Finding, Verdict
    >>> finding(Finding(Check.DRIFT, Verdict.OK, "no_drift", {"windows": 60}, 0.4))
    'Nothing drifts from the first to the last of 60 windows.'
    """
    return " ".join(map(sentence, _statements(found)))


def clause(found: Finding) -> str:
    """Return the first statement of a finding, to stand inside another sentence."""
    return _statements(found)[0]


def _statements(found: Finding) -> Statements:
    outcomes = _OUTCOMES[found.check]
    parts = found.facts.get("parts")
    if parts:
        return tuple(text for part in parts for text in outcomes[part["code"]](part))
    outcome = outcomes.get(found.code) or _ANY_CHECK[found.code]
    return outcome(found.facts)


def _pooled(facts: Facts) -> Statements:
    return (
        f"this check needs single windows in the order of recording, but "
        f"{facts['recorded']} windows were pooled while they were read",
        "read a part of them without pooling to run it",
    )


def _few_windows(facts: Facts) -> Statements:
    return (
        f"this check needs at least {facts['fewest']} windows, and there {_are(facts['windows'])}",
        "record more windows",
    )


def _are(count: int) -> str:
    return f"{'is' if count == 1 else 'are'} {count}"


def _no_states(_: Facts) -> Statements:
    return (
        "no window counts states of the system, which this check needs",
        "record how many requests are in the system",
    )


# Steady state.


def _duration_unknown(_: Facts) -> Statements:
    return (
        "the length of a window is not known, so it cannot be compared with the time that the "
        "system takes to forget its state",
        "pass --duration (in Python, Windows(duration=...)), in the unit of time of the loads",
    )


def _too_many_states(facts: Facts) -> Statements:
    return (
        f"the model has {facts['states']} states, too many to compute the time that it takes to "
        f"forget its state",
    )


def _relaxation_unknown(_: Facts) -> Statements:
    return (
        "the fitted model moves so slowly that the time it takes to forget its state cannot be "
        "computed",
    )


def _lasts(facts: Facts) -> str:
    about = "about " if facts["estimated"] else ""
    return (
        f"a window lasts {number(facts['times'], 3)} times as long as the system takes to forget "
        f"its state ({about}{number(facts['duration'], 3)} against "
        f"{number(facts['relaxation'], 2)}, at load {number(facts['load'])})"
    )


def _long_enough(facts: Facts) -> Statements:
    return (f"{_lasts(facts)}, which is long enough",)


def _too_short(facts: Facts) -> Statements:
    alike = "successive windows of one run resemble one another"
    if facts["intervals_allow"]:
        alike = (
            f"the intervals allow for this, because they go by the spread between windows, but "
            f"{alike}"
        )
    return (
        f"{_lasts(facts)}, which is too short for a steady state of its own",
        alike,
        f"windows of {number(facts['enough'], 2)} or longer would help",
    )


# The order of the windows.


def _ordered_by_load(_: Facts) -> Statements:
    return (
        "the load itself rises or falls over the whole recording, so a drift of the system cannot "
        "be told from the effect of the load",
        _MIXED,
    )


def _no_drift(facts: Facts) -> Statements:
    return (f"nothing drifts from the first to the last of {facts['windows']} windows",)


def _show(facts: Facts) -> str:
    """By how much some windows are fuller or emptier than others."""
    size = number(facts["size"], 2)
    if facts["unit"] == "requests":
        return f"show {size} {'more' if facts['more'] else 'fewer'} requests on average"
    place = "higher" if facts["more"] else "lower"
    return f"show a mean category that is {size} places {place}"


def _drifted(facts: Facts) -> Statements:
    return (
        f"at equal load the last windows {_show(facts)} than the first, so the system changed "
        f"while it was recorded",
        "fit the latest part alone, or find out what changed",
    )


def _uncorrelated(facts: Facts) -> Statements:
    return (
        f"successive windows resemble one another no more than other windows do (autocorrelation "
        f"{facts['autocorrelation']:.2f})",
    )


def _correlated(facts: Facts) -> Statements:
    return (
        f"successive windows resemble one another (autocorrelation "
        f"{facts['autocorrelation']:.2f}), so the intervals are too narrow",
        f"together they tell less than {facts['windows']} independent windows would",
        f"bootstrap blocks of about {facts['block']} windows, or record longer windows",
    )


_PAST = "so the effect of earlier windows cannot be told from that of the load"


def _few_moves(facts: Facts) -> Statements:
    return (
        f"the load rises {plural(facts['rises'], 'time')} and falls "
        f"{plural(facts['falls'], 'time')} from one window to the next, {_PAST}",
        _MIXED,
    )


def _same_change(_: Facts) -> Statements:
    return f"every load comes after the same change of load, {_PAST}", _MIXED


def _no_memory(_: Facts) -> Statements:
    return ("windows just after a rise of load look like those just after a fall",)


def _remembers(facts: Facts) -> Statements:
    return (
        f"at equal load, windows just after a rise of load {_show(facts)} than those just after a "
        f"fall",
        "either the system remembers the window before, or the load of a window is measured with "
        "errors",
        "lengthen the windows, or leave out the time after a change of load",
    )


# Bursts.


def _not_a_queue(_: Facts) -> Statements:
    return ("the model is not a queue, so it says nothing about arrivals",)


def _no_bursts(_: Facts) -> Statements:
    return ("arrivals show no bursts that matter",)


def _dispersion(facts: Facts) -> str:
    return f"variance over mean: {number(facts['dispersion'], 2)}"


def _totals_vary(facts: Facts) -> Statements:
    return (
        f"the number of requests in a window varies {number(facts['dispersion'], 2)} times as much "
        f"as with Poisson arrivals at the load, so arrivals come in bursts or the load changes "
        f"inside windows",
    )


def _totals_poisson(facts: Facts) -> Statements:
    return (
        f"the number of requests in a window varies as it does with Poisson arrivals "
        f"({_dispersion(facts)})",
    )


def _load_counted(facts: Facts) -> Statements:
    return (
        f"the number of requests in a window says nothing about bursts: it follows the load more "
        f"closely than Poisson arrivals do ({_dispersion(facts)}), so the load was counted from it",
    )


def _two_categories(_: Facts) -> Statements:
    return (
        "fewer than three observed categories show how busy the system is, but not how queues "
        "build up",
        "observe three or more to see bursts",
    )


def _few_light_windows(facts: Facts) -> Statements:
    return (
        f"bursts can be seen in {facts['fewest']} or more windows at light load, and there "
        f"{_are(facts['windows'])}",
        "record more windows at light load",
    )


def _depth(facts: Facts) -> str:
    return f"{facts['category']} or more" if facts["or_more"] else f"{facts['category']}"


def _long_queues(facts: Facts) -> Statements:
    observed, expected = facts["observed"], facts["expected"]
    times = "more than 1000 times"
    if observed < 1000 * expected:
        times = f"{number(observed / expected, 2)} times"
    arrivals = "single Poisson arrivals" if facts["arrives_alone"] else "the model's arrivals"
    seen = f"the system held {_depth(facts)} requests {times} as often as with {arrivals}"
    if facts["sampling"] == "arrival":
        seen = f"{times} as many requests as with {arrivals} found {_depth(facts)} others"
    return (
        f"at light load (up to {number(facts['load'])}), {seen}, so arrivals come in bursts or "
        f"service is erratic",
    )


def _usual_queues(facts: Facts) -> Statements:
    return (
        f"at light load (up to {number(facts['load'])}), queues of {_depth(facts)} are "
        f"{'hardly' if facts['slightly'] else 'no'} more frequent than the model says",
    )


# The service rate.


def _load_not_positive(_: Facts) -> Statements:
    return ("some loads are not positive, so there is no effect of a doubled load to test",)


def _one_load(_: Facts) -> Statements:
    return "all windows have the same load", "record several loads to run this check"


def _little_information(_: Facts) -> Statements:
    return ("the windows say too little about any parameter",)


def _rate_constant(facts: Facts) -> Statements:
    name = plain(facts["parameter"])
    return (f"the windows imply the same {name} at every load, as far as they can tell",)


def _rate_changes(facts: Facts) -> Statements:
    size = abs(facts["change"])
    shown = percent(size) if facts["relative"] else number(size, 2)
    return (
        f"the {plain(facts['parameter'])} that the windows imply "
        f"{'rises' if facts['change'] > 0 else 'falls'} by {shown} when the load doubles, while "
        f"the model keeps it the same",
        "a forecast beyond the observed loads uses a wrong value",
    )


# Lack of fit.


def _rare_categories(facts: Facts) -> Statements:
    return (
        f"no category has more than {percent(facts['least'])} of the counts",
        "combine several categories into one",
    )


def _fits(facts: Facts) -> Statements:
    return (
        f"at the observed loads the model gives the observed shares, as far as "
        f"{facts['windows']} windows can tell",
    )


def _misfit(facts: Facts) -> Statements:
    return (
        f"the model does not fit the loads it saw (at load "
        f"{load_range(facts['low'], facts['high'])}, category {facts['category']} has "
        f"{percent(facts['observed'])} of the counts, but "
        f"{percent(facts['predicted'])} by the model)",
        "compare other models before you believe a forecast",
    )


# What the data determine.


def _rank(facts: Facts) -> str:
    rank, parameters, barely = facts["rank"], facts["parameters"], facts["barely"]
    if parameters == 1:
        roughly = " only roughly" * bool(barely)
        return f"the data {'' if rank else 'do not '}determine the only parameter{roughly}"
    roughly = f", {barely} of them only roughly" if barely else ""
    return (
        f"the data determine {rank} of {parameters} independent directions of the "
        f"parameters{roughly}"
    )


def _parameters(facts: Facts) -> Statements:
    return (_rank(facts),)


def _answers_determined(facts: Facts) -> Statements:
    return _rank(facts), "the measures that were asked for are determined all the same"


def _measure(facts: Facts) -> Statements:
    return (
        f"among parameters that explain the data almost as well as the best ones "
        f"({likelihood_loss(facts['nats'])}), {measure_range(facts)}",
    )


def _open_measure(facts: Facts) -> Statements:
    return *_measure(facts), "the data do not determine it"


def _not_converged(_: Facts) -> Statements:
    return ("the fit did not converge",)


def likelihood_loss(nats: float) -> str:
    """Return by how much a log-likelihood may be lower than the best one."""
    return f"a log-likelihood at most {number(nats)} lower"


def measure_range(facts: Facts) -> str:
    """Return between which ends a measure lies; an end of None is open."""
    where = ", ".join(f"{name} {number(value)}" for name, value in facts["inputs"].items())
    low, high = facts["low"], facts["high"]
    ends = "anywhere"
    if low is not None and high is not None:
        ends = f"between {number(low, 3)} and {number(high, 3)}"
    elif low is not None:
        ends = f"anywhere above {number(low, 3)}"
    elif high is not None:
        ends = f"anywhere below {number(high, 3)}"
    return f"{plain(facts['measure'])} at {where} lies {ends}"


_ANY_CHECK: dict[str, Callable[[Facts], Statements]] = {
    "pooled": _pooled,
    "few_windows": _few_windows,
    "no_states": _no_states,
}

_OUTCOMES: dict[str, dict[str, Callable[[Facts], Statements]]] = {
    "steady state": {
        "duration_unknown": _duration_unknown,
        "too_many_states": _too_many_states,
        "relaxation_unknown": _relaxation_unknown,
        "long_enough": _long_enough,
        "too_short": _too_short,
    },
    "drift": {
        "ordered_by_load": _ordered_by_load,
        "no_drift": _no_drift,
        "drifted": _drifted,
    },
    "serial correlation": {"uncorrelated": _uncorrelated, "correlated": _correlated},
    "hysteresis": {
        "few_moves": _few_moves,
        "same_change": _same_change,
        "no_memory": _no_memory,
        "remembers": _remembers,
    },
    "bursts": {
        "not_a_queue": _not_a_queue,
        "no_bursts": _no_bursts,
        "totals_vary": _totals_vary,
        "totals_poisson": _totals_poisson,
        "load_counted": _load_counted,
        "two_categories": _two_categories,
        "few_light_windows": _few_light_windows,
        "long_queues": _long_queues,
        "usual_queues": _usual_queues,
    },
    "service rate": {
        "load_not_positive": _load_not_positive,
        "one_load": _one_load,
        "little_information": _little_information,
        "rate_constant": _rate_constant,
        "rate_changes": _rate_changes,
    },
    "lack of fit": {"rare_categories": _rare_categories, "fits": _fits, "misfit": _misfit},
    "parameters": {
        "determined": _parameters,
        "answers_determined": _answers_determined,
        "undetermined": _parameters,
    },
    "measure": {"determined": _measure, "undetermined": _open_measure},
    "convergence": {"not_converged": _not_converged},
}
