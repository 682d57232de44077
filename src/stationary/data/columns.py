"""Which columns of a table are counts, and of which states; known before torch is loaded."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from stationary.data.tables import Table
from stationary.errors import InputError, did_you_mean
from stationary.terms.categories import Category, Observed, as_category, natural, parse_category
from stationary.words import listed

Columns = str | Mapping[str, Category] | Sequence[str]
"""Which columns are counts, and of what, as users say it."""


@contextmanager
def about(table: Table) -> Iterator[None]:
    """Put the table's name in front of errors from checks that do not know it."""
    try:
        yield
    except InputError as error:
        if str(error).startswith(table.name):
            raise
        raise InputError(f"{table.name}: {error}") from None


def choose_columns(
    table: Table, inputs: Sequence[str], counts: Columns, optional: bool
) -> dict[str, Observed]:
    """Return the category of every column with counts; an optional pattern may match none."""
    if isinstance(counts, str):
        chosen = _match(counts, [name for name in table.columns if name not in inputs], optional)
    else:
        if not isinstance(counts, Mapping):
            counts = {column: state for state, column in enumerate(counts)}
        chosen = {column: as_category(states) for column, states in counts.items()}
    if not chosen and not (optional and isinstance(counts, str)):
        raise InputError("counts names no column; name at least two")
    for name in [*inputs, *chosen]:
        if name not in table.columns:
            raise InputError(f"there is no column {name!r}{did_you_mean(str(name), table.columns)}")
        if name in inputs and name in chosen:
            raise InputError(f"column {name!r} cannot be an input and a count")
    check_once(table, [*inputs, *chosen])
    return chosen


def check_once(table: Table, names: Sequence[str]) -> None:
    """Raise unless every column is there once."""
    for name in names:
        if table.columns.count(name) > 1:
            raise InputError(
                f"column {name!r} is there {table.columns.count(name)} times; rename or remove all "
                f"but one"
            )


def _match(pattern: str, names: Sequence[str], optional: bool) -> dict[str, Observed]:
    if pattern.count("{}") != 1:
        raise InputError(
            f"counts: the pattern {pattern!r} needs one {{}} where the state stands: 'Q={{}}'"
        )
    before, after = map(re.escape, pattern.split("{}"))
    matches = {name: re.fullmatch(f"{before}(.+){after}", name) for name in names}
    found = {name: parse_category(match[1]) for name, match in matches.items() if match}
    if not found and not optional:
        raise InputError(
            f"no column matches counts={pattern!r}; "
            + (f"the other columns are: {listed(names, 30)}" if names else "there are no others")
        )
    return dict(sorted(found.items(), key=lambda item: natural(item[1])))
