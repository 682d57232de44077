"""What commands print: text that came from a file is shown, and never steers the terminal."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
import unicodedata

import typer

_STEERING = {"Cc", "Cf", "Cs", "Zl", "Zp"}
"""Categories of Unicode that move the cursor, change colours, or turn the direction of text."""

_BROKEN_PIPE = 128 + 13  # what a shell reports of a program that the signal of a broken pipe ended


def printable(text: str) -> str:
    r"""Write control characters as escapes, as in ``\x1b``; lines and tabs stay."""
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return "".join(
        repr(c)[1:-1] if unicodedata.category(c) in _STEERING and c not in "\n\t" else c
        for c in text
    )


def say(text: str = "", err: bool = False, nl: bool = True) -> None:
    """Print a text; the only way in which a command does."""
    write(printable(text), err, nl)


def prose(text: str, hang: str = "") -> None:
    """Print sentences, broken into lines that fit the terminal, or 80 columns where there is none.

    Lines after the first stand under its beginning, or as far right as ``hang`` is long.
    """
    width = shutil.get_terminal_size().columns
    for line in text.splitlines() or [""]:
        indent = hang or line[: len(line) - len(line.lstrip())]
        say(
            textwrap.fill(
                line,
                width,
                subsequent_indent=indent,
                break_long_words=False,
                break_on_hyphens=False,
            )
        )


def write(text: str, err: bool = False, nl: bool = True) -> None:
    """Print what steers the terminal on purpose, such as a bold title.

    Where nobody reads any more, as after ``| head``, the command ends as others do: by the exit
    code of a broken pipe. It must not be 1, which is an answer.
    """
    try:
        typer.echo(text, err=err, nl=nl)
    except BrokenPipeError:
        closed = sys.stderr if err else sys.stdout
        os.dup2(os.open(os.devnull, os.O_WRONLY), closed.fileno())  # so that its end is quiet, too
        raise SystemExit(_BROKEN_PIPE) from None
