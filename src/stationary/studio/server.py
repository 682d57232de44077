"""The server of the studio: on this machine alone, for whoever has its address."""

from __future__ import annotations

import secrets
import socket
import tempfile
import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvicorn
from markupsafe import escape

from stationary.errors import InputError
from stationary.studio.app import Studio
from stationary.studio.guard import Guard
from stationary.studio.library import Library

_OPEN = (
    '<!DOCTYPE html><meta charset="utf-8"><title>stationary</title>'
    '<meta http-equiv="refresh" content="0; url={0}"><a href="{0}">Open the studio</a>\n'
)


def serve(
    library: Library,
    source: Path | None = None,
    port: int = 0,
    open_browser: bool = True,
    say: Callable[[str], None] = print,
) -> None:
    """Serve the studio on 127.0.0.1 until somebody stops it; port 0 is one that is free.

    What is said has the address, which holds a secret: who knows it may read the plans and make new
    ones. The ``source`` is a file to plan from.
    """
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(("127.0.0.1", port))
        listening.listen()  # who opens the address before the server is up waits for it
    except OSError as error:
        listening.close()
        raise InputError(f"port {port} cannot be used: {error.strerror}; choose another") from error
    port, token = listening.getsockname()[1], secrets.token_urlsafe(24)
    address = f"http://127.0.0.1:{port}/{token}/"
    guarded = Guard(Studio(library, source).app(), token, port)
    quiet: dict[str, Any] = {"access_log": False, "server_header": False, "date_header": False}
    config = uvicorn.Config(guarded, ws="none", log_level="warning", **quiet)
    say(f"The studio is at {address}")
    say("Stop it with Ctrl+C, which also cancels a plan in the making. Finished plans are kept.")
    with tempfile.TemporaryDirectory(prefix="stationary-studio-") as folder:  # nobody else's
        if open_browser:
            # Others may read a command line: the browser gets the secret from a file.
            way = Path(folder, "open.html")
            way.write_text(_OPEN.format(escape(address)), encoding="utf-8")
            webbrowser.open(way.as_uri())
        uvicorn.Server(config).run(sockets=[listening])
