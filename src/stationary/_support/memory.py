"""How much memory there is."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

_CONTAINER = Path("/sys/fs/cgroup/memory.max")


def half_the_memory() -> float:
    """Half of what the machine, or the container, has, in bytes; 4 GiB where neither says."""
    try:
        found = float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, ValueError, OSError):  # not a POSIX system
        found = 8.0 * 2**30
    with contextlib.suppress(OSError, ValueError):  # no limit is written in a word
        found = min(found, float(_CONTAINER.read_text(encoding="ascii")))
    return found / 2
