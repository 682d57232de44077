"""Simulated windows, trajectories and request logs."""

from stationary.simulation.requests import simulate_requests
from stationary.simulation.simulate import (
    Arrivals,
    Events,
    PoissonCounts,
    Responses,
    Scheme,
    simulate,
)
from stationary.simulation.trajectories import Trajectory, trajectory

__all__ = [
    "Arrivals",
    "Events",
    "PoissonCounts",
    "Responses",
    "Scheme",
    "Trajectory",
    "simulate",
    "simulate_requests",
    "trajectory",
]
