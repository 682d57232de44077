"""Arguments of the wrong type, named in a sentence where a call fails.

Types are looked at only after a failure. So this costs nothing where all is well, and refuses
nothing that works.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sized
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import wraps
from numbers import Integral, Real
from types import NoneType, SimpleNamespace, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from stationary.errors import StationaryError, WrongTypeError

Explained = TypeVar("Explained", bound=Callable[..., Any])

_WORDS = {
    NoneType: "None",
    float: "a number",
    int: "a whole number",
    str: "a text",
    bool: "True or False",
}
_SEVERAL = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_NUMBERS: dict[Any, type] = {float: Real, int: Integral}


def explained(what: Explained) -> Explained:
    """Have a function, or the constructor and the public methods of a class, explain failures.

    Where a call fails and an argument is not of its declared type, a `WrongTypeError` says which.

    >>> @explained
    ... def wait(seconds: float, why: str | None = None) -> float:
    ...     return 2 * seconds + 1
    >>> wait("long")
    Traceback (most recent call last):
    stationary.errors.WrongTypeError: wait: seconds must be a number; got 'long'
    """
    if not isinstance(what, type):
        return _explained(what)
    for name, each in list(vars(what).items()):
        if name.startswith("_") and name not in ("__init__", "__post_init__"):
            continue
        if isinstance(each, classmethod | staticmethod):
            setattr(what, name, type(each)(_explained(each.__func__)))
        elif inspect.isfunction(each):
            setattr(what, name, _explained(each))
    return what


class Checked:
    """Base of classes whose subclasses explain failures, too, such as those of a user."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        explained(cls)


def _explained(function: Any) -> Any:
    if hasattr(function, "__wrapped__"):
        return function

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except (TypeError, ValueError, AttributeError, LookupError, RuntimeError) as error:
            if isinstance(error, StationaryError) and not isinstance(error, WrongTypeError):
                raise
            # Of calls within calls, the outermost names the argument that a user knows.
            wrong = _wrong_argument(function, args, kwargs)
            if wrong is None:
                raise
            raise WrongTypeError(wrong) from error

    return call


def _wrong_argument(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> str | None:
    """What to say of the first argument that is not of its declared type, if one is not."""
    owner, _, name = function.__qualname__.rpartition(".")
    kind = type(args[0]) if owner and args else type
    shown = kind.__name__ if owner and name.startswith("__") else name
    wrong = None if name == "__post_init__" else _wrong_of(function, args, kwargs, shown)
    if wrong is None and is_dataclass(kind):  # it may have been made from something wrong
        made = {each.name: getattr(args[0], each.name, None) for each in fields(kind) if each.init}
        wrong = _wrong_of(inspect.unwrap(kind.__init__), args[:1], made, kind.__name__)
    return wrong


def _wrong_of(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], shown: str
) -> str | None:
    try:
        signature = inspect.signature(function)
        given = signature.bind_partial(*args, **kwargs).arguments
    except TypeError:  # the call itself does not fit, and the error says how
        return None
    for argument, value in given.items():
        parameter = signature.parameters[argument]
        if parameter.annotation is parameter.empty or parameter.kind in _SEVERAL:
            continue
        wanted = SimpleNamespace(__annotations__={argument: parameter.annotation})
        with suppress(NameError):  # of a type that only type checkers import
            hint = get_type_hints(wanted, function.__globals__)[argument]
            if not _fits(value, hint):
                return f"{shown}: {argument} must be {_said(hint)}; got {value!r:.80}"
    return None


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value may be what a declared type says; what it does not know may be."""
    origin, inner = get_origin(hint) or hint, get_args(hint)
    if origin in (Union, UnionType):
        return any(_fits(value, each) for each in inner)
    if origin is Literal:
        return isinstance(value, str) and value in inner
    if not isinstance(origin, type) or origin is Any:  # a class from Python 3.11 on
        return True
    if origin in _NUMBERS:
        return isinstance(value, _NUMBERS[origin]) and not isinstance(value, bool)
    if issubclass(origin, os.PathLike):
        return isinstance(value, str | os.PathLike)
    if not inner or not issubclass(origin, Iterable):
        return isinstance(value, origin)
    if issubclass(origin, Mapping):
        found = isinstance(value, Mapping)
        return found and all(_fits(k, inner[0]) and _fits(v, inner[1]) for k, v in value.items())
    if not isinstance(value, Iterable) or isinstance(value, str | Mapping):
        return False
    if not isinstance(value, Sized):
        return True
    value = value.tolist() if hasattr(value, "tolist") else value  # of an array
    if origin is tuple and inner[-1] is not Ellipsis:
        return len(value) == len(inner) and all(map(_fits, value, inner))
    return all(_fits(each, inner[0]) for each in value)


def _said(hint: Any) -> str:
    """A declared type in words."""
    origin, inner = get_origin(hint) or hint, get_args(hint)
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(map(_said, inner)))
    if origin is Literal:
        return " or ".join(map(repr, inner))
    if origin in _WORDS:
        return _WORDS[origin]
    if origin is Callable or getattr(origin, "__name__", "") == "Callable":
        return "a function"
    if not isinstance(origin, type):
        return str(hint)
    if issubclass(origin, Mapping):
        return "a mapping"
    if issubclass(origin, Iterable) and inner:
        return f"a sequence, each of it {_said(inner[0])}"
    return "a path" if issubclass(origin, os.PathLike) else f"of type {origin.__name__}"
