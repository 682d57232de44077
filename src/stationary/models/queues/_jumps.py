"""The paper's structured chains: arrivals move one state up, departures may skip states down."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from stationary.edges import Edges
from stationary.models._params import Values, rate
from stationary.models._rates import join_rates, repeated
from stationary.models.queues._queue import Queue


class JumpQueue(Queue):
    """Arrivals one state up at the load, and jumps to lower states at rates that are learnt.

    Parameters
    ----------
    levels : mapping
        Requests in the system for every state, by name.
    jumps : mapping
        For every jump (from, to), by position, the label of its rate. Jumps may share one.
    **rates : float
        Present values of the rates, by label.
    """

    _label: Tensor

    def __init__(
        self, levels: Mapping[str, int], jumps: Mapping[tuple[int, int], str], **rates: Any
    ) -> None:
        labels = {label: k for k, label in enumerate(dict.fromkeys(jumps.values()))}
        up = [(k, k + 1) for k in range(len(levels) - 1)]
        super().__init__(
            levels=levels,
            edges=Edges.from_pairs([*up, *jumps], len(levels)),
            params={"rate": rate([1.0] * len(labels), list(labels))},
            **rates,
        )
        label = torch.tensor([labels[label] for label in jumps.values()])
        self.register_buffer("_label", label, persistent=False)

    def rates(self, load: Tensor, p: Values) -> Tensor:
        """Arrivals up, then jumps."""
        return join_rates(repeated(load, len(self.states) - 1), p.rate[..., self._label])
