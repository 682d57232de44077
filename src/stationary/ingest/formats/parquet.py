"""Parquet."""

from stationary.ingest.formats._base import Format
from stationary.ingest.formats._tables import paths

FORMAT = Format(
    lambda backend, files: backend.read_parquet(paths(backend, files)),
    endings=(".parquet",),
    parsed=False,
)
