"""From text to tree, by binding power (Pratt): every operator knows how tightly it binds."""

from __future__ import annotations

import math
from collections.abc import Iterable

from stationary.errors import did_you_mean
from stationary.models.rules.formulas.problems import ExpressionError
from stationary.models.rules.formulas.tokens import FUNCTIONS, Kind, Token, tokens
from stationary.models.rules.formulas.tree import (
    COMPARISONS,
    LEVELS,
    Apply,
    Expression,
    Name,
    Number,
    named,
)

DEEPEST = 150
"""Operations above one another, so that no text exhausts the stack of Python."""

_BINARY = {sign: level for sign, level in LEVELS.items() if sign not in ("not", "negative")}


def parse(text: str) -> Expression:
    """Read an expression.

    Examples
    --------
    >>> str(parse("-(q1+1)**2 <= K & !(q2 == 0)"))
    '-(q1 + 1) ^ 2 <= K and not q2 = 0'
    >>> parse("q1 +")
    Traceback (most recent call last):
    ...
    stationary.models.rules.formulas.problems.ExpressionError: line 1, column 5: a number, ...
      q1 +
          ^
    """
    parser = Parser(text)
    found = parser.expression()
    parser.finish()
    return found


class Parser:
    """Reads a text from left to right; a larger language asks it for the expressions inside.

    Parameters
    ----------
    text : str
        What to read.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._tokens = tokens(text)
        self._next = 0
        self._depth = 0

    @property
    def token(self) -> Token:
        """The token to be read next."""
        return self._tokens[self._next]

    def contains(self, sign: str) -> bool:
        """Whether a sign is still to come."""
        return any(t.kind is Kind.SIGN and t.text == sign for t in self._tokens[self._next :])

    def sees(self, *signs: str) -> bool:
        """Whether the next token is one of these signs."""
        return self.token.kind is Kind.SIGN and self.token.text in signs

    def advance(self) -> Token:
        """Read one token."""
        token = self.token
        self._next += token.kind is not Kind.END
        return token

    def take(self, *signs: str) -> Token:
        """Read one of these signs, or raise."""
        if not self.sees(*signs):
            raise self.problem(f"{' or '.join(map(repr, signs))} must stand here")
        return self.advance()

    def finish(self) -> None:
        """Raise unless all is read."""
        if self.token.kind is not Kind.END:
            raise self.problem("an operator or the end must stand here")

    def problem(self, reason: str, at: int | None = None) -> ExpressionError:
        """Return the error for what is wrong at the next token, or at a position."""
        if at is None:
            shown = repr(self.token.text) if self.token.kind is not Kind.END else "the end"
            reason, at = f"{reason}; got {shown}", self.token.at
        return ExpressionError(reason, self.text, at)

    def expression(self, least: int = 0) -> Expression:
        """Read an expression whose operators bind at least as tightly as a level."""
        self._depth += 1
        if self._depth > DEEPEST:
            raise self._too_deep(self.token.at)
        left = self._first()
        while self.token.kind is Kind.SIGN and _BINARY.get(self.token.text, -1) >= least:
            sign = self.advance()
            level = _BINARY[sign.text]
            right = self.expression(level if sign.text == "^" else level + 1)
            left = self._apply(sign.text, (left, right), sign.at)
        self._depth -= 1
        return left

    def _first(self) -> Expression:
        token = self.token
        if token.kind is Kind.NUMBER:
            value = float(token.text)
            if not math.isfinite(value):
                raise self.problem("a number this large cannot be computed with")
            self.advance()
            return Number(value, token.at)
        if token.kind is Kind.NAME:
            self.advance()
            if self.sees("("):
                raise self.problem(
                    f"there is no function {token.text!r}{did_you_mean(token.text, FUNCTIONS)}",
                    token.at,
                )
            return Name(token.text, token.at)
        if self.sees("("):
            self.advance()
            inner = self.expression()
            self.take(")")
            return inner
        if self.sees("-", "not"):
            self.advance()
            op = "negative" if token.text == "-" else "not"
            return self._apply(op, (self.expression(LEVELS[op]),), token.at)
        if self.sees(*FUNCTIONS):
            return self._call()
        raise self.problem("a number, a name or '(' must stand here")

    def _call(self) -> Expression:
        function = self.advance()
        self.take("(")
        args = [self.expression()]
        while self.sees(","):
            self.advance()
            args.append(self.expression())
        self.take(")")
        least, most = FUNCTIONS[function.text]
        if not least <= len(args) <= most:
            count = str(least) if least == most else f"{least} or more"
            raise self.problem(
                f"{function.text} takes {count} argument(s); got {len(args)}", function.at
            )
        return self._apply(function.text, tuple(args), function.at)

    def _apply(self, op: str, args: tuple[Expression, ...], at: int) -> Expression:
        """Return the operation, its arguments checked: numbers and conditions do not mix."""
        if op in COMPARISONS and args[0].boolean:
            raise self.problem(
                "comparisons cannot be chained: write 'a < b and b < c' for 'a < b < c'", at
            )
        if op in ("and", "or", "not"):
            self._check(args, True, op)
        elif op == "if":
            self._check(args[:1], True, "the first argument of if")
            if args[1].boolean != args[2].boolean:
                raise self.problem("both branches of if must be numbers, or both conditions", at)
        else:
            self._check(args, False, {"negative": "-"}.get(op, op))
        found = Apply(op, args, at)
        if found.depth > DEEPEST:
            raise self._too_deep(at)
        return found

    def _check(self, args: Iterable[Expression], boolean: bool, what: str) -> None:
        for arg in args:
            if arg.boolean != boolean:
                need, got = ("a condition", "a number") if boolean else ("a number", "a condition")
                hint = "" if boolean else "; write if(condition, 1, 0) to count it as one"
                raise self.problem(f"{what} needs {need} here, and this is {got}{hint}", arg.at)

    def _too_deep(self, at: int) -> ExpressionError:
        return ExpressionError(
            f"the expression is nested more than {DEEPEST} deep; simplify or split it",
            self.text,
            at,
        )


def check_names(expression: Expression, known: Iterable[str], text: str) -> None:
    """Raise unless every name is known, pointing at the first that is not."""
    names = list(known)
    for place in named(expression):
        if place.name not in names:
            raise ExpressionError(
                f"there is no {place.name!r} here{did_you_mean(place.name, names)}", text, place.at
            )
