"""Ranks of items with their uncertainty, from draws of their strengths."""

from __future__ import annotations

import numpy as np
import pandas as pd

from stationary.errors import InputError
from stationary.learning.draws import Draws
from stationary.models import PlackettLuce
from stationary.terms.slo import check_level


def ranks(draws: Draws, level: float = 0.95) -> pd.DataFrame:
    """Return the rank of every item, how far it may be from it, and how likely it is the best.

    Parameters
    ----------
    draws : Draws
        Of a fitted `PlackettLuce` model: ``fit.draws``.
    level : float
        Coverage of the interval of each rank.

    Returns
    -------
    DataFrame
        ``item``, ``strength``, ``rank`` (1 for the strongest), ``rank_low``, ``rank_high`` and
        ``best``, the probability that no other item is stronger; the strongest first.
    """
    check_level(level)
    part = draws.parts[0]
    if len(draws.parts) > 1 or not isinstance(part.model, PlackettLuce):
        raise InputError(f"ranks are of one PlackettLuce model; got draws of {part.model!r:.80}")
    theta = part.theta.numpy()
    place = (-theta).argsort(1).argsort(1) + 1
    ends = np.quantile(place, [0.5 - level / 2, 0.5 + level / 2], axis=0, method="inverted_cdf")
    strength = part.model.theta.detach().numpy()
    table = pd.DataFrame(
        {
            "item": part.model.items,
            "strength": strength,
            "rank": (-strength).argsort().argsort() + 1,
            "rank_low": ends[0].astype(int),
            "rank_high": ends[1].astype(int),
            "best": (place == 1).mean(0),
        }
    )
    return table.sort_values("rank", ignore_index=True)
