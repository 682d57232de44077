"""A model in rules that several tests start from, and what they ask of models."""

TANDEM = {
    "variables": {"q1": (0, "K"), "q2": (0, "L")},
    "rules": {
        "arrive": "q1 < K -> q1 += 1 else lost at load",
        "move": "q1 > 0 and q2 < L -> q1 -= 1, q2 += 1 at mu1",
        "leave": "q2 > 0 -> q2 -= 1 at mu2 * min(q2, servers)",
    },
    "params": {"mu1": 3.0, "mu2": 2.0},
    "constants": {"K": 4, "L": 3, "servers": 2},
    "count": "q2",
    "jobs": "q1 + q2",
}


def value(model, name, x):
    """A measure at one load, or at several."""
    found = model.measure(name)(model.at(x)).detach()
    return found.item() if found.numel() == 1 else found


def seen_by_arrivals(point):
    """Probability of every state at the moments when requests arrive."""
    weighted = point.pi * point.model.arrivals(point)
    return weighted / weighted.sum(-1, keepdim=True)
