"""An estimator of one's own in the paper's tables: the series cut off, not stopped at random.

Its gradient leaves out what lies beyond twenty terms, so it is biased where chains mix slowly.

Run it: python examples/own_estimator.py
"""

from dataclasses import dataclass

import torch

import stationary as st


@dataclass(frozen=True)
class Truncated(st.gradients.Gradient):
    """The first terms of the series for v, and nothing for the rest."""

    terms: int
    margin: float

    def apply(self, generator, solver):
        factor = solver.factor(generator)
        return _Truncated.apply(generator.rates, generator, factor.pi, self), factor


class _Truncated(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rates, chains, pi, strategy):
        ctx.chains, ctx.pi, ctx.strategy = chains, pi, strategy
        return pi.clone()

    @staticmethod
    def backward(ctx, g):
        edges, rates = ctx.chains.edges, ctx.chains.rates.detach()
        gamma = (ctx.chains.event_rate().detach() + ctx.strategy.margin)[..., None]
        term = (g - (ctx.pi * g).sum(-1, keepdim=True)) / gamma
        v = torch.zeros_like(term)
        for _ in range(ctx.strategy.terms):
            v, term = v + term, term + edges.times(rates, term) / gamma
        return edges.rate_gradient(ctx.pi, v), None, None, None


truncated = st.paper.Trained("truncated", "20 terms", lambda row, seeds: Truncated(20, row.margin))
print(st.paper.table([truncated], ["mm1k-fast", "mm1k-slow"], repeats=2, share=0.1).T.to_string())
