"""Logs and metrics to windows: one query, on DuckDB, Spark or PostgreSQL."""

from stationary.ingest.access_logs import apache, envoy, nginx
from stationary.ingest.columns import Columns
from stationary.ingest.cut import Cut
from stationary.ingest.engines import DuckDB, Postgres, Spark
from stationary.ingest.events import windows_from_events
from stationary.ingest.formats import FORMATS, Format
from stationary.ingest.gauge import Arrived, Counter, Rate, windows_from_gauge
from stationary.ingest.prometheus import windows_from_prometheus
from stationary.ingest.result import Dropped, Ingested
from stationary.ingest.sources import Source
from stationary.terms.spans import Unit

__all__ = [
    "FORMATS",
    "Arrived",
    "Columns",
    "Counter",
    "Cut",
    "Dropped",
    "DuckDB",
    "Format",
    "Ingested",
    "Postgres",
    "Rate",
    "Source",
    "Spark",
    "Unit",
    "apache",
    "envoy",
    "nginx",
    "windows_from_events",
    "windows_from_gauge",
    "windows_from_prometheus",
]
