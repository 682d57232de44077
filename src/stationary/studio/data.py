"""The data of a plan, window by window: what does not fit, and what moves the answer."""

from __future__ import annotations

from typing import Any

import numpy as np

from stationary import words
from stationary.errors import InputError
from stationary.studio.answers import Asked, View
from stationary.trust.checks import Residuals

_FELT = 0.02
"""Change of the limit from which a window is named that causes it."""


def windows(view: View, asked: Asked) -> dict[str, Any]:
    """Return the windows in recorded order, with the reason where one is out of the ordinary."""
    plan = view.asked(asked)
    found, note = plan.windows, ""
    off, change = np.full(len(found), np.nan), np.full(len(found), np.nan)
    try:
        found.check_single("this page")
        rows = Residuals.of(plan.estimate, found)
        off[rows.position] = rows.standardised_shift
    except InputError as error:
        note = words.sentence(str(error))
    odd = plan.outlying
    if plan.question.slos and not found.is_pooled:
        frame = plan.influence()
        change[frame.index.to_numpy()] = frame["change"].to_numpy()
    table = zip(
        found.loads.tolist(), found.size.tolist(), off.tolist(), change.tolist(), strict=True
    )
    return {
        "note": note,
        "windows": [
            {
                "load": load,
                "count": count,
                "off": far,
                "change": moved,
                "reasons": [
                    *([words.odd_window(far)] if k in odd else []),
                    *([words.felt_window(moved)] if abs(moved) > _FELT else []),
                ],
            }
            for k, (load, count, far, moved) in enumerate(table)
        ],
    }
