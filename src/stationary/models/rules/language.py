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
from stationary.models.rules.formulas import CONNECTIVES, FUNCTIONS, Formula, number

RESERVED = frozenset({*FUNCTIONS, *CONNECTIVES, "at", "else", "lost"})
"""Words that cannot be names: those of formulas, and those of rules."""

_LONGEST = 4000
"""Characters of a text: a formula that people can read is far shorter."""
_DEEPEST = 150
"""Operations inside one another, so that no text exhausts the stack of Python."""

_PIECE = re.compile(
    r"(?P<space>\s+)"
    r"|(?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<word>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<sign>->|\*\*|<=|>=|==|!=|\+=|-=|[-+*/^()<>=!&|,])"
)
_PYTHON = {"^": "**", "=": "==", "&": "and", "|": "or", "!": "not"}
_PYTHON |= {word: word for word in CONNECTIVES}
_NODES: dict[type[ast.AST], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.Pow: "^",
    ast.USub: "negative",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "=",
    ast.NotEq: "!=",
    ast.And: "and",
    ast.Or: "or",
    ast.Not: "not",
}


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
    """Read a formula.

    Parameters
    ----------
    text : str
        What was written.
    names : collection of str
        Names that may occur.
    constants : mapping, optional
        Further names, which stand for numbers.
    condition : bool or None
        Whether it must be a condition, a number, or may be either (None).
    pieces : sequence of Piece, optional
        The part of the text to read, with the piece that follows it; by default all of it.

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
    formula = reader.formula(reader.parsed(), 1)
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
        self.python, self.origin = "", list[int]()
        for k, piece in enumerate(pieces):
            written = f"{self._written(piece)} " if piece is not pieces[-1] else " "
            self.python += written
            self.origin += [k] * len(written)  # the piece that each character came from

    def _written(self, piece: Piece) -> str:
        """Return a piece as Python has it."""
        if piece.kind == "word" and piece.text not in CONNECTIVES:
            return f"_{piece.text}"
        if piece.kind == "number":
            value = float(piece.text)
            if not math.isfinite(value):
                raise DescriptionError(
                    f"the number {piece.text} is too large to compute with",
                    text=self.text,
                    at=piece.at,
                )
            return repr(value)
        return _PYTHON.get(piece.text, piece.text)

    def parsed(self) -> ast.expr:
        """Return the tree of Python's parser."""
        try:
            return ast.parse(self.python.rstrip(), mode="eval").body
        except (RecursionError, MemoryError):
            raise self._too_deep(0) from None
        except SyntaxError as error:
            if "too many nested" in error.msg:
                raise self._too_deep(0) from None
            # Python reports an unexpected end as column 0.
            piece = self._piece(error.offset - 1) if error.offset else self.pieces[-1]
            reason = f"a number, a name or an operator is missing or misplaced at {piece.shown}"
            if "(" in error.msg or ")" in error.msg:
                reason = error.msg  # '(' was never closed
            raise DescriptionError(
                f"this is not a formula: {reason}", text=self.text, at=piece.at
            ) from None

    def formula(self, node: ast.expr, depth: int) -> Formula:
        """Return the formula of a node; a node that is not in the language is refused."""
        if depth > _DEEPEST:
            raise self._too_deep(node.col_offset)
        if isinstance(node, ast.Constant) and isinstance(node.value, float):
            return number(node.value)
        if isinstance(node, ast.Name):
            return self._named(node)
        op, args = self._operation(node)
        found = Formula(op, tuple(self.formula(arg, depth + 1) for arg in args))
        self._check_kinds(found, node, args)
        return found

    def _operation(self, node: ast.expr) -> tuple[str, Sequence[ast.expr]]:
        """Return the name of an operation, and what it is applied to."""
        match node:
            case ast.BinOp() if type(node.op) in _NODES:
                return _NODES[type(node.op)], (node.left, node.right)
            case ast.UnaryOp() if type(node.op) in _NODES:
                return _NODES[type(node.op)], (node.operand,)
            case ast.BoolOp():
                return _NODES[type(node.op)], node.values
            case ast.Compare(ops=[op]) if type(op) in _NODES:
                return _NODES[type(op)], (node.left, *node.comparators)
            case ast.Compare():
                raise self._problem(
                    "comparisons cannot be chained: write 'a < b and b < c' for 'a < b < c'",
                    node.comparators[1],
                )
            case ast.Call(func=ast.Name(), keywords=[]):
                return self._function(node), node.args
        raise self._problem("this is not part of the language of formulas", node)

    def _function(self, node: ast.Call) -> str:
        called = ast.unparse(node.func)[1:]
        if called not in FUNCTIONS:
            raise self._problem(
                f"there is no function {called!r}{did_you_mean(called, FUNCTIONS)}", node
            )
        least, most = FUNCTIONS[called][1:]
        if not least <= len(node.args) <= most:
            count = str(least) if least == most else f"{least} or more"
            raise self._problem(f"{called} takes {count} argument(s); got {len(node.args)}", node)
        return called

    def _named(self, node: ast.Name) -> Formula:
        called = node.id[1:]
        if called in self.constants:
            return number(self.constants[called])
        if called not in self.names:
            known = [*self.names, *self.constants]
            raise self._problem(f"there is no {called!r} here{did_you_mean(called, known)}", node)
        return Formula("name", (called,))

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
                raise self._problem(
                    f"{sign} needs {kinds[0]} here, and this is {kinds[1]}{hint}", place
                )

    def _piece(self, column: int) -> Piece:
        """Return the piece at a column of the Python text."""
        return self.pieces[self.origin[min(column, len(self.origin) - 1)]]

    def _problem(self, reason: str, node: ast.expr) -> DescriptionError:
        return DescriptionError(reason, text=self.text, at=self._piece(node.col_offset).at)

    def _too_deep(self, column: int) -> DescriptionError:
        return DescriptionError(
            f"the formula is nested more than {_DEEPEST} deep; simplify or split it",
            text=self.text,
            at=self._piece(column).at,
        )
