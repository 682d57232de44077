"""Comma-separated values with a header line."""

from stationary.ingest.formats._base import Format
from stationary.ingest.formats._tables import read_text

FORMAT = Format(read_text(","), endings=(".csv",))
