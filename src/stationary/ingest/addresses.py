"""Addresses of servers, which may hold a password that no message may show."""

from __future__ import annotations

import base64
import re
import urllib.parse
from pathlib import Path

from stationary.errors import InputError, hide_passwords

_WRITTEN = "characters of a password such as @ / : # ? are written %40 %2F %3A %23 %3F"
# SQLAlchemy's names of drivers, as in postgresql+psycopg://, mean the same server.
_POSTGRES = re.compile(r"\s*postgres(?:ql)?(?:\+\w+)?://", re.IGNORECASE)
_KEYWORDS = re.compile(
    r"\s*(host|hostaddr|port|dbname|user|password|passfile|service)\s*=", re.IGNORECASE
)


def is_postgres(location: str) -> bool:
    """Return whether a location is an address of PostgreSQL, in either form that libpq takes."""
    if _POSTGRES.match(location):
        return True
    return bool(_KEYWORDS.match(location)) and not Path(location).exists()


def check_no_password(location: str) -> None:
    """Raise where the address of a file has a user or a password, or is of another database."""
    if "://" in location and hide_passwords(location) != location:
        raise InputError(
            f"{location}: the only databases that are read are PostgreSQL, written "
            f"postgresql://user:password@host:5432/database, and files have no user or password in "
            f"their address; export the table as Parquet otherwise"
        )


def parse_database(url: str) -> dict[str, str]:
    """Return the parts of an address of PostgreSQL, as its driver takes them.

    An error does not repeat the address: where it cannot be read, any part may be the password.
    """
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    try:
        plain = _POSTGRES.sub("postgresql://", url, count=1)
        parts = {name: str(value) for name, value in conninfo_to_dict(plain).items()}
    except psycopg.Error:
        parts = {"host": "@"}
    # What follows an @ or a / in a password is taken for the host, the port or the database.
    if any("@" in parts.get(name, "") for name in ("host", "port", "dbname")):
        raise InputError(
            f"the address of the database cannot be read; it is written "
            f"postgresql://user:password@host:5432/database, and {_WRITTEN}"
        )
    return parts


def parse_web(url: str, expected: str) -> tuple[str, dict[str, str]]:
    """Return an HTTP address without user and password, and the headers that hold those.

    The address is as in ``http://user:password@host:9090``, and a path may follow the host. An
    error says how it is written (``expected``).
    """
    try:
        parts = urllib.parse.urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname)
        _ = parts.port
    except ValueError:
        valid = False
    if not valid or parts.query or parts.fragment or "@" in parts.path:
        # What stands behind a colon and is no port may be a password.
        secret = re.search(r"[@?]|:/*[^/]*:[^0-9]", url)
        raise InputError(f"{expected}; {_WRITTEN if secret else f'got {url!r}'}")
    user, _, host = parts.netloc.rpartition("@")
    plain = urllib.parse.urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))
    if not user:
        return plain, {}
    token = base64.b64encode(urllib.parse.unquote(user).encode()).decode("ascii")
    return plain, {"Authorization": f"Basic {token}"}
