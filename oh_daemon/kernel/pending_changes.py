"""What commands changed in their view, on its way into the open folders.

The item of a command stays open until its changes have landed or were refused. What waits is in the
log, with the texts as blobs, so it outlives the view and the daemon.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from oh_daemon.kernel.approval_requests import approval_options, never_asks, new_approval
from oh_daemon.kernel.journal import Journal, new_id
from oh_daemon.kernel.ports import Intent, Json, Tool, ToolResult
from oh_daemon.kernel.state import Decided
from oh_daemon.protocol import events as e
from oh_daemon.protocol import plain
from oh_daemon.protocol.approvals import ActionDecided, FileChangeSubject
from oh_daemon.protocol.checkpoints import LandingPlanned
from oh_daemon.protocol.errors import ToolError
from oh_daemon.protocol.forms import observed_by
from oh_daemon.protocol.items import FileChange, FileChangeItem, GitChange, ModelCall, NoticeItem

TOOL = "landing"
"""The name by which rules can mean the changes of commands."""
CACHES = frozenset(
    """__pycache__ .pytest_cache .mypy_cache .ruff_cache .hypothesis .tox .nox .eslintcache
    .parcel-cache .turbo""".split()  # noqa: SIM905
)
"""Names of what programs make again at need: they are ignored everywhere, and never land."""
Keep = Callable[[LandingPlanned], bool]
"""Makes a plan durable; returns False when nobody wants the changes any more."""


@dataclass(frozen=True, slots=True)
class LeftInside:
    """A folder or a file that git ignores, and that differs in the view."""

    uri: str
    name: str
    n_files: int
    op: Literal["add", "modify", "delete"]
    is_folder: bool
    protected: str | None
    """Why it is asked about in any case, if it is."""

    @property
    def title(self) -> str:
        if self.op == "delete":
            return f"the deletion of {self.name}"
        files = "1 file" if self.n_files == 1 else f"{self.n_files:,} files"
        return f"{self.name} ({files})" if self.is_folder else self.name

    @property
    def question(self) -> str:
        return f"Keep {self.title}{'' if self.op == 'delete' else ' in the project'}?"


class Landings(Protocol):
    """Brings what commands changed into the open folders. Blocks; for the worker's threads."""

    def collect(self, observed: Json, keep: Keep) -> bool:
        """Take what has changed out of the view, once `keep` has made it durable.

        `observed` is the item as the command alone would end it. Returns whether there is something
        to land: not while another command runs in front, whose end will collect both, and not as
        long as `keep` returns False, after which the changes are gone.
        """
        ...

    @property
    def has_news(self) -> bool:
        """Whether a job has ended since changes were collected, and they can be collected now."""
        ...

    def collect_rest(self, observed: Json, keep: Keep, *, ends_turn: bool) -> bool:
        """Do the same for what no command's end collects, such as the changes of a job.

        Unless the turn ends, that is nothing as long as no job has ended.
        """
        ...

    def left_inside(self) -> Sequence[LeftInside]:
        """Return what git ignores and the view has otherwise, as `collect_rest` found it."""
        ...

    def keep_whole(self, uri: str) -> None:
        """Give the disk what the view has there. Raises `ToolError` and `OSError`."""
        ...

    def drop(self) -> None:
        """Take all that has changed out of the view, for good."""
        ...

    def tool(self, landing: plain.LandingPlanned, *, asks: bool) -> Tool:
        """Return what lands these changes; if nobody is asked, it leaves out protected files."""
        ...


def own_item(item_id: str, now: str) -> FileChangeItem:
    """Return the item of a landing that belongs to no command; the model did not call it."""
    return FileChangeItem(
        id=item_id,
        status="pending",
        started_at=now,
        tool=TOOL,
        tool_kind="edit",
        title="Keep what was changed in the background",
        origin="command",
        call=ModelCall(id=item_id, name=TOOL, arguments="{}", batch=item_id),
    )


def is_own(item: plain.Item) -> bool:
    """Return whether the item is such a landing."""
    return item["kind"] == "fileChange" and item.get("origin") is not None


OBSERVED: Json = {
    "content": ({"type": "text", "text": "Programs in the background changed files."},)
}
"""What stands in for a command's output there."""


BEGUN = "begun"
"""Stands in for a digest: a landing that was allowed and began is finished, whatever is left."""


def begun(intent: Intent) -> ActionDecided:
    return ActionDecided(
        effect="allow", rule="it was allowed, and began", risk=intent.risk, digest=BEGUN
    )


def ended_with(
    landing: plain.LandingPlanned,
    report: str,
    changes: Sequence[FileChange],
    git: Sequence[GitChange] = (),
) -> ToolResult:
    """Return the observation of the command, followed by what became of its changes."""
    fields = observed_by(landing)
    content = fields.pop("content", ())
    if report:
        content = (*content, {"type": "text", "text": report})
    if changes:
        fields["changes"] = changes
    if git:
        fields["git"] = git
    return ToolResult(tuple(content), item_fields=fields)


def without_landing(
    landing: plain.LandingPlanned, why: str, changes: Sequence[FileChange] = ()
) -> ToolResult:
    """Return the observation of a command that lands nothing, or nothing but `changes`."""
    landed = {change.uri for change in changes}
    titles = [row["title"] for each in landing.get("git", ()) for row in each.get("shown", ())]
    left = [change["uri"] for change in landing["changes"] if change["uri"] not in landed]
    told = f"[not kept: {_names([*titles, *map(_name, left)])}] {why}"
    told += " The files are as before the command."
    if landed:
        told += f"\n[changed files, all the same] {_names([*map(_name, landed)])}"
    return ended_with(landing, told, changes)


_MAX_NAMED = 20


def _names(names: Sequence[str]) -> str:
    more = len(names) - _MAX_NAMED
    first = ", ".join(names[:_MAX_NAMED])
    return f"{first} and {more} more" if more > 0 else first


def _name(uri: str) -> str:
    return uri.rpartition("/")[2]


_GONE = "the sandbox that had it has ended; run the command again"


class Offers:
    """One per conversation; only its worker calls it."""

    def __init__(
        self, journal: Journal, landings: Landings | None, can_ask: Callable[[], bool]
    ) -> None:
        self._journal = journal
        self._landings = landings
        self._can_ask = can_ask
        self._offers = set[str]()
        """The URIs of what was offered or refused."""

    @property
    def are_answered(self) -> bool:
        return bool(self._journal.state.answered_offers())

    def make(self) -> None:
        """Keep or offer what only the view has; call it when a turn ends."""
        options = self._journal.state.options_now
        if self._landings is None or options["mode"] == "plan":
            return
        is_silent = never_asks(options) or options["mode"] == "autoEdit"
        for leftover in self._landings.left_inside():
            name = leftover.name.rpartition("/")[2]
            if leftover.uri in self._offers or name in CACHES:
                continue
            if is_silent and leftover.protected is None:
                title, description = self._keep(leftover.uri, leftover.title)
                self._say(NoticeItem(id=new_id(), title=title, description=description))
                continue
            self._offers.add(leftover.uri)
            if is_silent:
                self._say(_refusal(leftover))
            elif leftover.is_folder:
                self._ask(leftover)

    def settle(self) -> None:
        """Act on the answers that have come."""
        journal = self._journal
        with journal.changed:
            answered = journal.state.answered_offers()
        for item_id, decided in answered.items():
            offered = journal.state.item(item_id).get("title", "")
            title, description = f"Not kept: {offered}", "It stays in the sandbox."
            if decided.effect == "allow":
                title, description = self._keep(_uri_of(decided), offered)
            notice = NoticeItem(id=new_id(), title=title, description=description)
            self._say(notice.model_copy(update={"settles": item_id}))

    def _keep(self, uri: str, title: str) -> tuple[str, str | None]:
        if self._landings is None:
            return f"Not kept: {title}", _GONE
        try:
            self._landings.keep_whole(uri)
        except FileNotFoundError:
            return f"Not kept: {title}", _GONE
        except (ToolError, OSError) as exc:
            self._offers.add(uri)
            return f"Not kept: {title}", str(exc)
        self._offers.discard(uri)
        return f"Kept: {title}", None

    def _say(self, notice: NoticeItem) -> None:
        self._journal.append(e.ItemCompleted(item=notice))

    def _ask(self, leftover: LeftInside) -> None:
        journal = self._journal
        notice = NoticeItem(
            id=new_id(),
            title=leftover.title,
            description="Only the sandbox has it; git ignores it.",
        )
        if not self._can_ask():
            self._say(notice)
            return
        change = FileChange(uri=leftover.uri, op=leftover.op, added=0, removed=0, raw="folder")
        subject = FileChangeSubject(changes=(change,), origin="command")
        intent = Intent(
            leftover.question,
            subject,
            risk="medium" if leftover.protected is None else "high",
            reasons=() if leftover.protected is None else (leftover.protected,),
            digest_material=(notice.id,),
        )
        options = approval_options(subject, "medium", floor=True)
        approval = new_approval(journal.state, journal.clock.now(), notice.id, intent, options)
        asked = e.ApprovalRequested(approval=approval)
        journal.append(e.ItemCompleted(item=notice), asked)


def _uri_of(decided: Decided) -> str:
    subject = decided.approval and decided.approval["subject"]
    return subject["changes"][0]["uri"] if subject and subject["kind"] == "fileChange" else ""


def _refusal(left: LeftInside) -> NoticeItem:
    title = f"Not kept: {left.title}"
    return NoticeItem(id=new_id(), severity="warning", title=title, description=left.protected)
