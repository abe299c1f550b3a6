"""An action that waits for approval: what it would do, how risky it is, the possible answers."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from oh_daemon.contract.base import Contract
from oh_daemon.contract.items import FileChange, GitChange, NamedHunk, Risk, Scope

RuleCode = Literal[
    "askAlways", "autoEdit", "edited", "gate", "hook", "lowRisk", "neverAsks", "outsideSandbox",
    "planMode", "protectedPlace", "risk", "ruling", "sandbox", "touchesNothing",
]  # fmt: skip
"""What decides about an action; `ruling` is a rule of the user, an earlier answer, or a hook."""


class CommandSubject(Contract):
    kind: Literal["command"] = "command"
    command: str
    cwd: str
    outside: str | None = None
    """Set if it runs outside the sandbox: the reason that the agent gives."""


class FileChangeSubject(Contract):
    kind: Literal["fileChange"] = "fileChange"
    changes: tuple[FileChange, ...]
    hunks: tuple[NamedHunk, ...] | None = None
    """If `editable`, all hunks of the edit. An `editedSubject` has those that the user keeps."""
    origin: Literal["command"] | None = None
    """Set if a command made the changes, in its view; what is asked is whether they are kept."""
    git: tuple[GitChange, ...] | None = None
    """What the command did to repositories: it is kept with all of the changes, or not at all."""


class ToolSubject(Contract):
    kind: Literal["tool"] = "tool"
    tool: str
    args: dict[str, Any]
    definition: str | None = None
    """Hash of an MCP tool's description; the user is asked again when it changes."""


class PathSubject(Contract):
    kind: Literal["path"] = "path"
    uri: str
    access: Literal["read", "write"]


class SelfRun(Contract):
    """Something that a trusted folder runs without asking."""

    kind: Literal["hook", "skillCommand", "server"]
    command: str
    """What is run, or the address of a server that runs already; cut if it is very long."""
    uri: str
    """The file that names it."""
    sha256: str
    """Hash of all of it, also of the folder's files that the command names."""


class TrustSubject(Contract):
    """A folder that is not trusted yet or, if `isTrusted`, what is new in one that is."""

    kind: Literal["trust"] = "trust"
    folder: str
    runs: tuple[SelfRun, ...] | None = None
    """What will run without asking. Only this is decided: what is changed later asks again."""
    is_trusted: bool | None = None


class SaveDocumentsSubject(Contract):
    """Buffers that the agent edited; a command does not see the edits until they are saved."""

    kind: Literal["saveDocuments"] = "saveDocuments"
    uris: tuple[str, ...]


class HostSubject(Contract):
    """A host that programs in the sandbox may connect to, or a group of hosts."""

    kind: Literal["host"] = "host"
    host: str
    """Its name or address."""
    port: int
    is_private: bool | None = None
    """Set if its addresses lie in a private network; an answer for a public host says nothing."""
    group: str | None = None
    """What the hosts of the group are, if the answer is for all of them."""
    hosts: tuple[str, ...] | None = None
    """The hosts of the group, with the port if it is not one of the web's."""


Subject = Annotated[
    CommandSubject
    | FileChangeSubject
    | ToolSubject
    | PathSubject
    | TrustSubject
    | SaveDocumentsSubject
    | HostSubject,
    Field(discriminator="kind"),
]


class ApprovalOption(Contract):
    id: str
    label: str
    effect: Literal["allow", "reject"]
    scope: Scope


class Approval(Contract):
    """An action held until the user decides, across restarts. `digest` covers all that is shown."""

    id: str
    digest: str
    conversation_id: str
    turn_id: str
    item_id: str
    title: str
    """The exact command or file, with hidden characters escaped; the model does not write it."""
    description: str | None = None
    subject: Subject
    risk: Risk
    reason: str | None = None
    options: tuple[ApprovalOption, ...]
    editable: bool = False
    created_at: str


InputAction = Literal["accept", "decline", "cancel"]


class InputRequest(Contract):
    """A question of the agent, kept until the user answers. The model wrote it: untrusted."""

    id: str
    conversation_id: str
    turn_id: str
    item_id: str
    kind: Literal["text", "choice"]
    prompt: str
    choices: tuple[str, ...] | None = None
    """Suggested answers for kind `choice`; the user may answer with any other text too."""
    created_at: str


Answer = Annotated[str, Field(max_length=1 << 16)]


class InputAnswer(Contract):
    """Without an action, nothing is decided: the question stays open."""

    action: InputAction | None = None
    content: Answer | None = None
    """The text or the chosen answer; required to accept."""


class InputRequestParams(InputRequest):
    """Ask the user a question; `inputRequests`, else `window/showMessageRequest` for choices."""


class InputRespondParams(Contract):
    """Answer a question of the agent; the first answer wins."""

    input_id: str
    action: InputAction
    content: Answer | None = None
    """The text or the chosen answer; required to accept."""


class RespondResult(Contract):
    """Whether this answer to an approval or a question took effect, or which one came first."""

    resolved: bool
    already_resolved: dict[str, Any] | None = None
    needs_resume: bool | None = None
    """The work is paused, and goes on only with `conversation/resume`."""
