"""The steady state as a layer inside a larger network, trained end to end.

A clinic sees patients of different need: features of a day go through a network to the rates of a
chain of beds, and the mean number of occupied beds goes, with the features, through another network
to the day's cost, which is all that is known. The gradient passes through the steady state.

Run it: python examples/layer_in_network.py
"""

import torch
from torch import nn

import stationary as st

BEDS = 6


class Clinic(nn.Module):
    """Features to rates, rates to the steady state, its mean to a cost."""

    def __init__(self):
        super().__init__()
        self.rates = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 2), nn.Softplus())
        self.cost = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
        beds = torch.arange(BEDS + 1, dtype=torch.float64)
        self.register_buffer("beds", beds)
        step = torch.arange(BEDS)
        self.edges = st.Edges(torch.cat([step, step + 1]), torch.cat([step + 1, step]), BEDS + 1)

    def occupied(self, features):
        arrivals, care = (self.rates(features) + 0.05).split(1, -1)
        rates = torch.cat([arrivals.expand(-1, BEDS), care * self.beds[1:]], -1)
        return st.steady_state(st.Generator(self.edges, rates)).pi @ self.beds

    def forward(self, features):
        seen = torch.stack([self.occupied(features), features[:, 2]], -1)
        return self.cost(seen).squeeze(-1)


def true_occupied(features):
    """Erlang's loss system with rates that are known functions of the features."""
    offered = (1.5 + features[:, 0]) / (0.6 + 0.3 * features[:, 1])
    terms = (
        offered[:, None] ** torch.arange(BEDS + 1) / torch.arange(BEDS + 1).add(1).lgamma().exp()
    )
    return (terms / terms.sum(-1, keepdim=True)) @ torch.arange(BEDS + 1, dtype=torch.float64)


torch.manual_seed(0)
features = 2 * torch.rand(600, 3, dtype=torch.float64) - 1
occupied = true_occupied(features)
costs = occupied.square() / 10 + features[:, 2] + 0.05 * torch.randn(600, dtype=torch.float64)
train, test = slice(0, 500), slice(500, 600)

clinic = Clinic().double()
optimiser = torch.optim.Adam(clinic.parameters(), lr=0.01)
for _ in range(40):
    for chosen in torch.randperm(500).split(50):
        optimiser.zero_grad()
        loss = (clinic(features[train][chosen]) - costs[train][chosen]).square().mean()
        loss.backward()
        optimiser.step()

with torch.no_grad():
    error = (clinic(features[test]) - costs[test]).square().mean().sqrt()
    hidden = torch.corrcoef(torch.stack([clinic.occupied(features[test]), occupied[test]]))[0, 1]
print(f"error of the cost on new days: {error:.3f} (its noise is 0.050)")
print(f"correlation of the hidden occupancy with the true one: {hidden:.3f}")
