"""One JSON object per line."""

from stationary.ingest.formats._base import Format

FORMAT = Format(
    lambda backend, path: backend.read_json(path), endings=(".jsonl", ".ndjson", ".json")
)
