"""What a message can be made of: attachments, mentions, commands, skills, agents."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import Field

from oh_daemon.protocol.base import Contract
from oh_daemon.protocol.content import FileType, Part
from oh_daemon.protocol.messages import ConversationId


class AttachmentPutParams(Contract):
    """Upload an image or a PDF in pieces, to be used in a message; kept until the daemon exits."""

    attachment_id: str | None = None
    """Id from the answer to the first piece."""
    mime_type: FileType
    index: Annotated[int, Field(ge=0)]
    """Index of this piece; a piece may be sent again."""
    total: Annotated[int, Field(ge=1)]
    """Number of pieces."""
    data: Annotated[str, Field(min_length=1, max_length=-(-(512 << 10) // 3) * 4)]
    """Base64; at most 512 KiB once decoded."""
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None
    """Hash of the whole file, checked when the last piece has arrived."""


class AttachmentPutResult(Contract):
    attachment_id: str
    """What the other pieces, and then the message, give."""
    received: int
    """Number of pieces that have arrived."""
    complete: bool
    """Whether this was the last piece and the image fits its hash."""


class CommandListParams(Contract):
    """List the commands that a message can contain as a part of type `command`."""

    conversation_id: ConversationId | None = None
    """Those of its folders; by default those of the open folders."""


class CommandInfo(Contract):
    name: str
    """What the user writes after `/`."""
    description: str
    """What it does, for people."""
    argument_hint: str | None = None


class CommandListResult(Contract):
    commands: tuple[CommandInfo, ...]
    """All that the user can write."""


ContextKind = Literal[
    "file", "folder", "symbol", "conversation", "changes", "page", "command", "skill"
]


class ContextSearchParams(Contract):
    """Find what a message can mention, by a few letters of its name."""

    query: Annotated[str, Field(max_length=2000)]
    """Letters of the name, in order; or the address of a page."""
    kinds: tuple[ContextKind, ...] = get_args(ContextKind)
    """What to look for."""
    limit: Annotated[int, Field(ge=1, le=100)] = 20
    conversation_id: ConversationId | None = None
    """The conversation of the message: its folders are searched, and it is not itself found."""


class ContextItem(Contract):
    kind: ContextKind
    """What it is."""
    label: str
    """What to show first."""
    detail: str | None = None
    """What to show beside it, such as the folder."""
    part: Part
    """The part to put into the message."""


class ContextSearchResult(Contract):
    """Best match first."""

    items: tuple[ContextItem, ...]
    """What was found."""


SkillKind = Literal["agent", "keyword", "task", "path", "always"]
SkillSource = Literal["project", "user"]


class SkillListParams(Contract):
    """List the skills of the project and the user; one that is not used says why."""

    conversation_id: ConversationId | None = None
    """Those of its folders."""
    folder: str | None = None
    """List those of this folder instead; without both fields, those of the open folders."""


class SkillInfo(Contract):
    name: str
    """What a part of type `skill` names."""
    description: str
    """What it is about, as the model reads it."""
    kind: SkillKind
    """What activates it: the agent, a keyword, a user's command, a path; `always` needs nothing."""
    source: SkillSource
    """Whose it is."""
    path: str
    """The file that defines it."""
    argument_hint: str | None = None
    problem: str | None = None
    """Why it is not used."""


class SkillListResult(Contract):
    """Nearest folder first."""

    skills: tuple[SkillInfo, ...]
    """Those that are used, and those that are not."""


class AgentListParams(Contract):
    """List the agents to delegate to, for a conversation, a folder or the open folders."""

    conversation_id: ConversationId | None = None
    """Those for its folders."""
    folder: str | None = None
    """Those for this folder; without both fields, those for the open folders."""


class AgentSummary(Contract):
    name: str
    """What a task names."""
    description: str
    """What it is for."""
    source: Literal["builtin", "project", "user"]
    """Where it comes from."""
    path: str | None = None
    """The file that defines it."""


class AgentListResult(Contract):
    """Sorted by name; a project's agent replaces a user's agent of the same name."""

    agents: tuple[AgentSummary, ...]
    """All that a task can name."""
