"""The chats of one client: which file belongs to which conversation, and what is written there.

A `Chat` listens to its conversation, under whose lock it only plans edits for its `ChatWriter`.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import orjson

from oh_daemon.conversations.open_conversation import OpenConversation
from oh_daemon.features.export.export import fence, one_line, prose
from oh_daemon.frontends.lsp.daemon import Daemon, newest
from oh_daemon.frontends.lsp.plain.change_marks import ChangedFile
from oh_daemon.frontends.lsp.plain.chat_files import ChatFiles
from oh_daemon.frontends.lsp.plain.chat_items import (
    FROM_CHAT,
    block_of,
    missing_of,
    unmarked_text,
    written_here,
)
from oh_daemon.frontends.lsp.plain.chat_text import (
    EMPTY,
    conversation_of,
    draft,
    escape_text,
    id_mark,
    plan_insertion,
    plan_sent,
    whole_paragraphs,
)
from oh_daemon.frontends.lsp.plain.chat_writer import ChatWriter
from oh_daemon.kernel.delivery import title_of
from oh_daemon.kernel.journal import History, Listener, new_id
from oh_daemon.kernel.ports import Json
from oh_daemon.kernel.records import standing_records
from oh_daemon.protocol import messages as m
from oh_daemon.protocol import plain
from oh_daemon.protocol.content import TextPart
from oh_daemon.protocol.errors import InvalidParamsError, InvalidStateError
from oh_daemon.workspace.paths import path_from_uri, real_path


class Chat(Listener):
    """One file and, from its first message on, its conversation."""

    def __init__(self, files: ChatFiles, writer: ChatWriter) -> None:
        self.files = files
        self.writer = writer
        self._text_by_item: dict[str, str] = {}
        """By item, the text that came and what of it is planned."""
        self._n_planned_by_item: dict[str, int] = {}

    def put(self, block: str) -> None:
        self.writer.put(lambda text: [plan_insertion(text, block)])

    def show_patches(self, files: Sequence[ChangedFile]) -> None:
        """Put the changes that wait for review into the file."""
        texts = (
            f"**{one_line(file.uri.rpartition('/')[2])}**\n\n{fence(file.patch, 'diff')}"
            for file in files
        )
        self.put(escape_text("".join(f"{text}\n\n" for text in texts)))

    def on_delta(
        self, _history: History, item_id: str, channel: str, offset: int, text: str
    ) -> None:
        if channel != "text":
            return
        streamed_text = self._text_by_item[item_id] = (
            self._text_by_item.get(item_id, "")[:offset] + text
        )
        begin = self._n_planned_by_item.get(item_id, 0)
        end = whole_paragraphs(streamed_text)
        if end > begin:
            self._n_planned_by_item[item_id] = end
            self.put(escape_text(prose(streamed_text[begin:end])))

    def on_record(self, history: History, _line: bytes, record: plain.Record) -> None:
        event = record["event"]
        if event["type"] == "item.completed" and event["item"]["kind"] == "agentMessage":
            item = event["item"]
            self._text_by_item.pop(item["id"], None)
            begin = self._n_planned_by_item.pop(item["id"], 0)
            record = {**record, "event": {**event, "item": {**item, "text": item["text"][begin:]}}}
        block = "" if written_here(record) else block_of(record, history.state, self.files.home)
        if block:
            self.put(block)


class Chats:
    """Thread-safe; everything that reads the disk runs on a worker."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._lock = threading.Lock()
        self._opening = threading.Lock()
        self._by_path: dict[Path, Chat] = {}
        daemon.leaving.append(self._leave)
        self.last: Chat | None = None
        """The one that was named or shown last."""

    def is_chat(self, uri: str) -> bool:
        path = path_from_uri(uri)
        return path is not None and self._files_of(real_path(path)) is not None

    def _files_of(self, path: Path) -> ChatFiles | None:
        homes = (ChatFiles(folder) for folder in self._daemon.folders())
        return next((files for files in homes if files.is_chat(path)), None)

    def files(self) -> ChatFiles:
        """Return the chats of the first folder. Raises `InvalidStateError` if none is open."""
        folders = self._daemon.folders()
        if not folders:
            raise InvalidStateError("open a folder; a chat lies in `.openhands/chat` there")
        return ChatFiles(folders[0])

    def new_path(self, files: ChatFiles) -> Path:
        """Return a free path that says when the chat began."""
        stem, other_files = datetime.now().astimezone().strftime("%Y-%m-%d-%H%M"), set(files.all())
        names = (stem, *(f"{stem}-{n}" for n in range(2, len(other_files) + 3)))
        return next(path for path in map(files.path_of, names) if path not in other_files)

    def at(self, path: Path) -> Chat:
        """Return the chat in this file. Raises `InvalidParamsError`."""
        with self._lock:
            chat = self._by_path.get(path)
            if chat is None:
                files = self._files_of(path)
                if files is None:
                    raise InvalidParamsError.at("uri", "is no chat file of an open folder")
                files.ensure(path)
                writer = ChatWriter(path, files, self._daemon.context.client.editor)
                chat = self._by_path[path] = Chat(files, writer)
            self.last = chat
            return chat

    def resume(self, chat: Chat) -> OpenConversation | None:
        """Open the conversation of a chat, if it has one, and follow it in the file."""
        conversation_id = conversation_of(chat.writer.text())
        return None if conversation_id is None else self.open(conversation_id, chat)

    def open(self, conversation_id: str, chat: Chat | None = None) -> OpenConversation:
        """Open a conversation, ask again what it waits for, and follow it in its file.

        Without a `chat`, that is the file that names it, if there is one. Raises what opening does.
        """
        with self._opening:
            daemon = self._daemon
            open_conversation = daemon.conversations.open(conversation_id, daemon.folders())
            if chat is None and (path := self._path_of(open_conversation)) is not None:
                chat = self.at(path)
            if chat is not None:
                self._attach(chat, open_conversation)
            daemon.publisher.subscribe(open_conversation.conversation.journal)
            return open_conversation

    def named_or_current(self, conversation_id: str | None) -> OpenConversation:
        """Open the conversation, or else return the one that changed last."""
        if conversation_id is not None:
            return self.open(conversation_id)
        return newest(self._daemon.conversations.all_open()) or self.open_last()

    def open_last(self) -> OpenConversation:
        """Open the conversation that changed last. Raises `InvalidStateError` if there is none."""
        summaries = self._daemon.conversations.summaries(self._daemon.folders())
        last = next((each["id"] for each in summaries if not each["archived"]), None)
        if last is None:
            raise InvalidStateError(
                "there is no conversation here; start one with ohDaemon.start or ohDaemon.chat"
            )
        return self.open(last)

    def of(self, open_conversation: OpenConversation) -> Chat:
        """Return the chat of a conversation; one without a file gets one, with all that was."""
        path = self._path_of(open_conversation)
        if path is None:
            files = self.files()
            path = self.new_path(files)
            files.ensure(path, f"{id_mark(open_conversation.id)}{EMPTY}")
        chat = self.at(path)
        self._attach(chat, open_conversation)
        return chat

    def _path_of(self, open_conversation: OpenConversation) -> Path | None:
        homes = (ChatFiles(folder) for folder in self._daemon.folders())
        return next((path for files in homes if (path := files.of(open_conversation.id))), None)

    def _attach(self, chat: Chat, open_conversation: OpenConversation) -> None:
        """Follow the conversation in the file, which first gets what it lacks."""
        journal = open_conversation.conversation.journal
        text = chat.writer.text()
        with journal.condition:
            if chat in journal.listeners:
                return
            records = standing_records([orjson.loads(line) for line in journal.lines()])
            self._daemon.publisher.asker.shown_in_chat.add(journal.id)
            journal.listeners.append(chat)
            if words := unmarked_text(text, records):
                chat.writer.put(lambda text: plan_sent(text, words, open_conversation.id))
            if missing_items := missing_of(text, records, journal.state, chat.files.home):
                chat.put(missing_items)

    def _leave(self) -> None:
        """Follow no conversation any more: without its client, nobody shows the files."""
        chats = [*self._by_path.values()]
        for open_conversation in self._daemon.conversations.all_open():
            journal = open_conversation.conversation.journal
            with journal.condition:
                journal.listeners[:] = [each for each in journal.listeners if each not in chats]

    def send(self, chat: Chat) -> Json:
        """Send the draft. Raises `InvalidStateError` if there is none."""
        words = draft(chat.writer.text())
        if not words:
            raise InvalidStateError("there is nothing below the last `## You` to send")
        content = (TextPart(text=words),)
        open_conversation = self.resume(chat) or self._start_conversation(chat, words)
        live_id = open_conversation.id
        with open_conversation.conversation.journal.condition, self._daemon.speaking(live_id):
            chat.writer.put(lambda text: plan_sent(text, words, live_id))
            receipt = open_conversation.conversation.send(
                content, client_message_id=f"{FROM_CHAT}{uuid.uuid4().hex}"
            )
        return {"conversationId": open_conversation.id, **receipt}

    def _start_conversation(self, chat: Chat, words: str) -> OpenConversation:
        daemon, conversation_id = self._daemon, new_id()
        # The agent works in the first folder, which is where the chat is.
        home = chat.files.folder
        folders = sorted(daemon.folders(), key=lambda folder: folder != home)
        title = title_of((TextPart(text=words),), daemon.context.services.masker.mask)
        daemon.publisher.subscribed_ids.add(conversation_id)
        params = m.StartParams(title=title or None)
        open_conversation = daemon.conversations.start(
            params, folders, conversation_id=conversation_id
        )
        self._attach(chat, open_conversation)
        return open_conversation
