"""Apache access log with ``%T`` in place of ``%D``: response times in seconds."""

from stationary.ingest.formats.apache import apache
from stationary.terms.spans import Unit

FORMAT = apache(Unit.S)
