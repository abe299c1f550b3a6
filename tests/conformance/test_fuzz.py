"""Whatever arrives, every request is answered exactly once and the daemon lives on."""

import json
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from hypothesis import HealthCheck, example, given, note, seed, settings
from hypothesis import strategies as st
from raw_client import RawClient

from oh_daemon.protocol.methods import REQUESTS

Spawn = Callable[..., RawClient]
SEED = int(os.environ["OH_TEST_SEED"])
FRAMES_PER_EXAMPLE = 40
LSP_METHODS = (
    *("initialize", "workspace/executeCommand", "workspace/didChangeWorkspaceFolders"),
    *(f"textDocument/did{what}" for what in ("Open", "Change", "Close", "Save")),
    *("$/cancelRequest", "$/setTrace", "test/echo", "test/validate"),
)
LSP_KEYS = ("textDocument", "contentChanges", "event", "uri", "id", "text", "range", "arguments")
METHODS = (*(method.name for method in REQUESTS), *LSP_METHODS)
KEYS = sorted(
    {field.alias or name for m in REQUESTS for name, field in m.params.model_fields.items()}
    | set(LSP_KEYS)
)

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=6,
)
PARAMS = st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=4) | VALUES
MESSAGES = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.sampled_from(["2.0", "2.0", "2.0", "1.0", 2]),
        "method": st.sampled_from(METHODS) | st.text(max_size=8),
        "params": PARAMS,
        "extra": VALUES,
    },
)
FRAMES = st.tuples(MESSAGES, st.booleans()) | st.binary(max_size=40) | VALUES

relaxed = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


def send_frame(client: RawClient, content: Any) -> None:
    """Send generated content as it is, but with ids of our own, so that each is used only once."""
    if isinstance(content, tuple):
        message, has_id = content
        client.send({**message, "id": os.urandom(8).hex()} if has_id else message)
    else:
        client.send(content if isinstance(content, bytes) else json.dumps(content).encode())


@seed(SEED)
@settings(relaxed, max_examples=2000 // FRAMES_PER_EXAMPLE)
@given(contents=st.lists(FRAMES, min_size=FRAMES_PER_EXAMPLE, max_size=FRAMES_PER_EXAMPLE))
def test_2000_frames_are_each_answered_as_they_must_be_and_the_next_request_too(
    client: RawClient, contents: list[Any]
) -> None:
    note(f"OH_TEST_SEED={SEED}")
    for content in contents:
        send_frame(client, content)
    assert client.error("no/suchMethod").code == -32601
    errors = [m for m in client.messages if m.get("error", {}).get("code") == -32603]
    assert errors == []


@seed(SEED)
@settings(relaxed, max_examples=25)
@given(garbage=st.binary(max_size=60) | st.text(max_size=30).map(str.encode))
@example(garbage=b"Content-Length: 5\r\nContent-Length")
def test_any_bytes_are_survived_or_end_the_daemon_by_the_rule(
    spawn_echo: Spawn, garbage: bytes
) -> None:
    note(f"OH_TEST_SEED={SEED}")
    echo = spawn_echo()
    echo.initialize()
    echo.expect(None)
    with suppress(BrokenPipeError):
        echo.send_raw(garbage)
    echo.close_stdin()
    assert echo.exit_code() in (0, 3)
