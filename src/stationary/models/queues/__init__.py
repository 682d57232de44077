"""Queues: requests arrive, wait and are served."""

from stationary.models.queues._queue import Queue, ServerQueue

__all__ = ["Queue", "ServerQueue"]
