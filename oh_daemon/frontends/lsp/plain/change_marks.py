"""Where the agent's changes wait for review, for clients that show it with LSP alone.

Each hunk is an information diagnostic, with *Keep* and *Undo* as code lenses and as code actions.
A worker finds the hunks after each change of a review; requests are answered from what it found.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from pathlib import Path

from msgspec import Struct

from oh_daemon.conversations.open_conversation import OpenConversation
from oh_daemon.features.review.handlers import changes_diff, changes_list
from oh_daemon.frontends.lsp.client_facts import ClientFacts
from oh_daemon.frontends.lsp.daemon import Daemon, changes_of
from oh_daemon.jsonrpc.client import Client
from oh_daemon.jsonrpc.framing import encode
from oh_daemon.kernel.journal import History
from oh_daemon.kernel.ports import Json
from oh_daemon.protocol import branches as m
from oh_daemon.protocol.base import Range
from oh_daemon.protocol.errors import DaemonError
from oh_daemon.protocol.items import Hunk
from oh_daemon.workspace.paths import path_from_uri, real_path

SOURCE = "oh-daemon"
_INFORMATION = 3
_MAX_FILES = 50
_MAX_LINES = 20_000


class ChangedFile(Struct, frozen=True):
    """A changed file: what waits there, and the agent's text, in which the hunks are counted."""

    conversation_id: str
    uri: str
    text: str
    patch: str
    hunks: tuple[Hunk, ...]


class ChangeMarks:
    """Of all conversations that are open here. Thread-safe."""

    def __init__(self, daemon: Daemon, client: Client, facts: ClientFacts) -> None:
        self._daemon = daemon
        self._client = client
        self._is_plain = facts.is_plain
        self._can_refresh = facts.offers("workspace", "codeLens", "refreshSupport")
        self._lock = threading.Lock()
        self._due_ids: set[str] = set()
        self._files: dict[Path, ChangedFile] = {}
        """By real path."""

    def refresh(self, history: History) -> None:
        """Look again soon. Called under the conversation's lock."""
        if self._is_plain and history.id not in self._due_ids:
            self._due_ids.add(history.id)
            self._daemon.workers.submit(self._update_marks, history.id)

    def _update_marks(self, conversation_id: str) -> None:
        self._due_ids.discard(conversation_id)
        open_conversation = self._daemon.conversations.find_open(conversation_id)
        files = {} if open_conversation is None else dict(_files(open_conversation))
        with self._lock:
            before = [p for p, f in self._files.items() if f.conversation_id == conversation_id]
            closed_paths = [path for path in before if path not in files]
            for path in closed_paths:
                del self._files[path]
            self._files |= files
        for path in (*closed_paths, *files):
            self._publish(path)
        if self._can_refresh:
            self._client.request_async("workspace/codeLens/refresh", None)

    def _publish(self, path: Path) -> None:
        problems = [
            {
                "range": span,
                "severity": _INFORMATION,
                "source": SOURCE,
                "message": f"The agent changed this: +{hunk.new_lines} −{hunk.old_lines} lines."
                " Keep or undo it by code action.",
            }
            for _, hunk, span in self._places(path)
        ]
        params: Json = {"uri": self._daemon.documents.uri_of(path), "diagnostics": problems}
        self._daemon.outbox.notify("textDocument/publishDiagnostics", encode(params))

    def _places(self, path: Path) -> list[tuple[ChangedFile, Hunk, Json]]:
        """Return the hunks of a file, each with its range in the text that the client shows."""
        with self._lock:
            file = self._files.get(path)
        if file is None:
            return []
        document = self._daemon.documents.document(path)
        text = document.text if document else file.text
        spans = _spans(file.text.splitlines(), text.splitlines(), file.hunks)
        return [(file, hunk, span) for hunk, span in zip(file.hunks, spans, strict=True)]

    def lenses(self, uri: str) -> list[Json]:
        return [
            {"range": {"start": span["start"], "end": span["start"]}, "command": command}
            for file, hunk, span in self._places(_real(uri))
            for command in _commands(("Keep", "Undo"), file, hunk)
        ]

    def actions(self, uri: str, selection: Range) -> list[Json]:
        """Return what can be done with the changes in these lines and in the whole file."""
        places = self._places(_real(uri))
        actions = [
            command
            for file, hunk, span in places
            if span["start"]["line"] <= selection.end.line
            and selection.start.line <= max(span["start"]["line"], span["end"]["line"] - 1)
            for command in _commands(("Keep this change", "Undo this change"), file, hunk)
        ]
        if places:
            titles = ("Keep all changes of this file", "Undo all changes of this file")
            actions += _commands(titles, places[0][0], None)
        return actions

    def review(self, open_conversation: OpenConversation) -> tuple[list[ChangedFile], Json | None]:
        """Return the files of a conversation that wait, and the range of the first change."""
        self._update_marks(open_conversation.id)
        with self._lock:
            files = [f for f in self._files.values() if f.conversation_id == open_conversation.id]
        places = self._places(_real(files[0].uri)) if files else []
        return files, places[0][2] if places else None


def list_changes(open_conversation: OpenConversation) -> m.ChangesListResult:
    """Return what `changes/list` answers about a conversation."""
    return changes_list(
        changes_of(open_conversation), m.ChangesListParams(conversation_id=open_conversation.id)
    )


def diff_of(open_conversation: OpenConversation, uri: str) -> m.ChangesDiffResult:
    """Return what `changes/diff` answers about one file of a conversation."""
    params = m.ChangesDiffParams(conversation_id=open_conversation.id, uri=uri)
    return changes_diff(changes_of(open_conversation), params)


def _files(open_conversation: OpenConversation) -> Iterator[tuple[Path, ChangedFile]]:
    """Yield the files of a conversation that wait for review, but for those that are gone."""
    if (
        open_conversation.isolated_changes is not None
        or not open_conversation.runtime.folders.folders
    ):
        return
    pending = [
        file
        for file in list_changes(open_conversation).files
        if file.state in {"pending", "conflict"}
    ]
    for file in pending[:_MAX_FILES]:
        try:
            diff = diff_of(open_conversation, file.uri)
        except DaemonError:
            continue  # Its texts are lost, so it has no hunks either.
        if diff.new_text is not None:
            yield (
                _real(file.uri),
                ChangedFile(open_conversation.id, file.uri, diff.new_text, diff.patch, diff.hunks),
            )


def _spans(old: list[str], new: list[str], hunks: Sequence[Hunk]) -> list[Json]:
    """Return the ranges of hunks of the lines `old` among the lines that there are now."""
    moves = [(0, len(old), 0)]
    if old != new and len(old) + len(new) <= _MAX_LINES:
        matcher = SequenceMatcher(None, old, new, autojunk=False)
        moves = [
            (match.a, match.a + match.size, match.b) for match in matcher.get_matching_blocks()
        ]

    def now(line: int) -> int:
        for start, end, to in reversed(moves):
            if start <= line:
                return min(to + min(line, end) - start, len(new))
        return 0

    return [
        {
            "start": {"line": now(hunk.new_start), "character": 0},
            "end": {"line": now(hunk.new_start + hunk.new_lines), "character": 0},
        }
        for hunk in hunks
    ]


def _commands(titles: tuple[str, str], file: ChangedFile, hunk: Hunk | None) -> list[Json]:
    """Return the commands that keep and undo a hunk, or all of the file."""
    command_args: Json = {"uris": [file.uri]}
    if hunk is not None:
        old = {"oldStart": hunk.old_start, "oldLines": hunk.old_lines}
        new = {"newStart": hunk.new_start, "newLines": hunk.new_lines}
        command_args = {"hunks": [{"uri": file.uri, **old, **new}]}
    arguments = [{"conversationId": file.conversation_id, **command_args}]
    return [
        {"title": title, "command": command, "arguments": arguments}
        for title, command in zip(titles, ("ohDaemon.keep", "ohDaemon.undo"), strict=True)
    ]


def _real(uri: str) -> Path:
    return real_path(path_from_uri(uri) or Path(uri))
