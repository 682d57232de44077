r"""Iterative Luce spectral ranking: maximum likelihood as a steady state.

After Maystre and Grossglauser (2015). Where an item is chosen, it takes from every other item of
its menu S at rate ``1 / sum_{j in S} w_j``. At the maximum of the likelihood these flows balance:
the weights ``w`` are the steady state of the chain that they define. So the steady state is
computed again and again, each time with the weights of the last one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from stationary.data.choices import Choices, as_sparse
from stationary.data.windows import Windows
from stationary.errors import InputError
from stationary.learning.estimate import End, Ended, FitResult, Method, check_whole, largest_slope
from stationary.learning.inference import NEAR, nats_above_minimum
from stationary.learning.likelihood import Likelihood
from stationary.models import PlackettLuce
from stationary.steady import steady_state


@dataclass(frozen=True)
class ILSR(Method):
    """Fit a `PlackettLuce` model to choices by the steady states of a sequence of chains.

    Parameters
    ----------
    tolerance : float
        Change of a strength from one chain to the next at which to stop.
    most : int
        Chains after which to give up.
    """

    tolerance: float = 1e-10
    most: int = 1000

    def __post_init__(self) -> None:
        check_whole(self.most, "most")

    def run(self, likelihood: Likelihood, windows: Windows, seed: int) -> FitResult:
        """Iterate to the weights that their own chain has as its steady state."""
        del windows, seed
        kinds = likelihood.observations
        if not isinstance(likelihood.model, PlackettLuce) or not isinstance(kinds[0], Choices):
            raise InputError(
                f"ILSR() fits st.models.PlackettLuce to choices; got {likelihood.model!r:.80} and "
                f"{', '.join(kind.kind for kind in kinds)}: use Newton()"
            )
        menus, counts = as_sparse(likelihood.x), as_sparse(likelihood.data)
        choices, won, offered = counts.sum(1), counts.sum(0), menus.T.tocsr()
        strength, moved, taken = likelihood.start.numpy(), np.inf, 0
        while moved > self.tolerance and taken < self.most:
            taken += 1
            total = menus @ np.exp(strength)
            flows = counts / total[:, None]
            logs = steady_state(torch.from_numpy((offered @ flows).toarray())).pi.log().numpy()
            before, strength = strength, logs - logs.mean()
            moved = np.abs(strength - before).max()
        total = menus @ np.exp(strength)
        value = float(choices @ np.log(total) - won @ strength)
        gradient = np.exp(strength) * (offered @ (choices / total)) - won
        above = nats_above_minimum(likelihood, strength, gradient)
        ended = Ended(End.CONVERGED if above <= NEAR else End.STALLED, above <= NEAR, above=above)
        slope = largest_slope(gradient, likelihood.total)
        return FitResult(torch.from_numpy(strength), value, slope, ended, taken)
