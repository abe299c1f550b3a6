"""Whose client acts in a conversation that several take part in, and under what it acts.

The client that sent the message of a turn has its documents, its trust and its settings in force,
also when it has left. Invariant: only the conversation's lock lets that change.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

from oh_daemon.conversations.services import ClientConnection, ConversationContext
from oh_daemon.frontends.lsp.composition import Window
from oh_daemon.frontends.serve.editors import ConnectedClients, SharedEditor, SharedLanguageServers
from oh_daemon.kernel.ports import Question, Tool
from oh_daemon.protocol import plain
from oh_daemon.protocol.daemon_messages import OpenPort
from oh_daemon.workspace.paths import Folders


class ActiveClient(ClientConnection):
    """The clients of one conversation and its sub-agents, as one. Thread-safe."""

    def __init__(self, conversation_id: str, clients: ConnectedClients, window: Window) -> None:
        super().__init__(listeners=window.listeners)
        self._id = conversation_id
        self._clients = clients
        self.window = window
        """The client that acts."""
        self._speaker: Window | None = None
        self._senders: dict[str, Window] = {}
        """By the id of each message that waits."""
        self._begins = False
        """Whether a turn has started, and its message comes next."""
        self.editor = SharedEditor(self._sender, clients)
        self.servers = SharedLanguageServers(self._taking_part)
        self.context = ConversationContext(window.context.services, window.context.user, self)

    @contextmanager
    def speaking(self, window: Window) -> Generator[None]:
        """Know that the message that is taken now is this client's; see `Daemon.speaking`."""
        self._speaker = window
        try:
            yield
        finally:
            self._speaker = None

    def on_record(self, record: plain.Record) -> None:
        """Hear of an event of the conversation, under its lock."""
        event = record["event"]
        match event["type"]:
            case "turn.started":
                self._begins = True
            case "message.queued" if self._speaker is not None:
                self._senders[event["message"]["messageId"]] = self._speaker
            case "message.dequeued" if event["outcome"] == "removed":
                self._senders.pop(event["messageId"], None)
            case "item.completed" if event["item"]["kind"] == "userMessage":
                sender = self._senders.pop(event["item"].get("messageId", ""), self._speaker)
                if self._begins and sender is not None:
                    self.window, self.context.user = sender, sender.context.user
                self._begins = False
            case _:
                pass

    # As the client of the conversation

    def seen_in_editor(self, folders: Folders) -> dict[str, str]:
        return self._sender().seen_in_editor(folders)

    def tools(self, conversation_id: str) -> Sequence[Tool]:
        tool_lists = (each.tools(conversation_id) for each in self._clients.windows())
        return next(filter(None, tool_lists), ())

    def report_ports(self, conversation_id: str, ports: Sequence[OpenPort]) -> None:
        self._clients.report_ports(conversation_id, ports)

    def is_watched(self, conversation_id: str) -> bool:
        return self._clients.is_watched(conversation_id)

    def has_editor(self) -> bool:
        return self._sender().has_editor()

    def is_attended(self) -> bool:
        return self._sender().is_attended()

    def can_ask(self) -> bool:
        return self._any_can(Window.can_ask)

    def can_answer(self, question: Question) -> bool:
        return self._any_can(lambda each: each.can_answer(question))

    def _sender(self) -> Window:
        """Return the client whose message is taken now, otherwise the one that acts."""
        return self._speaker or self.window

    def _taking_part(self) -> list[Window]:
        """Return the clients that have it open and the one that acts, which is the first."""
        windows = (w for w in self._clients.windows() if w is not self.window)
        watchers = [each for each in windows if each.is_watched(self._id)]
        return [self.window, *watchers] if self.window in self._clients.windows() else watchers

    def _any_can(self, can: Callable[[Window], bool]) -> bool:
        # Whoever comes back is asked, so what a client that left began goes on to wait.
        return self.window not in self._clients.windows() or any(map(can, self._taking_part()))
