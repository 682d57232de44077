"""Traefik's access log with ``format: json``: one object per line."""

from stationary.ingest.formats._base import LogLines

FORMAT = LogLines(
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
)
