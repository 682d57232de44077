"""``stationary models``: what there is to fit."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import stationary as st
from stationary.cli._options import command_of
from stationary.cli._records import as_json
from stationary.cli._say import prose, say
from stationary.cli._show import table


@command_of
def models(*, wide: bool = False, json: bool = False) -> None:
    """List the models with their options, parameters and measures."""
    from stationary.models.registry import model_class, names

    found = [_describe(name, model_class(name)) for name in names()]
    if json:
        say(as_json(found))
        return
    rows = [
        [
            entry["name"],
            entry["about"],
            ", ".join(f"{k}={v}" for k, v in entry["options"].items()),
            ", ".join(_shortened(entry["parameters"])),
        ]
        for entry in found
    ]
    headings = ["model", "what it is", "options", "learnt parameters"]
    table("Models for --model name:option=value,...", headings, rows, 4, wide, more=headings[3:])
    for measures in dict.fromkeys(", ".join(entry["measures"]) for entry in found):
        which = [e["name"] for e in found if ", ".join(e["measures"]) == measures]
        whose = "all" if len(which) == len(found) else ", ".join(which)
        prose(f"Measures of {whose}: {measures}.")
    timed = [entry["name"] for entry in found if entry["sampling"] == ["time"]]
    prose(f"Only for counts at regular times, not by arriving requests: {', '.join(timed)}.")
    say("--relax ALPHA adds a free rate wherever the model has none.")
    say("Models of your own: --model FILE.toml (docs/models.md, Rules and model files),")
    say("or in Python st.models.RuleModel, FromFunction, or a subclass of Model.")


def _describe(name: str, make: Callable[..., st.Model]) -> dict[str, Any]:
    model = make()
    return {
        "name": name,
        "about": (inspect.getdoc(make) or "").splitlines()[0].replace("``", ""),
        "options": model.options,
        "parameters": list(model.param_names),
        "measures": list(model.measures),
        "sampling": ["time", "arrival"] if model.arrives_alone else ["time"],
    }


def _shortened(names: list[str]) -> list[str]:
    return names if len(names) <= 4 else [*names[:2], "...", names[-1]]
