"""The current state of a conversation: a fold over its records, and nothing else.

Records are the plain dicts that orjson returns (100,000 of them fold in a tenth of a second), so
a live conversation and a replayed one run through the same code with the same values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from oh_daemon.core.approval import grant_key
from oh_daemon.core.ports import Json

ENDED = frozenset({"completed", "failed", "rejected", "cancelled"})
TOOL_KINDS = frozenset({"toolCall", "command", "fileChange", "plan"})


@dataclass(slots=True)
class State:
    """A conversation's state. Only `apply` changes it; readers hold the conversation's lock."""

    conversation_id: str
    seq: int = 0
    title: str = ""
    parent_id: str | None = None
    """For a sub-agent, the conversation that it works for."""
    archived: bool = False
    tags: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    agent: Json = field(default_factory=dict[str, object])
    options: dict[str, str] = field(default_factory=dict[str, str])
    max_steps: int = 100
    max_cost_usd: float | None = None
    result_schema: Json | None = None
    metadata: Json = field(default_factory=dict[str, object])
    forked_from: Json | None = None
    status: str = "idle"
    status_reason: str | None = None
    created_at: str = ""
    updated_at: str = ""
    turn: Json | None = None
    """The open turn {id, cause, startedAt, nSteps, usage, paused, options?}, or None."""
    last_turn: Json | None = None
    items: list[Json] = field(default_factory=list[Json])
    """All items in order of their start; an ended one changes only if a hook refuses a message."""
    positions: dict[str, int] = field(default_factory=dict[str, int])
    open_items: dict[str, None] = field(default_factory=dict[str, None])
    call_ids: set[str] = field(default_factory=set[str])
    """Ids of all tool calls so far, since some providers start again at `call_0`."""
    queue: list[Json] = field(default_factory=list[Json])
    approvals: dict[str, Json] = field(default_factory=dict[str, Json])
    """Pending approvals by id, oldest first."""
    questions: dict[str, Json] = field(default_factory=dict[str, Json])
    """Questions of the agent that the user has not answered yet, by id."""
    decisions: dict[str, dict[str, Json]] = field(default_factory=dict[str, dict[str, Json]])
    """Decisions about each open item, by item id and digest."""
    resolutions: dict[str, Json] = field(default_factory=dict[str, Json])
    """Every resolution of an approval or a question, by the id of what it resolved."""
    grants: set[str] = field(default_factory=set[str])
    turn_grants: set[str] = field(default_factory=set[str])
    pause_requested: str | None = None
    condense_requested: Json | None = None
    changes: dict[str, Json] = field(default_factory=dict[str, Json])
    """The open turn's files by URI, each with its first and last hash."""
    turn_changes: dict[str, dict[str, Json]] = field(default_factory=dict[str, "dict[str, Json]"])
    """The changed files of every turn that changed any, by turn id."""
    reviews: dict[str, Json] = field(default_factory=dict[str, Json])
    """Changed files by URI, as hashes: `base` was accepted, `now` is the agent's latest; `gaps` are
    changes by somebody else between its edits, each (before, after)."""
    usage: Json = field(default_factory=dict[str, object])
    """Sum over the conversation; empty before the first model call."""
    known_cost_usd: float = 0.0
    """Cost of the calls whose price is known; limits count this."""
    turn_known_cost_usd: float = 0.0
    """The same for the open turn."""
    context: Json = field(default_factory=dict[str, object])
    message_count: int = 0
    causes: dict[tuple[str, str], Json] = field(default_factory=dict[tuple[str, str], Json])

    @property
    def options_now(self) -> dict[str, str]:
        """The options, overridden by those of the open turn."""
        return {**self.options, **(self.turn or {}).get("options", {})}

    @property
    def cache_key(self) -> str:
        """The parent's id for a sub-agent, whose prompt starts like its parent's; else the own."""
        return self.parent_id or self.conversation_id

    def item(self, item_id: str) -> Json:
        return self.items[self.positions[item_id]]

    @property
    def pending(self) -> dict[str, Json]:
        """Everything that waits for the user, by id."""
        return {**self.approvals, **self.questions}

    def open_tool_items(self) -> list[Json]:
        """Return the actions without an observation, in the order the model asked for them."""
        found = (self.item(item_id) for item_id in self.open_items)
        return [item for item in found if item["kind"] in TOOL_KINDS]


def fold(conversation_id: str, records: Iterable[Json]) -> State:
    """Replay a log and return the state at its end."""
    state = State(conversation_id)
    for record in records:
        apply(state, record)
    return state


def apply(state: State, record: Json) -> None:
    """Fold in one record. An event of an unknown type changes only what all records change."""
    state.seq = record["seq"]
    state.updated_at = record["ts"]
    cause = record.get("cause")
    if cause is not None:
        state.causes[cause["method"], cause["clientRequestId"]] = cause
    event = record["event"]
    change = _CHANGES.get(event["type"])
    if change is not None:
        change(state, event, record)


def _created(state: State, event: Json, record: Json) -> None:
    state.created_at = record["ts"]
    state.title = event["title"]
    state.folders = tuple(event["folders"])
    state.agent = event["agent"]
    state.options = dict(event["options"])
    state.max_steps = event["maxSteps"]
    state.max_cost_usd = event.get("maxCostUsd")
    state.result_schema = event.get("resultSchema")
    state.metadata = event.get("metadata", {})
    state.forked_from = event.get("forkedFrom")
    state.parent_id = event.get("parentId")


def _agent_changed(state: State, event: Json, _record: Json) -> None:
    state.agent = event["agent"]


def _updated(state: State, event: Json, _record: Json) -> None:
    state.title = event.get("title", state.title)
    state.archived = event.get("archived", state.archived)
    state.tags = tuple(event.get("tags", state.tags))
    state.metadata = event.get("metadata", state.metadata)


def _status(state: State, event: Json, _record: Json) -> None:
    state.status = event["to"]
    state.status_reason = event.get("reason")


def _queued(state: State, event: Json, _record: Json) -> None:
    message = event["message"]
    if message["delivery"] == "interrupt":
        n_before = sum(waiting["delivery"] == "interrupt" for waiting in state.queue)
        state.queue.insert(n_before, message)
    else:
        state.queue.append(message)


def _edited(state: State, event: Json, record: Json) -> None:
    _dequeued(state, {"messageId": event["message"]["messageId"]}, record)
    state.queue.insert(event["position"], event["message"])


def _dequeued(state: State, event: Json, _record: Json) -> None:
    state.queue = [m for m in state.queue if m["messageId"] != event["messageId"]]


def _refused(state: State, _event: Json, record: Json) -> None:
    state.item(record["itemId"])["status"] = "rejected"


def _turn_started(state: State, event: Json, record: Json) -> None:
    state.turn = {
        "id": record["turnId"],
        "cause": event["cause"],
        "startedAt": record["ts"],
        "nSteps": 0,
        "usage": {},
    }
    if event.get("options"):
        state.turn["options"] = event["options"]
    state.pause_requested = None
    state.changes = {}
    state.turn_known_cost_usd = 0.0
    state.turn_grants = set()


def _turn_paused(state: State, event: Json, _record: Json) -> None:
    state.pause_requested = None
    if state.turn is not None:
        state.turn["paused"] = event["reason"]


def _turn_resumed(state: State, _event: Json, _record: Json) -> None:
    state.pause_requested = None
    if state.turn is not None:
        state.turn.pop("paused", None)


def _turn_completed(state: State, event: Json, _record: Json) -> None:
    state.turn = None
    state.last_turn = event["turn"]
    state.pause_requested = None
    state.condense_requested = None


def _pause_requested(state: State, event: Json, _record: Json) -> None:
    state.pause_requested = event["when"]


def _condense_requested(state: State, event: Json, _record: Json) -> None:
    state.condense_requested = event


def _item_started(state: State, event: Json, _record: Json) -> None:
    # A copy, since it will be updated, and the record must stay as it is in the log.
    _put_item(state, dict(event["item"]))


def _item_updated(state: State, event: Json, record: Json) -> None:
    item = state.item(record["itemId"])
    item.update((key, value) for key, value in event.items() if key != "type")


def _item_completed(state: State, event: Json, _record: Json) -> None:
    item = event["item"]
    _put_item(state, item)
    state.decisions.pop(item["id"], None)
    for change in item.get("changes", ()) if item["status"] == "completed" else ():
        _changed(state, change)
    if item["kind"] == "condensation":
        state.condense_requested = None
    state.message_count += _is_message(item)


def _changed(state: State, change: Json) -> None:
    before, after = change.get("sha256Before"), change.get("sha256After")
    file = state.reviews.get(change["uri"])
    if file is None or (file["base"] == file["now"] and not file["gaps"]):
        state.reviews[change["uri"]] = {"base": before, "now": after, "gaps": []}
        return
    if before != file["now"]:
        file["gaps"].append((file["now"], before))
    file["now"] = after


def _reviewed(state: State, event: Json, _record: Json) -> None:
    file = {"base": event.get("base"), "now": event.get("now"), "decision": event["decision"]}
    state.reviews[event["uri"]] = {**file, "gaps": []}


def _put_item(state: State, item: Json) -> None:
    position = state.positions.get(item["id"])
    if position is None:
        state.positions[item["id"]] = len(state.items)
        if item["kind"] in TOOL_KINDS:
            state.call_ids.add(item["call"]["id"])
        state.items.append(item)
    else:
        state.items[position] = item
    if item["status"] in ENDED:
        state.open_items.pop(item["id"], None)
    else:
        state.open_items[item["id"]] = None


def _rolled_back(state: State, event: Json, _record: Json) -> None:
    start = state.positions[event["toItemId"]]
    for item in state.items[start:]:
        del state.positions[item["id"]]
        state.open_items.pop(item["id"], None)
        state.decisions.pop(item["id"], None)
    del state.items[start:]
    state.message_count = sum(map(_is_message, state.items))
    state.turn = state.last_turn = state.condense_requested = None
    # The size of what is left is unknown until the next step.
    state.context = {**state.context, "used": 0} if state.context else {}


def _is_message(item: Json) -> bool:
    is_answer = item["kind"] == "agentMessage" and item["status"] == "completed"
    return is_answer or item["kind"] == "userMessage"


def _approval_requested(state: State, event: Json, _record: Json) -> None:
    approval = event["approval"]
    state.approvals[approval["id"]] = approval


def _approval_resolved(state: State, event: Json, _record: Json) -> None:
    approval = state.approvals.pop(event["approvalId"], None)
    state.resolutions[event["approvalId"]] = event
    if approval is None:
        return
    of_item = state.decisions.setdefault(approval["itemId"], {})
    of_item[approval["digest"]] = {
        **event,
        "effect": event["decision"]["effect"],
        "asked": approval,
    }
    decision = event["decision"]
    # Whoever edits a command allows only the edited version, not the one that was shown.
    lasts = decision["scope"] != "once" and event.get("editedSubject") is None
    if decision["effect"] == "allow" and lasts:
        grants = state.turn_grants if decision["scope"] == "turn" else state.grants
        grants.add(grant_key(approval["subject"]))


def _input_requested(state: State, event: Json, _record: Json) -> None:
    state.questions[event["input"]["id"]] = event["input"]


def _input_resolved(state: State, event: Json, _record: Json) -> None:
    state.questions.pop(event["inputId"], None)
    state.resolutions[event["inputId"]] = event


def _action_decided(state: State, event: Json, record: Json) -> None:
    state.decisions.setdefault(record["itemId"], {})[event["digest"]] = event


def _changes_updated(state: State, event: Json, record: Json) -> None:
    for change in event.get("bySubagent", ()):
        _changed(state, change)
    state.changes = {change["uri"]: change for change in event["files"]}
    state.turn_changes[record["turnId"]] = state.changes


def _usage(state: State, event: Json, _record: Json) -> None:
    cost_usd = event["usage"].get("cost", {}).get("amount", 0.0)
    state.known_cost_usd += cost_usd
    state.turn_known_cost_usd += cost_usd
    state.usage = add_usage(state.usage, event["usage"])
    is_step = event.get("purpose") is None
    if is_step:
        state.context = {"used": event.get("contextUsed", 0), "size": event.get("contextSize")}
    if state.turn is not None:
        state.turn["usage"] = add_usage(state.turn["usage"], event["usage"])
        state.turn["nSteps"] += is_step


def add_usage(total: Json, usage: Json) -> Json:
    """Sum two usages; the sum has no cost if one of them has an unknown cost."""
    if not total:
        return usage
    summed = dict(total)
    cost, more = summed.pop("cost", None), usage.get("cost")
    for key, count in usage.items():
        if key != "cost":
            summed[key] = summed.get(key, 0) + count
    if cost and more:
        summed["cost"] = {"amount": cost["amount"] + more["amount"], "currency": "USD"}
    return summed


def _options(state: State, event: Json, _record: Json) -> None:
    state.options.update(event["values"])


_CHANGES: dict[str, Callable[[State, Json, Json], None]] = {
    "conversation.created": _created,
    "agent.changed": _agent_changed,
    "conversation.updated": _updated,
    "conversation.rolledBack": _rolled_back,
    "status.changed": _status,
    "message.queued": _queued,
    "message.edited": _edited,
    "message.dequeued": _dequeued,
    "message.refused": _refused,
    "turn.started": _turn_started,
    "turn.paused": _turn_paused,
    "turn.resumed": _turn_resumed,
    "turn.completed": _turn_completed,
    "pause.requested": _pause_requested,
    "condensation.requested": _condense_requested,
    "item.started": _item_started,
    "item.updated": _item_updated,
    "item.completed": _item_completed,
    "approval.requested": _approval_requested,
    "approval.resolved": _approval_resolved,
    "input.requested": _input_requested,
    "input.resolved": _input_resolved,
    "action.decided": _action_decided,
    "changes.updated": _changes_updated,
    "changes.reviewed": _reviewed,
    "usage.updated": _usage,
    "options.changed": _options,
}
