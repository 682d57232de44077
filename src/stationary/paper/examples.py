"""The examples of the paper's appendix, A1 and A2, and Theorem 1 as it is printed."""

from __future__ import annotations

from collections.abc import Iterator

import torch

import stationary as st
from stationary.paper.cells import Line, listed, number
from stationary.paper.settings import SETTINGS


def unidentifiable() -> Iterator[Line]:
    """A1: two chains whose observed states agree and whose last states do not."""
    given = SETTINGS["examples"]["unidentifiable"]
    for name in ("first", "second"):
        rates = torch.tensor(given[name], dtype=torch.float64)
        pi = st.steady_state(st.Generator.from_dense(rates)).pi
        observed = pi[given["observe"]] / pi[given["observe"]].sum()
        yield {
            "chain": name,
            "steady state": listed(pi.tolist()),
            "printed": listed(given[f"pi_{name}"]),
            "observed, conditional": ", ".join(f"{p:.6f}" for p in observed.tolist()),
            "last state": number(pi[-1].item()),
        }


def mixing() -> Iterator[Line]:
    """A2: how many steps a slow and a fast chain take to mix."""
    given = SETTINGS["examples"]["mixing"]
    ends, arrival, eps = given["states"] - 1, given["arrival"], given["eps"]
    for name, service in given["service"].items():
        up = torch.diag(torch.full((ends,), arrival, dtype=torch.float64), 1)
        down = torch.diag(torch.full((ends,), service, dtype=torch.float64), -1)
        steps = st.mixing_time(st.Generator.from_dense(up + down), eps=eps)
        yield {
            "chain": name,
            "arrivals": f"{arrival:g}",
            "service": f"{service:g}",
            f"mix(P, {eps:g})": str(int(steps)),
            "printed": str(given["printed"][name]),
        }


def printed_theorem(p: float = 0.1) -> Iterator[Line]:
    """Theorem 1 as printed beside ours: the expectations of both, which are sums of their series.

    The printed sum runs from 0 to X and divides by ``Pr[X > t]``; a term is there with probability
    ``Pr[X >= t]``, so that all but the first weigh ``1 / (1 - p)``. It starts from a uniform
    distribution where ``pi`` belongs, and multiplies ``dL/dpi`` by ``pi`` once more.
    """
    chains = st.models.MMmK(servers=1, capacity=4, service_rate=25.0)([20.0])
    generator = st.Generator(chains.edges, chains.rates.detach().requires_grad_())
    state = st.steady_state(generator)
    pi, gamma = state.pi.detach().requires_grad_(), generator.event_rate().detach()[:, None]
    counts = torch.tensor([[10.0, 4.0]], dtype=torch.float64)
    (g,) = torch.autograd.grad(st.conditional_nll(pi, counts, [0, 1]).sum(), pi)
    pi = pi.detach()
    # The gradient itself, another way: back through so many steps that the chain has mixed.
    mixed = st.steady_state(generator, gradient=st.DivideAndConquerBPTT(2**14)).pi
    (exact,) = torch.autograd.grad(st.conditional_nll(mixed, counts, [0, 1]), generator.rates)

    def expected(start: torch.Tensor, g: torch.Tensor, later: float) -> torch.Tensor:
        h = g - (pi * g).sum(-1, keepdim=True)
        v = later * state.factor.solve(h) + (1 - later) * h / gamma
        return generator.edges.rate_gradient(start, v)

    for name, found in {
        "Theorem 1 as printed": expected(torch.full_like(pi, 1 / 5), g * pi, 1 / (1 - p)),
        "its weights alone": expected(pi, g, 1 / (1 - p)),
        "as implemented": expected(pi, g, 1.0),
    }.items():
        off = ((found - exact).abs().max() / exact.abs().max()).item()
        cosine, length = torch.cosine_similarity(found, exact), found.norm() / exact.norm()
        yield {
            "estimator": name,
            "cosine of its mean to the gradient": f"{cosine.item():.4f}",
            "length of its mean over the gradient's": number(length.item()),
            "largest error over the largest component": f"{off:.1%}",
        }
