"""Models in the language of PRISM, read by Storm."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from stationary.edges import Edges
from stationary.errors import InputError
from stationary.models._base import Model, Point
from stationary.models.measures import Measure, reward
from stationary.models.prism import _storm
from stationary.models.prism._rational import RationalFunctions
from stationary.models.prism._valuations import Valuations, written


class Prism(Model):
    """A chain written in the PRISM language, some of whose constants are inputs or parameters.

    States are named by the values of the variables, ``s=0,q=3``. The labels of the file are
    categories and measures; its rewards are measures, long-run means per unit time.

    Parameters
    ----------
    source : str
        The text of a PRISM file; `from_prism` reads one.
    x : sequence of str, or str
        Constants that are inputs; the first is the load.
    theta : sequence of str, or mapping
        Constants to learn, all positive; a mapping gives present values, which otherwise (and for
        None) are those in the file, or 1.
    constants : mapping, optional
        Values of other constants, also of those to which the file gives another one.
    count : str, optional
        The variable whose values people count: 0, 1, 2, ... of the queue length. By default the
        only variable, if there is but one; otherwise states go by their full names.

    Examples
    --------
    >>> source = '''ctmc
    ... const int capacity;
    ... const double load;
    ... const double service;
    ... module queue
    ...   q : [0..capacity] init 0;
    ...   [] q < capacity -> load : (q' = q + 1);
    ...   [] q > 0 -> service : (q' = q - 1);
    ... endmodule
    ... label "loss" = q = capacity;'''
    >>> queue = Prism(source, x="load", theta={"service": 2.0}, constants={"capacity": 2})
    >>> queue([1.0]).rates.tolist(), queue.states_of("loss"), list(queue.states)
    ([[1.0, 2.0, 1.0, 2.0]], [2], ['q=0', 'q=1', 'q=2'])
    """

    name = "prism"

    which: Tensor

    def __init__(
        self,
        source: str,
        x: Sequence[str] | str,
        theta: Sequence[str] | Mapping[str, float | None] | str,
        constants: Mapping[str, float] | None = None,
        count: str | None = None,
    ) -> None:
        inputs, learnt = _names(x, "x"), _names(theta, "theta")
        fixed = dict(constants or {})
        _check_roles(inputs, learnt, fixed)
        chain = _storm.read(source, fixed, [*inputs, *learnt])
        used = {name for ratio in chain.rates.ratios for name in ratio.names}
        for name in learnt:
            if name not in used:
                raise InputError(
                    f"theta: no rate of the PRISM model depends on {name!r}, so there is nothing "
                    f"to learn of it: give it a value in constants"
                )
        given = theta if isinstance(theta, Mapping) else {}
        starts = {name: chain.defined.get(name, 1.0) for name in learnt}
        for name, value in given.items():
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, Real):
                raise InputError(f"theta: {name!r} must be a number; got {value!r}")
            starts[name] = float(value)
        states = Valuations(chain.variables)
        if count is None and len(chain.variables) == 1:
            count = next(iter(chain.variables))
        numbers = [*inputs, *learnt]
        super().__init__(
            states=states,
            edges=Edges(torch.from_numpy(chain.src), torch.from_numpy(chain.dst), len(states)),
            params=starts,
            inputs=inputs,
            groups=None if count is None else _groups(chain, count),
        )
        self._functions = RationalFunctions(chain.rates.ratios, numbers)
        self.register_buffer("which", torch.from_numpy(chain.rates.which), persistent=False)
        self.labels = chain.labels
        self.constants = fixed
        self._source, self._count, self._starts = source, count, starts
        self._rewards = _rewards(chain, count, numbers)

    def rates(self, *args: Any) -> Tensor:
        """Each of the few different rates once, then a copy of it for every edge."""
        *inputs, p = args
        numbers = torch.broadcast_tensors(*inputs, *vars(p).values())
        return self._functions(torch.cat(numbers, -1))[..., self.which]

    @property
    def measures(self) -> tuple[str, ...]:
        """Labels, rewards, and the mean of what people count."""
        return tuple(self._rewards)

    def measure(self, name: str) -> Measure:
        """Return a label's probability, a reward's mean, or the probability of a state."""
        return self._rewards[name].measure() if name in self._rewards else super().measure(name)

    def changed(self, **options: Any) -> Model:
        """Return the model with other values of its constants."""
        return Prism(
            self._source, self.inputs, self.estimates, {**self.constants, **options}, self._count
        )

    def states_of(self, name: int | str) -> list[int]:
        """Positions of the states a name stands for: one state, all of a group, or of a label."""
        grouped = self.groups is not self.states
        if name in self.labels and not (grouped and name in self._members):
            if not len(self.labels[str(name)]):
                raise InputError(f"the label {name!r} holds in no reachable state of the model")
            return self.labels[str(name)].tolist()
        return super().states_of(name)

    def state_index(self, state: int | str) -> int:
        """Position of a state given by name: positions are Storm's, and mean nothing to people."""
        if self.groups is self.states and str(state) not in self.states:
            raise InputError(
                f"state {state!r} is not in the model: its states are {self.states[0]}.."
                f"{self.states[-1]}, its labels {', '.join(self.labels) or 'none'}; to count by "
                f"the value of a variable name it with count= (--group-by)"
            )
        return super().state_index(state)

    @property
    def options(self) -> dict[str, Any]:
        """The text and what its constants are."""
        return {
            "source": self._source,
            "x": list(self.inputs),
            "theta": dict(self._starts),
            "constants": dict(self.constants),
            "count": self._count,
        }

    @property
    def changeable(self) -> dict[str, int | float]:
        """The constants that have a value."""
        return dict(self.constants)

    def extra_repr(self) -> str:
        """Constants and parameters, for ``print(model)``; the text would be too long."""
        shown = {**self.constants, **self.estimates}
        values = ", ".join(f"{name}={value:g}" for name, value in shown.items())
        return f"x={','.join(self.inputs)}, {values}"


def from_prism(
    path: str | os.PathLike[str],
    *,
    x: Sequence[str] | str,
    theta: Sequence[str] | Mapping[str, float | None] | str,
    constants: Mapping[str, float] | None = None,
    count: str | None = None,
) -> Prism:
    """Read a continuous-time Markov chain from a PRISM file; arguments as for `Prism`."""
    try:
        source = Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise InputError(f"{path} is no PRISM model: it is not text in UTF-8") from None
    except OSError as error:
        raise InputError(
            f"{path}: the PRISM model cannot be read: {error.strerror or error}"
        ) from None
    return Prism(source, x, theta, constants, count)


def _names(given: Any, argument: str) -> tuple[str, ...]:
    names = (given,) if isinstance(given, str) else tuple(given)
    if not names or not all(isinstance(name, str) and name for name in names):
        raise InputError(
            f"{argument} must name at least one constant of the PRISM model; got {given!r}"
        )
    return names


def _check_roles(inputs: Sequence[str], learnt: Sequence[str], fixed: Mapping[str, Any]) -> None:
    roles = [*inputs, *learnt, *fixed]
    twice = [name for name in roles if roles.count(name) > 1]
    if twice:
        raise InputError(
            f"constant {twice[0]!r} is named twice in x, theta and constants: it is an input, a "
            f"parameter or fixed"
        )
    for name, value in fixed.items():
        if not isinstance(value, Real) or not math.isfinite(value):
            raise InputError(f"constants: {name!r} must be a finite number; got {value!r}")


def _variable(chain: _storm.Chain, count: str) -> np.ndarray[Any, Any]:
    if count not in chain.variables:
        raise InputError(
            f"count: the PRISM model has no variable {count!r}; it has {', '.join(chain.variables)}"
        )
    return chain.variables[count]


def _groups(chain: _storm.Chain, count: str) -> list[str]:
    """Return the value of the counted variable in every state."""
    return [written(value) for value in _variable(chain, count)]


@dataclass(frozen=True, eq=False)
class _Reward:
    """What a state earns per unit of time: fixed, or by the inputs and parameters."""

    values: Tensor | RationalFunctions
    which: Tensor
    low: float
    high: float
    about: str

    def measure(self) -> Measure:
        if isinstance(self.values, Tensor):
            return reward(self.values[self.which], self.low, self.high, self.about)
        return Measure(self._mean, self.low, self.high, self.about)

    def _mean(self, point: Point) -> Tensor:
        numbers = torch.broadcast_tensors(*point.x.split(1, -1), *vars(point.p).values())
        few = self.values(torch.cat(numbers, -1))  # type: ignore[operator]
        return point.mean(few[..., self.which.to(few.device)])


def _rewards(chain: _storm.Chain, count: str | None, numbers: Sequence[str]) -> dict[str, _Reward]:
    n = len(next(iter(chain.variables.values())))
    found: dict[str, _Reward] = {}
    for name, places in chain.labels.items():
        if 0 < len(places) < n:  # otherwise there is nothing to forecast
            inside = torch.zeros(n, dtype=torch.long)
            inside[torch.from_numpy(places)] = 1
            values = torch.tensor([0.0, 1.0], dtype=torch.float64)
            about = f"long-run probability of the label {name}"
            found[name] = _Reward(values, inside, 0.0, 1.0, about)
    for name, earned in chain.rewards.items():
        shown = name if name not in found else f"{name}_reward"
        about = f"long-run mean of the reward {name} per unit time"
        constants = [ratio.constant for ratio in earned.ratios]
        low = 0.0 if all(ratio.positive for ratio in earned.ratios) else -math.inf
        which = torch.from_numpy(earned.which)
        if None not in constants:
            values = torch.tensor(constants, dtype=torch.float64)
            most = float(values[which].max())
            high = most if low == 0 and most > 0 else math.inf
            found[shown] = _Reward(values, which, low, high, about)
        else:
            functions = RationalFunctions(earned.ratios, numbers)
            found[shown] = _Reward(functions, which, low, math.inf, about)
    # Of a file that says nothing of interest, the variables are all there is.
    counted = [count] if count is not None else [] if found else list(chain.variables)
    for name in counted:
        level = torch.from_numpy(_variable(chain, name).astype(np.float64))
        low, high = float(level.min()), float(level.max())
        if low < high:
            about = f"long-run mean of {name}"
            mean = _Reward(level, torch.arange(n), low, high, about)
            found.setdefault(f"mean_{name}", mean)
    return found
