"""What a log has for a replay: the model that answers from it, and what came from outside.

That is what the user said, what the surroundings told the agent, and what tools returned.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct

from oh_daemon.features.export.transcript import message_text
from oh_daemon.features.hooks.hooks import HOOKED
from oh_daemon.features.replay.compare import (
    Comparison,
    ReplayReport,
    comparable,
    comparable_turn,
    is_compared,
    name_of,
    requests_differ,
)
from oh_daemon.features.replay.recorded_answers import (
    RecordedAnswers,
    RecordedCall,
    ReplayModel,
    first_run,
)
from oh_daemon.kernel.folding import apply
from oh_daemon.kernel.ports import ModelRequest
from oh_daemon.kernel.records import standing_records
from oh_daemon.kernel.state import State, is_tool_item
from oh_daemon.protocol import plain
from oh_daemon.protocol.errors import (
    InvalidStateError,
    ModelError,
    ModelUnavailableError,
    ReadOnlyError,
)
from oh_daemon.protocol.forms import model_of
from oh_daemon.protocol.items import QueuedMessage, UserMessageItem
from oh_daemon.storage.completions import read_requests
from oh_daemon.storage.log_scan import LOG_NAME, read_log
from oh_daemon.workspace.paths import paths_from_uris

_HOOK = "a hook had a say in what came next"


class RecordedTurn(Struct):
    """A turn of the log: how it began and ended."""

    first_seq: int
    start_event: plain.TurnStarted
    message: plain.UserMessageItem | None = None
    request: plain.CondensationRequested | None = None
    last_seq: int = 1 << 53
    outcome: plain.Turn | None = None
    n_items: int = 0
    """How many items to compare there were at its end."""
    skip_reason: str = ""
    """Why it is not replayed, nor what follows."""


class Script:
    """What a log says, as far as a replay does not make it itself."""

    def __init__(self, records: Sequence[plain.Record]) -> None:
        valid = [
            r for r in standing_records(records) if r["event"]["type"] != "conversation.rolledBack"
        ]
        begin = first_run(valid)
        self.head, self.turns = valid[:begin], list[RecordedTurn]()
        """What comes before the first turn that ran in this log, such as the copied part of a fork;
        and the turns."""
        self.around: deque[plain.Record] = deque()
        """What came from the surroundings: notices and other items, changes of the tools."""
        self.wishes: deque[plain.Record] = deque()
        """What the user said or wanted while a turn went on."""
        self.messages: list[plain.UserMessageItem] = []
        self.observations: dict[str, tuple[int, plain.ToolItem]] = {}
        """By the id of the model's call, each with its seq."""
        self.edited_ids: set[str] = set()
        """Items whose arguments the user or a hook changed."""
        self._state = State("")
        for record in self.head:
            apply(self._state, record)
        for record in valid[begin:]:
            apply(self._state, record)
            self._add_record(record, record["event"])
            if record["event"]["type"] == "message.refused":
                self.turns[-1].skip_reason = _HOOK

    @property
    def folders(self) -> list[str]:
        return [str(path) for path in paths_from_uris(self._state.folders)]

    @property
    def items(self) -> list[plain.Item]:
        """Those to compare."""
        return [item for item in self._state.items if is_compared(item)]

    def _add_record(self, record: plain.Record, event: plain.Event) -> None:
        match event["type"]:
            case "turn.started":
                self.turns.append(RecordedTurn(record["seq"], event))
            case "turn.completed":
                turn = self.turns[-1]
                turn.outcome, turn.last_seq = event["turn"], record["seq"]
                turn.n_items = len(self.items)
                if event["turn"].get("error", {}).get("kind") == "internalError":
                    turn.skip_reason = "the daemon itself failed then"
            case "item.completed":
                self._complete(record, event["item"])
            case "item.updated" if "args" in event:
                self.edited_ids.add(record.get("itemId", ""))
            case "agent.changed":
                self.around.append(record)
            case "condensation.requested":
                self._wish(record, event)
            case _:
                pass

    def _wish(self, record: plain.Record, event: plain.CondensationRequested) -> None:
        turn = self.turns[-1]
        if turn.start_event["cause"] == "condense" and turn.request is None:
            turn.request = event
        else:
            self.wishes.append(record)

    def _complete(self, record: plain.Record, item: plain.Item) -> None:
        if item["kind"] == "userMessage":
            self.messages.append(item)
            turn = self.turns[-1]
            if turn.start_event["cause"] == "message" and turn.message is None:
                turn.message = item
            else:
                self.wishes.append(record)
        elif not is_compared(item):
            self.around.append(record)
            if item.get("title") == HOOKED:
                self.turns[-1].skip_reason = _HOOK
        elif item.get("reason") == "hook":
            self.turns[-1].skip_reason = _HOOK
        elif is_tool_item(item):
            self.observations[item["call"]["id"]] = record["seq"], item


def sub_agents_of(place: Path, records: Iterable[plain.Record]) -> list[Path]:
    """Return the folders of the sub-agents' logs that are there, in the order of their start."""
    items = (r["event"]["item"] for r in records if r["event"]["type"] == "item.started")
    ids = dict.fromkeys(item["conversationId"] for item in items if item["kind"] == "subagent")
    folders = (place.parent / Path(each).name for each in ids)
    return [folder for folder in folders if (folder / LOG_NAME).is_file()]


def recorded_model(name: str, place: Path) -> ReplayModel:
    """Return a model that answers as in the log of this folder, and in those of its sub-agents.

    It refuses requests that differ from those that were kept, but for folders, ids and dates.
    Raises `ModelUnavailableError`.
    """
    try:
        records = read_log(place)
        places = [place, *sub_agents_of(place, records)]
        recordings = [RecordedAnswers(read_log(each), read_requests(each)) for each in places]
    except (OSError, ReadOnlyError, LookupError, TypeError, ValueError) as exc:
        raise ModelUnavailableError(f"{name!r} names no folder with a log: {exc}") from exc

    def check(call: RecordedCall, request: ModelRequest) -> None:
        recorded_request = call.request
        if recorded_request and (
            difference := requests_differ(recorded_request, request, is_strict=False)
        ):
            raise ModelError(
                "\n".join(("the request is not the recorded one", *difference.lines()))
            )

    return ReplayModel(name, recordings, check)


def tasks_in(place: Path) -> tuple[str, list[str]]:
    """Return when the conversation in this log began, and what the user said, as text.

    Raises `OSError`, `ReadOnlyError`, and `InvalidStateError` for a log that says nothing.
    """
    records = read_log(place)
    messages = [message_text(message) for message in Script(records).messages] if records else []
    if not messages:
        raise InvalidStateError(f"nobody said anything in the log in {str(place)!r}")
    return records[0]["ts"], messages


def compare_runs(place: Path, again: Path, *, is_strict: bool = False) -> ReplayReport:
    """Compare the log in `place` with that of a run which got its answers again."""
    recording = RecordedAnswers(read_log(place), read_requests(place))
    before, now = Script(read_log(place)), Script(read_log(again))
    n_steps, ids = len(RecordedAnswers(read_log(again)).steps), dict[str, str]()
    report = ReplayReport(
        n_steps, sum(step.request is not None for step in recording.steps[:n_steps])
    )
    comparison = Comparison(is_strict, [*before.folders, *now.folders])
    for n in range(max(len(before.items), len(now.items))):
        old, new = before.items[n : n + 1], now.items[n : n + 1]
        ids |= {again["id"]: item["id"] for item, again in zip(old, new, strict=False)}
        rows = [[comparable(item, ids) for item in each] for each in (old, new)]
        report.difference = comparison.difference(name_of((old or new)[0]), *rows)
        if report.difference is not None:
            return report
    ends = [
        [comparable_turn(turn.outcome) for turn in each.turns if turn.outcome]
        for each in (before, now)
    ]
    report.difference = comparison.difference("how turns end", *ends)
    return report


def without_questions(record: plain.Record) -> plain.Record:
    """Return the first event with options under which nothing is asked: the answers are known."""
    event = record["event"]
    if event["type"] != "conversation.created":
        return record
    options = {**event["options"], "mode": "full", "approval": "askNever"}
    return {**record, "event": {**event, "options": options}}


def queued_message(
    item: plain.UserMessageItem, options: dict[str, str] | None = None
) -> QueuedMessage:
    message = model_of(UserMessageItem, item)
    return QueuedMessage(
        message_id=message.message_id,
        content=message.content,
        delivery="steer",
        options=options,
        created_at=item.get("endedAt", ""),
    )
