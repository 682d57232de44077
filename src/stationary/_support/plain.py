"""What programs and people are told: numbers that JSON can hold, and mistakes of our own."""

from __future__ import annotations

import math
import tempfile
import traceback
from typing import Any

from stationary.errors import hide_passwords


def finite(item: Any) -> Any:
    """Return a record in which every number that is not finite is None, which JSON has."""
    if isinstance(item, dict):
        return {key: finite(value) for key, value in item.items()}
    if isinstance(item, list | tuple):
        return [finite(value) for value in item]
    return None if isinstance(item, float) and not math.isfinite(item) else item


def our_mistake(error: Exception, *context: str) -> str:
    """Keep the details of an unexpected error in a file, and return the sentence that names it."""
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", prefix="stationary-error-", suffix=".txt", delete=False
    ) as file:
        file.write("\n".join([*context, hide_passwords(traceback.format_exc())]))
    text = hide_passwords(f"{type(error).__name__}: {error}")
    return (
        f"this is a mistake in stationary, not in your data: {text}; please report it with "
        f"{file.name}"
    )
