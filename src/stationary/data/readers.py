"""Readers: windows from a file with one row a window."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from stationary.data.checks import as_duration, input_names, listed, no_column
from stationary.data.cleaning import Cleaner, about
from stationary.data.moments import Pool
from stationary.data.states import Sampling, as_sampling
from stationary.data.tables import Table, open_table
from stationary.data.windows import Windows
from stationary.errors import InputError
from stationary.terms.categories import (
    Category,
    Observed,
    as_category,
    natural,
    parse_category,
    split_list,
)


def read_windows(
    path: str | os.PathLike[str],
    x: str | Sequence[str] = "load",
    counts: str | Mapping[str, Category] = "Q={}",
    observe: Iterable[Category] | None = None,
    sampling: Sampling | str | None = None,
    drop_empty: bool = False,
    loads: tuple[float | None, float | None] | None = None,
    duration: float | None = None,
    pooled: bool = False,
) -> Windows:
    r"""Read windows from a ``.csv``, ``.csv.gz``, ``.tsv`` or ``.parquet`` file, one row a window.

    A row with load 0 and no counts is an idle window: it is left out with a `DataWarning`.

    Parameters
    ----------
    path : path
        The file.
    x : str or sequence of str
        Columns of the inputs; the first is the load, which must be positive.
    counts : str or mapping
        A pattern with ``{}``: every column that matches counts the state (or the states, written
        ``1..20`` or ``1+3``) that ``{}`` stands for. Or a mapping from column to state or states;
        columns of the same states are added up.
    observe : sequence, optional
        Categories to keep; all by default.
    sampling : Sampling or str, optional
        How the counts were taken, see `Windows`. By default what the file says (those of
        `stationary.ingest` and `Windows.to_csv` do), and ``time`` where it says nothing.
    drop_empty : bool
        Leave out windows in which no kept category was seen, with a `DataWarning`.
    loads : (low, high), optional
        Keep only windows with a load in this range; None leaves an end open.
    duration : float, optional
        Length of every window, see `Windows`; by default what the file says, if it does.
    pooled : bool
        Add up windows of equal inputs as they are read, a batch at a time: for files larger than
        memory. The fit is the same, see `Windows.pooled`; what needs single windows is an error.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "windows.csv"
    >>> _ = file.write_text("rate,idle,one,more\n11,30,20,9\n12,28,21,11\n")
    >>> read_windows(file, x="rate", counts={"idle": 0, "one": 1, "more": range(2, 21)})
    Windows(2 windows, rate 11..12, categories 0, 1, 2..20, 119 counts, sampling=time)
    """
    if not isinstance(path, str | os.PathLike):
        raise InputError(f"name a file, as in 'windows.csv'; got {path!r}")
    inputs = input_names([x] if isinstance(x, str) else x)
    if sampling is not None:
        sampling = as_sampling(sampling)
    table = open_table(Path(path))
    sampling, duration = _how(table, sampling, duration)
    columns, categories = _choose_columns(table, inputs, counts)
    with about(table):
        cleaner = Cleaner(table, inputs, columns, categories, observe, loads, drop_empty)
    how = sampling, inputs
    if not pooled:
        x_values, y_values = cleaner.clean(*table.numbers([*inputs, *columns]))
        cleaner.close()
        return Windows(x_values, y_values, cleaner.observed, *how, duration=duration)
    pool = Pool(len(inputs), len(cleaner.observed))
    with about(table):
        for batch in table.batches([*inputs, *columns]):
            pool.add(*cleaner.clean(*batch))
    cleaner.close()
    x_values, y_values, moments = pool.sums()
    return Windows(x_values, y_values, cleaner.observed, *how, duration=duration, moments=moments)


def parse_counts(text: str) -> str | dict[str, Observed]:
    """Read the command line's ``--counts``.

    A pattern with ``{}`` is returned as it is. Otherwise the text is a list of ``column=states``,
    cut at the last ``=`` because columns may be called ``Q=21``; states are ``3``, ``overload``,
    ``1-20``, ``1..20`` or ``1+2+3``, or a condition in parentheses.

    Examples
    --------
    >>> parse_counts("Q=0=0,Q=21=overload,busy=1-3")
    {'Q=0': 0, 'Q=21': 'overload', 'busy': (1, 2, 3)}
    >>> parse_counts("idle=(q1 + q2 = 0),full=(min(q1, q2) >= 5)")
    {'idle': 'q1 + q2 = 0', 'full': 'min(q1, q2) >= 5'}
    """
    if "{}" in text:
        return text
    found: dict[str, Observed] = {}
    for item in split_list(text):
        inside = re.fullmatch(r"(.+?)=\s*(\(.+\))", item)  # a condition has signs of its own
        column, _, states = (part.strip() for part in item.rpartition("="))
        if inside:
            column, states = inside[1].strip(), inside[2][1:-1].strip()
        if not column or not states:
            raise InputError(
                f"counts: {item!r} is not column=states; write a pattern such as 'Q={{}}' "
                f"or a list such as 'idle=0,busy=1-20'"
            )
        if column in found:
            raise InputError(f"counts: column {column!r} is listed twice; list it once")
        found[column] = parse_category(states)
    return found


def parse_observe(text: str) -> list[Observed]:
    """Read the command line's ``--observe``: states separated by commas, ``2-5`` for four of them.

    Examples
    --------
    >>> parse_observe("0,2-5,overload")
    [0, 2, 3, 4, 5, 'overload']
    >>> parse_observe("q1 + q2 = 0, q1 > 0 & q2 = 0")
    ['q1 + q2 = 0', 'q1 > 0 & q2 = 0']
    """
    found: list[Observed] = []
    for item in split_list(text):
        if not item:
            raise InputError(f"observe: {text!r} has an empty item; write states such as '0,1,2-5'")
        states = parse_category(item)
        if isinstance(states, tuple) and "+" not in item:
            found.extend(states)
        else:  # what is joined by + is one category
            found.append(states)
    return found


def _how(
    table: Table, sampling: Sampling | None, duration: float | None
) -> tuple[Sampling, float | None]:
    """Return sampling and duration: as they were given, or as the file says."""
    facts = table.facts()
    with about(table):
        if sampling is None:
            sampling = as_sampling(facts.get("sampling", Sampling.TIME))
        if duration is None and "duration" in facts:
            duration = as_duration(facts["duration"])
    return sampling, duration


def _choose_columns(
    table: Table, inputs: Sequence[str], counts: str | Mapping[str, Category]
) -> tuple[list[str], list[Observed]]:
    """Columns with counts and the category of each."""
    present = table.columns()
    if isinstance(counts, str):
        with about(table):
            chosen = _match(counts, [name for name in present if name not in inputs])
    else:
        with about(table):
            chosen = [(column, as_category(states)) for column, states in counts.items()]
        if not chosen:
            raise InputError(f"{table.path}: counts is an empty mapping; name at least two columns")
    for name in [*inputs, *(column for column, _ in chosen)]:
        if name not in present:
            raise no_column(str(table.path), str(name), present)
        if present.count(name) > 1:
            raise InputError(
                f"{table.path}: column {name!r} is there {present.count(name)} times; rename or "
                f"remove all but one"
            )
    both = sorted(set(inputs) & {column for column, _ in chosen})
    if both:
        raise InputError(f"{table.path}: column {both[0]!r} cannot be an input and a count")
    return [column for column, _ in chosen], [category for _, category in chosen]


def _match(pattern: str, names: Sequence[str]) -> list[tuple[str, Observed]]:
    if pattern.count("{}") != 1:
        raise InputError(
            f"counts: the pattern {pattern!r} needs one {{}} where the state stands: 'Q={{}}'"
        )
    before, after = map(re.escape, pattern.split("{}"))
    matches = [(name, re.fullmatch(f"{before}(.+){after}", name)) for name in names]
    found = [(name, parse_category(match[1])) for name, match in matches if match]
    if not found:
        raise InputError(
            f"no column matches counts={pattern!r}; the other columns are: {listed(names)}"
        )
    return sorted(found, key=lambda item: natural(item[1]))
