"""Bytes that no server wrote: the readers of logs leave lines out, and never break."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from request_logs import LINES
from stationary.errors import InputError
from stationary.ingest import Cut, Source, windows_from_events
from stationary.ingest.formats import LogLines, _lines, format_names, load_format

_PIECES = [bytes([byte]) for byte in b'"\\{}[]- \t\n\r\0\xff/']
_PIECES += [b"9" * 25, b"e99999999999", b"-1", b".", b":", b"[" * 70, b"}" * 70, "é".encode()]


def test_every_format_of_lines_is_tried():
    assert set(LINES) == {
        each for each in format_names() if isinstance(load_format(each), LogLines)
    }


@pytest.mark.parametrize("name", LINES)
def test_the_lines_that_are_changed_are_good_ones(name):
    found = _lines.read(f"{LINES[name]}\n".encode(), load_format(name))
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


@pytest.mark.parametrize("name", LINES)
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_changed_lines_cost_themselves_only(name, data):
    good = LINES[name].encode()
    text = data.draw(changed(good))
    found = read(name, good + b"\n" + text + b"\n" + good + b"\n")
    assert found.good >= 2


@pytest.mark.parametrize("name", LINES)
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
    good = 5 * f"{LINES[name]}\n".encode() if name in LINES else table(name)
    path = tmp_path / f"requests.{name}"
    path.write_bytes(data.draw(changed(good) | st.binary(max_size=200)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = windows_from_events(Source(str(path), format=name), Cut(2.0))
        except InputError:
            return
    assert len(found.table)
