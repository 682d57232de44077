"""Parquet."""

from stationary.ingest.formats._base import Format
from stationary.ingest.formats._tables import reader

FORMAT = Format(reader("parquet"), endings=(".parquet",), parsed=False)
