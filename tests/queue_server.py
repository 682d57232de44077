"""A real queue in real time, M/M/1/K, that shows its metrics and keeps a record of its own."""

import contextlib
import queue
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np

BUCKETS = (0, 1, 2, 4)
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25)


class QueueServer:
    """One worker, ``capacity`` places, exponential times; /metrics in Prometheus's text format.

    Attributes
    ----------
    scrapes : list of (time, metrics)
        What every reader of /metrics was told, and when.
    """

    def __init__(self, load, service_rate, capacity, seed):
        self.gaps, self.work = np.random.default_rng(seed).spawn(2)
        self.load, self.service_rate, self.capacity = load, service_rate, capacity
        self.lock = threading.Lock()
        self.stopped = threading.Event()
        self.inside = self.requests = self.lost = 0
        self.found = np.zeros(capacity + 1, dtype=int)
        self.took = np.zeros(len(SECONDS) + 1, dtype=int)
        self.waiting = queue.Queue()
        self.scrapes = []

    def arrive(self):
        due = time.monotonic()
        while not self.stopped.wait(max(0.0, due - time.monotonic())):
            due += self.gaps.exponential(1 / self.load)
            with self.lock:
                self.requests += 1
                self.found[self.inside] += 1
                if self.inside == self.capacity:
                    self.lost += 1
                    continue
                self.inside += 1
            self.waiting.put(time.monotonic())

    def serve(self):
        while not self.stopped.is_set():
            with contextlib.suppress(queue.Empty):
                came = self.waiting.get(timeout=0.1)
                time.sleep(self.work.exponential(1 / self.service_rate))
                with self.lock:
                    self.inside -= 1
                    self.took[np.searchsorted(SECONDS, time.monotonic() - came)] += 1

    def read(self):
        """Return the metrics as they are now, and remember that they were read."""
        with self.lock:
            now = {
                "inflight": self.inside,
                "requests_total": self.requests,
                "lost_total": self.lost,
                **{f'found_bucket{{le="{le}"}}': self.found[: le + 1].sum() for le in BUCKETS},
                'found_bucket{le="+Inf"}': self.found.sum(),
                **{
                    f'took_bucket{{le="{le}"}}': self.took[: k + 1].sum()
                    for k, le in enumerate((*SECONDS, "+Inf"))
                },
            }
            self.scrapes.append((time.time(), now))
        return now

    @contextlib.contextmanager
    def running(self):
        """Yield the port of /metrics; all threads have ended afterwards."""
        outer = self

        class Metrics(BaseHTTPRequestHandler):
            def do_GET(self):
                body = "".join(f"{name} {value}\n" for name, value in outer.read().items())
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, *args):
                pass

        http = ThreadingHTTPServer(("127.0.0.1", 0), Metrics)
        tasks = (http.serve_forever, self.arrive, self.serve)
        threads = [threading.Thread(target=task) for task in tasks]
        for thread in threads:
            thread.start()
        try:
            yield http.server_address[1]
        finally:
            self.stopped.set()
            http.shutdown()
            http.server_close()
            for thread in threads:
                thread.join()
