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
            ", ".join(entry["parameters"]),
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
    parameters = list(model.param_names)
    if len(parameters) > 4:
        parameters = [*parameters[:2], "...", parameters[-1]]
    return {
        "name": name,
        "about": (inspect.getdoc(MODELS[name]) or "").splitlines()[0],
        "options": model.options,
        "parameters": parameters,
        "measures": list(model.measures),
    }
