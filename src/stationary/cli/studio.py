"""``stationary studio``: a plan in the browser."""

from __future__ import annotations

from pathlib import Path

from stationary.cli._options import command_of, use_one_thread
from stationary.cli._say import say
from stationary.errors import InputError, MissingError


@command_of
def studio(
    *,
    source: Path | None = None,
    output: Path = Path("stationary-studio"),
    port: int = 0,
    browser: bool = True,
) -> None:
    """Open a plan in the browser: see it, question it, change it. Nothing leaves this machine.

    stationary studio plan/

    stationary studio access.log

    Arguments
    ---------
    source: A saved plan, or a log or table to make one from; without it, start from an upload.

    Options
    -------
    output: Folder for the plans that are made in the studio.
    port: Port on 127.0.0.1; a free one by default.
    browser: Open the browser.
    """
    if not 0 <= port < 2**16:
        raise InputError(f"--port must be 0 to 65535, 0 for a free one; got {port}")
    use_one_thread()
    try:
        from stationary.studio.server import serve
    except ModuleNotFoundError as error:
        raise MissingError(
            f"the studio needs {error.name}: install it with pip install 'stationary[studio]'"
        ) from error
    from stationary.studio.answers import Asked
    from stationary.studio.library import Library

    is_plan = source is not None and source.is_dir()
    if source is not None and not source.exists():
        raise InputError(f"{source}: there is no such plan, log or table; check the path")
    library = Library(output, source if is_plan else None)
    if is_plan:
        view = library.view(next(iter(library.places())))
        view.facts("answer", Asked())  # so that the first page comes at once
    serve(library, None if is_plan else source, port, browser, say)
