"""The randomly stopped series, compiled: at twenty states a term costs less than its dispatch."""

from __future__ import annotations

import numba
import numpy as np


@numba.njit(cache=True, nogil=True, error_model="numpy")
def stopped_powers(src, dst, rates, gamma, h, stop, p, least, total, plain):
    """Add up ``P^l h / gamma`` for l below every draw of ``stop``, weighted and plain.

    The first ``least`` terms weigh one, the following ones more and more.
    One chain after the other, each as far as its own draws go: ``rates [B, E]``, ``gamma [B]``,
    ``h [B, n]``, ``stop [draws, B]``, ``p [B]``; the sums ``[B, n]`` are written to ``total`` and
    ``plain``.
    """
    draws = stop.shape[0]
    n = h.shape[1]
    flow = np.empty(n)
    term = np.empty(n)
    for b in range(h.shape[0]):
        weight = 1.0
        total[b, :] = 0.0
        plain[b, :] = 0.0
        for s in range(n):
            term[s] = h[b, s] / gamma[b]
        for step in range(stop[:, b].max()):
            going = 0
            for d in range(draws):
                going += stop[d, b] > step
            share = weight * going / draws
            for s in range(n):
                total[b, s] += share * term[s]
                plain[b, s] += term[s]
                flow[s] = 0.0
            for e in range(src.shape[0]):
                flow[src[e]] += rates[b, e] * (term[dst[e]] - term[src[e]])
            for s in range(n):
                term[s] += flow[s] / gamma[b]
            if step + 1 >= least:
                weight /= 1.0 - p[b]
