"""Models on the command line: by name, in a file of rules, or in a PRISM file."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import stationary as st
from stationary.cli._parse import parse_number, parse_pairs
from stationary.errors import InputError

_FILE = re.compile(r"(.*\.(?:toml|sm|prism|pm))(?::(.*))?", re.IGNORECASE | re.DOTALL)
_PRISM = {".sm", ".prism", ".pm"}


@dataclass(frozen=True)
class PrismOptions:
    """What is learnt of a PRISM model, and what is fixed.

    Options
    -------
    theta: Constants of a PRISM model to learn, as in mu1,mu2; mu1=2.5 starts there.
    constants: Values of other constants of a PRISM model, as in c=5,p=0.3.
    group_by: Variable of a PRISM model whose values are counted, as in q for Q=0, Q=1.
    """

    theta: str | None = None
    constants: str | None = None
    group_by: str | None = None


@dataclass(frozen=True)
class ModelText:
    """What ``--model`` says: ``name:option=value,...``, or a file in place of the name.

    What stands after the name of a PRISM file are constants. An input of a PRISM model has the name
    of its constant; ``--x lambda=callrate`` is the constant lambda, in the column callrate.
    """

    text: str

    @cached_property
    def parts(self) -> tuple[str, str]:
        """Name and options; the name of a file may have colons of its own."""
        match = _FILE.fullmatch(self.text)
        name, _, rest = self.text.partition(":")
        return (match[1], match[2] or "") if match else (name, rest)

    @property
    def is_prism(self) -> bool:
        """Whether this is a PRISM file."""
        return Path(self.parts[0]).suffix.lower() in _PRISM

    @property
    def is_file(self) -> bool:
        """Whether this is a file of rules; a file does not hide a model of its name."""
        name, ending = self.parts[0], Path(self.parts[0]).suffix
        named = bool(ending) or "/" in name or os.sep in name
        # A text that is too long for the name of a file is no error.
        return ending.lower() == ".toml" or (named and os.path.isfile(name))  # noqa: PTH113

    @property
    def is_queue(self) -> bool:
        """Whether this is the name of a queue, whose options and measures are known."""
        from stationary.models.registry import names

        return self.parts[0].strip().lower() in names() and not self.is_file

    @cached_property
    def options(self) -> dict[str, int | float]:
        """The options and their values."""
        what = f"model {self.text!r}"
        pairs = parse_pairs(self.parts[1], what, "servers=1")
        if "name" in pairs:
            raise InputError(f"{what}: a model has no option 'name'; leave it out")
        return {key: parse_number(value, f"{what}: {key}") for key, value in pairs.items()}

    def check(self) -> None:
        """Raise for what is wrong with the text alone; loads no torch."""
        from stationary.models.registry import check_name, check_options

        name = self.parts[0].strip().lower()
        if self.is_prism:
            return
        if name == "relaxed":
            raise InputError("relax a model with --relax, as in --model mmmk:servers=1 --relax 100")
        if name == "prism":
            raise InputError(
                "name the file of a PRISM model, as in --model tandem.sm --theta mu1,mu2"
            )
        if not self.is_file:
            check_name(name)
        given = self.options
        if self.is_queue:
            check_options(name, given)

    def columns(self, x: str) -> str:
        """Return the columns of the inputs that ``--x`` names."""
        pairs = _inputs(x) if self.is_prism else {x: ""}
        return ",".join(column or name for name, column in pairs.items())

    def model(
        self, relax: float | None = None, prism: PrismOptions | None = None, x: str = "load"
    ) -> st.Model:
        """Make the model, with free rates added if ``relax`` is given."""
        from stationary.models.registry import build

        self.check()
        prism = prism or PrismOptions()
        if not self.is_prism and prism != PrismOptions():
            raise InputError(
                "--theta, --constants and --group-by go with a PRISM file: --model q.sm"
            )
        model: st.Model
        if self.is_prism:
            model = self._prism(prism, x)
        elif self.is_file:
            model = st.models.read_model(self.parts[0], **self.options)
        else:
            model = build({"name": self.parts[0].strip().lower(), **self.options})
        return model if relax is None else st.models.Relaxed(model, alpha=relax)

    def _prism(self, given: PrismOptions, x: str) -> st.Model:
        file, behind = self.parts
        if given.theta is None:
            raise InputError(
                f"{file} is a PRISM model: say with --theta what to learn, as in stationary fit "
                f"windows.csv --model {file} --x lambda --theta mu1,mu2 -o run/; other commands "
                f"take the run"
            )
        fixed = ",".join(filter(None, (behind, given.constants)))
        return st.models.from_prism(
            file,
            x=list(_inputs(x)),
            theta=_constants(given.theta, "--theta", alone=True),
            constants=_constants(fixed, "--constants"),
            count=given.group_by,
        )


def _inputs(x: str) -> dict[str, str]:
    """Constants that are inputs, and their columns, empty where they have the same name."""
    return parse_pairs(x, "--x", "lambda=callrate", alone=True)


def _constants(text: str, option: str, alone: bool = False) -> dict[str, Any]:
    """Values of constants; None for a name that stands alone."""
    pairs = parse_pairs(text, option, "c=5", alone)
    known = {"": None, "true": True, "false": False}
    return {
        name: known[value] if value in known else parse_number(value, f"{option}: {name}")
        for name, value in pairs.items()
    }
