"""Queues: requests arrive, wait, and are served or lost.

Every file here whose name has no underscore in front holds one model: its one public class, which
the command line knows by the name of the file. To add a model, add a file; `balking` is a pattern
for queues that grow and shrink by one request, `resetting` for others. Names and classes are read
from the files, so that they are known before torch is loaded.
"""

from __future__ import annotations

import ast
import pkgutil
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stationary.models.queues._queue import Queue as Queue
    from stationary.models.queues._queue import ServerQueue as ServerQueue

_INNER = {"levels"}
"""Arguments of bases that a model makes by itself."""


def names() -> tuple[str, ...]:
    """Return the names of the queue models on the command line, in alphabetical order."""
    return tuple(file.name for file in pkgutil.iter_modules(__path__) if file.name[0] != "_")


@cache
def class_names() -> dict[str, str]:
    """Return the class of every queue model, by the name of the model."""
    found = {}
    for name in names():
        file = Path(__path__[0], f"{name}.py")
        (found[name],) = [public for public in _classes(file) if not public.startswith("_")]
    return found


@cache
def _classes(file: Path) -> dict[str, ast.ClassDef]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}


def options(name: str) -> tuple[str, ...]:
    """Return the options and parameters of a queue model, as far as its file names them.

    Examples
    --------
    >>> options("slowing")
    ('service_rate', 'slowdown', 'servers', 'capacity', 'discipline', 'overhead')
    """
    known = {k: v for file in Path(__path__[0]).glob("_*.py") for k, v in _classes(file).items()}
    node = _classes(Path(__path__[0], f"{name}.py"))[class_names()[name]]
    found: list[str] = []
    while True:
        for part in node.body:
            if isinstance(part, ast.FunctionDef) and part.name == "__init__":
                found += [each.arg for each in (*part.args.args[1:], *part.args.kwonlyargs)]
            if isinstance(part, ast.Assign) and ast.unparse(part.targets[0]) == "params":
                found += [ast.literal_eval(key) for key in getattr(part.value, "keys", ())]
        base = ast.unparse(node.bases[0])
        if base not in known:
            return tuple(each for each in dict.fromkeys(found) if each not in _INNER)
        node = known[base]


def __getattr__(name: str) -> Any:
    """Load a queue model, or a base of them, when it is first asked for."""
    files = {of_class: file for file, of_class in class_names().items()}
    files |= dict.fromkeys(("Queue", "ServerQueue"), "_queue")
    if name not in files:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{files[name]}"), name)


def __dir__() -> list[str]:
    return [*globals(), *class_names().values(), "Queue", "ServerQueue"]
