"""Puts the daemon together once the client is known: documents, editor, conversations, handlers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from oh_daemon.contract.items import Contract
from oh_daemon.contract.protocol import REQUESTS
from oh_daemon.contract.protocol import Method as Described
from oh_daemon.contract.settings import Merged
from oh_daemon.core.ports import Json
from oh_daemon.core.secrets import Masker
from oh_daemon.fronts.conversations import Conversations, House
from oh_daemon.fronts.diary import keep_diary
from oh_daemon.fronts.lsp import handlers_conversation, handlers_daemon, handlers_history
from oh_daemon.fronts.lsp.client import Client, ClientAnswer
from oh_daemon.fronts.lsp.client_facts import ClientFacts
from oh_daemon.fronts.lsp.daemon import Daemon
from oh_daemon.fronts.lsp.editor import ClientEditor
from oh_daemon.fronts.lsp.lifecycle import Server
from oh_daemon.fronts.lsp.publisher import Progress, Publisher
from oh_daemon.fronts.lsp.rpc import Method, RequestContext
from oh_daemon.fronts.lsp.sync import Documents
from oh_daemon.fronts.models import Models
from oh_daemon.fronts.places import Places
from oh_daemon.fronts.sources import SettingsSources, secret_values
from oh_daemon.fronts.trust import TrustBook
from oh_daemon.fronts.wiring import Shared
from oh_daemon.store.user_state import UserState
from oh_daemon.workspace.paths import path_from_uri

_WARM = frozenset({"conversation/start", "conversation/open", "conversation/list"})
"""The first of these imports litellm in the background (1.7 s): an idle window never pays."""


@dataclass(frozen=True, slots=True)
class Composed:
    """A daemon, and what its server is to call."""

    daemon: Daemon
    methods: dict[str, Method]
    notifications: dict[str, Callable[[Json], None]]


def compose(
    server: Server, facts: ClientFacts, environment: Mapping[str, str], places: Places
) -> Composed:
    """Everything behind the methods. Called on the main loop, right after `initialize`."""
    documents = Documents(facts.position_encoding, facts.folder_uris)
    publisher = Publisher(server.outbox, server.client, facts)
    user_state = UserState(places.decisions_file)
    trusted = {path: verdict for uri, verdict in facts.trust.items() if (path := _path(uri))}
    trust = TrustBook(user_state, trusted=trusted)
    sources = SettingsSources(environment, places.settings_file, client=_client_settings(facts))

    def settings(folder: Path | None) -> Merged:
        is_trusted = folder is not None and trust.of(folder) == "full"
        return sources.merged(folder, is_trusted=is_trusted)

    models = Models(lambda: settings(None).settings, environment)
    masker = Masker(secret_values(environment))
    keep_diary(places.log_file, settings(None).settings.log_level, masker)
    shared = Shared(
        trust=trust,
        masker=masker,
        environment=environment,
        editor=ClientEditor(documents, server.client, facts),
        can_ask=publisher.asker.can_ask,
        is_granted=user_state.is_granted,
        save_grant=user_state.add_grant,
        listeners=(publisher,),
    )
    house = House(
        shared=shared,
        model_for=models.model_for,
        default_model=models.require_default,
        settings=settings,
        user_folder=places.state_folder,
        client_name=facts.name,
    )
    daemon = Daemon(
        conversations=Conversations(house),
        shared=shared,
        documents=documents,
        outbox=server.outbox,
        publisher=publisher,
        facts=facts,
        trust=trust,
        models=models,
        settings=settings,
    )
    methods = bind(daemon)
    return Composed(daemon, methods, _notifications(daemon, sources, server))


def bind(daemon: Daemon) -> dict[str, Method]:
    """A handler for every method of the registry, and for nothing else."""
    modules = (handlers_conversation, handlers_history, handlers_daemon)
    handlers = {name: handler for module in modules for name, handler in module.HANDLERS.items()}
    methods = {method.name: _bound(daemon, method, handlers[method.name]) for method in REQUESTS}
    for name in _WARM:
        methods[name] = _warming(methods[name])
    methods["workspace/executeCommand"] = handlers_daemon.execute_command(daemon, methods)
    return methods


def _bound(
    daemon: Daemon, method: Described, handler: Callable[[Daemon, Any, RequestContext], Any]
) -> Method:
    params_type: type[Contract] = method.params

    def call(params: Json, context: RequestContext) -> Any:
        return handler(daemon, params_type.model_validate(params), context)

    return call


def _warming(method: Method) -> Method:
    started = threading.Event()

    def call(params: Json, context: RequestContext) -> Any:
        if not started.is_set():
            started.set()
            context.after_answer(_warm_up)
        return method(params, context)

    return call


def _warm_up() -> None:
    from oh_daemon.model.client import warm_up  # noqa: PLC0415 - imports nothing slow by itself.

    warm_up()


def _notifications(
    daemon: Daemon, sources: SettingsSources, server: Server
) -> dict[str, Callable[[Json], None]]:
    configuration = ClientConfiguration(sources, daemon.facts, server.client)

    def on_progress_cancel(params: Json) -> None:
        conversation_id = Progress.conversation_of(params.get("token"))
        live = daemon.conversations.find_live(conversation_id or "")
        if live is not None:
            live.conversation.interrupt()

    return {
        **daemon.documents.notifications(),
        "initialized": configuration.ask,
        "workspace/didChangeConfiguration": configuration.on_change,
        "window/workDoneProgress/cancel": on_progress_cancel,
    }


class ClientConfiguration:
    """Keeps the settings that the client has for us, section `ohDaemon`."""

    def __init__(self, sources: SettingsSources, facts: ClientFacts, client: Client) -> None:
        self._sources = sources
        self._facts = facts
        self._client = client

    def ask(self, _params: Json) -> None:
        if self._facts.offers("workspace", "configuration"):
            wanted = {"items": [{"section": "ohDaemon"}]}
            self._client.request_async("workspace/configuration", wanted, self._on_answer)

    def on_change(self, params: Json) -> None:
        """Old clients push all settings; the others want to be asked."""
        if settings := _object(_object(params.get("settings")).get("ohDaemon")):
            self._sources.client = settings
        else:
            self.ask({})

    def _on_answer(self, answer: ClientAnswer) -> None:
        result: Any = answer.result
        found = cast("list[Any]", result) if isinstance(result, list) else [None]
        if answer.outcome == "answered" and found and (settings := _object(found[0])):
            self._sources.client = {**_client_settings(self._facts), **settings}


def _client_settings(facts: ClientFacts) -> Json:
    return _object(_object(facts.options.get("ohDaemon")).get("settings"))


def _object(value: object) -> Json:
    return cast("Json", value) if isinstance(value, dict) else {}


def _path(name: str) -> Path | None:
    return path_from_uri(name) or (Path(name) if name.startswith("/") else None)
