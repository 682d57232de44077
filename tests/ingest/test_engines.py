"""The same query gives the same windows on DuckDB, Spark and PostgreSQL: real ones."""

import getpass
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pandas.testing import assert_frame_equal

from programs import absent
from request_logs import queue
from stationary.data import Sampling
from stationary.errors import InputError, ProgramError
from stationary.ingest import (
    Columns,
    Counter,
    Cut,
    DuckDB,
    Source,
    Spark,
    Unit,
    windows_from_events,
    windows_from_gauge,
)
from stationary.ingest.sources import open_table

CUTS = {
    "arrivals": Cut(20.0, capacity=5, lost_status=("5xx",), warm_up=40.0),
    "clock": Cut(20.0, capacity=5, sampling=Sampling.TIME, every=0.1, align=True),
    "shared": Cut(
        20.0,
        capacity=5,
        most=2,
        steady_only=True,
        lost_status=("5xx",),
        warm_up=40.0,
    ),
}
LOOKS = Cut(20.0, sampling=Sampling.TIME, capacity=5)


@pytest.fixture(scope="module")
def tables():
    """Requests with statuses and timestamps, and looks at what they make; in no order."""
    arrival, response = queue(rate=0.9, seconds=1500.0, capacity=5, seed=3)
    micros = 1_600_000_000_000_000 + np.rint(arrival * 1e6).astype(np.int64)
    rng = np.random.default_rng(7)
    requests = pd.DataFrame(
        {
            "at": pd.Series(pd.to_datetime(micros, unit="us")).astype("datetime64[us]"),
            "ms": np.where(np.isnan(response), np.nan, np.rint(1e3 * response)),
            "status": rng.choice(["200", "404", "503"], len(arrival), p=[0.8, 0.1, 0.1]),
        }
    )
    times = np.arange(0.0, 1500.0, 0.5)
    there = (arrival <= times[:, None]) & (arrival + response > times[:, None])
    looks = pd.DataFrame(
        {
            "time": times,
            "in_flight": there.sum(1),
            "total": (arrival <= times[:, None]).sum(1),
        }
    )
    return {
        "requests": requests.sample(frac=1, random_state=1),
        "looks": looks.sample(frac=1, random_state=2),
    }


@pytest.fixture(scope="module")
def files(tables, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    for name, table in tables.items():
        half = len(table) // 2
        for k, part in enumerate((table[:half], table[half:])):
            part.to_parquet(folder / f"{name}-{k}.parquet", index=False, coerce_timestamps="us")
    return folder


def made(source, looks, engine, kinds=tuple(CUTS)):
    """Every kind of window of a source."""
    found = {name: windows_from_events(source, CUTS[name], engine) for name in kinds}
    found["gauge"] = windows_from_gauge(looks, "in_flight", Counter("total"), LOOKS, engine)
    return found


COLUMNS = Columns("at", response="ms", response_unit=Unit.MS)


@pytest.fixture(scope="module")
def expected(files):
    return made(*sources(files), DuckDB())


def sources(files):
    return (
        Source(str(files / "requests-*.parquet"), COLUMNS),
        Source(str(files / "looks-*.parquet"), Columns("time")),
    )


def assert_same(found, expected):
    for name, one in expected.items():
        counted = [column for column in one.table if not column.endswith((".sum", ".sq"))]
        assert_frame_equal(found[name].table, one.table, check_dtype=False, rtol=1e-9, atol=1e-12)
        assert_frame_equal(
            found[name].table[counted], one.table[counted], check_dtype=False, check_exact=True
        )
        assert dict(found[name].facts) == pytest.approx(dict(one.facts), rel=1e-3)
        assert found[name].dropped == one.dropped
        assert found[name].notes == one.notes
        assert len(one.table) > 3


def test_duckdb_in_little_memory(files, expected):
    assert_same(made(*sources(files), DuckDB("100MB")), expected)


def test_what_a_gauge_shows_is_what_the_clock_sees(files, tables, expected):
    """Looks were written down by brute force; the last window of a counter has a load, too."""
    gauge = expected["gauge"].table
    looks = tables["looks"].sort_values("time")
    window = (looks["time"] // 20).astype(int)
    byhand = pd.crosstab(window, looks["in_flight"]).to_numpy()[1:-1]  # the first has no load
    np.testing.assert_array_equal(gauge.filter(like="Q=").to_numpy(), byhand)
    last = looks.groupby(window)["total"].last().diff() / 20
    np.testing.assert_allclose(gauge["load"], last.to_numpy()[1:-1], rtol=1e-12)


@pytest.fixture(scope="module")
def java():
    """What Spark needs."""
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        absent("Spark needs Java, and there is none")
    try:
        import pyspark  # noqa: F401
    except ImportError:
        absent("there is no pyspark")


@pytest.fixture(scope="module")
def spark(java):
    """A session of Spark on this machine, which the engine finds running."""
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.sql.codegen.wholeStage", "false")  # compiling takes longer than running
        .config("spark.sql.adaptive.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    yield session
    session.stop()


@pytest.mark.slow
def test_spark(spark, files, expected):
    # Spark takes its time to plan, so the plainest of the cuts is left out.
    kinds = ("clock", "shared")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    found = made(*sources(files), Spark("local[2]"), kinds)
    assert_same(found, {name: expected[name] for name in (*kinds, "gauge")})
    assert spark.sql("SELECT 1").count() == 1  # a session that was there stays, as it was
    assert spark.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"


@pytest.mark.slow
def test_what_spark_does_not_do(spark, tmp_path):
    path = tmp_path / "access.log"
    path.write_text("x")
    with pytest.raises(InputError, match="access logs are read by DuckDB"):
        windows_from_events(Source(str(path), format="nginx"), Cut(1.0), Spark())
    for engine, said in (
        (Spark("local[7]"), r"runs at local\[2\] already, .* cannot be changed to .*'local\[7\]'"),
        (Spark(memory="1GB"), "memory='1GB'"),
    ):
        with pytest.raises(InputError, match=said), engine.open():
            pass


@pytest.mark.slow
def test_spark_reads_text_with_tabs(spark, tmp_path):
    path = tmp_path / "log[1].tsv"
    path.write_text("arrival\tresponse\n0\t1.5\n1\t0.5\n9\t1\n")
    with Spark().open() as session:
        table = session.fetch(open_table(session, Source(str(path))))
    assert table.to_numpy().tolist() == [[0.0, 1.5], [1.0, 0.5], [9.0, 1.0]]
    assert list(table) == ["arrival", "response"]


@pytest.mark.slow
def test_spark_that_is_started_and_stopped_for_it(java):
    """In a process of its own, where none was running."""
    code = (
        "from pyspark.sql import SparkSession\n"
        "from stationary.ingest import Spark\n"
        "with Spark('local[1]', '1GB').open() as session:\n"
        "    print(session.fetch(session.query('SELECT 7 AS a'))['a'].tolist())\n"
        "    spark = SparkSession.getActiveSession()\n"
        "    print(spark.sparkContext.master, spark.conf.get('spark.driver.memory'))\n"
        "    print(spark.conf.get('spark.sql.session.timeZone'))\n"
        "print(SparkSession.getActiveSession())\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=180, check=False
    )
    assert ended.stdout.splitlines() == ["[7]", "local[1] 1g", "UTC", "None"], ended.stderr


POSTGRES = Path("/usr/lib/postgresql")


@pytest.fixture(scope="module")
def postgres():
    """The address of a server of PostgreSQL of our own, on a socket in a folder."""
    try:
        import psycopg
    except ImportError:
        absent("there is no psycopg")
    found = shutil.which("postgres") or max(map(str, POSTGRES.glob("*/bin/postgres")), default=None)
    if found is None:
        absent("there is no PostgreSQL on this machine")
    programs, root = Path(found).parent, os.geteuid() == 0
    if root and shutil.which("runuser") is None:
        absent("PostgreSQL does not run as root, and there is no runuser")
    # Not pytest's folder: the name of a socket is short, and the server must get at it.
    folder = Path(tempfile.mkdtemp(prefix="pg-"))
    if root:  # as which it does not run
        shutil.chown(folder, "postgres")
    user = "postgres" if root else getpass.getuser()
    become = ["runuser", "-u", "postgres", "--"] if root else []

    def run(*command):
        subprocess.run([*become, *command], check=True, capture_output=True, cwd=folder)

    data = str(folder / "data")
    run(programs / "initdb", "-D", data, "-A", "trust", "-U", user, "--no-sync")
    options = f"-k {folder} -c listen_addresses= -c fsync=off"
    log = str(folder / "log")
    run(programs / "pg_ctl", "-D", data, "-o", options, "-l", log, "-w", "start")
    try:
        url = f"postgresql://{user}@/postgres?host={folder}"
        psycopg.connect(url).close()
        yield url
    finally:
        run(programs / "pg_ctl", "-D", data, "-m", "immediate", "stop")
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def database(postgres, tables):
    import psycopg

    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(
            "CREATE TABLE requests (at timestamp, ms float8, status text);"
            "CREATE TABLE looks (time float8, in_flight int, total bigint)"
        )
        for name, table in tables.items():
            with connection.cursor().copy(f"COPY {name} FROM STDIN") as copy:
                for row in table.itertuples(index=False):
                    copy.write_row([None if cell != cell else cell for cell in row])
    return postgres


@pytest.mark.slow
def test_postgresql(database, expected):
    found = made(
        Source(database, COLUMNS, table="public.requests"),
        Source(database, Columns("time"), table="looks"),
        None,
    )
    assert_same(found, expected)


@pytest.mark.slow
def test_a_query_of_postgresql(database):
    early = "SELECT at, ms FROM requests WHERE at < timestamp '2020-09-13 12:31:40' -- early\n;"
    made_ = windows_from_events(Source(database, COLUMNS, query=early), Cut(20.0, capacity=5))
    assert made_.table["start"].max() < 1_600_000_300


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "--table NAME, or --query"),
        ({"table": "nothing"}, "there is no table 'nothing'"),
        ({"query": "SELECT nothing"}, "failed: .*nothing"),
        ({"query": "SELECT 1 AS a; CREATE TABLE gone (a int)"}, "failed: .*syntax"),
        (
            {"query": "SELECT 'soon' AS arrival, 1.0 AS response"},
            "column 'arrival': this is text; turn",
        ),
    ],
)
def test_bad_input_from_postgresql(database, options, message):
    with pytest.raises(InputError, match=message):
        windows_from_events(Source(database, **options), Cut(1.0))
    with pytest.raises(InputError, match="there is no table 'gone'"):
        windows_from_events(Source(database, table="gone"), Cut(1.0))


def test_engines_that_are_not_there():
    with pytest.raises(InputError, match="PostgreSQL cannot be reached"):
        windows_from_events(Source("postgresql://nobody@/none?host=/nowhere", table="t"), Cut(1.0))
    with pytest.raises(InputError, match="memory 'lots'"), DuckDB(memory="lots").open():
        pass


@pytest.mark.parametrize("engine", [DuckDB(), Spark()])
def test_a_database_is_its_own_engine(engine):
    with pytest.raises(InputError, match=r"leave out --engine and --memory"):
        windows_from_events(Source("postgresql://x/y", table="t"), Cut(1.0), engine)


def test_too_little_memory_is_said(tmp_path):
    rng = np.random.default_rng(0)
    arrival = np.cumsum(rng.exponential(1.0, 400_000))
    table = pd.DataFrame({"arrival": arrival, "response": rng.exponential(1.0, len(arrival))})
    table.to_parquet(tmp_path / "log.parquet")
    with pytest.raises(ProgramError, match=r"out of memory .* --memory"):
        windows_from_events(Source(str(tmp_path / "log.parquet")), Cut(100.0), DuckDB("4MB"))
