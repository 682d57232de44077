"""Envoy access log: its default format, or Istio's, which adds three fields on the response.

The status of a request whose client went away before an answer is 0.
"""

from stationary.ingest.formats._base import LogLines

FORMAT = LogLines(
    "Envoy default",
    (
        '[{clock}] "{request}" {status} {} {:code} {:code} {took:ms} {}',
        '[{clock}] "{request}" {status} {} {} {} "{}" {:code} {:code} {took:ms} {}',
    ),
    add_fraction="milliseconds to the format, as %START_TIME% has them",
    add_response="%DURATION% to the format, as the default has it",
)
