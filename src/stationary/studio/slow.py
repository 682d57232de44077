"""What takes seconds, in a process of its own: intervals, limits and files of a saved plan.

A page stays quick while this works, and of questions that a page asks in quick succession only the
last is answered.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

from stationary.errors import InputError, RunError, StationaryError
from stationary.output.alerts import alert_rules
from stationary.studio.answers import Asked, View
from stationary.studio.library import stamp, view_of

_ROWS, _KEPT = 25, 64  # rows of a table; answers that are kept


class Slow:
    """One process that answers one question after the other."""

    def __init__(self) -> None:
        self.pool = _pool()
        self._waiting: dict[str | None, Future[Any]] = {}
        self._answered: dict[Any, Any] = {}

    async def ask(
        self, place: Path, key: str | None, function: Callable[..., Any], *given: Any
    ) -> Any:
        """Return the function of a saved plan; what was answered lately is not computed again.

        A question that waits gives way to a new one of the same key, which says who asks for what;
        without a key it waits for its turn.
        """
        earlier = self._waiting.pop(key, None)
        if earlier is not None:
            earlier.cancel()
        question = place, stamp(place), function, given
        if question in self._answered:
            return self._answered[question]
        pool, asked = self.pool, None
        try:
            asked = pool.submit(_answer, *question)
            if key is not None:
                self._waiting[key] = asked
            found = await asyncio.wrap_future(asked)
        except BrokenProcessPool:
            if self.pool is pool:  # the first question that notices
                self.pool = _pool()
            raise RunError("the computation was ended from outside; ask again") from None
        finally:
            if asked is not None and self._waiting.get(key) is asked:
                del self._waiting[key]
        self._answered[question] = found
        while len(self._answered) > _KEPT:
            self._answered.pop(next(iter(self._answered)))
        return found

    def close(self) -> None:
        """End the process."""
        for child in multiprocessing.active_children():
            child.terminate()
        self.pool.shutdown(cancel_futures=True)


def _pool() -> ProcessPoolExecutor:
    context = multiprocessing.get_context("spawn")  # a fork of threads may never end
    return ProcessPoolExecutor(1, mp_context=context, initializer=_begin)


def rules(view: View, asked: Asked, load_expr: str) -> str:
    """Return rules for Prometheus."""
    return alert_rules(view.asked(asked).limit, load_expr, headroom=0.2)


def table(view: View, asked: Asked) -> str:
    """Return the forecast over the loads of the charts, as CSV."""
    return str(view.asked(asked).forecast(view.loads(asked, _ROWS)).to_csv(index=False))


def report(view: View, asked: Asked) -> str:
    """Return the report, as HTML."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "report.html")
        view.asked(asked).report(file)
        return file.read_text(encoding="utf-8")


def _begin() -> None:
    """Give way to what must be quick, and end with the server, even where that is killed."""
    if hasattr(os, "nice"):
        os.nice(10)
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
            os._exit(0)

    threading.Thread(target=watch, daemon=True).start()


def _answer(place: Path, stamp: int, function: Callable[..., Any], given: tuple[Any, ...]) -> Any:
    try:
        return function(view_of(place, stamp), *given)
    except StationaryError as error:  # one with more than a text may not survive the way back
        raise InputError(str(error)) from None
