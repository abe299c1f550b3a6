"""Connects to a server: as a process of ours, over streamable HTTP or over server-sent events.

A process comes from `system/spawner`, so it and its children end with the daemon, however the
daemon ends. Values replace `${NAME}` only here, at the last moment, and are masked from then on.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    ExitStack,
    asynccontextmanager,
    suppress,
)
from http import HTTPStatus
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from oh_daemon.common.decoded import as_object
from oh_daemon.common.masking import Masker
from oh_daemon.features.mcp.decoding import Answers, in_envelopes
from oh_daemon.features.mcp.sign_in import Persist, SignIn, only_where_public
from oh_daemon.kernel.ports import Json
from oh_daemon.protocol.errors import ToolError
from oh_daemon.protocol.mcp import McpServerSettings
from oh_daemon.system.environment import SECRET_NAME, clean_env
from oh_daemon.system.spawner import Process, Spawner, start_errors

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_IDLE_S = 86_400.0
"""How long a stream of server-sent events may be silent, as it is while nobody calls a tool."""


Prepare = Callable[[McpServerSettings], tuple[Spawner, McpServerSettings]]
"""Returns what starts a server, and how it is started there. May block; raises `ToolError`."""


class ServerEnvironment(Struct, frozen=True):
    """What servers need to start and connect."""

    spawner: Spawner
    variables: Mapping[str, str]
    """Values for `${NAME}`: the environment and what the editor has exposed."""
    masker: Masker
    """Masks each value that replaced a `${NAME}`, or whose own name suggests a secret."""
    cwd: Path
    token_store: Persist = field(default_factory=dict[str, Json])
    """Where the tokens are kept that a server issues after signing in."""
    trusted_marks: Persist = field(default_factory=dict[str, Json])
    """The servers whose read-only marks the user trusts, by `identity`.

    An entry is `{"name": "shop", "identity": …}`.
    """
    own: Callable[[], Mapping[str, str]] = lambda: os.environ
    """Returns the environment of each, before secrets are removed. May wait."""
    prepare: Prepare | None = None
    """Used if it is not `spawner` that starts each as its settings say."""

    def sign_in(self, settings: McpServerSettings) -> SignIn:
        return SignIn(settings.url or "", self.token_store, self.masker.add)

    def identity(self, name: str, settings: McpServerSettings) -> str:
        """Return what an answer about a server is bound to: its name and command line, or URL.

        In the project's servers also the folder, since the same line starts another program there.
        """
        folder = str(self.cwd) if self.prepare else None
        return json.dumps([name, settings.command, settings.args, settings.url, folder])

    def connect(
        self,
        settings: McpServerSettings,
        sign_in: SignIn,
        stderr_lines: deque[str],
        on_end: Callable[[], None],
    ) -> AbstractAsyncContextManager[Any]:
        """Return a transport of the mcp package, on which results come in envelopes.

        `on_end` is called when the process ends, or when the server at the address has lost the
        session. `stderr_lines` gets the lines that a process writes to stderr.
        """
        answers = Answers()
        if settings.command is None:
            return in_envelopes(self._dial(settings, sign_in, answers, on_end), answers)
        pipes = connect_pipes(lambda fds: self._spawn(settings, fds), stderr_lines, on_end)
        return in_envelopes(pipes, answers)

    def _spawn(self, settings: McpServerSettings, fds: Sequence[int]) -> Process:
        spawner, settings = self.prepare(settings) if self.prepare else (self.spawner, settings)
        own = self._all_filled(settings.env)
        argv = [settings.command or "", *map(self._fill_variables, settings.args)]
        return spawner.spawn(argv, cwd=self.cwd, env=clean_env(self.own()) | own, fds=list(fds))

    @asynccontextmanager
    async def _dial(
        self,
        settings: McpServerSettings,
        sign_in: SignIn,
        answers: Answers,
        on_lost: Callable[[], None],
    ) -> AsyncGenerator[Any]:
        """Connect over HTTP. The mcp package follows redirects only within the same origin."""
        import httpx2  # noqa: PLC0415 - comes with mcp, which takes a second.
        from mcp.client.sse import sse_client  # noqa: PLC0415
        from mcp.client.streamable_http import streamable_http_client  # noqa: PLC0415

        url = settings.url or ""
        headers = self._all_filled(settings.headers)

        async def check_response(response: httpx2.Response) -> None:
            if response.status_code == HTTPStatus.UNAUTHORIZED:
                sign_in.on_refused()

        async def note_refusal(response: httpx2.Response) -> None:
            request = response.request
            if response.status_code < HTTPStatus.BAD_REQUEST or request.method != "POST":
                return
            await response.aread()
            answers.refuse(request.content, response.status_code, response.text)
            if _SESSION_ID in request.headers and _is_lost_session(
                response.status_code, response.text
            ):
                on_lost()

        def client(
            headers: dict[str, str] | None = None,
            timeout: httpx2.Timeout | None = None,
            auth: httpx2.Auth | None = None,
        ) -> httpx2.AsyncClient:
            # With `auth`, a refusal is part of the OAuth flow, which itself reports when it needs
            # the user.
            hooks = {"request": [only_where_public(url)]} if auth else {}
            hooks["response"] = [note_refusal] if auth else [check_response, note_refusal]
            return httpx2.AsyncClient(
                headers=headers, timeout=timeout, auth=auth, event_hooks=hooks
            )

        async with AsyncExitStack() as stack:
            auth = await stack.enter_async_context(sign_in.auth())
            if settings.transport == "sse":
                streams = sse_client(
                    url,
                    headers,
                    sse_read_timeout=_IDLE_S,
                    httpx_client_factory=client,
                    auth=auth,
                )
            else:
                patience = httpx2.Timeout(30.0, read=settings.timeout_s)
                http = await stack.enter_async_context(client(headers, patience, auth))
                streams = streamable_http_client(
                    url, http_client=http, max_sse_event_size=MAX_LINE_BYTES
                )
            yield await stack.enter_async_context(streams)

    def _all_filled(self, values: Mapping[str, str]) -> dict[str, str]:
        for name, value in values.items():
            if SECRET_NAME.search(name) and not _VARIABLE.search(value):
                self.masker.add(value)
        return {name: self._fill_variables(value) for name, value in values.items()}

    def _fill_variables(self, text: str) -> str:
        """Replace each `${NAME}` with its value; an unknown name stays as it is written."""

        def value(match: re.Match[str]) -> str:
            value = self.variables.get(match[1])
            if value is None:
                return match[0]
            # A path such as `${HOME}` is no secret; masking it would make output unreadable.
            if not (value.startswith("/") and Path(value).exists()):
                self.masker.add(value)
            return value

        return _VARIABLE.sub(value, text)


MAX_LINE_BYTES = 8 << 20
_SESSION_ID = "mcp-session-id"
_GRACE_S = 0.5
_MAX_WORDS = 2_000
"""How much of a line on stderr is kept, in characters."""
_END_BYTES = 256
_INVALID_REQUEST = -32_600
_INTERNAL = -32_603
_ID = re.compile(
    rb"""\A\s*\{[^{\[]*?"id"\s*:\s*(\d+|"[^"\\]*")|"id"\s*:\s*(\d+|"[^"\\]*")[^}\]]*\}\s*\Z"""
)
"""The id of a message, before or after everything that is nested in it."""
Spawn = Callable[[Sequence[int]], Process]


@asynccontextmanager
async def connect_pipes(
    spawn: Spawn, stderr_lines: deque[str], on_end: Callable[[], None]
) -> AsyncGenerator[tuple[Any, Any]]:
    """Start a process with `spawn`, and yield the streams of messages from and to it.

    `spawn` gets the descriptors of its three pipes. `stderr_lines` gets what it says there, and
    `on_end` is called when it stops reading or writing. Raises `ToolError` when it cannot be
    started.
    """
    import anyio  # noqa: PLC0415 - comes with mcp, which is slow to import.

    with ExitStack() as own_ends:
        with ExitStack() as server_ends:
            with start_errors("the server"):
                their_in, our_in = _pipe(read_by=server_ends, written_by=own_ends)
                our_out, their_out = _pipe(read_by=own_ends, written_by=server_ends)
                our_err, their_err = _pipe(read_by=own_ends, written_by=server_ends)
            process = await _start_process(spawn, (their_in, their_out, their_err))
        own_ends.pop_all()
    writer = await open_writer(our_in)
    (out, out_pipe), (err, err_pipe) = await open_reader(our_out), await open_reader(our_err)
    to_session, from_process = anyio.create_memory_object_stream[Any](0)
    to_process, from_session = anyio.create_memory_object_stream[Any](0)
    talking = [
        asyncio.create_task(read_messages(out, to_session, to_session)),
        asyncio.create_task(write_messages(writer, from_session)),
    ]
    for task in talking:
        task.add_done_callback(lambda _: on_end())
    tasks = [*talking, asyncio.create_task(_read_words(err, stderr_lines))]
    try:
        yield from_process, to_process
    finally:
        writer.close()
        await asyncio.shield(asyncio.to_thread(_end, process))
        for task in tasks:
            task.cancel()
        out_pipe.close()
        err_pipe.close()


def _is_lost_session(status: int, body: str) -> bool:
    """Return whether a server refuses a request because it does not know the session any more.

    The protocol prescribes 404 for that; the examples of its TypeScript package answer 400 with
    "Bad Request: No valid session ID provided".
    """
    if status == HTTPStatus.NOT_FOUND:
        return True
    return status == HTTPStatus.BAD_REQUEST and "session" in body.lower()


def _pipe(*, read_by: ExitStack, written_by: ExitStack) -> tuple[int, int]:
    """Return the two ends of a pipe, each closed by the stack of its owner."""
    ends = os.pipe()
    for end, owner in zip(ends, (read_by, written_by), strict=True):
        owner.callback(os.close, end)
    return ends


async def _start_process(spawn: Spawn, descriptors: Sequence[int]) -> Process:
    starting = asyncio.ensure_future(asyncio.to_thread(spawn, descriptors))
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        # The descriptors are in use until the process has started. If they were closed now, other
        # files might soon get the same numbers.
        with suppress(ToolError):
            process = await starting
            await asyncio.to_thread(process.kill_tree)
        raise


def _end(process: Process) -> None:
    """Wait briefly, since its closed stdin asks it to end; then kill the whole process tree."""
    process.wait(_GRACE_S)
    process.kill_tree()


async def open_reader(descriptor: int) -> tuple[asyncio.StreamReader, asyncio.BaseTransport]:
    reader = asyncio.StreamReader(limit=MAX_LINE_BYTES)
    file = os.fdopen(descriptor, "rb", buffering=0)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), file
    )
    return reader, transport


async def open_writer(descriptor: int) -> asyncio.StreamWriter:
    loop, file = asyncio.get_running_loop(), os.fdopen(descriptor, "wb", buffering=0)
    protocol = asyncio.StreamReaderProtocol(asyncio.StreamReader())
    transport, _ = await loop.connect_write_pipe(lambda: protocol, file)
    return asyncio.StreamWriter(transport, protocol, None, loop)


async def _lines(reader: asyncio.StreamReader) -> AsyncGenerator[tuple[bytes, bool]]:
    """Yield the lines, each with whether it is whole; of one that is too long only both ends."""
    start = end = b""
    while True:
        try:
            line = await reader.readuntil(b"\n")
        except asyncio.LimitOverrunError as exc:
            part = await reader.readexactly(exc.consumed)
            start, end = start or part[:_END_BYTES], part[-_END_BYTES:]
            continue
        except asyncio.IncompleteReadError:
            return
        yield (start + (end + line)[-_END_BYTES:], False) if start else (line, True)
        start = end = b""


async def read_messages(reader: asyncio.StreamReader, to_session: Any, to_caller: Any) -> None:
    """Pass messages on; for one that is too long, `to_caller` gets the error that answers it."""
    from mcp.shared.message import SessionMessage  # noqa: PLC0415 - see `connect_pipes`.
    from mcp_types import jsonrpc_message_adapter  # noqa: PLC0415

    async with to_session:
        async for line, is_whole in _lines(reader):
            try:
                line_or_error = line if is_whole else _too_long(line)
                message = jsonrpc_message_adapter.validate_json(line_or_error, by_name=False)
            except ValueError:
                if (answer := _framed_answer(line)) is None:
                    continue
                message = jsonrpc_message_adapter.validate_python(answer, by_name=False)
            await (to_session if is_whole else to_caller).send(SessionMessage(message))


def _framed_answer(line: bytes) -> Json | None:
    """Return an answer in the frame of JSON-RPC, if the line is one at all."""
    try:
        message = json.loads(line)
    except ValueError:
        return None
    match message:
        case {"id": int() | str() as request_id, "error": error} if error is not None:
            fields = as_object(error) or {"message": error}
            code, words = fields.get("code"), fields.get("message")
            text = words if isinstance(words, str) else json.dumps(error)
            outcome: Json = {
                "error": {"code": code if isinstance(code, int) else _INTERNAL, "message": text}
            }
        case {"id": int() | str() as request_id, "result": result}:
            outcome = {"result": result if isinstance(result, dict) else {"content": result}}
        case _:
            return None
    return {"jsonrpc": "2.0", "id": request_id, **outcome}


def _too_long(ends: bytes) -> bytes:
    """Return the error for a message of which these are both ends. Raises `ValueError`."""
    match = _ID.search(ends)
    if match is None:
        raise ValueError("it has no id")
    says = f"the message is longer than {MAX_LINE_BYTES >> 20} MiB"
    error = json.dumps({"code": _INVALID_REQUEST, "message": says}).encode()
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (match[1] or match[2], error)


async def _read_words(reader: asyncio.StreamReader, stderr_lines: deque[str]) -> None:
    async for line, _ in _lines(reader):
        stderr_lines.append(line.decode("utf-8", "replace").rstrip()[:_MAX_WORDS])


async def write_messages(writer: asyncio.StreamWriter, from_session: Any) -> None:
    async with from_session:
        async for message in from_session:
            text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            writer.write(text.encode() + b"\n")
            try:
                await writer.drain()
            except ConnectionError:
                return
