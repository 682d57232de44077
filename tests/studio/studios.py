"""A running studio for tests, and how they speak to it."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path

STATIONARY = [sys.executable, "-c", "from stationary.cli import main; main()"]


def wait_for(condition, seconds=300):
    """Return what a condition gives once it holds."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"nothing came of {condition} in {seconds} s")
        time.sleep(0.1)
    return found


@contextmanager
def running(*args, output, browser=None):
    """Run ``stationary studio`` as a user does; yield its address, which ends with a slash."""
    chosen = {} if browser is None else {"BROWSER": browser}
    quiet = ["--no-browser"] if browser is None else []
    with subprocess.Popen(
        list(map(str, [*STATIONARY, "studio", *quiet, "-o", output, *args])),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **chosen},
    ) as process:
        try:
            said = process.stdout.readline()
            found = re.search(r"http://127\.0\.0\.1:\d+/[\w-]{32}/", said)
            assert found, said + process.stderr.read()
            yield Studio(found[0], process, Path(output))
        finally:
            process.terminate()
            process.wait(30)
            process.stdout.close()
            process.stderr.close()


class Studio:
    def __init__(self, address, process, output):
        self.address, self.process, self.output = address, process, output
        self.host = address.split("/")[2]

    def get(self, path="", **headers):
        return self.send("GET", path, None, **headers)

    def post(self, path, body, **headers):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.send("POST", path, data, **{"Origin": f"http://{self.host}", **headers})

    def send(self, method, path, data, **headers):
        """Return the status, the headers and the text of an answer."""
        url = path if path.startswith("http") else self.address + path
        request = urllib.request.Request(url, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return answer.status, answer.headers, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.headers, error.read().decode()

    def raw(self, text):
        """Send bytes as they are, and return the first line of the answer."""
        host, port = self.host.split(":")
        with socket.create_connection((host, int(port)), timeout=30) as connection:
            connection.sendall(text)
            return connection.recv(65536).decode().splitlines()[0]


def log_of(folder: Path, windows: int = 12) -> Path:
    """Write a log of requests, simulated, as CSV."""
    file = folder / "requests.csv"
    command = [
        *(*STATIONARY, "simulate"),
        "mmmk:servers=2,capacity=12,service_rate=10",
        *("--x", "4:14:2", "--windows", windows, "--duration", 30, "--scheme", "requests"),
        *("--seed", 1, "-o", file),
    ]
    subprocess.run(list(map(str, command)), check=True, capture_output=True)
    return file
