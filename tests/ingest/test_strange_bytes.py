"""Bytes that no server wrote: the readers of logs leave lines out, and never break."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from stationary.errors import InputError
from stationary.ingest import Cut, Source, windows_from_events
from stationary.ingest.formats import LogLines, _lines, format_names, load_format

_STAMP = "10/Oct/2000:13:55:36.250 -0700"
_LINES = {
    "alb": "http 2018-07-02T22:23:00.186641Z app/b 1.2.3.4:5 10.0.0.1:80 0.0 0.001 0.0 200 200 34 "
    '366 "GET http://e.com:80/a?b HTTP/1.1" "curl" - - arn "Root" "-" "-" 0 '
    '2018-07-02T22:22:48.364000Z "forward" "-" "-" "10.0.0.1:80" "200" "-" "-"',
    "apache": f'h - - [{_STAMP}] "GET /a?b HTTP/1.1" 200 2326 "-" "Mozilla" 1500',
    "caddy": '{"ts":1646861401.524102,"request":{"method":"GET","host":"h","uri":"/a?b=1"},'
    '"duration":9.29675e-4,"errors":[{"status":1}],"status":200}',
    "envoy": '[2016-04-15T20:17:00.310Z] "POST /a HTTP/2" 204 - 154 0 226 100 "-" "a" "b" "c" "d"',
    "haproxy": "1.2.3.4:5 [06/Feb/2009:12:14:14.655] in static/srv1 10/0/30/69/109 200 2750 - - "
    '---- 1/1/1/1/0 0/0 {a} {} "GET /i HTTP/1.1"',
    "nginx": f'h - - [{_STAMP}] "GET /a?b=1 HTTP/1.1" 200 23 "-" "Mozilla" 0.250 971211336.789',
    "traefik": '{"DownstreamStatus":200,"Duration":1234567,"RequestMethod":"GET","RequestHost":"h",'
    '"RequestPath":"/a","ServiceName":"s","StartUTC":"2023-07-12T14:05:02.123456789Z"}',
    "traefik-common": '1.2.3.4 - - [10/Oct/2000:13:55:36 +0000] "GET /a HTTP/2.0" 200 5 "-" "-" 7 '
    '"r@docker" "http://10.0.0.9:80" 12ms',
}
_PIECES = [bytes([byte]) for byte in b'"\\{}[]- \t\n\r\0\xff/']
_PIECES += [b"9" * 25, b"e99999999999", b"-1", b".", b":", b"[" * 70, b"}" * 70, "é".encode()]


def test_every_format_of_lines_is_tried():
    assert set(_LINES) == {
        each for each in format_names() if isinstance(load_format(each), LogLines)
    }


@pytest.mark.parametrize("name", _LINES)
def test_the_lines_that_are_changed_are_good_ones(name):
    found = _lines.read(f"{_LINES[name]}\n".encode(), load_format(name))
    assert (found.lines, found.good, found.timed) == (1, 1, 1)


def read(name, text):
    """Read bytes by a format; what comes out must be requests, as many as are said."""
    found = _lines.read(text, load_format(name))
    assert found.good <= found.lines <= text.count(b"\n") + 1
    assert {len(column) for column in found.columns.values()} == {found.good}
    for column in found.columns.values():
        column.validate(full=True)
    response = found.columns["response"].drop_null().to_numpy(zero_copy_only=False)
    assert (response >= 0).all()
    return found


@st.composite
def changed(draw, line):
    """A good line, some words or pieces of which are removed, doubled or replaced."""
    text = line
    for _ in range(draw(st.integers(1, 4))):
        words = [word.span() for word in re.finditer(rb"[\w.]+", text)]
        if words and draw(st.booleans()):
            begin, end = draw(st.sampled_from(words))
        else:
            begin = draw(st.integers(0, len(text)))
            end = draw(st.integers(begin, min(begin + 12, len(text))))
        piece = draw(st.sampled_from([*_PIECES, b"", text[begin:end] * 2]) | st.binary(max_size=4))
        text = text[:begin] + piece + text[end:]
    return text


@pytest.mark.parametrize("name", _LINES)
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_changed_lines_cost_themselves_only(name, data):
    good = _LINES[name].encode()
    text = data.draw(changed(good))
    found = read(name, good + b"\n" + text + b"\n" + good + b"\n")
    assert found.good >= 2


@pytest.mark.parametrize("name", _LINES)
@settings(max_examples=100, deadline=None)
@given(text=st.binary(max_size=200) | st.lists(st.sampled_from(_PIECES)).map(b"".join))
@example(text=b"")
@example(text=b"}" * 1000 + b"{" * 5 + b'"a":1')
def test_any_bytes_are_read(name, text):
    read(name, text)


def table(name):
    """A file of good rows, as bytes."""
    rows = pd.DataFrame({"arrival": np.arange(30) * 0.5, "response": 0.1, "status": 200})
    if name == "parquet":
        return rows.to_parquet(index=False)
    if name == "jsonl":
        return rows.to_json(orient="records", lines=True).encode()
    return rows.to_csv(index=False, sep="\t" if name == "tsv" else ",").encode()


@pytest.mark.parametrize("name", format_names())
@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_a_changed_file_is_read_or_refused(name, data, tmp_path):
    good = 5 * f"{_LINES[name]}\n".encode() if name in _LINES else table(name)
    path = tmp_path / f"requests.{name}"
    path.write_bytes(data.draw(changed(good) | st.binary(max_size=200)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = windows_from_events(Source(str(path), format=name), Cut(2.0))
        except InputError:
            return
    assert len(found.table)
