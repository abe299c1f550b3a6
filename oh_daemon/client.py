"""Clients of a daemon, for programs: `DaemonClient`, and `AsyncDaemonClient` for asyncio.

Both have each request of the protocol as a method, and answer what the daemon asks.
"""

from oh_daemon.frontends.client.async_connection import AsyncDaemonClient, start_daemon_async
from oh_daemon.frontends.client.child import start_daemon
from oh_daemon.frontends.client.connection import DaemonClient
from oh_daemon.frontends.client.line import Descriptors, Line

__all__ = [
    "AsyncDaemonClient",
    "DaemonClient",
    "Descriptors",
    "Line",
    "start_daemon",
    "start_daemon_async",
]
