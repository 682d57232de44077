"""Inputs of a model as people write them, read into one tensor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from stationary.errors import InputError


def read_inputs(x: Any, names: Sequence[str], like: Tensor) -> Tensor:
    """Return inputs as a tensor ``[..., d]`` with the dtype and device of another."""
    named = isinstance(x, Mapping) or hasattr(x, "columns")
    missing = [name for name in names if named and name not in x]
    if missing:
        raise InputError(f"x needs a column {missing[0]!r}; got {list(x)}")
    if not isinstance(x, Tensor):
        try:
            if named:
                x = np.column_stack([np.asarray(x[name], dtype=float) for name in names])
            x = torch.from_numpy(np.array(x, dtype=np.float64))
        except (TypeError, ValueError):
            raise InputError(
                f"inputs must be numbers, as in loads [80, 100, 120]; got {x!r}"
            ) from None
    x = x.to(like)
    if x.ndim == 0:
        x = x[None]
    return x[:, None] if x.ndim == 1 and len(names) == 1 else x
