"""Which TCP connections are open on a local port, read from the kernel.

A middleware sees a connection only with its first request. The kernel also knows those that a client has
opened ahead of use, and those still waiting to be accepted.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from pathlib import Path

Peer = tuple[str, int]

_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_ESTABLISHED = "01"


def open_connections(port: int, tables: Iterable[Path] = _TABLES) -> set[Peer]:
    """Remote (address, port) of every established connection to the local port.

    Raises:
        OSError: the kernel shows no table of IPv4 connections.
    """
    ipv4, *others = tables
    peers = set(_peers(ipv4.read_text(), port))
    for table in others:
        if table.exists():
            peers.update(_peers(table.read_text(), port))
    return peers


def _peers(table: str, port: int) -> Iterable[Peer]:
    wanted = f":{port:04X}"
    for line in table.splitlines()[1:]:
        fields = line.split()
        if fields[3] == _ESTABLISHED and fields[1].endswith(wanted):
            yield _peer(fields[2])


def _peer(text: str) -> Peer:
    address, _, port = text.partition(":")
    return _address(address), int(port, 16)


def _address(text: str) -> str:
    # The kernel prints each 32-bit word in the byte order of the machine.
    raw = b"".join(bytes.fromhex(text[i : i + 8])[::-1] for i in range(0, len(text), 8))
    if len(raw) == 4:
        return str(ipaddress.IPv4Address(raw))
    address = ipaddress.IPv6Address(raw)
    return str(address.ipv4_mapped or address)
