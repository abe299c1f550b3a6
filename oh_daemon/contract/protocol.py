"""The registry of methods: what exists on the wire. Handlers bind only through it.

It generates docs/schema.json and the tables of protocol.md; a method that is not here cannot exist.
"""

from __future__ import annotations

from dataclasses import dataclass

from oh_daemon.contract import daemon_messages as d
from oh_daemon.contract import messages as m
from oh_daemon.contract import to_client as t
from oh_daemon.contract.items import Contract

PROTOCOL_MAJOR, PROTOCOL_MINOR = 1, 0


@dataclass(frozen=True, slots=True)
class Method:
    """One method. Without a `result` it is a notification."""

    name: str
    params: type[Contract]
    result: type[Contract] | None = None

    @property
    def doc(self) -> str:
        """What it does: the first line about its parameters."""
        return (self.params.__doc__ or "").partition("\n")[0]


REQUESTS: tuple[Method, ...] = (
    Method("conversation/start", m.StartParams, m.StartResult),
    Method("conversation/open", m.OpenParams, m.OpenResult),
    Method("conversation/close", m.CloseParams, m.Empty),
    Method("conversation/list", m.ListParams, m.ListResult),
    Method("conversation/read", m.ReadParams, m.ReadResult),
    Method("conversation/events", m.EventsParams, m.EventsResult),
    Method("conversation/sendMessage", m.SendMessageParams, m.SendMessageResult),
    Method("conversation/pause", m.PauseParams, m.PauseResult),
    Method("conversation/resume", m.ResumeParams, m.ResumeResult),
    Method("conversation/interrupt", m.InterruptParams, m.InterruptResult),
    Method("conversation/queue", m.QueueParams, m.QueueResult),
    Method("conversation/setOption", m.SetOptionParams, m.SetOptionResult),
    Method("conversation/subscribe", m.SubscribeParams, m.SubscribeResult),
    Method("conversation/unsubscribe", m.UnsubscribeParams, m.Empty),
    Method("approval/list", d.ApprovalListParams, d.ApprovalListResult),
    Method("approval/respond", d.ApprovalRespondParams, d.ApprovalRespondResult),
    Method("output/read", d.OutputReadParams, d.OutputReadResult),
    Method("tool/list", d.ToolListParams, d.ToolListResult),
    Method("model/list", d.ModelListParams, d.ModelListResult),
    Method("config/read", d.ConfigReadParams, d.ConfigReadResult),
    Method("daemon/status", d.DaemonStatusParams, d.DaemonStatusResult),
    Method("workspace/setTrust", d.SetTrustParams, d.SetTrustResult),
)
"""From the client."""

NOTIFICATIONS: tuple[Method, ...] = (
    Method("conversation/event", t.EventParams),
    Method("conversation/delta", t.DeltaParams),
    Method("conversation/changed", t.ChangedParams),
    Method("conversation/gap", t.GapParams),
    Method("daemon/statusChanged", t.DaemonStatusChangedParams),
)
"""From the daemon."""

CLIENT_REQUESTS: tuple[Method, ...] = (
    Method("editor/applyEdit", t.ApplyEditParams, t.ApplyEditResult),
    Method("editor/readDocument", t.ReadDocumentParams, t.ReadDocumentResult),
    Method("editor/saveDocument", t.SaveDocumentParams, t.SaveDocumentResult),
    Method("approval/request", t.ApprovalRequestParams, t.ApprovalAnswer),
)
"""From the daemon to the client; what a client cannot do is done by the way that each names."""

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
