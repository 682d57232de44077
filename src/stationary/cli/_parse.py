"""The small languages of the command line: models, loads, changes."""

from __future__ import annotations

import itertools
import math
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stationary.errors import InputError

if TYPE_CHECKING:
    from stationary.cli._prism import PrismOptions
    from stationary.gradients import Gradient
    from stationary.learning.covariances import CovarianceKind
    from stationary.models import Model
    from stationary.terms.categories import Observed

_MOST_LOADS = 100_000
_ENDING = re.compile(r"(.*\.(?:toml|sm|prism|pm))(?::(.*))?", re.IGNORECASE | re.DOTALL)


def parse_model(
    text: str,
    relax: float | None = None,
    prism: PrismOptions | None = None,
    x: str = "load",
) -> Model:
    """Make a model from ``name:option=value,...``, with free rates added if ``relax`` is given.

    The name may be that of a model file. Of a PRISM file, what is behind the name are constants;
    its other options are in ``prism``.
    """
    from stationary.cli._prism import PrismOptions, is_prism
    from stationary.models import Relaxed, read_model
    from stationary.models.registry import build

    model: Model
    if is_prism(text):
        model = (prism or PrismOptions()).model(text, x)
    elif prism is not None and prism.given:
        raise InputError("--theta, --constants and --group-by go with a PRISM file: --model q.sm")
    else:
        options = parse_options(text)
        file = model_file(text)
        if file is None:
            model = build(options)
        else:
            model = read_model(file, **{name: v for name, v in options.items() if name != "name"})
    return model if relax is None else Relaxed(model, alpha=relax)


def model_file(text: str) -> str | None:
    """Return the model file that ``file.toml:constant=value,...`` names, if it does."""
    name = cut_model(text)[0]
    return name if name.lower().endswith(".toml") or _is_file(name) else None


def cut_model(text: str) -> tuple[str, str]:
    """Name and options of a model; the name of a file may have colons of its own."""
    ending = _ENDING.fullmatch(text)
    if ending:
        return ending[1], ending[2] or ""
    name, _, rest = text.partition(":")
    return name, rest


def _is_file(name: str) -> bool:
    """Whether a file has this name, and the name is not that of a model in its folder."""
    path = Path(name)
    try:
        return (bool(path.suffix) or "/" in name or os.sep in name) and path.is_file()
    except (OSError, ValueError):  # too long a name, or none that a file can have
        return False


def parse_options(text: str) -> dict[str, Any]:
    """``name:option=value,...`` as a description for `stationary.models.registry.build`."""
    name, rest = cut_model(text)
    options: dict[str, Any] = {"name": name.strip().lower()}
    if options["name"] == "relaxed":
        raise InputError("relax a model with --relax, as in --model mmmk:servers=1 --relax 100")
    if options["name"] == "prism":
        raise InputError("name the file of a PRISM model, as in --model tandem.sm --theta mu1,mu2")
    for item in filter(None, (part.strip() for part in rest.split(","))):
        key, equals, value = (part.strip() for part in item.partition("="))
        if not equals or not key:
            raise InputError(f"model {text!r}: write options as option=value; got {item!r}")
        if key in options:
            raise InputError(f"model {text!r}: option {key!r} is given twice")
        options[key] = parse_number(value, f"model {text!r}: option {key!r}")
    return options


def parse_number(text: str, what: str) -> int | float:
    """Read a finite number; ``what`` says of what, should it be none."""
    try:
        value = float(text)
    except ValueError:
        raise InputError(f"{what} must be a number; got {text!r}") from None
    if not math.isfinite(value):
        raise InputError(f"{what} must be finite; got {text!r}")
    return int(value) if re.fullmatch(r"[+-]?\d+", text) else value


def parse_gradient(text: str, seed: int) -> Gradient:
    """Make a gradient strategy from ``exact``, ``infinity:p=0.1``, ``dc-bptt:steps=128``, ..."""
    from stationary import gradients

    name, _, rest = text.partition(":")
    options = dict(item.partition("=")[::2] for item in filter(None, rest.split(",")))

    def take(key: str, default: str) -> str:
        return options.pop(key, default).strip()

    def whole(key: str, default: str) -> int:
        value = parse_number(take(key, default), f"gradient {text!r}: option {key!r}")
        if not isinstance(value, int):
            raise InputError(f"gradient {text!r}: {key} must be a whole number; got {value:g}")
        return value

    strategy: Gradient
    if name == "exact":
        strategy = gradients.Exact()
    elif name == "infinity":
        series = {
            "powers": gradients.Powers,
            "doubling": gradients.Doubling,
            "preconditioned": gradients.Preconditioned,
        }
        chosen = take("series", "powers")
        if chosen not in series:
            raise InputError(f"gradient {text!r}: series is one of {', '.join(series)}")
        p, control = take("p", "0.1"), take("control", "no")
        if control not in ("yes", "no"):
            raise InputError(f"gradient {text!r}: control is yes or no; got {control!r}")
        strategy = gradients.Infinity(
            p="auto" if p == "auto" else float(parse_number(p, f"gradient {text!r}: option 'p'")),
            seed=seed,
            series=series[chosen](),
            draws=whole("draws", "1"),
            least=whole("least", "1"),
            control=control == "yes",
        )
    elif name in ("bptt", "dc-bptt"):
        through_time = gradients.BPTT if name == "bptt" else gradients.DivideAndConquerBPTT
        strategy = through_time(whole("steps", "128"))
    else:
        raise InputError(
            f"there is no gradient {name!r}; there are exact, infinity:p=0.1, bptt:steps=16 and "
            f"dc-bptt:steps=128"
        )
    if options:
        raise InputError(f"gradient {name} has no option {next(iter(options))!r}")
    return strategy


def parse_errors(text: str) -> CovarianceKind:
    """Make a kind of covariance from ``best``, ``sandwich:block=5``, ``information``, ..."""
    from stationary.learning.covariances import (
        AutoCovariance,
        Correlated,
        Dispersed,
        Information,
        Sandwich,
    )

    plain: dict[str, CovarianceKind] = {
        "best": AutoCovariance(),
        "sandwich": Sandwich(),
        "correlated": Correlated(),
        "dispersed": Dispersed(),
        "information": Information(),
    }
    if text in plain:
        return plain[text]
    block = re.fullmatch(r"sandwich:block=(\d+)", text)
    if not block:
        raise InputError(
            f"there are no standard errors {text!r}; there are {', '.join(plain)} and "
            f"sandwich:block=5"
        )
    return Sandwich(int(block[1]))


def parse_loads(text: str) -> list[float]:
    """``10:60:2`` (both ends included; a step of 1 if left out), ``10,20,30``, or both mixed."""
    loads: list[float] = []
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        numbers = [float(parse_number(bit, f"loads {text!r}: a load")) for bit in part.split(":")]
        if len(numbers) == 1:
            loads += numbers
            continue
        low, high, step = (*numbers, 1.0)[:3]
        if len(numbers) > 3 or step <= 0 or high < low:
            raise InputError(f"loads {part!r}: write LOW:HIGH or LOW:HIGH:STEP, upwards")
        if not high - low < _MOST_LOADS * step:
            raise InputError(
                f"loads {part!r}: more than {_MOST_LOADS} of them are too many; use a larger step"
            )
        count = math.floor((high - low) / step + 1e-9) + 1
        # Rounded, so that 60 + 2 * 1.2 is written 62.4 and not 62.400000000000006.
        loads += [float(f"{low + k * step:.12g}") for k in range(count)]
    if not loads:
        raise InputError("no loads given; write them as 10:60:2 or 10,20,30")
    return loads


def parse_grid(texts: list[str], inputs: tuple[str, ...]) -> Any:
    """Inputs of a forecast: loads, or ``name=loads`` for each input, all combined."""
    if len(inputs) == 1 and len(texts) == 1:
        return parse_loads(texts[0].removeprefix(f"{inputs[0]}="))
    given = {name: rest for name, _, rest in (text.partition("=") for text in texts)}
    if set(given) != set(inputs) or len(texts) != len(inputs):
        raise InputError(
            f"give each input once, as --x {inputs[0]}=10:60:2; the inputs are {', '.join(inputs)}"
        )
    axes = [parse_loads(given[name]) for name in inputs]
    if math.prod(map(len, axes)) > _MOST_LOADS:
        raise InputError(
            f"the inputs make {math.prod(map(len, axes))} combinations, more than {_MOST_LOADS}; "
            f"use larger steps"
        )
    return list(itertools.product(*axes))


def parse_range(text: str | None) -> tuple[float | None, float | None] | None:
    """``LOW:HIGH`` with either end left out."""
    if text is None:
        return None
    ends = text.split(":")
    if len(ends) != 2 or not any(end.strip() for end in ends):
        raise InputError(f"a range is LOW:HIGH, with either end left out; got {text!r}")
    low, high = (
        float(parse_number(end.strip(), f"range {text!r}: end")) if end.strip() else None
        for end in ends
    )
    if low is not None and high is not None and low > high:
        raise InputError(f"a range is LOW:HIGH, upwards; got {text!r}")
    return low, high


def parse_states(text: str, states: Sequence[str] = ()) -> list[Observed]:
    """What ``--observe`` lists; a state such as ``q1=3,q2=0`` is one, commas or not."""
    from stationary.terms.categories import parse_observe, split_list

    items = split_list(text)
    length = states[0].count(",") + 1 if len(states) else 1
    found: list[Observed] = []
    while items:
        whole = ",".join(items[:length])
        if length > 1 and whole in states:
            found.append(states[states.index(whole)])
            del items[:length]
        else:
            found += parse_observe(items.pop(0))
    return found


def parse_changes(text: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """``servers=5,capacity=+50%,faster=1.2`` as arguments of `Plan.what_if`.

    A sign makes a value relative to the present one in ``options``: ``servers=+1``.
    """
    present = {**options, "faster": 1.0}
    changes: dict[str, Any] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        key, equals, value = (part.strip() for part in item.partition("="))
        if not equals or not key:
            raise InputError(
                f"what-if {text!r}: write changes as servers=5, servers=+1 or capacity=+50%; got "
                f"{item!r}"
            )
        if key in changes:
            raise InputError(f"what-if {text!r}: {key!r} is changed twice")
        if key not in present:
            raise InputError(
                f"what-if {text!r}: there is no {key!r} to change; there are {', '.join(present)}"
            )
        changes[key] = _changed(value, present[key], f"what-if {text!r}: {key}")
    if not changes:
        raise InputError(f"what-if {text!r}: say what changes, as in servers=+1 or faster=1.2")
    return changes


def _changed(text: str, now: float, what: str) -> int | float:
    """Return the new value that a text asks for, given the present one."""
    percent, signed = text.endswith("%"), text.startswith(("+", "-"))
    if percent and not signed:
        raise InputError(f"{what} in percent needs a sign, as in +50% or -20%; got {text!r}")
    if isinstance(now, bool):
        if text not in ("true", "false"):
            raise InputError(f"{what} is true or false; got {text!r}")
        return text == "true"
    value = parse_number(text.removesuffix("%"), what)
    if not signed:
        return value
    new = now * (1 + value / 100) if percent else now + value
    new = float(f"{new:.12g}")  # 10 and 10% more are 11, not 11.000000000000002
    if not isinstance(now, int):
        return new
    if not new.is_integer():
        raise InputError(
            f"{what} {text} makes {new:g} of {now}, and it must be whole: write {math.ceil(new)}"
        )
    return int(new)
