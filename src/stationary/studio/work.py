"""A plan made anew, in a process of its own that can be stopped and that outlives the server.

``python -m stationary.studio.work`` reads what to do from its standard input, says on its standard
output how far it is, and writes the plan as a folder: whole, or not at all.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from stationary import words
from stationary._support.plain import our_mistake
from stationary.data import read_windows
from stationary.errors import InputError, StationaryError
from stationary.facade import Plan
from stationary.ingest import Columns, Cut, Source, Unit
from stationary.ingest.found import Found, cut_requests
from stationary.planner import compare, fit, load, plan
from stationary.studio.answers import labelled
from stationary.terms.candidates import parse_system
from stationary.terms.measures import check_bounds, check_times
from stationary.terms.slo import Slo, as_slos
from stationary.terms.spans import parse_span

Say = Callable[..., None]
"""Takes a text, what is being done; and ``notes``, what is to be known of the data."""


def make(task: dict[str, Any], say: Say) -> Plan:
    """Make a plan of a file, or an earlier one without some of its windows.

    The task has a ``source`` and what a person said of it, or a ``plan`` and the windows to go
    ``without``; and the ``output``, where the plan is saved.
    """
    made = _again(task, say) if "plan" in task else _from_source(task, say)
    say("finding the limits")
    _ = made.limits if made.question.slos else ()
    say("saving the plan")
    made.save(task["output"])
    return made


def known_of(task: dict[str, Any]) -> tuple[dict[str, Any], tuple[Slo, ...]]:
    """Return what a person knows of the system, and what must hold; raise where that is wrong."""
    system: dict[str, Any] = {
        name: task.get(name) or None for name in ("servers", "capacity", "patience")
    }
    known = parse_system(**system)
    if task.get("window"):
        known["window"] = parse_span(task["window"], "window")
    unit = task.get("time_unit")
    if unit and unit not in list(Unit):
        raise InputError(f"the unit of times is {', '.join(Unit)}; got {unit!r}")
    slos = as_slos(task.get("slo") or ["loss<0.1%"])
    check_bounds(slos)
    if task.get("holds") != "windows":  # times of requests are in seconds
        check_times(slos)
    return known, slos


def _from_source(task: dict[str, Any], say: Say) -> Plan:
    say("reading the data")
    known, slos = known_of(task)
    found = _read(task, known, known.pop("window", None))
    unit = task.get("load_unit") or found.recipe.get("unit", "")
    notes = words.rests_on(found.windows, unit), *map(labelled, found.notes)
    say("fitting models", notes=list(map(words.sentence, notes)))
    made = plan(found, slo=slos, progress=_models(say), **known)
    said = {"command": "stationary studio", "title": task.get("title"), "unit": unit}
    given = {name: text for name, text in said.items() if text}
    return made.having(recipe={**made.recipe, **given})


def _read(task: dict[str, Any], known: dict[str, Any], window: float | None) -> Found:
    columns, file, name = task.get("columns", {}), task["source"], task["name"]
    if task.get("holds") == "windows":
        return Found(read_windows(file, x=columns.get("load") or "load"), name)
    named = {
        name: columns[name] for name in ("response", "completion", "status") if columns.get(name)
    }
    unit = Unit(task["time_unit"]) if task.get("time_unit") else None
    source = Source(file, Columns(columns.get("arrival") or "arrival", unit=unit, **named))
    capacities = known.get("capacity", [])
    cut = Cut(
        window,
        capacity=capacities[0] if len(capacities) == 1 else None,
        lost_status=tuple(filter(None, task.get("lost_status", "").replace(" ", "").split(","))),
    )
    found = Found.of(cut_requests(source, cut, known.get("servers", ())), name)
    return replace(found, notes=tuple(note.replace(file, name) for note in found.notes))


def _again(task: dict[str, Any], say: Say) -> Plan:
    earlier = load(task["plan"])
    if "method" in earlier.recipe:
        raise InputError(
            f"this plan was fitted by {earlier.recipe['method']}, which the studio does not "
            f"repeat: use 'stationary fit' on a file without these windows"
        )
    if earlier.change is not None:
        raise InputError(
            f"{words.what_if(earlier.change)}: this plan is a what-if; leave windows out in the "
            f"plan of the observed system"
        )
    keep = np.ones(len(earlier.windows), bool)
    without = [k for k in task["without"] if isinstance(k, int) and 0 <= k < len(keep)]
    keep[without] = False
    if not without:
        raise InputError("choose the windows to leave out first")
    windows = earlier.windows.select(keep)
    say("fitting models")
    models = {name: each.model for name, each in earlier.fitted.items()}
    if earlier.pooled:
        made = compare(models, windows, seed=earlier.seed, progress=_models(say))
    else:
        used = [kind.kind for kind in windows.observations]
        made = fit(models[earlier.name], windows, observations=used, seed=earlier.seed)
    if earlier.refits is not None:
        say("refitting to redrawn windows")
        repeats = len(earlier.refits.theta) + earlier.refits.failed
        made = made.bootstrap(repeats, block=earlier.refits.block, seed=earlier.seed, jobs=1)
    note = words.windows_left_out(len(without), "by hand")
    notes = [*filter(None, [earlier.recipe.get("notes")]), note]
    recipe = {**earlier.recipe, "notes": "\n".join(notes)}
    return made.having(question=earlier.question, recipe=recipe)


def _models(say: Say) -> Callable[[int, str], None]:
    return lambda done, text: say(
        f"fitting models: {words.plural(done, 'model')} done {text}".strip()
    )


def main() -> None:
    """Do what standard input says."""
    task = json.load(sys.stdin)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what was half written is removed

    def tell(**facts: Any) -> None:
        with suppress(OSError):  # the server may be gone; the plan is finished all the same
            print(json.dumps(facts), flush=True)

    try:
        make(task, lambda text, **facts: tell(text=text, **facts))
        tell(plan=Path(task["output"]).name)
    except StationaryError as error:
        text = labelled(str(error))
        tell(error=text.replace(task.get("source", "\0"), task.get("name", "")))
    except Exception as error:  # noqa: BLE001  # as the command line says it
        tell(error=words.sentence(our_mistake(error)))
    finally:
        with suppress(OSError):  # the folder is empty where no plan was made
            Path(task["output"]).rmdir()


if __name__ == "__main__":
    main()
