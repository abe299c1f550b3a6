"""Chats in Markdown files, for clients without a plugin: commands, code lenses and code actions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from oh_daemon.app.chat_text import heading_line
from oh_daemon.contract.language_servers import ChatNamed
from oh_daemon.core.ports import Json
from oh_daemon.fronts.lsp.chats import Chat, Chats
from oh_daemon.fronts.lsp.client_facts import ClientFacts
from oh_daemon.fronts.lsp.daemon import Daemon
from oh_daemon.fronts.wire.client import Client
from oh_daemon.fronts.wire.dispatch import Method
from oh_daemon.fronts.wire.framing import encode
from oh_daemon.workspace.paths import path_from_uri, real_path, uri_from_path

_INFO = 3
SEND = "Send to the agent"
_ON_CHAT = ((SEND, "ohDaemon.sendChat"),)


class ChatHandlers:
    """What one client asks of its chats."""

    def __init__(self, daemon: Daemon, client: Client, facts: ClientFacts) -> None:
        self._daemon = daemon
        self._client = client
        self._can_show = facts.offers("window", "showDocument", "support")
        self.chats = Chats(daemon)

    def commands(self) -> dict[str, Callable[[object], Json]]:
        """Return what runs each command, on a worker thread."""
        return {"ohDaemon.chat": self._open, "ohDaemon.sendChat": self._send}

    def methods(self) -> dict[str, Method]:
        return {"textDocument/codeLens": self._lenses}

    def actions(self, uri: str) -> list[Json]:
        """Return what a user can do in a chat file; nothing in any other."""
        if not self.chats.is_chat(uri):
            return []
        return [
            {"title": title, "command": command, "arguments": [{"uri": uri}]}
            for title, command in _ON_CHAT
        ]

    def _open(self, given: object) -> Json:
        """Show a chat: the one that is named, else the one that changed last, else a new one."""
        named = _named(given)
        files = self.chats.files()
        if named.name:
            path = files.path_of(named.name)
        else:
            known = [] if named.new else files.all()
            path = known[0] if known else self.chats.new_path(files)
        chat = self.chats.at(path)
        live = self.chats.resume(chat)
        self._show(path)
        about = {"conversationId": live.id} if live else {}
        return {"uri": uri_from_path(path), **about}

    def _show(self, path: Path) -> None:
        uri = uri_from_path(path)
        if self._can_show:
            self._client.request_async("window/showDocument", {"uri": uri, "takeFocus": True})
            return
        said = {"type": _INFO, "message": f"The chat is in {path}"}
        self._daemon.outbox.notify("window/showMessage", encode(said))

    def _send(self, given: object) -> Json:
        return self.chats.send(self._chat(_named(given)))

    def _chat(self, named: ChatNamed) -> Chat:
        path = path_from_uri(named.uri or "")
        if path is not None:
            return self.chats.at(real_path(path))
        files = self.chats.files()
        if named.name:
            return self.chats.at(files.path_of(named.name))
        known = files.all()
        return self.chats.at(known[0] if known else self.chats.new_path(files))

    def _lenses(self, params: Json, _context: object) -> list[Json]:
        uri = str(params.get("textDocument", {}).get("uri", ""))
        path = path_from_uri(uri)
        document = self._daemon.documents.document(path) if path else None
        line = heading_line(document.text) if document else None
        if line is None or not self.chats.is_chat(uri):
            return []
        start = {"line": line, "character": 0}
        span = {"start": start, "end": start}
        return [{"range": span, "command": action} for action in self.actions(uri)[:1]]


def _named(given: object) -> ChatNamed:
    return ChatNamed.model_validate({"name": given} if isinstance(given, str) else given)
