"""Response times: distributions of the time that an accepted request stays, and measures of them.

A model that knows its response times has ``response_times(point) -> Times``, and a model that knows
how long requests wait has ``waiting_times(point) -> Times``. Percentiles, shares of slow requests
and the likelihood of latency histograms follow from these.
"""

from stationary.models.latency._base import Shifted, Times
from stationary.models.latency.erlangs import Erlangs
from stationary.models.latency.gammas import Gammas, incomplete_gamma
from stationary.models.latency.names import percentile_of, slower_than, time_measure

__all__ = [
    "Erlangs",
    "Gammas",
    "Shifted",
    "Times",
    "incomplete_gamma",
    "percentile_of",
    "slower_than",
    "time_measure",
]
