"""Parametric chains: one small class each.

Names are loaded on first use. `Model` and others are listed in ``__init__.pyi``; the queue models,
such as ``MMmK``, are the files in ``queues/``.
"""

from typing import Any

import lazy_loader as _lazy

from stationary.models import queues as _queues

_listed, _, _names = _lazy.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    """Load a name of the list, or a queue model."""
    of = _queues if name in _queues.class_names().values() else None
    return getattr(of, name) if of is not None else _listed(name)


def __dir__() -> list[str]:
    return sorted([*_names, *_queues.class_names().values()])
