"""Addresses of servers, which may hold a password that no message may show."""

from __future__ import annotations

import base64
import urllib.parse

from stationary.errors import InputError

_WRITTEN = "characters of a password such as @ / : # ? are written %40 %2F %3A %23 %3F"


def parse_database(url: str) -> dict[str, str]:
    """Return the parts of an address of PostgreSQL, as its driver takes them.

    An error does not repeat the address: where it cannot be read, any part may be the password.
    """
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    try:
        parts = {name: str(value) for name, value in conninfo_to_dict(url).items()}
    except psycopg.Error:
        parts = {"host": "@"}
    # What follows an @ or a / in a password is taken for the host, the port or the database.
    if any("@" in parts.get(name, "") for name in ("host", "port", "dbname")):
        raise InputError(
            f"the address of the database cannot be read; it is written "
            f"postgresql://user:password@host:5432/database, and {_WRITTEN}"
        )
    return parts


def database_name(url: str) -> str:
    """Return the name of the database for a message."""
    try:
        return parse_database(url).get("dbname", "the database")
    except (ImportError, InputError):
        return "the database"


def parse_web(url: str, expected: str) -> tuple[str, dict[str, str]]:
    """Return an HTTP address without user and password, and the headers that hold those.

    The address is as in ``http://user:password@host:9090``, and a path may follow the host. An
    error says how it is written (``expected``).
    """
    parts = urllib.parse.urlsplit(url)
    user, _, host = parts.netloc.rpartition("@")
    try:
        valid = parts.scheme in ("http", "https") and bool(parts.hostname)
        _ = parts.port
    except ValueError:
        valid = False
    if not valid or parts.query or parts.fragment or "@" in parts.path:
        hint = f"; {_WRITTEN}" if "@" in url or parts.query else f"; got {url!r}"
        raise InputError(f"{expected}{hint}")
    plain = urllib.parse.urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))
    if not user:
        return plain, {}
    token = base64.b64encode(urllib.parse.unquote(user).encode()).decode("ascii")
    return plain, {"Authorization": f"Basic {token}"}
