"""Requests to windows on DuckDB, against the same done in memory and by brute force."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from request_logs import counted, counts, frame, queue
from stationary.data import Sampling
from stationary.errors import InputError
from stationary.ingest import (
    Columns,
    Cut,
    DuckDB,
    RequestLog,
    Source,
    windows_from_events,
)
from stationary.terms.spans import Unit

K = 6


@pytest.fixture(scope="module")
def log():
    return queue(rate=0.9, seconds=3000.0, capacity=K, start=17.3)


@pytest.fixture(scope="module")
def file(log, tmp_path_factory):
    path = tmp_path_factory.mktemp("log") / "requests.parquet"
    frame(*log).to_parquet(path, index=False)
    return Source(str(path))


def test_counts_are_those_of_the_log_in_memory(log, file):
    expected = np.array(counted(*log, 50.0, K))
    made = windows_from_events(file, Cut(50.0, capacity=K))
    assert_array_equal(counts(made.table), expected)
    assert_array_equal(made.table["sent"], expected.sum(1))
    assert_array_equal(made.table["load"], expected.sum(1) / 50.0)
    assert_array_equal(made.table["lost"], expected[:, K])
    assert_allclose(made.table["start"], log[0][0] + 50.0 * np.arange(len(expected)), atol=1e-6)
    assert counts(made.table)[:, K].sum() > 20
    assert made.windows().sampling is Sampling.ARRIVAL
    assert made.windows().duration.unique().tolist() == [50.0]


def test_ties_of_whole_milliseconds(made_of):
    """Who leaves in the millisecond of an arrival is gone, as sums of whole numbers say."""
    rng = np.random.default_rng(5)
    arrival = 1_700_000_000_000 + np.sort(rng.integers(0, 20_000, 4000))
    response = rng.integers(1, 12, 4000)
    table = {"at": arrival, "took": response, "done": arrival + response}
    exact = RequestLog(arrival - arrival[0], response)
    window = (exact.arrival // 1000).astype(int)
    expected = np.zeros((20, 30), dtype=int)
    np.add.at(expected, (window, exact.in_system), 1)
    columns = (
        Columns("at", response="took", unit=Unit.MS),
        Columns("at", completion="done", unit=Unit.MS),
    )
    for names in columns:
        made = made_of(table, Cut(1.0), names)
        width = counts(made.table).shape[1]
        assert_array_equal(counts(made.table), expected[: len(made.table), :width])
        assert not expected[:, width:].any()
        assert made.table["start"][0] == arrival[0] / 1000


def test_the_clock_sees_what_brute_force_sees(log, file):
    arrival, response = log
    made = windows_from_events(
        file, Cut(50.0, sampling=Sampling.TIME, every=0.25, capacity=K, warm_up=100.0)
    )
    inside = ~np.isnan(response)
    begin, end = arrival[inside], (arrival + response)[inside]
    looks = arrival[0] + 100.0 + (np.arange(200 * len(made.table)) + 0.5) * 0.25
    there = (begin[:, None] < looks) & (end[:, None] >= looks)
    expected = np.zeros((len(made.table), K + 1), dtype=int)
    np.add.at(expected, (np.arange(len(looks)) // 200, there.sum(0)), 1)
    assert_array_equal(counts(made.table), expected)
    assert made.windows().sampling is Sampling.TIME
    assert {item.why: item.windows for item in made.dropped}["warm-up"] == 2


def test_an_idle_server_is_seen_by_the_clock(made_of):
    """A window whose second half has no event: who was there stays there."""
    by_time = Cut(10.0, sampling=Sampling.TIME, every=0.1)
    made = made_of("arrival,response 0,1.5 0.2,3.0 9,1 21,1", by_time)
    # 0..0.2 one, ..1.5 two, ..3.2 one, none, from 9 on one; the second window: gone; no arrivals.
    assert counts(made.table).tolist() == [[100 - 2 - 13 - 17 - 10, 2 + 17 + 10, 13]]
    assert {item.why: item.windows for item in made.dropped}["empty"] == 1


def test_lost_requests_do_not_occupy(made_of):
    rows = "0,9,503 0.1,9,200 0.2,9,404 0.3,9,429 0.4,,200 0.5,9,200 1.5,1,200"
    log, lost = f"arrival,response,status {rows}", ("5xx", "429")
    made = made_of(log, Cut(1.0, capacity=5, lost_status=lost))
    assert made.table[["sent", "lost"]].to_numpy().tolist() == [[6, 3]]
    assert counts(made.table).tolist() == [[1, 1, 1, 0, 0, 3]]
    assert any(n.startswith("3 requests were lost; they found 1.3 in the") for n in made.notes)
    assert counts(made_of(log, Cut(1.0, capacity=5)).table).tolist() == [[1] * 6]
    without = made_of(log, Cut(1.0, lost_status=lost))
    assert counts(without.table).tolist() == [[1, 1, 1]]
    assert any("in no count" in note for note in without.notes)


def test_states_above_the_most_share_a_column(log, file):
    all_of_it = windows_from_events(file, Cut(50.0, capacity=K))
    lumped = windows_from_events(file, Cut(50.0, capacity=K, most=2))
    assert lumped.windows().labels == ("0", "1", "2", "3..6")
    assert_array_equal(counts(lumped.table)[:, 3], counts(all_of_it.table)[:, 3:].sum(1))
    dropped = windows_from_events(file, Cut(50.0, most=2))
    assert dropped.windows().labels == ("0", "1", "2")
    assert_array_equal(counts(dropped.table), counts(all_of_it.table)[:, :3])
    more = counts(all_of_it.table)[:, 3:].sum() - all_of_it.table["lost"].sum()
    assert any(f"{more} samples found more than 2" in note for note in dropped.notes)


def test_aligned_windows_begin_on_the_clock(log, file):
    made = windows_from_events(file, Cut(50.0, capacity=K, align=True))
    assert (made.table["start"] % 50 == 0).all()
    assert made.table["start"][0] == 50.0  # the log begins at 17.3
    after = log[0][(log[0] >= 50) & (log[0] < 100)]
    assert made.table["sent"][0] == len(after)


def test_a_window_whose_load_jumps_is_marked(made_of):
    calm, busy = queue(2.0, 600.0, 50, 0.1, 1), queue(8.0, 50.0, 50, 0.1, 2, start=650.0)
    late = queue(2.0, 100.0, 50, 0.1, 3, start=700.0)
    parts = [calm, queue(2.0, 50.0, 50, 0.1, 4, start=600.0), busy, late]
    table = frame(*(np.concatenate(part) for part in zip(*parts, strict=True)))
    made = made_of(table, Cut(100.0, align=True))
    # The second half of 600..700 has four times the load.
    assert made.table.set_index("start")["steady"].to_dict() == {
        **dict.fromkeys([100.0, 200.0, 300.0, 400.0, 500.0], 1),
        600.0: 0,
    }
    steady = made_of(table, Cut(100.0, align=True, steady_only=True))
    assert len(steady.table) == 5
    assert {item.why: item.windows for item in steady.dropped}["not steady"] == 1


@pytest.mark.slow
def test_more_than_the_memory(tmp_path):
    """Two million requests, four million changes to sort, within 200 MB."""
    rng = np.random.default_rng(0)
    arrival = np.cumsum(rng.exponential(1e-3, 2_000_000))
    response = rng.exponential(2e-3, len(arrival))
    table = pd.DataFrame({"arrival": arrival, "response": response})
    table.to_parquet(tmp_path / "large.parquet", index=False)
    spill = tmp_path / "spill"
    spill.mkdir()
    made = windows_from_events(
        Source(str(tmp_path / "large.parquet")),
        Cut(10.0),
        DuckDB(memory="200MB", folder=str(spill)),
    )
    window = np.floor((arrival - arrival[0]) / 10.0).astype(int)
    width = counts(made.table).shape[1]
    expected = np.zeros((window[-1] + 1, width + 20), dtype=int)
    np.add.at(expected, (window, RequestLog(arrival, response).in_system), 1)
    assert_array_equal(counts(made.table), expected[:-1, :width])
    assert not expected[:-1, width:].any()
    assert not list(spill.iterdir())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"window": 0.0}, "duration must be positive"),
        ({"window": 1.0, "every": 0.1}, "goes with sampling='time'"),
        ({"window": 1.0, "sampling": Sampling.TIME, "every": 0.3}, "whole number of samples"),
        ({"window": 1.0, "capacity": 0}, "capacity must be a whole number from 1 up"),
        ({"window": 1.0, "capacity": 3, "most": 4}, "most=4 lies above capacity=3"),
        ({"window": 1.0, "warm_up": -1.0}, "warm_up must be zero or more"),
    ],
)
def test_bad_cuts(options, message):
    with pytest.raises(InputError, match=message):
        Cut(**options)


def test_a_stay_that_rounding_ends_is_none(made_of):
    """It must not leave before it came, so that there would be one less than nobody."""
    done = 1e-8
    arrival = 1_700_000_000.0 + np.arange(40) * 0.25
    table = pd.DataFrame({"arrival": arrival, "done": arrival + done, "took": done})
    for columns in (Columns(completion="done"), Columns(response="took")):
        made = made_of(table, Cut(1.0, capacity=3), columns)
        assert counts(made.table).tolist() == [[4, 0, 0, 0]] * 9
    assert not RequestLog(arrival, table["done"] - arrival).in_system.any()
    all_on_the_way = RequestLog(arrival, np.full(40, 0.0123))
    assert not all_on_the_way.in_server(0.0123).any()


def test_losses_for_another_reason_than_a_full_queue_are_said(made_of):
    arrival, response = queue(8.0, 200.0, 20, service=0.1, seed=3)
    drop = np.random.default_rng(4).random(len(response)) < 0.03
    table = {"arrival": arrival, "response": np.where(drop, np.nan, response)}
    other = made_of(table, Cut(10.0, capacity=20))
    assert any("not lost to a full queue" in note for note in other.notes)
    full = made_of(frame(*queue(14.0, 200.0, 5, 0.1)), Cut(10.0, capacity=5))
    assert any("requests were lost" in note for note in full.notes)
    assert not any("not lost to a full queue" in note for note in full.notes)


def test_failures_that_count_as_answered_are_said(made_of):
    arrival, response = queue(8.0, 100.0, 20, service=0.1, seed=3)
    status = np.where(np.arange(len(arrival)) % 50 == 0, 503, 200)
    table = {"arrival": arrival, "response": response, "status": status}
    [note] = [n for n in made_of(table, Cut(10.0)).notes if "status" in n]
    assert note.startswith(f"{(status == 503).sum()} requests have a failure status")
    lost = made_of(table, Cut(10.0, lost_status=("5xx",)))
    assert not any("failure status" in n for n in lost.notes)
