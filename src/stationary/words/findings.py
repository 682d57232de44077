"""What checks found, in sentences. Those of a new check go here.

`_SENTENCES` has, for every check and every code of its outcomes, what to say: clauses in lower case
and without a full stop. The first one says what was found and can stand inside another sentence;
the others give its cause and what to do. They are templates, filled with the facts of the finding:
``{load}`` as it is, ``{load:number}`` to four digits, ``{load:2}`` to two, ``{share:percent}``,
``{name:plain}`` without underscores, ``{rises:+time}`` a count of things, and one word or the other
for ``{more:fuller|emptier}``. Where clauses depend on the facts in other ways, a function makes
them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from string import Formatter
from typing import TYPE_CHECKING, Any

from stationary.words.numbers import load_range, number, percent, plain, plural, sentence

if TYPE_CHECKING:
    from stationary.terms.findings import Finding

Facts = Mapping[str, Any]
Clauses = tuple[str, ...]


def finding(found: Finding) -> str:
    """Return what a check found, in one or more sentences.

    >>> from stationary.terms.findings import Finding, Verdict
    >>> finding(Finding("drift", Verdict.OK, "no_drift", {"windows": 60}, 0.4))
    'Nothing drifts from the first to the last of 60 windows.'
    """
    return " ".join(map(sentence, _clauses(found)))


def clause(found: Finding) -> str:
    """Return the first clause of a finding, to stand inside another sentence."""
    return _clauses(found)[0]


def _clauses(found: Finding) -> Clauses:
    known = _ANY_CHECK | _SENTENCES[found.check]
    # A check may consist of several tests: each is a part with a code and facts of its own.
    parts = found.facts.get("parts") or [{"code": found.code, **found.facts}]
    texts: list[str] = []
    for part in parts:
        clauses = known[part["code"]]
        texts += clauses(part) if callable(clauses) else [_fill(text, part) for text in clauses]
    return tuple(texts)


class _Template(Formatter):
    def format_field(self, value: Any, spec: str) -> str:
        if spec.isdigit():
            return number(value, int(spec))
        if spec.startswith("+"):
            return plural(value, spec[1:])
        if "|" in spec:
            true, _, false = spec.partition("|")
            return true if value else false
        words: dict[str, Callable[[Any], str]] = {
            "number": number,
            "percent": percent,
            "plain": plain,
        }
        return words[spec](value) if spec in words else format(value, spec)


def _fill(text: str, facts: Facts) -> str:
    return _Template().vformat(text, (), facts)


# Clauses that depend on the facts.


def _long_queues(facts: Facts) -> Clauses:
    observed, expected = facts["observed"], facts["expected"]
    queue = _fill("{category}{or_more: or more|}", facts)
    times = "more than 1000 times"
    if observed < 1000 * expected:
        times = f"{number(observed / expected, 2)} times"
    arrivals = "single Poisson arrivals" if facts["arrives_alone"] else "the model's arrivals"
    seen = f"the system held {queue} requests {times} as often as with {arrivals}"
    if facts["sampling"] == "arrival":
        seen = f"{times} as many requests as with {arrivals} found {queue} others"
    if facts["times"]:
        seen = f"response times of {queue} are {times} as frequent as with {arrivals}"
    return (
        f"at light load (up to {number(facts['load'])}), {seen}, so arrivals come in bursts or "
        f"service times vary widely",
    )


def _rate_changes(facts: Facts) -> Clauses:
    size = abs(facts["change"])
    shown = percent(size) if facts["relative"] else number(size, 2)
    moves = "rises" if facts["change"] > 0 else "falls"
    return (
        f"the {plain(facts['parameter'])} that the windows imply {moves} by {shown} when the load "
        f"doubles, while the model keeps it the same",
        "a forecast beyond the observed loads uses a wrong value",
    )


def _misfit(facts: Facts) -> Clauses:
    at = load_range(facts["low"], facts["high"])
    shares = "{observed:percent} of the counts, but {predicted:percent} by the model"
    return (
        f"the model does not fit the loads it saw (at load {at}, category {facts['category']} has "
        f"{_fill(shares, facts)})",
        "compare other models before you trust a forecast",
    )


def _rank(facts: Facts) -> Clauses:
    rank, parameters, barely = facts["rank"], facts["parameters"], facts["barely"]
    if parameters == 1:
        roughly = " only roughly" * bool(barely)
        return (f"the data {'' if rank else 'do not '}determine the only parameter{roughly}",)
    roughly = f", {barely} of them only roughly" if barely else ""
    return (
        f"the data determine {rank} of {parameters} independent directions of the "
        f"parameters{roughly}",
    )


def _measure(facts: Facts) -> Clauses:
    return (
        f"among parameters that explain the data almost as well as the best ones "
        f"({likelihood_loss(facts['nats'])}), {measure_range(facts)}",
    )


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


_MIXED = "record loads in mixed order"
_WINDOW = (
    "{times:3} times as long as the system takes to forget its state "
    "({estimated:about |}{duration:3} against {relaxation:2}, at load {load:number})"
)
_DIFFERENCE = "are {more:fuller or slower|emptier or faster} by {size:2} {unit} on average"
_CONFOUNDED = "so the effect of earlier windows cannot be separated from that of the load"
_CUT_SHORT = (
    "the search for its ends reached its limit of work, so that the range may be wider",
    "ask about fewer loads, or use a model with fewer parameters",
)

_ANY_CHECK: dict[str, Clauses | Callable[[Facts], Clauses]] = {
    "pooled": (
        "this check needs single windows in the order of recording, but {recorded} windows were "
        "pooled while they were read",
        "read a part of them without pooling to run it",
    ),
    "few_windows": (
        "this check needs at least {fewest} windows, and has {windows}",
        "record more windows",
    ),
    "no_states": (
        "no window counts states of the system, which this check needs",
        "record how many requests are in the system",
    ),
}

_SENTENCES: dict[str, dict[str, Clauses | Callable[[Facts], Clauses]]] = {
    "steady state": {
        "duration_unknown": (
            "the length of a window is not known, so it cannot be compared with the time that the "
            "system takes to forget its state",
            "pass --duration (in Python, Windows(duration=...)), in the unit of time of the loads",
        ),
        "too_many_states": (
            "the model has {states} states, too many to compute the time that it takes to forget "
            "its state",
        ),
        "relaxation_unknown": (
            "the fitted model moves so slowly that the time it takes to forget its state cannot be "
            "computed",
        ),
        "long_enough": (f"a window lasts {_WINDOW}, which is long enough",),
        "too_short": (
            f"a window lasts only {_WINDOW}, which is too short for a steady state",
            "{intervals_allow:the intervals allow for this, because they use the spread between "
            "windows, but |}successive windows of one run resemble one another",
            "windows of {enough:2} or longer would help",
        ),
    },
    "drift": {
        "ordered_by_load": (
            "the load itself rises or falls over the whole recording, so a drift of the system "
            "cannot be separated from the effect of the load",
            _MIXED,
        ),
        "no_drift": ("nothing drifts from the first to the last of {windows} windows",),
        "drifted": (
            f"at equal load the last windows {_DIFFERENCE} than the first, so the system changed "
            f"while it was recorded",
            "fit the latest part alone, or find out what changed",
        ),
    },
    "serial correlation": {
        "uncorrelated": (
            "successive windows resemble one another no more than other windows do "
            "(autocorrelation {autocorrelation:.2f})",
        ),
        "correlated": (
            "successive windows resemble one another (autocorrelation {autocorrelation:.2f}), so "
            "the intervals are too narrow",
            "taken as a whole they tell less than {windows} independent windows would",
            "bootstrap blocks of about {block} windows, or record longer windows",
        ),
    },
    "hysteresis": {
        "few_moves": (
            "the load rises {rises:+time} and falls {falls:+time} from one window to the next, "
            f"{_CONFOUNDED}",
            _MIXED,
        ),
        "same_change": (f"every load comes after the same change of load, {_CONFOUNDED}", _MIXED),
        "no_memory": ("windows just after a rise of load look like those just after a fall",),
        "remembers": (
            f"at equal load, windows just after a rise of load {_DIFFERENCE} than those just after "
            f"a fall",
            "either the system remembers the window before, or the load of a window is measured "
            "with errors",
            "lengthen the windows, or leave out the time after a change of load",
        ),
    },
    "overtaking": {
        "no_requests": ("there are no service times of single requests to tell",),
        "in_order": ("requests leave in an order that service in turn allows",),
        "overtake": (
            "requests overtake each other ({share:percent} of those that met others left too early "
            "for service in turn), so the server works on several at a time",
            "their service times cannot be told apart, so the answer comes from latencies or "
            "counts, and takes the server to share its time among all requests",
            "if several workers serve, give their number",
        ),
        "overtake_several": (
            "requests overtake each other more than {servers} servers that take them in turn allow "
            "({share:percent} of those that met {servers} or more others left too early)",
            "either there are more servers, or they work on several requests at a time, and then "
            "percentiles of response times are longer than this model says",
            "check the number of workers or threads that serve at the same time",
        ),
    },
    "servers": {
        "no_requests": ("there are no service times for other numbers of servers to tell",),
        "servers_fit": (
            "no other number of servers explains the queue lengths clearly better than {servers}",
        ),
        "other_servers": (
            "the queue lengths look as if the number of servers were {better}, not {servers}",
            "check the number of workers or threads that serve at the same time",
        ),
    },
    "bursts": {
        "not_a_queue": ("the model is not a queue, so it says nothing about arrivals",),
        "no_bursts": ("arrivals show no bursts that matter",),
        "totals_vary": (
            "the number of requests in a window varies {dispersion:2} times as much as with "
            "Poisson arrivals at the load, so arrivals come in bursts or the load changes inside "
            "windows",
        ),
        "totals_poisson": (
            "the number of requests in a window varies as it does with Poisson arrivals (variance "
            "over mean: {dispersion:2})",
        ),
        "load_counted": (
            "the number of requests in a window says nothing about bursts: it follows the load "
            "more closely than Poisson arrivals do (variance over mean: {dispersion:2}), so the "
            "load was counted from it",
        ),
        "two_categories": (
            "fewer than three observed categories show how busy the system is, but not how queues "
            "build up",
            "observe three or more to see bursts",
        ),
        "few_light_windows": (
            "this check needs at least {fewest} windows at light load, and has {windows}",
            "record more windows at light load",
        ),
        "long_queues": _long_queues,
        "usual_queues": (
            "at light load (up to {load:number}), {times:response times|queues} of {category}"
            "{or_more: or more|} are {slightly:hardly|no} more frequent than the model says",
        ),
    },
    "service rate": {
        "load_not_positive": (
            "some loads are not positive, so there is no effect of a doubled load to test",
        ),
        "one_load": ("all windows have the same load", "record several loads to run this check"),
        "little_information": ("the windows say too little about any parameter",),
        "rate_constant": (
            "the windows imply the same {parameter:plain} at every load, as far as they can tell",
        ),
        "rate_changes": _rate_changes,
    },
    "lack of fit": {
        "rare_categories": (
            "no category has more than {least:percent} of the counts",
            "combine several categories into one",
        ),
        "fits": (
            "at the observed loads the model gives the observed shares, as far as {windows} "
            "windows can tell",
        ),
        "misfit": _misfit,
    },
    "parameters": {
        "determined": _rank,
        "answers_determined": lambda facts: (
            *_rank(facts),
            "the measures that were asked for are determined all the same",
        ),
        "undetermined": _rank,
        "not_searched": lambda facts: (*_rank(facts), *_CUT_SHORT),
    },
    "measure": {
        "determined": _measure,
        "undetermined": lambda facts: (*_measure(facts), "the data do not determine it"),
        "not_searched": lambda facts: (*_measure(facts), *_CUT_SHORT),
    },
    "convergence": {"not_converged": ("the fit did not converge",)},
}
