"""Windows from a file with one row per window."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from stationary._support.arguments import explained
from stationary.data.columns import Columns, about
from stationary.data.rows import Rows
from stationary.data.states import Sampling, as_sampling
from stationary.data.tables import open_table
from stationary.data.windows import Windows
from stationary.terms.categories import Category


@explained
def read_windows(
    path: str | os.PathLike[str],
    x: str | Sequence[str] = "load",
    counts: Columns = "Q={}",
    observe: Iterable[Category] | None = None,
    sampling: Sampling | str | None = None,
    drop_empty: bool = False,
    loads: tuple[float | None, float | None] | None = None,
    duration: float | None = None,
    pooled: bool = False,
    latency: str | None = None,
) -> Windows:
    r"""Read windows from a ``.csv``, ``.csv.gz``, ``.tsv`` or ``.parquet`` file.

    A row with load 0 and no counts is an idle window: it is left out with a `DataWarning`.

    Parameters
    ----------
    path : path
        The file.
    x : str or sequence of str
        Columns of the inputs; the first is the load, which must be positive.
    counts : str, mapping or sequence of str
        A pattern with ``{}``: every column that matches counts the state (or the states, written
        ``1..20`` or ``1+3``) that ``{}`` stands for. Or a mapping from column to state or states;
        columns of the same states are added up. Or columns that count the states 0, 1, 2 and so on.
    observe : sequence, optional
        Categories to keep; all by default.
    sampling : Sampling or str, optional
        How the counts were taken, see `Windows`. By default what the file says (those of
        `stationary.ingest` and `Windows.to_csv` do), and ``time`` where it says nothing.
    drop_empty : bool
        Leave out windows without counts in the kept categories, with a `DataWarning`.
    loads : (low, high), optional
        Keep only windows with a load in this range; None leaves an end open.
    duration : float, optional
        Length of every window, see `Windows`; by default the column ``duration``, or what the first
        line of the file says of all windows, times a column ``windows`` where rows add up several.
    pooled : bool
        Add up windows of equal inputs as they are read, a batch at a time: for files larger than
        memory. The fit is the same, see `Windows.pooled`; what needs single windows is an error.
    latency : str, optional
        Pattern of the columns of a latency histogram, as in ``rt_{}``: times up to the edge that
        ``{}`` stands for, such as ``0.1ms`` or ``more``, and above the one before. By default
        columns named ``rt_...``, if there are any.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "windows.csv"
    >>> _ = file.write_text("rate,idle,one,more\n11,30,20,9\n12,28,21,11\n")
    >>> read_windows(file, x="rate", counts={"idle": 0, "one": 1, "more": range(2, 21)})
    Windows(2 windows, rate 11..12, categories 0, 1, 2..20, 119 counts, sampling=time)
    """
    sampling = None if sampling is None else as_sampling(sampling)
    table = open_table(path)
    with about(table):
        if sampling is None:
            sampling = as_sampling(table.metadata.get("sampling", Sampling.TIME))
    rows = Rows(table, x, counts, observe, loads, drop_empty, latency)
    return Windows(**rows.windows(duration, pooled), sampling=sampling)
