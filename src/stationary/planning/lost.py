"""Whether the data themselves contradict a limit: losses that no full queue explains.

A queue at light load loses nothing. Where a log shows losses there, they have another cause, such
as failures of the program, which no limit on the load prevents.
"""

from __future__ import annotations

import numpy as np
from scipy.special import betaincinv

from stationary.data import Losses, Windows
from stationary.planning.limits import Limit

_CHANCE = 0.005
"""How likely so many losses may be by chance, if their share were the bound."""


def lost_already(windows: Windows, found: Limit) -> bool:
    """Whether more requests were lost at the loads that a limit allows than its SLOs do."""
    bounds = [slo.bound for slo in found.slos if slo.measure == "loss"]
    losses = windows.find(Losses)
    if not bounds or losses is None:
        return False
    allowed = (windows.loads <= found.load).numpy()
    lost, served = np.asarray(losses.data)[allowed].sum(0)
    # The lower end of the exact interval of a share (Clopper and Pearson).
    return bool(lost > 0 and betaincinv(lost, served + 1, _CHANCE) > min(bounds))
