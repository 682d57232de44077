"""Random numbers that follow from a seed."""

from __future__ import annotations

import numpy as np

from stationary.errors import InputError


def as_random(seed: int | np.random.Generator) -> np.random.Generator:
    """Return the generator of random numbers for a seed."""
    if isinstance(seed, bool | None):
        raise InputError(f"seed must be a whole number from 0 up; got {seed!r}")
    try:
        return np.random.default_rng(seed)
    except (TypeError, ValueError):
        raise InputError(f"seed must be a whole number from 0 up; got {seed!r}") from None
