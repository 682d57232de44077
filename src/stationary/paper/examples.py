"""The examples of the paper's appendix: A1 (unidentifiability) and A2 (mixing times)."""

from __future__ import annotations

import torch

from stationary.generator import Generator
from stationary.paper.cells import listed, number
from stationary.paper.settings import section
from stationary.spectrum import mixing_time
from stationary.steady import steady_state


def unidentifiable() -> list[list[str]]:
    """A1: two chains whose observed states agree and whose last states do not."""
    given = section("examples")["unidentifiable"]
    lines = [["chain", "steady state", "printed", "observed, conditional", "last state"]]
    for name in ("first", "second"):
        P = torch.tensor(given[name], dtype=torch.float64)
        pi = steady_state(Generator.from_dense(P)).pi
        seen = pi[given["observe"]] / pi[given["observe"]].sum()
        lines.append(
            [
                name,
                listed(pi.tolist()),
                listed(given[f"pi_{name}"]),
                ", ".join(f"{value:.6f}" for value in seen.tolist()),
                number(pi[-1].item()),
            ]
        )
    return lines


def mixing() -> list[list[str]]:
    """A2: steps until a slow and a fast chain have mixed."""
    given = section("examples")["mixing"]
    lines = [["chain", "arrivals", "service", f"mix(P, {given['eps']:g})", "printed"]]
    for name, service in given["service"].items():
        ends = given["states"] - 1
        up = torch.diag(torch.full((ends,), given["arrival"], dtype=torch.float64), 1)
        down = torch.diag(torch.full((ends,), service, dtype=torch.float64), -1)
        steps = int(mixing_time(Generator.from_dense(up + down), eps=given["eps"]))
        printed = given["printed"][name]
        lines.append([name, f"{given['arrival']:g}", f"{service:g}", str(steps), str(printed)])
    return lines
