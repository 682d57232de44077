"""Inputs of a model as people write them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from torch import Tensor

from stationary.errors import InputError
from stationary.models._base import Model


def grid(model: Model, x: Any) -> Tensor:
    """Inputs of a forecast: a sequence, an array ``[G, d]``, or columns by name."""
    if isinstance(x, (pd.DataFrame, Mapping)):
        missing = [name for name in model.inputs if name not in x]
        if missing:
            raise InputError(f"the forecast needs a column {missing[0]!r}; got {list(x)}")
        x = np.column_stack([np.asarray(x[name], dtype=float) for name in model.inputs])
    elif not isinstance(x, Tensor):
        try:
            x = np.asarray(list(x) if isinstance(x, range) else x, dtype=float)
        except (TypeError, ValueError):
            raise InputError(f"loads must be numbers, as in [80, 100, 120]; got {x!r}") from None
    if len(np.atleast_1d(x)) == 0:
        raise InputError("there is nothing to forecast: x is empty")
    return model.as_inputs(x)
