"""Formats of files.

A file ``some_server.py`` is the format ``some-server`` of the command line. It holds ``FORMAT``: a
`LogLines`, which shows what lines of an access log look like, or a `Format`, a function that reads
a table. The first line of its docstring says what it reads. Nothing else needs to change.
"""

from stationary.ingest.formats._base import Format, LogLines, format_names, format_of, load_format

__all__ = ["Format", "LogLines", "format_names", "format_of", "load_format"]
