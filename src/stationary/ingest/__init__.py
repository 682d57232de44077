"""Logs and metrics to windows.

Names are loaded on first use: a request log in memory needs neither Ibis nor DuckDB.
"""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
