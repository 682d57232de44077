"""Checks of the number of servers and of the order in which requests leave."""

import numpy as np
import pandas as pd
import pytest

import stationary as st
from stationary.ingest import Cut, Source, windows_from_events
from stationary.terms.findings import Verdict


def log(servers, sharing=False, seed=0, constant=False):
    """Requests of servers of 10 ms each, at 10 to 60 % of saturation; shared, if asked."""
    random = np.random.default_rng(seed)
    arrivals, begin = [], 0.0
    for share in random.permutation(np.linspace(0.1, 0.6, 16)):
        count = random.poisson(share * servers * 100 * 10)
        arrivals.append(begin + np.sort(random.uniform(0, 10, count)))
        begin += 10
    arrivals = np.concatenate(arrivals)
    work = np.full(len(arrivals), 0.01) if constant else random.exponential(0.01, len(arrivals))
    if sharing:
        departures = _shared(arrivals, work, servers)
    else:
        free, departures = np.zeros(servers), np.empty(len(arrivals))
        for k, arrival in enumerate(arrivals):
            which = free.argmin()
            free[which] = departures[k] = max(free[which], arrival) + work[k]
    response = departures - arrivals
    return pd.DataFrame({"arrival": arrivals, "response": response, "status": 200})


def _shared(arrivals, work, servers):
    """Departures from servers that work on all requests at once, each at an equal share."""
    left, out, now, k = {}, np.empty(len(arrivals)), 0.0, 0
    while k < len(arrivals) or left:
        arrival = arrivals[k] if k < len(arrivals) else np.inf
        who = min(left, key=left.get) if left else -1
        slow = max(len(left) / servers, 1)
        end = now + left[who] * slow if left else np.inf
        step = (min(arrival, end) - now) / slow
        left = {key: value - step for key, value in left.items()}
        now = min(arrival, end)
        if arrival < end:
            left[k] = work[k]
            k += 1
        else:
            out[who] = now
            del left[who]
    return out


def planned(frame, tmp_path, **asked):
    frame.to_csv(tmp_path / "log.csv", index=False)
    cut = Cut(window=10.0, capacity=30)
    windows_from_events(Source(str(tmp_path / "log.csv")), cut).write(tmp_path / "w.csv")
    plan = st.plan(st.read_windows(tmp_path / "w.csv"), **asked)
    return plan, {found.check: found for found in plan.findings}


@pytest.mark.parametrize(("given", "verdict"), [(2, Verdict.OK), (1, Verdict.WARNING)])
def test_a_number_of_servers_that_the_queues_speak_against_is_named(tmp_path, given, verdict):
    _, found = planned(log(2), tmp_path, servers=given, capacity=30)
    assert found["servers"].verdict is verdict


def test_three_servers_taken_for_two_are_found(tmp_path):
    _, found = planned(log(3), tmp_path, servers=2, capacity=30)
    assert found["servers"].code == "other_servers"
    assert found["servers"].facts["better"] == 3
    assert "were 3" in str(found["servers"])


def test_a_shared_server_is_planned_from_what_does_not_need_the_order(tmp_path):
    model = st.models.MMmK(servers=1, capacity=30)
    plan, found = planned(log(1, sharing=True), tmp_path, models=[model])
    assert found["overtaking"].code == "overtake"
    assert all(kind.kind != "service times" for kind in plan.windows.observations)
    # The number in a shared exponential server is that of a queue: 100 per second at saturation.
    assert plan.max_load(loss=0.01).low < 90 < plan.max_load(loss=0.01).high


def test_a_shared_server_has_the_percentiles_of_sharing(tmp_path):
    plan, found = planned(log(1, sharing=True), tmp_path, servers=1, capacity=30)
    assert found["overtaking"].code == "overtake"
    assert plan.model.discipline == "ps"
    told = plan.forecast([70.0, 90.0], measures=["p95", "p99"])
    # Of 400,000 requests that were simulated at these loads.
    for name, values in {"p95": [0.1212, 0.3230], "p99": [0.2301, 0.6048]}.items():
        assert (told[f"{name}_low"] < values).all()
        assert (values < told[f"{name}_high"]).all()
    assert told["trusted"].any()
    in_order = st.fit(st.models.MMmK(capacity=30), plan.windows)
    assert in_order.max_load("loss<1%").doubt.reason != "order"
    assert in_order.max_load("p99<1s").doubt.reason == "order"


def test_percentiles_of_several_shared_servers_are_not_trusted(tmp_path):
    plan, found = planned(log(3, sharing=True), tmp_path, servers=3, capacity=30)
    assert found["overtaking"].code == "overtake_several"
    assert "3 servers" in str(found["overtaking"])
    assert plan.max_load("p99<1s").doubt.reason == "order"
    assert "order" not in str(plan.max_load("loss<1%").doubt)
    read = st.read_windows(tmp_path / "w.csv")
    (times,) = (each for each in read.observations if each.kind == "service times")
    assert times.sharing.keys() >= {1, 2, 3}
    in_turn, found = planned(log(3), tmp_path, servers=3, capacity=30)
    assert found["overtaking"].code == "in_order"
    assert "order" not in str(in_turn.max_load("p99<1s").doubt)


def test_requests_on_the_way_are_no_misfit(tmp_path):
    # A client's log counts them, too: at 60 % of saturation, 12 % of requests find one there.
    frame = log(1, constant=True)
    frame["response"] += 0.002
    plan, found = planned(frame, tmp_path, servers=1, capacity=30)
    assert plan.estimates["overhead"] == pytest.approx(0.002, rel=0.2)
    assert found["lack of fit"].verdict is Verdict.OK
    assert plan.recommended == "service"
