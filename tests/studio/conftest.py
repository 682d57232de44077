"""The plan that the tests of the studio look at."""

import pytest

import stationary as st


@pytest.fixture(scope="session")
def plan():
    truth = st.models.MMmK(servers=2, capacity=12, service_rate=10.0)
    loads = [4.0, 6.0, 8.0, 10.0, 12.0] * 8
    seen = st.simulate(truth, x=loads, duration=50.0, seed=0)
    return st.plan(seen, servers=2, capacity=12, slo=["loss < 1%", "p99 < 800ms"])
