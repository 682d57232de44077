"""Plans that are being made: one at a time, each in a process that can be stopped."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from stationary.errors import InputError


class Job:
    """A plan in the making, by `stationary.studio.work`; ``made`` is called once it is there."""

    def __init__(self, task: dict[str, Any], made: Callable[[], None]) -> None:
        self.made, self.output = made, Path(task["output"])
        self.state: dict[str, Any] = {"text": "starting"}
        with tempfile.TemporaryFile("w+", encoding="utf-8") as given:
            json.dump(task, given)  # whole before the process begins, whatever becomes of us
            given.seek(0)
            self.process = subprocess.Popen(
                [sys.executable, "-m", "stationary.studio.work"],
                stdin=given,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                start_new_session=True,  # it is stopped with the processes that it starts
            )
        threading.Thread(target=self._listen, daemon=True).start()

    @property
    def running(self) -> bool:
        """Whether it is not over."""
        return not {"plan", "error"} & self.state.keys()

    def _listen(self) -> None:
        with self.process as process:
            for line in process.stdout or ():
                if self.running:
                    self.state = {**self.state, **json.loads(line)}
        if self.running:
            self.state = {**self.state, "error": "The computation ended early; start it again."}
        if "plan" in self.state:
            self.made()
        else:
            with suppress(OSError):
                self.output.rmdir()

    def cancel(self) -> None:
        """Stop it; nothing is left of it."""
        if self.running:
            self.state = {**self.state, "error": "Cancelled."}
        if self.process.poll() is not None:  # its number may belong to another process by now
            return
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGTERM)


class Jobs:
    """The plans that are being made, and those that were."""

    def __init__(self) -> None:
        self._known: dict[str, Job] = {}

    def start(self, task: dict[str, Any], made: Callable[[], None] = lambda: None) -> str:
        """Start to make a plan; return the name of the job."""
        name = secrets.token_hex(8)
        self._known[name] = Job(task, made)
        return name

    @property
    def running(self) -> str:
        """The name of the one that is being made; empty if there is none."""
        return next((name for name, job in self._known.items() if job.running), "")

    def check_free(self) -> None:
        """Raise where a plan is being made already."""
        if self.running:
            raise InputError("a plan is being made already: wait for it, or cancel it under New")

    def get(self, name: str) -> Job:
        """Return a job, or raise."""
        if name not in self._known:
            raise InputError("this plan is not being made any more; start it again")
        return self._known[name]

    def close(self) -> None:
        """Stop what is running."""
        for job in self._known.values():
            job.cancel()
