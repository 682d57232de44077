"""Prometheus in all its moods: a stand-in that answers as told, and what becomes of it."""

import contextlib
import json
import math
import socket
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from programs import free_port
from stationary import fit, models, read_windows
from stationary.cli._sources import parse_time
from stationary.data import Sampling
from stationary.errors import DataWarning, InputError, ProgramError
from stationary.ingest import Cut, Prometheus, prometheus_client, windows_from_prometheus
from stationary.ingest.prometheus import bins, increases

START = 1_700_000_000.0


class StandIn:
    """Answers expressions by functions of time; None is no value."""

    def __init__(self):
        self.series = {}
        self.asked = []
        self.troubles = []  # HTTP answers to give first
        self.extra = {}
        self.moved = lambda times: times  # what a cache does to the points
        self.headers = []

    def set(self, query, value, scraped=lambda t: t):
        self.series[query] = [({"__name__": query}, value)]
        self.series[f"timestamp({query})"] = [({}, scraped)]

    def answer(self, query, start, end, step):
        points = round((end - start) / step) + 1
        if points > 11_000 + 1:
            text = "exceeded maximum resolution of 11,000 points per timeseries."
            return 400, {"status": "error", "errorType": "bad_data", "error": text}
        self.asked.append((query, points))
        times = [round(start + k * step, 3) for k in range(points)]
        result = []
        for labels, value in self.series.get(query, []):
            pairs = [(self.moved(t), value(t)) for t in times]
            values = [[t, str(v)] for t, v in pairs if v is not None]
            if values:
                result.append({"metric": labels, "values": values})
        data = {"resultType": "matrix", "result": result}
        return 200, {"status": "success", "data": data, **self.extra}


@pytest.fixture
def served(monkeypatch):
    """A stand-in that sees one request at a load of 5; nobody really waits between two tries."""
    fake = StandIn()
    fake.set("gauge", lambda t: 1)
    fake.set("load", lambda t: 5.0)
    fake.waits = []
    monkeypatch.setattr(prometheus_client, "sleep", fake.waits.append)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            form = self.rfile.read(int(self.headers["Content-Length"])).decode()
            args = dict(urllib.parse.parse_qsl(form))
            fake.headers.append(self.headers)
            assert args["nocache"] == "1"
            ends = [float(args[name]) for name in ("start", "end", "step")]
            if fake.troubles:
                code, body = fake.troubles.pop(0)
            else:
                code, answer = fake.answer(args["query"], *ends)
                body = json.dumps(answer)
            self.send_response(code)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *args):
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=http.serve_forever, args=(0.01,))
    thread.start()
    fake.url = f"http://127.0.0.1:{http.server_address[1]}"
    yield fake
    http.shutdown()
    http.server_close()
    thread.join()


def at(t):
    return round(t - START)


def read(fake, **options):
    return made(fake, **options).windows()


def made(fake, **options):
    """Windows of a stand-in; options go to the source, to the cut or to the function."""
    source = {"url": fake.url, "start": START, "end": START + 12.0, "step": 1.0}
    ask = {"load": "load", "gauge": "gauge"}
    usual = "arrival" if "histogram" in options and not options.get("gauge") else "time"
    cut = {"window": 4.0, "sampling": usual}
    for name, value in options.items():
        kind = ask if name in ("load", "gauge", "histogram", "latency") else cut
        kind = source if name in ("start", "end", "step", "timeout", "retries") else kind
        kind[name] = value
    return windows_from_prometheus(Prometheus(**source), Cut(**cut), **ask)


def dropped(found):
    return {item.why: (item.windows, item.rows) for item in found.dropped}


# Gauges.


def test_a_window_counts_its_looks_and_takes_the_mean_load(served):
    served.set("gauge", lambda t: at(t) % 3)
    served.set("load", lambda t: 10.0 + at(t))
    windows = read(served)
    # Windows hold the looks 1..4, 5..8 and 9..12 seconds after the start.
    looks = np.arange(1, 13).reshape(3, 4)
    expected = [np.bincount(row % 3, minlength=3) for row in looks]
    np.testing.assert_array_equal(windows.counts, expected)
    np.testing.assert_allclose(windows.loads, 10.0 + looks.mean(1))
    assert windows.sampling is Sampling.TIME
    assert windows.duration.tolist() == [4.0] * 3


@pytest.mark.parametrize(
    ("gauge", "load", "left_out", "counts"),
    [
        (
            lambda s: {2: None, 3: math.nan}.get(s, 1),
            lambda s: None if s == 1 else 5.0,
            {},
            [2, 4, 4],
        ),
        (lambda s: 1, lambda s: None if s <= 3 else 5.0, {"load not known": (1, 4)}, [4, 4]),
        (
            lambda s: None if s <= 4 else 1,
            lambda s: math.nan if s > 8 else 5.0,
            {"load not known": (1, 4), "empty": (1, 0)},
            [4],
        ),
    ],
    ids=["gaps", "load mostly missing", "no load or no samples"],
)
def test_what_is_missing_is_left_out_and_counted(served, gauge, load, left_out, counts):
    served.set("gauge", lambda t: gauge(at(t)))
    served.set("load", lambda t: load(at(t)))
    found = made(served, end=START + 15.9)  # the last part of a window is left out, too
    assert dropped(found) == left_out
    assert found.windows().counts.sum(1).tolist() == counts
    assert set(found.windows().loads.tolist()) == {5.0}
    missing = 12 - sum(counts) - sum(rows for _, rows in left_out.values())
    note = f"left out {missing} of 12 samples, at which the gauge has no value"
    assert [n for n in found.notes if "no value" in n] == ([note] if missing else [])


def test_idle_windows_are_left_out_so_that_the_file_can_be_read(served, tmp_path):
    served.set("gauge", lambda t: 0 if at(t) <= 4 else at(t) % 2)
    served.set("load", lambda t: 0.0 if at(t) <= 4 else 5.0)
    found = made(served)
    assert dropped(found) == {"load 0": (1, 4)}
    found.write(tmp_path / "windows.csv")
    back = read_windows(tmp_path / "windows.csv")
    assert back == found.windows()
    assert back.counts.tolist() == [[2, 2], [2, 2]]
    assert fit(models.MMmK(capacity=1), back).converged
    served.set("load", lambda t: 0.0)
    with pytest.raises(InputError, match=r"no window is left; left out: 3 \(load 0\)"):
        made(served)


def test_large_states_share_a_column(served, monkeypatch):
    served.set("gauge", lambda t: [0, 1, 2, 7][at(t) % 4])
    together = read(served, most=1, capacity=9)
    assert together.labels == ("0", "1", "2..9")
    assert together.counts.tolist() == [[1, 1, 2]] * 3
    found = made(served, most=1)
    assert "6 samples found more than 1 in the system and are left out" in found.notes[0]
    assert "--capacity" in found.notes[0]
    assert found.windows().counts.tolist() == [[1, 1]] * 3
    assert "3 samples found more than 6" in made(served, capacity=6).notes[0]
    with pytest.raises(InputError, match=r"most= .--most. is of a gauge"):
        read(served, gauge=None, histogram="buckets", most=2)
    monkeypatch.setattr("stationary.ingest.tally._MOST_CELLS", 20)
    with pytest.raises(InputError, match=r"3 windows with 8 columns is too large.*--most"):
        read(served)
    assert len(read(served, most=2)) == 3


def test_a_scrape_is_counted_once_however_often_it_is_looked_at(served):
    served.set("gauge", lambda t: at(t) // 2 % 2, scraped=lambda t: START + 2 * (at(t) // 2))
    found = made(served)
    assert found.notes[0].startswith("left out 6 of 12 samples, which found no newer scrape")
    assert found.windows().counts.sum(1).tolist() == [2, 2, 2]


def test_long_times_are_asked_for_in_parts(served):
    served.set("gauge", lambda t: at(t) % 5)
    served.set("load", lambda t: at(t) % 7)
    windows = read(served, end=START + 25_000.0, window=1000.0)
    assert [points for query, points in served.asked if query == "gauge"] == [10_000, 10_000, 5000]
    looks = np.arange(1, 25_001).reshape(25, 1000)
    np.testing.assert_array_equal(
        windows.counts, [np.bincount(row % 5, minlength=5) for row in looks]
    )
    np.testing.assert_allclose(windows.loads, (looks % 7).mean(1))


# Histograms.


def buckets(fake, edges, cumulative):
    """Buckets that count the same in every second: ``cumulative`` is what each grows by."""
    fake.series["buckets"] = [
        ({"le": edge}, lambda t, grows=grows: at(t) * grows)
        for edge, grows in zip(edges, cumulative, strict=True)
    ]


def test_buckets_become_bins(served):
    buckets(served, ["0", "1.0", "4", "+Inf"], [5, 8, 9, 11])
    windows = read(served, gauge=None, histogram="buckets", capacity=10)
    assert windows.labels == ("0", "1", "2..4", "5..10")
    assert windows.counts.tolist() == [[20, 12, 4, 8]] * 3
    assert windows.sampling is Sampling.ARRIVAL
    by_clock = read(served, gauge=None, histogram="buckets", capacity=10, sampling="time")
    assert by_clock.sampling is Sampling.TIME


def test_what_has_no_states_is_not_counted(served):
    buckets(served, ["0", "1", "4", "+Inf"], [5, 8, 9, 11])
    found = made(served, gauge=None, histogram="buckets")
    assert found.notes[0].startswith("left out 24 observations above the last bucket, 4")
    windows = found.windows()
    assert windows.labels == ("0", "1", "2..4")
    assert windows.counts.tolist() == [[20, 12, 4]] * 3


def test_windows_with_a_restart_or_a_gap_are_left_out(served):
    # The counter starts anew at second 6, and by the window's end is larger than at its begin.
    total = {**dict.fromkeys(range(5), 0), 5: 1, 6: 0, 7: 50, 8: 100}
    served.series["buckets"] = [
        ({"le": edge}, lambda t, k=k: total.get(at(t), 100 + k * at(t)))
        for k, edge in enumerate(["0", "1", "+Inf"], 1)
    ]
    found = made(served, gauge=None, histogram="buckets", capacity=2)
    assert dropped(found) == {"a bucket's counter fell": (1, 0), "empty": (1, 0)}
    assert len(found.windows()) == 1


def test_increases_by_hand():
    nan = math.nan
    rising = [[0, 1, 2, 3, 4, 5, 6], [0, 2, 4, 6, 8, 10, 12]]
    grown, reset, gap = increases(np.array(rising, float), steps=2)
    assert (grown.tolist(), reset, gap) == ([[2, 4]] * 3, [], [])
    # A gap inside a window is none; at an end it is one, for both windows that share it.
    grown, reset, gap = increases(np.array([[0, nan, 2, 3, nan, 5, 6]]), steps=2)
    assert (grown.tolist(), reset, gap) == ([[2], [0], [0]], [], [1, 2])
    # A restart within a gap shows in what comes after it.
    grown, reset, gap = increases(np.array([[5, nan, 7, nan, nan, 1, 3]]), steps=2)
    assert (grown.tolist(), reset, gap) == ([[2], [0], [0]], [2], [1])


@pytest.mark.parametrize(
    ("edges", "grown", "capacity", "observe", "counts", "beyond"),
    [
        ([0.5, 2.5, math.inf], [1, 4, 9], 5, [0, range(1, 3), range(3, 6)], [1, 3, 5], 0),
        ([0, 0.5, 1, math.inf], [1, 1, 4, 4], 1, [0, 1], [1, 3], 0),
        ([1, 2, math.inf], [3, 4, 6], None, [range(2), 2], [3, 1], 2),
        ([0, 1, math.inf], [3, 4, 6], 2, [0, 1, 2], [3, 1, 2], 0),
    ],
)
def test_bins_by_hand(edges, grown, capacity, observe, counts, beyond):
    got = bins(edges, np.array([grown], float), "q", capacity)
    assert (got[0].tolist(), got[1], got[2]) == ([counts], observe, beyond)


@pytest.mark.parametrize(
    ("grown", "capacity", "message"),
    [
        ([1.5, 2, 3], 5, "whole numbers"),
        ([3, 2, 3], 5, "whole numbers"),
        ([1, 2, 3], 0, "capacity must be at least that of the last bucket, 1; got 0"),
        ([1, 2, 3], 1, "observations up to inf that are not states"),
    ],
)
def test_buckets_that_do_not_count(grown, capacity, message):
    with pytest.raises(InputError, match=message):
        bins([0, 1, math.inf], np.array([grown], float), "q", capacity)


def test_series_that_are_no_buckets(served):
    ask = {"gauge": None, "histogram": "buckets"}
    served.series["buckets"] = [({}, at)]
    with pytest.raises(InputError, match=r"without a bucket `le`.*sum by \(le\)"):
        read(served, **ask)
    served.series["buckets"] = [({"le": "1", "pod": pod}, at) for pod in "ab"]
    with pytest.raises(InputError, match=r"several series for le=1.*sum by \(le\) \(buckets\)"):
        read(served, **ask)
    served.series["buckets"] = [({"le": le}, at) for le in ("1", "2", "3")]
    with pytest.raises(InputError, match=r"has the buckets 1, 2, 3; two and \+Inf are needed"):
        read(served, **ask)


# What may go wrong on the way.


def test_trouble_that_passes_is_waited_for(served):
    served.troubles = [(503, "busy"), (500, "{}"), (429, "slow down")]
    assert len(read(served)) == 3
    assert served.waits == [0.5, 1.0, 2.0]


def test_trouble_that_stays_is_said(served):
    error = json.dumps({"status": "error", "error": "query timed out in expression evaluation"})
    served.troubles = [(503, error)] * 3
    with pytest.raises(ProgramError, match=r"asked 3 times: HTTP 503: query timed out.*running"):
        read(served, retries=2)
    assert served.troubles == []


def test_a_wrong_expression_is_not_asked_again(served):
    error = json.dumps({"status": "error", "error": "multiple matches for labels"})
    served.troubles = [(422, error)]
    said = "load: 'load': Prometheus says HTTP 422: multiple matches for labels"
    with pytest.raises(InputError, match=said):
        read(served)
    assert served.waits == []


def test_nobody_there(served):
    served.url = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(ProgramError, match=r"asked 2 times: .*Connection refused; is it running"):
        read(served, retries=1)


def test_somebody_who_never_answers(served):
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        client = Prometheus(url, START, START + 9, timeout=0.2, retries=0)
        with pytest.raises(ProgramError, match="asked once: timed out"):
            client.values("load", "x", np.array([0, 15_000]))


def test_warnings_of_prometheus_are_passed_on(served):
    served.extra = {"warnings": ["a store did not answer"]}
    with pytest.warns(DataWarning, match="Prometheus warns: a store did not answer"):
        read(served)


def test_gauges_that_are_none(served):
    with pytest.raises(InputError, match="gauge: 'x' has no value between 2023-11-14T22:13:21"):
        read(served, gauge="x")
    served.set("gauge", lambda t: 2.5 if at(t) == 3 else 1)
    with pytest.raises(InputError, match=r"was 2\.5 at 2023-11-14T22:13:23\.000Z.*whole number"):
        read(served)
    served.set("gauge", lambda t: -1)
    with pytest.raises(InputError, match=r"was -1 at .*zero or more"):
        read(served)
    served.set("gauge", lambda t: 8e9)
    with pytest.raises(InputError, match=r"was 8e\+09 at .*whole number"):
        read(served)
    served.series["gauge"] = [({"pod": pod}, lambda t: 1) for pod in "ab"]
    with pytest.raises(InputError, match=r"gives 2 series, such as {'pod': 'a'}.*sum\(gauge\)"):
        read(served)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gauge": None}, "give gauge=, histogram= or latency="),
        ({"histogram": "h"}, "one of gauge= and histogram="),
        ({"sampling": "arrival"}, "a gauge is read at regular times"),
        ({"sampling": "eye"}, 'sampling must be "time" or "arrival"'),
        ({"step": 0.0001}, "step must be a whole number of milliseconds"),
        ({"step": 0.0}, "step must be a whole number of milliseconds"),
        ({"window": 4.5}, "window must be a multiple of step, 1 s; got 4.5"),
        ({"window": 0.5}, "window must be a multiple of step"),
        ({"end": START + 3}, "it is 3 s, less than one window of 4 s"),
        ({"end": math.inf}, "end must be a finite number"),
        ({"start": 0.0}, "more than 1000000; read a shorter time"),
        ({"timeout": 0}, "timeout must be positive"),
        ({"retries": -1}, "retries must be a whole number"),
    ],
)
def test_arguments_that_make_no_sense(served, options, message):
    with pytest.raises(InputError, match=message):
        read(served, **options)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        *(
            (url, f"is written http://127.*got {url!r}")
            for url in ("127.0.0.1:9090", "http://", "")
        ),
        ("file:///etc/passwd", "is written http://127.*got 'file:///etc/passwd'"),
        ("ftp://me:secret@host", "written %40 %2F"),
        ("http://me:pass/secret@host:9090", "written %40 %2F"),
        ("http://me:1/secret@host:9090", "written %40 %2F"),
        ("http://host:9090/?token=secret", "written %40 %2F"),
        ("http://me:pass#secret@host:9090", "written %40 %2F"),
        ("http://me:secret", "is written http://127"),
        ("http://[me:secret", "is written http://127"),
        ("http:/me:secret@host", "is written http://127"),
    ],
)
def test_addresses_that_are_none(url, said):
    """What may be a password is not repeated."""
    with pytest.raises(InputError, match=said) as caught:
        Prometheus(url, START, START + 9)
    assert "secret" not in str(caught.value)


def test_a_password_goes_to_the_server_and_nowhere_else(served):
    served.url = served.url.replace("http://", "http://me:s%40cret:1@")
    found = made(served)
    assert {headers["Authorization"] for headers in served.headers} == {"Basic bWU6c0BjcmV0OjE="}
    assert "cret" not in f"{found.record()} {Prometheus(served.url, START, START + 9)}"
    for trouble, error in (((200, "[]"), InputError), ((503, "{}"), ProgramError)):
        served.troubles = [trouble]
        with pytest.raises(error) as caught:
            read(served, retries=0)
        assert "cret" not in str(caught.value)
        assert "127.0.0.1" in str(caught.value)
    with pytest.raises(InputError, match="has no value") as caught:
        read(served, gauge="nothing")
    assert "cret" not in str(caught.value)


@pytest.mark.parametrize(
    "moved",
    [lambda t: t - 1.0, lambda t: t + 1.0, lambda t: t + 0.3],
    ids=["one before", "one after", "between"],
)
def test_points_that_nobody_asked_for(served, moved):
    served.set("gauge", lambda t: at(t) % 3)
    served.moved = moved
    with pytest.raises(InputError, match=r"not one of the 12 points.*a cache"):
        read(served)
    served.moved = lambda t: round(t + 0.0004, 4)
    assert len(read(served)) == 3


# The command line's times.


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("now", 1e9),
        ("now-2m", 1e9 - 120),
        ("1700000000.5", 1_700_000_000.5),
        ("2023-11-14T22:13:20", START),
        ("2023-11-14T23:13:20+01:00", START),
        ("2023-11-14T22:13:20Z", START),
    ],
)
def test_points_in_time(text, seconds):
    assert parse_time(text, 1e9, "--start") == seconds


def test_times_that_are_none():
    with pytest.raises(InputError, match=r"--start is a time.*got 'noon'"):
        parse_time("noon", 0.0, "--start")


def test_the_command_refuses_before_it_asks(call, tmp_path):
    args = ("ingest", "prometheus", "http://127.0.0.1:1", "--load", "x", "--start", "now-1h")
    code, _, err = call(*args, "--gauge", "x", "-o", tmp_path / "windows.txt")
    assert (code, "give the file the ending .csv or .parquet" in err) == (2, True)
    code, _, err = call(*args, "--gauge", "x", "-o", tmp_path / "w.csv", "--retries", "0")
    assert (code, "Connection refused" in err) == (2, True)


def test_the_command_says_what_was_left_out(call, served, tmp_path):
    served.set("gauge", lambda t: None if at(t) == 6 else at(t) % 2)
    served.set("load", lambda t: 0.0 if at(t) <= 4 else 5.0)
    args = ("ingest", "prometheus", served.url, "--load", "load", "--gauge", "gauge")
    args += ("--start", START, "--end", START + 12, "--step", "1s", "--window", "4s")
    path = tmp_path / "two words.csv"
    code, out, err = call(*args, "-o", path)
    assert (code, err) == (0, "")
    assert "load 0" in out
    assert "Left out 1 of 12 samples, at which the gauge has no value." in out
    assert f"next: stationary plan '{path}' --slo" in out
    code, out, _ = call(*args, "-o", path, "--overwrite", "--json")
    told = json.loads(out)
    assert (code, told["windows"], told["rows"]) == (0, 2, 11)
    assert told["dropped"] == [{"why": "load 0", "windows": 1, "rows": 4}]


# Latencies.


def latencies(served, asked, value):
    """Buckets of response times: three below 10 ms per second, two up to 50 ms, one above."""
    served.set("load", lambda t: 6.0)
    served.series[asked] = [
        ({"le": le}, lambda t, n=n: n * value(t))
        for le, n in (("0.01", 3), ("0.05", 5), ("+Inf", 6))
    ]


@pytest.mark.parametrize("growth", [False, True], ids=["buckets", "increase"])
def test_latency_buckets_alone_and_beside_a_gauge(served, tmp_path, growth):
    asked = "sum by (le) (increase(took_bucket[W]))" if growth else "sum by (le) (took_bucket)"
    latencies(served, asked.replace("[W]", "[4s]"), (lambda t: 4.2) if growth else at)
    found = made(served, gauge=None, latency=asked, sampling="arrival")
    expected = [13, 8, 4] if growth else [12, 8, 4]
    assert list(found.table) == ["start", "load", "steady", "rt_10ms", "rt_50ms", "rt_more"]
    assert found.table.iloc[:, 3:].to_numpy().tolist() == [expected] * 3
    found.write(tmp_path / "w.csv")
    [kind] = read_windows(tmp_path / "w.csv").observations
    assert kind.data.tolist() == [expected] * 3
    served.set("gauge", lambda t: at(t) % 3)
    both = made(served, latency=asked)
    assert both.table.filter(like="rt_").to_numpy().tolist() == [expected] * 3
    assert both.table.filter(like="Q=").to_numpy().sum() == 12


def test_a_load_over_the_window_is_read_at_its_end(served):
    """Between the ends it reaches back into the window before."""
    latencies(served, "took", at)
    served.set("rate(n[4s])", lambda t: 10.0 + at(t) if at(t) % 4 == 0 else 1e6)
    found = made(served, load="rate(n[W])", gauge=None, latency="took", sampling="arrival")
    assert found.table["load"].tolist() == [14.0, 18.0, 22.0]


@pytest.mark.parametrize(
    ("asked", "options", "words"),
    [
        ("rate(took_bucket[W])", {}, "is a rate; take the buckets themselves"),
        ("took", {}, "take cumulative buckets"),
        (None, {}, "give gauge=, histogram= or latency="),
    ],
)
def test_latencies_that_are_none(served, asked, options, words):
    latencies(served, str(asked).replace("[W]", "[4s]"), at)
    if asked == "took":
        served.series[asked][1] = ({"le": "0.05"}, at)
    with pytest.raises(InputError, match=words):
        made(served, gauge=None, latency=asked, sampling="arrival", **options)
