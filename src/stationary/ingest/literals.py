"""Numbers in queries."""

from __future__ import annotations

from typing import Any


def real(value: float) -> Any:
    """Return a number that an engine takes as this very float.

    Written plainly it would be a decimal in some engines, which make it a float by a division
    that may round once more.
    """
    import ibis

    return ibis.literal(repr(float(value))).cast("float64")
