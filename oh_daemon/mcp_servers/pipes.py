"""Connects the pipes of a server process to the streams of the mcp package.

The process comes from `workspace/spawner`, so it and its children end with the daemon, however the
daemon ends. Lines that are not messages are ignored; one that is too long is answered by an error.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from typing import Any

from oh_daemon.contract.errors import ToolError
from oh_daemon.workspace.spawner import Process, refusals

MAX_LINE_BYTES = 8 << 20
_GRACE_S = 0.5
_MAX_WORDS = 2_000
"""How much of a line on stderr is kept, in characters."""
_END_BYTES = 256
_INVALID_REQUEST = -32_600
_ID = re.compile(
    rb"""\A\s*\{[^{\[]*?"id"\s*:\s*(\d+|"[^"\\]*")|"id"\s*:\s*(\d+|"[^"\\]*")[^}\]]*\}\s*\Z"""
)
"""The id of a message, before or after everything that is nested in it."""
Spawn = Callable[[Sequence[int]], Process]


@asynccontextmanager
async def piped(
    spawn: Spawn, said: deque[str], on_end: Callable[[], None]
) -> AsyncGenerator[tuple[Any, Any]]:
    """Start a process with `spawn`, and yield the streams of messages from and to it.

    `spawn` gets the descriptors of its three pipes. `said` gets the lines of its stderr; `on_end`
    is called when it stops reading or writing. Raises `ToolError` when it cannot be started.
    """
    import anyio  # noqa: PLC0415 - comes with mcp, which is slow to import.

    with ExitStack() as ours:
        with ExitStack() as theirs:
            with refusals("the server"):
                their_in, our_in = _pipe(read_by=theirs, written_by=ours)
                our_out, their_out = _pipe(read_by=ours, written_by=theirs)
                our_err, their_err = _pipe(read_by=ours, written_by=theirs)
            process = await _started(spawn, (their_in, their_out, their_err))
        ours.pop_all()
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
    tasks = [*talking, asyncio.create_task(_read_words(err, said))]
    try:
        yield from_process, to_process
    finally:
        writer.close()
        await asyncio.shield(asyncio.to_thread(_end, process))
        for task in tasks:
            task.cancel()
        out_pipe.close()
        err_pipe.close()


def _pipe(*, read_by: ExitStack, written_by: ExitStack) -> tuple[int, int]:
    """Return the two ends of a pipe, each closed by the stack of its owner."""
    ends = os.pipe()
    for end, owner in zip(ends, (read_by, written_by), strict=True):
        owner.callback(os.close, end)
    return ends


async def _started(spawn: Spawn, descriptors: Sequence[int]) -> Process:
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
    from mcp.shared.message import SessionMessage  # noqa: PLC0415 - see `piped`.
    from mcp_types import jsonrpc_message_adapter  # noqa: PLC0415

    async with to_session:
        async for line, is_whole in _lines(reader):
            try:
                known = line if is_whole else _too_long(line)
                message = jsonrpc_message_adapter.validate_json(known, by_name=False)
            except ValueError:
                continue
            await (to_session if is_whole else to_caller).send(SessionMessage(message))


def _too_long(ends: bytes) -> bytes:
    """Return the error for a message of which these are both ends. Raises `ValueError`."""
    found = _ID.search(ends)
    if found is None:
        raise ValueError("it has no id")
    says = f"the message is longer than {MAX_LINE_BYTES >> 20} MiB"
    error = json.dumps({"code": _INVALID_REQUEST, "message": says}).encode()
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (found[1] or found[2], error)


async def _read_words(reader: asyncio.StreamReader, said: deque[str]) -> None:
    async for line, _ in _lines(reader):
        said.append(line.decode("utf-8", "replace").rstrip()[:_MAX_WORDS])


async def write_messages(writer: asyncio.StreamWriter, from_session: Any) -> None:
    async with from_session:
        async for sent in from_session:
            text = sent.message.model_dump_json(by_alias=True, exclude_unset=True)
            writer.write(text.encode() + b"\n")
            try:
                await writer.drain()
            except ConnectionError:
                return
