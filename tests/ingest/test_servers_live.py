"""Access logs that real servers wrote, against what their clients saw."""

import http.client
import os
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from programs import free_port, required, wait_until
from stationary.ingest import Cut, Source, windows_from_events

pytestmark = pytest.mark.slow
COUNT, RATE, SERVICE = 300, 60.0, 0.008

# One thread: HAProxy drops a line of its log rather than wait for another thread to write.
HAPROXY = """
global
    nbthread 1
    log stdout format {prefix} local0
defaults
    mode http
    log global
    option httplog
    timeout connect 1s
    timeout client 5s
    timeout server 5s
    timeout queue 40ms
frontend front
    bind 127.0.0.1:{port}
    http-request deny deny_status 429 if {{ path /denied }}
    default_backend app
backend app
    server one 127.0.0.1:{behind} maxconn 1
"""
CADDY = """
{{
    admin off
    auto_https off
}}
http://127.0.0.1:{port} {{
    log {{
        output file {log}
    }}
    reverse_proxy 127.0.0.1:{behind}
}}
"""


@pytest.fixture(scope="module")
def behind():
    """The port of a server that takes a random time for each request."""
    times = np.random.default_rng(1)

    class Slow(BaseHTTPRequestHandler):
        def do_GET(self):
            time.sleep(times.exponential(SERVICE))
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Slow)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()
    thread.join()


def answers(port):
    try:
        ask(port, "/ready")
    except OSError:
        return False
    return True


def ask(port, path):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    connection.request("GET", path)
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status


def load(port):
    """Send requests at random times; return when each was sent, how long it took, its status."""
    seen, threads = [], []

    def one(path):
        began = time.time()
        status = ask(port, path)
        seen.append((began, time.time() - began, status))

    gaps = np.random.default_rng(2)
    for k in range(COUNT):
        threads.append(threading.Thread(target=one, args=("/denied" if k % 50 == 0 else "/a?b=1",)))
        threads[-1].start()
        time.sleep(gaps.exponential(1 / RATE))
    for thread in threads:
        thread.join()
    return np.array(sorted(seen)).T


def wait_for_lines(log):
    """Wait until the server has logged every request: it does so after it has answered."""
    wait_until(
        lambda: log.read_bytes().count(b"/a?b=1") + log.read_bytes().count(b"/denied") >= COUNT,
        "log",
    )


def check(log, name, seen):
    """Hold the windows of a log against what the clients saw."""
    began, took, status = seen
    made = windows_from_events(
        Source(str(log), where=("path != /ready",)), Cut(1.0, lost_status=("5xx", "429"))
    )
    assert any(note.startswith(f"read as {name}:") for note in made.notes)
    assert made.rows == COUNT
    whole = began < began.min() + len(made.table)
    assert made.table["sent"].sum() == pytest.approx(whole.sum(), abs=4)
    assert made.table["lost"].sum() == pytest.approx((status[whole] >= 429).sum(), abs=2)
    assert made.table["start"][0] == pytest.approx(began.min(), abs=0.1)
    # The client also pays for its connection; a loaded machine may stall it.
    buckets = made.table.filter(like="rt_").sum()
    edges = np.array([float(each[3:-2]) / 1e3 for each in buckets.index[:-1]])
    middle = edges[np.searchsorted(np.cumsum(buckets[:-1]), buckets.sum() / 2)]
    assert 0.3 * np.median(took[status == 200]) < middle < 1.5 * np.median(took[status == 200])


@pytest.mark.parametrize("prefix", ["raw", "rfc3164"])
def test_haproxy(behind, tmp_path, prefix):
    port, log = free_port(), tmp_path / "haproxy.log"
    (tmp_path / "haproxy.cfg").write_text(HAPROXY.format(prefix=prefix, port=port, behind=behind))
    program = required("haproxy")
    with log.open("wb") as file:
        command = [program, "-db", "-f", str(tmp_path / "haproxy.cfg")]
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.DEVNULL)
        try:
            wait_until(lambda: answers(port), "HAProxy")
            seen = load(port)
            wait_for_lines(log)
        finally:
            process.terminate()
            process.wait(10)
    assert (seen[2] == 429).sum() == COUNT / 50
    check(log, "haproxy", seen)
    made = windows_from_events(Source(str(log), where=("path != /ready",)), Cut(1.0))
    # Denied requests reached no server, and are lost without a word on statuses.
    assert made.table["lost"].sum() >= COUNT / 50 - 2


def test_caddy(behind, tmp_path):
    port, log = free_port(), tmp_path / "caddy.log"
    (tmp_path / "Caddyfile").write_text(CADDY.format(port=port, behind=behind, log=log))
    program = required("caddy")
    command = [program, "run", "--config", str(tmp_path / "Caddyfile"), "--adapter", "caddyfile"]
    process = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "HOME": str(tmp_path)},  # where it keeps its state
    )
    try:
        wait_until(lambda: answers(port), "Caddy")
        seen = load(port)
        wait_for_lines(log)
    finally:
        process.terminate()
        process.wait(10)
    check(log, "caddy", seen)
