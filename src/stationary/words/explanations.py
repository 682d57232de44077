"""How an answer came about, on one page: every number with what it rests on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from stationary.words import answers, headlines, plans
from stationary.words.findings import finding
from stationary.words.numbers import about, listed, number, percent, plain, plural, sentence

if TYPE_CHECKING:
    from stationary.facade import Plan

_MOST_WINDOWS = 5  # windows that are named because they move the answer most
_FELT = 5e-4  # least change of a limit, and weight of a model, that is worth a line


def explanation(found: Plan) -> str:
    """Return the chain of reasoning behind the limit of a plan, as text of 80 columns."""
    parts = {
        "Answer": _answer(found),
        "Data": _data(found),
        "Models": _models(found),
        "Checks": _checks(found),
        "Assumptions": _assumptions(found),
        "Interval": _interval(found),
        "Windows that move the answer most": _windows(found),
    }
    lines = []
    for title, texts in parts.items():
        shown = [line for text in texts for line in plans.bullet(text)]
        if shown:
            lines += [title, *shown, ""]
    return "\n".join(lines[:-1])


def _answer(found: Plan) -> Iterator[str]:
    limit = found.limit
    yield answers.plan_answer(limit, found.limits, found.recipe.get("unit", ""))
    yield headlines.headroom(limit)
    if limit.doubt is not None:
        yield headlines.untrusted(limit)
    draws = sum(len(part.weights) for part in found.draws.parts)
    of_draws = f"the largest loads that meet every SLO in {draws} draws of the parameters"
    if len(found.draws.parts) == 1:
        yield f"The limit is that of the estimates; the interval has the quantiles of {of_draws}."
    else:
        yield f"The limit is the median, and the interval the quantiles, of {of_draws}."


def _data(found: Plan) -> Iterator[str]:
    source = found.recipe.get("source")
    if source:
        yield f"From {source}."
    yield sentence(plans.rests_on(found.windows, found.recipe.get("unit", "")))
    more = plans.unobserved(found)
    if more:
        yield sentence(f"{more}: there the forecast rests on the model alone")
    aside = [plain(kind.kind) for kind in found.windows.aside]
    if aside:
        yield f"Not used, because they say less about the same requests: {listed(aside)}."
    yield from map(sentence, filter(None, found.recipe.get("notes", "").split("\n")))


def _models(found: Plan) -> Iterator[str]:
    for row in found.ranking().to_dict("records"):
        facts = []
        if row["misplaced"] == row["misplaced"]:  # not NaN
            facts.append(f"off by {about(row['misplaced'])} at heavier loads that it did not see")
        if row["weight"] == row["weight"]:
            used = row["weight"] >= _FELT
            facts.append(f"weight {about(row['weight'])}" if used else "no weight")
        facts += [row["note"]] if isinstance(row["note"], str) and row["note"] else []
        kind = "" if row["kind"] == "chain" else f" ({row['kind']})"
        yield f"{row['model']}{kind}: {'; '.join(facts) or 'not scored'}."
    yield answers.choice(found.comparison.choice)
    yield sentence(answers.horizon(found.horizon))
    yield from map(sentence, filter(None, [plans.service(found), plans.outlying_windows(found)]))
    estimates = [f"{plain(name)} {number(value, 3)}" for name, value in found.estimates.items()]
    yield f"Parameters of {found.name}: {listed(estimates, most=8)}."


def _checks(found: Plan) -> Iterator[str]:
    if found.change is None:
        for each in found.findings:
            yield f"{plain(str(each.check)).capitalize()} ({each.verdict}): {finding(each)}"
    yield from map(sentence, found.warnings())


def _assumptions(found: Plan) -> Iterator[str]:
    taken = found.assumed()
    yield from (sentence(plans.assumed([each], found.limit.load)) for each in taken)
    if taken:
        yield "Light load does not show any of these: check them on the system."
    if any(each.name == "servers" and each.others for each in taken):
        yield (
            "Other numbers of servers are ways to read the same requests. For servers that are "
            "added or lost, each as fast as now, ask 'stationary forecast --what-if servers=+1'."
        )
    if any(each.name == "capacity" and not each.given and each.most for each in taken):
        yield (
            "The limit is the median over these capacities, so that it may be close to that of the "
            "smallest or of the largest alone."
        )


def _interval(found: Plan) -> Iterator[str]:
    limit = found.limit
    yield f"From {number(limit.low, 3)} to {number(limit.high, 3)}: {headlines.covers(limit)}."
    yield sentence(plans.breakdown(found.breakdown()))
    if limit.failed:
        yield f"{plural(limit.failed, 'draw')} could not be solved, which widens it."


def _windows(found: Plan) -> Iterator[str]:
    if found.change is not None or found.windows.is_pooled:
        return
    frame = found.influence().head(_MOST_WINDOWS)
    felt = frame[frame["change"].abs() > _FELT]
    for window, row in felt.iterrows():
        which = f"window {int(window) + 1}, at load {number(row['load'], 3)},"
        yield plans.felt_window(row["change"], which)
    if felt.empty:
        yield f"No single window moves the limit by more than {percent(_FELT)}."
