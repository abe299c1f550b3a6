"""An action that waits for approval, or a question: what is asked, the answers, the events."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from oh_daemon.protocol.base import Contract
from oh_daemon.protocol.items import FileChange, GitChange, NamedHunk, Risk, Scope

RuleCode = Literal[
    "askAlways", "autoEdit", "edited", "gate", "hook", "lowRisk", "neverAsks", "outsideSandbox",
    "planMode", "protectedPlace", "risk", "ruling", "sandbox", "touchesNothing",
]  # fmt: skip
"""What decides about an action; `ruling` is a rule of the user, an earlier answer, or a hook."""


class ProgramFile(Contract):
    """A file that a command runs: a program, or the script of an interpreter."""

    uri: str
    sha256: str
    """Hash of its content now."""


class CommandSubject(Contract):
    kind: Literal["command"] = "command"
    command: str
    cwd: str
    outside: str | None = None
    """Set if it runs outside the sandbox: the reason that the agent gives."""
    files: tuple[ProgramFile, ...] | None = None
    """The files that the command names and runs; when one changes, a lasting approval ends."""
    runs_other_files: bool | None = None
    """Set if it may run files that it does not name, as `make` does.

    A lasting approval of such a command also holds after the agent changed what it runs, and the
    labels of the options say so."""


class FileChangeSubject(Contract):
    kind: Literal["fileChange"] = "fileChange"
    changes: tuple[FileChange, ...]
    """What would change, each file with its diff."""
    hunks: tuple[NamedHunk, ...] | None = None
    """If `editable`, all hunks of the edit. An `editedSubject` has those that the user keeps."""
    origin: Literal["command"] | None = None
    """Set if a command made the changes, in its sandbox; what is asked is whether they are kept."""
    git: tuple[GitChange, ...] | None = None
    """What the command did to repositories: it is kept with all of the changes, or not at all."""


class ToolSubject(Contract):
    kind: Literal["tool"] = "tool"
    tool: str
    """Name of the tool, as the model calls it."""
    args: dict[str, Any]
    """The arguments that the model gave."""
    definition: str | None = None
    """Hash of an MCP tool's description; the user is asked again when it changes."""


class PathSubject(Contract):
    kind: Literal["path"] = "path"
    uri: str
    access: Literal["read", "write"]
    """What the action would do there."""


class ProjectProgram(Contract):
    """Something that a trusted folder runs without asking."""

    kind: Literal["hook", "skillCommand", "server"]
    """What it is: a hook, a command of a skill, an MCP server."""
    command: str
    """What is run, or the address of a server that runs already; cut if it is very long."""
    uri: str
    """The file that names it."""
    sha256: str
    """Hash of all of it, also of the files that the command names and runs."""
    runs_other_files: bool | None = None
    """Set if it may run files that it does not name, as `make` does, outside a sandbox.

    The labels of the options say that the answer also holds after the agent changed those files."""


class TrustSubject(Contract):
    """A folder that is not trusted yet or, if `isTrusted`, what is new in one that is."""

    kind: Literal["trust"] = "trust"
    folder: str
    """URI of the folder."""
    runs: tuple[ProjectProgram, ...] | None = None
    """What will run without asking. Only this is decided: what is changed later asks again."""
    is_trusted: bool | None = None
    """Set if the folder is trusted, and only `runs` is asked about."""


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
    """The port of the connection."""
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
    """What an answer gives as `optionId`."""
    label: str
    effect: Literal["allow", "reject"]
    """Whether the action runs."""
    scope: Scope
    """For how long, and for what else, the answer counts."""


class Approval(Contract):
    """An action held until the user decides, across restarts. `digest` covers all that is shown."""

    id: str
    """What an answer gives as `approvalId`; it stays the same across restarts."""
    digest: str
    conversation_id: str
    turn_id: str
    item_id: str
    """Id of the item that waits for the answer."""
    title: str
    """The exact command or file, with hidden characters escaped; the model does not write it."""
    description: str | None = None
    """The model's own summary; untrusted."""
    subject: Subject
    """What would be done."""
    risk: Risk
    reason: str | None = None
    """Why it is asked about, for people."""
    options: tuple[ApprovalOption, ...]
    """The possible answers."""
    editable: bool = False
    """Whether an answer may have an `editedSubject`."""
    created_at: str


InputAction = Literal["accept", "decline", "cancel"]


class InputRequest(Contract):
    """A question of the agent, kept until the user answers. The model wrote it: untrusted."""

    id: str
    """What an answer gives as `inputId`; it stays the same across restarts."""
    conversation_id: str
    turn_id: str
    item_id: str
    kind: Literal["text", "choice"]
    """Whether there are `choices`."""
    prompt: str
    """The question; the model wrote it."""
    choices: tuple[str, ...] | None = None
    """Suggested answers for kind `choice`; the user may answer with any other text too."""
    created_at: str


Answer = Annotated[str, Field(max_length=1 << 16)]


class InputAnswer(Contract):
    """Without an action, nothing is decided: the question stays open."""

    action: InputAction | None = None
    """`accept` answers, `decline` does not want to, `cancel` closes the question."""
    content: Answer | None = None
    """The text or the chosen answer; required to accept."""


class InputRequestParams(InputRequest):
    """Ask the user a question; `inputRequests`, else `window/showMessageRequest` for choices."""


class InputRespondParams(Contract):
    """Answer a question of the agent; the first answer wins."""

    input_id: str
    """Id of the question."""
    action: InputAction
    """`accept` answers, `decline` does not want to, `cancel` closes the question."""
    content: Answer | None = None
    """The text or the chosen answer; required to accept."""


class ApprovalRequested(Contract):
    """An action is held until the user decides."""

    type: Literal["approval.requested"] = "approval.requested"
    approval: Approval


class Decision(Contract):
    effect: Literal["allow", "reject"]
    """Whether it runs."""
    scope: Scope = "once"
    """For how long, and for what else, that counts."""


class ApprovalResolved(Contract):
    """An approval was decided, and by whom; `editedSubject` is what runs instead."""

    type: Literal["approval.resolved"] = "approval.resolved"
    approval_id: str
    """Id of the approval."""
    decision: Decision
    """What was decided."""
    by: Literal["user", "policy", "superseded", "interrupted", "noClient", "changed"]
    """Who or what decided: the user, a new rule, a message, an interrupt, nobody to ask, a
    change."""
    feedback: str | None = None
    edited_subject: Subject | None = None


class InputRequested(Contract):
    """The agent asks the user something and waits."""

    type: Literal["input.requested"] = "input.requested"
    input: InputRequest


class InputResolved(Contract):
    """A question was answered, by a `message` if the user typed into the chat instead."""

    type: Literal["input.resolved"] = "input.resolved"
    input_id: str
    """Id of the question."""
    action: InputAction
    """How it was answered."""
    content: str | None = None
    """The answer."""
    by: Literal["user", "message", "interrupted", "changed"]
    """Who or what answered."""


class ActionDecided(Contract):
    """An action was allowed or rejected without asking: the rule, and the action's digest."""

    type: Literal["action.decided"] = "action.decided"
    effect: Literal["allow", "reject"]
    """Whether it runs."""
    code: RuleCode | None = None
    """Which rule it was; `rule` says it to people."""
    rule: str
    """The rule in words."""
    risk: Risk
    reasons: tuple[str, ...] = ()
    """Why the risk is rated so."""
    digest: str


class EarlierAnswer(Contract):
    """The answer that counts."""

    by: Literal["user", "policy", "message", "superseded", "interrupted", "noClient", "changed"]
    """Who or what answered."""
    decision: Decision | None = None
    """Of an approval: what was decided."""
    action: InputAction | None = None
    """Of a question: how it was answered."""


class RespondResult(Contract):
    """Whether this answer to an approval or a question took effect, or which one came first."""

    resolved: bool
    """Whether this answer is the one that counts."""
    already_resolved: EarlierAnswer | None = None
    """If not: the answer that is."""
    needs_resume: bool | None = None
    """The work is paused, and goes on only with `conversation/resume`."""
