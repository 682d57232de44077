r"""Iterative Luce spectral ranking: maximum likelihood as a steady state.

After Maystre and Grossglauser (2015). Where an item is chosen, it takes from every other item of
its menu S at rate ``1 / sum_{j in S} w_j``. At the maximum of the likelihood these flows balance:
the weights ``w`` are the steady state of the chain that they themselves define. So its steady state
is computed again and again.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from scipy.sparse import csr_array, diags_array

from stationary.data.choices import Choices
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
        menus, counts = (csr_array(part.numpy()) for part in (likelihood.x, likelihood.data))
        strength = likelihood.start - likelihood.start.mean()
        taken = 0
        while taken < self.most:
            taken += 1
            flows = diags_array(1 / (menus @ strength.exp().numpy())) @ counts
            pi = steady_state(torch.from_numpy((menus.T @ flows).toarray())).pi
            before, strength = strength, pi.log() - pi.log().mean()
            if float((strength - before).abs().max()) <= self.tolerance:
                break
        value, gradient = likelihood.value_and_gradient(strength.numpy())
        above = nats_above_minimum(likelihood, strength.numpy(), gradient)
        ended = Ended(End.CONVERGED if above <= NEAR else End.STALLED, above <= NEAR, above=above)
        slope = largest_slope(gradient, likelihood.total)
        return FitResult(strength, value, slope, ended, taken)
