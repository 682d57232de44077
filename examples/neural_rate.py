"""A service rate learnt by a network from counts of two states, beside a parametric chain.

Both see the states 0 and 1 at light load only, and both fit them. Beyond the loads that it saw,
nothing holds the network: networks that fit equally well forecast losses that differ from one
another and from the truth by factors, while the queue's forecast stays near the truth.

Run it: python examples/neural_rate.py
"""

import torch
from torch import nn

import stationary as st

CAPACITY = 15
LOADS = torch.linspace(4.0, 12.0, 60, dtype=torch.float64)
AHEAD = torch.tensor([8.0, 12.0, 16.0, 20.0], dtype=torch.float64)


class Server(nn.Module):
    """M/M/1/K whose service rate is a network of the load."""

    def __init__(self):
        super().__init__()
        self.speed = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))

    def forward(self, x):
        rate = 20 * self.speed((x - 8) / 4).exp()
        rates = torch.stack([x, rate], -1)  # up and down, the same from every state
        return rates.expand(*x.shape[:-1], CAPACITY, 2).flatten(-2)


def network(seed):
    torch.manual_seed(seed)
    edges = [pair for k in range(CAPACITY) for pair in ((k, k + 1), (k + 1, k))]
    return st.models.FromModule(Server().double(), states=CAPACITY + 1, edges=edges)


def lost(model, loads):
    with torch.no_grad():
        return st.steady_state(model(loads)).pi[:, -1]


truth = st.models.MMmK(servers=1, capacity=CAPACITY, service_rate=18.0)
windows = st.simulate(truth, x=LOADS, duration=20.0, seed=0).observing([0, 1])

queue = st.fit(st.models.MMmK(servers=1, capacity=CAPACITY), windows)
networks = [st.fit(network(seed), windows) for seed in range(5)]

print(f"negative log-likelihood: queue {queue.nll:.1f}, networks", end="")
print("".join(f" {fit.nll:.1f}" for fit in networks))
forecasts = torch.stack([lost(fit.model, AHEAD) for fit in networks])
print("load      truth      queue      five networks, from .. to")
for k, load in enumerate(AHEAD):
    kind = "observed" if load <= LOADS.max() else "beyond"
    print(
        f"{load:4.0f}  {lost(truth, AHEAD)[k]:9.2e}  {lost(queue.model, AHEAD)[k]:9.2e}  "
        f"{forecasts[:, k].min():9.2e} .. {forecasts[:, k].max():9.2e}  {kind}"
    )
print("trusted:", networks[0].forecast([16.0], measures=["p_15"])["trusted"].item())
