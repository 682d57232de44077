"""A likely state of a large chain, by going where it goes."""

from __future__ import annotations

import numba
import numpy as np

from stationary._support.types import Array
from stationary.solvers._chain import SparseChain

_STEPS = 1_000_000
_SEED = 0


def likely_state(chain: SparseChain) -> int:
    """State in which a walk along the chain spends most of its second million of jumps.

    A chain with drift is soon where it belongs, however many states there are; one without is
    nearly as likely anywhere.
    """
    if chain.n == 1:
        return 0
    draws = np.random.default_rng(_SEED).random(2 * _STEPS)
    spent = np.zeros(chain.n)
    _walk(int(chain.recurrent.argmax()), *chain.rows, chain.exits, draws, spent)
    return int(spent.argmax())


@numba.njit(cache=True, nogil=True)
def _walk(
    state: int,
    start: Array,
    target: Array,
    rates: Array,
    exits: Array,
    draws: Array,
    spent: Array,
) -> None:
    if exits[state] == 0.0:  # the closed class is this state alone
        spent[state] = 1.0
        return
    for k in range(len(draws)):
        if 2 * k >= len(draws):
            spent[state] += 1.0 / exits[state]
        mark = draws[k] * exits[state]
        last = state
        for e in range(start[state], start[state + 1]):
            if rates[e] > 0.0:
                last = target[e]  # should rounding leave the mark beyond the last rate
                mark -= rates[e]
                if mark < 0.0:
                    break
        state = last
