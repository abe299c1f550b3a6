"""Tools that other agents may use, under the rules of our own agent, and the socket for them.

We cannot ask anybody: the user approves calls in the other agent's client, by their annotations.
What our agent would always have to ask about (protected places, rules) is refused.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from oh_daemon.common.cancel import CancelToken
from oh_daemon.conversations.services import ConversationContext
from oh_daemon.features.approval.policy import decide
from oh_daemon.features.approval.rules import ruling_of
from oh_daemon.features.edit.edit import EditTool
from oh_daemon.features.language.language import Problems, language_tools, unwatched
from oh_daemon.features.mcp.connections import MAX_LINE_BYTES
from oh_daemon.features.mcp.serving import serve
from oh_daemon.features.search.search import search_tools
from oh_daemon.kernel.actions import result_of, run_tool
from oh_daemon.kernel.journal import new_id
from oh_daemon.kernel.ports import Intent, Json, Tool, ToolCall, ToolContext, ToolResult, ToolSpec
from oh_daemon.kernel.tool_calls import parse_call, plan
from oh_daemon.protocol.errors import ToolError
from oh_daemon.storage.memory_log import MemoryLog
from oh_daemon.system.io_loop import run_on_loop
from oh_daemon.system.private_files import private_folder, short_path
from oh_daemon.workspace.documents import Documents
from oh_daemon.workspace.edit_history import EditHistory
from oh_daemon.workspace.paths import Folders

_LET_IN = b"come in\n"
_PATIENCE_S = 10.0


class ServedTools:
    """The tools for one client. Calls run one after the other."""

    def __init__(self, context: ConversationContext, folders: Sequence[Path]) -> None:
        self._context, self._masker = context, context.services.masker
        self._folders = folders
        self._lock = threading.Lock()
        self._id = new_id()
        own, client, locks = Folders(tuple(folders)), context.client, context.services.locks
        documents = Documents(own, client.editor, EditHistory(own, MemoryLog()), locks)
        servers = client.servers
        watch = Problems(documents, servers).watch if servers and servers.can_report else unwatched
        tools: list[Tool] = [EditTool(documents, watch)]
        tools += search_tools(documents, own, context.services.spawner)
        if servers is not None:
            tools += language_tools(documents, servers)
        self._tools = {tool.spec.name: tool for tool in tools}

    @property
    def specs(self) -> Sequence[ToolSpec]:
        return [tool.spec for tool in self._tools.values()]

    def call(self, name: str, args: Json, cancel: CancelToken) -> ToolResult:
        """Run a tool and return its result, masked."""
        tool_call = parse_call(ToolCall(new_id(), name, json.dumps(args)), self._tools)
        if tool_call.tool is None or tool_call.error is not None:
            return ToolResult.of(tool_call.error or "", is_error=True)
        with self._lock:
            result = self._run(tool_call.tool, tool_call.args, cancel)
        text = self._masker.mask(json.dumps(result.content))
        return ToolResult(tuple(json.loads(text)), result.is_error)

    def _run(self, tool: Tool, args: Json, cancel: CancelToken) -> ToolResult:
        try:
            intent = plan(tool, args)
        except ToolError as exc:
            return result_of(exc, self._masker)
        refusal = self._refusal(tool.spec, intent)
        if refusal is not None:
            return ToolResult.of(refusal, is_error=True)
        # Other agents get only whole results.
        context = ToolContext(self._id, new_id(), cancel, lambda _text: None, self._masker)
        return run_tool(tool, args, context)

    def _refusal(self, spec: ToolSpec, intent: Intent) -> str | None:
        settings = self._context.user.settings.of(self._folders[0]).settings
        options = {"mode": settings.mode, "approval": "askNever"}
        ruling = ruling_of(settings.rules, (spec.name,), ())
        verdict = decide(spec, intent, options, self_rating=None, ruling=ruling)
        if verdict.effect != "allow":
            return f"This is refused: {verdict.rule}; only the user may do it, in the editor."
        is_trusted = all(self._context.user.trust.of(folder) == "full" for folder in self._folders)
        if intent.footprint.writes and not is_trusted:
            return "The user does not trust this folder, so nothing in it may be changed."
        return None


class ToolSocket:
    """The socket of one daemon; after `close`, no client can connect."""

    def __init__(
        self, home: Path, context: ConversationContext, folders: Callable[[], Sequence[Path]]
    ) -> None:
        self._home = home
        self._name = f"{os.getpid()}.sock"
        self._context = context
        self._folders = folders

    def open(self) -> None:
        """Start to listen. Raises `ReadOnlyError` or `OSError`."""
        self._home.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        private_folder(self._home)
        run_on_loop(self._listen(), CancelToken())

    async def _listen(self) -> None:
        with short_path(self._home) as folder:
            self._server = await asyncio.start_unix_server(
                self._greet, folder / self._name, limit=MAX_LINE_BYTES
            )
        (self._home / self._name).chmod(0o600)

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(TimeoutError, ConnectionError, ValueError):
            line = await asyncio.wait_for(reader.readline(), _PATIENCE_S)
            asked_folder, folders = Path(line.decode().rstrip("\n")), self._folders()
            if any(asked_folder.is_relative_to(folder.resolve()) for folder in folders):
                writer.write(_LET_IN)
                await serve(reader, writer, ServedTools(self._context, folders))
        writer.close()

    def close(self) -> None:
        (self._home / self._name).unlink(missing_ok=True)


def connect(home: Path, folder: Path) -> socket.socket | None:
    """Connect to a daemon that has this folder open, ready for MCP; None if there is none."""
    for place in sorted(home.glob("*.sock")):
        peer = socket.socket(socket.AF_UNIX)
        peer.settimeout(_PATIENCE_S)
        try:
            with short_path(home) as short:
                peer.connect(str(short / place.name))
            peer.sendall(f"{folder.resolve()}\n".encode())
            if peer.recv(len(_LET_IN), socket.MSG_WAITALL) == _LET_IN:
                peer.settimeout(None)
                return peer
        except ConnectionRefusedError:
            # The socket was left behind by a daemon that was killed.
            place.unlink(missing_ok=True)
        except OSError:
            pass
        peer.close()
    return None
