"""The data of a plan, window by window: what does not fit, and what moves the answer."""

from __future__ import annotations

from typing import Any

import numpy as np

from stationary import words
from stationary.errors import InputError
from stationary.studio.answers import Asked, View
from stationary.trust.checks import Residuals

_FELT = 0.02  # change of the limit from which a window is named that causes it


def windows(view: View, asked: Asked) -> dict[str, Any]:
    """Return the windows in recorded order, with the reason where one is out of the ordinary."""
    plan = view.asked(asked)
    found = plan.windows
    off, change = np.full(len(found), np.nan), np.full(len(found), np.nan)
    note = "" if plan.change is None else words.sentence(words.what_if(plan.change))
    odd: list[int] = []
    if plan.change is None and plan.question.slos and not found.is_pooled:
        frame = plan.influence()
        change[frame.index.to_numpy()] = frame["change"].to_numpy()
    if plan.change is None:
        try:
            found.check_single("this page")
            residuals = Residuals.of(plan.estimate, found)
            off[residuals.position] = residuals.standardised_shift
            odd = plan.outlying
        except InputError as error:
            note = words.sentence(str(error))
    names = ("load", "count", "off", "change")
    columns = (each.tolist() for each in (found.loads, found.size, off, change))
    rows = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    for k, row in enumerate(rows):
        reasons = [words.odd_window(row["off"])] if k in odd else []
        if abs(row["change"]) > _FELT:
            reasons.append(words.felt_window(row["change"]))
        row["reasons"] = reasons
    return {"note": note, "windows": rows}
