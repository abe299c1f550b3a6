"""The registry of methods: what exists on the wire. Handlers bind only through it.

It generates docs/schema.json and the tables of protocol.md; a method that is not here cannot exist.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from oh_daemon.contract import messages as m
from oh_daemon.contract import to_client as t
from oh_daemon.contract.items import Approval, Contract

PROTOCOL_MAJOR, PROTOCOL_MINOR = 1, 0
Direction = Literal["client", "daemon"]


@dataclass(frozen=True, slots=True)
class Method:
    """One method. Without a `result` it is a notification."""

    name: str
    sender: Direction
    params: type[Contract]
    result: type[Contract] | None
    doc: str
    idempotent_by: Literal["clientRequestId", "nature"] | None = None
    """How a repeated request is harmless; reads are by nature."""


def _request(
    name: str,
    params: type[Contract],
    result: type[Contract],
    doc: str,
    *,
    idempotent_by: Literal["clientRequestId", "nature"] = "nature",
) -> Method:
    return Method(name, "client", params, result, doc, idempotent_by)


def _starts(name: str, params: type[Contract], result: type[Contract], doc: str) -> Method:
    return _request(name, params, result, doc, idempotent_by="clientRequestId")


REQUESTS: tuple[Method, ...] = (
    _starts(
        "conversation/start",
        m.StartParams,
        m.StartResult,
        "Create a conversation, subscribe to it and, with `content`, start its first turn.",
    ),
    _request(
        "conversation/open",
        m.OpenParams,
        m.OpenResult,
        "Open a conversation from its log, repair what a crash left, subscribe to it.",
    ),
    _request(
        "conversation/close",
        m.CloseParams,
        m.Empty,
        "End its worker and free its log; the log stays.",
    ),
    _request("conversation/list", m.ListParams, m.ListResult, "Conversations of the open folders."),
    _request(
        "conversation/read",
        m.ReadParams,
        m.ReadResult,
        "Items of a conversation, without opening or locking it.",
    ),
    _request(
        "conversation/events",
        m.EventsParams,
        m.EventsResult,
        "A page of records, as they are in the log.",
    ),
    _starts(
        "conversation/sendMessage",
        m.SendMessageParams,
        m.SendMessageResult,
        "Start a turn, steer the running one, queue, or interrupt and start.",
    ),
    _starts(
        "conversation/pause",
        m.PauseParams,
        m.PauseResult,
        "Hold the turn after the step under way, or now.",
    ),
    _starts(
        "conversation/resume",
        m.ResumeParams,
        m.ResumeResult,
        "Go on with the held turn, or continue after one that ended early.",
    ),
    _request(
        "conversation/interrupt",
        m.InterruptParams,
        m.InterruptResult,
        "End the turn now: the model's socket, the wait, the tool's processes.",
    ),
    _request(
        "conversation/queue", m.QueueParams, m.QueueResult, "List or remove waiting messages."
    ),
    _starts(
        "conversation/setOption",
        m.SetOptionParams,
        m.SetOptionResult,
        "Set the mode, the approval policy or the model from the next step on.",
    ),
    _request(
        "conversation/subscribe",
        m.SubscribeParams,
        m.SubscribeResult,
        "Get the events of an open conversation from now on.",
    ),
    _request(
        "conversation/unsubscribe",
        m.SubscribeParams,
        m.Empty,
        "Get no more events of this conversation.",
    ),
    _request("approval/list", m.ApprovalListParams, m.ApprovalListResult, "Approvals that wait."),
    _request(
        "approval/respond",
        m.ApprovalRespondParams,
        m.ApprovalRespondResult,
        "Allow or reject; the digest must be echoed and the first answer wins.",
    ),
    _request(
        "output/read",
        m.OutputReadParams,
        m.OutputReadResult,
        "More of an output of which the item shows head and tail only.",
    ),
    _request("tool/list", m.ToolListParams, m.ToolListResult, "Tools the agent is offered."),
    _request("model/list", m.Empty, m.ModelListResult, "Models that can be chosen by name."),
    _request(
        "config/read", m.ConfigReadParams, m.ConfigReadResult, "Settings and where each comes from."
    ),
    _request("daemon/status", m.Empty, m.DaemonStatusResult, "How the daemon is."),
    _request(
        "workspace/setTrust", m.SetTrustParams, m.SetTrustResult, "What a folder's agent may do."
    ),
)

NOTIFICATIONS: tuple[Method, ...] = (
    Method("conversation/event", "daemon", t.EventParams, None, "A durable event."),
    Method("conversation/delta", "daemon", t.DeltaParams, None, "Streamed text, never logged."),
    Method(
        "conversation/changed", "daemon", t.ChangedParams, None, "For lists: created or updated."
    ),
    Method("conversation/gap", "daemon", t.GapParams, None, "Events this client did not get."),
    Method(
        "daemon/statusChanged",
        "daemon",
        t.DaemonStatusChangedParams,
        None,
        "What a user should know about the daemon itself.",
    ),
)

CLIENT_REQUESTS: tuple[Method, ...] = (
    Method(
        "editor/applyEdit",
        "daemon",
        t.ApplyEditParams,
        t.ApplyEditResult,
        "Apply as one undo step; feature `applyEdit2`, else `workspace/applyEdit`.",
    ),
    Method(
        "editor/readDocument",
        "daemon",
        t.ReadDocumentParams,
        t.ReadDocumentResult,
        "The text of a document; feature `readDocument`, else the synced copy or the disk.",
    ),
    Method(
        "editor/saveDocument",
        "daemon",
        t.SaveDocumentParams,
        t.SaveDocumentResult,
        "Save documents; feature `saveDocument`, else the user is told.",
    ),
    Method(
        "approval/request",
        "daemon",
        Approval,
        t.ApprovalAnswer,
        "Ask the user; feature `approvalRequests`, else `window/showMessageRequest`.",
    ),
)

COMMANDS: dict[str, str] = {
    "ohDaemon.start": "conversation/start",
    "ohDaemon.send": "conversation/sendMessage",
    "ohDaemon.pause": "conversation/pause",
    "ohDaemon.resume": "conversation/resume",
    "ohDaemon.interrupt": "conversation/interrupt",
    "ohDaemon.approve": "approval/respond",
}
"""`workspace/executeCommand` mirrors: the first argument is the method's params."""

LIMITS: dict[str, int] = {
    "maxMessageBytes": 16 << 20,
    "textPartBytes": 1 << 20,
    "partsPerMessage": 64,
    "imageBytes": 5 << 20,
    "outputPreviewBytes": 32 << 10,
    "outputKeptBytes": 100 << 20,
    "eventsPerPage": 500,
    "conversationsPerPage": 100,
    "queuedMessages": 32,
    "openConversations": 256,
    "runningTurns": 64,
    "syncedDocumentBytes": 5 << 20,
    "requestsInFlight": 64,
}


def request_named(name: str) -> Method:
    """The client request with this name; a programming error when there is none."""
    return next(method for method in REQUESTS if method.name == name)
