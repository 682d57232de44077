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
    FORMATS,
    Arrived,
    Columns,
    Counter,
    Cut,
    Rate,
    Source,
    Unit,
    windows_from_events,
    windows_from_gauge,
)
from stationary.ingest.spans import parse_span


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
    if name.endswith((".csv", ".csv.gz")):
        log.to_csv(path, index=False)
    elif name.endswith(".tsv"):
        log.to_csv(path, index=False, sep="\t")
    else:
        opened = gzip.open if name.endswith(".gz") else open
        with opened(path, "wt") as file:
            for row in log.to_dict("records"):
                clean = {key: None if value != value else value for key, value in row.items()}
                file.write(json.dumps(clean) + "\n")


@pytest.mark.parametrize("name", ["log.csv", "log.csv.gz", "log.tsv", "log.jsonl", "log.jsonl.gz"])
def test_formats(log, expected, name, tmp_path):
    write(log, tmp_path / name)
    made = windows_from_events(Source(str(tmp_path / name)), Cut(20.0, capacity=4))
    assert_array_equal(counts(made.table), expected)


def test_a_format_that_somebody_adds(log, expected, tmp_path, monkeypatch):
    """One more entry of the table of formats is all it takes."""
    path = tmp_path / "access.log"
    log.to_csv(path, index=False, header=False, sep="|")

    def read(backend, name):
        return backend.read_csv(name, delim="|", header=False, names=["arrival", "response"])

    monkeypatch.setitem(FORMATS, "bars", read)
    made = windows_from_events(Source(str(path), format="bars"), Cut(20.0, capacity=4))
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


def test_bad_rows_are_counted(tmp_path):
    rows = "arrival,response\n0,1\n1,-2\n2,-1\n3,1\n"
    assert "column 'response': 2 of 4 rows are negative" in bad(tmp_path, rows)
    rows = "arrival,response\n0,1\n,1\n3,1\n"
    assert "column 'arrival': 1 of 3 rows are missing" in bad(tmp_path, rows)
    rows = "arrival,response\n0,1\nsoon,1\n3,1\n"
    message = bad(tmp_path, rows)
    assert "column 'arrival': 1 of 3 rows are no number and no timestamp, such as 'soon'" in message
    rows = "arrival,response\n0,1\n1,fast\n3,1\n"
    assert "column 'response': 1 of 3 rows are no number, such as 'fast'" in bad(tmp_path, rows)
    rows = "arrival,done\n5,6\n6,5\n9,9\n"
    message = bad(tmp_path, rows, Columns(completion="done"))
    assert "column 'done': 1 of 3 rows are negative" in message


def test_a_bad_row_far_down(tmp_path):
    """Beyond what is looked at to tell the types of columns."""
    rows = "".join(f"{k},1\n" for k in range(60_000))
    message = bad(tmp_path, f"arrival,response\n{rows}soon,1\n")
    assert "soon" in message


def test_missing_columns_are_named(tmp_path):
    rows = "arrivals,took\n0,1\n9,1\n"
    message = bad(tmp_path, rows)
    assert "no column 'arrival' (did you mean 'arrivals'?); the columns are: arrivals, took" in (
        message
    )
    message = bad(tmp_path, rows, Columns("arrivals"))
    assert "--response, or that of completions with --completion" in message
    assert "no column 'code'" in bad(tmp_path, rows, Columns("arrivals", "took", status="code"))


def test_the_wrong_unit_is_suspected(tmp_path):
    rows = "arrival,response\n0,1\n9000,1\n"
    assert "is --unit right" in bad(tmp_path, rows, Columns(unit=Unit.US))
    rows = "arrival,response\n0,1\n1700000000000,1\n"
    assert "is --unit right" in bad(tmp_path, rows)
    assert "after a warm-up of 8 s" in bad(tmp_path, "arrival,response\n0,1\n8.5,1\n", warm_up=8.0)


def test_other_bad_sources(tmp_path):
    with pytest.raises(InputError, match="there is no such file"):
        windows_from_events(Source(str(tmp_path / "*.parquet")), Cut(1.0))
    (tmp_path / "log.txt").write_text("x")
    with pytest.raises(InputError, match="name its --format, one of parquet, csv, jsonl"):
        windows_from_events(Source(str(tmp_path / "log.txt")), Cut(1.0))
    with pytest.raises(InputError, match="there is no format 'x'"):
        windows_from_events(Source(str(tmp_path / "log.txt"), format="x"), Cut(1.0))
    (tmp_path / "log.parquet").write_text("no parquet")
    with pytest.raises(InputError, match=r"log\.parquet failed"):
        windows_from_events(Source(str(tmp_path / "log.parquet")), Cut(1.0))
    (tmp_path / "none.csv").write_text("arrival,response\n")
    with pytest.raises(InputError, match="no rows"):
        windows_from_events(Source(str(tmp_path / "none.csv")), Cut(1.0))
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
        (Arrived("since"), [5.0, 8.0, 2.0, 2.0], [0, 1, 2, 3]),
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
    with pytest.raises(InputError, match="column 'value': 9 of 9 rows are no whole numbers"):
        windows_from_gauge(source, "value", Rate("rate"), cut)
    with pytest.raises(InputError, match=r"no column 'rat' .did you mean 'rate'"):
        windows_from_gauge(source, "value", Rate("rat"), cut)
    with pytest.raises(InputError, match="sampling must be 'time'"):
        windows_from_gauge(source, "value", Rate("rate"), Cut(2.0))
    with pytest.raises(InputError, match="looked at already"):
        windows_from_gauge(source, "value", Rate("rate"), replace(cut, propagation=1.0))


@pytest.mark.parametrize(
    ("text", "seconds"), [("250us", 250e-6), ("10ms", 0.01), ("2", 2), ("1.5m", 90), ("1h", 3600)]
)
def test_spans(text, seconds):
    assert parse_span(text, "x") == pytest.approx(seconds, rel=1e-15)


@pytest.mark.parametrize("text", ["", "s", "-1s", "1 week", "1.2.3s", "nan"])
def test_bad_spans(text):
    with pytest.raises(InputError, match="--window is a length of time such as 10ms"):
        parse_span(text, "--window")
