"""The contract's models as plain dicts, the form in which logs are read.

Written by `make schema`, names and meanings are the models'. At run time this module is empty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NotRequired, TypedDict

if TYPE_CHECKING:

    class Record(TypedDict):
        v: Literal[2]
        seq: int
        ts: str
        turnId: NotRequired[str]
        itemId: NotRequired[str]
        cause: NotRequired[Cause]
        event: Event

    class Cause(TypedDict):
        method: str
        clientRequestId: str
        bodyHash: str
        result: dict[str, Any]

    class ConversationCreated(TypedDict):
        type: Literal["conversation.created"]
        title: str
        folders: list[str]
        agent: AgentInfo
        options: dict[str, str]
        maxSteps: int
        maxCostUsd: NotRequired[float]
        resultSchema: NotRequired[dict[str, Any]]
        metadata: dict[str, Any]
        forkedFrom: NotRequired[ForkOrigin]
        parentId: NotRequired[str]
        isolated: NotRequired[Isolation]

    class AgentInfo(TypedDict):
        model: str
        label: str
        systemPrompt: str
        contextFiles: NotRequired[list[str]]
        skills: NotRequired[dict[str, str]]
        environment: NotRequired[dict[str, str]]
        tools: list[dict[str, Any]]

    class ForkOrigin(TypedDict):
        id: str
        seq: int

    class AgentChanged(TypedDict):
        type: Literal["agent.changed"]
        agent: AgentInfo

    class ConversationUpdated(TypedDict):
        type: Literal["conversation.updated"]
        title: NotRequired[str]
        archived: NotRequired[bool]
        tags: NotRequired[list[str]]
        metadata: NotRequired[dict[str, Any]]
        folders: NotRequired[list[str]]

    class ConversationClosed(TypedDict):
        type: Literal["conversation.closed"]

    StatusChanged = TypedDict(
        "StatusChanged",
        {
            "type": 'Literal["status.changed"]',
            "from": "ConversationState",
            "to": "ConversationState",
            "reason": "NotRequired[PauseReason]",
        },
    )

    class MessageQueued(TypedDict):
        type: Literal["message.queued"]
        message: QueuedMessage

    class QueuedMessage(TypedDict):
        messageId: str
        clientMessageId: NotRequired[str]
        content: list[Part]
        delivery: Delivery
        held: NotRequired[bool]
        options: NotRequired[dict[str, str]]
        createdAt: str

    class TextPart(TypedDict):
        type: Literal["text"]
        text: str

    class ImagePart(TypedDict):
        type: Literal["image"]
        mimeType: str
        data: NotRequired[str]
        attachmentId: NotRequired[str]
        outputRef: NotRequired[str]

    class DocumentPart(TypedDict):
        type: Literal["document"]
        mimeType: Literal["application/pdf"]
        name: NotRequired[str]
        data: NotRequired[str]
        attachmentId: NotRequired[str]
        outputRef: NotRequired[str]

    class ResourceLinkPart(TypedDict):
        type: Literal["resourceLink"]
        uri: str
        name: NotRequired[str]
        range: NotRequired[Range]
        text: NotRequired[str]
        fetch: NotRequired[bool]

    class Range(TypedDict):
        start: Position
        end: Position

    class Position(TypedDict):
        line: int
        character: int

    class ResourcePart(TypedDict):
        type: Literal["resource"]
        uri: str
        mimeType: NotRequired[str]
        text: str

    class SelectionPart(TypedDict):
        type: Literal["selection"]
        uri: str
        range: Range
        text: str
        version: NotRequired[int]

    class DiagnosticsPart(TypedDict):
        type: Literal["diagnostics"]
        uri: str
        items: list[dict[str, Any]]

    class CommandPart(TypedDict):
        type: Literal["command"]
        name: str
        args: NotRequired[str]
        prompt: NotRequired[str]

    class SkillPart(TypedDict):
        type: Literal["skill"]
        name: str
        args: NotRequired[str]
        prompt: NotRequired[str]

    class MessageEdited(TypedDict):
        type: Literal["message.edited"]
        message: QueuedMessage
        position: int

    class MessageDequeued(TypedDict):
        type: Literal["message.dequeued"]
        messageId: str
        outcome: Literal["started", "steered", "removed"]

    class MessageRefused(TypedDict):
        type: Literal["message.refused"]
        reason: str

    class TurnStarted(TypedDict):
        type: Literal["turn.started"]
        cause: TurnCause
        options: NotRequired[dict[str, str]]

    class TurnPaused(TypedDict):
        type: Literal["turn.paused"]
        reason: PauseReason

    class TurnResumed(TypedDict):
        type: Literal["turn.resumed"]

    class TurnCompleted(TypedDict):
        type: Literal["turn.completed"]
        turn: Turn

    class Turn(TypedDict):
        id: str
        status: Literal["running", "completed", "interrupted", "paused", "failed"]
        stopReason: NotRequired[StopReason]
        startedAt: str
        endedAt: NotRequired[str]
        nSteps: int
        usage: NotRequired[Usage]
        error: NotRequired[ErrorInfo]
        finalText: NotRequired[str]
        result: NotRequired[Any]

    class Usage(TypedDict):
        inputTokens: int
        outputTokens: int
        cacheReadTokens: int
        cacheWriteTokens: int
        reasoningTokens: int
        cost: NotRequired[Cost]
        requests: int

    class Cost(TypedDict):
        amount: float
        currency: Literal["USD"]

    class ErrorInfo(TypedDict):
        code: int
        kind: str
        message: str
        retryable: bool
        hint: NotRequired[str]

    class PauseRequested(TypedDict):
        type: Literal["pause.requested"]
        when: Literal["step", "now"]

    class InterruptRequested(TypedDict):
        type: Literal["interrupt.requested"]

    class CondensationRequested(TypedDict):
        type: Literal["condensation.requested"]
        instructions: NotRequired[str]

    class ItemStarted(TypedDict):
        type: Literal["item.started"]
        item: Item

    class ItemBase(TypedDict):
        id: str
        status: ItemStatus
        reason: NotRequired[str]
        startedAt: NotRequired[str]
        endedAt: NotRequired[str]

    class UserMessageItem(ItemBase):
        kind: Literal["userMessage"]
        messageId: str
        clientMessageId: NotRequired[str]
        content: list[Part]
        delivery: Delivery
        editor: NotRequired[dict[str, str]]
        environment: NotRequired[dict[str, str]]

    class AgentMessageItem(ItemBase):
        kind: Literal["agentMessage"]
        messageId: str
        text: str
        batch: NotRequired[str]

    class ReasoningItem(ItemBase):
        kind: Literal["reasoning"]
        text: str
        batch: NotRequired[str]
        blocks: list[dict[str, Any]]
        model: NotRequired[str]

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

    class ToolCallItem(ToolItemBase):
        kind: Literal["toolCall"]

    class Location(TypedDict):
        uri: str
        range: NotRequired[Range]

    class ModelCall(TypedDict):
        id: str
        name: str
        arguments: str
        batch: str

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
        encoding: str
        bom: bool
        mode: NotRequired[int]

    class GitChange(TypedDict):
        repository: str
        title: str
        ref: NotRequired[str]
        before: NotRequired[str]
        after: NotRequired[str]

    class FileChangeItem(ToolItemBase):
        kind: Literal["fileChange"]
        changes: list[FileChange]
        route: NotRequired[Literal["editor", "disk"]]
        undoLabel: NotRequired[str]
        git: NotRequired[list[GitChange]]
        origin: NotRequired[Literal["command"]]

    class PlanItem(ToolItemBase):
        kind: Literal["plan"]
        entries: list[PlanEntry]

    class PlanEntry(TypedDict):
        id: str
        text: str
        status: Literal["pending", "inProgress", "completed"]
        priority: Literal["high", "medium", "low"]

    class SubagentItem(ItemBase):
        kind: Literal["subagent"]
        conversationId: str
        agent: str
        title: str

    class NoticeItem(ItemBase):
        kind: Literal["notice"]
        severity: Literal["info", "warning", "error"]
        code: NotRequired[str]
        about: NotRequired[str]
        title: str
        description: NotRequired[str]
        note: NotRequired[str]
        skill: NotRequired[str]
        skills: NotRequired[list[str]]
        environment: NotRequired[dict[str, str]]
        settles: NotRequired[str]

    class CondensationItem(ItemBase):
        kind: Literal["condensation"]
        keepFrom: NotRequired[str]
        pruned: list[str]
        limits: NotRequired[dict[str, int]]
        contextSize: NotRequired[int]
        summary: NotRequired[str]
        tokensBefore: int
        tokensAfter: int

    class ItemUpdated(TypedDict):
        type: Literal["item.updated"]
        status: ItemStatus
        args: NotRequired[dict[str, Any]]
        title: NotRequired[str]
        command: NotRequired[str]
        risk: NotRequired[Risk]
        summary: NotRequired[str]

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

    class CommandSubject(TypedDict):
        kind: Literal["command"]
        command: str
        cwd: str
        outside: NotRequired[str]
        files: NotRequired[list[ProgramFile]]
        runsOtherFiles: NotRequired[bool]

    class ProgramFile(TypedDict):
        uri: str
        sha256: str

    class FileChangeSubject(TypedDict):
        kind: Literal["fileChange"]
        changes: list[FileChange]
        hunks: NotRequired[list[NamedHunk]]
        origin: NotRequired[Literal["command"]]
        git: NotRequired[list[GitChange]]

    class Hunk(TypedDict):
        oldStart: int
        oldLines: int
        newStart: int
        newLines: int

    class NamedHunk(Hunk):
        uri: str

    class ToolSubject(TypedDict):
        kind: Literal["tool"]
        tool: str
        args: dict[str, Any]
        definition: NotRequired[str]

    class PathSubject(TypedDict):
        kind: Literal["path"]
        uri: str
        access: Literal["read", "write"]

    class TrustSubject(TypedDict):
        kind: Literal["trust"]
        folder: str
        runs: NotRequired[list[ProjectProgram]]
        isTrusted: NotRequired[bool]

    class ProjectProgram(TypedDict):
        kind: Literal["hook", "skillCommand", "server"]
        command: str
        uri: str
        sha256: str
        runsOtherFiles: NotRequired[bool]

    class SaveDocumentsSubject(TypedDict):
        kind: Literal["saveDocuments"]
        uris: list[str]

    class HostSubject(TypedDict):
        kind: Literal["host"]
        host: str
        port: int
        isPrivate: NotRequired[bool]
        group: NotRequired[str]
        hosts: NotRequired[list[str]]

    class ApprovalOption(TypedDict):
        id: str
        label: str
        effect: Literal["allow", "reject"]
        scope: Scope

    class ApprovalResolved(TypedDict):
        type: Literal["approval.resolved"]
        approvalId: str
        decision: Decision
        by: Literal["user", "policy", "superseded", "interrupted", "noClient", "changed"]
        feedback: NotRequired[str]
        editedSubject: NotRequired[Subject]

    class Decision(TypedDict):
        effect: Literal["allow", "reject"]
        scope: Scope

    class InputRequested(TypedDict):
        type: Literal["input.requested"]
        input: InputRequest

    class InputRequest(TypedDict):
        id: str
        conversationId: str
        turnId: str
        itemId: str
        kind: Literal["text", "choice"]
        prompt: str
        choices: NotRequired[list[str]]
        createdAt: str

    class InputResolved(TypedDict):
        type: Literal["input.resolved"]
        inputId: str
        action: InputAction
        content: NotRequired[str]
        by: Literal["user", "message", "interrupted", "changed"]

    class ActionDecided(TypedDict):
        type: Literal["action.decided"]
        effect: Literal["allow", "reject"]
        code: NotRequired[RuleCode]
        rule: str
        risk: Risk
        reasons: list[str]
        digest: str

    class ChangesPlanned(TypedDict):
        type: Literal["changes.planned"]
        changes: list[FileChange]
        omitted: dict[str, str]
        git: list[RepositoryChanges]
        notes: list[str]
        refusals: list[str]
        itemFields: dict[str, Any]

    class RepositoryChanges(TypedDict):
        gitDir: str
        workTree: NotRequired[str]
        isNew: NotRequired[bool]
        refs: list[RefMove]
        stash: NotRequired[StashMove]
        index: NotRequired[str]
        pack: NotRequired[str]
        ends: list[str]
        protectedNames: list[str]
        signing: NotRequired[Signing]
        unsigned: NotRequired[bool]
        conflict: NotRequired[str]
        summary: list[GitChange]

    class RefMove(TypedDict):
        ref: str
        before: NotRequired[str]
        after: NotRequired[str]

    class StashMove(TypedDict):
        before: list[StashEntry]
        after: list[StashEntry]

    class StashEntry(TypedDict):
        commit: str
        message: str

    class Signing(TypedDict):
        format: Literal["openpgp", "ssh", "x509"]
        program: str
        key: str
        problem: NotRequired[str]

    class ChangesUpdated(TypedDict):
        type: Literal["changes.updated"]
        files: list[FileChange]
        bySubagent: NotRequired[list[FileChange]]

    class ChangesReviewed(TypedDict):
        type: Literal["changes.reviewed"]
        uri: str
        decision: Literal["kept", "undone", "applied", "discarded"]
        base: NotRequired[str]
        now: NotRequired[str]

    class CheckpointCreated(TypedDict):
        type: Literal["checkpoint.created"]
        before: dict[str, str]
        after: dict[str, str]
        nFiles: int
        saved: NotRequired[dict[str, str]]
        changes: NotRequired[list[FileChange]]

    class ConversationRolledBack(TypedDict):
        type: Literal["conversation.rolledBack"]
        toSeq: int
        toItemId: str
        files: Literal["keep", "restore"]

    class UsageUpdated(TypedDict):
        type: Literal["usage.updated"]
        usage: Usage
        model: str
        latencyMs: int
        contextUsed: int
        contextSize: NotRequired[int]
        purpose: NotRequired[Purpose]

    class OptionsChanged(TypedDict):
        type: Literal["options.changed"]
        values: dict[str, str]

    class RetryScheduled(TypedDict):
        type: Literal["retry.scheduled"]
        attempt: int
        maxAttempts: int
        delayMs: int
        error: ErrorInfo
        dropItemIds: list[str]
        model: NotRequired[str]

    class ErrorRaised(TypedDict):
        type: Literal["error.raised"]
        error: ErrorInfo

    class Notice(TypedDict):
        type: Literal["notice"]
        severity: Literal["info", "warning", "error"]
        title: str
        description: NotRequired[str]

    class StuckDetected(TypedDict):
        type: Literal["stuck.detected"]
        pattern: StuckPattern
        outcome: Literal["nudged", "stopped"]

    Part = (
        TextPart
        | ImagePart
        | DocumentPart
        | ResourceLinkPart
        | ResourcePart
        | SelectionPart
        | DiagnosticsPart
        | CommandPart
        | SkillPart
    )
    ConversationState = Literal[
        "idle",
        "running",
        "waiting",
        "pausing",
        "paused",
        "interrupting",
        "error",
        "finished",
        "closed",
    ]
    PauseReason = Literal[
        "user", "budget", "network", "rateLimit", "storage", "daemonRestarted", "stuck"
    ]
    Isolation = Literal["overlay", "worktree"]
    Risk = Literal["low", "medium", "high", "unknown"]
    ItemStatus = Literal[
        "pending", "awaitingApproval", "running", "completed", "failed", "rejected", "cancelled"
    ]
    ToolKind = Literal[
        "read", "edit", "delete", "move", "search", "execute", "think", "fetch", "other"
    ]
    Delivery = Literal["auto", "queue", "steer", "interrupt"]
    Purpose = Literal["condensation", "title", "ask", "subagent"]
    TurnCause = Literal["message", "resume", "condense", "apply"]
    StopReason = Literal[
        "endTurn",
        "finished",
        "maxTokens",
        "maxSteps",
        "maxCostUsd",
        "maxCostUsdPerConversation",
        "maxCostUsdPerDay",
        "maxMinutes",
        "refusal",
        "cancelled",
        "noAnswer",
        "toolErrors",
        "stuck",
        "hook",
        "needsInput",
        "error",
    ]
    Scope = Literal["once", "turn", "conversation", "edits", "folder", "server", "user"]
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
    RuleCode = Literal[
        "askAlways",
        "autoEdit",
        "edited",
        "gate",
        "hook",
        "lowRisk",
        "neverAsks",
        "outsideSandbox",
        "planMode",
        "protectedPlace",
        "risk",
        "ruling",
        "sandbox",
        "touchesNothing",
    ]
    Subject = (
        CommandSubject
        | FileChangeSubject
        | ToolSubject
        | PathSubject
        | TrustSubject
        | SaveDocumentsSubject
        | HostSubject
    )
    InputAction = Literal["accept", "decline", "cancel"]
    StuckPattern = Literal[
        "wrongCalls", "identicalCalls", "sameError", "alternatingCalls", "monologue"
    ]
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
