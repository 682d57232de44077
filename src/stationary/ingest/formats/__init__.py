"""Formats of files.

A file ``some_server.py`` is the format ``some-server`` of the command line. It holds ``FORMAT``,
a `Format`: how to read the files, and the unit of its times. The first line of its docstring says
what it reads. Nothing else needs to change.
"""

from stationary.ingest.formats._base import Format, format_names, format_of, load_format

__all__ = ["Format", "format_names", "format_of", "load_format"]
