"""A handler for gunicorn that takes as long as the path of a request says.

It burns CPU time, and not a number of loops: those take a third longer when the machine is shared.
Then it sleeps, as a handler does that waits for a database. The answer says how many seconds went
by, which is more where other programs ran in between.
"""

import time
from typing import Any


def app(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    """Answer a request such as ``GET /0.008/0.002``: CPU time, then sleep."""
    burn, sleep = map(float, environ["PATH_INFO"].split("/")[1:])
    began, end = time.perf_counter(), time.thread_time() + burn
    while time.thread_time() < end:
        pass
    if sleep:
        time.sleep(sleep)
    body = f"{time.perf_counter() - began:.6f}".encode()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]
