"""A system that is emptied now and then."""

from __future__ import annotations

from stationary.models._params import rate
from stationary.models._point import Point
from stationary.models.measures import Flows
from stationary.models.queues._queue import Moves, ServerQueue


class Resetting(ServerQueue):
    """M/M/m/K that is emptied at rate ``reset``, whatever is in it; those requests are lost.

    Parameters
    ----------
    servers, capacity, service_rate
        As for `MMmK`.
    reset : float
        Resets per unit time; positive.

    Examples
    --------
    >>> import stationary as st
    >>> model = Resetting(servers=1, capacity=2, service_rate=1.0, reset=1.0)
    >>> st.steady_state(model([2.0])).pi
    tensor([[0.4286, 0.2857, 0.2857]], dtype=torch.float64, grad_fn=...)
    """

    params = {"service_rate": rate(), "reset": rate(0.01)}
    slowed = False
    drops_all = True

    def moves(self) -> Moves:
        """Arrivals, services, and resets to 0."""
        yield from super().moves()
        for n in range(1, self.capacity + 1):
            yield n, 0, "reset", 1.0

    def flows(self, point: Point) -> Flows:
        """A reset drops what is in the system."""
        return super().flows(point)._replace(dropped=point.p.reset * self.levels)
