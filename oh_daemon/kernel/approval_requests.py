"""Approval requests: an action's digest, the answers offered, the scope of an answer. Pure."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import PurePosixPath
from typing import Literal
from urllib.parse import unquote

from msgspec import Struct

from oh_daemon.common.hosts import Host
from oh_daemon.common.plain_text import clip_line, display_escaped, unknown_text
from oh_daemon.kernel.ports import Intent, Json
from oh_daemon.kernel.state import State
from oh_daemon.protocol import plain
from oh_daemon.protocol.approvals import Approval, ApprovalOption, Subject
from oh_daemon.protocol.errors import InvalidParamsError
from oh_daemon.protocol.forms import plain_form
from oh_daemon.protocol.items import Risk, Scope

MAX_ASKED_CHARS = 8000
"""The longest action that is put before a user as one text."""
RISK_ORDER: dict[Risk, int] = {"low": 0, "medium": 1, "high": 2, "unknown": 3}
EDITS = "edits"
"""The key under which a lasting "allow" of edits of any file is kept."""
_IDS: dict[Scope, str] = {"turn": "allow-once"}
"""Options that clients know by another id."""
Effect = Literal["allow", "ask", "reject"]
RUN_KINDS = {"hook": "hook", "skillCommand": "skill command", "server": "MCP server"}
"""What a trusted folder runs by itself, for people."""
_LASTS_AFTER_CHANGES = ", also after the agent changes what it runs"
_MAX_ROWS = 10
_MAX_CHARS = 200


class Ruling(Struct, frozen=True):
    """What rules or earlier answers say; `covers_high` says that it holds for high risk too."""

    effect: Effect
    rule: str
    covers_high: bool = False


def never_asks(options: Mapping[str, str]) -> bool:
    """Return whether the user wants no questions."""
    return options.get("mode") == "full" or options.get("approval") == "askNever"


def highest_risk(risk: Risk, self_rating: Risk | None) -> Risk:
    """Return the higher risk: the model may raise a rating, never lower it."""
    return max(risk, self_rating or "low", key=lambda each: RISK_ORDER[each])


def key_of(subject: Subject) -> str:
    """Return the key under which a lasting "allow" of this subject is kept."""
    return grant_key(plain_form(subject))


def grant_key(subject: plain.Subject) -> str:
    """Name what a lasting "allow" covers: this command here, this file, this tool call.

    A command is covered with the content of the files that it runs. Only where it may run others,
    the files do not count, as the label of the option says.
    """
    match subject["kind"]:
        case "command":
            files = [[file["uri"], file["sha256"]] for file in subject.get("files", ())]
            bound_to = "anything" if subject.get("runsOtherFiles") else files
            place = ["outside"] if "outside" in subject else []
            parts = [subject["command"], subject["cwd"], *([bound_to] if bound_to else []), *place]
            key_parts: object = parts
        case "fileChange":
            git = [[row["repository"], row.get("ref")] for row in subject.get("git", ())]
            key_parts = [*(change["uri"] for change in subject["changes"]), *git]
        case "saveDocuments":
            key_parts = []
        case "host":
            place = str(Host(subject["host"], subject["port"]))
            key_parts = subject.get("hosts") or [place, subject.get("isPrivate", False)]
        case _:
            key_parts = {key: value for key, value in subject.items() if key != "kind"}
    return f"{subject['kind']} {json.dumps(key_parts, sort_keys=True, ensure_ascii=False)}"


def changed_files(subject: Subject, grants: Iterable[str]) -> Sequence[str]:
    """Return the names of a command's files that differ from those of its earlier grants."""
    if subject.kind != "command" or not subject.files:
        return ()
    key = key_of(subject.model_copy(update={"files": None, "runs_other_files": None}))
    earlier = "".join(grant for grant in grants if grant.startswith(f"{key[:-1]}, ["))
    return [
        PurePosixPath(unquote(file.uri)).name
        for file in subject.files
        if earlier and file.sha256 not in earlier
    ]


def is_edit(subject: Subject) -> bool:
    """Return whether the agent edits files itself; what a command changed is no edit."""
    return subject.kind == "fileChange" and subject.origin is None


def whole_text(subject: plain.Subject) -> str:
    """Return all of what waits for approval: command, patches, arguments, what would run."""
    match subject["kind"]:
        case "command":
            return subject["command"]
        case "fileChange":
            titles = [change["title"] for change in subject.get("git", ())]
            patches = [change.get("patch", "") for change in subject["changes"]]
            return "\n".join((*titles, *patches))
        case "tool":
            return json.dumps(subject["args"], ensure_ascii=False, indent=1)
        case "trust":
            return _listing(subject)
        case "host":
            place = str(Host(subject["host"], subject["port"]))
            return "\n".join(subject.get("hosts") or [place])
        case "path" | "saveDocuments":
            return ""
    return unknown_text(subject["kind"])


def before_user(approval: plain.Approval) -> tuple[str | None, Sequence[plain.ApprovalOption]]:
    """Return the whole text of an action, and the answers for who is shown no more than that.

    Nobody may allow what they cannot see: what is too long has no text, and can only be rejected.
    """
    text = display_escaped(whole_text(approval["subject"]))
    if len(text) <= MAX_ASKED_CHARS:
        return text, approval["options"]
    return None, [option for option in approval["options"] if option["effect"] == "reject"]


def _listing(subject: plain.TrustSubject) -> str:
    """Return a line for each: its kind, its command and its file; of many, only the first."""
    runs = subject.get("runs", ())
    n_more = len(runs) - _MAX_ROWS
    return "\n".join(
        [*islice(_listing_rows(subject), _MAX_ROWS), *([f"… and {n_more} more"] * (n_more > 0))]
    )


def _listing_rows(subject: plain.TrustSubject) -> Iterator[str]:
    for run in subject.get("runs", ()):
        file = unquote(run["uri"].removeprefix(f"{subject['folder']}/").removeprefix("file://"))
        command = clip_line(run["command"], _MAX_CHARS)
        yield f"{RUN_KINDS.get(run['kind'], run['kind'])}: {command} ({file})"


def require_editable(approval: plain.Approval, subject: Subject) -> None:
    """Raises `InvalidParamsError` if `subject` differs from what was shown where it may not."""
    new_form, shown_form = plain_form(subject), approval["subject"]
    part = editable_part(shown_form)
    if approval.get("editable") and part and {**new_form, **part} == shown_form:
        hunks = editable_part(new_form).get("hunks")
        if "hunks" not in part or (hunks and all(hunk in part["hunks"] for hunk in hunks)):
            return
    what = (
        "only the command can be changed, or hunks of an edit be left out;"
        " reject it to leave out all"
    )
    raise InvalidParamsError.at("editedSubject", what, "not_editable")


def editable_part(subject: plain.Subject) -> Json:
    """Return the part that the user may change, under the name of the tool's argument, if any."""
    match subject["kind"]:
        case "command":
            return {"command": subject["command"]}
        case "fileChange":
            return {"hunks": subject.get("hunks")}
        case _:
            return {}


def new_approval(
    state: State,
    now: str,
    item_id: str,
    intent: Intent,
    options: tuple[ApprovalOption, ...],
    description: str | None = None,
) -> Approval:
    """Return the request for approval of what an item, such as an action, is about to do."""
    return Approval(
        id=uuid.uuid4().hex,
        digest=intent.digest,
        conversation_id=state.conversation_id,
        turn_id=state.turn_id or "",
        item_id=item_id,
        title=intent.title,
        description=description,
        subject=intent.subject,
        risk=intent.risk,
        reason="; ".join(intent.reasons) or None,
        options=options,
        editable=intent.editable,
        created_at=now,
    )


def approval_options(
    subject: Subject, risk: Risk, *, floor: bool, has_marks: bool = False
) -> tuple[ApprovalOption, ...]:
    """Return a person's possible answers, narrowest first; none allows high risk for good.

    `has_marks`: an MCP server marks the tool as read-only, and the user may trust its marks.
    """
    allow: list[tuple[Scope, str]] = [("once", "Allow once")]
    what, may_last = _covered_text(subject), not floor and risk in {"low", "medium"}
    if subject.kind == "host":
        # What serves a service lasts as long as the sandbox.
        is_service = Host(subject.host, subject.port).is_service
        allow = [] if is_service else [("turn", "Allow for this turn")]
    if not floor:
        allow.append(("conversation", f"Allow {what} in this conversation"))
    if may_last and is_edit(subject):
        allow.append(("edits", "Allow edits of any file in this conversation"))
    if may_last and subject.kind != "saveDocuments":
        allow.append(("folder", f"Always allow {what} in this folder"))
    if may_last and has_marks:
        allow.append(("server", "Trust this server's read-only marks"))
    if subject.kind == "trust":
        allow = [("conversation", "Trust for now"), ("folder", "Trust this folder")]
        if subject.is_trusted:
            allow = [("conversation", "Allow for now"), ("folder", "Allow from now on")]
    suffix = _LASTS_AFTER_CHANGES if _lasts_after_changes(subject) else ""
    options = [
        ApprovalOption(
            id=_IDS.get(scope, f"allow-{scope}"),
            label=label if scope == "once" else label + suffix,
            effect="allow",
            scope=scope,
        )
        for scope, label in allow
    ]
    return (*options, ApprovalOption(id="reject", label="Reject", effect="reject", scope="once"))


def _lasts_after_changes(subject: Subject) -> bool:
    """Return whether a lasting "allow" covers programs that the agent can change unseen."""
    if subject.kind == "command":
        return subject.runs_other_files is True
    runs = subject.runs if subject.kind == "trust" else None
    return any(run.runs_other_files for run in runs or ())


def _covered_text(subject: Subject) -> str:
    """Say what a lasting "allow" of the subject covers, as `grant_key` does."""
    match subject.kind:
        case "command":
            return "this command"
        case "fileChange":
            n = len(subject.changes)
            files = "this file" if n == 1 else f"these {n} files"
            if subject.git:
                files += " and branch" if len(subject.git) == 1 else " and branches"
            return f"{'edits' if is_edit(subject) else 'changes'} of {files}"
        case "tool":
            return "exactly this"
        case "host":
            return "these hosts" if subject.hosts else "this host"
        case "saveDocuments":
            return "saving files"
        case "path" | "trust":
            return "this"
