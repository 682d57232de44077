"""What a plan says on one screen: the answer, what it rests on and assumes, what to do next."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from textwrap import wrap
from typing import TYPE_CHECKING

from stationary.words import answers, headlines
from stationary.words.findings import clause
from stationary.words.numbers import (
    about,
    listed,
    load_range,
    number,
    percent,
    plain,
    plural,
    seconds,
    sentence,
    value,
)

if TYPE_CHECKING:
    from stationary.data.windows import Windows
    from stationary.facade import Plan
    from stationary.planning.assumed import Assumed
    from stationary.planning.limits import Limit
    from stationary.planning.sources import Breakdown
    from stationary.terms.findings import Finding
    from stationary.terms.growth import Growth

WIDTH, MOST = 80, 20
"""Characters of a line and lines of a screen."""

AT_LOAD = {
    "outside": "This load lies outside of the charts.",
    "untested": "Not to be trusted: no data tests the model at this load.",
    "beyond": "Beyond the loads of the data: the forecast extrapolates.",
}
"""What is to be known of forecasts at a load that somebody chose, by where it lies."""

COMPUTING = "Computing the limit …"
"""Stands where the answer will be."""

_LABEL = 10  # width of the labels at the left
_SAME = 0.005  # share of a limit by which it may move and count as the same

_SAME_LIMIT = "the same"

_FELT_OVERHEAD = 0.005  # share of a service below which time outside the queue is as good as none

_KINDS = {
    "states": "queue lengths that requests found",
    "service times": "service times of requests",
    "latencies": "response times of requests",
    "losses": "lost requests",
}
"""What was observed, as people say it."""

_OF_SERVERS = ("overtaking", "servers")  # checks of what most answers hang on

_ELSE = {
    "servers": "if {} served these requests",
    "capacity": "with {}",
    "patience": "if they wait for {}",
}
"""How another value than that which was assumed is put. The data stay as they are: with another
number of servers they would say something else of a service, unlike in a what-if."""

_UNLIKE_OTHERS = "unlike others at nearly the same load"
"""What is said of a window that is out of the ordinary."""

_AT_TIMES = "queue lengths at regular times"  # states that were not found by arriving requests


def grounds(found: Plan, limit: Limit, brief: bool = False) -> list[str]:
    """Return what an answer rests on and takes as given, and what makes its width, as lines.

    Where there is little room, ``brief`` leaves out what only the report and explain need.
    """
    lines = []
    if limit.doubt is not None:
        lines += _labelled("WARNING", f"not to be trusted: {answers.doubt(limit.doubt)}")
    rests = rests_on(found.windows, found.recipe.get("unit", ""))
    parts = [rests, f"model: {found.name}", unobserved(found)]
    if not brief:
        parts = [*parts[:2], service(found), parts[2], outlying_windows(found)]
    lines += _labelled("Based on", "; ".join(filter(None, parts)))
    if limit.doubt is None and found.horizon.load:
        lines += _labelled("Tested", answers.why_horizon(found.horizon))
        lines += [] if brief else _labelled("Interval", breakdown(found.breakdown()))
    taken = found.assumed()
    if taken:
        said = sentence(assumed(taken, limit.load))
        if all(each.given or each.most is None for each in taken):
            said += " Please check: light load does not show this"
        lines += _labelled("Assumed", said)
    return lines


def used_up(found: Limit, growth: Growth, today: date) -> str:
    """Say when a load that grows reaches the limit; empty if there is no limit to reach."""
    if not 0 < found.load < math.inf:
        return ""
    ends = [growth.days_until(load / found.present) for load in (found.low, found.load, found.high)]
    when = [_day(growth, load / found.present, today) for load in (found.low, found.high)]
    text = f"if the load grows by {percent(growth.share)} per {growth.period}, it reaches the limit"
    if ends[1] <= 0:
        return "The load has reached the limit already."
    text += f" in {_span(ends[1])}: {_day(growth, found.load / found.present, today)}"
    return sentence(text if found.low == found.high else f"{text} ({when[0]} to {when[1]})")


def rests_on(windows: Windows, unit: str = "") -> str:
    """Return what an answer was learnt from, as a clause."""
    loads = load_range(float(windows.loads.min()), float(windows.loads.max()))
    length = ""
    if windows.duration is not None and not windows.is_pooled:
        low, high = map(float, windows.duration.aminmax())
        length = f" of {seconds(low)}" if low == high else f" of {seconds(low)} to {seconds(high)}"
    kinds = [_KINDS.get(kind.kind, plain(kind.kind)) for kind in windows.observations]
    if not windows.by_arrivals:
        kinds = [_AT_TIMES if kind == _KINDS["states"] else kind for kind in kinds]
    return (
        f"{listed(kinds)} in {plural(windows.recorded, 'window')}{length}, at loads of "
        f"{loads}{unit and f' {unit}'}"
    )


def service(found: Plan) -> str:
    """Return what a service takes, as a clause; empty for a model that does not say."""
    known = found.estimates
    if found.change is not None or not known.keys() >= {"service_rate", "variability"}:
        return ""
    mean, overhead = 1 / known["service_rate"], known.get("overhead", 0.0)
    sizes = (mean, mean * math.sqrt(known["variability"]), overhead)
    took, spread, outside = (value("response_time", size, found.in_seconds) for size in sizes)
    text = f"serving a request takes {took} (standard deviation {spread})"
    if overhead < _FELT_OVERHEAD * mean:
        return text
    return f"{text}; another {outside} passes outside the queue"


def outlying_windows(found: Plan) -> str:
    """Name the windows unlike others at their load, as a clause; empty if there are none."""
    if not found.outlying:
        return ""
    loads = found.windows.loads.tolist()
    named = [f"{k + 1} (load {number(loads[k], 3)})" for k in found.outlying]
    many, which = len(named) > 1, listed(named, 5)
    said = f"windows {which} are" if many else f"window {which} is"
    said = f"{said} {_UNLIKE_OTHERS}"
    if found.windows.weights is None:
        return said
    return f"{said} and {'count' if many else 'counts'} little"


def unobserved(found: Plan) -> str:
    """Return which queue lengths nobody observed, as a clause; empty if all were or there are none.

    What a forecast says of these rests on the model.
    """
    sizes = [getattr(part.model, "capacity", 0) for part in found.draws.parts]
    capacity, longest = max(sizes), found.windows.longest_queue
    if longest is None:
        return "queue lengths were not observed" if capacity else ""
    return f"queues of more than {longest} were never observed" if longest < capacity else ""


def assumed(found: Sequence[Assumed], answer: float = math.nan) -> str:
    """Return what an answer takes as given, and where the limit would be otherwise, as clauses.

    Where it would hardly move from the answer, that is said instead.
    """
    parts = []
    for each in found:
        asides = [] if each.given or each.name == "retries" else [f"a guess, set --{each.name}"]
        pairs = zip(each.others, each.bound_by, strict=True)
        unknown = not each.given and each.most is not None
        same = math.nan if unknown else answer  # the ends of a range are named, the same or not
        moved = [_moved(load, first, same) for (_, load), first in pairs]
        if each.name == "retries":
            asides = [f"if all do, the limit is {limit}" for limit in moved]
        elif unknown:
            asides = ["not known: give --capacity"]
            if len(set(moved)) > 1:
                ends = [number(value) for value, _ in each.others]
                asides.append(f"with {ends[0]} the limit is {moved[0]}, with {ends[1]} {moved[1]}")
        elif moved:
            size = seconds if each.name == "patience" else number
            values = " or ".join(size(value) for value, _ in each.others)
            loads = _SAME_LIMIT if set(moved) == {_SAME_LIMIT} else " or ".join(moved)
            asides.append(f"{_ELSE[each.name].format(values)}, the limit is {loads}")
        parts.append(_taken(each) + (f" ({'; '.join(asides)})" if asides else ""))
    return listed(parts, most=9)


def _moved(load: float, first: str, answer: float) -> str:
    """Return the limit under another assumption, and what is missed first there if that differs."""
    if abs(load - answer) < _SAME * answer and not first:
        return _SAME_LIMIT
    return number(load, 3) + (f" ({plain(first)} is missed first)" if first else "")


def _taken(each: Assumed) -> str:
    """Return one assumption in words."""
    if each.name == "retries":
        return "clients do not retry"
    if each.name == "patience":
        if each.value is None:
            return "clients never give up"
        return f"clients give up after {seconds(each.value)}"
    count = int(each.value or 0)
    if each.name == "servers":
        return (
            plural(count, "server") if each.most is None else f"{count} to {each.most:.0f} servers"
        )
    if each.most is None:
        return f"at most {plural(count, 'request')} at a time"
    if not each.given:
        return f"a capacity between {count} and {each.most:.0f}"
    return f"at most {count} to {each.most:.0f} requests at a time"


def breakdown(found: Breakdown) -> str:
    """Return what an interval allows for, as a clause."""
    named = {name: share for name, share in found.shares.items() if name != "the rest"}
    rest = "other causes"
    if found.slowing > 0:
        rest += f", such as a chance of {about(found.slowing)} that service slows down under load"
    shares = [
        *sorted(named.items(), key=lambda item: -item[1]),
        (rest, found.shares.get("the rest", 0.0)),
    ]
    parts = [f"{name} ({100 * share:.0f}%)" for name, share in shares if share >= 0.005]
    return f"width due to {listed(parts, most=9) if parts else 'unknown causes'}"


def plan_screen(
    found: Plan,
    limit: Limit,
    alone: Sequence[Limit] = (),
    notes: Sequence[str] = (),
    advice: str = "",
    growth: Growth | None = None,
    today: date | None = None,
) -> str:
    """Return the answer of a plan on one screen of 80 columns and at most 20 lines.

    ``alone`` are the limits of each SLO by itself; notes, the most important first, are shown as
    far as there is room; advice is what to do next.
    """
    unit = found.recipe.get("unit", "")
    first = [answers.plan_answer(limit, alone, unit), headlines.headroom(limit)]
    if growth is not None and limit.trusted:
        first.append(used_up(limit, growth, today or date.today()))
    lines = [line for text in filter(None, first) for line in wrap(text, WIDTH)]
    lines.append("")
    last = _labelled("Next", advice) if advice else []
    most = MOST - len(lines) - len(last)
    based = grounds(found, limit)
    lines += based if len(based) <= most else grounds(found, limit, brief=True)
    room = MOST - len(lines) - len(last)
    return "\n".join([*lines, *_fitting(notes, room), *last])


def demo_data(windows: int, seen: int, light: float) -> str:
    """Say what the demo learns from."""
    return "\n".join(
        wrap(
            f"{windows} windows of one second were recorded from a real SIP server under load. The "
            f"plan sees the {seen} of them with up to {number(light)} requests per second, and "
            f"only the response times of answered requests. None of the overload.",
            WIDTH,
        )
    )


def demo_score(loss: int, p99: int, rows: int) -> str:
    """Say how often what happened lay inside the demo's intervals."""
    return (
        f"Inside the 95% interval: the measured loss in {loss} and p99 in {p99} of {rows} ranges."
    )


def windows_left_out(count: int, why: str) -> str:
    """Say that windows were left out, and why, as a clause."""
    return f"{plural(count, 'window')} {'was' if count == 1 else 'were'} left out: {why}"


def checked(findings: Sequence[Finding]) -> str:
    """Say how the checks of the data ended."""
    if not findings:
        return "The checks are of the data, which show the system before the change."
    bad, unsaid = (
        sum(each.verdict == verdict for each in findings) for verdict in ("warning", "unknown")
    )
    text = "No check warns"
    if bad:
        text = f"{bad} of {plural(len(findings), 'check')} {'warns' if bad == 1 else 'warn'}"
    return f"{text}; on {unsaid} the data do not say enough." if unsaid else f"{text}."


def odd_window(off: float) -> str:
    """Say that a window is unlike others, and how many times the usual scatter off the model."""
    how = "fuller or slower" if off > 0 else "emptier or faster"
    return sentence(
        f"{_UNLIKE_OTHERS}: {how} than the model expects, by {number(abs(off), 2)} times the usual "
        f"scatter"
    )


def felt_window(change: float, without: str = "it") -> str:
    """Say what the limit would be without a window."""
    side = "higher" if change > 0 else "lower"
    return f"Without {without} the limit would be {about(abs(change))} {side}."


def warned(found: Plan) -> Iterator[str]:
    """Yield the warnings of the checks, and what else a reader must know, as clauses."""
    if found.change is None:
        bad = [each for each in found.findings if each.verdict == "warning"]
        bad.sort(key=lambda each: each.check not in _OF_SERVERS)
        yield from map(clause, bad)
    yield from found.warnings()


def _fitting(notes: Sequence[str], room: int) -> list[str]:
    """Return notes on as many lines as there are; of those that do not fit, their number."""
    lines: list[str] = []
    for k, note in enumerate(notes):
        more = _labelled("Note", note)
        left = len(notes) - k - 1
        if len(lines) + len(more) + bool(left) > room:
            rest = f"see the report or 'stationary explain' for {plural(left + 1, 'more note')}"
            return [*lines, *_labelled("Note", rest)][:room]
        lines += more
    return lines


def bullet(text: str, mark: str = "  - ") -> list[str]:
    """Return a text as lines that stand below a title, or beside a label."""
    return wrap(
        text,
        WIDTH,
        initial_indent=mark,
        subsequent_indent=" " * len(mark),
        break_on_hyphens=False,
        break_long_words=False,
    )


def _labelled(label: str, text: str) -> list[str]:
    return bullet(sentence(text), label.ljust(_LABEL))


def _span(days: float) -> str:
    """Return a length of time in the unit that suits it."""
    for unit, length in (("year", 365.25), ("month", 365.25 / 12), ("week", 7.0)):
        if days >= 2 * length:
            return f"{days / length:.0f} {unit}s"
    return plural(round(days), "day")


def _day(growth: Growth, factor: float, today: date) -> str:
    """Return when the load is so many times today's: the month, or the day where that is soon."""
    days = growth.days_until(factor)
    if days <= 0:
        return "now"
    if days > 36525:
        return "more than a century from now"
    day = today + timedelta(days=math.floor(days))
    return f"{day:%d %B %Y}" if days < 60 else f"{day:%B %Y}"
