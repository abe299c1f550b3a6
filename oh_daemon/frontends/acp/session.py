"""One session: a conversation with its own editor, servers and questions, and what it tells.

As a listener it runs under the conversation's lock and only hands work to the projector.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import replace

from oh_daemon.common.cancel import CancelToken
from oh_daemon.conversations.conversations import Conversations
from oh_daemon.conversations.open_conversation import OpenConversation
from oh_daemon.conversations.services import ClientConnection, ConversationContext
from oh_daemon.conversations.sub_agents import equip, sub_agents_of
from oh_daemon.features.skills.prompts import commands_with
from oh_daemon.frontends.acp.chunks import UPDATE, chunk, update_params
from oh_daemon.frontends.acp.connection import AcpConnection
from oh_daemon.frontends.acp.editor import ClientFiles, quirks_of
from oh_daemon.frontends.acp.permission import PermissionRequests
from oh_daemon.frontends.acp.updates import (
    CHANNELS,
    REPEATED,
    pickers,
    reader_of,
    replay_updates,
    updates_of_event,
    updates_of_item,
)
from oh_daemon.jsonrpc.framing import encode
from oh_daemon.jsonrpc.outbox import MERGE_ABOVE_BYTES, DeltaStream
from oh_daemon.kernel.journal import History, Journal, Listener
from oh_daemon.kernel.ports import Json, Question
from oh_daemon.kernel.state import ENDED
from oh_daemon.protocol import plain
from oh_daemon.protocol.errors import StorageError
from oh_daemon.protocol.mcp import McpServerSettings

if TYPE_CHECKING:
    from oh_daemon.frontends.acp import schema as acp

_OF_TURNS = (
    ("continue", "Go on where the last turn stopped, or ask again what waits for you", None),
    ("compact", "Condense the conversation so far", "what to keep"),
)
"""Commands that are no prompts, each with its description and the hint for its input."""


class PromptRequest(Struct, eq=False):
    """An open request `session/prompt`."""

    blocks: Sequence[Any]
    cancel: CancelToken
    future: Future[Json] = field(default_factory=Future[Json])


class AcpSession(ClientConnection, Listener):
    """Thread-safe. `open_conversation` is set once, at the start or opening."""

    def __init__(
        self,
        connection: AcpConnection,
        session_id: str,
        folders: Sequence[Path],
        servers: Mapping[str, McpServerSettings],
    ) -> None:
        super().__init__(connection.facts.name, (self,))
        self.id = session_id
        self.folders = folders
        self.prompts: list[PromptRequest] = []
        """The open ones, oldest first."""
        self._to = connection
        self._announced_ids: set[str] = set()
        self.editor = self._files()
        self.asker = PermissionRequests(connection, session_id, self._is_heard, self.announce)
        user, services = connection.context.user, connection.context.services
        self.mcp = services.mcp.beside(
            lambda: {**user.settings.of(None).settings.mcp_servers, **servers}, folders[0]
        )
        self.mcp.open_folders = lambda: folders
        context = ConversationContext(replace(services, mcp=self.mcp), user, self)
        self.conversations = Conversations(context, equip)

    def _files(self) -> ClientFiles | None:
        to, quirks = self._to, quirks_of(self._to.facts)
        if not quirks.reads_buffers:
            return None
        return ClientFiles(to.client.request, self.id, self.folders, self._is_heard, quirks)

    def can_ask(self) -> bool:
        return True

    def can_answer(self, question: Question) -> bool:
        return self.asker.can_answer(question)

    def _is_heard(self) -> bool:
        return bool(self.prompts)

    @property
    def open_conversation(self) -> OpenConversation:
        """The conversation. Raises `ConversationNotFoundError` when it is not open."""
        return self.conversations.require_open(self.id)

    # What the client is told

    def update(self, update: acp.SessionUpdate, seq: int = 0) -> None:
        """Tell it after all updates so far, and not before the answer that is held for."""
        self._to.outbox.event(self.id, seq, encode(update_params(self.id, update)))

    def say(self, text: str, message_id: str | None = None) -> None:
        self.update(chunk("text", text, message_id))

    def announce(self, call: acp.ToolCall) -> None:
        """Tell the client of a call that it is asked about, unless it knows it."""
        if call["toolCallId"] not in self._announced_ids:
            self._announced_ids.add(call["toolCallId"])
            self.update({"sessionUpdate": "tool_call", **call})

    def ask_again(self) -> None:
        """Ask whatever waits for the user here, or in a sub-agent."""
        own = self.open_conversation.conversation.journal
        self.asker.ask_again([own, *sub_agents_of(self.conversations, own.id)])

    def replay(self) -> None:
        """Send what happened so far as fast as the client reads, before the answer under way."""
        open_conversation = self.open_conversation
        with open_conversation.conversation.journal.condition:
            items = list(open_conversation.conversation.state.items)
        outbox, read = self._to.outbox, reader_of(open_conversation.conversation.journal)
        for item in items:
            # A long log at once would make the client count as stalled, which costs other sessions
            # their events.
            outbox.wait_for_room(MERGE_ABOVE_BYTES)
            for update in replay_updates(item, self._to.shows, read):
                outbox.notify(UPDATE, encode(update_params(self.id, update)))
                if "toolCallId" in update:
                    self._announced_ids.add(update["toolCallId"])

    def pickers(self) -> Json:
        return pickers(self.conversations.options_of(self.open_conversation.conversation.journal))

    def send_commands(self) -> None:
        """Tell which commands there are: ours, those of the user's skills and of the project."""
        skills = self.open_conversation.runtime.skills
        skills.refresh()
        prompt_commands = commands_with(skills.all)
        rows = [*((c.name, c.description, c.argument_hint) for c in prompt_commands), *_OF_TURNS]
        commands: list[acp.AvailableCommand] = []
        for name, description, hint in {row[0]: row for row in rows}.values():
            commands.append({"name": name, "description": description or name})
            if hint:
                commands[-1]["input"] = {"hint": hint}
        self.update({"sessionUpdate": "available_commands_update", "availableCommands": commands})

    # What the conversation reports

    def on_record(self, history: History, line: bytes, record: plain.Record) -> None:  # noqa: ARG002 - as in `Listener`.
        act = self._on_own if history.id == self.id else self._on_sub_agent
        self._to.projector.put(partial(act, history, record))

    def on_halted(self, history: History, error: StorageError) -> None:
        # A slow worker finds the log of a closed session closed, after its prompts are answered.
        is_closing = isinstance(history, Journal) and history.is_closing
        if history.id == self.id and not is_closing:
            self._to.projector.put(partial(self.say, f"\n\n[{error.with_hint}]\n"))

    def on_delta(
        self, history: History, item_id: str, channel: str, offset: int, text: str
    ) -> None:
        if history.id == self.id:
            stream = DeltaStream(self.id, "", item_id, channel)
            act = self._print if channel == "output" else self._to.outbox.delta
            self._to.projector.put(partial(act, stream, offset, text))

    def _print(self, stream: DeltaStream, _offset: int, text: str) -> None:
        if stream.item_id in self._announced_ids:
            n_times = self._to.streams.add_printed(stream.item_id, text)
            self._to.outbox.delta(stream, n_times, ".")

    def _on_own(self, history: History, record: plain.Record) -> None:
        event, seq = record["event"], record["seq"]
        match event["type"]:
            case "item.started":
                self._show(history, event["item"], seq)
            case "item.updated" if "itemId" in record:
                with history.condition:
                    item = dict(history.state.item(record["itemId"]))
                # One that has ended meanwhile is told of once, when its end is reported.
                if item["id"] in self._announced_ids and item["status"] not in ENDED:
                    self._show(history, item, seq)  # pyright: ignore[reportArgumentType] - a copy.
            case "item.completed":
                self._finish(history, event["item"], seq)
            case "options.changed":
                self._send_options(event["values"], seq)
            case _:
                cost = (history.state.usage or {}).get("cost")
                for update in updates_of_event(record, cost):
                    self.update(update, seq)
                self.asker.on_event(history, event)

    def _on_sub_agent(self, history: History, record: plain.Record) -> None:
        event = record["event"]
        if event["type"] == "item.completed" and event["item"]["id"] in self._announced_ids:
            self._show(history, event["item"], record["seq"])
        else:
            self.asker.on_event(history, event)

    def _show(self, history: History, item: plain.Item, seq: int) -> None:
        is_announced = item["id"] in self._announced_ids
        for update in updates_of_item(item, self._to.shows, is_announced, reader_of(history)):
            if "toolCallId" in update:
                self._announced_ids.add(item["id"])
            self.update(update, seq)

    def _finish(self, history: History, item: plain.Item, seq: int) -> None:
        if item["kind"] in ("agentMessage", "reasoning"):
            act = partial(self._send_rest, item, CHANNELS[item["kind"]], seq)
            self._to.outbox.in_order(self.id, act)
        else:
            self._show(history, item, seq)
            self._to.outbox.in_order(self.id, partial(self._to.streams.end_printed, item["id"]))

    def _send_rest(self, item: plain.Item, channel: str, seq: int) -> None:
        """Send what the client was not sent while it streamed; what it was sent stays there."""
        self._to.outbox.flush(self.id)
        n_sent = self._to.streams.take(item["id"])
        is_repeated = item.get("reason") == "retried"
        remaining_text = (
            (REPEATED if n_sent else "") if is_repeated else item.get("text", "")[n_sent:]
        )
        if remaining_text:
            self.update(chunk(channel, remaining_text, item["id"]), seq)

    def _send_options(self, values: Mapping[str, str], seq: int) -> None:
        pickers_shown = self.pickers()
        options, mode = pickers_shown["configOptions"], pickers_shown["modes"]["currentModeId"]
        self.update({"sessionUpdate": "config_option_update", "configOptions": options}, seq)
        if "mode" in values:
            self.update({"sessionUpdate": "current_mode_update", "currentModeId": mode}, seq)

    # Its end

    def cancel(self) -> None:
        """Cancel the open prompts, the last one first, so that none of them begins."""
        for prompt in reversed(self.prompts.copy()):
            prompt.cancel.cancel()

    def later(self, act: Callable[[], object]) -> None:
        """Do this after the updates for all that was reported so far are made."""
        self._to.projector.put(act)

    def in_order(self, act: Callable[[], object]) -> None:
        """Do this after all updates that were made so far."""
        outbox = self._to.outbox

        def run_next() -> None:
            outbox.flush(self.id)
            outbox.report_gap(self.id)
            act()

        outbox.in_order(self.id, run_next)
