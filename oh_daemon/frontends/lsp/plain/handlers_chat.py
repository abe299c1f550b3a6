"""Chats in Markdown files, for clients without a plugin: commands, code lenses and code actions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

from oh_daemon.common.plain_text import display_escaped
from oh_daemon.features.export.export import one_line
from oh_daemon.frontends.lsp.client_facts import ClientFacts
from oh_daemon.frontends.lsp.daemon import Daemon
from oh_daemon.frontends.lsp.plain.change_marks import ChangeMarks, list_changes
from oh_daemon.frontends.lsp.plain.chat_text import conversation_of, heading_line
from oh_daemon.frontends.lsp.plain.chats import Chat, Chats
from oh_daemon.jsonrpc.client import Client, ClientAnswer
from oh_daemon.jsonrpc.framing import encode
from oh_daemon.jsonrpc.reading import field_in
from oh_daemon.kernel.approval_requests import before_user
from oh_daemon.kernel.ports import Json
from oh_daemon.protocol import branches as m
from oh_daemon.protocol.base import Range
from oh_daemon.protocol.errors import DaemonError, InvalidStateError
from oh_daemon.protocol.language_servers import ChatNamed
from oh_daemon.workspace.paths import path_from_uri, real_path, uri_from_path

_ERROR, _INFO = 1, 3
_SEND = "ohDaemon.sendChat"
_ON_CHAT: Mapping[str, tuple[str, Json]] = {
    "Send to the agent": (_SEND, {}),
    "Stop the agent": ("ohDaemon.interrupt", {}),
    "Let the agent go on": ("ohDaemon.resume", {}),
    "Review the changes": ("ohDaemon.review", {}),
    "Keep all changes": ("ohDaemon.keep", {}),
    "Undo all changes": ("ohDaemon.undo", {}),
    "Apply all changes": ("ohDaemon.apply", {}),
    "Discard all changes": ("ohDaemon.discard", {}),
    "Mode, approval and model": ("ohDaemon.options", {}),
    "Take back the last message": ("ohDaemon.rollback", {}),
    "Other conversations": ("ohDaemon.list", {}),
    "New conversation": ("ohDaemon.chat", {"new": True}),
}
"""Title to command and argument; the commands are about the conversation of the file."""
_REVIEW, _SETTLE = ("ohDaemon.keep", "ohDaemon.undo"), ("ohDaemon.apply", "ohDaemon.discard")
"""Commands for changes that are applied already, and for those of an isolated conversation."""


class ChatHandlers:
    """What one client asks of its chats, and how it is told what it does not display itself."""

    def __init__(self, daemon: Daemon, client: Client, facts: ClientFacts) -> None:
        self._daemon = daemon
        self._client = client
        self._can_show = facts.offers("window", "showDocument", "support")
        self.chats = Chats(daemon)
        self.marks = ChangeMarks(daemon, client, facts)
        daemon.publisher.on_changes = self.marks.refresh

    def commands(self) -> dict[str, Callable[[object], Any]]:
        """Return what runs each command, on a worker thread."""
        return {
            "ohDaemon.chat": self._open,
            "ohDaemon.sendChat": self._send,
            "ohDaemon.history": lambda arguments: self.show_history(
                _parse_chat(arguments).conversation_id
            ),
            "ohDaemon.review": self._review,
        }

    # Code actions and lenses

    def actions(self, uri: str, selection: Range) -> tuple[list[Json], bool]:
        """Return what can be done there, and whether that is a chat file."""
        path = path_from_uri(uri)
        if path is None or not self.chats.is_chat(uri):
            return self.marks.actions(uri, selection), False
        document = self._daemon.documents.document(path)
        conversation_id = conversation_of(document.text) if document else None
        of_it: Json = {"conversationId": conversation_id} if conversation_id else {}
        fixed_actions = (
            _action(title, command, {"uri": uri} if command == _SEND else {**of_it, **more})
            for title, (command, more) in _ON_CHAT.items()
            if command not in (_REVIEW if self._is_isolated(conversation_id) else _SETTLE)
        )
        return [*self._answers(conversation_id), *fixed_actions], True

    def _is_isolated(self, conversation_id: str | None) -> bool:
        conversation = self._daemon.conversations.find_open(conversation_id or "")
        return conversation is not None and conversation.isolated_changes is not None

    def _answers(self, conversation_id: str | None) -> list[Json]:
        """Return one action for each answer to what waits; the file shows what it is about."""
        open_conversation = self._daemon.conversations.find_open(conversation_id or "")
        if open_conversation is None:
            return []
        with open_conversation.conversation.journal.condition:
            pending = list(open_conversation.conversation.state.approvals.values())
        return [
            _action(
                f"{option['label']}: {one_line(display_escaped(approval['title']))}",
                "ohDaemon.approve",
                {
                    "conversationId": open_conversation.id,
                    "approvalId": approval["id"],
                    "digest": approval["digest"],
                    "optionId": option["id"],
                },
            )
            for approval in pending
            for option in before_user(approval)[1]
        ]

    def lenses(self, params: Json) -> list[Json]:
        uri = str(params.get("textDocument", {}).get("uri", ""))
        path = path_from_uri(uri)
        document = self._daemon.documents.document(path) if path else None
        if document is None:
            return []
        line = heading_line(document.text)
        if line is None or not self.chats.is_chat(uri):
            return self.marks.lenses(uri)
        start = {"line": line, "character": 0}
        span = {"start": start, "end": start}
        return [{"range": span, "command": _action("Send to the agent", _SEND, {"uri": uri})}]

    # Commands

    def _open(self, arguments: object) -> Json:
        """Show a chat: the one that is named, else the one that changed last, else a new one."""
        chat_args = _parse_chat(arguments)
        files = self.chats.files()
        if chat_args.name:
            path = files.path_of(chat_args.name)
        else:
            other_files = [] if chat_args.new else files.all()
            path = other_files[0] if other_files else self.chats.new_path(files)
        return self._chat_result(self.chats.at(path))

    def _chat_result(self, chat: Chat) -> Json:
        open_conversation = self.chats.resume(chat)
        uri = uri_from_path(chat.writer.path)
        self.show(uri, f"The chat is in {chat.writer.path}")
        return {
            "uri": uri,
            **({"conversationId": open_conversation.id} if open_conversation else {}),
        }

    def show_history(self, conversation_id: str | None) -> Json:
        """Show all of a conversation in its file; without an id, of the one that changed last."""
        open_conversation = self.chats.named_or_current(conversation_id)
        return self._chat_result(self.chats.of(open_conversation))

    def _send(self, arguments: object) -> Json:
        return self.chats.send(self._chat(_parse_chat(arguments)))

    def _chat(self, chat_args: ChatNamed) -> Chat:
        path = path_from_uri(chat_args.uri or "")
        if path is not None:
            return self.chats.at(real_path(path))
        if chat_args.name:
            return self.chats.at(self.chats.files().path_of(chat_args.name))
        # A draft that nobody has seen here may be a repository's.
        if self.chats.last is None:
            raise InvalidStateError("open a chat first, with ohDaemon.chat")
        return self.chats.last

    def _review(self, arguments: object) -> m.ChangesListResult:
        """Go to the first change that waits, and put all of them into the chat."""
        chats = self.chats
        open_conversation = chats.named_or_current(_parse_chat(arguments).conversation_id)
        files, place = self.marks.review(open_conversation)
        if files:
            chats.of(open_conversation).show_patches(files)
            names = ", ".join(file.uri.rpartition("/")[2] for file in files)
            self.show(files[0].uri, f"To review: {names}", place)
        else:
            self.notify("Nothing waits for review.")
        return list_changes(open_conversation)

    # What the client shows

    def show(self, uri: str, otherwise: str, place: Json | None = None) -> None:
        """Show a document, or else a message."""
        if not self._can_show:
            self.notify(otherwise)
            return
        selection = {"selection": place} if place else {}
        params = {"uri": uri, "takeFocus": True, **selection}
        self._client.request_async("window/showDocument", params)

    def notify(self, message: str, kind: int = _INFO) -> None:
        body = encode({"type": kind, "message": message})
        self._daemon.outbox.notify("window/showMessage", body)

    def notify_failure(self, future: Future[Any]) -> None:
        error = future.exception()
        if isinstance(error, DaemonError):
            self.notify(error.message, _ERROR)

    def choose(self, message: str, actions: Mapping[str, Callable[[], Any]]) -> None:
        """Ask the user, who may close the message, and do on a worker what was chosen."""

        def on_answer(answer: ClientAnswer) -> None:
            title = field_in(answer.result, "title")
            if isinstance(title, str) and title in actions:
                self._daemon.workers.submit(actions[title]).add_done_callback(self.notify_failure)
            elif answer.lacks_method:
                self.notify(f"{message}\n{', '.join(actions)}")

        if not actions:
            self.notify(message)
            return
        buttons = [{"title": title} for title in actions]
        params = {"type": _INFO, "message": message, "actions": buttons}
        self._client.request_async("window/showMessageRequest", params, on_answer)


def _action(title: str, command: str, argument: Json) -> Json:
    return {"title": title, "command": command, "arguments": [argument]}


def _parse_chat(arguments: object) -> ChatNamed:
    return ChatNamed.model_validate(
        {"name": arguments} if isinstance(arguments, str) else arguments
    )
