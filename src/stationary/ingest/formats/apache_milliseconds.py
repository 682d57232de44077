"""Apache access log with ``%{ms}T`` in place of ``%D``: response times in milliseconds."""

from stationary.ingest.formats.apache import apache
from stationary.terms.spans import Unit

FORMAT = apache(Unit.MS)
