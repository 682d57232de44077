"""Parquet."""

from stationary.ingest.formats._base import Format

FORMAT = Format(lambda backend, path: backend.read_parquet(path), endings=(".parquet",))
