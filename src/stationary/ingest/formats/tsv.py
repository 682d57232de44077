"""Tab-separated values with a header line."""

from stationary.ingest.formats._base import Format
from stationary.ingest.formats._tables import reader

FORMAT = Format(reader("csv", sep="\t", store_rejects=True), endings=(".tsv",))
