"""One JSON object per line; of a line that is none, all values are missing."""

from stationary.ingest.formats._base import Format
from stationary.ingest.formats._tables import reader

FORMAT = Format(reader("json", ignore_errors=True), endings=(".jsonl", ".ndjson", ".json"))
