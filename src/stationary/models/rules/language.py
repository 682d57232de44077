"""From text to `Formula`: Python's parser groups the text, and few kinds of nodes are allowed.

The text is cut into words and signs first, and whatever is not one of ours is refused. Each piece
is then written as Python: ``^`` as ``**``, ``=`` as ``==``, and every name behind an underscore, so
that no name is a keyword of Python. `ast.parse` does the rest; nothing is executed.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from stationary.errors import did_you_mean
from stationary.models.rules.errors import DescriptionError
from stationary.models.rules.formulas import (
    CONNECTIVES,
    FUNCTIONS,
    OPERATORS,
    Formula,
    name,
    number,
)

RESERVED = frozenset({*FUNCTIONS, *CONNECTIVES, "at", "else", "lost"})
"""Words that cannot be names: those of formulas, and those of rules."""

_LONGEST = 4000
"""Characters of a text: a formula that people can read is far shorter."""
_DEEPEST = 150
"""Operations inside one another, so that no text exhausts the stack of Python."""
_TOO_DEEP = f"the formula is nested more than {_DEEPEST} deep; simplify or split it"

_PIECE = re.compile(
    r"(?P<space>\s+)"
    r"|(?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<word>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<sign>->|\*\*|<=|>=|==|!=|\+=|-=|[-+*/^()<>=!&|,])"
)
_PYTHON = {"^": "**", "=": "==", "&": "and", "|": "or", "!": "not"}
_PYTHON |= {word: word for word in CONNECTIVES}
_SIGNS = {node: sign for sign, (node, _) in OPERATORS.items()}


class Piece(NamedTuple):
    """A number, word or sign of a text, and its position; the last piece is the empty end."""

    text: str
    at: int
    kind: str = "end"

    @property
    def shown(self) -> str:
        """The piece, as a message shows it."""
        return repr(self.text) if self.text else "the end"


def cut(text: str) -> list[Piece]:
    """Cut a text into pieces, of which the last is its end."""
    if len(text) > _LONGEST:
        raise DescriptionError(
            f"{len(text)} characters are too many for one formula (at most {_LONGEST}); split it",
            text=text,
            at=_LONGEST,
        )
    pieces, at = [], 0
    while at < len(text):
        match = _PIECE.match(text, at)
        if match is None:
            raise DescriptionError(f"{text[at]!r} means nothing here", text=text, at=at)
        if match.lastgroup != "space":
            pieces.append(Piece(match.group(), at, str(match.lastgroup)))
        at = match.end()
    return [*pieces, Piece("", len(text))]


def parse(
    text: str,
    names: Collection[str],
    constants: Mapping[str, float] | None = None,
    condition: bool | None = False,
    pieces: Sequence[Piece] | None = None,
) -> Formula:
    """Read a formula of names and of constants, which become numbers.

    It must be a ``condition``, a number, or may be either (None). Of a part of the text there are
    its ``pieces``, with the one that follows them.

    Examples
    --------
    >>> parse("2 * q ^ 2 < K", ["q"], {"K": 8}, condition=True).names
    frozenset({'q'})
    >>> parse("q +", ["q"])
    Traceback (most recent call last):
    ...
    stationary.models.rules.errors.DescriptionError: line 1, column 4: this is not a formula: ...
      q +
         ^
    """
    pieces = cut(text) if pieces is None else pieces
    reader = _Reader(text, pieces, names, constants or {})
    formula = reader.formula(reader.parsed())
    if condition is not None and formula.boolean != condition:
        need = "a condition, such as q > 0" if condition else "a number, not a condition"
        raise DescriptionError(f"this must be {need}", text=text, at=pieces[0].at)
    written = text[pieces[0].at : pieces[-1].at].strip()
    return Formula(formula.op, formula.args, written)


class _Reader:
    """Turns pieces of a text into Python's tree, and that tree into a formula."""

    def __init__(
        self,
        text: str,
        pieces: Sequence[Piece],
        names: Collection[str],
        constants: Mapping[str, float],
    ) -> None:
        self.text, self.pieces = text, pieces
        self.names, self.constants = names, constants
        self.columns = list[Piece]()  # the piece from which each character of the Python text came

    def parsed(self) -> ast.expr:
        """Return the tree of Python's parser."""
        python = ""
        for piece in self.pieces[:-1]:
            written = f"{self._written(piece)} "
            python += written
            self.columns += [piece] * len(written)
        try:
            return ast.parse(python.rstrip(), mode="eval").body
        except (RecursionError, MemoryError):
            raise self._problem(_TOO_DEEP, 0) from None
        except SyntaxError as error:
            if "too many nested" in error.msg:
                raise self._problem(_TOO_DEEP, 0) from None
            # Python reports an unexpected end as column 0.
            column = error.offset - 1 if error.offset else len(python)
            reason = "a number, a name or an operator is missing or misplaced"
            if "(" in error.msg or ")" in error.msg:
                reason = error.msg  # '(' was never closed
            shown = self._piece(column).shown
            raise self._problem(f"this is not a formula: {reason} at {shown}", column) from None

    def _written(self, piece: Piece) -> str:
        """Return a piece as Python has it."""
        if piece.kind == "word" and piece.text not in CONNECTIVES:
            return f"_{piece.text}"
        if piece.kind != "number":
            return _PYTHON.get(piece.text, piece.text)
        if not math.isfinite(float(piece.text)):
            reason = f"the number {piece.text} is too large to compute with"
            raise DescriptionError(reason, text=self.text, at=piece.at)
        return repr(float(piece.text))

    def formula(self, node: ast.expr, depth: int = 1) -> Formula:
        """Return the formula of a node; a node that is not in the language is refused."""
        if depth > _DEEPEST:
            raise self._problem(_TOO_DEEP, node)
        match node:
            case ast.Constant(value=float(value)):
                return number(value)
            case ast.Name():
                return self._named(node)
            case ast.BinOp() | ast.UnaryOp() | ast.BoolOp():
                op = _SIGNS.get(type(node.op), "")
                args = [part for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr)]
            case ast.Compare(ops=[one]):
                op, args = _SIGNS.get(type(one), ""), [node.left, *node.comparators]
            case ast.Compare():
                reason = "comparisons cannot be chained: write 'a < b and b < c' for 'a < b < c'"
                raise self._problem(reason, node.comparators[1])
            case ast.Call(func=ast.Name(id=called), args=args, keywords=[]):
                op = self._function(called[1:], node)
            case _:
                op, args = "", []
        if not op:
            raise self._problem("this is not part of the language of formulas", node)
        found = Formula(op, tuple(self.formula(arg, depth + 1) for arg in args))
        self._check_kinds(found, node, args)
        return found

    def _named(self, node: ast.Name) -> Formula:
        called = node.id[1:]
        if called in self.constants:
            return number(self.constants[called])
        if called not in self.names:
            known = did_you_mean(called, [*self.names, *self.constants])
            raise self._problem(f"there is no {called!r} here{known}", node)
        return name(called)

    def _function(self, called: str, node: ast.Call) -> str:
        if called not in FUNCTIONS:
            known = did_you_mean(called, FUNCTIONS)
            raise self._problem(f"there is no function {called!r}{known}", node)
        _, least, most = FUNCTIONS[called]
        if not least <= len(node.args) <= most:
            count = str(least) if least == most else f"{least} or more"
            raise self._problem(f"{called} takes {count} argument(s); got {len(node.args)}", node)
        return called

    def _check_kinds(self, found: Formula, node: ast.expr, args: Sequence[ast.expr]) -> None:
        """Raise if numbers and conditions are mixed."""
        if found.op == "if" and found.args[1].boolean != found.args[2].boolean:
            raise self._problem("both branches of if must be numbers, or both conditions", node)
        checked = 1 if found.op == "if" else len(args)
        need = found.op == "if" or found.op in CONNECTIVES
        for part, place in zip(found.args[:checked], args, strict=False):
            if part.boolean != need:
                hint = "" if need else "; write if(condition, 1, 0) to count it as one"
                kinds = ("a condition", "a number") if need else ("a number", "a condition")
                sign = {"negative": "-", "if": "the first argument of if"}.get(found.op, found.op)
                reason = f"{sign} needs {kinds[0]} here, and this is {kinds[1]}{hint}"
                raise self._problem(reason, place)

    def _piece(self, column: int) -> Piece:
        return self.columns[column] if column < len(self.columns) else self.pieces[-1]

    def _problem(self, reason: str, where: ast.expr | int) -> DescriptionError:
        column = where if isinstance(where, int) else where.col_offset
        return DescriptionError(reason, text=self.text, at=self._piece(column).at)
