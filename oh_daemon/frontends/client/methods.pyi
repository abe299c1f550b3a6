"""What crosses the wire, as plain dicts, and each request as a method.

Written by `make schema`, explained in protocol.md. Only type checkers read it.
"""

from typing import Any, Literal, NotRequired, TypedDict, Unpack

from oh_daemon.protocol.plain import (
    ActionDecided,
    AgentChanged,
    AgentMessageItem,
    ApprovalOption,
    Cause,
    ChangesReviewed,
    CommandSubject,
    CondensationItem,
    CondensationRequested,
    ConversationClosed,
    ConversationCreated,
    ConversationRolledBack,
    ConversationState,
    ConversationUpdated,
    Cost,
    Delivery,
    ErrorInfo,
    ErrorRaised,
    ForkOrigin,
    GitChange,
    HostSubject,
    Hunk,
    InputAction,
    InputRequest,
    InputRequested,
    InputResolved,
    InterruptRequested,
    Isolation,
    ItemStatus,
    ItemUpdated,
    Location,
    MessageDequeued,
    MessageEdited,
    MessageQueued,
    MessageRefused,
    ModelCall,
    NamedHunk,
    Notice,
    NoticeItem,
    OptionsChanged,
    Part,
    PathSubject,
    PauseReason,
    PauseRequested,
    PlanItem,
    Purpose,
    QueuedMessage,
    Range,
    ReasoningItem,
    RepositoryChanges,
    RetryScheduled,
    Risk,
    SaveDocumentsSubject,
    Scope,
    StatusChanged,
    StuckDetected,
    SubagentItem,
    ToolCallItem,
    ToolKind,
    ToolSubject,
    TrustSubject,
    Turn,
    TurnCompleted,
    TurnPaused,
    TurnResumed,
    TurnStarted,
    Usage,
    UsageUpdated,
    UserMessageItem,
)

class StartParams(TypedDict):
    folders: NotRequired[list[str]]
    title: NotRequired[str]
    options: NotRequired[dict[str, str]]
    content: NotRequired[list[Part]]
    clientMessageId: NotRequired[str]
    tools: NotRequired[ToolFilter]
    clientTools: NotRequired[list[ClientTool]]
    resultSchema: NotRequired[dict[str, Any]]
    instructions: NotRequired[str]
    maxSteps: NotRequired[int]
    maxCostUsd: NotRequired[float]
    isolated: NotRequired[bool]
    ephemeral: NotRequired[bool]
    metadata: NotRequired[dict[str, Any]]
    clientRequestId: NotRequired[str]

class ToolFilter(TypedDict):
    allow: NotRequired[list[str]]
    deny: NotRequired[list[str]]

class ClientTool(TypedDict):
    name: str
    description: NotRequired[str]
    inputSchema: NotRequired[dict[str, Any]]
    annotations: NotRequired[dict[str, Any]]
    timeoutS: NotRequired[float]

class OfConversation(TypedDict):
    conversationId: str

class OpenParams(OfConversation):
    afterSeq: NotRequired[int]
    replay: NotRequired[Literal["none", "items", "events"]]
    limit: NotRequired[int]
    clientTools: NotRequired[list[ClientTool]]

class CloseParams(OfConversation):
    ifRunning: NotRequired[Literal["error", "interrupt", "pause"]]

class UpdateParams(OfConversation):
    title: NotRequired[str]
    archived: NotRequired[bool]
    tags: NotRequired[list[str]]
    metadata: NotRequired[dict[str, Any]]

class DeleteParams(OfConversation):
    permanent: NotRequired[bool]

class ListParams(TypedDict):
    folder: NotRequired[str]
    query: NotRequired[str]
    texts: NotRequired[bool]
    archived: NotRequired[bool]
    parentId: NotRequired[str]
    cursor: NotRequired[str]
    limit: NotRequired[int]

class ReadParams(OfConversation):
    before: NotRequired[str]
    limit: NotRequired[int]

class EventsParams(OfConversation):
    afterSeq: NotRequired[int]
    beforeSeq: NotRequired[int]
    limit: NotRequired[int]
    types: NotRequired[list[str]]

class ExportParams(OfConversation):
    format: NotRequired[Literal["jsonl", "markdown", "html", "atif"]]

class ForkParams(OfConversation):
    atItemId: NotRequired[str]
    title: NotRequired[str]

class RollbackParams(OfConversation):
    toItemId: str
    files: NotRequired[Literal["keep", "restore"]]
    dryRun: NotRequired[bool]

class StartsWork(OfConversation):
    clientRequestId: NotRequired[str]

class SendMessageParams(StartsWork):
    content: list[Part]
    overrides: NotRequired[Overrides]
    delivery: NotRequired[Delivery]
    clientMessageId: NotRequired[str]
    expectedTurnId: NotRequired[str]
    run: NotRequired[bool]
    wait: NotRequired[Literal["accepted", "completed"]]

class Overrides(TypedDict):
    options: NotRequired[dict[str, str]]

class PauseParams(StartsWork):
    when: NotRequired[Literal["step", "now"]]

class ResumeParams(StartsWork):
    message: NotRequired[list[Part]]

class InterruptParams(OfConversation):
    turnId: NotRequired[str]
    clearQueue: NotRequired[bool]

class CondenseParams(StartsWork):
    instructions: NotRequired[str]

class QueueParams(OfConversation):
    op: NotRequired[Literal["list", "edit", "remove", "move", "sendNow"]]
    messageId: NotRequired[str]
    content: NotRequired[list[Part]]
    position: NotRequired[int]

class AskParams(OfConversation):
    question: str

class SetOptionParams(StartsWork):
    optionId: str
    value: str

class SubscribeParams(OfConversation): ...
class UnsubscribeParams(OfConversation): ...

class ApprovalListParams(TypedDict):
    conversationId: NotRequired[str]

class ApprovalRespondParams(TypedDict):
    approvalId: str
    digest: str
    optionId: NotRequired[str]
    decision: NotRequired[Decision]
    feedback: NotRequired[str]
    editedSubject: NotRequired[Subject]

class Decision(TypedDict):
    effect: Literal["allow", "reject"]
    scope: NotRequired[Scope]

class FileChangeSubject(TypedDict):
    kind: Literal["fileChange"]
    changes: list[FileChange]
    hunks: NotRequired[list[NamedHunk]]
    origin: NotRequired[Literal["command"]]
    git: NotRequired[list[GitChange]]

class FileChange(TypedDict):
    uri: str
    op: Literal["add", "modify", "delete"]
    added: int
    removed: int
    patch: NotRequired[str]
    sha256Before: NotRequired[str]
    sha256After: NotRequired[str]
    unsaved: NotRequired[bool]
    form: NotRequired[FileForm]
    raw: NotRequired[Literal["bytes", "link", "folder"]]
    modeBefore: NotRequired[int]
    modeAfter: NotRequired[int]

class FileForm(TypedDict):
    encoding: NotRequired[str]
    bom: NotRequired[bool]
    mode: NotRequired[int]

class InputRespondParams(TypedDict):
    inputId: str
    action: InputAction
    content: NotRequired[str]

class ChangesListParams(OfConversation):
    turnId: NotRequired[str]

class ChangesDiffParams(OfConversation):
    uri: str
    turnId: NotRequired[str]

class ReviewParams(OfConversation):
    uris: NotRequired[list[str]]
    hunks: NotRequired[list[NamedHunk]]

class KeepParams(ReviewParams): ...
class UndoParams(ReviewParams): ...
class ApplyParams(ReviewParams): ...
class DiscardParams(ReviewParams): ...
class CheckpointListParams(OfConversation): ...

class CheckpointRestoreParams(OfConversation):
    checkpointId: str
    dryRun: NotRequired[bool]

class AttachmentPutParams(TypedDict):
    attachmentId: NotRequired[str]
    mimeType: str
    index: int
    total: int
    data: str
    sha256: NotRequired[str]

class OutputReadParams(OfConversation):
    outputRef: str
    offset: NotRequired[int]
    limit: NotRequired[int]
    encoding: NotRequired[Literal["utf-8", "base64"]]

class TerminalListParams(OfConversation): ...

class OfTerminal(OfConversation):
    terminalId: str

class TerminalReadParams(OfTerminal):
    offset: NotRequired[int]
    limit: NotRequired[int]

class TerminalWriteParams(OfTerminal):
    data: str

class TerminalKillParams(OfTerminal): ...
class PortListParams(OfConversation): ...

class PortOpenParams(OfConversation):
    port: int

class ToolListParams(TypedDict):
    conversationId: NotRequired[str]

class AgentListParams(TypedDict):
    conversationId: NotRequired[str]
    folder: NotRequired[str]

class ContextSearchParams(TypedDict):
    query: str
    kinds: NotRequired[list[ContextKind]]
    limit: NotRequired[int]
    conversationId: NotRequired[str]

class CommandListParams(TypedDict):
    conversationId: NotRequired[str]

class SkillListParams(TypedDict):
    conversationId: NotRequired[str]
    folder: NotRequired[str]

class Empty(TypedDict): ...
class ModelListParams(Empty): ...

class ModelCheckParams(TypedDict):
    model: NotRequired[str]
    baseUrl: NotRequired[str]

class ModelDiscoverParams(TypedDict):
    baseUrl: str

class UsageReadParams(TypedDict):
    conversationId: NotRequired[str]
    since: NotRequired[str]

class ConfigReadParams(TypedDict):
    section: NotRequired[str]

class ConfigValidateParams(TypedDict):
    settings: dict[str, Any]
    source: NotRequired[Literal["client", "project", "user"]]

class SecretSetParams(TypedDict):
    name: str
    value: str
    forCommands: NotRequired[bool]

class SecretRemoveParams(TypedDict):
    name: str

class SecretListParams(Empty): ...
class McpListParams(TypedDict): ...

class McpSetEnabledParams(TypedDict):
    server: str
    enabled: bool

class McpRestartParams(TypedDict):
    server: str

class McpAuthenticateParams(TypedDict):
    server: str

class DaemonStatusParams(Empty): ...

class FolderTrust(TypedDict):
    folder: str
    trusted: Trust

class SetTrustParams(FolderTrust): ...

class ContextChangedParams(TypedDict):
    activeUri: NotRequired[str]
    selection: NotRequired[ShownSelection]
    visibleRanges: NotRequired[list[Range]]
    openUris: NotRequired[list[str]]
    diagnosticsSummary: NotRequired[ProblemCounts]

class ShownSelection(TypedDict):
    uri: str
    range: Range
    text: NotRequired[str]

class ProblemCounts(TypedDict):
    errors: NotRequired[int]
    warnings: NotRequired[int]

class ModelProgressParams(TypedDict):
    callId: str
    delta: NotRequired[ModelDeltaPart]
    retry: NotRequired[ModelRetryPart]

class ModelDeltaPart(TypedDict):
    channel: Literal["text", "reasoning"]
    text: str

class ModelRetryPart(TypedDict):
    attempt: int
    maxAttempts: int
    delayS: float
    error: dict[str, Any]
    model: NotRequired[str]

class ClientBlock(TypedDict):
    protocolVersion: NotRequired[ProtocolVersion]
    client: NotRequired[ClientInfo]
    features: NotRequired[Features]
    events: NotRequired[EventChoice]
    trust: NotRequired[list[FolderVerdict]]
    settings: NotRequired[dict[str, Any]]
    models: NotRequired[ModelOffer]
    plain: NotRequired[bool]
    experimental: NotRequired[list[str]]

class ProtocolVersion(TypedDict):
    major: int
    minor: NotRequired[int]

class ClientInfo(TypedDict):
    name: NotRequired[str]
    kind: NotRequired[Literal["panel", "buffer", "script", "unattended"]]

class Features(TypedDict):
    applyEdit2: NotRequired[bool]
    saveDocument: NotRequired[bool]
    readDocument: NotRequired[bool]
    diagnostics: NotRequired[bool]
    languageRequests: NotRequired[bool]
    openDiff: NotRequired[bool]
    approvalRequests: NotRequired[bool]
    inputRequests: NotRequired[bool]
    modelRequests: NotRequired[bool]

class EventChoice(TypedDict):
    deltas: NotRequired[bool]
    optOut: NotRequired[list[str]]

class FolderVerdict(TypedDict):
    folder: str
    trusted: NotRequired[bool]

class ModelOffer(TypedDict):
    default: NotRequired[str]
    listed: NotRequired[list[OfferedModel]]

class ModelInfo(TypedDict):
    id: str
    label: str
    kind: Literal["model", "profile", "router"]
    contextWindow: NotRequired[int]
    available: bool
    reason: NotRequired[str]
    efforts: NotRequired[list[str]]

class OfferedModel(TypedDict):
    id: str
    label: str
    kind: NotRequired[Literal["model", "profile", "router"]]
    contextWindow: NotRequired[int]
    available: bool
    reason: NotRequired[str]
    efforts: NotRequired[list[str]]
    editsByPatch: NotRequired[bool]

class ApplyEditResult(TypedDict):
    applied: bool
    saved: NotRequired[bool]
    failureReason: NotRequired[str]

class ReadDocumentResult(TypedDict):
    text: str
    version: NotRequired[int]

class SaveDocumentResult(TypedDict):
    saved: NotRequired[list[str]]

class DiagnosticsResult(TypedDict):
    items: list[DocumentDiagnostics]
    loading: NotRequired[list[str]]

class DocumentDiagnostics(TypedDict):
    uri: str
    diagnostics: list[Diagnostic]

class Diagnostic(TypedDict):
    range: Range
    message: str
    severity: NotRequired[int]
    source: NotRequired[str]
    code: NotRequired[int | str]

class LanguageRequestResult(TypedDict):
    result: Any

class ApprovalAnswer(TypedDict):
    optionId: NotRequired[str]
    feedback: NotRequired[str]
    editedSubject: NotRequired[Subject]

class InputAnswer(TypedDict):
    action: NotRequired[InputAction]
    content: NotRequired[str]

class ToolCallResult(TypedDict):
    content: NotRequired[list[dict[str, Any]]]
    structuredContent: NotRequired[Any]
    isError: NotRequired[bool]

class ModelDescribeResult(TypedDict):
    contextWindow: NotRequired[int]
    mayBeWider: NotRequired[bool]
    seesImages: NotRequired[bool]
    readsPdfs: NotRequired[bool]
    caveats: NotRequired[list[ModelCaveat]]
    inputPrice: NotRequired[float]

class ModelCaveat(TypedDict):
    code: Literal["demoModel", "noFunctionCalls", "unknownPrice"]
    title: str
    description: NotRequired[str]
    about: NotRequired[str]

class ModelCompleteResult(TypedDict):
    text: NotRequired[str]
    reasoning: NotRequired[str]
    thinkingBlocks: NotRequired[list[dict[str, Any]]]
    toolCalls: NotRequired[list[AnsweredCall]]
    finishReason: NotRequired[Literal["stop", "tool_calls", "length", "content_filter", ""]]
    usage: NotRequired[CallUsage]
    responseId: NotRequired[str]
    model: NotRequired[str]

class AnsweredCall(TypedDict):
    id: str
    name: str
    arguments: str

class CallUsage(TypedDict):
    inputTokens: NotRequired[int]
    outputTokens: NotRequired[int]
    cacheReadTokens: NotRequired[int]
    cacheWriteTokens: NotRequired[int]
    reasoningTokens: NotRequired[int]
    cost: NotRequired[Cost]
    requests: NotRequired[int]

class StartResult(TypedDict):
    conversation: ConversationInfo
    options: list[Option]
    messageId: NotRequired[str]
    turnId: NotRequired[str]
    duplicate: NotRequired[bool]

class ConversationInfo(TypedDict):
    id: str
    title: str
    folders: list[str]
    status: ConversationState
    statusReason: NotRequired[PauseReason]
    model: str
    modelLabel: str
    createdAt: str
    updatedAt: str
    lastSeq: int
    epoch: NotRequired[str]
    turnId: NotRequired[str]
    messageCount: int
    fileCount: NotRequired[int]
    usage: NotRequired[Usage]
    context: ContextInfo
    options: dict[str, str]
    archived: bool
    tags: list[str]
    metadata: dict[str, Any]
    queueLength: int
    pendingCount: int
    lock: LockInfo
    forkedFrom: NotRequired[ForkOrigin]
    parentId: NotRequired[str]
    isolated: NotRequired[Isolation]

class ContextInfo(TypedDict):
    used: int
    size: NotRequired[int]

class LockInfo(TypedDict):
    mine: bool
    pid: NotRequired[int]

class Option(TypedDict):
    id: str
    name: str
    category: Literal["mode", "approval", "model", "effort"]
    type: Literal["select"]
    value: str
    choices: list[Choice]

class Choice(TypedDict):
    value: str
    label: str

class OpenResult(TypedDict):
    conversation: ConversationInfo
    options: list[Option]
    items: NotRequired[list[Item]]
    plan: NotRequired[PlanItem]
    events: NotRequired[list[Record]]
    firstSeq: int
    lastSeq: int
    hasMore: bool
    pending: list[(Approval | InputRequest)]
    queue: list[QueuedMessage]
    repaired: list[str]

class ItemBase(TypedDict):
    id: str
    status: ItemStatus
    reason: NotRequired[str]
    startedAt: NotRequired[str]
    endedAt: NotRequired[str]

class ToolItemBase(ItemBase):
    tool: str
    toolKind: ToolKind
    title: str
    args: dict[str, Any]
    risk: Risk
    selfRating: NotRequired[Risk]
    summary: NotRequired[str]
    locations: list[Location]
    content: list[dict[str, Any]]
    meta: NotRequired[dict[str, Any]]
    outputRef: NotRequired[str]
    durationMs: NotRequired[int]
    call: ModelCall

class CommandItem(ToolItemBase):
    kind: Literal["command"]
    command: str
    cwd: str
    terminalId: str
    exitCode: NotRequired[int]
    signal: NotRequired[int]
    truncated: NotRequired[bool]
    changes: NotRequired[list[FileChange]]
    git: NotRequired[list[GitChange]]

class FileChangeItem(ToolItemBase):
    kind: Literal["fileChange"]
    changes: list[FileChange]
    route: NotRequired[Literal["editor", "disk"]]
    undoLabel: NotRequired[str]
    git: NotRequired[list[GitChange]]
    origin: NotRequired[Literal["command"]]

class Record(TypedDict):
    v: Literal[2]
    seq: int
    ts: str
    turnId: NotRequired[str]
    itemId: NotRequired[str]
    cause: NotRequired[Cause]
    event: Event

class ItemStarted(TypedDict):
    type: Literal["item.started"]
    item: Item

class ItemCompleted(TypedDict):
    type: Literal["item.completed"]
    item: Item

class ApprovalRequested(TypedDict):
    type: Literal["approval.requested"]
    approval: Approval

class Approval(TypedDict):
    id: str
    digest: str
    conversationId: str
    turnId: str
    itemId: str
    title: str
    description: NotRequired[str]
    subject: Subject
    risk: Risk
    reason: NotRequired[str]
    options: list[ApprovalOption]
    editable: bool
    createdAt: str

class ApprovalResolved(TypedDict):
    type: Literal["approval.resolved"]
    approvalId: str
    decision: Decision
    by: Literal["user", "policy", "superseded", "interrupted", "noClient", "changed"]
    feedback: NotRequired[str]
    editedSubject: NotRequired[Subject]

class ChangesPlanned(TypedDict):
    type: Literal["changes.planned"]
    changes: list[FileChange]
    omitted: dict[str, str]
    git: list[RepositoryChanges]
    notes: list[str]
    refusals: list[str]
    itemFields: dict[str, Any]

class ChangesUpdated(TypedDict):
    type: Literal["changes.updated"]
    files: list[FileChange]
    bySubagent: NotRequired[list[FileChange]]

class CheckpointCreated(TypedDict):
    type: Literal["checkpoint.created"]
    before: dict[str, str]
    after: dict[str, str]
    nFiles: int
    saved: NotRequired[dict[str, str]]
    changes: NotRequired[list[FileChange]]

class ConversationResult(TypedDict):
    conversation: ConversationInfo

class ListResult(TypedDict):
    conversations: list[ConversationInfo]
    matches: NotRequired[dict[str, str]]
    nextCursor: NotRequired[str]

class ReadResult(TypedDict):
    conversation: ConversationInfo
    items: list[Item]
    nextBefore: NotRequired[str]

class EventsResult(TypedDict):
    events: list[Record]
    firstSeq: int
    lastSeq: int
    epoch: str
    truncated: bool

class ExportResult(TypedDict):
    text: str

class RestoreResult(TypedDict):
    restored: list[str]
    conflicts: list[Conflict]

class RollbackResult(RestoreResult):
    conversation: ConversationInfo

class Conflict(TypedDict):
    uri: str
    reason: str

class SendMessageResult(TypedDict):
    messageId: str
    disposition: Literal["started", "steered", "queued", "interruptedAndStarted"]
    turnId: NotRequired[str]
    queuePosition: NotRequired[int]
    turn: NotRequired[Turn]
    finalText: NotRequired[str]
    duplicate: NotRequired[bool]

class PauseResult(TypedDict):
    status: ConversationState
    turnId: str
    duplicate: NotRequired[bool]

class ResumeResult(TypedDict):
    turnId: NotRequired[str]
    duplicate: NotRequired[bool]

class InterruptResult(TypedDict):
    turnId: NotRequired[str]
    status: ConversationState | Literal["interrupted"]

class CondenseResult(TypedDict):
    turnId: str
    duplicate: NotRequired[bool]

class QueueResult(TypedDict):
    queue: list[QueuedMessage]

class AskResult(TypedDict):
    text: str
    usage: Usage

class SetOptionResult(TypedDict):
    options: list[Option]
    duplicate: NotRequired[bool]

class SubscribeResult(TypedDict):
    lastSeq: int

class ApprovalListResult(TypedDict):
    pending: list[Approval]

class RespondResult(TypedDict):
    resolved: bool
    alreadyResolved: NotRequired[EarlierAnswer]
    needsResume: NotRequired[bool]

class EarlierAnswer(TypedDict):
    by: Literal["user", "policy", "message", "superseded", "interrupted", "noClient", "changed"]
    decision: NotRequired[Decision]
    action: NotRequired[InputAction]

class ChangesListResult(TypedDict):
    files: list[ReviewedFile]
    omitted: NotRequired[dict[str, str]]
    git: NotRequired[list[GitChange]]

class ReviewedFile(FileChange):
    state: Literal["pending", "kept", "undone", "applied", "discarded", "conflict"]
    byCommand: NotRequired[bool]

class ChangesDiffResult(TypedDict):
    oldText: NotRequired[str]
    newText: NotRequired[str]
    patch: str
    hunks: list[Hunk]

class ReviewResult(TypedDict):
    done: list[str]
    conflicts: list[Conflict]

class CheckpointListResult(TypedDict):
    checkpoints: list[Checkpoint]
    problem: NotRequired[str]

class Checkpoint(TypedDict):
    id: str
    createdAt: str
    title: str
    nFiles: int

class AttachmentPutResult(TypedDict):
    attachmentId: str
    received: int
    complete: bool

class OutputReadResult(TypedDict):
    text: str
    nextOffset: int
    total: int

class TerminalListResult(TypedDict):
    terminals: list[TerminalInfo]

class TerminalInfo(TypedDict):
    terminalId: str
    command: NotRequired[str]
    cwd: str
    running: bool
    exitCode: NotRequired[int]
    sizeBytes: int

class TerminalReadResult(TypedDict):
    data: str
    nextOffset: int
    eof: bool

class PortListResult(TypedDict):
    ports: list[OpenPort]

class OpenPort(TypedDict):
    port: int
    address: NotRequired[str]

class PortOpenResult(TypedDict):
    address: str

class ToolListResult(TypedDict):
    tools: list[ToolInfo]

class ToolInfo(TypedDict):
    name: str
    description: str
    inputSchema: dict[str, Any]
    annotations: dict[str, Any]

class AgentListResult(TypedDict):
    agents: list[AgentSummary]

class AgentSummary(TypedDict):
    name: str
    description: str
    source: Literal["builtin", "project", "user"]
    path: NotRequired[str]

class ContextSearchResult(TypedDict):
    items: list[ContextItem]

class ContextItem(TypedDict):
    kind: ContextKind
    label: str
    detail: NotRequired[str]
    part: Part

class CommandListResult(TypedDict):
    commands: list[CommandInfo]

class CommandInfo(TypedDict):
    name: str
    description: str
    argumentHint: NotRequired[str]

class SkillListResult(TypedDict):
    skills: list[SkillInfo]

class SkillInfo(TypedDict):
    name: str
    description: str
    kind: SkillKind
    source: SkillSource
    path: str
    argumentHint: NotRequired[str]
    problem: NotRequired[str]

class ModelListResult(TypedDict):
    models: list[ModelInfo]
    default: NotRequired[str]

class ModelCheckResult(TypedDict):
    model: str

class ModelDiscoverResult(TypedDict):
    baseUrl: str
    models: list[str]

class UsageReadResult(TypedDict):
    usage: Usage
    byModel: list[ModelUsage]
    byDay: list[DayUsage]

class ModelUsage(TypedDict):
    model: str
    usage: Usage

class DayUsage(TypedDict):
    day: str
    usage: Usage

class ConfigReadResult(TypedDict):
    value: dict[str, Any]
    sources: dict[str, str]
    problems: list[str]

class ConfigValidateResult(TypedDict):
    problems: list[str]

class SecretNames(TypedDict):
    names: list[str]
    forCommands: list[str]

class McpServers(TypedDict):
    servers: list[McpServerInfo]

class McpServerInfo(TypedDict):
    name: str
    status: McpStatus
    tools: list[str]
    omitted: list[str]
    error: NotRequired[str]

class McpAuthenticateResult(TypedDict):
    url: NotRequired[str]
    opened: bool
    servers: list[McpServerInfo]

class DaemonStatusResult(TypedDict):
    version: str
    pid: int
    uptimeS: float
    rssBytes: int
    conversations: list[ConversationLoad]
    writerQueueBytes: int
    sandbox: SandboxInfo
    warnings: list[str]

class ConversationLoad(TypedDict):
    id: str
    status: ConversationState

class SandboxInfo(TypedDict):
    level: Literal["overlay", "landlock", "off"]
    setting: SandboxSetting
    cause: NotRequired[str]
    cure: NotRequired[str]

class SetTrustResult(TypedDict):
    folders: list[FolderTrust]

class EventParams(Record):
    conversationId: str
    epoch: str

class DeltaParams(TypedDict):
    conversationId: str
    turnId: str
    itemId: str
    channel: Literal["text", "reasoning", "output"]
    offset: int
    text: str

class ChangedParams(TypedDict):
    conversation: ConversationInfo
    change: Literal["created", "updated", "deleted"]

class GapParams(TypedDict):
    conversationId: str
    fromSeq: int
    toSeq: int

class DaemonStatusChangedParams(TypedDict):
    kind: Literal["normal", "warning", "error"]
    message: str
    conversationId: NotRequired[str]
    error: NotRequired[ErrorInfo]

class PortChangedParams(OfConversation):
    ports: list[OpenPort]

class ApplyEditParams(TypedDict):
    label: str
    edit: dict[str, Any]
    save: Literal["ifWasClean", "never"]

class ReadDocumentParams(TypedDict):
    uri: str

class SaveDocumentParams(TypedDict):
    uris: list[str]

class DiagnosticsParams(TypedDict):
    uris: NotRequired[list[str]]
    minSeverity: int

class OpenDiffParams(TypedDict):
    conversationId: str
    uri: str
    oldUri: str
    newUri: str
    title: str

class LanguageRequestParams(TypedDict):
    method: Literal[
        "textDocument/definition",
        "textDocument/references",
        "textDocument/hover",
        "textDocument/documentSymbol",
        "textDocument/rename",
        "workspace/symbol",
    ]
    params: dict[str, Any]

class ApprovalRequestParams(Approval): ...
class InputRequestParams(InputRequest): ...

class ToolCallParams(TypedDict):
    conversationId: str
    itemId: str
    name: str
    arguments: dict[str, Any]

class ModelDescribeParams(TypedDict):
    model: str

class ModelCompleteParams(TypedDict):
    callId: str
    model: str
    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]]
    toolChoice: Literal["auto", "required", "none"]
    cacheKey: NotRequired[str]
    purpose: NotRequired[Purpose]

class ServerBlock(TypedDict):
    protocolVersion: ProtocolVersion
    daemon: DaemonInfo
    methods: list[str]
    notifications: list[str]
    limits: dict[str, int]
    sandbox: NotRequired[SandboxInfo]
    understood: NotRequired[Understood]
    experimental: list[str]

class DaemonInfo(TypedDict):
    name: str
    version: str
    pid: int

class Understood(TypedDict):
    features: list[str]
    unknown: list[str]

class ErrorData(TypedDict):
    kind: str
    retryable: bool
    hint: NotRequired[str]
    retryAfterMs: NotRequired[int]
    httpStatus: NotRequired[int]
    reference: NotRequired[str]
    errors: NotRequired[list[FieldError]]

class FieldError(TypedDict):
    path: str
    code: str
    message: str

ToolItem = ToolCallItem | CommandItem | FileChangeItem | PlanItem
Item = (
    UserMessageItem
    | AgentMessageItem
    | ReasoningItem
    | ToolCallItem
    | CommandItem
    | FileChangeItem
    | PlanItem
    | SubagentItem
    | NoticeItem
    | CondensationItem
)
Subject = (
    CommandSubject
    | FileChangeSubject
    | ToolSubject
    | PathSubject
    | TrustSubject
    | SaveDocumentsSubject
    | HostSubject
)
KnownEvent = (
    ConversationCreated
    | AgentChanged
    | ConversationUpdated
    | ConversationClosed
    | StatusChanged
    | MessageQueued
    | MessageEdited
    | MessageDequeued
    | MessageRefused
    | TurnStarted
    | TurnPaused
    | TurnResumed
    | TurnCompleted
    | PauseRequested
    | InterruptRequested
    | CondensationRequested
    | ItemStarted
    | ItemUpdated
    | ItemCompleted
    | ApprovalRequested
    | ApprovalResolved
    | InputRequested
    | InputResolved
    | ActionDecided
    | ChangesPlanned
    | ChangesUpdated
    | ChangesReviewed
    | CheckpointCreated
    | ConversationRolledBack
    | UsageUpdated
    | OptionsChanged
    | RetryScheduled
    | ErrorRaised
    | Notice
    | StuckDetected
)
Event = KnownEvent
SandboxSetting = Literal["auto", "overlay", "landlock", "off"]
Trust = Literal["full", "readOnly", "none"]
ContextKind = Literal[
    "file", "folder", "symbol", "conversation", "changes", "page", "command", "skill"
]
SkillKind = Literal["agent", "keyword", "task", "path", "always"]
SkillSource = Literal["project", "user"]
McpStatus = Literal["disabled", "starting", "running", "authRequired", "failed"]

class Methods:
    def conversation_start(self, **params: Unpack[StartParams]) -> StartResult:
        """Create a conversation, subscribe to it and, with `content`, start its first turn."""
    def conversation_open(self, **params: Unpack[OpenParams]) -> OpenResult:
        """Open a conversation from its log, repair it after a crash, and subscribe to it."""
    def conversation_close(self, **params: Unpack[CloseParams]) -> Empty:
        """End the conversation's worker and unlock its log; the log is kept."""
    def conversation_update(self, **params: Unpack[UpdateParams]) -> ConversationResult:
        """Rename, tag or archive a conversation, open or not."""
    def conversation_delete(self, **params: Unpack[DeleteParams]) -> Empty:
        """Move the conversation's log to the trash, or remove it permanently."""
    def conversation_list(self, **params: Unpack[ListParams]) -> ListResult:
        """List the conversations of the open folders, or of one folder."""
    def conversation_read(self, **params: Unpack[ReadParams]) -> ReadResult:
        """Read items of a conversation without opening or locking it."""
    def conversation_events(self, **params: Unpack[EventsParams]) -> EventsResult:
        """Read a page of records as they are in the log."""
    def conversation_export(self, **params: Unpack[ExportParams]) -> ExportResult:
        """Export a whole conversation as one text, without opening or locking it."""
    def conversation_fork(self, **params: Unpack[ForkParams]) -> ConversationResult:
        """Start a new conversation with the first part of this one, which does not change."""
    def conversation_rollback(self, **params: Unpack[RollbackParams]) -> RollbackResult:
        """Go back to before a message: it and everything after it no longer count."""
    def conversation_send_message(self, **params: Unpack[SendMessageParams]) -> SendMessageResult:
        """Send a message: start a turn, steer the running one, queue, or interrupt and start."""
    def conversation_pause(self, **params: Unpack[PauseParams]) -> PauseResult:
        """Pause the turn after the current step, or now."""
    def conversation_resume(self, **params: Unpack[ResumeParams]) -> ResumeResult:
        """Resume the paused turn, or continue after a turn that ended early."""
    def conversation_interrupt(self, **params: Unpack[InterruptParams]) -> InterruptResult:
        """End the turn now, with its model call, any waiting, and the processes of its tools."""
    def conversation_condense(self, **params: Unpack[CondenseParams]) -> CondenseResult:
        """Replace older steps by a summary now, in the open turn or in a turn of its own."""
    def conversation_queue(self, **params: Unpack[QueueParams]) -> QueueResult:
        """List, edit, remove or move waiting messages, or deliver one now."""
    def conversation_ask(self, **params: Unpack[AskParams]) -> AskResult:
        """Ask the model about the conversation, leaving no trace in it except the cost."""
    def conversation_set_option(self, **params: Unpack[SetOptionParams]) -> SetOptionResult:
        """Set the mode, approval policy, model or effort, from the next step on."""
    def conversation_subscribe(self, **params: Unpack[SubscribeParams]) -> SubscribeResult:
        """Receive the events of an open conversation from now on."""
    def conversation_unsubscribe(self, **params: Unpack[UnsubscribeParams]) -> Empty:
        """Receive no more events of this conversation."""
    def approval_list(self, **params: Unpack[ApprovalListParams]) -> ApprovalListResult:
        """List the pending approvals."""
    def approval_respond(self, **params: Unpack[ApprovalRespondParams]) -> RespondResult:
        """Allow or reject an action; the digest must be echoed, and the first answer wins."""
    def input_respond(self, **params: Unpack[InputRespondParams]) -> RespondResult:
        """Answer a question of the agent; the first answer wins."""
    def changes_list(self, **params: Unpack[ChangesListParams]) -> ChangesListResult:
        """List the files that the agent changed, with the changes that wait for review."""
    def changes_diff(self, **params: Unpack[ChangesDiffParams]) -> ChangesDiffResult:
        """Show the changes to a file that wait for review, with their hunks."""
    def changes_keep(self, **params: Unpack[KeepParams]) -> ReviewResult:
        """Keep changes, which ends their review; the conversation is not isolated."""
    def changes_undo(self, **params: Unpack[UndoParams]) -> ReviewResult:
        """Undo changes through the editor, leaving later changes of the user in place."""
    def changes_apply(self, **params: Unpack[ApplyParams]) -> ReviewResult:
        """Apply changes of an isolated conversation to its folders, merged with the user's own."""
    def changes_discard(self, **params: Unpack[DiscardParams]) -> ReviewResult:
        """Discard changes of an isolated conversation: it sees the files of its folders again."""
    def checkpoint_list(self, **params: Unpack[CheckpointListParams]) -> CheckpointListResult:
        """List the points just before the agent changed files, oldest first."""
    def checkpoint_restore(self, **params: Unpack[CheckpointRestoreParams]) -> RestoreResult:
        """Undo the agent's changes to files since a checkpoint; the model is told."""
    def attachment_put(self, **params: Unpack[AttachmentPutParams]) -> AttachmentPutResult:
        """Upload an image or a PDF in pieces, to be used in a message; kept until the daemon exits."""
    def output_read(self, **params: Unpack[OutputReadParams]) -> OutputReadResult:
        """Read more of an output of which the item only shows the beginning and the end."""
    def terminal_list(self, **params: Unpack[TerminalListParams]) -> TerminalListResult:
        """List the agent's terminals; there are none while the conversation is not open."""
    def terminal_read(self, **params: Unpack[TerminalReadParams]) -> TerminalReadResult:
        """Read what a terminal showed, as text; at least the last MiB is kept."""
    def terminal_write(self, **params: Unpack[TerminalWriteParams]) -> Empty:
        """Type into the program that runs in a terminal; the agent is told."""
    def terminal_kill(self, **params: Unpack[TerminalKillParams]) -> Empty:
        """End everything that runs in a terminal, background jobs included; its shell stays."""
    def port_list(self, **params: Unpack[PortListParams]) -> PortListResult:
        """List the ports on which the conversation's commands listen in the sandbox."""
    def port_open(self, **params: Unpack[PortOpenParams]) -> PortOpenResult:
        """Let the user reach a port of the sandbox; that ends with what listens there."""
    def tool_list(self, **params: Unpack[ToolListParams]) -> ToolListResult:
        """List the tools that the agent is offered."""
    def agent_list(self, **params: Unpack[AgentListParams]) -> AgentListResult:
        """List the agents to delegate to, for a conversation, a folder or the open folders."""
    def context_search(self, **params: Unpack[ContextSearchParams]) -> ContextSearchResult:
        """Find what a message can mention, by a few letters of its name."""
    def command_list(self, **params: Unpack[CommandListParams]) -> CommandListResult:
        """List the commands that a message can contain as a part of type `command`."""
    def skill_list(self, **params: Unpack[SkillListParams]) -> SkillListResult:
        """List the skills of the project and the user; one that is not used says why."""
    def model_list(self, **params: Unpack[ModelListParams]) -> ModelListResult:
        """List the models that can be chosen by name."""
    def model_check(self, **params: Unpack[ModelCheckParams]) -> ModelCheckResult:
        """Ask a model for one word, which tells whether its key and address are right."""
    def model_discover(self, **params: Unpack[ModelDiscoverParams]) -> ModelDiscoverResult:
        """List the models that a server offers which speaks OpenAI's API, such as Ollama."""
    def usage_read(self, **params: Unpack[UsageReadParams]) -> UsageReadResult:
        """Sum the tokens and costs of one conversation, or of all in the open folders."""
    def config_read(self, **params: Unpack[ConfigReadParams]) -> ConfigReadResult:
        """Read the settings in force, and the source of each."""
    def config_validate(self, **params: Unpack[ConfigValidateParams]) -> ConfigValidateResult:
        """Check settings that are not in force yet, and report their problems."""
    def secret_set(self, **params: Unpack[SecretSetParams]) -> SecretNames:
        """Lend the daemon a key, or a secret for commands, from the editor's store until it exits."""
    def secret_remove(self, **params: Unpack[SecretRemoveParams]) -> SecretNames:
        """Forget a key or a secret; its value is still masked everywhere."""
    def secret_list(self, **params: Unpack[SecretListParams]) -> SecretNames:
        """List the names of the keys and secrets that the editor has exposed."""
    def mcp_list(self, **params: Unpack[McpListParams]) -> McpServers:
        """List MCP servers of the settings, skills in use and the browser, each with its state."""
    def mcp_set_enabled(self, **params: Unpack[McpSetEnabledParams]) -> McpServers:
        """Start or stop a server; the settings do not change."""
    def mcp_restart(self, **params: Unpack[McpRestartParams]) -> McpServers:
        """Restart a server and accept its tools as they are now."""
    def mcp_authenticate(self, **params: Unpack[McpAuthenticateParams]) -> McpAuthenticateResult:
        """Sign in to a server with a `url`; an earlier sign-in is forgotten."""
    def daemon_status(self, **params: Unpack[DaemonStatusParams]) -> DaemonStatusResult:
        """Read the state of the daemon: its load, and warnings."""
    def workspace_set_trust(self, **params: Unpack[SetTrustParams]) -> SetTrustResult:
        """Set what agents may do in a folder."""

class AsyncMethods:
    async def conversation_start(self, **params: Unpack[StartParams]) -> StartResult:
        """Create a conversation, subscribe to it and, with `content`, start its first turn."""
    async def conversation_open(self, **params: Unpack[OpenParams]) -> OpenResult:
        """Open a conversation from its log, repair it after a crash, and subscribe to it."""
    async def conversation_close(self, **params: Unpack[CloseParams]) -> Empty:
        """End the conversation's worker and unlock its log; the log is kept."""
    async def conversation_update(self, **params: Unpack[UpdateParams]) -> ConversationResult:
        """Rename, tag or archive a conversation, open or not."""
    async def conversation_delete(self, **params: Unpack[DeleteParams]) -> Empty:
        """Move the conversation's log to the trash, or remove it permanently."""
    async def conversation_list(self, **params: Unpack[ListParams]) -> ListResult:
        """List the conversations of the open folders, or of one folder."""
    async def conversation_read(self, **params: Unpack[ReadParams]) -> ReadResult:
        """Read items of a conversation without opening or locking it."""
    async def conversation_events(self, **params: Unpack[EventsParams]) -> EventsResult:
        """Read a page of records as they are in the log."""
    async def conversation_export(self, **params: Unpack[ExportParams]) -> ExportResult:
        """Export a whole conversation as one text, without opening or locking it."""
    async def conversation_fork(self, **params: Unpack[ForkParams]) -> ConversationResult:
        """Start a new conversation with the first part of this one, which does not change."""
    async def conversation_rollback(self, **params: Unpack[RollbackParams]) -> RollbackResult:
        """Go back to before a message: it and everything after it no longer count."""
    async def conversation_send_message(
        self, **params: Unpack[SendMessageParams]
    ) -> SendMessageResult:
        """Send a message: start a turn, steer the running one, queue, or interrupt and start."""
    async def conversation_pause(self, **params: Unpack[PauseParams]) -> PauseResult:
        """Pause the turn after the current step, or now."""
    async def conversation_resume(self, **params: Unpack[ResumeParams]) -> ResumeResult:
        """Resume the paused turn, or continue after a turn that ended early."""
    async def conversation_interrupt(self, **params: Unpack[InterruptParams]) -> InterruptResult:
        """End the turn now, with its model call, any waiting, and the processes of its tools."""
    async def conversation_condense(self, **params: Unpack[CondenseParams]) -> CondenseResult:
        """Replace older steps by a summary now, in the open turn or in a turn of its own."""
    async def conversation_queue(self, **params: Unpack[QueueParams]) -> QueueResult:
        """List, edit, remove or move waiting messages, or deliver one now."""
    async def conversation_ask(self, **params: Unpack[AskParams]) -> AskResult:
        """Ask the model about the conversation, leaving no trace in it except the cost."""
    async def conversation_set_option(self, **params: Unpack[SetOptionParams]) -> SetOptionResult:
        """Set the mode, approval policy, model or effort, from the next step on."""
    async def conversation_subscribe(self, **params: Unpack[SubscribeParams]) -> SubscribeResult:
        """Receive the events of an open conversation from now on."""
    async def conversation_unsubscribe(self, **params: Unpack[UnsubscribeParams]) -> Empty:
        """Receive no more events of this conversation."""
    async def approval_list(self, **params: Unpack[ApprovalListParams]) -> ApprovalListResult:
        """List the pending approvals."""
    async def approval_respond(self, **params: Unpack[ApprovalRespondParams]) -> RespondResult:
        """Allow or reject an action; the digest must be echoed, and the first answer wins."""
    async def input_respond(self, **params: Unpack[InputRespondParams]) -> RespondResult:
        """Answer a question of the agent; the first answer wins."""
    async def changes_list(self, **params: Unpack[ChangesListParams]) -> ChangesListResult:
        """List the files that the agent changed, with the changes that wait for review."""
    async def changes_diff(self, **params: Unpack[ChangesDiffParams]) -> ChangesDiffResult:
        """Show the changes to a file that wait for review, with their hunks."""
    async def changes_keep(self, **params: Unpack[KeepParams]) -> ReviewResult:
        """Keep changes, which ends their review; the conversation is not isolated."""
    async def changes_undo(self, **params: Unpack[UndoParams]) -> ReviewResult:
        """Undo changes through the editor, leaving later changes of the user in place."""
    async def changes_apply(self, **params: Unpack[ApplyParams]) -> ReviewResult:
        """Apply changes of an isolated conversation to its folders, merged with the user's own."""
    async def changes_discard(self, **params: Unpack[DiscardParams]) -> ReviewResult:
        """Discard changes of an isolated conversation: it sees the files of its folders again."""
    async def checkpoint_list(self, **params: Unpack[CheckpointListParams]) -> CheckpointListResult:
        """List the points just before the agent changed files, oldest first."""
    async def checkpoint_restore(self, **params: Unpack[CheckpointRestoreParams]) -> RestoreResult:
        """Undo the agent's changes to files since a checkpoint; the model is told."""
    async def attachment_put(self, **params: Unpack[AttachmentPutParams]) -> AttachmentPutResult:
        """Upload an image or a PDF in pieces, to be used in a message; kept until the daemon exits."""
    async def output_read(self, **params: Unpack[OutputReadParams]) -> OutputReadResult:
        """Read more of an output of which the item only shows the beginning and the end."""
    async def terminal_list(self, **params: Unpack[TerminalListParams]) -> TerminalListResult:
        """List the agent's terminals; there are none while the conversation is not open."""
    async def terminal_read(self, **params: Unpack[TerminalReadParams]) -> TerminalReadResult:
        """Read what a terminal showed, as text; at least the last MiB is kept."""
    async def terminal_write(self, **params: Unpack[TerminalWriteParams]) -> Empty:
        """Type into the program that runs in a terminal; the agent is told."""
    async def terminal_kill(self, **params: Unpack[TerminalKillParams]) -> Empty:
        """End everything that runs in a terminal, background jobs included; its shell stays."""
    async def port_list(self, **params: Unpack[PortListParams]) -> PortListResult:
        """List the ports on which the conversation's commands listen in the sandbox."""
    async def port_open(self, **params: Unpack[PortOpenParams]) -> PortOpenResult:
        """Let the user reach a port of the sandbox; that ends with what listens there."""
    async def tool_list(self, **params: Unpack[ToolListParams]) -> ToolListResult:
        """List the tools that the agent is offered."""
    async def agent_list(self, **params: Unpack[AgentListParams]) -> AgentListResult:
        """List the agents to delegate to, for a conversation, a folder or the open folders."""
    async def context_search(self, **params: Unpack[ContextSearchParams]) -> ContextSearchResult:
        """Find what a message can mention, by a few letters of its name."""
    async def command_list(self, **params: Unpack[CommandListParams]) -> CommandListResult:
        """List the commands that a message can contain as a part of type `command`."""
    async def skill_list(self, **params: Unpack[SkillListParams]) -> SkillListResult:
        """List the skills of the project and the user; one that is not used says why."""
    async def model_list(self, **params: Unpack[ModelListParams]) -> ModelListResult:
        """List the models that can be chosen by name."""
    async def model_check(self, **params: Unpack[ModelCheckParams]) -> ModelCheckResult:
        """Ask a model for one word, which tells whether its key and address are right."""
    async def model_discover(self, **params: Unpack[ModelDiscoverParams]) -> ModelDiscoverResult:
        """List the models that a server offers which speaks OpenAI's API, such as Ollama."""
    async def usage_read(self, **params: Unpack[UsageReadParams]) -> UsageReadResult:
        """Sum the tokens and costs of one conversation, or of all in the open folders."""
    async def config_read(self, **params: Unpack[ConfigReadParams]) -> ConfigReadResult:
        """Read the settings in force, and the source of each."""
    async def config_validate(self, **params: Unpack[ConfigValidateParams]) -> ConfigValidateResult:
        """Check settings that are not in force yet, and report their problems."""
    async def secret_set(self, **params: Unpack[SecretSetParams]) -> SecretNames:
        """Lend the daemon a key, or a secret for commands, from the editor's store until it exits."""
    async def secret_remove(self, **params: Unpack[SecretRemoveParams]) -> SecretNames:
        """Forget a key or a secret; its value is still masked everywhere."""
    async def secret_list(self, **params: Unpack[SecretListParams]) -> SecretNames:
        """List the names of the keys and secrets that the editor has exposed."""
    async def mcp_list(self, **params: Unpack[McpListParams]) -> McpServers:
        """List MCP servers of the settings, skills in use and the browser, each with its state."""
    async def mcp_set_enabled(self, **params: Unpack[McpSetEnabledParams]) -> McpServers:
        """Start or stop a server; the settings do not change."""
    async def mcp_restart(self, **params: Unpack[McpRestartParams]) -> McpServers:
        """Restart a server and accept its tools as they are now."""
    async def mcp_authenticate(
        self, **params: Unpack[McpAuthenticateParams]
    ) -> McpAuthenticateResult:
        """Sign in to a server with a `url`; an earlier sign-in is forgotten."""
    async def daemon_status(self, **params: Unpack[DaemonStatusParams]) -> DaemonStatusResult:
        """Read the state of the daemon: its load, and warnings."""
    async def workspace_set_trust(self, **params: Unpack[SetTrustParams]) -> SetTrustResult:
        """Set what agents may do in a folder."""
