"""The ports that programs in a view listen on, as the kernel lists them; see proc_net(5)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_LISTENS = "0A"
"""TCP_LISTEN of include/net/tcp_states.h."""


def listening_ports(root: int) -> frozenset[int]:
    """Return them for the network of a process; none when it has ended."""
    return frozenset(port for table in ("tcp", "tcp6") for port in _ports_in(root, table))


def _ports_in(root: int, table: str) -> Iterator[int]:
    with suppress(OSError):
        for line in Path(f"/proc/{root}/net/{table}").read_text("ascii").splitlines()[1:]:
            _, local, _, state = line.split(maxsplit=4)[:4]
            if state == _LISTENS:
                yield int(local.rpartition(":")[2], 16)
