"""The examples of the paper's appendix, A1 and A2, and Theorem 1 as it is printed."""

from __future__ import annotations

import pandas as pd
import torch

import stationary as st
from stationary.paper.cells import listed, number
from stationary.paper.settings import section


def unidentifiable() -> pd.DataFrame:
    """A1: two chains whose observed states agree and whose last states do not."""
    given = section("examples")["unidentifiable"]
    lines = []
    for name in ("first", "second"):
        rates = torch.tensor(given[name], dtype=torch.float64)
        pi = st.steady_state(st.Generator.from_dense(rates)).pi
        observed = pi[given["observe"]] / pi[given["observe"]].sum()
        lines.append(
            {
                "chain": name,
                "steady state": listed(pi.tolist()),
                "printed": listed(given[f"pi_{name}"]),
                "observed, conditional": ", ".join(f"{p:.6f}" for p in observed.tolist()),
                "last state": number(pi[-1].item()),
            }
        )
    return pd.DataFrame(lines)


def mixing() -> pd.DataFrame:
    """A2: how many steps a slow and a fast chain take to mix."""
    given = section("examples")["mixing"]
    ends, arrival, eps = given["states"] - 1, given["arrival"], given["eps"]
    lines = []
    for name, service in given["service"].items():
        up = torch.diag(torch.full((ends,), arrival, dtype=torch.float64), 1)
        down = torch.diag(torch.full((ends,), service, dtype=torch.float64), -1)
        steps = st.mixing_time(st.Generator.from_dense(up + down), eps=eps)
        lines.append(
            {
                "chain": name,
                "arrivals": f"{arrival:g}",
                "service": f"{service:g}",
                f"mix(P, {eps:g})": str(int(steps)),
                "printed": str(given["printed"][name]),
            }
        )
    return pd.DataFrame(lines)


def printed_theorem(p: float = 0.1) -> pd.DataFrame:
    """Theorem 1 as printed beside ours: the expectations of both, which are sums of their series.

    The printed sum runs from 0 to X and divides by ``Pr[X > t]``; a term is there with probability
    ``Pr[X >= t]``, so that all but the first weigh ``1 / (1 - p)``. It starts from a uniform
    distribution where ``pi`` belongs, and multiplies ``dL/dpi`` by ``pi`` once more.
    """
    model = st.models.MMmK(servers=1, capacity=4, service_rate=25.0)
    generator = model([20.0])
    counts = torch.tensor([[10.0, 4.0]], dtype=torch.float64)
    pi = st.steady_state(generator).pi.detach().requires_grad_()
    (g,) = torch.autograd.grad(st.conditional_nll(pi, counts, [0, 1]).sum(), pi)
    pi, rates, edges = pi.detach(), generator.rates.detach(), generator.edges
    gamma = generator.event_rate().detach()[:, None]
    uniform = torch.full_like(pi, 1 / generator.n)

    def expected(first: torch.Tensor, term: torch.Tensor, later: float) -> torch.Tensor:
        v = torch.zeros_like(term)
        for step in range(5000):
            v = v + term / gamma * (later if step else 1.0)
            term = term + edges.times(rates, term) / gamma
        return edges.rate_gradient(first, v)

    centred = g - (pi * g).sum(-1, keepdim=True)
    exact = edges.rate_gradient(pi, st.solvers.GTH().factor(generator).solve(centred))
    lines = []
    for name, found in {
        "Theorem 1 as printed": expected(uniform, g * pi, 1 / (1 - p)),
        "its weights alone": expected(pi, centred, 1 / (1 - p)),
        "as implemented": expected(pi, centred, 1.0),
    }.items():
        cosine = torch.cosine_similarity(found, exact).item()
        off = ((found - exact).abs().max() / exact.abs().max()).item()
        length = (found.norm() / exact.norm()).item()
        lines.append(
            {
                "estimator": name,
                "cosine of its mean to the gradient": f"{cosine:.4f}",
                "length of its mean over the gradient's": number(length),
                "largest error over the largest component": f"{off:.1%}",
            }
        )
    return pd.DataFrame(lines)
