"""Formulas on many states at once, of which the parts that never change are computed once.

In a rate such as ``load * min(q, servers) * mu`` only the state decides ``min(q, servers)``: it is
a table ``[E]`` that is made with the model.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from stationary.models.rules.formulas import Columns, Formula, evaluate, name, number, on_arrays
from stationary.models.rules.states import Floats


class StateFormulas(nn.Module):
    """Formulas of inputs and parameters, by name; each has its states, by values of variables."""

    def __init__(self, formulas: Mapping[str, tuple[Formula, Columns]]) -> None:
        super().__init__()
        tables: dict[str, Tensor] = {}
        self._formulas, self.sizes = {}, {}
        for key, (formula, columns) in formulas.items():
            self._formulas[key] = _prepared(formula, columns, tables)
            self.sizes[key] = len(next(iter(columns.values())))
        for key, table in tables.items():
            self.register_buffer(key, table, persistent=False)

    def value(self, key: str, given: Mapping[str, Tensor]) -> Tensor:
        """One formula, ``[..., 1]`` or ``[..., size]``, for inputs and parameters ``[..., 1]``."""
        found = evaluate(self._formulas[key], {**given, **self._buffers}, torch)
        # A plain number is on the CPU, whatever the device of the model.
        return found.to(next(iter(given.values())))

    def forward(self, given: Mapping[str, Tensor]) -> Tensor:
        """All formulas one after the other, ``[..., sum of sizes]``."""
        batch = np.broadcast_shapes(*(value.shape[:-1] for value in given.values()))
        values = [self.value(key, given).expand((*batch, n)) for key, n in self.sizes.items()]
        return torch.cat(values, -1)


def weighted_sum(terms: Iterable[tuple[Formula, Floats]], columns: dict[str, Any]) -> Formula:
    """Return a sum of formulas, each times an array over states that is added to the columns."""
    found = []
    for formula, weight in terms:
        if (weight == 1).all():
            found.append(formula)
        elif weight.any():
            key = f"weight {len(columns)}"  # no name in a formula has a space
            columns[key] = weight
            found.append(Formula("*", (formula, name(key))))
    return Formula("+", tuple(found)) if found else number(0.0)


def _prepared(formula: Formula, columns: Columns, tables: dict[str, Tensor]) -> Formula:
    """Return the same formula with tables in place of what only the state decides."""
    variables = columns.keys()
    if not formula.names & variables:
        return formula
    if formula.names <= variables:
        return _table(on_arrays(formula, columns), tables)
    if formula.op == "if" and formula.args[0].names <= variables and not formula.boolean:
        return _branches(formula.args, columns, tables)
    return Formula(formula.op, tuple(_prepared(arg, columns, tables) for arg in formula.args))


def _table(values: NDArray[Any], tables: dict[str, Tensor]) -> Formula:
    """Keep an array; return the name by which formulas find it."""
    key = f"table {len(tables)}"
    tables[key] = torch.from_numpy(np.array(values))
    return name(key)


def _branches(args: Sequence[Formula], columns: Columns, tables: dict[str, Tensor]) -> Formula:
    """Compute each branch on its own states, so that NaN of the other reaches no gradient."""
    condition, *branches = args
    holds = np.asarray(on_arrays(condition, columns), dtype=bool)
    if holds.all() or not holds.any():
        return _prepared(branches[0 if holds.all() else 1], columns, tables)
    places = [np.flatnonzero(holds), np.flatnonzero(~holds)]
    parts = []
    for branch, place in zip(branches, places, strict=True):
        here = {key: column[place] for key, column in columns.items()}
        parts.append(_prepared(branch, here, tables))
    return Formula("join", (*parts, *(_table(place, tables) for place in places)))
