"""Access logs: lines as the servers write them, and logs whose requests are known."""

import gzip
from datetime import UTC, datetime, timedelta, timezone

import ibis
import numpy as np
import pytest

import stationary as st
from stationary.errors import DataWarning, InputError
from stationary.ingest import Columns, Cut, Source, Unit, load_format, windows_from_events

apache, apache_seconds, envoy, nginx = (
    load_format(name).read for name in ("apache", "apache-seconds", "envoy", "nginx")
)

# The latest Ibis still calls DuckDB by a name that the latest DuckDB deprecates.
pytestmark = pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")

HEAD = '203.0.113.7 - - [10/Oct/2000:13:55:36 -0700] "GET /a?b=1,2 HTTP/1.1" 200 2326'
COMBINED = f'{HEAD} "http://example.org/" "Mozilla/5.0 (X11; Linux x86_64)"'
LOGGED = 971_211_336_000_000  # that moment, in microseconds since 1970
MSEC = "971211336.789"
ENVOY = (
    '[2016-04-15T20:17:00.310Z] "POST /api/v1/locations HTTP/2" 204 - 154 0 226 100 '
    '"10.0.35.28" "nsq2http" "cc21d9b0-cf5c-432b-8c7e-98aeb7988cd2" "locations" '
    '"tcp://10.0.2.1:80"'
)


@pytest.fixture(scope="module")
def connection():
    return ibis.duckdb.connect()


@pytest.fixture
def rows(connection, tmp_path):
    """Read lines as a file; return (arrival, response, status) of each request."""

    def read(reader, *lines):
        path = tmp_path / "access.log"
        path.write_bytes(b"".join(line.encode("latin-1") + b"\n" for line in lines))
        table = reader(connection, path)
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
    with pytest.warns(DataWarning, match=r"1 of 3 lines have no response time; add \$request_time"):
        found = rows(nginx, f"{COMBINED} {MSEC}", timed, timed)
    assert (LOGGED + 789_000, None) in [row[:2] for row in found]
    with pytest.raises(InputError, match=r"2 of 3 lines have no response time; add"):
        rows(nginx, f"{COMBINED} {MSEC}", f"{COMBINED} {MSEC}", timed)


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
    seconds = rows(apache_seconds, f"{line} 3")
    assert seconds == [(LOGGED + 250_000, 3_000_000, "200")]
    common = HEAD.replace(":36 -", ":36.5 -")
    assert rows(apache, f"{common} 1500") == [(LOGGED + 500_000, 1500, "200")]


def test_apache_as_it_is_out_of_the_box(rows):
    with (
        pytest.warns(DataWarning, match="whole seconds"),
        pytest.raises(InputError, match=r"1 of 1 lines have no response time.*add %D"),
    ):
        rows(apache, COMBINED)


@pytest.mark.parametrize("hours", [-9.5, -7, 0, 1, 5.75])
def test_zones(rows, hours):
    moment = datetime(2024, 2, 29, 23, 59, 59, 125000, timezone(timedelta(hours=hours)))
    stamp = moment.strftime("%d/%b/%Y:%H:%M:%S.%f %z")
    [(arrival, _, _)] = rows(apache, f'h - - [{stamp}] "GET /" 200 - "-" "-" 10')
    assert arrival == round(moment.timestamp() * 1e6)


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


def test_files_that_are_not_there(connection, tmp_path):
    with pytest.raises(InputError, match=r"nowhere\.log: cannot be read"):
        nginx(connection, tmp_path / "nowhere.log")


# A log of a system that is known.


@pytest.mark.slow
def test_the_queue_of_a_generated_log(connection, tmp_path):
    """One server, first come first served: from its logs, packed, back to its rate."""
    random = np.random.default_rng(3)
    count, begin = 4000, 1_700_000_000.0
    arrival = begin + np.cumsum(random.exponential(1 / 50, count))
    free, response = 0.0, np.empty(count)
    for k, takes in enumerate(random.exponential(1 / 80, count)):
        free = max(free, arrival[k]) + takes
        response[k] = free - arrival[k]
    order = np.argsort(arrival + response)  # as nginx writes them
    half = count // 2
    for name, part in (("access.log.1.gz", order[:half]), ("access.log.2.gz", order[half:])):
        with gzip.open(tmp_path / name, "wt") as file:
            for k in part:
                done = arrival[k] + response[k]
                stamp = datetime.fromtimestamp(done, UTC).strftime("%d/%b/%Y:%H:%M:%S %z")
                head = f'h - - [{stamp}] "GET / HTTP/1.1" 200 1 "-" "-"'
                file.write(f"{head} {response[k]:.3f} {done:.3f}\n")
    table = nginx(connection, tmp_path / "access.log.*.gz").to_pyarrow()
    came = table["arrival"].to_numpy() / 1e6
    took = table["response"].to_numpy()[np.argsort(came, kind="stable")] / 1e6
    # Milliseconds are rounded twice, and neighbours may change places.
    assert np.abs(np.sort(came) - arrival).max() <= 1.001e-3
    assert np.sort(took) == pytest.approx(np.sort(response), abs=0.501e-3)
    log = st.ingest.RequestLog(came, table["response"].to_numpy() / 1e6)
    windows = st.ingest.windows_from_logs(log.cut(10.0), duration=10.0, capacity=40).counted
    fit = st.fit(st.models.MMmK(servers=1, capacity=40), windows.observing(range(4)))
    assert fit.estimates["service_rate"] == pytest.approx(80.0, rel=0.1)


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
    with pytest.raises(InputError, match=r"format 'nginx' has units of its own; leave out --unit"):
        windows_from_events(source, Cut(1.0))
