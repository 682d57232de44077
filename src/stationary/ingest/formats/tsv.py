"""Tab-separated values with a header line."""

from stationary.ingest.formats._base import Format

FORMAT = Format(lambda backend, path: backend.read_csv(path, sep="\t"), endings=(".tsv",))
