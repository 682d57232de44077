"""``stationary models``: what there is to fit."""

from __future__ import annotations

import inspect
from typing import Annotated, Any

import typer


def models(
    json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """List the models with their options, parameters and measures."""
    from stationary.cli._show import as_json, table

    found = [_describe(name) for name in ("mmmk", "multidiagonal", "uppertriangular")]
    if json:
        typer.echo(as_json(found))
        return
    rows = [
        [
            entry["name"],
            entry["about"],
            ", ".join(f"{k}={v}" for k, v in entry["options"].items()),
            ", ".join(_shortened(entry["parameters"])),
            ", ".join(entry["measures"]),
        ]
        for entry in found
    ]
    headings = ["model", "what it is", "options", "learnt parameters", "measures"]
    table("Models for --model name:option=value,...", headings, rows, left=5)
    typer.echo("--relax ALPHA adds a free rate wherever the model has none.")
    typer.echo("Models of your own: subclass stationary.models.Model, or use FromFunction.")


def _describe(name: str) -> dict[str, Any]:
    from stationary.models.registry import MODELS

    model = MODELS[name]()
    return {
        "name": name,
        "about": (inspect.getdoc(MODELS[name]) or "").splitlines()[0].replace("``", ""),
        "options": model.options,
        "parameters": list(model.param_names),
        "measures": list(model.measures),
    }


def _shortened(names: list[str]) -> list[str]:
    return names if len(names) <= 4 else [*names[:2], "...", names[-1]]
