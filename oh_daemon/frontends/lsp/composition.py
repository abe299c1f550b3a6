"""Puts the daemon together once the client is known: documents, editor, conversations, methods.

This module imports everything slow, so it is loaded only after `initialize` is answered.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from oh_daemon.conversations.conversations import Conversations
from oh_daemon.conversations.daemon_log import log_to
from oh_daemon.conversations.services import (
    ClientConnection,
    ConversationContext,
    DaemonServices,
    UserContext,
)
from oh_daemon.conversations.services import compose as compose_services
from oh_daemon.conversations.sub_agents import equip
from oh_daemon.features.mcp.servers import ServerPool as Servers
from oh_daemon.features.models.warm_up import warm_up
from oh_daemon.features.sandbox.levels import Sandbox
from oh_daemon.features.sandbox.self_test import SelfTest
from oh_daemon.features.settings.places import Places
from oh_daemon.features.settings.sources import SettingsSources
from oh_daemon.frontends.lsp.client_facts import ClientFacts
from oh_daemon.frontends.lsp.client_models import ClientModels
from oh_daemon.frontends.lsp.client_tool_calls import ClientTools
from oh_daemon.frontends.lsp.daemon import Daemon, started_pool
from oh_daemon.frontends.lsp.editor import ClientEditor, ClientServers, EditorContext
from oh_daemon.frontends.lsp.lifecycle import LspServer
from oh_daemon.frontends.lsp.method_calls import bind
from oh_daemon.frontends.lsp.plain.handlers_standard import standard_methods
from oh_daemon.frontends.lsp.publisher import Publisher, conversation_of
from oh_daemon.frontends.lsp.sync import OpenDocuments
from oh_daemon.jsonrpc.client import Client, ClientAnswer
from oh_daemon.jsonrpc.dispatch import Method, Notification, RequestContext
from oh_daemon.jsonrpc.framing import encode
from oh_daemon.jsonrpc.main_loop import Service
from oh_daemon.jsonrpc.reading import object_in
from oh_daemon.jsonrpc.serial import Serial
from oh_daemon.kernel.ports import Json, Question, Tool
from oh_daemon.protocol.daemon_messages import OpenPort, PortChangedParams
from oh_daemon.protocol.errors import DaemonError
from oh_daemon.protocol.mcp import McpServers
from oh_daemon.workspace.paths import Folders, path_from_uri

logger = logging.getLogger(__name__)

_WARM = frozenset({"conversation/start", "conversation/open", "conversation/list"})
"""The first call of one of these imports what model calls need; idle windows do not."""


def compose(server: LspServer, facts: ClientFacts, self_test: SelfTest) -> Service:
    """Build everything behind the methods. Called right after `initialize`."""
    environment = self_test.environment
    places = Places(environment)
    sources = SettingsSources(environment, places.settings_file, client=facts.settings)
    services, user, _models = compose_services(places, verdicts_of(facts), sources, self_test)
    log_to(places.log_file, sources.merged().settings.log_level, services.masker)
    if not facts.is_attended:
        # Better late than without a tool that the task may need.
        services.mcp.wait_s = threading.TIMEOUT_MAX
    window = Window(server, facts, services, user)
    documents = window.documents
    stop_sharing = _share_tools(places, window.context, documents)
    self_test.verify(lambda: sources.merged().settings, documents.folders, window.report_level)
    _connect(services.mcp, window)
    daemon = window.daemon(Conversations(window.context, equip), Serial(started_pool(4)))

    def stop(left_s: float) -> None:
        stop_sharing()
        daemon.stop(left_s)

    return replace(
        window.service(daemon, sources), stop=stop, cancel=daemon.conversations.cancel_all
    )


class Window(ClientConnection):
    """The connection of one LSP client: its documents, its tools, and its user's answers."""

    def __init__(
        self, server: LspServer, facts: ClientFacts, services: DaemonServices, user: UserContext
    ) -> None:
        """The client's own models, if it offers any, take the place of the user's."""
        client = server.client
        if facts.models is not None:
            models = ClientModels(client, facts.models, user.models.secrets)
            user = replace(user, models=models)
        self.publisher = Publisher(server.outbox, client, facts)
        super().__init__(facts.name, (self.publisher,))
        self.server = server
        self.facts = facts
        self.documents = documents = OpenDocuments(facts.position_encoding, facts.folder_uris)
        self.editor = ClientEditor(documents, client, facts)
        self.servers = ClientServers(documents, client, facts)
        self._editor_context = EditorContext(services.masker, documents)
        self._client_tools = ClientTools(client)
        self.context = ConversationContext(services, user, self)
        """The context of conversations in which only this client takes part."""

    def seen_in_editor(self, folders: Folders) -> dict[str, str]:
        return self._editor_context.seen_in(folders)

    def tools(self, conversation_id: str) -> Sequence[Tool]:
        return self._client_tools.of(conversation_id)

    def report_ports(self, conversation_id: str, ports: Sequence[OpenPort]) -> None:
        params = PortChangedParams(conversation_id=conversation_id, ports=tuple(ports))
        body = encode(params.model_dump(by_alias=True, exclude_none=True))
        self.server.outbox.notify("port/changed", body)

    def is_watched(self, conversation_id: str) -> bool:
        return self.publisher.is_watched(conversation_id)

    def is_attended(self) -> bool:
        return self.facts.is_attended

    def can_ask(self) -> bool:
        return self.publisher.asker.can_ask()

    def can_answer(self, question: Question) -> bool:
        return self.publisher.asker.can_answer(question)

    def daemon(self, conversations: Conversations, serial: Serial) -> Daemon:
        """Return what the handlers of its methods work with."""
        outbox, publisher = self.server.outbox, self.publisher
        return Daemon(self.documents, outbox, publisher, self._client_tools, conversations, serial)

    def service(self, daemon: Daemon, sources: SettingsSources) -> Service:
        """Return what serves it, and what it says itself."""
        models, documents = self.context.user.models, self.documents
        return Service(
            methods=_bind(daemon, self.server.client, self.facts),
            notifications={
                **documents.notifications(),
                **_configuration(sources, self.facts, self.server, daemon.reconsider),
                **(models.notifications() if isinstance(models, ClientModels) else {}),
                "editor/contextChanged": self._editor_context.on_changed,
                "window/workDoneProgress/cancel": lambda params: _cancel_turn(daemon, params),
            },
            on_lost_frame=documents.on_lost_frame,
            mask=self.context.services.masker.mask,
        )

    def report_level(self, sandbox: Sandbox) -> None:
        """Say that the sandbox is not what the answer to `initialize` said. On any thread."""
        why = f", since {sandbox.cause}" if sandbox.cause else ""
        message = f"what holds commands that run unasked: {sandbox.level}{why}"
        body = encode({"kind": "warning", "message": message})
        self.server.outbox.notify("daemon/statusChanged", body)

    def open_page(self, url: str) -> bool:
        """Let the client show a page; return whether it can."""
        can_show = self.facts.offers("window", "showDocument", "support")
        if can_show:
            page = {"uri": url, "external": True}
            self.server.client.request_async("window/showDocument", page)
        return can_show

    def report_servers(self, mcp: Servers) -> None:
        """Tell the client that an MCP server starts, fails or changes its tools."""
        body = encode(McpServers(servers=mcp.infos()))
        self.server.outbox.notify("mcp/statusChanged", body)


def verdicts_of(facts: ClientFacts) -> dict[Path, bool]:
    """Return what the client says about trust, by folder."""
    return {path: verdict for uri, verdict in facts.trust.items() if (path := _path(uri))}


def _connect(mcp: Servers, window: Window) -> None:
    mcp.open_page = window.open_page
    mcp.on_change = lambda: window.report_servers(mcp)
    mcp.open_folders = window.documents.folders


def _share_tools(
    places: Places, context: ConversationContext, documents: OpenDocuments
) -> Callable[[], None]:
    """Let the user's other agents use our tools, if the user wants that; return what ends it."""
    if not context.user.settings.of(None).settings.share_tools:
        return lambda: None
    from oh_daemon.frontends.mcp_server.served_tools import ToolSocket  # noqa: PLC0415 - needed only to share tools.

    tool_socket = ToolSocket(places.tool_sockets, context, documents.folders)
    try:
        tool_socket.open()
    except (DaemonError, OSError) as exc:
        logger.warning("no tools are shared: %s", exc)
    return tool_socket.close


def _bind(daemon: Daemon, client: Client, facts: ClientFacts) -> dict[str, Method]:
    """Return a handler for every method of the registry, and for some of LSP's own."""

    def heard(name: str, method: Method) -> Method:
        def call(params: Json, context: RequestContext) -> Any:
            daemon.outbox.is_terse = False
            if name in _WARM:
                context.after_answer(warm_up)
            return method(params, context)

        return call

    methods = bind(daemon)
    on_wire = {name: heard(name, method) for name, method in methods.items()}
    # Commands of `workspace/executeCommand` run our methods too, but are no sign of knowing us.
    daemon.outbox.is_terse = facts.is_plain
    return on_wire | standard_methods(daemon, methods, client, facts)


def _configuration(
    sources: SettingsSources, facts: ClientFacts, server: LspServer, on_new: Callable[[], None]
) -> dict[str, Notification]:
    """Return the handlers that keep up with the client's settings in section `ohDaemon`."""

    def on_settings(settings: Json) -> None:
        sources.client = settings
        on_new()

    def ask(_params: Json) -> None:
        if facts.offers("workspace", "configuration"):
            params = {"items": [{"section": "ohDaemon"}]}
            server.client.request_async("workspace/configuration", params, on_answer)

    def on_answer(answer: ClientAnswer) -> None:
        settings: Any = answer.result
        # `{}` takes all settings back; `null` says that the client cannot tell.
        if isinstance(settings, list) and settings and isinstance(settings[0], dict):
            on_settings({**facts.settings, **object_in(settings[0])})

    def on_change(params: Json) -> None:
        """Take the settings that an old client pushes with the notification; ask any other."""
        if settings := object_in(params, "settings", "ohDaemon"):
            on_settings(settings)
        else:
            ask({})

    return {"initialized": ask, "workspace/didChangeConfiguration": on_change}


def _cancel_turn(daemon: Daemon, params: Json) -> None:
    open_conversation = daemon.conversations.find_open(conversation_of(params.get("token")))
    if open_conversation is not None:
        open_conversation.conversation.interrupt()


def _path(name: str) -> Path | None:
    return path_from_uri(name) or (Path(name) if name.startswith("/") else None)
