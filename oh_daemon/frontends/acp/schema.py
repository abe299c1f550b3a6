"""What we send to ACP clients; `make schema` writes it from the official schema.

At run time this module is empty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NotRequired, TypedDict

if TYPE_CHECKING:
    SessionId = str

    class TextContent(TypedDict):
        text: str

    class ImageContent(TypedDict):
        data: str
        mimeType: str
        uri: NotRequired[str]

    class ContentBlockText(TextContent):
        type: Literal["text"]

    class ContentBlockImage(ImageContent):
        type: Literal["image"]

    ContentBlock = ContentBlockText | ContentBlockImage
    MessageId = str

    class ContentChunk(TypedDict):
        content: ContentBlock
        messageId: NotRequired[MessageId]

    class Content(TypedDict):
        content: ContentBlock

    class Diff(TypedDict):
        newText: str
        oldText: NotRequired[str]
        path: str

    class ToolCallContentContent(Content):
        type: Literal["content"]

    class ToolCallContentDiff(Diff):
        type: Literal["diff"]

    ToolCallContent = ToolCallContentContent | ToolCallContentDiff
    ToolKind = Literal[
        "read",
        "edit",
        "delete",
        "move",
        "search",
        "execute",
        "think",
        "fetch",
        "switch_mode",
        "other",
    ]

    class ToolCallLocation(TypedDict):
        line: NotRequired[int]
        path: str

    ToolCallStatus = Literal["pending", "in_progress", "completed", "failed"]
    ToolCallId = str

    class ToolCall(TypedDict):
        content: NotRequired[list[ToolCallContent]]
        kind: NotRequired[ToolKind]
        locations: NotRequired[list[ToolCallLocation]]
        name: NotRequired[str]
        rawInput: NotRequired[Any]
        rawOutput: NotRequired[Any]
        status: NotRequired[ToolCallStatus]
        title: str
        toolCallId: ToolCallId

    class ToolCallUpdate(TypedDict):
        content: NotRequired[list[ToolCallContent]]
        kind: NotRequired[ToolKind]
        locations: NotRequired[list[ToolCallLocation]]
        name: NotRequired[str]
        rawInput: NotRequired[Any]
        rawOutput: NotRequired[Any]
        status: NotRequired[ToolCallStatus]
        title: NotRequired[str]
        toolCallId: ToolCallId

    PlanEntryPriority = Literal["high", "medium", "low"]
    PlanEntryStatus = Literal["pending", "in_progress", "completed"]

    class PlanEntry(TypedDict):
        content: str
        priority: PlanEntryPriority
        status: PlanEntryStatus

    class Plan(TypedDict):
        entries: list[PlanEntry]

    class UnstructuredCommandInput(TypedDict):
        hint: str

    AvailableCommandInput = UnstructuredCommandInput

    class AvailableCommand(TypedDict):
        description: str
        input: NotRequired[AvailableCommandInput]
        name: str

    class AvailableCommandsUpdate(TypedDict):
        availableCommands: list[AvailableCommand]

    SessionModeId = str

    class CurrentModeUpdate(TypedDict):
        currentModeId: SessionModeId

    SessionConfigValueId = str

    class SessionConfigSelectOption(TypedDict):
        description: NotRequired[str]
        name: str
        value: SessionConfigValueId

    SessionConfigSelectOptions = list[SessionConfigSelectOption]

    class SessionConfigSelect(TypedDict):
        currentValue: SessionConfigValueId
        options: SessionConfigSelectOptions

    SessionConfigOptionCategory = str
    SessionConfigId = str

    class SessionConfigOptionBase(TypedDict):
        category: NotRequired[SessionConfigOptionCategory]
        description: NotRequired[str]
        id: SessionConfigId
        name: str

    class SessionConfigOptionSelect(SessionConfigOptionBase, SessionConfigSelect):
        type: Literal["select"]

    SessionConfigOption = SessionConfigOptionSelect

    class ConfigOptionUpdate(TypedDict):
        configOptions: list[SessionConfigOption]

    class SessionInfoUpdate(TypedDict):
        title: NotRequired[str]
        updatedAt: NotRequired[str]

    class Cost(TypedDict):
        amount: float
        currency: str

    class UsageUpdate(TypedDict):
        cost: NotRequired[Cost]
        size: int
        used: int

    NoticeSeverity = str

    class Notice(TypedDict):
        description: NotRequired[str]
        severity: NoticeSeverity
        title: str

    CompactionId = str
    CompactionStatus = str

    class CompactionUpdate(TypedDict):
        compactionId: CompactionId
        error: NotRequired[str]
        status: CompactionStatus
        summary: NotRequired[list[ContentBlock]]

    class SessionUpdateUserMessageChunk(ContentChunk):
        sessionUpdate: Literal["user_message_chunk"]

    class SessionUpdateAgentMessageChunk(ContentChunk):
        sessionUpdate: Literal["agent_message_chunk"]

    class SessionUpdateAgentThoughtChunk(ContentChunk):
        sessionUpdate: Literal["agent_thought_chunk"]

    class SessionUpdateToolCall(ToolCall):
        sessionUpdate: Literal["tool_call"]

    class SessionUpdateToolCallUpdate(ToolCallUpdate):
        sessionUpdate: Literal["tool_call_update"]

    class SessionUpdatePlan(Plan):
        sessionUpdate: Literal["plan"]

    class SessionUpdateAvailableCommandsUpdate(AvailableCommandsUpdate):
        sessionUpdate: Literal["available_commands_update"]

    class SessionUpdateCurrentModeUpdate(CurrentModeUpdate):
        sessionUpdate: Literal["current_mode_update"]

    class SessionUpdateConfigOptionUpdate(ConfigOptionUpdate):
        sessionUpdate: Literal["config_option_update"]

    class SessionUpdateSessionInfoUpdate(SessionInfoUpdate):
        sessionUpdate: Literal["session_info_update"]

    class SessionUpdateUsageUpdate(UsageUpdate):
        sessionUpdate: Literal["usage_update"]

    class SessionUpdateNotice(Notice):
        sessionUpdate: Literal["notice"]

    class SessionUpdateCompactionUpdate(CompactionUpdate):
        sessionUpdate: Literal["compaction_update"]

    SessionUpdate = (
        SessionUpdateUserMessageChunk
        | SessionUpdateAgentMessageChunk
        | SessionUpdateAgentThoughtChunk
        | SessionUpdateToolCall
        | SessionUpdateToolCallUpdate
        | SessionUpdatePlan
        | SessionUpdateAvailableCommandsUpdate
        | SessionUpdateCurrentModeUpdate
        | SessionUpdateConfigOptionUpdate
        | SessionUpdateSessionInfoUpdate
        | SessionUpdateUsageUpdate
        | SessionUpdateNotice
        | SessionUpdateCompactionUpdate
    )

    class SessionNotification(TypedDict):
        sessionId: SessionId
        update: SessionUpdate

    PermissionOptionKind = Literal["allow_once", "allow_always", "reject_once", "reject_always"]
    PermissionOptionId = str

    class PermissionOption(TypedDict):
        kind: PermissionOptionKind
        name: str
        optionId: PermissionOptionId

    class RequestPermissionRequest(TypedDict):
        options: list[PermissionOption]
        sessionId: SessionId
        toolCall: ToolCallUpdate
