"""Engines: where queries run. A query is written once, in Ibis, and is the same on all of them.

- `DuckDB`, in this process; what does not fit into its memory goes to a folder.
- `Spark`, on this machine or on a cluster.
- `Postgres`, where the rows already are; only windows leave the server.
"""

from __future__ import annotations

import glob
import os
import re
import tempfile
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import ibis

from stationary.errors import InputError, ProgramError
from stationary.ingest.addresses import parse_database

if TYPE_CHECKING:
    import pandas as pd

_LOCAL = "local[*]"
_ZONE = "spark.sql.session.timeZone"
_BATCH = 2**17
"""Rows that are passed on at once."""
_SHOWN = 300
"""Characters of an engine's own message that are passed on."""


def real(value: float) -> Any:
    """Return a number in a query that every engine takes as exactly this float."""
    # Written plainly it would be a decimal in some engines, and rounded once more.
    return ibis.literal(repr(float(value))).cast("float64")


@contextmanager
def _quiet() -> Iterator[None]:
    """Hide what the libraries below warn each other of about their versions."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


@dataclass
class Session:
    """A running engine."""

    backend: Any  # the connection of Ibis
    failures: tuple[type[BaseException], ...]  # what it raises when a query fails
    reads_text: bool = True  # whether it tells which texts are numbers, where some are not
    streams: bool = False  # whether it passes rows on in the order of the file, or counts itself
    folder: str | None = None  # where it may put files for as long as it runs
    one_file: bool = False  # whether the rows come as one server wrote them
    whole_seconds: bool = False  # whether an access log has its times in whole seconds
    notes: list[str] = field(default_factory=list)  # what to tell the user about the rows
    steps: int = 0  # tables that were kept so far

    def exactly(self, path: str) -> str:
        """Return a pattern of files that only this path matches."""
        return glob.escape(path)

    def query(self, text: str) -> Any:
        """Return the table that a query in the engine's own language makes."""
        # Not ibis' own Backend.sql nor, below, Table.cache: they drop what they made with
        # statements that not every release of sqlglot writes correctly.
        # In parentheses, because then it can be one statement only.
        inner = text.rstrip("; \n\t")
        whole = f"SELECT * FROM ({inner}\n) AS q"  # noqa: S608 - the user's own query may do that
        self.backend.raw_sql(f"CREATE TEMPORARY VIEW stationary_query AS {whole}")
        return self.backend.table("stationary_query")

    def keep(self, name: str, table: Any) -> Any:
        """Compute a table once; what is returned reads the result."""
        self.steps += 1
        made = f"stationary_{name}_{self.steps}"
        with self.about(f"the step {name!r}"):
            self._store(made, str(self.backend.compile(table)))
            # Sums of whole numbers are decimals in some engines; Ibis takes them for whole.
            return self.backend.table(made).cast(dict(table.schema().items()))

    def _store(self, name: str, query: str) -> None:
        """Run a query and keep its result under a name, for this session."""
        self.backend.raw_sql(f"CREATE TEMPORARY TABLE {name} AS {query}")

    def stage(self, name: str, table: Any) -> Any:
        """Read text once: what is returned reads the result, a file, which takes no memory."""
        if self.folder is None:
            return table
        file = f"{self.folder}/{name}.parquet"
        with self.about(f"reading {name}"):
            query = str(self.backend.compile(table))
            self.backend.raw_sql(f"COPY ({query}) TO '{file}' (FORMAT parquet)").fetchall()
            return self.backend.read_parquet(file)

    def fetch(self, table: Any, what: str = "the query") -> pd.DataFrame:
        """Compute a table and bring it here; errors name ``what``."""
        with self.about(what):
            return table.execute()

    def stream(self, table: Any, what: str) -> Iterator[Any]:
        """Yield a table in batches of Arrow, from DuckDB; errors name ``what``."""
        with self.about(what):
            query = str(self.backend.compile(table))
            yield from self.backend.con.sql(query).to_arrow_reader(_BATCH)

    def fetch_row(self, table: Any, what: str) -> dict[str, Any]:
        """Compute a table of one row; whole numbers of 64 bits keep all their digits."""
        row: dict[str, Any] = self.fetch(table, what).to_dict("records")[0]
        return row

    @contextmanager
    def about(self, what: str) -> Iterator[None]:
        """Turn what an engine raises into an error that says during what."""
        try:
            with _quiet():
                yield
        except self.failures as error:
            text = " ".join(str(error).split())
            if "memory" in text.lower() and "OutOfMemory" in type(error).__name__:
                raise ProgramError(
                    f"the engine ran out of memory in {what}: give it more with --memory, or take "
                    f"shorter windows ({text:.{_SHOWN}})"
                ) from error
            text = text.partition(" LINE 1:")[0]  # the query that Ibis wrote
            raise InputError(f"{what} failed: {text:.{_SHOWN}}") from error


class Engine(ABC):
    """A place for queries; `open` starts it, and stops it at the end."""

    @abstractmethod
    def open(self) -> Any:
        """Return a context manager that yields a `Session`."""


@dataclass(frozen=True)
class DuckDB(Engine):
    """DuckDB in this process.

    Parameters
    ----------
    memory : str, optional
        Most memory it takes, as in ``4GB``; four fifths of the machine's by default.
    folder : str, optional
        Where it puts what does not fit; a temporary folder by default.
    """

    memory: str | None = None
    folder: str | None = None

    @contextmanager
    def open(self) -> Iterator[Session]:
        """Yield a session with a database in memory."""
        import duckdb

        with tempfile.TemporaryDirectory(prefix="stationary-", dir=self.folder) as folder:
            limit = {} if self.memory is None else {"memory_limit": self.memory}
            try:
                backend = ibis.duckdb.connect(temp_directory=folder, **limit)
            except duckdb.Error as error:
                raise InputError(
                    f"DuckDB cannot start with memory {self.memory!r}: {error}"
                ) from error
            try:
                backend.raw_sql("SET enable_progress_bar = false")  # it would go to the output
                yield Session(backend, (duckdb.Error,), streams=True, folder=folder)
            finally:
                backend.disconnect()


@dataclass(frozen=True)
class Postgres(Engine):
    """PostgreSQL, at the address that libpq takes: ``postgresql://user@host:5432/database``."""

    url: str = field(repr=False)  # it may hold a password

    @contextmanager
    def open(self) -> Iterator[Session]:
        """Yield a session; its temporary tables go with it."""
        try:
            import psycopg
        except ImportError:
            raise ProgramError(
                "there is no driver for PostgreSQL: install it with pip install "
                "'stationary[postgres]'"
            ) from None
        parts = parse_database(self.url)
        try:
            connection = psycopg.connect(**parts, autocommit=True)  # type: ignore[arg-type]
        except psycopg.Error as error:
            reason = " ".join(str(error).split())
            raise InputError(f"PostgreSQL cannot be reached: {reason:.{_SHOWN}}") from error
        with connection:
            connection.execute("SET TIME ZONE 'UTC'")
            backend = ibis.postgres.from_connection(connection)
            yield Session(backend, (psycopg.Error,), reads_text=False)


@dataclass(frozen=True)
class Spark(Engine):
    """Apache Spark.

    Parameters
    ----------
    master : str, optional
        The URL of a cluster, or ``local[*]`` for all cores of this machine; by default that of the
        session which is running here, and ``local[*]`` where none is.
    memory : str, optional
        Memory of the driver, as in ``4GB``; on one machine the driver does all the work.
    """

    master: str | None = None
    memory: str | None = None

    @contextmanager
    def open(self) -> Iterator[Session]:
        """Yield a session; one that ran before is used and left running."""
        try:
            from py4j.protocol import Py4JError
            from pyspark.errors import PySparkException
            from pyspark.sql import SparkSession
        except ImportError:
            raise ProgramError(
                "there is no Spark here: install it with pip install 'stationary[spark]'"
            ) from None
        running = SparkSession.getActiveSession()
        if running is not None:
            self._check_running(running)
        try:
            spark = running or self._start(SparkSession.builder.appName("stationary"))
        except (PySparkException, Py4JError, OSError, RuntimeError) as error:
            raise ProgramError(
                f"Spark does not start at {self.master or _LOCAL}: "
                f"{str(error).splitlines()[0]:.{_SHOWN}}; "
                f"it needs Java 17 or newer (JAVA_HOME), and the cluster must be reachable"
            ) from error
        zone = str(spark.conf.get(_ZONE))
        spark.conf.set(_ZONE, "UTC")  # in which times without a zone are read and written
        with _quiet():
            session = _SparkSession(ibis.pyspark.connect(spark), (PySparkException, Py4JError))
        try:
            yield session
        finally:
            session.release()
            if running is None:
                spark.stop()
            else:
                spark.conf.set(_ZONE, zone)

    def _start(self, builder: Any) -> Any:
        master = self.master or _LOCAL
        settings = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
        if master.startswith("local"):
            settings |= {
                "spark.driver.bindAddress": "127.0.0.1",
                "spark.driver.host": "127.0.0.1",
                # The default of 200 is for a cluster: here most of the time would go into tasks.
                "spark.sql.shuffle.partitions": str(4 * (os.cpu_count() or 1)),
            }
        if self.memory is not None:
            settings["spark.driver.memory"] = self.memory.lower().removesuffix("b")
        spark = builder.master(master).config(map=settings).getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        return spark

    def _check_running(self, spark: Any) -> None:
        """Raise an error where the running session is not the one that was asked for."""
        master = spark.sparkContext.master
        if self.memory is not None or self.master not in (None, master):
            raise InputError(
                f"a Spark session runs at {master} already, and its settings cannot be changed to "
                f"{self}: stop it first, or leave out master= and memory="
            )


@dataclass
class _SparkSession(Session):
    kept: list[Any] = field(default_factory=list)

    def exactly(self, path: str) -> str:
        """As Hadoop writes it."""
        return re.sub(r"[\\*?{}\[\]]", r"\\\g<0>", path)

    def _store(self, name: str, query: str) -> None:
        # Memory first, then disk, as a data frame is persisted by default.
        frame = self.backend.raw_sql(query).persist()
        self.kept.append(frame)
        frame.createOrReplaceTempView(name)

    def release(self) -> None:
        """Give the memory of what was kept back to a session of Spark that goes on."""
        for frame in self.kept:
            frame.unpersist()
