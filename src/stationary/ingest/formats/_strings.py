"""Formats of lines as nginx (``log_format``) and Apache (``LogFormat``) write them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import ibis

from stationary.errors import InputError
from stationary.ingest.formats import _lines
from stationary.ingest.formats._base import Format, LogLines
from stationary.terms.spans import Unit

_REQUEST = r"(?P<method>[A-Za-z]*) ?(?P<path>[^ ?\"]*)(?:[^\"\\]|\\.)*"
_NGINX = {
    "time_local": _lines.STAMP + _lines.ZONE,
    "time_iso8601": _lines.ISO,
    "msec": r"(?P<epoch>\d+\.\d+)",
    "request_time": r"(?P<s>[\d.]+|-)",
    "status": r"(?P<status>\d{3}|-)",
    "request": _REQUEST,
    "request_method": r"(?P<method>\S*)",
    "uri": r"(?P<path>[^ ?]*)\S*",
    "request_uri": r"(?P<path>[^ ?]*)\S*",
    "host": r"(?P<host>\S*)",
}
_APACHE = {
    "t": rf"\[{_lines.STAMP}{_lines.ZONE}\]",
    "{%d/%b/%Y:%T}t": r"(?P<clock>\d{2}/[A-Za-z]{3}/\d{4}:\d{2}:\d{2}:\d{2})",
    "{%d/%b/%Y:%H:%M:%S}t": r"(?P<clock>\d{2}/[A-Za-z]{3}/\d{4}:\d{2}:\d{2}:\d{2})",
    "{usec_frac}t": r"(?P<after_point>\d{6})",
    "{msec_frac}t": r"(?P<after_point>\d{3})",
    "{%z}t": r"(?P<zone>[+-]\d{4})",
    "D": r"(?P<us>\d+|-)",
    "T": r"(?P<s>\d+|-)",
    "{s}T": r"(?P<s>\d+|-)",
    "{ms}T": r"(?P<ms>\d+|-)",
    "{us}T": r"(?P<us>\d+|-)",
    "s": r"(?P<status>\d{3}|-)",
    "r": _REQUEST,
    "m": r"(?P<method>\S*)",
    "U": r"(?P<path>\S*)",
    "v": r"(?P<host>\S*)",
}
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6}


def nginx_string(text: str) -> Format:
    """Return the format of a ``log_format``; its times are the ends of requests."""
    names = {f"${name}": group for name, group in _NGINX.items()}
    return _format(text, r"\$\w+|\$\{\w+\}", lambda word: names.get(re.sub("[{}]", "", word)), True)


def apache_string(text: str) -> Format:
    """Return the format of a ``LogFormat``; its times are the begins of requests."""
    return _format(
        text.replace(r"\"", '"'),
        r"%[<>!,\d]*(?:\{[^}]*\})?[a-zA-Z%^]+?(?![a-z])|%[<>]?[a-zA-Z]",
        lambda word: _APACHE.get(re.sub(r"^%[<>!,\d]*", "", word)),
        False,
    )


def _format(text: str, words: str, group_of: Any, ends: bool) -> Format:
    pattern, last, seen = "^", 0, set[str]()
    for word in re.finditer(words, text):
        pattern += re.escape(text[last : word.start()])
        last = word.end()
        group = group_of(word[0])
        names = set(re.findall(r"\(\?P<(\w+)>", group or ""))
        if group is None or names & seen:
            after = text[last : last + 1]
            group = r"(?:[^\"\\]|\\.)*" if after == '"' else (".*" if not after else ".*?")
        else:
            seen |= names
        pattern += f"(?:{group})"
    pattern += re.escape(text[last:]) + "$"
    timed = [unit for unit in _SECONDS if unit in seen]
    if not ({"clock", "epoch"} & seen and timed and "status" in seen):
        raise InputError(
            f"the format string {text!r} must have a time, a response time and a status: "
            + ("$msec, $request_time, $status" if ends else "%t, %D, %>s")
        )

    def read(backend: Any, files: Sequence[str]) -> Any:
        table = _lines.fields(backend, files, pattern)
        if "after_point" in seen:
            table = table.mutate(fraction=ibis.literal(".") + table.after_point)
        elif "fraction" not in seen:
            table = table.mutate(fraction=ibis.literal(""))
        took = _lines.micros(table[timed[0]], _SECONDS[timed[0]])
        time = ibis.null("int64")
        if "clock" in seen:
            zone = table.zone if "zone" in seen else None
            parts = table.clock, table.fraction, zone
            time = ibis.coalesce(_lines.stamp(*parts), _lines.iso(*parts))
        if "epoch" in seen:
            time = ibis.coalesce(_lines.micros(table.epoch), time)
        fine = ibis.literal(True) if "epoch" in seen else table.fraction != ""
        return table.select(
            "line",
            *(name for name in ("status", "method", "path", "host") if name in seen),
            arrival=time - (ibis.coalesce(took, 0) if ends else 0),
            response=took,
            fine=fine,
        )

    done = "those at which requests were done; arrivals are earlier by the response time"
    rules = LogLines(f"of the form {text!r}", pattern, done if ends else "those at which they came")
    return Format(read, Unit.US, lines=rules)
