"""The first moments: takes descriptors 0 and 1, and answers a usual `initialize` at once.

It imports next to nothing. What is not usual in any way is left to the full path (`lifecycle`),
which reads the same bytes again; `protocol/initialize` has the answer.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from oh_daemon.common.minimal_json import parse, quote
from oh_daemon.features.sandbox.last_test import last_report
from oh_daemon.protocol.initialize import ANSWER, FEATURES, PROTOCOL_MAJOR, SETTINGS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ENCODINGS = ("utf-16", "utf-32", "utf-8")
_MAX_HEAD_BYTES = 40
"""More than the one header that is usual."""
_MAX_BODY_BYTES = 1 << 20
_CLIENT = {"name": str, "kind": str}
_BLOCK = {
    "protocolVersion": {"major": int},
    "client": _CLIENT,
    "features": dict.fromkeys(FEATURES, bool),
    "events": {"deltas": bool, "optOut": list},
    "trust": [{"folder": str, "trusted": bool}],
    "settings": {},
    "models": {},
}
_USUAL = {
    "processId": int,
    "rootUri": str,
    "workspaceFolders": [{"uri": str}],
    "clientInfo": _CLIENT,
    "capabilities": {"general": {"positionEncodings": list}, "experimental": {"ohDaemon": _BLOCK}},
    "initializationOptions": {"ohDaemon": _BLOCK},
}
"""The types of all that `client_facts` reads: an object's fields, an array's elements, a type."""


class Opening:
    """What was read of the client's input before the full path, and what was made of it."""

    def __init__(self, unread: bytes = b"") -> None:
        self.unread = unread
        """All of it, to be read again."""
        self.is_answered = False
        """Whether it is an `initialize` that has its answer."""
        self.sandbox: dict[str, str] | None = None
        """What the answer says of the sandbox."""


def answer_first(stdio: tuple[int, int], environment: Mapping[str, str]) -> Opening:
    """Read the first message, and answer it if it is a usual `initialize`."""
    inbound, outbound = stdio
    opening = Opening()
    try:
        while (body := _body_of(opening.unread)) == b"" and (more := os.read(inbound, 1 << 16)):
            opening.unread += more
        if not body:
            return opening
        request_id, block, encoding = _usual(parse(body))
        opening.sandbox = last_report(_at(block, "settings") or {}, environment)
        # On the first start after one of the machine there is something to wait for.
        if opening.sandbox is not None:
            result = answer(encoding, opening.sandbox, block)
            message = f'{{"jsonrpc":"2.0","id":{request_id},"result":{result}}}'
            os.write(outbound, f"Content-Length: {len(message)}\r\n\r\n{message}".encode())
            opening.is_answered = True
    # Whatever it is, the full path meets it too, and says it.
    except (OSError, ValueError):
        pass
    return opening


def answer(encoding: str, sandbox: Mapping[str, str] | None, block: Any) -> str:
    """Return the result of `initialize`, in ASCII; the `block` is what the client says to us."""
    pairs = ",".join(f"{quote(name)}:{quote(value)}" for name, value in (sandbox or {}).items())
    more = f',"sandbox":{{{pairs}}}' if pairs else ""
    if block is not None:
        more += f',"understood":{_understood(block)}'
    return ANSWER % {"encoding": encoding, "pid": os.getpid(), "more": more}


def _understood(block: Any) -> str:
    """Return the features that count, and what we do not know, so that a misspelling shows."""
    features: Any = _at(block, "features") or {}
    settings: Any = _at(block, "settings") or {}
    on = [name for name in FEATURES if _at(features, name) is True]
    unknown = [f"features.{name}" for name in features if name not in FEATURES]
    unknown += [f"settings.{name}" for name in settings if name not in SETTINGS]
    unknown = [name for name in unknown if "._" not in name]  # A vendor's.
    lists = (",".join(map(quote, names)) for names in (on, unknown))
    return '{{"features":[{}],"unknown":[{}]}}'.format(*lists)


def choose_encoding(encodings: list[Any]) -> str:
    """Return the first encoding in the client's list that we know, or LSP's default, UTF-16."""
    return next((name for name in encodings if name in ENCODINGS), "utf-16")


def _body_of(unread: bytes) -> bytes | None:
    """Return the body of the first frame, empty when it is not there yet; None if it is unusual."""
    head, is_whole, rest = unread.partition(b"\r\n\r\n")
    if not is_whole:
        return b"" if len(head) < _MAX_HEAD_BYTES else None
    name, _, digits = head.partition(b": ")
    if name != b"Content-Length" or not digits.isdigit():
        return None
    size_bytes = int(digits)
    if not 0 < size_bytes <= _MAX_BODY_BYTES:
        return None
    return rest[:size_bytes] if len(rest) >= size_bytes else b""


def _usual(message: Any) -> tuple[int, Any, str]:
    """Return the id, what the client says to us, and the encoding. Raises `ValueError`."""
    request_id, params = _at(message, "id"), _at(message, "params")
    marks = _at(message, "jsonrpc"), _at(message, "method")
    if marks != ("2.0", "initialize") or not _is(request_id, int) or request_id >> 53 or not params:
        raise ValueError("this is no usual request")
    if not _fits(params, _USUAL):
        raise ValueError("this has a field that is refused")
    block = _at(params, "initializationOptions", "ohDaemon")
    if block is None:
        block = _at(params, "capabilities", "experimental", "ohDaemon")
    if _at(block, "protocolVersion", "major") not in (None, PROTOCOL_MAJOR):
        raise ValueError("this is of another version")
    encodings = _at(params, "capabilities", "general", "positionEncodings")
    return request_id, block, choose_encoding(encodings or [])


def _at(value: Any, *names: str) -> Any:
    """Return what is in these fields, None if it is not there."""
    for name in names:
        value = value.get(name) if _is(value, dict) else None
    return value


def _fits(value: Any, shape: Any) -> bool:
    """Return whether a value is absent or has this shape."""
    if value is None or _is(shape, type):
        return value is None or _is(value, shape)
    if _is(shape, list):
        return _is(value, list) and all(_is(each, dict) and _fits(each, *shape) for each in value)
    # Lua writes an empty object as an empty array.
    is_object = _is(value, dict) or value == []
    return is_object and all(_fits(_at(value, name), inner) for name, inner in shape.items())


def _is(value: Any, kind: Any) -> bool:
    return type(value) is kind
