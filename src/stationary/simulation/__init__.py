"""Simulated windows, trajectories and request logs."""

from stationary.simulation.paths import Trajectory, trajectory
from stationary.simulation.simulate import Arrivals, Events, PoissonCounts, simulate

__all__ = ["Arrivals", "Events", "PoissonCounts", "Trajectory", "simulate", "trajectory"]
