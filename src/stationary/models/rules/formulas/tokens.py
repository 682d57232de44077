"""Words and signs of a text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from stationary.models.rules.formulas.problems import ExpressionError

LONGEST = 4000
"""Characters of a text: a formula that people can read is far shorter."""

FUNCTIONS = {
    "min": (2, 100),
    "max": (2, 100),
    "mod": (2, 2),
    "if": (3, 3),
    "abs": (1, 1),
    "exp": (1, 1),
    "log": (1, 1),
    "sqrt": (1, 1),
    "floor": (1, 1),
    "ceil": (1, 1),
}
"""Functions, and how many arguments each takes at least and at most."""

RESERVED = frozenset({*FUNCTIONS, "and", "or", "not", "at", "else", "lost"})
"""Words that cannot be names: those of expressions, and those of rules made of them."""

_SAME = {"**": "^", "==": "=", "&": "and", "|": "or", "!": "not"}
_TOKEN = re.compile(
    r"(?P<space>\s+)"
    r"|(?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<word>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<sign>->|\*\*|<=|>=|==|!=|\+=|-=|[-+*/^()<>=!&|,])"
)


class Kind(StrEnum):
    """What a token is."""

    NUMBER = "number"
    NAME = "name"
    SIGN = "sign"  # reserved words, too
    END = "end"


@dataclass(frozen=True)
class Token:
    """A piece of a text, and where it stands; signs that mean the same are written the same."""

    kind: Kind
    text: str
    at: int


def tokens(text: str) -> list[Token]:
    """Cut a text into tokens, the last of which is its end."""
    if len(text) > LONGEST:
        raise ExpressionError(
            f"{len(text)} characters are too many for one expression (at most {LONGEST}); split it",
            text,
            LONGEST,
        )
    found, at = [], 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ExpressionError(f"{text[at]!r} means nothing here", text, at)
        piece, kind = match.group(), match.lastgroup
        if kind == "number":
            found.append(Token(Kind.NUMBER, piece, at))
        elif kind == "sign" or piece in RESERVED:
            found.append(Token(Kind.SIGN, _SAME.get(piece, piece), at))
        elif kind == "word":
            found.append(Token(Kind.NAME, piece, at))
        at = match.end()
    return [*found, Token(Kind.END, "", len(text))]
