"""The rules of docs/architecture.md: rooms, their order, what crosses between them."""

import ast

import pytest

from rooms import (
    FILES,
    GUESTS,
    ROOMS,
    SOURCE,
    TREES,
    imported_modules,
    imported_rooms,
    imports,
    picture,
    room,
)

MODULES = sorted(module for module in FILES if room(module) not in ("", "__main__", "_version"))
MOST_PARAMETERS = 10
ORDER = list(ROOMS)


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


def test_no_module_imports_itself_by_a_detour():
    graph = {
        module: imported_modules(module) for module in FILES if room(module) not in ("", "cli")
    }
    assert len(graph) > 100
    assert find_cycle(graph) is None


def test_a_cycle_would_be_found():
    assert find_cycle({"a": {"b"}, "b": {"c"}, "c": {"a"}}) == ["a", "b", "c", "a"]
    assert find_cycle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) is None


def test_imports_inside_functions_count_and_those_for_types_do_not():
    assert "stationary.output.report" in imported_modules("stationary.facade")  # in a method
    assert not imported_rooms("stationary.words.answers") - {"words"}  # for its types alone


def test_rooms_import_only_from_rooms_below():
    wrong = [
        (module, other)
        for module in MODULES
        for other in imported_rooms(module)
        if ORDER.index(other) > ORDER.index(room(module))
    ]
    assert wrong == []


def test_only_the_command_line_imports_guests():
    assert [
        m for m in MODULES if room(m) != "cli" and imported_rooms(m) & {*GUESTS} - {room(m)}
    ] == []


def test_guests_import_rooms_and_their_modules_only():
    assert [
        (module, base)
        for module in MODULES
        if room(module) in GUESTS
        for base, _ in imports(module)
        if room(base) != room(module) and base.count(".") > 2
    ] == []


def test_nothing_private_is_imported_across_rooms():
    wrong = [
        (module, base, name)
        for module in MODULES
        for base, name in imports(module)
        if room(base) not in ("", "_version", room(module))
        for part in [*base.split(".")[2:], name]
        if part.startswith("_")
    ]
    assert wrong == []


@pytest.mark.parametrize("module", [m for m in MODULES if room(m) != "cli"])
def test_public_functions_have_few_parameters(module):
    wide = [
        node.name
        for node in ast.walk(TREES[module])
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
        if len([a for a in node.args.args + node.args.kwonlyargs if a.arg != "self"])
        > MOST_PARAMETERS
    ]
    assert wide == []


def test_the_picture_of_the_rooms_is_that_of_the_imports():
    drawn = (SOURCE.parents[1] / "docs" / "images" / "rooms.svg").read_text(encoding="utf-8")
    assert drawn == picture(), "run `make pictures`"


def test_rooms_do_not_outgrow_their_lines():
    lines = dict.fromkeys(ROOMS, 0)
    for module in MODULES:
        lines[room(module)] += len(FILES[module].read_text(encoding="utf-8").splitlines())
    assert {name: count for name, count in lines.items() if count > ROOMS[name]} == {}
