"""What models of rules and of PRISM have in common: states by variables, formulas, constants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from stationary.errors import InputError
from stationary.models._base import Model
from stationary.models.rules.errors import about
from stationary.models.rules.formulas import on_arrays
from stationary.models.rules.language import parse
from stationary.models.rules.states import Ints, States, written


class FormulaModel(Model):
    """A model that is read from a text; its constants are options that can be changed.

    A subclass sets ``constants``, the formulas of the rates, the measures, and perhaps ``labels``,
    sets of states by name.

    Parameters
    ----------
    states : States
        Values of the variables in every state.
    counted : ndarray [n], optional
        What people count in every state: a number in windows is then such a value.
    **declared
        Edges, parameters and inputs, as for `Model`.
    """

    how_to_count: ClassVar[str]
    constants: Mapping[str, Any]
    labels: Mapping[str, Ints] = {}
    states: States
    _rates: nn.Module

    def __init__(self, states: States, counted: NDArray[Any] | None, **declared: Any) -> None:
        self._counted: tuple[str, ...] | None = None
        groups = None
        if counted is not None:
            values, group = np.unique(counted, return_inverse=True)
            truth = values.dtype == bool
            self._counted = tuple(written(v) if truth else f"{v:.12g}" for v in values.tolist())
            groups = [self._counted[k] for k in group.tolist()]
        super().__init__(states=states, groups=groups, **declared)

    def rates(self, *args: Any) -> Tensor:
        """Rates of every edge, by the formulas of the model."""
        *inputs, p = args
        found: Tensor = self._rates(dict(zip(self.inputs, inputs, strict=True)) | vars(p))
        return found

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
