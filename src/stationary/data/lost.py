"""Lost requests: how many of those that arrived in a window were not served.

A request is lost with the probability that the model says of arriving ones, in a full system or out
of impatience. Histograms of response times and service times hold only those that were served, so
losses tell what these cannot; counts of states tell of full queues already.

Windows without a single loss may come from a log that does not show them, so they are not used by
themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

import numpy as np
import torch
from torch import Tensor

from stationary._support.types import Array
from stationary.data._base import Counts
from stationary.errors import InputError
from stationary.models import Model, Point


class Losses(Counts):
    """Counts of lost and of served requests.

    Parameters
    ----------
    data : array_like [M, 2]
        Lost requests and served ones in each window.

    Examples
    --------
    >>> import stationary as st
    >>> seen = st.Windows(x=[40.0, 50.0], observations=[Losses([[5, 995], [20, 980]])])
    >>> round(st.fit(st.models.MMmK(capacity=5), seen).estimates["service_rate"])
    97
    """

    kind = "losses"
    rank = -1
    beside = ("latencies",)
    columns = ("lost", "served")

    @classmethod
    def find_columns(cls, names: Sequence[str]) -> tuple[str, ...]:
        """Return the columns ``lost`` and ``served``, or ``lost`` and ``sent``, if there are."""
        found = tuple(name for name in ("lost", "served", "sent") if name in names)[:2]
        return found if len(found) > 1 and found[0] == "lost" else ()

    @classmethod
    def from_columns(cls, columns: Mapping[str, Array], metadata: Mapping[str, str]) -> Self:
        """Return the losses in columns of a file; ``sent`` counts lost and served requests."""
        del metadata
        lost, other = columns.values()
        if "sent" in columns:
            if (lost > other).any():
                first = int((lost > other).argmax())
                raise InputError(
                    f"{lost[first]:g} requests were lost of {other[first]:g} sent: the column sent "
                    f"counts all requests that arrived, the lost ones among them"
                )
            other = other - lost
        return cls(np.stack([lost, other], -1))

    def explained_by(self, model: Model) -> bool:
        """Whether a request was lost at all, and a model says how many are."""
        return "loss" in model.measures and bool(self.data[:, 0].any())

    def on(self, model: Model) -> Self:
        """Return these losses of a model that says how many requests are lost."""
        model.measure("loss")  # which says what there is, if not this
        return self

    def probabilities(self, point: Point) -> Tensor:
        """Share of arriving requests that are lost, and that are not, ``[..., M, 2]``."""
        loss = point.model.measure("loss")(point)
        return torch.stack([loss, 1 - loss], -1)
