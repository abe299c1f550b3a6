"""`oh-daemon remote`: the stdio server that stands between an editor and a daemon elsewhere.

Bodies pass as they are, but for what must not arrive there: keys, the editor's trust, the number
of its process. What the daemon there asks of models is answered here.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import cast

from oh_daemon.features.models.logins import Logins
from oh_daemon.features.models.models import Models
from oh_daemon.features.settings.places import Places
from oh_daemon.features.settings.sources import SettingsSources
from oh_daemon.frontends.lsp.methods import OUTGOING
from oh_daemon.frontends.remote.call_budget import CallBudget
from oh_daemon.frontends.remote.carrier import Carrier
from oh_daemon.frontends.remote.local_models import LocalModels
from oh_daemon.frontends.remote.opening import (
    ABOUT_MODELS,
    block_of,
    opened_params,
    problem_of,
    settings_there,
)
from oh_daemon.frontends.remote.uris import UriMap, alike, folders_of, paths_of
from oh_daemon.jsonrpc.client import Client
from oh_daemon.jsonrpc.dispatch import Dispatcher, Method
from oh_daemon.jsonrpc.framing import (
    ContentLength,
    Frame,
    FramingLost,
    Message,
    RequestId,
    TooLarge,
    encode,
    message_of,
    read_frames,
)
from oh_daemon.jsonrpc.outbox import Outbox
from oh_daemon.jsonrpc.reading import field_in, object_in
from oh_daemon.jsonrpc.stdio import signal_numbers
from oh_daemon.kernel.ports import Json
from oh_daemon.protocol.errors import DaemonError, UserError
from oh_daemon.storage.user_state import UserState

_EXIT_CLEAN, _EXIT_LOST, _EXIT_CANNOT_START = 0, 1, 4
_END_S = 5.0
_INITIALIZE_S = 2.0


class RemoteProxy:
    """One editor on one pair of descriptors, and one carrier."""

    def __init__(
        self, stdio: tuple[int, int], carrier: Carrier, folders: Mapping[Path, Path]
    ) -> None:
        """`folders` has the paths there of folders here, where they differ."""
        inbound, outbound = stdio
        places = Places(os.environ)
        self._sources = SettingsSources(os.environ, places.settings_file)
        models = Models(
            lambda: self._sources.merged().settings, os.environ, logins=Logins(places.logins_file)
        )
        self._inbound = inbound
        self._carrier = carrier
        self._folders = folders
        self._uris = UriMap({})
        self._editor = Outbox(outbound, ContentLength(), OUTGOING, on_gone=self._stop)
        self._remote_outbox = Outbox(carrier.outbound, ContentLength(), OUTGOING)
        self._budget = CallBudget(
            lambda: self._sources.merged().settings, UserState(places.decisions_file).spend
        )
        self._models = LocalModels(
            models,
            lambda name, params: self._remote_outbox.notify(name, encode(params)),
            self._budget,
        )
        self._for_there = _dispatcher(self._remote_outbox, self._models.methods)
        self._for_editor = _dispatcher(self._editor, self._models.of_editor)
        self._initialize: RequestId | None = None
        """The id of the editor's `initialize`, until it is answered."""
        self._has_initialize = threading.Event()
        self._asks_settings = set[RequestId]()
        """The daemon's requests for the editor's settings."""
        self._is_wanted = True
        """Whether nobody has asked for the end."""
        self._end_once = threading.Lock()

    def run(self) -> int:
        """Serve until one side ends; return the exit code."""
        # The daemon there may hold the output open for longer than its carrier lives.
        self._carrier.on_end(self._end)
        args = (signal_numbers(),)
        threading.Thread(target=self._await_signal, args=args, name="signals", daemon=True).start()
        threading.Thread(target=self._read_editor, name="reader", daemon=True).start()
        try:
            unread = self._carrier.begin()
            for frame, body in _frames(self._carrier.inbound, unread):
                self._editor.wait_for_room()
                self._on_daemon(frame, body)
        except UserError as exc:
            return self._fail(exc)
        except FramingLost as error:
            return self._fail(UserError(f"{self._carrier.target.text} sent no message: {error}"))
        if self._is_wanted:
            return self._fail(self._carrier.failure())
        code = self._carrier.exit_code()
        return self._finish(_EXIT_LOST if code is None else code)

    def _read_editor(self) -> None:
        with suppress(OSError, FramingLost):
            for frame, body in _frames(self._inbound):
                self._remote_outbox.wait_for_room()
                self._on_editor(frame, body)
        self._stop()

    def _await_signal(self, descriptor: int) -> None:
        os.read(descriptor, 1)
        self._stop()

    def _stop(self) -> None:
        self._is_wanted = False
        self._end()

    def _end(self) -> None:
        """Let the daemon there end in order, and the carrier in any case. Any thread may call."""
        if self._end_once.acquire(blocking=False):
            self._carrier.end(self._hang_up)

    def _hang_up(self) -> None:
        self._remote_outbox.close(_END_S)
        self._carrier.close_input()

    def _on_editor(self, frame: Frame, body: bytes) -> None:
        match frame:
            case TooLarge():
                self._for_editor.dispatch(frame)
            case Message(value=dict()):
                message = cast("Json", frame.value)
                if _is_key(message):
                    self._for_editor.dispatch(frame)
                    return
                self._count_conversation(message)
                self._remote_outbox.forward(
                    encode(self._uris.to_remote(self._map_message(message)))
                )
            case _:
                self._remote_outbox.forward(body)

    def _count_conversation(self, message: Json) -> None:
        """Give each conversation that the editor begins or opens its share of the budget."""
        match message.get("method"):
            case "conversation/start" | "conversation/fork":
                self._budget.add_conversation(f"new {message.get('id')}")
            case "conversation/open":
                params = object_in(message, "params")
                self._budget.add_conversation(str(params.get("conversationId")))
            case _:
                pass

    def _map_message(self, message: Json) -> Json:
        """Return what goes on to the daemon in place of a message of the editor."""
        params = object_in(message, "params")
        match message.get("method"):
            case "initialize" if "id" in message:
                return {**message, "params": self._open(message["id"], params)}
            case "workspace/didChangeConfiguration":
                settings = self._passed_on(field_in(params, "settings", "ohDaemon"))
                return {**message, "params": {"settings": {"ohDaemon": settings}}}
            case "secret/remove":
                self._models.forget_key(params.get("name"))
            case "workspace/didChangeWorkspaceFolders":
                added_paths = paths_of(field_in(params, "event", "added"))
                self._uris.add(alike(added_paths))
            case "exit":
                self._is_wanted = False
            case None if message.get("id") in self._asks_settings and "result" in message:
                self._asks_settings.discard(message["id"])
                if isinstance(message["result"], list):
                    sections = cast("list[object]", message["result"])
                    return {**message, "result": [*map(self._passed_on, sections)]}
            case _:
                pass
        return message

    def _open(self, request_id: RequestId, params: Json) -> Json:
        self._initialize = request_id
        self._has_initialize.set()
        self._uris.add(folders_of(params, self._carrier.target.folder, self._folders))
        self._use(object_in(block_of(params), "settings"))
        return opened_params(params, self._models.offer, self._sources.merged().settings)

    def _use(self, settings: Json) -> None:
        """Use those of the editor's settings that are about models and what they may cost."""
        about = (*ABOUT_MODELS, "model", "maxCostUsdPerConversation", "maxCostUsdPerDay")
        self._sources.client = {n: v for n, v in settings.items() if n in about}

    def _passed_on(self, settings: object) -> object:
        """Return the settings for there; those about models are used here."""
        if not isinstance(settings, dict):
            return settings
        settings_values = cast("Json", settings)
        self._use(settings_values)
        default = self._models.offer.get("default")
        return settings_there(settings_values, default, self._sources.merged().settings)

    def _on_daemon(self, frame: Frame, body: bytes) -> None:
        message = message_of(frame)
        method = message.get("method")
        if isinstance(frame, TooLarge) or method in self._models.methods:
            self._for_there.dispatch(frame)
            return
        if method == OUTGOING.cancel:
            self._for_there.dispatch(frame)  # The editor ignores what it was not asked.
        elif method == "workspace/configuration":
            self._asks_settings.add(message["id"])
        elif (
            method is None
            and self._initialize is not None
            and message.get("id") == self._initialize
        ):
            problem = problem_of(message, version("oh-daemon"), self._carrier.target.text)
            if problem is not None:
                raise problem
            self._initialize = None
        self._editor.forward(encode(self._uris.to_local(message)) if message else body)

    def _fail(self, error: DaemonError) -> int:
        """Say why there is no daemon any more, where the editor and the user look."""
        if self._has_initialize.wait(_INITIALIZE_S) and self._initialize is not None:
            self._for_editor.refuse(self._initialize, cast("UserError", error))
        sys.stderr.write(f"oh-daemon: {error.with_hint}\n")
        is_start = self._initialize is not None or not self._has_initialize.is_set()
        self._end()
        return self._finish(_EXIT_CANNOT_START if is_start else _EXIT_LOST)

    def _finish(self, code: int) -> int:
        self._for_there.abandon()
        self._editor.close(_END_S)
        self._carrier.kill()
        return code


def _dispatcher(outbox: Outbox, methods: Mapping[str, Method]) -> Dispatcher:
    cancel = (OUTGOING.cancel, "id")
    return Dispatcher(
        outbox, Client(outbox), lambda _method: None, cancel, frozenset(methods), dict(methods)
    )


def _frames(descriptor: int, unread: bytes = b"") -> Iterator[tuple[Frame, bytes]]:
    """Yield each frame with its body as it came."""
    bodies: list[bytes] = []

    def keep_frame(body: bytes, _problem: str) -> None:
        bodies[:] = [body]

    for frame in read_frames(descriptor, ContentLength(), keep_frame, unread=unread):
        yield frame, bodies[0]


def _is_key(message: Json) -> bool:
    """Whether the editor exposes a key for models, which stays here."""
    is_set = message.get("method") == "secret/set" and "id" in message
    return is_set and field_in(message, "params", "forCommands") is not True
