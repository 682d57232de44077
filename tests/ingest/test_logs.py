"""Events to windows, against sample paths whose truth is known."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st_
from numpy.testing import assert_allclose, assert_array_equal

import stationary as st
from request_logs import fifo
from stationary.errors import DataWarning, InputError
from stationary.ingest import Calibration, RequestLog, calibrate, windows_from_logs

PROPAGATION = 50e-6
SERVICE = 330e-6


def sample(rate, seconds, capacity, exponential, seed, propagation=0.0):
    rng = np.random.default_rng(seed)
    arrivals = np.sort(rng.uniform(0, seconds, rng.poisson(rate * seconds)))
    services = rng.exponential(SERVICE, len(arrivals)) if exponential else [SERVICE] * len(arrivals)
    found, response = fifo(arrivals, services, capacity)
    return arrivals, found, response + propagation


def mm1k(rho, capacity):
    p = rho ** np.arange(capacity + 1)
    return p / p.sum()


@pytest.mark.parametrize("exponential", [True, False], ids=["M/M/1/K", "M/D/1/K"])
@pytest.mark.parametrize("rate", [500.0, 3000.0, 6000.0])
def test_counting_finds_the_truth(rate, exponential):
    arrivals, truth, response = sample(rate, 2.0, 8, exponential, seed=1)
    assert_array_equal(RequestLog(arrivals, response).in_system, truth)
    assert (truth[np.isnan(response)] == 8).all()


def test_the_senders_view_is_corrected_to_the_servers():
    """Requests take a while to arrive and answers to come back: the server knows only its own."""
    arrivals, truth, response = sample(2500.0, 2.0, 20, True, 4, propagation=PROPAGATION)
    log = RequestLog(arrivals, response)
    assert (log.in_system > truth).any()
    # A rounded sum may fall on either side of an arrival in the same instant.
    assert (log.in_server(PROPAGATION * (1 - 1e-9)) != truth).sum() <= 1


@given(
    st_.lists(
        st_.tuples(st_.integers(0, 30), st_.one_of(st_.none(), st_.integers(0, 20))), max_size=25
    )
)
def test_counting_is_what_a_double_loop_counts(requests):
    """Any number of servers, any order of service, ties and losses included."""
    requests.sort(key=lambda request: request[0])
    arrival = [float(a) for a, _ in requests]
    response = [np.nan if r is None else float(r) for _, r in requests]
    expected = [
        sum(arrival[i] + response[i] > arrival[j] for i in range(j)) for j in range(len(requests))
    ]
    assert RequestLog(arrival, response).in_system.tolist() == expected


def test_a_log_may_come_in_any_order():
    arrivals, truth, response = sample(2500.0, 0.5, 8, True, seed=2)
    mixed = np.random.default_rng(3).permutation(len(arrivals))
    log = RequestLog(arrivals[mixed], response[mixed])
    assert_array_equal(log.in_system, truth)
    assert_array_equal(log.arrival, arrivals)


@pytest.mark.parametrize("exponential", [True, False], ids=["exponential", "deterministic"])
def test_calibration_finds_propagation_and_service(exponential):
    logs = []
    for seed, rate in enumerate([400, 800, 1500, 2500]):
        arrivals, _, response = sample(rate, 2.0, 20, exponential, seed, PROPAGATION)
        logs.append(RequestLog(arrivals, response))
    found = calibrate(logs)
    gaps = np.concatenate([log.service_gaps for log in logs])
    # A server that is reached after a delay idles a little between requests that just missed.
    tolerance = 4 * gaps.std() / np.sqrt(len(gaps)) + 0.02 * SERVICE
    assert found.service == pytest.approx(SERVICE, abs=tolerance)
    assert found.propagation == pytest.approx(PROPAGATION, abs=0.05 * SERVICE)
    assert calibrate(logs, service=300e-6).service == 300e-6


def test_gaps_of_busy_periods_are_service_times():
    arrivals, truth, response = sample(3500.0, 1.0, 10, True, seed=5)
    log = RequestLog(arrivals, response)
    gaps = log.service_gaps
    waited = (truth > 0) & ~np.isnan(response)
    departures = arrivals + response
    assert len(gaps) == waited.sum()
    # In order of arrival, whoever waited was served from the departure before him to his own.
    served = ~np.isnan(response)
    expected = np.diff(departures[served])[waited[served][1:]]
    assert_allclose(gaps, expected)


def test_gaps_do_not_depend_on_where_a_log_is_cut():
    arrivals, _, response = sample(3500.0, 2.0, 10, True, seed=5)
    log = RequestLog(arrivals, response)
    parts = log.cut(0.01)
    gaps = np.concatenate([part.service_gaps for part in parts])
    # Those that cross a cut are seen from one side, or from both.
    assert abs(len(gaps) - len(log.service_gaps)) <= 12 * len(parts)
    assert np.isclose(gaps[:, None], log.service_gaps, atol=1e-12).any(1).all()


def test_the_formula_is_within_one_of_the_truth_for_constant_service():
    arrivals, truth, response = sample(2400.0, 3.0, 20, False, seed=6, propagation=PROPAGATION)
    answered = ~np.isnan(response)
    log = RequestLog(arrivals, response)
    sizes = log.estimated(Calibration(PROPAGATION, SERVICE))
    miss = (sizes - truth)[answered]
    assert set(miss.tolist()) <= {-1, 0}, "half a service time is all that is not known"
    assert (miss == 0).mean() > 0.5
    assert (sizes[answered][truth[answered] == 0] == 0).all()
    assert (sizes[~answered] == -1).all()


def test_the_formula_is_the_papers():
    """(response - propagation - processing) / processing, rounded, never below zero."""
    log = RequestLog([0, 1, 2, 3], [0.30, 0.55, 1.05, 0.1])
    assert log.estimated(Calibration(0.05, 0.25)).tolist() == [0, 1, 3, 0]


def test_windows_of_a_simulated_queue_follow_its_steady_state():
    capacity, rate = 6, 2500.0
    arrivals, truth, response = sample(rate, 40.0, capacity, True, seed=7)
    made = windows_from_logs(RequestLog(arrivals, response).cut(1.0), 1.0, capacity)
    share = made.counted.counts.sum(0).numpy() / made.counted.counts.sum().item()
    assert_allclose(share, mm1k(rate * SERVICE, capacity), atol=0.01)
    assert made.table["unanswered"].sum() == (truth[arrivals < arrivals[0] + 39] == capacity).sum()
    assert made.counted.sampling == "arrival"
    assert set(made.counted.duration.tolist()) == {1.0}


def test_a_fit_to_the_windows_finds_the_service_rate():
    """Light load only: the counted sizes give the rate, and with it the loss in overload."""
    logs = []
    for seed, rate in enumerate(np.linspace(600, 1800, 10)):
        arrivals, _, response = sample(rate, 1.0, 10, True, seed)
        logs.append(RequestLog(arrivals, response))
    made = windows_from_logs(logs, 1.0, 10)
    fit = st.fit(st.models.MMmK(servers=1, capacity=10), made.counted.observing(range(5)))
    assert fit.estimates["service_rate"] == pytest.approx(1 / SERVICE, rel=0.05)
    loss = fit.forecast(x=[4000.0])["loss"].iloc[0]
    assert loss == pytest.approx(mm1k(4000 * SERVICE, 10)[-1], rel=0.1)


def test_the_table_counts_every_request_once():
    arrivals, _, response = sample(4000.0, 3.0, 12, True, seed=8)
    log = RequestLog(arrivals, response)
    edges = [0.001, 0.002]
    made = windows_from_logs(log.cut(1.0), 1.0, 10, late=0.002, edges=edges)
    table = made.table
    assert (table["sent"] == table["load"]).all()
    assert (table["answered"] + table["unanswered"] == table["sent"]).all()
    for letter in "QT":
        assert (table[[f"{letter}={k}" for k in range(11)]].sum(axis=1) == table["sent"]).all()
        assert (table[f"{letter}=10"] == table["unanswered"]).all()
    assert (table[["rt_1ms", "rt_2ms", "rt_more"]].sum(axis=1) == table["answered"]).all()
    assert (table["rt_more"] == table["late"]).all()
    assert_allclose(table["full_at"], 12.0, atol=0.05)  # the true capacity, which 10 was not


def test_cutting_keeps_those_in_flight():
    arrivals, truth, response = sample(3000.0, 1.0, 20, True, seed=9)
    parts = RequestLog(arrivals, response).cut(0.1)
    together = np.concatenate([part.in_system for part in parts])
    assert_array_equal(together, truth[: len(together)])
    assert any(part.in_system[0] > 0 for part in parts), "a window may begin with a queue"
    assert sum(map(len, parts)) < len(arrivals), "the last one is not whole"


def test_a_window_without_requests_is_in_the_table_only():
    log = RequestLog([0.0, 0.1, 2.2, 2.25, 4.0], [0.2, 0.3, 0.2, 0.35, 0.2])
    made = windows_from_logs(log.cut(1.0), 1.0, 3)
    assert made.table["sent"].tolist() == [2, 0, 2, 0]
    assert len(made.windows) == len(made.counted) == 2


def test_without_busy_periods_the_response_is_the_service():
    log = RequestLog([0.0, 1.0, 2.0], [0.25, 0.25, 0.25])
    with pytest.warns(DataWarning, match="no request in the log waited"):
        assert calibrate([log]) == Calibration(0.0, 0.25)
    assert calibrate([log], service=0.2).propagation == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RequestLog([0, 1], [1]), "same length"),
        (lambda: RequestLog([0, np.nan], [1, 1]), "request 1: the arrival time is nan"),
        (lambda: RequestLog([0, 1], [1, -2]), "request 1: the response time is -2.0"),
        (lambda: RequestLog([0], [1], in_flight=[np.nan]), "in_flight must be"),
        (lambda: RequestLog([0, 1e9], [1, 1]).cut(1e-3), "same unit"),
        (lambda: windows_from_logs([], 1.0, 5), "no requests"),
        (lambda: windows_from_logs([RequestLog([0], [1])], 1.0, 0), "capacity must be"),
        (lambda: windows_from_logs([RequestLog([0], [1])], -1.0, 5), "duration must be"),
        (lambda: calibrate([RequestLog([0], [np.nan])]), "found the system empty"),
        (lambda: Calibration(-1.0, 1.0), "propagation must be"),
        (lambda: Calibration(0.0, 0.0), "service must be"),
    ],
)
def test_bad_input_is_named(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_logs_in_memory_need_no_query_engine():
    code = (
        "import stationary.data, stationary.simulation, sys\n"
        "print(sorted({'ibis', 'duckdb'} & sys.modules.keys()))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout == "[]\n"
