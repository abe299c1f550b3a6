"""Whose client acts in a conversation that several take part in, and under what it acts.

The client that sent the message of a turn has its documents, its trust and its settings in force,
also when it has left. Invariant: only the conversation's lock lets that change.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from oh_daemon.conversations.services import Shared
from oh_daemon.features.sandbox.levels import Sandbox
from oh_daemon.frontends.lsp.composition import Window
from oh_daemon.frontends.serve.editors import EditorOfMany, Present, ServersOfMany
from oh_daemon.kernel.ports import Model, Question, Tool
from oh_daemon.protocol import plain
from oh_daemon.protocol.settings import Merged
from oh_daemon.workspace.paths import Folders


class Acting:
    """Of one conversation and its sub-agents."""

    def __init__(self, conversation_id: str, present: Present, window: Window) -> None:
        self._id = conversation_id
        self._present = present
        self._speaker: Window | None = None
        self._senders: dict[str, Window] = {}
        """By the id of each message that waits."""
        self._begins = False
        """Whether a turn has started, and its message comes next."""
        self._secrets = ChainMap(window.shared.secrets)
        self._verdicts = ChainMap(dict(window.shared.trust.verdicts))
        self._act(window)

    def _act(self, window: Window) -> None:
        self.window = window
        self._secrets.maps = [window.shared.secrets]
        self._verdicts.maps = [dict(window.shared.trust.verdicts)]

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
                    self._act(sender)
                self._begins = False
            case _:
                pass

    def shared(self, base: Shared) -> Shared:
        """Return what the conversation shares with others: of `base`, and of whoever acts."""
        return replace(
            base,
            settings=self._settings,
            model_for=self._model_for,
            default_model=lambda: self._own().default_model(),
            efforts_of=self._efforts_of,
            trust=base.trust.beside(self._verdicts),
            sandbox=self._sandbox,
            secrets=self._secrets,
            editor=EditorOfMany(self._own, self._present),
            servers=ServersOfMany(self._taking_part),
            seen_in_editor=self._seen_in_editor,
            client_tools=self._tools,
            is_attended=lambda: self._own().is_attended(),
            can_ask=lambda: self._any_can(lambda each: each.publisher.asker.can_ask()),
            can_answer=self._can_answer,
        )

    def _own(self) -> Shared:
        return (self._speaker or self.window).shared

    def _settings(self, folder: Path | None) -> Merged:
        return self._own().settings(folder)

    def _model_for(self, name: str) -> Model:
        return self._own().model_for(name)

    def _efforts_of(self, name: str) -> Sequence[str]:
        return self._own().efforts_of(name)

    def _sandbox(self, folders: Sequence[Path]) -> Sandbox:
        return self._own().sandbox(folders)

    def _seen_in_editor(self, folders: Folders) -> dict[str, str]:
        return self._own().seen_in_editor(folders)

    def _tools(self, conversation_id: str) -> Sequence[Tool]:
        given = (each.shared.client_tools(conversation_id) for each in self._present.windows())
        return next(filter(None, given), ())

    def _taking_part(self) -> list[Window]:
        """Return the clients that have it open and the one that acts, which is the first."""
        windows = (w for w in self._present.windows() if w is not self.window)
        others = [each for each in windows if each.publisher.is_watched(self._id)]
        return [self.window, *others] if self.window in self._present.windows() else others

    def _any_can(self, can: Callable[[Window], bool]) -> bool:
        # Whoever comes back is asked, so what a client that left began goes on to wait.
        return self.window not in self._present.windows() or any(map(can, self._taking_part()))

    def _can_answer(self, question: Question) -> bool:
        return self._any_can(lambda each: each.publisher.asker.can_answer(question))
