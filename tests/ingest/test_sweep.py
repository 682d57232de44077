"""The compiled sweep, against brute force in numpy on all requests at once."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import stationary as st
from request_logs import frame, queue
from stationary.errors import InputError
from stationary.ingest import Columns, Cut, Source, Unit, events, windows_from_events
from stationary.ingest.lengths import load_changes
from stationary.ingest.sweep import (
    EDGES,
    OutOfOrderError,
    Requests,
    Sweep,
    in_order,
    lowest_level,
)


def ties(seed=1, count=6000):
    """Requests in whole milliseconds: many at one instant, some without any time, some lost."""
    rng = np.random.default_rng(seed)
    arrival = np.sort(np.round(np.cumsum(rng.exponential(1e-3, count)), 3))
    response = np.round(rng.exponential(2.5e-3, count), 3)
    lost = rng.random(count) < 0.02
    order = np.lexsort((arrival + response, arrival))
    return Requests(arrival, (arrival + response)[order], response[order], lost[order])


def column_of(level):
    """The lowest of the levels that share a column."""
    return max(low for low in (*range(16), 16, 24, 32, 48, 64) if low <= level)


def service_times(rows, m, length):
    """Per window, idle or waited and level: count, sum, sum of squares; by the definition."""
    stays = (rows.departure > rows.arrival) & ~rows.lost
    came, left = rows.arrival[stays], rows.departure[stays]
    leaves, index = np.sort(left), np.arange(stays.sum())
    before = np.where(index >= m, leaves[np.maximum(index - m, 0)], -np.inf)
    idle = before <= came
    found = index - np.searchsorted(leaves, came, "right")
    assert_array_equal(found < m, idle)
    waiting = np.searchsorted(came, before, "left") - (index - m + 1)
    passes = ~stays & ~rows.lost
    found_by_those = np.searchsorted(came, rows.arrival[passes], "left") - np.searchsorted(
        leaves, rows.arrival[passes], "right"
    )
    data = pd.DataFrame(
        {
            "window": np.floor(
                (np.concatenate([came, rows.arrival[passes]]) - rows.arrival[0]) / length
            ),
            "idle": np.concatenate([idle, found_by_those < m]),
            "level": np.concatenate([np.where(idle, found + 1, waiting), found_by_those + 1]),
            "seconds": np.concatenate([left - np.maximum(came, before), np.zeros(passes.sum())]),
        }
    )
    data["level"] = data["level"].map(column_of)
    data["squares"] = data["seconds"] ** 2
    groups = data.groupby(["window", "idle", "level"])
    return groups.agg(n=("seconds", "size"), sum=("seconds", "sum"), sq=("squares", "sum"))


@pytest.mark.parametrize("batch", [17, 1000, 10**6])
@pytest.mark.parametrize("length", [0.004, 0.5])
def test_service_times_are_those_of_the_definition(batch, length):
    """Also where several windows are open at once, because requests of all of them wait."""
    rows = ties()
    windows = int((rows.arrival[-1] - rows.arrival[0]) / length)
    servers = (1, 2, 3, 7)
    sweep = Sweep(rows.arrival[0], length, windows, servers=servers)
    for k in range(0, len(rows.arrival), batch):
        sweep.add(Requests._make(column[k : k + batch] for column in rows))
    found = sweep.result()
    for k, m in enumerate(servers):
        expected = service_times(rows, m, length)
        expected = expected[expected.index.get_level_values("window") < windows]
        mine = found.services[found.services[:, 1] // 144 == k]
        window, column = mine[:, 0], mine[:, 1] % 144
        level = [lowest_level(int(c) % 72) for c in column]
        made = pd.DataFrame(
            mine[:, 2:],
            pd.MultiIndex.from_arrays([window, column < 72, level]),
            ["n", "sum", "sq"],
        ).sort_index()
        assert made.index.tolist() == expected.index.tolist()
        assert_array_equal(made["n"], expected["n"])
        assert_allclose(made, expected, rtol=1e-9, atol=1e-12)
    answered = ~rows.lost
    negative = service_times(rows, 1, 1e9)
    assert found.highest > 7
    assert 0 < found.sharing[1] < 1
    assert negative["n"].sum() == answered.sum()


def test_the_columns_of_a_file(tmp_path):
    """Everything at once, of a log in order of completion, and read back."""
    arrival, response = queue(rate=0.9, seconds=3000.0, capacity=6, start=17.3)
    log = pd.DataFrame({"arrival": arrival, "response": response})
    done = log.sort_values("arrival", key=lambda a: a + log["response"].fillna(5.0))
    done.to_parquet(tmp_path / "done.parquet", index=False)
    frame(arrival, response).to_parquet(tmp_path / "shuffled.parquet", index=False)
    cut = Cut(50.0, capacity=6)
    made, again = (
        windows_from_events(Source(str(tmp_path / f"{name}.parquet")), cut)
        for name in ("done", "shuffled")
    )
    pd.testing.assert_frame_equal(made.table, again.table)
    window = np.floor((arrival - arrival[0]) / 50.0).astype(int)
    inside = (window < len(made.table)) & ~np.isnan(response)
    buckets = made.table.filter(like="rt_")
    edges = [float(name[3:-2]) / 1e3 for name in buckets if name != "rt_more"]
    assert set(np.round(edges, 9)) <= set(np.round(EDGES, 9))
    expected = np.zeros(buckets.shape, dtype=int)
    np.add.at(expected, (window[inside], np.searchsorted(edges, response[inside])), 1)
    assert_array_equal(buckets, expected)
    # One server, first come, first served: the times that were drawn, seen through S1.
    drawn = np.random.default_rng(0)
    drawn.poisson(0.9 * 3000.0)
    drawn.uniform(0, 3000.0, len(arrival))
    need = drawn.exponential(1.0, len(arrival))
    whole = pd.Series(need[inside]).groupby(window[inside])
    sums = made.table.filter(regex=r"^S1\..*\.sum$").sum(axis=1)
    assert_allclose(sums, whole.sum(), rtol=1e-9)
    squares = made.table.filter(regex=r"^S1\..*\.sq$").sum(axis=1)
    assert_allclose(squares, (whole.apply(lambda s: (s**2).sum())), rtol=1e-9)
    assert "sharing1" not in made.facts
    assert {name.split(".")[0] for name in made.table if name.startswith("S")} == {
        f"S{m}" for m in (1, 2, 3, 4, 5, 6)
    }
    alone = response[(found_by_counting(arrival, response) == 0) & ~np.isnan(response)]
    assert made.facts["shortest"] == pytest.approx(
        np.quantile(alone, 0.001, method="inverted_cdf"), rel=1e-3
    )
    made.write(tmp_path / "windows.csv")
    first = (tmp_path / "windows.csv").read_text().partition("\n")[0]
    assert first.startswith("# stationary: sampling=arrival duration=50.0 shortest=")
    assert "sharing" not in first
    assert first.endswith(" full=6.0")
    read = st.read_windows(tmp_path / "windows.csv")
    assert_array_equal(read.counts, made.table.filter(like="Q="))
    only = windows_from_events(
        Source(str(tmp_path / "done.parquet")), Cut(50.0, capacity=6, servers=(2, 9))
    )
    assert {name.split(".")[0] for name in only.table if name.startswith("S")} == {"S2", "S9"}
    with pytest.raises(InputError, match="servers must be whole numbers from 1 up; got 0"):
        Cut(1.0, servers=(0,))


def found_by_counting(arrival, response):
    """How many each request found, by counting."""
    return st.ingest.RequestLog(arrival, response).in_system


def test_rows_in_order_of_completion_are_put_in_order_of_arrival():
    rows = ties(count=3000)
    shuffled = np.argsort(rows.departure, kind="stable")
    parts = [
        Requests._make(column[shuffled[k : k + 100]] for column in rows)
        for k in range(0, 3000, 100)
    ]
    out = list(in_order(parts, rows.response.max()))
    assert len(out) > 20  # rows are passed on as they come
    assert_array_equal(np.concatenate([part.arrival for part in out]), rows.arrival)
    assert_array_equal(np.concatenate([part.departure for part in out]), rows.departure)
    with pytest.raises(OutOfOrderError):
        list(in_order(parts, 0.0))


def test_windows_that_mix_two_loads_or_have_bunched_arrivals_are_marked(made_of):
    """A load that changes after a fifth of a window; a client that stalls and then catches up."""
    rng = np.random.default_rng(3)
    rates = np.repeat([50.0, 50.0, 50.0, 50.0, 20.0, 20.0, 20.0, 20.0], 10)
    rates[20:22] = 130.0  # two seconds of the third window
    arrival = np.concatenate([k + np.sort(rng.random(rng.poisson(r))) for k, r in enumerate(rates)])
    stalled = (arrival > 50) & (arrival < 60)
    arrival[stalled] = (
        50 + np.ceil((arrival[stalled] - 50) / 0.4) * 0.4 - rng.random(stalled.sum()) * 1e-3
    )
    made = made_of({"arrival": np.sort(arrival), "response": 1e-3}, Cut(10.0, align=True))
    marked = dict(zip(made.table["start"], made.table["marked"], strict=True))
    assert {start: mark for start, mark in marked.items() if mark} == {
        20.0: "load changes",
        50.0: "bunched arrivals",
    }


@pytest.mark.parametrize("together", [500_000, 20], ids=["halves", "many parts"])
@pytest.mark.parametrize(
    "cut",
    [
        Cut(0.5, capacity=5, lost_status=("5xx",)),
        Cut(0.5, capacity=5, sampling="time", every=0.002, align=True),
        Cut(0.05, servers=(2, 5)),
    ],
    ids=["arrivals", "clock", "short"],
)
def test_the_query_finds_what_the_sweep_finds(tmp_path, monkeypatch, cut, together):
    """That of Spark and PostgreSQL, here on DuckDB; ties, passing and lost requests included.

    However many pieces the running sum is cut into.
    """
    monkeypatch.setattr("stationary.ingest.cut._MOST_EVENTS", together)
    rows = ties(seed=4)
    log = pd.DataFrame(
        {
            "at": np.rint(rows.arrival * 1e3).astype(int),
            "ms": np.where(rows.lost, np.nan, np.rint(rows.response * 1e3)),
            "status": np.random.default_rng(2).choice([200, 503], len(rows.lost), p=[0.9, 0.1]),
        }
    )
    log.sample(frac=1, random_state=1).to_parquet(tmp_path / "log.parquet", index=False)
    columns = Columns("at", response="ms", unit=Unit.MS)
    swept, queried = (
        windows_from_events(Source(str(tmp_path / "log.parquet"), columns), cut)
        for way in (events._stream, lambda *given: events.query(*given[:4]))
        if monkeypatch.setattr(events, "_stream", way) is None
    )
    pd.testing.assert_frame_equal(
        swept.table, queried.table, check_dtype=False, rtol=1e-9, atol=1e-12
    )
    assert swept.dropped == queried.dropped
    assert swept.notes == queried.notes
    assert dict(swept.facts) == pytest.approx(dict(queried.facts))


def stepping(step, steps, seed=5, rates=(20.0, 60.0)):
    """A log whose load steps at random between two rates."""
    rng = np.random.default_rng(seed)
    chosen = rng.choice(rates, steps)
    times = [
        k * step + np.sort(rng.random(rng.poisson(r * step))) * step for k, r in enumerate(chosen)
    ]
    return np.concatenate(times)


@pytest.mark.parametrize(("step", "expected"), [(10.0, 10.0), (60.0, 60.0), (1e9, 50.0)])
def test_windows_are_as_long_as_the_load_is_steady(made_of, step, expected):
    """Steps of ten seconds, of a minute, and none: then a twentieth of the log, rounded down."""
    arrival = stepping(step, 200) if step < 1e9 else stepping(1000.0, 1)
    made = made_of({"arrival": arrival, "response": 0.01}, Cut())
    assert made.duration == pytest.approx(expected, rel=0.7 if step == 1e9 else 1e-12)
    assert made.notes[-1].startswith(f"windows of {made.duration:g} s were chosen")
    assert " 0% " not in made.notes[-1]  # a share of zero says nothing


@pytest.mark.parametrize("parts", [16, 20_000])
def test_the_load_of_poisson_arrivals_does_not_change(parts):
    """However short the parts are; in one that is short enough, any arrival is a surprise."""
    rng = np.random.default_rng(1)
    within = [np.bincount(rng.integers(0, parts, 60), minlength=parts) for _ in range(1000)]
    assert load_changes(np.array(within, dtype=float)).sum() <= 2
    steps = [np.bincount(rng.integers(0, parts // 2, 200), minlength=parts) for _ in range(100)]
    assert load_changes(np.array(steps, dtype=float)).all()


def test_windows_that_stand_out_are_named_by_their_start(made_of):
    """Of four windows of 50 s, the load triples inside the third."""
    rng = np.random.default_rng(3)
    parts = [(0.0, 125.0, 20.0), (125.0, 200.0, 60.0), (200.0, 201.0, 60.0)]
    arrival = np.concatenate([np.sort(rng.uniform(a, b, int((b - a) * r))) for a, b, r in parts])
    arrival[0] = 0.0
    made = made_of({"arrival": arrival, "response": 0.01}, Cut(window=50.0))
    assert "windows marked as 'load changes': 1, which start at 100" in made.notes


def test_few_requests_make_few_windows_and_that_is_said(made_of):
    log = pd.DataFrame({"arrival": np.arange(40) * 0.25, "response": 0.01})
    made = made_of(log, Cut())
    assert any("record longer" in note for note in made.notes)
    assert "responses took 10 ms on average, and 10 ms at most" in made.notes
    with pytest.raises(InputError, match=r"all of its requests \(1\) came"):
        made_of(log.iloc[:1], Cut())


def test_a_wrong_unit_of_response_times_is_suspected(made_of):
    log = pd.DataFrame({"arrival": np.arange(1200) * 0.01, "response": 100.0})
    with pytest.raises(InputError, match=r"is the unit of response times right .they took 100 s"):
        made_of(log, Cut(window=1.0))


def test_the_number_of_servers_shows_in_the_service_times(made_of):
    rng = np.random.default_rng(8)
    arrival = np.cumsum(rng.exponential(1 / 28.0, 20_000))
    for m in (1, 4):
        free, response = np.zeros(m), np.empty(len(arrival))
        for i, (now, need) in enumerate(zip(arrival, rng.exponential(m / 40, 20_000), strict=True)):
            k = int(np.argmin(free))
            free[k] = max(free[k], now) + need
            response[i] = free[k] - now
        made = made_of({"arrival": arrival, "response": response}, Cut(10.0))
        assert made.likely_servers() == m
        assert made.likely_capacity() is None


def gappy(rng, rate, stretches):
    """Poisson arrivals in some stretches of time only."""
    times = [rng.uniform(a, b, rng.poisson(rate * (b - a))) for a, b in stretches]
    return np.sort(np.concatenate(times))


@pytest.mark.parametrize("window", [None, 10.0])
def test_gaps_are_cut_out_and_do_not_change_the_length_of_windows(made_of, window):
    """A day between two logs, and a restart of twenty seconds inside one."""
    rng = np.random.default_rng(7)
    arrival = gappy(rng, 20.0, [(0, 304), (324, 600), (86_400.0 + 605, 86_400.0 + 1200)])
    made = made_of({"arrival": arrival, "response": 0.01}, Cut(window))
    assert made.duration is not None
    assert 10.0 <= made.duration <= 60.0
    assert made.table["load"].between(20 * 0.6, 20 * 1.4).all()
    [gap] = [item for item in made.dropped if item.why == "a gap in the log"]
    assert 2 <= gap.windows <= 4
    whole = gappy(rng, 20.0, [(0, 1200)])
    made = made_of({"arrival": whole, "response": 0.01}, Cut(window))
    assert not [item for item in made.dropped if item.why == "a gap in the log"]


def test_a_log_with_few_requests_has_no_gaps(made_of):
    """A request per minute by chance, in windows of ten seconds."""
    arrival = gappy(np.random.default_rng(8), 1 / 60, [(0, 86_400)])
    made = made_of({"arrival": arrival, "response": 0.01}, Cut(10.0))
    assert "a gap in the log" not in {item.why for item in made.dropped}


@pytest.mark.parametrize("window", [60.0, 30.0, 2.0, None])
def test_silences_between_bursts_are_no_gaps(made_of, window):
    """200 requests within a second, every 20 s; one silence of 300 s is a gap."""
    rng = np.random.default_rng(9)
    bursts = np.arange(180) * 20.0
    arrival = gappy(rng, 200.0, [(a, a + 1) for a in bursts + 280.0 * (bursts >= 1200)])
    made = made_of({"arrival": arrival, "response": 0.001}, Cut(window))
    gaps = [item.windows for item in made.dropped if item.why == "a gap in the log"]
    assert sum(gaps) <= 2
    assert made.table["sent"].sum() > 0.95 * len(arrival)
    if window == 60.0:
        assert gaps


def test_times_that_came_twice_are_cut_out(tmp_path, made_of):
    """The clock falls back by a minute, as at the end of summer time; two logs overlap by right."""
    rng = np.random.default_rng(9)
    arrival = gappy(rng, 20.0, [(0, 300)])
    back = np.where(arrival > 200, arrival - 60, arrival)
    log = pd.DataFrame({"arrival": back, "response": 0.01})
    made = made_of(log, Cut(10.0))
    assert made.table["load"].between(10, 30).all()
    assert [item.windows for item in made.dropped if item.why == "the clock was set back"] == [7]
    assert "the clock was set back by about 60 s; only the windows of times" in made.notes[-1]
    log[back < 150].to_parquet(tmp_path / "log.parquet", index=False)
    log[back > 140].to_parquet(tmp_path / "more.parquet", index=False)
    made = windows_from_events(Source(str(tmp_path / "*.parquet")), Cut(10.0))
    assert "the clock was set back" not in {item.why for item in made.dropped}
    assert made.table["load"].max() > 30


@pytest.mark.parametrize("before", [0, 50])
def test_a_clock_that_is_set_back_between_batches_costs_these_windows_only(
    tmp_path, monkeypatch, before
):
    """The rows are sorted after some batches of them; the times came twice only as they were."""
    monkeypatch.setattr("stationary.ingest.engines._BATCH", 2048)
    arrival = np.arange(20_000) / 50
    arrival[10 * 2048 // 5 - before :] -= 60
    log = pd.DataFrame({"arrival": arrival, "response": 0.01})
    log.to_parquet(tmp_path / "log.parquet", index=False, row_group_size=2048)
    made = windows_from_events(Source(str(tmp_path / "log.parquet")), Cut(10.0))
    assert [item.windows for item in made.dropped if item.why == "the clock was set back"] == [7]
    assert_allclose(made.table["load"], 50)


def test_logs_of_two_servers_one_after_the_other_overlap_by_right(made_of):
    """As ``cat a.log b.log`` makes them."""
    rng = np.random.default_rng(9)
    arrival = np.concatenate([gappy(rng, 20.0, [(0, 300)]) for _ in range(2)])
    made = made_of({"arrival": arrival, "response": 0.01}, Cut(10.0))
    assert made.table["load"].between(30, 50).all()
    assert len(made.table) == 29
