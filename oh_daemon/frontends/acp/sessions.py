"""The methods that begin, open, list, change and end sessions.

What one session is asked is done in order, and a slow one holds up no other.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from oh_daemon.conversations.conversations import Conversations
from oh_daemon.conversations.history import fork
from oh_daemon.conversations.sub_agents import equip
from oh_daemon.features.approval.policy import check_options
from oh_daemon.features.models.models import Models
from oh_daemon.features.models.warm_up import warm_up
from oh_daemon.frontends.acp.connection import AcpConnection
from oh_daemon.frontends.acp.server import KEY_IN_ENVIRONMENT, LOGIN
from oh_daemon.frontends.acp.session import AcpSession
from oh_daemon.jsonrpc.dispatch import Method, RequestContext
from oh_daemon.jsonrpc.reading import field_in, list_in, text_in
from oh_daemon.jsonrpc.serial import Serial
from oh_daemon.kernel.journal import new_id
from oh_daemon.kernel.ports import Json
from oh_daemon.protocol import events as e
from oh_daemon.protocol import messages as m
from oh_daemon.protocol.branches import ForkParams
from oh_daemon.protocol.errors import (
    ConversationNotFoundError,
    InvalidParamsError,
    RequestCancelledError,
)
from oh_daemon.protocol.mcp import McpServerSettings
from oh_daemon.workspace.paths import path_from_uri, unusable

_PAGE = 50
_INTERRUPT_S = 10.0
_LAST_WORDS_S = 0.2


class Sessions:
    """All sessions of a client. Its methods are called on the main thread."""

    def __init__(self, connection: AcpConnection, models: Models) -> None:
        self._to = connection
        self._models = models
        self._services = connection.context.services
        self._open: dict[str, AcpSession] = {}
        self._closed_conversations = Conversations(connection.context, equip)
        """For logs that no session has open."""
        self.serial = Serial(ThreadPoolExecutor(4, thread_name_prefix="session"))

    def methods(self) -> dict[str, Method]:
        return {
            "authenticate": self._authenticate,
            "logout": self._log_out,
            "session/new": self._new,
            "session/load": partial(self._load, replays=True),
            "session/resume": partial(self._load, replays=False),
            "session/fork": self._fork,
            "session/list": self._list,
            "session/close": self._close,
            "session/delete": self._delete,
            "session/set_mode": self._set_mode,
            "session/set_config_option": self._set_config_option,
        }

    def require_session(self, params: Json) -> AcpSession:
        """Return the session that is meant. Raises `ConversationNotFoundError`."""
        session_id = text_in(params, "sessionId")
        session = self._open.get(session_id)
        if session is None:
            raise ConversationNotFoundError(session_id)
        return session

    def cancel(self) -> None:
        """Cancel all work under way, without waiting for its end."""
        for session in list(self._open.values()):
            session.conversations.cancel_all()

    def stop(self, left_s: float) -> None:
        """End all sessions within about this many seconds, then every process that is left."""
        for session in list(self._open.values()):
            session.conversations.close_all(max(0.1, left_s - 0.5))
        # What they had left to say comes before the answers to their prompts, or not at all.
        self._to.projector.end(_LAST_WORDS_S)
        for session_id in list(self._open):
            self._to.outbox.flush(session_id)
        self._services.close()

    # Signing in

    def _authenticate(self, params: Json, _context: RequestContext) -> Json:
        if text_in(params, "methodId") not in {KEY_IN_ENVIRONMENT, LOGIN}:
            what = f"is not a way to sign in here; there are {KEY_IN_ENVIRONMENT!r} and {LOGIN!r}"
            raise InvalidParamsError.at("methodId", what, "unknown")
        self._models.require_key()
        return {}

    def _log_out(self, _params: Json, _context: RequestContext) -> Json:
        self._models.log_out()
        return {}

    # Sessions begin

    def _new(self, params: Json, context: RequestContext) -> Any:
        folders, servers = _folders_in(params), self._servers_in(params)
        session_id = new_id()
        context.hold(session_id)
        context.after_answer(warm_up)

        def start() -> Json:
            _require_open(context)
            session = AcpSession(self._to, session_id, folders, servers)
            with self._hold_session(session):
                own = session.conversations
                own.start(m.StartParams(), folders, conversation_id=session_id)
                return _begin(session)

        return self.serial.run(session_id, start)

    def _load(self, params: Json, context: RequestContext, *, replays: bool) -> Any:
        session_id = text_in(params, "sessionId")
        folders, servers = _folders_in(params), self._servers_in(params)
        context.hold(session_id)
        context.after_answer(warm_up)

        def load() -> Json:
            _require_open(context)
            session = self._open.get(session_id) or AcpSession(
                self._to, session_id, folders, servers
            )
            with self._hold_session(session):
                session.conversations.open(session_id, folders, at_work=False)
                if replays:
                    session.replay()
                session.open_conversation.start()
                return {key: value for key, value in _begin(session).items() if key != "sessionId"}

        return self.serial.run(session_id, load)

    def _fork(self, params: Json, context: RequestContext) -> Any:
        source = text_in(params, "sessionId")
        folders, servers = _folders_in(params), self._servers_in(params)

        def copy() -> Json:
            # It has to be written before it is known by what id it is held.
            own = (
                self._open[source].conversations
                if source in self._open
                else self._closed_conversations
            )
            branch = fork(own, ForkParams(conversation_id=source), folders, at_work=False)
            own.close(branch.id)
            context.hold(branch.id)
            session = AcpSession(self._to, branch.id, folders, servers)
            with self._hold_session(session):
                session.conversations.open(branch.id, folders)
                return _begin(session)

        return self.serial.run(source, copy)

    @contextmanager
    def _hold_session(self, session: AcpSession) -> Generator[None]:
        """Count the session as open from here on, unless what is done now fails."""
        is_new = session.id not in self._open
        self._open[session.id] = session
        try:
            yield
        except BaseException:
            if is_new:
                del self._open[session.id]
                session.conversations.close_all(1.0)
            raise

    def _servers_in(self, params: Json) -> dict[str, McpServerSettings]:
        """Return the client's MCP servers; what they are given is secret from here on."""
        return {
            text_in(server, "name"): _server(server, self._services.masker.add)
            for server in list_in(params, "mcpServers")
        }

    # The others

    def _list(self, params: Json, _context: RequestContext) -> Any:
        cwd = params.get("cwd")
        folders = [Path(cwd)] if isinstance(cwd, str) else None
        return self.serial.run("list", partial(self._list_page, folders, params.get("cursor")))

    def _list_page(self, folders: Sequence[Path] | None, cursor: Any) -> Json:
        folder_list = self._known_folders() if folders is None else folders
        by_id = {each["id"]: each for each in self._closed_conversations.summaries(folder_list)}
        for session in list(self._open.values()):
            open_conversation = {each["id"]: each for each in session.conversations.summaries([])}
            by_id |= {key: each for key, each in open_conversation.items() if key == session.id}
        infos = [info for each in by_id.values() if (info := _session_info(each)) is not None]
        if folders is not None:
            infos = [each for each in infos if Path(each["cwd"]) in folders]
        infos.sort(key=lambda each: str(each["updatedAt"]), reverse=True)
        ids = [each["sessionId"] for each in infos]
        if cursor is not None and cursor not in ids:
            raise InvalidParamsError.at("cursor", "is not of this list; list from the start")
        first = 0 if cursor is None else ids.index(cursor) + 1
        page = infos[first : first + _PAGE]
        more = {"nextCursor": page[-1]["sessionId"]} if infos[first + _PAGE :] else {}
        return {"sessions": page, **more}

    def _known_folders(self) -> list[Path]:
        own = (folder for session in list(self._open.values()) for folder in session.folders)
        return list(dict.fromkeys([*own, *self._services.own_logs.projects()]))

    def _close(self, params: Json, _context: RequestContext) -> Any:
        session = self.require_session(params)
        session.cancel()
        return self.serial.run(session.id, partial(self._end, session))

    def _end(self, session: AcpSession) -> Json:
        # A second request may have waited for the first one.
        if self._open.get(session.id) is session:
            with suppress(TimeoutError):
                session.open_conversation.conversation.interrupt().result(_INTERRUPT_S)
            del self._open[session.id]
            session.conversations.close_all(1.0)
            session.mcp.close()
        return {}

    def _delete(self, params: Json, _context: RequestContext) -> Any:
        session_id = text_in(params, "sessionId")
        session = self._open.get(session_id)
        if session is not None:
            session.cancel()

        def delete() -> Json:
            folders = session.folders if session is not None else self._known_folders()
            if session is not None:
                self._end(session)
            self._closed_conversations.delete(session_id, folders, permanent=False)
            return {}

        return self.serial.run(session_id, delete)

    def _set_mode(self, params: Json, _context: RequestContext) -> Any:
        return self._set(params, "mode", text_in(params, "modeId"), _nothing)

    def _set_config_option(self, params: Json, _context: RequestContext) -> Any:
        def all_of(session: AcpSession) -> Json:
            return {"configOptions": session.pickers()["configOptions"]}

        return self._set(params, text_in(params, "configId"), text_in(params, "value"), all_of)

    def _set(
        self, params: Json, name: str, value: str, answer: Callable[[AcpSession], Json]
    ) -> Any:
        session = self.require_session(params)
        with InvalidParamsError.naming(**{f"options.{name}": "modeId" if name == "mode" else name}):
            values = check_options({name: value})

        def change() -> Json:
            journal = session.open_conversation.conversation.journal
            journal.append(e.OptionsChanged(values=values))
            return answer(session)

        return self.serial.run(session.id, change)


def _begin(session: AcpSession) -> Json:
    session.send_commands()
    return {"sessionId": session.id, **session.pickers()}


def _nothing(_session: AcpSession) -> Json:
    return {}


def _require_open(context: RequestContext) -> None:
    if context.cancel.is_cancelled:
        raise RequestCancelledError("cancelled by the client")


def _folders_in(params: Json) -> list[Path]:
    """Return the folders of a session, the working directory first."""
    folders: list[Path] = []
    for name in (text_in(params, "cwd"), *map(str, list_in(params, "additionalDirectories"))):
        folder = Path(name)
        problem = "must be an absolute path" if not folder.is_absolute() else unusable(folder)
        if problem:
            raise InvalidParamsError.at("cwd", f"{name!r} {problem}", "not_a_folder")
        folders.append(folder)
    return list(dict.fromkeys(folders))


def _server(server: Any, hide: Callable[[str], None]) -> McpServerSettings:
    if (kind := field_in(server, "type")) in ("http", "sse"):
        fields: Json = {"url": text_in(server, "url"), "transport": kind}
        fields["headers"] = _pairs(server, "headers", hide)
    else:
        args = tuple(map(str, list_in(server, "args")))
        fields = {"command": text_in(server, "command"), "args": args}
        fields["env"] = _pairs(server, "env", hide)
    return McpServerSettings.model_validate(fields)


def _pairs(server: Any, name: str, hide: Callable[[str], None]) -> dict[str, str]:
    """Return names with their values, which are secret."""
    rows = list_in(server, name)
    pairs = {text_in(row, "name"): str(field_in(row, "value") or "") for row in rows}
    for value in pairs.values():
        hide(value)
    return pairs


def _session_info(summary: Mapping[str, Any]) -> Json | None:
    """Return what a list shows of a conversation; None if it works in no folder.

    Nor if nothing was said in it: clients begin sessions for chats that nobody uses.
    """
    folders = [str(path) for uri in summary["folders"] if (path := path_from_uri(uri))]
    if not folders or not summary["messageCount"]:
        return None
    return {
        "sessionId": summary["id"],
        "cwd": folders[0],
        "additionalDirectories": folders[1:],
        "updatedAt": summary["updatedAt"],
        # Not null, though it may be: a client joins it to other texts.
        **({"title": title} if (title := summary["title"]) else {}),
    }
