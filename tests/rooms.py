"""The rooms of the house and the imports between them, read from the source."""

import ast
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "stationary"

ROOMS = (
    "errors",
    "words",
    "terms",
    "_support",
    "edges",
    "generator",
    "solvers",
    "spectrum",
    "gradients",
    "steady",
    "models",
    "data",
    "ingest",
    "simulation",
    "learning",
    "trust",
    "planning",
    "output",
    "facade",
    "planner",
    "testbed",
    "paper",
    "cli",
)
"""From the ground up: a room imports only from rooms that stand before it."""

GUESTS = ("testbed", "paper")
"""Rooms that use public names only, and that only the command line imports."""

FILES = {
    ".".join(("stationary", *file.relative_to(SOURCE).with_suffix("").parts)).removesuffix(
        ".__init__"
    ): file
    for file in SOURCE.rglob("*.py")
}
TREES = {module: ast.parse(file.read_text(encoding="utf-8")) for module, file in FILES.items()}


def room(module):
    """The room of a module; empty for the package itself."""
    return module.partition(".")[2].partition(".")[0]


def nodes(tree):
    """Everything in a file but what only a type checker reads."""
    pending = [tree]
    while pending:
        node = pending.pop()
        yield node
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            pending += node.orelse
        else:
            pending += ast.iter_child_nodes(node)


def imports(module):
    """Pairs (module, name) that a file imports from our own package, also inside functions."""
    package = module if FILES[module].name == "__init__.py" else module.rpartition(".")[0]
    for node in nodes(TREES[module]):
        if isinstance(node, ast.Import):
            yield from ((name.name, "") for name in node.names if is_ours(name.name))
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) + 1 - node.level]
            base = ".".join([*above, *filter(None, [node.module])]) if node.level else node.module
            if is_ours(base):
                yield from ((base, name.name) for name in node.names)


def is_ours(name):
    return name.split(".")[0] == "stationary"


def imported_modules(module):
    """Modules that importing one imports, and the packages that they are in."""
    found = set()
    for base, name in imports(module):
        parts = [*base.split("."), name]
        found |= {".".join(parts[:k]) for k in range(1, len(parts) + 1)} & FILES.keys()
    # The own package is there already when one of its modules is imported.
    own = {".".join(module.split(".")[:k]) for k in range(1, module.count(".") + 2)}
    return {name for name in found - own if room(name) not in ("", "cli")}


def imported_rooms(module):
    """Rooms that a file imports from, other than its own."""
    return {room(name) for name in imported_modules(module)} - {room(module), "_version"}
