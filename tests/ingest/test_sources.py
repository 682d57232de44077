"""Files of requests: formats, columns, units, and what is said about bad ones."""

import gzip
import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from request_logs import counts, frame, queue
from stationary.errors import InputError
from stationary.ingest import (
    Arrived,
    Columns,
    Counter,
    Cut,
    Rate,
    Source,
    Unit,
    formats,
    windows_from_events,
    windows_from_gauge,
)
from stationary.terms.spans import parse_span


@pytest.fixture(scope="module")
def log():
    return frame(*queue(rate=0.8, seconds=400.0, capacity=4))


@pytest.fixture(scope="module")
def expected(log, tmp_path_factory):
    path = tmp_path_factory.mktemp("log") / "log.parquet"
    log.to_parquet(path)
    return counts(windows_from_events(Source(str(path)), Cut(20.0, capacity=4)).table)


def write(log, path):
    name = path.name
    if name.endswith((".csv", ".csv.gz", ".csv.bz2")):
        log.to_csv(path, index=False)
    elif name.endswith(".tsv"):
        log.to_csv(path, index=False, sep="\t")
    else:
        opened = gzip.open if name.endswith(".gz") else open
        with opened(path, "wt") as file:
            for row in log.to_dict("records"):
                clean = {key: None if value != value else value for key, value in row.items()}
                file.write(json.dumps(clean) + "\n")


@pytest.mark.parametrize(
    "name", ["log.csv", "log.csv.gz", "log.csv.bz2", "log.tsv", "log.jsonl", "log.jsonl.gz"]
)
def test_formats(log, expected, name, tmp_path):
    write(log, tmp_path / name)
    made = windows_from_events(Source(str(tmp_path / name)), Cut(20.0, capacity=4))
    assert_array_equal(counts(made.table), expected)


def test_a_format_that_somebody_adds(log, expected, tmp_path, monkeypatch):
    """One file in the directory of formats is all it takes."""
    path = tmp_path / "access.log"
    log.to_csv(path, index=False, header=False, sep="|")
    (tmp_path / "with_bars.py").write_text(
        "from stationary.ingest import Format\n"
        "def read(backend, path):\n"
        "    names = ['arrival', 'response']\n"
        "    return backend.read_csv(path, delim='|', header=False, names=names)\n"
        "FORMAT = Format(read)\n"
    )
    monkeypatch.setattr(formats, "__path__", [*formats.__path__, str(tmp_path)])
    assert "with-bars" in formats.format_names()
    made = windows_from_events(Source(str(path), format="with-bars"), Cut(20.0, capacity=4))
    assert_array_equal(counts(made.table), expected)


def test_text_is_read_as_numbers_and_dashes_as_no_answer(log, expected, tmp_path):
    text = log.assign(response=[f"{r!r}" if r == r else "-" for r in log["response"].tolist()])
    text.to_csv(tmp_path / "dashes.csv", index=False)
    made = windows_from_events(Source(str(tmp_path / "dashes.csv")), Cut(20.0, capacity=4))
    assert_array_equal(counts(made.table), expected)


def bad(tmp_path, text, columns=None, name="bad.csv", **cut):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        windows_from_events(Source(str(path), columns or Columns()), Cut(**{"window": 1.0, **cut}))
    message = str(caught.value)
    assert str(path) in message
    return message


@pytest.mark.parametrize(
    ("rows", "columns", "words"),
    [
        ("arrival,response 0,-1 1,-2", {}, ["'response'", "2 of 2 rows are negative"]),
        ("arrival,response soon,1 later,1", {}, ["'arrival'", "2 of 2", "timestamps", "'soon'"]),
        ("arrival,response 0,slow 1,fast 3,x", {}, ["'response'", "3 of 3", "numbers", "'x'"]),
        ("arrival,done 6,5 9,8", {"completion": "done"}, ["'done'", "2 of 2", "before the"]),
        ("arrivals,took 0,1 9,1", {}, ["'arrival'", "did you mean 'arrivals'", "took"]),
        ("arrivals,took 0,1 9,1", {"arrival": "arrivals"}, ["--response", "--completion"]),
        (
            "arrivals,took 0,1 9,1",
            {"arrival": "arrivals", "response": "took", "status": "code"},
            ["no column 'code'"],
        ),
        ("arrival,response 0,1 9000,1", {"unit": Unit.US}, ["is --unit right"]),
        ("arrival,response 0,1 1700000000000,1", {"unit": Unit.S}, ["is --unit right"]),
        ("arrival,response", {}, ["no rows"]),
    ],
)
def test_files_without_a_good_row_are_refused(tmp_path, rows, columns, words):
    message = bad(tmp_path, rows.replace(" ", "\n") + "\n", Columns(**columns))
    assert not [word for word in words if word not in message], message


MANY = " ".join(f"{k / 30_000},0" for k in range(60_000))
SECONDS = " ".join(f"2024-05-01T10:00:{k % 60:02d},0.1" for k in range(120))
FUTURE = "1700000000,0.1 1700000001,0.1 1700000003,0.1"


@pytest.mark.parametrize(
    ("rows", "columns", "words"),
    [
        (f"arrival,response {SECONDS}", {}, "all times in 'arrival' are whole seconds, too coarse"),
        ("arrival,response 0,1 1,-2 2,-1 3,1", {}, "'response': 2 of 4 rows are negative"),
        ("arrival,response 0,1 ,1 3,1", {}, "'arrival': 1 of 3 rows are missing"),
        ("arrival,response 0,1 soon,1 3,1", {}, "'arrival': 1 of 3 rows are missing"),
        ("arrival,response 0,1 1,fast 3,1", {}, "'response': 1 of 3 rows are negative or"),
        ("arrival,done 5,6 6,5 9,9", {"completion": "done"}, "'done': 1 of 3 rows are before the"),
        ("arrival,done 5.5,6 6.5,inf 9.5,9.5", {"completion": "done"}, "'done': 1 of 3"),
        (f"arrival,response {FUTURE} 9700000000,1", {}, "'arrival': 1 of 4 rows are in the future"),
        # Beyond the rows by which DuckDB guesses the types of columns.
        (f"arrival,response {MANY} soon,1 4,1", {}, "'soon,1'"),
        ("arrival,response 0,1 1,1 what 3,1 4", {}, "left out 2 lines that do not fit"),
    ],
)
def test_bad_rows_are_left_out_and_counted(tmp_path, rows, columns, words):
    """The others count: a half-written last line spoils nothing."""
    (tmp_path / "some.csv").write_text(rows.replace(" ", "\n") + "\n")
    made = windows_from_events(Source(str(tmp_path / "some.csv"), Columns(**columns)), Cut(1.0))
    assert any(words in note for note in made.notes), made.notes
    assert made.table["sent"].sum() >= 1


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("*.parquet", {}, "there is no such file"),
        (
            "log.txt",
            {},
            r"not a log of a known format\. Tried: alb, apache, .* read: 'x'\. Name its --for",
        ),
        ("binary.log", {}, "logs are text"),
        ("empty.log", {}, "the file is empty"),
        ("cut.log.gz", {}, "cannot be read|cut.log.gz"),
        ("log.txt", {"format": "x"}, "there is no format 'x'"),
        ("log.parquet", {}, r"log\.parquet failed"),
        ("binary.parquet", {}, r"binary\.parquet: this is no Parquet file; is it damaged\?"),
    ],
)
def test_files_that_cannot_be_read(tmp_path, name, options, words):
    (tmp_path / "log.txt").write_text("x")
    (tmp_path / "binary.log").write_bytes(bytes(range(256)) * 10)
    (tmp_path / "empty.log").write_text("")
    (tmp_path / "cut.log.gz").write_bytes(gzip.compress(b"some lines\n" * 1000)[:-30])
    if name != "*.parquet":
        (tmp_path / "log.parquet").write_text("not Parquet")
        (tmp_path / "binary.parquet").write_bytes(bytes(range(256)) * 10)
    with pytest.raises(InputError, match=words):
        windows_from_events(Source(str(tmp_path / name), **options), Cut(1.0))


def test_other_arguments_that_do_not_fit(tmp_path):
    assert "after a warm-up of 8 s" in bad(tmp_path, "arrival,response\n0,1\n8.5,1\n", warm_up=8.0)
    with pytest.raises(InputError, match="not both"):
        Columns(response="a", completion="b")


GAUGE = pd.DataFrame(
    {
        "time": [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0],
        "value": [0, 1, 1, 2, 0, 0, 3, 1, 0],
        "rate": [4.0, 6.0, 8.0, 8.0, 1.0, 3.0, 2.0, 2.0, 9.0],
        "since": [4, 6, 8, 8, 1, 3, 2, 2, 9],
        "total": [100, 106, 114, 122, 123, 3, 5, 7, 16],  # starts anew at 5
    }
)


@pytest.mark.parametrize(
    ("load", "loads", "rows"),
    [
        (Rate("rate"), [5.0, 8.0, 2.0, 2.0], [0, 1, 2, 3]),
        # Nobody knows since when those of the first look came.
        (Arrived("since"), [6.0, 8.0, 2.0, 2.0], [0, 1, 2, 3]),
        (Counter("total"), [8.0, 2.0], [1, 3]),
    ],
)
def test_gauges(load, loads, rows, tmp_path):
    path = tmp_path / "gauge.parquet"
    GAUGE.to_parquet(path)
    made = windows_from_gauge(
        Source(str(path), Columns("time")), "value", load, Cut(2.0, sampling="time", most=3)
    )
    by_hand = np.array([[1, 1, 0, 0], [0, 1, 1, 0], [2, 0, 0, 0], [0, 1, 0, 1]])
    assert_array_equal(counts(made.table), by_hand[rows])
    assert made.table["load"].tolist() == loads
    assert str(made.windows().sampling) == "time"


def test_bad_gauges(tmp_path):
    path = tmp_path / "gauge.csv"
    GAUGE.assign(value=GAUGE["value"] - 0.5).to_csv(path, index=False)
    source, cut = Source(str(path), Columns("time")), Cut(2.0, sampling="time")
    with pytest.raises(InputError, match="column 'value': 9 of 9 rows are not whole numbers"):
        windows_from_gauge(source, "value", Rate("rate"), cut)
    with pytest.raises(InputError, match=r"no column 'rat'; did you mean 'rate'"):
        windows_from_gauge(source, "value", Rate("rat"), cut)
    with pytest.raises(InputError, match="sampling must be 'time'"):
        windows_from_gauge(source, "value", Rate("rate"), Cut(2.0))
    with pytest.raises(InputError, match="taken already"):
        windows_from_gauge(source, "value", Rate("rate"), replace(cut, every=1.0))


def loads_of(table, load, tmp_path, window=4.0):
    """Loads by the begin of a window, and what was left out."""
    path = tmp_path / "looks.parquet"
    pd.DataFrame(table).to_parquet(path)
    cut = Cut(window, sampling="time", most=3)
    made = windows_from_gauge(Source(str(path), Columns("time")), "value", load, cut)
    dropped = {item.why: item.windows for item in made.dropped}
    return dict(zip(made.table["start"], made.table["load"], strict=True)), dropped


def test_a_counter_that_starts_anew_inside_a_window(tmp_path):
    """It is beyond where it was when the window ends, so the ends alone do not tell."""
    total = [1, 2, 3, 4, 0, 20, 40, 60, 64, 68, 72, 76, 77, 50, 90, 99, 100]
    table = {"time": np.arange(17.0), "value": 1, "total": total}
    loads, dropped = loads_of(table, Counter("total"), tmp_path)
    assert loads == {8.0: 4.0}
    assert dropped["load not known"] == 3  # the first, and the two in which it fell


def test_a_counter_that_is_missing_at_a_look(tmp_path):
    total = [0, 4, 8, 12, 16, None, 24, 28, 32, None, 2, 6, 10, 14, 18, 22, 26]
    table = {"time": np.arange(17.0), "value": 1, "total": total}
    loads, _ = loads_of(table, Counter("total"), tmp_path)
    assert loads == {4.0: 4.0, 12.0: 4.0}


def test_looks_that_are_missing_do_not_lower_the_load(tmp_path):
    """Three arrive a second; the looks at 5 and 6 were made, but nobody kept what they told."""
    time = np.arange(0.0, 17.0)
    since = np.where(np.isin(time, [5, 6]), np.nan, 3.0)
    loads, _ = loads_of({"time": time, "value": 1, "since": since}, Arrived("since"), tmp_path)
    assert loads == dict.fromkeys([0.0, 4.0, 8.0, 12.0], 3.0)
    # Nobody looked from 5 to 13: what is told then came in the windows before.
    kept = (time < 5) | (time > 13)
    since = np.where(time == 14, 30.0, 3.0)
    table = {"time": time[kept], "value": 1, "since": since[kept]}
    loads, dropped = loads_of(table, Arrived("since"), tmp_path)
    assert loads == {0.0: 3.0, 4.0: 3.0}
    assert dropped["load not known"] == 1


def test_loads_that_are_no_numbers(tmp_path):
    rate = [2.0, np.nan, 2.0, 2.0, np.nan, np.nan, np.nan, np.nan, 0, 0, 0, 0, 3, 3, 3, 3, 3]
    table = {"time": np.arange(17.0), "value": 1, "rate": np.array(rate, dtype=float)}
    loads, dropped = loads_of(table, Rate("rate"), tmp_path)
    assert loads == {0.0: 2.0, 12.0: 3.0}
    assert (dropped["load not known"], dropped["load 0"]) == (1, 1)
    for wrong in (np.inf, -1.0):
        table["rate"][3] = wrong
        # Left out, and too few samples of the first window have a rate then.
        assert loads_of(table, Rate("rate"), tmp_path)[0] == {12.0: 3.0}


def test_outcomes_that_nobody_wrote_down(tmp_path):
    rows = "arrival,response\n0,1\n1,1\n9,1\n"
    message = bad(tmp_path, rows, lost_status=("5xx",))
    assert "--status-lost 5xx" in message
    assert "with --status" in message
    path = tmp_path / "status.csv"
    path.write_text("arrival,response,status\n0,1,200\n1,1,200\n9,1,404\n")
    made = windows_from_events(Source(str(path)), Cut(1.0, lost_status=("5xx", "429")))
    assert "no request has the status 5xx,429: is --status-lost right?" in made.notes
    made = windows_from_events(Source(str(path)), Cut(1.0, lost_status=("404",)))
    assert not any("--status-lost" in note for note in made.notes)


@pytest.mark.parametrize(
    ("done", "said"),
    [
        (pd.to_datetime([1, 2, 9], unit="s"), "'at' has whole numbers and 'done' timestamps"),
        ([1.0, 2.0, 9.0], "'at' has whole numbers and 'done' numbers with a point"),
    ],
)
def test_arrivals_and_completions_of_two_kinds(tmp_path, done, said):
    path = tmp_path / "kinds.parquet"
    pd.DataFrame({"at": [0, 1, 8], "done": done}).to_parquet(path)
    with pytest.raises(InputError, match=said):
        windows_from_events(Source(str(path), Columns("at", completion="done")), Cut(1.0))


def test_short_numbers_of_a_coarse_unit(tmp_path):
    """Milliseconds in 32 bits, to be added to nanoseconds in 64."""
    at = 1_700_000_000_000_000_000 + np.array([0, 4, 10, 21]) * 10**9
    took = np.array([5000, 3000, 10, 10], dtype=np.int32)
    pd.DataFrame({"at": at, "took": took}).to_parquet(tmp_path / "short.parquet")
    columns = Columns("at", response="took", unit=Unit.NS, response_unit=Unit.MS)
    made = windows_from_events(Source(str(tmp_path / "short.parquet"), columns), Cut(20.0))
    assert counts(made.table).tolist() == [[2, 1]]


def test_zoned_timestamps_are_what_plain_ones_are(log, expected, tmp_path):
    micros = np.rint(log["arrival"] * 1e6).astype(np.int64)
    done = micros + np.rint(log["response"].fillna(0) * 1e6).astype(np.int64)
    stamps = {}
    for name, column in (("at", micros), ("done", done)):
        times = pd.Series(pd.to_datetime(column, unit="us", utc=True)).dt.as_unit("us")
        stamps[name] = times.where(log["response"].notna() | (name == "at"))
    for zone in (None, "America/New_York"):
        table = {name: column.dt.tz_convert(zone) for name, column in stamps.items()}
        pd.DataFrame(table).to_parquet(tmp_path / "zoned.parquet")
        source = Source(str(tmp_path / "zoned.parquet"), Columns("at", completion="done"))
        made = windows_from_events(source, Cut(20.0, capacity=4))
        assert_array_equal(counts(made.table), expected)


def test_a_file_with_brackets_in_its_name(log, expected, tmp_path):
    for name in ("log[1].csv", "log[1].parquet"):
        path = tmp_path / name
        log.to_csv(path, index=False) if name.endswith("csv") else log.to_parquet(path)
        made = windows_from_events(Source(str(path)), Cut(20.0, capacity=4))
        assert_array_equal(counts(made.table), expected)


def test_tables_that_do_not_fit_into_memory(tmp_path, monkeypatch):
    monkeypatch.setattr("stationary.ingest.tally._MOST_CELLS", 5)
    message = bad(tmp_path, "arrival,response\n0,3\n1,3\n2,3\n3,1\n9,1\n")
    assert "4 windows with 3 columns is too large" in message
    assert "--window" in message
    assert "--most" in message


def test_a_large_backlog_that_was_never_nearly_full_needs_no_column_per_state(tmp_path):
    path = tmp_path / "log.csv"
    rows = [f"{k * 0.5},{1.2 if k % 10 else 2.2}" for k in range(400)] + ["200.5,"]
    path.write_text("arrival,response\n" + "\n".join(rows) + "\n")
    made = windows_from_events(Source(str(path)), Cut(50.0, capacity=2049)).table
    found = [name for name in made.columns if name.startswith("Q=")]
    assert found[-1] == "Q=4..2049"
    assert len(found) == 5
    assert made[found[:-1]].sum().sum() == 400
    assert made[found[-1]].sum() == 0  # the lost one is of the last window, which is incomplete


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("250us", 250e-6), ("10ms", 0.01), ("2", 2), ("1.5m", 90), ("1h30m", 5400)],
)
def test_spans(text, seconds):
    assert parse_span(text, "x") == pytest.approx(seconds, rel=1e-15)


@pytest.mark.parametrize("text", ["", "s", "-1s", "1 week", "1.2.3s", "1m30", "nan"])
def test_bad_spans(text):
    with pytest.raises(InputError, match="--window is a length of time such as 10ms"):
        parse_span(text, "--window")
