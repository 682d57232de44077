"""The SIP messages of the testbed."""

from __future__ import annotations

from stationary.testbed.kernel import LOOPBACK

DIGITS = 7
"""Digits of a request's number in its Call-ID."""


def register(number: int, own_port: int, port: int, tag: str) -> bytes:
    """Return the REGISTER of this number, from one port of the loopback address to another."""
    name, own = f"{tag}-{number:0{DIGITS}d}", f"{LOOPBACK}:{own_port}"
    lines = [
        f"REGISTER sip:{LOOPBACK}:{port} SIP/2.0",
        f"Via: SIP/2.0/UDP {own};branch=z9hG4bK-{name}",
        "Max-Forwards: 70",
        f"From: <sip:ue@{LOOPBACK}>;tag={name}",
        f"To: <sip:ue@{LOOPBACK}>",
        f"Call-ID: {name}",
        "CSeq: 1 REGISTER",
        f"Contact: <sip:ue@{own}>",
        "Expires: 3600",
        "Content-Length: 0",
    ]
    return "\r\n".join([*lines, "", ""]).encode()
