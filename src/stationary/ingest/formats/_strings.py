"""Formats of lines as nginx (``log_format``) and Apache (``LogFormat``) write them."""

from __future__ import annotations

import re

from stationary.errors import InputError
from stationary.ingest.formats._base import LogLines

_NGINX = {
    "time_local": "{clock}",
    "time_iso8601": "{clock}",
    "msec": "{epoch}",
    "request_time": "{took:s}",
    "status": "{status}",
    "request": "{request}",
    "request_method": "{method}",
    "uri": "{path}",
    "request_uri": "{path}",
    "host": "{host}",
}
_APACHE = {
    "t": "[{clock}]",
    "{clock}t": "{clock}",
    "{sec}t": "{epoch}",
    "{msec}t": "{epoch}",
    "{usec}t": "{epoch}",
    "D": "{took:us}",
    "T": "{took:s}",
    "{s}T": "{took:s}",
    "{ms}T": "{took:ms}",
    "{us}T": "{took:us}",
    "s": "{status}",
    "r": "{request}",
    "m": "{method}",
    "U": "{path}",
    "v": "{host}",
}
_PARTS = re.compile(r"%\{%d/%b/%Y:%(?:T|H:%M:%S)\}t(?:\.%\{[mu]sec_frac\}t)?(?: %\{%z\}t)?")
"""A time that is put together from its parts."""


def nginx_string(text: str) -> LogLines:
    """Return the format of a ``log_format``; its times are the ends of requests."""
    return _format(text, r"\$(?:(\w+)|\{(\w+)\})", _NGINX, ends=True)


def apache_string(text: str) -> LogLines:
    """Return the format of a ``LogFormat``; its times are those at which requests came."""
    plain = _PARTS.sub("%{clock}t", text.replace(r"\"", '"'))
    return _format(plain, r"%[<>!,\d]*((?:\{[^}]*\})?(?:\^\w\w|[a-zA-Z%]))", _APACHE, ends=False)


def _format(text: str, words: str, known: dict[str, str], ends: bool) -> LogLines:
    seen = set[str]()

    def field(word: re.Match[str]) -> str:
        called = next(filter(None, word.groups()))
        found = known.get(called, "{:list}" if called.startswith("upstream_") else "{}")
        name = re.sub(r".*\{(\w*).*", r"\1", found)
        if name and name in seen:
            return "{}"
        seen.add(name)
        return found

    layout = re.sub(words, field, text)
    if not ({"clock", "epoch"} & seen and {"took", "status"} <= seen):
        raise InputError(
            f"the format string {text!r} must have a time, a response time and a status: "
            + ("$msec, $request_time, $status" if ends else "%t, %D, %>s")
        )
    return LogLines(f"of the form {text!r}", (layout,), ends)
