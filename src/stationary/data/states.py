r"""Counts of states: the paper's observation, and the likelihood that a fit maximises.

A window ``w`` has counts ``y_wc`` of how often the system was seen in category ``c``. A category is
a set of states, and the sets are disjoint. Let ``p_c`` be the probability of a category, its
states' ``pi`` added up. Given that only the observed categories can be seen, the negative
log-likelihood of a window is

    L = - sum_c y_c log( p_c / sum_c' p_c' ),

with the denominator over the observed categories: the paper's Eq. (2) prints it over all states,
which its own text and its Eq. (3) contradict. Its gradient is

    dL/dp_c = - y_c / p_c + sum(y) / sum(p).

Where the samples are what arriving requests found, ``pi`` is weighted by the rate of arrivals in
each state: requests see the time average only where that rate is the same everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from stationary.data._base import Counts
from stationary.data.losses import ObservationMap, conditional_nll, conditional_probabilities
from stationary.data.numbers import as_counts
from stationary.errors import InputError
from stationary.models import Model, Point
from stationary.terms.categories import (
    Category,
    Observed,
    as_categories,
    find_categories,
    label,
    members,
)


class Sampling(StrEnum):
    """When the state was sampled: at times independent of the system, or by arriving requests."""

    TIME = "time"
    ARRIVAL = "arrival"


class States(Counts):
    """Counts of states, or of sets of states, given that one of the observed ones was seen.

    Parameters
    ----------
    data : array_like [M, C]
        How often each category was seen in each window: whole numbers, zero or more.
    observe : sequence
        What each column counts: a state (its name or its number), or a sequence of states, any of
        which counts.
    sampling : Sampling or str
        ``"time"`` for samples at times that do not depend on the system, ``"arrival"`` for the
        states that arriving requests found.

    Examples
    --------
    >>> seen = States([[30, 25], [28, 31]], observe=[0, (1, 2, 3)])
    >>> seen.columns
    ('Q=0', 'Q=1..3')
    """

    kind = "states"
    rank = 1
    observe: tuple[Observed, ...]
    sampling: Sampling
    map: ObservationMap
    """Which category covers each state of the model that this is an observation of."""

    def __init__(
        self, data: Any, observe: Iterable[Category], sampling: Sampling | str = Sampling.TIME
    ) -> None:
        categories = as_categories(observe)
        counts = as_counts(data, [label(category) for category in categories])
        self.__dict__.update(data=counts, observe=categories, sampling=as_sampling(sampling))

    @property
    def columns(self) -> tuple[str, ...]:
        """One name per category: ``Q=0``, ``Q=overload``, ``Q=1..20``."""
        return tuple(f"Q={text}" for text in self.labels)

    @property
    def labels(self) -> tuple[str, ...]:
        """One readable label per category: ``0``, ``overload``, ``1+3`` or ``1..20``."""
        return tuple(map(label, self.observe))

    def observing(self, categories: Iterable[Category]) -> States:
        """Keep these categories only, in this order; each by its states or by its label."""
        index = find_categories(categories, self.observe)
        return States(self.data[:, index], [self.observe[k] for k in index], self.sampling)

    def on(self, model: Model) -> Self:
        """Look up which category covers each state of a model.

        A state is looked up by its name first; a number that names no state is a position. Where
        the model groups its states, the name of a group covers all of them.
        """
        if self.sampling is Sampling.ARRIVAL and not model.arrives_alone:
            raise InputError(
                f"the windows count what arriving requests found (sampling='arrival'), but in "
                f"{type(model).__name__} requests of one batch find one another: sample at times "
                f"that do not depend on the system (sampling='time'), or take a model whose "
                f"requests arrive one at a time"
            )
        count = len(self.observe)
        owner = np.full(len(model.states), count)
        for row, category in enumerate(self.observe):
            for name in members(category):
                try:
                    covered = np.asarray(model.states_of(str(name)))
                except InputError as error:
                    raise InputError(f"category {label(category)!r}: {error}") from None
                taken = covered[(owner[covered] != count) & (owner[covered] != row)]
                if len(taken):
                    state = int(taken[0])
                    raise InputError(
                        f"categories {self.labels[owner[state]]!r} and {label(category)!r} are "
                        f"both state {model.states[state]!r} of the model: use the names of its "
                        f"states, or conditions that do not overlap"
                    )
                owner[covered] = row
        mapped = self.with_data(self.data)
        mapped.__dict__["map"] = ObservationMap(torch.from_numpy(owner), count)
        return mapped

    def state_weights(self, point: Point) -> Tensor:
        """Probability that a sample finds each state, ``[..., n]``, up to a factor.

        It is ``pi``, weighted by the rate of arrivals where arriving requests are the samples.
        """
        weight = None if self.sampling is Sampling.TIME else point.model.arrivals(point)
        return point.pi if weight is None else point.pi * weight

    def probabilities(self, point: Point) -> Tensor:
        """Probability of each category given that one of the observed ones is seen."""
        return conditional_probabilities(self.state_weights(point), self.map)

    def log_terms(self, point: Point) -> Tensor:
        """Logarithms of the probabilities, which have a floor already."""
        return self.probabilities(point).log()

    def nll(self, point: Point, data: Tensor) -> Tensor:
        """Steep where what was counted is impossible."""
        return conditional_nll(self.state_weights(point), data, self.map).sum()

    def facts(self) -> dict[str, Any]:
        """Categories and sampling."""
        return {
            "observe": [list(members(category)) for category in self.observe],
            "sampling": str(self.sampling),
        }


def as_sampling(value: Sampling | str) -> Sampling:
    """Return the sampling a name stands for."""
    try:
        return Sampling(value)
    except ValueError:
        raise InputError(f'sampling must be "time" or "arrival"; got {value!r}') from None
