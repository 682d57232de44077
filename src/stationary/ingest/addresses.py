"""Addresses of servers, which may hold a password that no message may show."""

from __future__ import annotations

import base64
import urllib.parse
from dataclasses import dataclass, field

from stationary.errors import InputError

_WRITTEN = "characters of a password such as @ / : # ? are written %40 %2F %3A %23 %3F"


def parse_database(url: str) -> dict[str, str]:
    """Return the parts of an address of PostgreSQL, as its driver takes them.

    An error does not repeat the address: where it cannot be read, nobody knows which part of it is
    the password.
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


@dataclass(frozen=True)
class Web:
    """An address of a server of HTTP, apart from who asks.

    Attributes
    ----------
    url : str
        Without user and password.
    headers : dict
        What tells the server who asks; empty where the address does not say it.
    """

    url: str
    headers: dict[str, str] = field(default_factory=dict, repr=False)


def parse_web(url: str, expected: str) -> Web:
    """Take user and password, as in ``http://user:password@host:9090``, out of an address.

    Parameters
    ----------
    url : str
        The address; a path may follow the host.
    expected : str
        What an error says about how it is written.
    """
    parts = urllib.parse.urlsplit(url)
    who, _, host = parts.netloc.rpartition("@")
    try:
        known = parts.scheme in ("http", "https") and bool(parts.hostname)
        _ = parts.port
    except ValueError:
        known = False
    if not known or parts.query or parts.fragment or "@" in parts.path:
        hidden = f"; {_WRITTEN}" if "@" in url or parts.query else f"; got {url!r}"
        raise InputError(f"{expected}{hidden}")
    plain = urllib.parse.urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))
    if not who:
        return Web(plain)
    token = base64.b64encode(urllib.parse.unquote(who).encode()).decode("ascii")
    return Web(plain, {"Authorization": f"Basic {token}"})
