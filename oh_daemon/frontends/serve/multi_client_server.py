"""One process for several clients: what they share, who is there, and who hears of what.

Each client has a connection of its own, as over stdio; all have the same conversations. A client
sees those of the folders that it has opened. Invariant: a client that leaves ends nothing.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from pathlib import Path

from oh_daemon.conversations.conversations import Conversations
from oh_daemon.conversations.daemon_log import log_to
from oh_daemon.conversations.services import ClientConnection, ConversationContext, compose, user_of
from oh_daemon.conversations.sub_agents import equip
from oh_daemon.features.sandbox.levels import Sandbox
from oh_daemon.features.sandbox.self_test import SelfTest
from oh_daemon.features.settings.places import Places
from oh_daemon.features.settings.sources import SettingsSources
from oh_daemon.features.trust.trust import by_real_path
from oh_daemon.frontends.lsp.client_facts import ClientFacts
from oh_daemon.frontends.lsp.composition import Window, verdicts_of
from oh_daemon.frontends.lsp.daemon import started_pool
from oh_daemon.frontends.lsp.lifecycle import LspServer
from oh_daemon.frontends.serve.active_client import ActiveClient
from oh_daemon.frontends.serve.client_conversations import ClientConversations, sees
from oh_daemon.jsonrpc.main_loop import Service
from oh_daemon.jsonrpc.serial import Serial
from oh_daemon.kernel.journal import History, Listener
from oh_daemon.kernel.turns import BUSY
from oh_daemon.protocol import plain
from oh_daemon.protocol.daemon_messages import OpenPort
from oh_daemon.protocol.errors import OverloadedError, StorageError
from oh_daemon.system import reaper

log = logging.getLogger(__name__)

MAX_CLIENTS = 64
_HELLO_S = 30.0
"""How long a connection may say nothing at all."""
_STOP_S = 2.0


class MultiClientServer(ClientConnection, Listener):
    """Thread-safe. Stands for all clients of the process, and implements `ConnectedClients`."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        super().__init__(listeners=(self,))
        self._places = Places(environment)
        self._self_test = SelfTest(environment)
        sources = SettingsSources(environment, self._places.settings_file)
        services, user, _models = compose(self._places, {}, sources, self._self_test)
        log_to(self._places.log_file, sources.merged().settings.log_level, services.masker)
        self._self_test.verify(lambda: sources.merged().settings, tuple, self._report_level)
        services.mcp.open_page = lambda url: any(each.open_page(url) for each in self.windows())
        services.mcp.on_change = self._on_servers
        services.mcp.open_folders = self._open_folders
        self.conversations = Conversations(ConversationContext(services, user, self), equip)
        self.on_quiet: Callable[[], object] = lambda: None
        """Called when a client comes or leaves."""
        self._serial = Serial(started_pool(8))
        self._lock = threading.Lock()
        self._windows: tuple[Window, ...] = ()
        self._servers: dict[LspServer, threading.Thread] = {}
        self._leaving: dict[LspServer, Sequence[Callable[[], object]]] = {}
        self._active_clients: dict[str, ActiveClient] = {}
        self._listeners: tuple[Callable[[Path], None], ...] = ()

    # Connections

    def connect(self, peer: socket.socket, door: str) -> None:
        """Serve a client until it leaves; its socket is closed then.

        Raises `OverloadedError` when there are too many clients, and closes nothing.
        """
        with self._lock:
            if len(self._servers) >= MAX_CLIENTS:
                raise OverloadedError(f"{MAX_CLIENTS} clients are connected, which is the limit")
            descriptor = peer.fileno()
            both = descriptor, descriptor
            server = LspServer(both, self._compose, None, self._self_test.report)
            run = partial(self._serve, server, peer)
            thread = threading.Thread(target=run, name=f"client-{descriptor}", daemon=True)
            self._servers[server] = thread
        log.info("a client came through %s", door)
        thread.start()

    def _serve(self, server: LspServer, peer: socket.socket) -> None:
        self.on_quiet()
        try:
            # What connects and stays silent would else keep a place, and the process from ending.
            if reaper.wait_readable(peer.fileno(), wait_s=_HELLO_S):
                server.serve()
        finally:
            with suppress(OSError):  # Wakes who reads from it or writes to it.
                peer.shutdown(socket.SHUT_RDWR)
            for leave in self._leaving.pop(server, ()):
                leave()
            with self._lock:
                del self._servers[server]
                self._windows = tuple(each for each in self._windows if each.server is not server)
            for closed_id in [
                each for each in self._active_clients if not self.conversations.find_open(each)
            ]:
                self._active_clients.pop(closed_id, None)
            server.join()
            peer.close()
            log.info("a client has left")
            self.on_quiet()

    @property
    def is_quiet(self) -> bool:
        """Whether no client is there."""
        return not self._servers

    @property
    def is_at_work(self) -> bool:
        return any(
            open_conversation.conversation.journal.status in BUSY
            for open_conversation in self.conversations.all_open()
        )

    def close(self, why: str) -> None:
        """End all connections and conversations, within about two seconds."""
        log.info("stopping: %s", why)
        # Before the connections, so that clients hear how their turns end.
        self.conversations.close_all(_STOP_S / 2)
        with self._lock:
            servers = list(self._servers.items())
        for server, _ in servers:
            server.stop("the daemon is stopping")
        for _, thread in servers:
            thread.join(_STOP_S / 2 / len(servers))
        self.conversations.close_all(_STOP_S / 2)
        self.conversations.context.services.close()

    def _compose(self, server: LspServer, facts: ClientFacts) -> Iterator[Service]:
        environment = self._self_test.environment
        sources = SettingsSources(environment, self._places.settings_file, client=facts.settings)
        context = self.conversations.context
        services, user = context.services, context.user
        trust = user.trust.with_verdicts(by_real_path(verdicts_of(facts)))
        user, _models = user_of(
            sources, self._self_test, trust, user.decisions, services.masker, self._places
        )
        window = Window(server, facts, services, user)
        window.listeners = (self,)
        window.publisher.asker.can_ask_others = partial(self._has_others, window)
        window.documents.listen(self._on_text)
        daemon = window.daemon(ClientConversations(self, window), self._serial)
        daemon.speaking = partial(self._speaking, window)
        daemon.has_others = partial(self._has_others, window)
        with self._lock:
            if server in self._servers:
                self._windows += (window,)
                self._leaving[server] = daemon.leaving
        yield window.service(daemon, sources)

    def is_watched(self, conversation_id: str) -> bool:
        return any(each.is_watched(conversation_id) for each in self.windows())

    def _has_others(self, window: Window, conversation_id: str) -> bool:
        other_windows = (each for each in self.windows() if each is not window)
        return any(each.is_watched(conversation_id) for each in other_windows)

    # Who is there

    def windows(self) -> Sequence[Window]:
        return self._windows

    def act(self, conversation_id: str, window: Window) -> ConversationContext:
        """Let a client act in a conversation that it begins or opens; return its context."""
        active_client = self._active_clients[conversation_id] = ActiveClient(
            conversation_id, self, window
        )
        return active_client.context

    def _speaking(self, window: Window, conversation_id: str) -> AbstractContextManager[object]:
        active_client = self._active_clients.get(conversation_id)
        # What is said to a sub-agent changes nothing about who acts for its parent.
        return active_client.speaking(window) if active_client else nullcontext()

    def listen(self, on_change: Callable[[Path], None]) -> Callable[[], None]:
        with self._lock:
            self._listeners += (on_change,)

        def end() -> None:
            with self._lock:
                self._listeners = tuple(each for each in self._listeners if each is not on_change)

        return end

    def _on_text(self, path: Path) -> None:
        for on_change in self._listeners:
            on_change(path)

    # What everybody hears

    def on_record(self, history: History, line: bytes, record: plain.Record) -> None:
        if (active_client := self._active_clients.get(history.id)) is not None:
            active_client.on_record(record)
        for window in self._seeing(history):
            window.publisher.on_record(history, line, record)

    def on_halted(self, history: History, error: StorageError) -> None:
        for window in self._seeing(history):
            window.publisher.on_halted(history, error)

    def on_delta(
        self, history: History, item_id: str, channel: str, offset: int, text: str
    ) -> None:
        for window in self.windows():
            window.publisher.on_delta(history, item_id, channel, offset, text)

    def on_deleted(self, history: History, *, but: Window) -> None:
        """Tell the others that a conversation is gone."""
        for window in self._seeing(history):
            if window is not but:
                window.publisher.on_deleted(history)

    def on_over(self, history: History) -> None:
        """Tell everybody that the other process is done with a conversation."""
        for window in self._seeing(history):
            window.publisher.on_over(history)

    def _seeing(self, history: History) -> list[Window]:
        return [window for window in self.windows() if sees(window, history)]

    def report_ports(self, conversation_id: str, ports: Sequence[OpenPort]) -> None:
        history = self.conversations.find_history(conversation_id)
        for window in self._seeing(history) if history else ():
            window.report_ports(conversation_id, ports)

    def _report_level(self, sandbox: Sandbox) -> None:
        for window in self.windows():
            window.report_level(sandbox)

    def _open_folders(self) -> Sequence[Path]:
        """Return the folders that any client has open, each once."""
        folders = (path for window in self.windows() for path in window.documents.folders())
        return tuple(dict.fromkeys(folders))

    def _on_servers(self) -> None:
        for window in self.windows():
            window.report_servers(self.conversations.context.services.mcp)
