"""The rooms of the house and the imports between them, read from the source."""

import ast
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "stationary"

ROOMS = {
    "errors": 105,
    "words": 1890,
    "terms": 745,
    "_support": 740,
    "edges": 185,
    "generator": 280,
    "solvers": 3275,
    "spectrum": 120,
    "gradients": 860,
    "steady": 130,
    "models": 7525,
    "data": 3085,
    "ingest": 5350,
    "simulation": 750,
    "learning": 3770,
    "trust": 2785,
    "planning": 1815,
    "output": 2055,
    "facade": 425,
    "planner": 305,
    "testbed": 1630,
    "paper": 2315,
    "studio": 1450,
    "cli": 3835,
}
"""From the ground up: a room imports only from rooms that stand before it.

With the most lines that each may have: to raise a number is a decision, made in the same commit.
"""

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


FLOORS = {
    "front: errors, words, terms": ("errors", "words", "terms"),
    "_support": ("_support",),
    "chains: generator, solvers, gradients": (
        *("edges", "generator", "solvers", "spectrum", "gradients", "steady"),
    ),
    "models": ("models",),
    "data": ("data",),
    "ingest": ("ingest",),
    "simulation": ("simulation",),
    "learning": ("learning",),
    "trust": ("trust",),
    "planning": ("planning",),
    "output": ("output",),
    "facade: Plan, fit, compare, plan": ("facade", "planner"),
    "testbed": ("testbed",),
    "paper": ("paper",),
    "studio": ("studio",),
    "cli": ("cli",),
}
"""Rooms as the picture shows them, from the ground up."""


def arrows():
    """Pairs of floors, from one that imports to one that it imports, without detours."""
    floor = {name: label for label, names in FLOORS.items() for name in names}
    direct = {label: set() for label in FLOORS}
    for module in FILES:
        if room(module) in floor:
            direct[floor[room(module)]] |= {floor[other] for other in imported_rooms(module)}
    if "cli" in direct:  # which `imported_modules` leaves out as a target
        direct["cli"].discard("cli")
    reach = {}
    for label in FLOORS:
        below = direct[label] - {label}
        reach[label] = below | {far for near in below for far in reach.get(near, ())}
    return [
        (label, other)
        for label in FLOORS
        for other in direct[label] - {label}
        if not any(other in reach[near] for near in direct[label] - {label, other})
    ]


def picture():
    """The rooms as an SVG, drawn from the imports."""
    labels = list(FLOORS)[::-1]
    height, width, left = 34, 330, 20
    top = {label: 12 + 44 * k for k, label in enumerate(labels)}
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 620 {12 + 44 * len(labels)}" '
        'font-family="sans-serif" font-size="15">',
        '<rect width="100%" height="100%" fill="white"/>',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        'markerHeight="7" orient="auto"><path d="M0 0 8 4 0 8z" fill="#4a6785"/></marker></defs>',
    ]
    for label in labels:
        y = top[label]
        lines.append(
            f'<rect x="{left}" y="{y}" width="{width}" height="{height}" rx="5" fill="#eaf1f8" '
            f'stroke="#4a6785"/><text x="{left + 14}" y="{y + 22}" fill="#1c2b39">{label}</text>'
        )
    for upper, lower in sorted(arrows(), key=lambda pair: (top[pair[0]], top[pair[1]])):
        start, end = top[upper] + height / 2 + 5, top[lower] + height / 2 - 5
        x, bend = left + width, left + width + 12 + 0.45 * (end - start)
        lines.append(
            f'<path d="M{x} {start:g} C{bend:g} {start:g} {bend:g} {end:g} {x} {end:g}" '
            'fill="none" stroke="#4a6785" marker-end="url(#tip)"/>'
        )
    return "\n".join([*lines, "</svg>", ""])


if __name__ == "__main__":
    target = Path(__file__).parent.parent / "docs" / "images" / "rooms.svg"
    target.write_text(picture(), encoding="utf-8")
