"""What commands print: text that came from a file is shown, and never steers the terminal."""

from __future__ import annotations

import unicodedata

import typer

_STEERING = {"Cc", "Cf", "Cs", "Zl", "Zp"}
"""Categories of Unicode that move the cursor, change colours, or turn the direction of text."""


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
    typer.echo(printable(text), err=err, nl=nl)
