"""PRISM models on the command line: which constants are inputs, learnt or fixed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stationary.cli._parse import cut_model, parse_number
from stationary.errors import InputError

if TYPE_CHECKING:
    from stationary.models import Prism

_ENDINGS = {".sm", ".prism", ".pm"}


def is_prism(text: str) -> bool:
    """Whether ``--model`` names a PRISM file."""
    return Path(cut_model(text)[0]).suffix.lower() in _ENDINGS


@dataclass(frozen=True)
class PrismOptions:
    """What the options say of a PRISM file.

    An input has the name of its constant. Where the column is called otherwise, ``--x`` says so:
    ``lambda=callrate`` is the constant lambda, in the column callrate.
    """

    theta: Annotated[
        str | None,
        typer.Option(
            help="Constants of a PRISM model to learn, as in mu1,mu2; mu1=2.5 starts there."
        ),
    ] = None
    constants: Annotated[
        str | None,
        typer.Option(help="Values of other constants of a PRISM model, as in c=5,p=0.3."),
    ] = None
    group_by: Annotated[
        str | None,
        typer.Option(
            help="Variable of a PRISM model whose values are counted, as in q for Q=0, Q=1."
        ),
    ] = None

    @property
    def given(self) -> bool:
        """Whether there is an option that only a PRISM file can have."""
        return any(value is not None for value in (self.theta, self.constants, self.group_by))

    def columns(self, x: str) -> str:
        """Columns of the inputs, as ``--x`` has them for other models."""
        return ",".join(column.strip() or name for name, column in _inputs(x))

    def model(self, text: str, x: str) -> Prism:
        """Read the model that ``file.sm`` or ``file.sm:constant=value,...`` names."""
        from stationary.models import from_prism

        file, behind = cut_model(text)
        if self.theta is None:
            raise InputError(
                f"{file} is a PRISM model: say with --theta what to learn, as in stationary fit "
                f"windows.csv --model {file} --x lambda --theta mu1,mu2 -o run/; other commands "
                f"take the run"
            )
        given = ",".join(filter(None, (behind, self.constants)))
        fixed = _values(given, "--constants")
        for name, value in fixed.items():
            if value is None:
                raise InputError(f"--constants: give {name!r} a value, as in {name}=5")
        return from_prism(
            file,
            x=[name for name, _ in _inputs(x)],
            theta=_values(self.theta, "--theta"),
            constants={name: value for name, value in fixed.items() if value is not None},
            count=self.group_by,
        )


def _inputs(x: str) -> list[tuple[str, str]]:
    """Pairs of a constant and its column, which is empty where it has the same name."""
    parts = (part.partition("=") for part in x.split(","))
    return [(name.strip(), column) for name, _, column in parts]


def _values(text: str | None, option: str) -> dict[str, float | None]:
    """``name=value,...``, where a value may be left out."""
    found: dict[str, float | None] = {}
    for item in filter(None, (part.strip() for part in (text or "").split(","))):
        name, equals, value = (part.strip() for part in item.partition("="))
        if not name or name in found:
            raise InputError(f"{option} {text!r}: name each constant once; got {item!r}")
        if not equals:
            found[name] = None
        elif value in ("true", "false"):
            found[name] = value == "true"
        else:
            found[name] = parse_number(value, f"{option}: {name}")
    return found
