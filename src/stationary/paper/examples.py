"""The examples of the paper's appendix: A1 (unidentifiability) and A2 (mixing times)."""

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
