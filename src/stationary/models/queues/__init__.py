"""Queues: requests arrive, wait and are served."""
