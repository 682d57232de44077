"""Imports run one way, as docs/architecture.md says: no module needs itself, not even later."""

import ast
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "stationary"
FILES = {
    ".".join(("stationary", *file.relative_to(SOURCE).with_suffix("").parts)).removesuffix(
        ".__init__"
    ): file
    for file in SOURCE.rglob("*.py")
}


def is_outside(module):
    """The command line and the names at the top stand above all else."""
    return module == "stationary" or module.split(".")[1] in ("cli", "__main__")


def nodes(tree):
    """Everything in a file, but what only a type checker reads."""
    pending = [tree]
    while pending:
        node = pending.pop()
        yield node
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            pending += node.orelse
        else:
            pending += ast.iter_child_nodes(node)


def imports(module):
    """Modules of our own that a file imports, also inside functions."""
    file = FILES[module]
    package = module if file.name == "__init__.py" else module.rpartition(".")[0]
    for node in nodes(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) + 1 - node.level]
            base = ".".join([*above, *filter(None, [node.module])]) if node.level else node.module
            yield base
            yield from (f"{base}.{name.name}" for name in node.names)


def edges(module):
    """Modules that importing one imports, and the packages that they are in."""
    found = set()
    for name in imports(module):
        parts = name.split(".")
        found |= {".".join(parts[:k]) for k in range(1, len(parts) + 1)} & FILES.keys()
    # The own package is there already when one of its modules is imported.
    own = {".".join(module.split(".")[:k]) for k in range(1, module.count(".") + 2)}
    return {name for name in found - own if not is_outside(name)}


def find_cycle(graph):
    done, path = set(), []

    def visit(module):
        if module in path:
            return [*path[path.index(module) :], module]
        if module in done:
            return None
        path.append(module)
        for other in sorted(graph[module]):
            cycle = visit(other)
            if cycle:
                return cycle
        path.pop()
        done.add(module)
        return None

    return next(filter(None, map(visit, sorted(graph))), None)


def test_no_module_needs_itself():
    graph = {module: edges(module) for module in FILES if not is_outside(module)}
    assert len(graph) > 100
    assert find_cycle(graph) is None


def test_a_cycle_would_be_found():
    assert find_cycle({"a": {"b"}, "b": {"c"}, "c": {"a"}}) == ["a", "b", "c", "a"]
    assert find_cycle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) is None


def test_imports_inside_functions_count_and_those_for_types_do_not():
    assert "stationary.output.report" in edges("stationary.facade")  # inside a method
    assert "stationary.planning.limits" not in edges(
        "stationary.words.answers"
    )  # for its types alone
