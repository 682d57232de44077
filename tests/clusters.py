"""Real Dask clusters on this machine: a scheduler and workers, each a process of its own."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
PYTHONPATH = os.pathsep.join(str(p) for p in (HERE.parent / "src", HERE, HERE / "learning"))
"""Where workers find the package and the tasks of the tests."""
BLIND = (
    "import sys; sys.modules['stationary'] = None; "
    "from distributed.cli.dask_worker import main; main()"
)


class Cluster:
    """A scheduler, and the workers that were started for it."""

    def __init__(self, folder):
        self.folder = folder
        self.file = folder / "scheduler.json"
        self.scheduler = self._start(
            *("-m", "distributed.cli.dask_scheduler", "--no-dashboard", "--no-show", "--port", "0"),
            *("--host", "127.0.0.1", "--scheduler-file", str(self.file)),
        )
        self.workers, self.nannies = [], []

    def _start(self, *arguments):
        env = {
            **os.environ,
            "PYTHONPATH": PYTHONPATH,
            "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1",
            "OMP_NUM_THREADS": "1",
        }
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, *arguments], env=env, stdout=log, stderr=log, cwd=self.folder
            )

    @property
    def address(self):
        until = time.monotonic() + 60
        while time.monotonic() < until:
            try:
                return json.loads(self.file.read_text())["address"]
            except (OSError, ValueError):
                time.sleep(0.05)
        raise TimeoutError((self.folder / "log").read_text())

    def add_worker(self, nanny=False, blind=False):
        """Start a worker; with a nanny it is started again when it dies; a blind one lacks us."""
        program = ("-c", BLIND) if blind else ("-m", "distributed.cli.dask_worker")
        worker = self._start(
            *(*program, self.address, "--nthreads", "1", "--no-dashboard", "--host", "127.0.0.1"),
            *("--nanny" if nanny else "--no-nanny", "--local-directory", str(self.folder)),
        )
        (self.nannies if nanny else self.workers).append(worker)
        return worker

    def client(self):
        from distributed import Client

        return Client(self.address, set_as_default=False)

    def wait_for(self, workers):
        with self.client() as client:
            client.wait_for_workers(workers, timeout=60)
        return self

    def kill(self, process):
        process.send_signal(signal.SIGKILL)
        process.wait()

    def close(self):
        """End everything; a nanny is asked to, because it ends its worker first."""
        for process in self.nannies:
            process.terminate()
        for process in self.nannies:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                self.kill(process)
        for process in [*self.workers, self.scheduler]:
            if process.poll() is None:
                self.kill(process)
