"""Each request of the protocol as a method: `daemon.conversation_start(content=…)`.

Its types stand in `methods.pyi`, which `make schema` writes; params have their names on the wire.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oh_daemon.protocol.methods import REQUESTS, function_name


class Methods:
    """Of a client, whose `request` returns the result, or in an async one what is awaited."""

    request: Callable[..., Any]


def _bind(method: str) -> Callable[..., Any]:
    def call(self: Methods, **params: Any) -> Any:
        return self.request(method, params)

    call.__name__ = function_name(method)
    return call


for _each in REQUESTS:
    setattr(Methods, function_name(_each.name), _bind(_each.name))
AsyncMethods = Methods
