"""Traefik's access log with ``format: json``: one object per line."""

from stationary.ingest.formats._base import Format
from stationary.ingest.formats._lines import LogLines

FORMAT = Format(
    lines=LogLines(
        "requests in Traefik's JSON",
        {
            "StartUTC": "{clock}",
            "Duration": "{took:ns}",
            "DownstreamStatus": "{status}",
            "RequestMethod": "{method}",
            "RequestHost": "{host}",
            "RequestPath": "{path}",
            "ServiceName": "{service}",
        },
        add_response="Duration to the fields of the accessLog",
    ),
)
