"""Response times: distributions of the time that an accepted request stays, and measures of them.

A model that knows its response times has ``response_times(point) -> Times``, and a model that knows
how long requests wait has ``waiting_times(point) -> Times``. Percentiles, shares of slow requests
and the likelihood of latency histograms follow from these.
"""

from stationary.models.latency._base import Shifted as Shifted
from stationary.models.latency._base import Times as Times
from stationary.models.latency.erlangs import Erlangs as Erlangs
from stationary.models.latency.gammas import Gammas as Gammas
from stationary.models.latency.gammas import incomplete_gamma as incomplete_gamma
from stationary.models.latency.names import percentile_of as percentile_of
from stationary.models.latency.names import slower_than as slower_than
from stationary.models.latency.names import time_measure as time_measure
