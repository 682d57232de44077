"""Access logs: lines as the servers write them, and logs whose requests are known."""

import bz2
import gzip
from datetime import UTC, datetime, timedelta, timezone
from decimal import ROUND_HALF_UP, Decimal

import ibis
import numpy as np
import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st_

from request_logs import (
    ALB,
    CADDY,
    COMBINED,
    ENVOY,
    HAPROXY,
    HEAD,
    LOGGED,
    MSEC,
    TRAEFIK,
    TRAEFIK_COMMON,
)
from stationary.errors import DataWarning, InputError
from stationary.ingest import Columns, Cut, DuckDB, Source, Unit, windows_from_events
from stationary.ingest.formats import _lines, _scan, load_format
from stationary.ingest.sources import open_table

apache, envoy, nginx = "apache", "envoy", "nginx"
apache_seconds = (
    r'%h %l %u [%{%d/%b/%Y:%T}t.%{usec_frac}t %{%z}t] "%r" %>s %b "%{Referer}i" "%i" %T'
)

# The latest Ibis still calls DuckDB by a name that the latest DuckDB deprecates.
pytestmark = pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")


@pytest.fixture
def rows(tmp_path):
    """Read lines as a file; return (arrival, response, status) of each request."""

    def read(form, *lines):
        path = tmp_path / "access.log"
        path.write_bytes(b"".join(line.encode("latin-1") + b"\n" for line in lines))
        with DuckDB().open() as session:
            table = open_table(session, Source(str(path), format=form))
            table = table.select("arrival", "response", "status")
            assert dict(table.schema().items()) == {
                "arrival": ibis.dtype("int64"),
                "response": ibis.dtype("int64"),
                "status": ibis.dtype("string"),
            }
            return [tuple(row.values()) for row in table.to_pyarrow().to_pylist()]

    return read


# nginx.


@pytest.mark.parametrize(
    "tail",
    [
        f" 0.250 {MSEC}",
        f" {MSEC} 0.250",
        f' "0.250" "{MSEC}"',
        f" rt=0.250 uct=0.001 urt=0.249 msec={MSEC}",
        f' "198.51.100.2, 10.0.0.1" 0.250 0.249 {MSEC}',
        f' urt="0.003, 0.004 : 0.005" uct=0.001, 0.002 rt=0.250 {MSEC}',
        f' upstream_response_time=- "0.003, 0.004" 0.250 {MSEC}',
    ],
)
def test_nginx_logs_when_a_request_is_done(rows, tail):
    [(arrival, response, status)] = rows(nginx, COMBINED + tail)
    assert (arrival, response, status) == (LOGGED + 789_000 - 250_000, 250_000, "200")


def test_nginx_without_milliseconds(rows):
    with pytest.warns(DataWarning, match=r"1 of 1 lines have the time in whole .*add \$msec"):
        [(arrival, response, _)] = rows(nginx, f"{COMBINED} 0.250")
    assert (arrival, response) == (LOGGED - 250_000, 250_000)


def test_nginx_without_response_times(rows):
    timed = f"{COMBINED} 0.002 {MSEC}"
    with pytest.warns(DataWarning, match=r"1 of 3 lines have no response time, .*\$request_time"):
        found = rows(nginx, f"{COMBINED} {MSEC}", timed, timed)
    assert (LOGGED + 789_000, None) in [row[:2] for row in found]
    with pytest.raises(InputError, match=r"2 of 2 lines have no response time; add"):
        rows(nginx, f"{COMBINED} {MSEC}", f"{COMBINED} {MSEC}")


def test_lines_that_are_hard_to_read(rows):
    lines = [
        f'::1 - a b [10/Oct/2000:13:55:36 -0700] "GET / HTTP/2.0" 499 0 "-" "-" 0.001 {MSEC}',
        f'h - - [10/Oct/2000:13:55:36 -0700] "a \\"b\\" [c] \\x16" 400 0 "-" "\\"" 0.002 {MSEC}',
        f'1.2.3.4 - - [10/Oct/2000:13:55:36 -0700] "" 408 0 "-" "caf\xe9;|\t" 0.003 {MSEC}',
        "",
    ]
    found = rows(nginx, *lines)
    assert [row[1:] for row in found] == [(1000, "499"), (2000, "400"), (3000, "408")]


# Apache.


def test_apache_logs_when_a_request_came(rows):
    line = COMBINED.replace(":36 -", ":36.250000 -")
    assert rows(apache, f"{line} 1500") == [(LOGGED + 250_000, 1500, "200")]
    common = HEAD.replace(":36 -", ":36.5 -")
    assert rows(apache, f"{common} 1500") == [(LOGGED + 500_000, 1500, "200")]


# Envoy.


@pytest.mark.parametrize(
    ("old", "new", "response", "status"),
    [
        ("", "", 226_000, "204"),
        ("204 - 154 0 226 100", "0 DC 154 0 3 -", 3000, "0"),  # the client went away
        ("204 - 154", '503 UH no_healthy_upstream - "-" 154', 226_000, "503"),  # Istio
    ],
)
def test_envoy(rows, old, new, response, status):
    began = datetime(2016, 4, 15, 20, 17, 0, 310000, tzinfo=UTC).timestamp()
    assert rows(envoy, ENVOY.replace(old, new, 1)) == [(round(began * 1e6), response, status)]


# Lines that are something else.


def test_some_strange_lines_are_dropped_and_counted(rows):
    good = f"{COMBINED} 0.250 {MSEC}"
    impossible = good.replace("10/Oct", "31/Feb").replace(MSEC, "")
    with pytest.warns(DataWarning, match=r"2 of 5 lines are not nginx combined; the first: 'what"):
        assert len(rows(nginx, good, "what is this", good, impossible, good)) == 3


@pytest.mark.parametrize("reader", [nginx, apache, envoy])
def test_files_of_another_format(rows, reader):
    with pytest.raises(InputError, match=r"access\.log: 3 of 3 lines are not .*'x,y'; name"):
        rows(reader, "x,y", "1,2", "3,4")


def test_files_without_lines(rows):
    with pytest.raises(InputError, match="has no lines"):
        rows(nginx)


def closed_loop(count, seed):
    """Ends and lengths, in milliseconds, of requests of which each comes as the last one ends."""
    took = np.random.default_rng(seed).integers(1, 300, count)
    return 1_700_000_000_000 + np.cumsum(took), took


def nginx_line(done, took):
    stamp = datetime.fromtimestamp(done // 1000, UTC).strftime("%d/%b/%Y:%H:%M:%S %z")
    head = f'h - - [{stamp}] "GET / HTTP/1.1" 200 1 "-" "-"'
    return f"{head} {took // 1000}.{took % 1000:03d} {done // 1000}.{done % 1000:03d}\n"


def envoy_line(done, took):
    began = datetime.fromtimestamp((done - took) // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    part = (done - took) % 1000
    return f'[{began}.{part:03d}Z] "GET / HTTP/2" 200 - 0 1 {took} 1 "-" "-" "-" "-" "-"\n'


LINES = [nginx_line(1_700_000_000_000 + 100 * k, 20) for k in range(300)]
"""Thirty seconds of requests."""


@pytest.mark.parametrize(("form", "line"), [("nginx", nginx_line), ("envoy", envoy_line)])
def test_who_comes_as_the_last_one_ends_finds_nobody(tmp_path, form, line):
    """A client that waits for its answer before it asks again never meets itself."""
    path = tmp_path / "access.log"
    ends = zip(*(part.tolist() for part in closed_loop(3000, seed=2)), strict=True)
    path.write_text("".join(line(done, took) for done, took in ends))
    made = windows_from_events(Source(str(path), format=form), Cut(10.0))
    counts = made.table.filter(like="Q=")
    assert list(counts) == ["Q=0"]
    assert counts.to_numpy().sum() > 2900


def test_a_format_has_its_own_unit(tmp_path):
    path = tmp_path / "access.log"
    path.write_text(f"{COMBINED} 0.250 {MSEC}\n")
    source = Source(str(path), Columns(unit=Unit.MS), format="nginx")
    with pytest.raises(InputError, match=r"format 'nginx' has units of its own; leave out"):
        windows_from_events(source, Cut(1.0))


# Other servers, on lines written from their documentation.

DENIED = (
    "10.0.1.2:33318 [06/Feb/2009:12:14:14.655] http-in static/<NOSRV> 0/-1/-1/-1/0 503 212 - - "
    'SQ-- 1/1/1/0/0 0/3 "GET /full HTTP/1.1"'
)


def us(*moment):
    return round(datetime(*moment, tzinfo=UTC).timestamp() * 1e6)


@pytest.mark.parametrize(
    ("name", "line", "expected"),
    [
        ("haproxy", HAPROXY, (us(2009, 2, 6, 12, 14, 14, 665000), 99_000, "200")),
        (
            "haproxy",
            HAPROXY.partition("]: ")[2],
            (us(2009, 2, 6, 12, 14, 14, 665000), 99_000, "200"),
        ),
        ("caddy", CADDY, (1646861401524102 - 930, 930, "200")),
        (
            "caddy",
            CADDY.replace("1646861401.524102", '"2022-03-09T22:30:01.524+01:00"'),
            (us(2022, 3, 9, 21, 30, 1, 524000) - 930, 930, "200"),
        ),
        *(
            (
                "caddy",
                CADDY.replace("1646861401.524102", ts).replace("0.000929675", "0.002"),
                (us(2022, 3, 9, 21, 30, 1, 522000), 2000, "200"),
            )
            for ts in ("1646861401524", "1646861401524000000", '"2022/03/09 21:30:01.524"')
        ),
        ("traefik", TRAEFIK, (us(2023, 7, 12, 14, 5, 2, 123457), 1235, "200")),
        ("alb", ALB, (us(2018, 7, 2, 22, 22, 48, 364000), 11_822_641, "200")),
    ],
)
def test_formats_are_found_by_their_lines(rows, tmp_path, name, line, expected):
    assert rows(name, line) == [expected]
    assert Source(str(tmp_path / "access.log")).found_format[0] == name


def test_traefiks_default_is_not_taken_for_apaches(rows, tmp_path):
    """What it writes after the agent is the number of the request, not its time."""
    with pytest.warns(DataWarning, match="whole seconds"):
        assert rows(None, TRAEFIK_COMMON) == [(us(2009, 2, 6, 12, 14, 14), 12_000, "200")]
    assert Source(str(tmp_path / "access.log")).found_format[0] == "traefik-common"


def test_a_request_that_haproxy_denied_is_lost(rows):
    answered, denied = rows("haproxy", HAPROXY, DENIED)
    assert answered[1] == 99_000
    assert denied == (us(2009, 2, 6, 12, 14, 14, 655000), None, "503")


@pytest.mark.parametrize("status", ["-", "2" * 20])
def test_a_line_whose_status_is_no_number_is_left_out(rows, status):
    strange = HAPROXY.replace(" 200 2750", f" {status} 2750")
    assert strange != HAPROXY
    with pytest.warns(DataWarning, match="1 of 2 lines are not HAProxy"):
        assert len(rows("haproxy", HAPROXY, strange)) == 1


@pytest.mark.parametrize(
    ("form", "line", "arrival", "response"),
    [
        (
            '$remote_addr "$request" $status $request_time [$time_local] $msec "$http_x"',
            '::1 "GET /a?b HTTP/1.1" 200 0.250 [10/Oct/2000:13:55:36 -0700] 971211336.250 "x y"',
            *(LOGGED, 250_000),
        ),
        (
            "$time_iso8601 $status $request_time $uri",
            "2000-10-10T13:55:36.25-07:00 200 0.250 /a",
            *(LOGGED, 250_000),
        ),
        *(
            (
                "$upstream_response_time $request_time $status $msec",
                f"{up} 0.250 200 971211336.250",
                *(LOGGED, 250_000),
            )
            for up in ("0.003", "0.003, 0.004", "-", "0.003, 0.004 : -, 0.005 : 0.006")
        ),
        ("%h %{msec}t %>s %D %^FU", "h 971211336250 200 7 22", LOGGED + 250_000, 7),
        ("%h %{usec}t %>s %D", "h 971211336250000 200 7", LOGGED + 250_000, 7),
        (apache_seconds, COMBINED.replace(":36 -", ":36.25 -") + " 3", LOGGED + 250_000, 3_000_000),
        (
            r"%h %t \"%r\" %>s %{ms}T",
            'h [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.1" 200 7',
            *(LOGGED, 7000),
        ),
        ("%v %t %>s %U %D", "example.org [10/Oct/2000:13:55:36 -0700] 200 /a 7", LOGGED, 7),
    ],
)
@pytest.mark.filterwarnings("ignore:.*whole seconds")
def test_format_strings_of_nginx_and_apache(rows, form, line, arrival, response):
    assert rows(form, line) == [(arrival, response, "200")]


def test_format_strings_need_a_time_a_response_time_and_a_status(rows):
    with pytest.raises(InputError, match=r"must have a time, .*: \$msec, \$request_time, \$status"):
        rows("$remote_addr $status", "x 200")


def test_rotated_logs_copies_conditions_and_strange_lines(tmp_path):
    """The oldest first; a copy counts once; what was left out is said."""
    text = LINES.copy()
    text[::3] = [line.replace("GET / ", "GET /api/users?id=7 ") for line in text[::3]]
    (tmp_path / "access.log").write_text("".join(text[200:]) + "half a li")
    (tmp_path / "access.log.1").write_text("".join(text[100:200]))
    (tmp_path / "access.log.10.gz").write_bytes(gzip.compress("".join(text[:100]).encode()))
    (tmp_path / "access.log.2").write_text("".join(text[100:200]))
    source = Source(str(tmp_path / "access.log*"))
    names = [file.rpartition("/")[2] for file in source.files()]
    assert names == ["access.log.10.gz", "access.log.2", "access.log.1", "access.log"]
    with pytest.warns(DataWarning, match="1 of 301 lines are not nginx combined; the first: 'half"):
        made = windows_from_events(source, Cut(5.0))
    assert made.rows == 300
    assert any("access.log.1, a copy of" in note for note in made.notes)
    assert any(
        note.startswith("read as nginx: its times are those at which") for note in made.notes
    )
    for condition, count in (("path ~ ^/api", 100), ("path !~ ^/api", 200), ("status < 300", 300)):
        with pytest.warns(DataWarning, match="1 of 301"):
            some = windows_from_events(
                Source(str(tmp_path / "access.log*"), where=(condition,)), Cut(5.0)
            )
        assert some.rows == count
    for condition, word in (("path ~ (", "regular expression"), ("path", "write a column")):
        with pytest.warns(DataWarning, match="1 of"), pytest.raises(InputError, match=word):
            windows_from_events(Source(str(tmp_path / "access.log"), where=(condition,)), Cut(5.0))


def test_a_hundred_thousand_bad_lines_are_one_sentence(tmp_path):
    (tmp_path / "access.log").write_text("".join(LINES) + "what is this?\n" * 100_000)
    with pytest.warns(DataWarning, match="100000 of 100300 lines are not nginx") as caught:
        made = windows_from_events(Source(str(tmp_path / "access.log")), Cut(5.0))
    assert made.rows == 300
    assert len(caught) == 1


def test_files_that_differ_only_at_the_end_are_both_read(tmp_path):
    """They have one size and the same first 64 KiB."""
    text = [nginx_line(1_700_000_000_000 + 100 * k, 20) for k in range(1000)]
    last = nginx_line(1_700_000_000_000 + 100 * 1000, 20)
    (tmp_path / "access.log.1").write_text("".join(text))
    (tmp_path / "access.log").write_text("".join([*text[:-1], last]))
    assert len("".join(text[:-1])) > 2**16
    made = windows_from_events(Source(str(tmp_path / "access.log*")), Cut(5.0))
    assert made.rows == 2000
    assert not any("a copy of" in note for note in made.notes)


def test_files_of_another_format_are_refused_by_name_and_empty_ones_left_out(tmp_path):
    (tmp_path / "a.log").write_text("")
    (tmp_path / "b.log").write_text("".join(LINES))
    made = windows_from_events(Source(str(tmp_path / "*.log")), Cut(5.0))
    assert made.rows == 300
    assert any(note.endswith("a.log: it is empty") for note in made.notes)
    (tmp_path / "c.log").write_text(f"{ENVOY}\n" * 5)
    with pytest.raises(InputError, match=r"c\.log: this file is envoy, and .*b\.log is nginx"):
        windows_from_events(Source(str(tmp_path / "*.log")), Cut(5.0))


def test_a_last_line_that_is_half_written_is_left_out_and_a_whole_one_is_read(tmp_path):
    text, path = "".join(LINES), tmp_path / "access.log"
    path.write_text(text.removesuffix("\n"))
    assert windows_from_events(Source(str(path)), Cut(5.0)).rows == 300
    for cut in (5, 15, 30, 60):  # within the time, the response time, the agent, the size
        path.write_text(text[:-cut])
        with pytest.warns(DataWarning, match="1 of 300 lines are not nginx combined"):
            assert windows_from_events(Source(str(path)), Cut(5.0)).rows == 299


def zstd(text):
    packed = pyarrow.BufferOutputStream()
    with pyarrow.CompressedOutputStream(packed, "zstd") as stream:
        stream.write(text)
    return packed.getvalue()


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, zstd], ids=["gz", "bz2", "zst"])
def test_packed_logs(tmp_path, pack, request):
    path = tmp_path / f"access.log.{request.node.callspec.id}"
    path.write_bytes(pack("".join(LINES).encode()))
    assert windows_from_events(Source(str(path)), Cut(5.0)).rows == 300


def test_lines_that_cross_the_blocks_of_a_file_are_read_once(tmp_path, monkeypatch):
    (tmp_path / "access.log").write_text("".join(LINES))
    monkeypatch.setattr("stationary.ingest.formats._lines._BLOCK", 1000)
    made = windows_from_events(Source(str(tmp_path / "access.log")), Cut(5.0))
    assert made.rows == 300
    assert made.table["sent"].tolist() == [50] * 5


def test_a_look_at_a_file_without_lines_reads_its_head_only(tmp_path, monkeypatch):
    path = tmp_path / "access.log"
    path.write_bytes(b"x" * 2_000_000)
    monkeypatch.setattr(_lines, "_LONGEST", 1_000_000)
    monkeypatch.setattr(_lines, "_BLOCK", 100_000)
    with pytest.raises(InputError, match="this is not a log of a known format"):
        windows_from_events(Source(str(path)), Cut(5.0))
    with pytest.raises(InputError, match=r"access\.log: a line is longer than .* MiB; is this"):
        windows_from_events(Source(str(path), format="nginx"), Cut(5.0))


def test_a_byte_that_is_no_text_leaves_other_texts_as_they_are():
    lines = [f"{COMBINED} 0.250 {MSEC}\n".replace("/a?", path).encode() for path in ("/é?", "/b?")]
    found = _lines.read(lines[0] + lines[1].replace(b"/b", b"/\xff"), load_format("nginx"))
    assert found.columns["path"].to_pylist() == ["/é", "/\N{REPLACEMENT CHARACTER}"]


@pytest.mark.parametrize(
    ("line", "good"),
    [
        (CADDY, True),
        (CADDY[:-1], False),  # half written
        (CADDY.replace('"status":200', '"status":null'), False),
        (CADDY.replace('"uri":"/a?b=1"', r'"uri":"/\"status\":9,{?"'), True),
        (CADDY.replace('"duration":0.000929675', '"duration":9.29675e-4'), True),
        (CADDY.replace('{"level"', '{"other":{"status":9,"x":[1,{"ts":5}]},"level"'), True),
        (CADDY[:-1] + ',"errors":[{"status":500,"duration":9},[{"ts":1}]]}', True),
        (CADDY[:-1] + " }", True),
        (CADDY.replace('":', '"\t: ').replace(',"', '\t,\t"').replace("}", "\t}"), True),
        (CADDY.replace('"duration":0.000929675', '"duration"\t:\t9.29675E-4\t'), True),
        (CADDY.replace('"duration":0.000929675', f'"duration":0.000929675e{"0" * 30}'), True),
        ("}{" + CADDY, False),
        ("}" * 50_000 + "{" * 5 + '"a":1', False),
        ("[" * 50_000 + '"a":1', False),
    ],
)
def test_members_of_json_are_found_at_their_own_place(line, good):
    found = _lines.read(f"{line}\n".encode(), load_format("caddy"))
    assert (found.good, found.timed) == (int(good), int(good))
    if good:
        assert found.columns["response"].to_pylist() == [930]
        assert found.columns["status"].to_pylist() == ["200"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0e99999999999", 0),
        ("1e-99999999999", 0),
        ("1e99999999999999999999", _scan.NONE),
        ("2.5E-1", 250_000),
        ("1" + "0" * 40 + "e-40", 1_000_000),
    ],
)
def test_large_exponents_are_read_at_once(text, value):
    found = np.frombuffer(text.encode(), dtype=np.uint8)
    assert _scan.number(found, 0, len(found), 6) == (value, len(found))


@settings(max_examples=200, deadline=None)
@given(st_.decimals(0, 10**9, places=6), st_.integers(-3, 6))
def test_numbers_are_rounded_as_decimals_are(value, shift):
    text = np.frombuffer(f"{value} ".encode(), dtype=np.uint8)
    exact = (value.scaleb(shift)).quantize(Decimal(1), ROUND_HALF_UP)
    assert _scan.number(text, 0, len(text) - 1, shift) == (int(exact), len(text) - 1)


@settings(max_examples=200, deadline=None)
@given(
    st_.datetimes(datetime(1970, 1, 2), datetime(2199, 1, 1)),
    st_.integers(-14 * 4, 14 * 4),
    st_.sampled_from(["%d/%b/%Y:%H:%M:%S.%f %z", "%Y-%m-%dT%H:%M:%S.%f%z"]),
)
def test_times_are_those_of_the_calendar(moment, quarters, form):
    moment = moment.replace(tzinfo=timezone(timedelta(minutes=15 * quarters)))
    text = np.frombuffer(moment.strftime(form).encode(), dtype=np.uint8)
    passed = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    assert _scan.time(text, 0, len(text)) == (passed, True, len(text))


@pytest.mark.parametrize("field", ["took", "took:msec", "duration:ms"])
def test_a_layout_with_a_length_of_time_in_no_unit_is_refused(field):
    with pytest.raises(InputError, match=r"a layout has \{.*\{took:ms\} or \{received:ms\}"):
        _lines.compiled((f"{{clock}} {{{field}}} {{status}}",))
