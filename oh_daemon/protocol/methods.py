"""The registry of all methods on the wire. A handler can only be bound to a method listed here.

docs/schema.json and the tables of docs/protocol are generated from it. Models are given by name and
loaded at first use, so that `initialize` is answered without importing pydantic.
"""

from __future__ import annotations

import re
from importlib import import_module
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from oh_daemon.protocol.base import Contract

PROTOCOL_MAJOR, PROTOCOL_MINOR = 1, 0


class Method(Struct, frozen=True):
    """One method; without a `result`, a notification."""

    name: str
    params_name: str
    result_name: str | None = None

    @property
    def params(self) -> type[Contract]:
        """The model of the parameters."""
        return _model(self.params_name)

    @property
    def result(self) -> type[Contract] | None:
        """The model of the answer."""
        return _model(self.result_name) if self.result_name else None

    @property
    def doc(self) -> str:
        """What the method does: the first line of its parameters' docstring."""
        return (self.params.__doc__ or "").partition("\n")[0]


def function_name(method: str) -> str:
    """Return `conversation_send_message` for `conversation/sendMessage`."""
    return re.sub(r"[A-Z]", lambda upper: f"_{upper[0].lower()}", method.replace("/", "_"))


MODULES = (
    *("summaries", "messages", "daemon_messages", "side_questions", "composing", "approvals"),
    *("mcp", "to_client", "client_tools", "branches", "model_requests"),
)
"""The modules of the contract that define parameters and results of methods."""


def _model(name: str) -> type[Contract]:
    # Importing the modules takes 0.3 s.
    modules = (import_module(f"oh_daemon.protocol.{module}") for module in MODULES)
    return next(vars(module)[name] for module in modules if name in vars(module))


REQUESTS: tuple[Method, ...] = (
    Method("conversation/start", "StartParams", "StartResult"),
    Method("conversation/open", "OpenParams", "OpenResult"),
    Method("conversation/close", "CloseParams", "Empty"),
    Method("conversation/update", "UpdateParams", "ConversationResult"),
    Method("conversation/delete", "DeleteParams", "Empty"),
    Method("conversation/list", "ListParams", "ListResult"),
    Method("conversation/read", "ReadParams", "ReadResult"),
    Method("conversation/events", "EventsParams", "EventsResult"),
    Method("conversation/export", "ExportParams", "ExportResult"),
    Method("conversation/fork", "ForkParams", "ConversationResult"),
    Method("conversation/rollback", "RollbackParams", "RollbackResult"),
    Method("conversation/sendMessage", "SendMessageParams", "SendMessageResult"),
    Method("conversation/pause", "PauseParams", "PauseResult"),
    Method("conversation/resume", "ResumeParams", "ResumeResult"),
    Method("conversation/interrupt", "InterruptParams", "InterruptResult"),
    Method("conversation/condense", "CondenseParams", "CondenseResult"),
    Method("conversation/queue", "QueueParams", "QueueResult"),
    Method("conversation/ask", "AskParams", "AskResult"),
    Method("conversation/setOption", "SetOptionParams", "SetOptionResult"),
    Method("conversation/subscribe", "SubscribeParams", "SubscribeResult"),
    Method("conversation/unsubscribe", "UnsubscribeParams", "Empty"),
    Method("approval/list", "ApprovalListParams", "ApprovalListResult"),
    Method("approval/respond", "ApprovalRespondParams", "RespondResult"),
    Method("input/respond", "InputRespondParams", "RespondResult"),
    Method("changes/list", "ChangesListParams", "ChangesListResult"),
    Method("changes/diff", "ChangesDiffParams", "ChangesDiffResult"),
    Method("changes/keep", "KeepParams", "ReviewResult"),
    Method("changes/undo", "UndoParams", "ReviewResult"),
    Method("changes/apply", "ApplyParams", "ReviewResult"),
    Method("changes/discard", "DiscardParams", "ReviewResult"),
    Method("checkpoint/list", "CheckpointListParams", "CheckpointListResult"),
    Method("checkpoint/restore", "CheckpointRestoreParams", "RestoreResult"),
    Method("attachment/put", "AttachmentPutParams", "AttachmentPutResult"),
    Method("output/read", "OutputReadParams", "OutputReadResult"),
    Method("terminal/list", "TerminalListParams", "TerminalListResult"),
    Method("terminal/read", "TerminalReadParams", "TerminalReadResult"),
    Method("terminal/write", "TerminalWriteParams", "Empty"),
    Method("terminal/kill", "TerminalKillParams", "Empty"),
    Method("port/list", "PortListParams", "PortListResult"),
    Method("port/open", "PortOpenParams", "PortOpenResult"),
    Method("tool/list", "ToolListParams", "ToolListResult"),
    Method("agent/list", "AgentListParams", "AgentListResult"),
    Method("context/search", "ContextSearchParams", "ContextSearchResult"),
    Method("command/list", "CommandListParams", "CommandListResult"),
    Method("skill/list", "SkillListParams", "SkillListResult"),
    Method("model/list", "ModelListParams", "ModelListResult"),
    Method("model/check", "ModelCheckParams", "ModelCheckResult"),
    Method("model/discover", "ModelDiscoverParams", "ModelDiscoverResult"),
    Method("usage/read", "UsageReadParams", "UsageReadResult"),
    Method("config/read", "ConfigReadParams", "ConfigReadResult"),
    Method("config/validate", "ConfigValidateParams", "ConfigValidateResult"),
    Method("secret/set", "SecretSetParams", "SecretNames"),
    Method("secret/remove", "SecretRemoveParams", "SecretNames"),
    Method("secret/list", "SecretListParams", "SecretNames"),
    Method("mcp/list", "McpListParams", "McpServers"),
    Method("mcp/setEnabled", "McpSetEnabledParams", "McpServers"),
    Method("mcp/restart", "McpRestartParams", "McpServers"),
    Method("mcp/authenticate", "McpAuthenticateParams", "McpAuthenticateResult"),
    Method("daemon/status", "DaemonStatusParams", "DaemonStatusResult"),
    Method("workspace/setTrust", "SetTrustParams", "SetTrustResult"),
)
"""From the client."""

CLIENT_NOTIFICATIONS: tuple[Method, ...] = (
    Method("editor/contextChanged", "ContextChangedParams"),
    Method("model/progress", "ModelProgressParams"),
)
"""From the client, in addition to those of LSP."""

NOTIFICATIONS: tuple[Method, ...] = (
    Method("conversation/event", "EventParams"),
    Method("conversation/delta", "DeltaParams"),
    Method("conversation/changed", "ChangedParams"),
    Method("conversation/gap", "GapParams"),
    Method("daemon/statusChanged", "DaemonStatusChangedParams"),
    Method("mcp/statusChanged", "McpServers"),
    Method("port/changed", "PortChangedParams"),
)
"""From the daemon."""

CLIENT_REQUESTS: tuple[Method, ...] = (
    Method("editor/applyEdit", "ApplyEditParams", "ApplyEditResult"),
    Method("editor/readDocument", "ReadDocumentParams", "ReadDocumentResult"),
    Method("editor/saveDocument", "SaveDocumentParams", "SaveDocumentResult"),
    Method("editor/diagnostics", "DiagnosticsParams", "DiagnosticsResult"),
    Method("editor/openDiff", "OpenDiffParams", "Empty"),
    Method("editor/languageRequest", "LanguageRequestParams", "LanguageRequestResult"),
    Method("approval/request", "ApprovalRequestParams", "ApprovalAnswer"),
    Method("input/request", "InputRequestParams", "InputAnswer"),
    Method("tool/call", "ToolCallParams", "ToolCallResult"),
    Method("model/describe", "ModelDescribeParams", "ModelDescribeResult"),
    Method("model/complete", "ModelCompleteParams", "ModelCompleteResult"),
)
"""From the daemon to the client. Each docstring names the fallback for clients without it."""

METHODS = (*REQUESTS, *CLIENT_NOTIFICATIONS, *NOTIFICATIONS, *CLIENT_REQUESTS)

COMMANDS: dict[str, str] = {
    "ohDaemon.start": "conversation/start",
    "ohDaemon.send": "conversation/sendMessage",
    "ohDaemon.pause": "conversation/pause",
    "ohDaemon.resume": "conversation/resume",
    "ohDaemon.interrupt": "conversation/interrupt",
    "ohDaemon.approve": "approval/respond",
    "ohDaemon.list": "conversation/list",
    "ohDaemon.options": "conversation/setOption",
    "ohDaemon.keep": "changes/keep",
    "ohDaemon.undo": "changes/undo",
    "ohDaemon.apply": "changes/apply",
    "ohDaemon.discard": "changes/discard",
    "ohDaemon.rollback": "conversation/rollback",
}
"""Commands of `workspace/executeCommand` that mirror a method; its params are the argument."""

OWN_COMMANDS = (
    *("ohDaemon.codeAction", "ohDaemon.showChanges"),
    *("ohDaemon.chat", "ohDaemon.sendChat", "ohDaemon.history", "ohDaemon.review"),
)
"""Commands that mirror no method: run a code action, show the changes, chat in a file."""

DOCUMENT_SCHEMES = ("oh-log", "oh-diff", "oh-output")
"""URI schemes that `workspace/textDocumentContent` serves."""

FEATURES = (
    "applyEdit2",
    "saveDocument",
    "readDocument",
    "diagnostics",
    "languageRequests",
    "openDiff",
    "approvalRequests",
    "inputRequests",
    "modelRequests",
)
"""What a client can say in `initialize` that it does."""
LIMITS: dict[str, int] = {
    "maxMessageBytes": 16 << 20,
    "textPartBytes": 1 << 20,
    "partsPerMessage": 64,
    "imageBytes": 5 << 20,
    "imagesPerMessage": 20,
    "attachmentBytes": 20 << 20,
    "attachmentPieceBytes": 512 << 10,
    "outputPreviewBytes": 32 << 10,
    "outputKeptBytes": 100 << 20,
    "eventsPerPage": 500,
    "conversationsPerPage": 100,
    "queuedMessages": 32,
    "syncedDocumentBytes": 5 << 20,
    "requestsInFlight": 64,
}
