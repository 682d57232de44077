"""What models of rules and of PRISM have in common: states by variables, formulas, constants."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stationary.errors import InputError, RateError
from stationary.generator import Generator
from stationary.models._base import Model
from stationary.models.measures import Measure, mean_of_states, probability, reward
from stationary.models.rules.errors import DescriptionError, about
from stationary.models.rules.formulas import Formula, on_arrays
from stationary.models.rules.language import parse
from stationary.models.rules.rates import StateFormulas
from stationary.models.rules.reach import Applied, edges_of
from stationary.models.rules.states import Ints, States, written


class FormulaModel(Model):
    """A model that is read from a text; its constants are options that can be changed.

    A subclass sets ``constants``, the measures, and perhaps ``labels``, sets of states by name. It
    says which rules apply where, and what people ``counted`` in every state: a number in windows is
    then such a value.
    """

    how_to_count: ClassVar[str]
    constants: Mapping[str, Any]
    labels: Mapping[str, Ints] = {}
    states: States
    _edge: Tensor

    def __init__(
        self,
        states: States,
        applied: Sequence[Applied],
        counted: NDArray[Any] | None,
        **declared: Any,
    ) -> None:
        self._counted: tuple[str, ...] | None = None
        groups = None
        if counted is not None:
            values, group = np.unique(counted, return_inverse=True)
            truth = values.dtype == bool
            self._counted = tuple(written(v) if truth else f"{v:.12g}" for v in values.tolist())
            groups = [self._counted[k] for k in group.tolist()]
        edges, edge = edges_of(applied, states)
        super().__init__(states=states, groups=groups, edges=edges, **declared)
        self.register_buffer("_edge", edge, persistent=False)
        # First the rates of edges, then those of what happens without a move, such as a refusal.
        places = [(each.rule, each.moves[0]) for each in applied]
        self._moving = sum(len(which) for _, which in places)
        places += [(each.rule, each.stays(len(states))) for each in applied]
        self._sources = [(rule.name, which) for rule, which in places]
        formulas = {}
        for k, (rule, which) in enumerate(places):
            if len(which):
                here = {name: column[which] for name, column in states.columns.items()}
                formulas[str(k)] = rule.rate, here
        self._rates = StateFormulas(formulas)

    def rule_rates(self, *args: Any) -> Tensor:
        """Rates of all rules: those of their moves, then of what happens without a move."""
        *inputs, p = args
        return self._rates(dict(zip(self.inputs, inputs, strict=True)) | vars(p))

    def rates(self, *args: Any) -> Tensor:
        """Each rule's rate on its own edges; those of one edge are added.

        They are NaN where the rate of a rule is invalid and would otherwise be hidden, by another
        rule of the same edge or because the rule has no edge.
        """
        found = self.rule_rates(*args)
        moving, others = found[..., : self._moving], found[..., self._moving :]
        moving = torch.where(_valid(moving), moving, math.nan)
        zero = found.new_zeros((*found.shape[:-1], len(self.edges)))
        moving = zero.index_add(-1, self._edge, moving)
        if others.shape[-1]:
            moving = torch.where(_valid(others).all(-1, keepdim=True), moving, math.nan)
        return moving

    def generator(self, x: Tensor, theta: Tensor, index: Tensor | None = None) -> Generator:
        """Generators; the error for an invalid rate names its rule."""
        try:
            return super().generator(x, theta, index)
        except RateError:
            with torch.no_grad():
                found = self.rule_rates(*x.split(1, -1), self.named(theta))
            if bool(_valid(found).all()):  # their sum is not
                raise
            *window, place = (~_valid(found)).nonzero()[0].tolist()
            batch, which = found.shape[:-1], tuple(window)
            values = torch.cat([each.expand(*batch, -1)[which] for each in (x, theta)]).tolist()
            names = (*self.inputs, *self.param_names)
            at = ", ".join(f"{k}={v:g}" for k, v in zip(names, values, strict=True))
            ends = np.cumsum([len(states) for _, states in self._sources])
            k = int(np.searchsorted(ends, place, side="right"))
            rule, states = self._sources[k]
            raise RateError(
                f"rule {rule!r} has the rate {float(found[(*which, place)]):g} in state "
                f"{self.states[int(states[place - ends[k]])]!r} at {at}; rates must be finite and "
                f"not negative: give the rule a guard, or its rate max(0, ...)"
            ) from None

    @property
    def visible(self) -> Sequence[str]:
        """What people count: the counted values in order, or the states."""
        return super().visible if self._counted is None else self._counted

    def states_of(self, name: int | str) -> list[int]:
        """Positions of the states that a name, a counted value, a label or a condition has."""
        text = str(name)
        found = self.states.find(text)
        if found is not None:
            return [found]
        if self._counted is not None and text in self._members:
            return self._members[text].tolist()
        if text in self.labels:
            what, where = f"the label {text!r} holds in no reachable state", self.labels[text]
        elif text.isdecimal() or text.isidentifier():
            raise InputError(self._unknown(text))
        else:
            with about(f"condition {text!r}"):
                condition = parse(text, self.states.columns, self.constants, condition=True)
            what = f"no state of the model has {text}"
            where = np.flatnonzero(on_arrays(condition, self.states.columns))
        if not len(where):
            raise InputError(what)
        return where.tolist()

    def state_index(self, state: int | str) -> int:
        """Position of one state by name, such as ``q1=3,q2=0``, its variables in any order."""
        found = self.states.find(str(state))
        if found is None:
            raise InputError(self._unknown(str(state)))
        return found

    def _unknown(self, text: str) -> str:
        how = self.how_to_count
        if self._counted is not None:
            how = f"counted as {self._counted[0]}..{self._counted[-1]}"
        labels = f", its labels {', '.join(self.labels)}" if self.labels else ""
        return (
            f"state {text!r} is not in the model: its {len(self.states)} states are "
            f"{self.states[0]}..{self.states[-1]}{labels}, {how}; or write a condition, such as "
            f"'{next(iter(self.states.columns))} >= 1'"
        )

    def _measure_of(
        self, name: str, formula: Formula, about: str, low: float = -math.inf
    ) -> Measure:
        """The probability of a condition, or the long-run mean of a formula."""
        columns = self.states.columns
        if not formula.names <= columns.keys():
            return reward(StateFormulas({name: (formula, columns)}), low, about=about)
        values = finite(formula, self.states, "measures", name)
        return probability(values, about) if formula.boolean else mean_of_states(values, about)

    @property
    def changeable(self) -> dict[str, int | float]:
        """The constants."""
        return dict(self.constants)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.extra_repr()})"  # without the formulas inside

    def extra_repr(self) -> str:
        """Inputs, constants and parameters, for ``print(model)``; the text would be too long."""
        shown = {**self.constants, **self.estimates}
        return ", ".join([f"x={','.join(self.inputs)}", *(f"{k}={v:g}" for k, v in shown.items())])


def _valid(rates: Tensor) -> Tensor:
    return rates.isfinite() & (rates >= 0)


def finite(formula: Formula, states: States, section: str, key: str = "") -> NDArray[np.float64]:
    """Return what only the state decides, in every state, or raise if it is not finite there."""
    values = np.array(on_arrays(formula, states.columns), dtype=np.float64)
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        raise DescriptionError(
            f"{formula.text} is {values[bad[0]]:g} in state {states[int(bad[0])]}, and must be "
            f"finite in every state: avoid the others with if(condition, ..., 0)",
            section,
            key,
        )
    return values
