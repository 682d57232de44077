"""The small languages of the command line: names with options, loads, ranges, changes."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

import stationary as st
from stationary.errors import InputError, did_you_mean
from stationary.terms.spans import parse_span

if TYPE_CHECKING:
    from stationary.gradients import Gradient
    from stationary.learning.covariances import CovarianceKind
    from stationary.terms.categories import Observed

_MOST_LOADS = 100_000


def parse_pairs(
    texts: str | Iterable[str], what: str, example: str, alone: bool = False
) -> dict[str, str]:
    """Read ``name=value,...``, or several texts of one pair each.

    A message names ``what`` the pairs belong to, and shows an ``example`` of one. Where a name may
    stand ``alone``, its value is empty.
    """
    pairs: dict[str, str] = {}
    items = texts.split(",") if isinstance(texts, str) else texts
    for item in filter(None, map(str.strip, items)):
        name, equals, value = map(str.strip, item.partition("="))
        if not name or not (value or (alone and not equals)):
            raise InputError(f"{what}: write name=value, as in {example}; got {item!r}")
        if name in pairs:
            raise InputError(f"{what}: {name!r} is given twice; give it once")
        pairs[name] = value
    return pairs


def parse_number(text: str, what: str) -> int | float:
    """Read a finite number; ``what`` names it in a message."""
    try:
        value = float(text)
    except ValueError:
        raise InputError(f"{what} must be a number; got {text!r}") from None
    if not math.isfinite(value):
        raise InputError(f"{what} must be finite; got {text!r}")
    return int(value) if re.fullmatch(r"[+-]?\d+", text) else value


def parse_gradient(text: str, seed: int) -> Gradient:
    """Make a gradient strategy from ``exact``, ``infinity:p=0.1``, ``dc-bptt:steps=128``, ..."""
    kinds = {
        "exact": st.gradients.Exact,
        "infinity": st.gradients.Infinity,
        "bptt": st.gradients.BPTT,
        "dc-bptt": st.gradients.DivideAndConquerBPTT,
    }
    made: Gradient = _build(text, kinds, "gradient", {"seed": seed, "steps": 128})
    return made


def parse_errors(text: str) -> CovarianceKind:
    """Make a kind of covariance from ``best``, ``sandwich:block=5``, ``information``, ..."""
    kinds = {
        "best": st.covariances.AutoCovariance,
        "sandwich": st.covariances.Sandwich,
        "correlated": st.covariances.Correlated,
        "dispersed": st.covariances.Dispersed,
        "information": st.covariances.Information,
    }
    made: CovarianceKind = _build(text, kinds, "kind of standard errors", {})
    return made


def _build(text: str, kinds: Mapping[str, type], what: str, defaults: Mapping[str, Any]) -> Any:
    """Make an object from ``name:option=value,...``; the options are the fields of its class."""
    name, _, rest = text.partition(":")
    if name not in kinds:
        raise InputError(f"there is no {what} {name!r}{did_you_mean(name, kinds)}")
    hints = get_type_hints(kinds[name])
    types = {each.name: hints[each.name] for each in fields(kinds[name]) if each.init}
    options = {key: value for key, value in defaults.items() if key in types}
    for key, value in parse_pairs(rest, f"{what} {text!r}", "block=5 or steps=128").items():
        if key not in types:
            raise InputError(f"{what} {name} has no option {key!r}{did_you_mean(key, types)}")
        options[key] = _as_type(value, types[key], f"{what} {text!r}: {key}")
    return kinds[name](**options)


def _as_type(text: str, hint: Any, what: str) -> Any:
    """Read the value of an option that a class declares with this type."""
    kinds = get_args(hint) or (hint,)
    if text in [word for kind in kinds for word in get_args(kind)]:  # such as Literal["auto"]
        return text
    if bool not in kinds and (int in kinds or float in kinds):
        number = parse_number(text, what)
        if float not in kinds and not isinstance(number, int):
            raise InputError(f"{what} must be a whole number; got {text!r}")
        return number
    choices = {"yes": True, "no": False}
    if hint is not bool:
        choices = {kind.__name__.lower(): kind() for kind in hint.__subclasses__()}
    if text not in choices:
        raise InputError(f"{what} is one of {', '.join(choices)}; got {text!r}")
    return choices[text]


def parse_loads(text: str, whole: float | None = None) -> list[float]:
    """``10:60:2`` (both ends included; a step of 1 if left out), ``10,20,30``, or both mixed.

    A load may be a share of the ``whole``, as in ``80%:150%`` (a step of 10% if left out).
    """
    loads: list[float] = []
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        numbers = [_load(bit, text, whole) for bit in part.split(":")]
        if len(numbers) == 1:
            loads += numbers
            continue
        usual = 0.1 * (whole or 1.0) if part.endswith("%") else 1.0
        low, high, step = (*numbers, usual)[:3]
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


def _load(text: str, loads: str, whole: float | None) -> float:
    text, what = text.strip(), f"loads {loads!r}: a load"
    if not text.endswith("%"):
        return float(parse_number(text, what))
    if whole is None:
        raise InputError(f"{what} is a number here; a share such as 120% is one of a saved plan's")
    return float(parse_number(text.removesuffix("%"), what)) / 100 * whole


def parse_grid(texts: list[str], inputs: tuple[str, ...], whole: float | None = None) -> Any:
    """Inputs of a forecast: loads, or ``name=loads`` for each input, all combined.

    Loads, the first input, may be shares of the ``whole``, see `parse_loads`.
    """
    if len(inputs) == 1 and len(texts) == 1:
        return parse_loads(texts[0].removeprefix(f"{inputs[0]}="), whole)
    given = {name: rest for name, _, rest in (text.partition("=") for text in texts)}
    if set(given) != set(inputs) or len(texts) != len(inputs):
        raise InputError(
            f"give each input once, as --x {inputs[0]}=10:60:2; the inputs are {', '.join(inputs)}"
        )
    wholes = (whole, *(None for _ in inputs[1:]))
    axes = [parse_loads(given[name], of) for name, of in zip(inputs, wholes, strict=True)]
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
    what, present = f"what-if {text!r}", {**options, "faster": 1.0}
    changes = parse_pairs(text, what, "servers=5, servers=+1 or capacity=+50%")
    check_changes(changes, present)
    if not changes:
        raise InputError(f"{what}: say what changes, as in servers=+1 or faster=1.2")
    return {
        key: parse_span(value, f"{what}: {key}")
        if key == "patience" and not value.startswith(("+", "-"))
        else _changed(value, present[key], f"{what}: {key}")
        for key, value in changes.items()
    }


def check_changes(names: Iterable[str], options: Mapping[str, Any]) -> None:
    """Raise unless these are options that a what-if may change."""
    for name in names:
        if name not in options:
            raise InputError(
                f"what-if: there is no {name!r} to change{did_you_mean(name, options)}"
            )


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
