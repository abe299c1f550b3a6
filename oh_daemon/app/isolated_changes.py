"""What an isolated conversation changed: the user reviews it, and lands or discards it.

Changes land as those of commands do. What has landed is then as on the disk, for the agent too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Literal, cast

from oh_daemon.contract import daemon_messages as m
from oh_daemon.contract import plain
from oh_daemon.contract.checkpoints import LandingPlanned
from oh_daemon.contract.errors import ConversationBusyError, InvalidParamsError, ToolError
from oh_daemon.contract.events import ChangesReviewed, ItemCompleted
from oh_daemon.contract.git import RepositoryLanding
from oh_daemon.contract.items import FileChange, Hunk, NoticeItem
from oh_daemon.contract.messages import Conflict
from oh_daemon.core.cancel import CancelToken
from oh_daemon.core.conversation import Conversation
from oh_daemon.core.delivery import BUSY
from oh_daemon.core.editor_ports import TextEdit
from oh_daemon.core.journal import new_id
from oh_daemon.core.ports import ToolContext
from oh_daemon.sandbox.apart import Keep, Waiting
from oh_daemon.tools.landing import LandingTool
from oh_daemon.tools.landing_texts import plan_text
from oh_daemon.tools.language import Watch
from oh_daemon.workspace.documents import Documents
from oh_daemon.workspace.paths import uri_from_path
from oh_daemon.workspace.review import Rewrite, hunks_of
from oh_daemon.workspace.text_changes import applied, with_newlines

_MAX_NAMED = 20
_CLASH = "the same lines were changed outside; change them there first, or discard these"
_UNFIT = "it does not fit what is on the disk now"
_LANDED = "The user landed your changes: the workspace has them now. Landed: {}."
_DISCARDED = "The user discarded your changes; these are as on the disk again: {}."


@dataclass(frozen=True)
class _Change:
    """What waits at one path."""

    path: Path
    change: FileChange
    base: str
    now: str
    """Both texts have LF line ends, and are empty if the file is none or not text."""

    @cached_property
    def hunks(self) -> dict[Hunk, TextEdit]:
        if self.change.raw is not None:
            return {}
        return hunks_of(self.base, self.now)

    def with_hunks(self, taken: Collection[Hunk]) -> str:
        return applied(self.base, [edit for hunk, edit in self.hunks.items() if hunk in taken])


@dataclass(frozen=True, slots=True)
class IsolatedChanges:
    """Blocks. Safe from any thread while no turn is under way."""

    keep: Keep
    conversation: Conversation
    disk: Documents
    own: Documents
    """The same folders as the conversation has them."""
    watch: Watch
    land_git: Callable[[Sequence[RepositoryLanding]], None]
    """See `LandingTool`."""

    def list(self, *, with_patches: bool = False) -> m.ChangesListResult:
        waiting = self.keep.waiting(self.disk)
        left_out = {"form"} if with_patches else {"form", "patch"}
        files = [self._reviewed(change, left_out) for change in self._changes(waiting.changes)]
        left = {self._uri(path): why for path, why in waiting.left_out.items()}
        notes = "\n".join(waiting.git.notes)
        left |= {self._uri(top): notes for top in waiting.git_names if notes}
        git = tuple(shown for each in waiting.git.landings for shown in each.shown)
        return m.ChangesListResult(files=tuple(files), left_out=left or None, git=git or None)

    def diff(self, uri: str) -> m.ChangesDiffResult:
        found = self._by_uri(self.keep.waiting(self.disk)).get(uri)
        if found is None:
            raise InvalidParamsError.at("uri", "the agent did not change that; see changes/list")
        is_text = found.change.raw is None
        described = self._described(found)
        return m.ChangesDiffResult(
            old_text=found.base if is_text and found.change.sha256_before else None,
            new_text=found.now if is_text and found.change.sha256_after else None,
            patch=described.patch or "",
            hunks=tuple(found.hunks),
        )

    def land(self, params: m.ReviewParams) -> m.ReviewResult:
        """Land whole files, hunks, or all; what is protected lands only if it is named."""
        self._require_rest()
        waiting = self.keep.waiting(self.disk)
        changes = self._by_uri(waiting)
        tops = self._repositories(waiting)
        chosen, conflicts = _chosen(changes, params, tops)
        parts = {uri: self._part(changes[uri], hunks) for uri, hunks in chosen.items()}
        clashes = {uri: why for uri, each in parts.items() if (why := self._clash(each))}
        wanted = [each for uri, each in parts.items() if uri not in clashes]
        conflicts |= clashes
        done, reasons = self._landed(wanted, asks=bool(params.uris or params.hunks))
        conflicts |= reasons
        settled: list[Path] = []
        for uri in done:
            found, hunks = changes[uri], chosen[uri]
            if self._is_whole(found, hunks):
                settled.append(found.path)
            else:
                self.keep.rebase(found.path, found.with_hunks(hunks))
        self.keep.settle(settled, self.disk)
        landed: Collection[str] = ()
        if waiting.git.landings and (_is_all(params) or not tops.isdisjoint(params.uris)):
            left = [path for path in (*waiting.changes, *waiting.left_out) if path not in settled]
            why_not = self._landed_git(waiting, left, asks=not _is_all(params))
            shown = _shown(waiting)
            landed = () if why_not else shown
            conflicts |= dict.fromkeys(shown, why_not) if why_not else {}
        return self._told("accepted", [changes[uri] for uri in done], conflicts, landed)

    def discard(self, params: m.ReviewParams) -> m.ReviewResult:
        """Let the conversation have what the disk has, of whole files, hunks, or all."""
        self._require_rest()
        waiting = self.keep.waiting(self.disk)
        changes = self._by_uri(waiting)
        left = {self._uri(path): path for path in waiting.left_out}
        tops = self._repositories(waiting)
        chosen, conflicts = _chosen(changes, params, tops)
        is_all = _is_all(params)
        also = [path for uri, path in left.items() if is_all or uri in params.uris]
        conflicts = {uri: why for uri, why in conflicts.items() if uri not in left}
        settled: list[Path] = list(also)
        for uri, hunks in chosen.items():
            found = changes[uri]
            if self._is_whole(found, hunks):
                settled.append(found.path)
                continue
            kept = found.with_hunks([hunk for hunk in found.hunks if hunk not in hunks])
            change = Rewrite(found.now, kept)
            self.own.restore(found.path, change, label="Discard", cancel=CancelToken())
        self.keep.settle(settled, self.disk)
        gone = tops if is_all or not tops.isdisjoint(params.uris) else frozenset[str]()
        if gone:
            self.keep.take_out(waiting.git_names)
        return self._told("reverted", [changes[uri] for uri in chosen], conflicts, gone)

    def tool(self, landing: plain.LandingPlanned, *, asks: bool) -> LandingTool:
        """Return what lands such changes on the disk."""
        return LandingTool(self.disk, self.watch, landing, self.land_git, asks=asks)

    def _by_uri(self, waiting: Waiting) -> dict[str, _Change]:
        return {each.change.uri: each for each in self._changes(waiting.changes)}

    def _repositories(self, waiting: Waiting) -> frozenset[str]:
        """Return the URIs by which people can mean what git did."""
        return frozenset((*_shown(waiting), *map(self._uri, waiting.git_names)))

    def _landed_git(self, waiting: Waiting, left: Sequence[Path], *, asks: bool) -> str | None:
        """Land commits and the like, if all files have landed whole; return why not."""
        if left:
            more = f" and {len(left) - 1} more" if len(left) > 1 else ""
            return f"{self.disk.folders.name(left[0])}{more} did not land"
        tool = self.tool(_landing((), waiting.git.landings), asks=asks)
        if tool.protected and not asks:
            return f"{tool.protected[0]} in it is protected; name the repository to land it"
        why_not = tool.land_git()
        if why_not is None:
            self.keep.take_out(waiting.git.taken)
        return why_not

    def _changes(self, changes: Mapping[Path, FileChange]) -> Sequence[_Change]:
        text = self.disk.history.text
        found: list[_Change] = []
        for path, change in changes.items():
            texts = ("", "")
            if change.raw is None:
                hashes = (change.sha256_before, change.sha256_after)
                texts = tuple(with_newlines(text(sha256)) for sha256 in hashes)
            found.append(_Change(path, change, *texts))
        return found

    def _uri(self, path: Path) -> str:
        return uri_from_path(self.disk.folders.as_opened(path))

    def _described(self, found: _Change) -> FileChange:
        change = found.change
        if change.raw is not None:
            return change
        before = None if change.sha256_before is None else found.base
        after = None if change.sha256_after is None else found.now
        told = self.disk.history.describe(found.path, before, after)
        return change.model_copy(
            update={"patch": told.patch, "added": told.added, "removed": told.removed}
        )

    def _reviewed(self, found: _Change, left_out: set[str]) -> m.ReviewedFile:
        facts = self._described(found).model_dump(exclude=left_out)
        return m.ReviewedFile.model_validate({**facts, "state": self._state(found)})

    def _state(self, found: _Change) -> Literal["pending", "conflict"]:
        return "conflict" if self._clash(found) else "pending"

    def _clash(self, found: _Change) -> str | None:
        """Return why a change does not fit what is on the disk by now, if it does not."""
        if found.change.raw is not None:
            return None
        try:
            landed = plan_text(self.disk, found.path, found.change)
        except ToolError as exc:
            return exc.message.partition("\n")[0]
        return _CLASH if landed.clashes else None

    def _is_whole(self, found: _Change, hunks: Collection[Hunk]) -> bool:
        return found.change.op != "modify" or len(hunks) == len(found.hunks)

    def _part(self, found: _Change, hunks: Collection[Hunk]) -> _Change:
        if self._is_whole(found, hunks):
            return found
        put = self.disk.history.put
        part = {"sha256_before": put(found.base), "sha256_after": put(found.with_hunks(hunks))}
        change = found.change.model_copy(update={**part, "mode_after": None})
        return replace(found, change=change)

    def _landed(self, wanted: Sequence[_Change], *, asks: bool) -> tuple[list[str], dict[str, str]]:
        """Return the URIs of what has landed, and why the others have not."""
        if not wanted:
            return [], {}
        conversation = self.conversation
        cancel, masker = CancelToken(), conversation.masker
        context = ToolContext(conversation.id, new_id(), cancel, lambda _text: None, masker)
        changes = [each.change for each in wanted]
        try:
            landed = self.tool(_landing(changes), asks=asks).land({}, context)
        except ToolError as exc:
            why = exc.message.partition("\n")[0]
            return [], dict.fromkeys((change.uri for change in changes), why)
        done = [change.uri for change in landed.changes]
        left, name = landed.left_out, self.disk.folders.name
        reasons = {
            each.change.uri: left.get(name(each.path)) or left.get(each.path.name, _UNFIT)
            for each in wanted
        }
        return done, {uri: why for uri, why in reasons.items() if uri not in done}

    def _require_rest(self) -> None:
        status = self.conversation.status
        if status in BUSY:
            way_on = "answer it" if status == "waiting" else "wait"
            problem = f"the agent is {status} and may change the same files"
            raise ConversationBusyError(f"{problem}; {way_on}, or stop the turn")

    def _told(
        self,
        decision: Literal["accepted", "reverted"],
        done: Sequence[_Change],
        conflicts: Mapping[str, str],
        repositories: Collection[str],
    ) -> m.ReviewResult:
        """Log what was decided, and tell the agent."""
        if done or repositories:
            named = [self.disk.folders.name(each.path) for each in done[:_MAX_NAMED]]
            names = ", ".join([*named, *(["what git did"] if repositories else [])])
            more = len(done) - _MAX_NAMED
            names += f" and {more} more" if more > 0 else ""
            is_landed = decision == "accepted"
            title = f"{'Landed' if is_landed else 'Discarded'} {names}"
            note = (_LANDED if is_landed else _DISCARDED).format(names)
            notice = NoticeItem(id=new_id(), title=title, note=note)
            reviews = [_reviewed(decision, each.change) for each in done]
            conversation = self.conversation
            conversation.append(*reviews, ItemCompleted(item=notice))
            conversation.log.sync()
        return m.ReviewResult(
            done=(*(each.change.uri for each in done), *sorted(repositories)),
            conflicts=tuple(Conflict(uri=uri, reason=why) for uri, why in conflicts.items()),
        )


def _reviewed(decision: Literal["accepted", "reverted"], change: FileChange) -> ChangesReviewed:
    now = change.sha256_after if decision == "accepted" else change.sha256_before
    return ChangesReviewed(uri=change.uri, decision=decision, base=now, now=now)


def _landing(
    changes: Sequence[FileChange], git: Sequence[RepositoryLanding] = ()
) -> plain.LandingPlanned:
    planned = LandingPlanned(changes=tuple(changes), git=tuple(git), observed={})
    return cast("plain.LandingPlanned", planned.model_dump(mode="json", exclude_none=True))


def _shown(waiting: Waiting) -> frozenset[str]:
    """Return the URIs of the repositories in which git did what lands."""
    return frozenset(row.repository for each in waiting.git.landings for row in each.shown)


def _is_all(params: m.ReviewParams) -> bool:
    return not (params.uris or params.hunks)


def _chosen(
    changes: Mapping[str, _Change], params: m.ReviewParams, repositories: Collection[str]
) -> tuple[dict[str, Collection[Hunk]], dict[str, str]]:
    """Return the hunks of each file that are meant, and why others cannot be."""
    named = dict.fromkeys((*params.uris, *(hunk.uri for hunk in params.hunks)))
    chosen: dict[str, Collection[Hunk]] = {}
    conflicts: dict[str, str] = {}
    for uri in changes if _is_all(params) else named:
        if uri in repositories:
            continue
        hunks = [named.hunk for named in params.hunks if named.uri == uri]
        if uri not in changes:
            conflicts[uri] = "nothing of it waits; see changes/list"
        elif not all(hunk in changes[uri].hunks for hunk in hunks):
            conflicts[uri] = "these hunks are of an older state; ask changes/diff again"
        else:
            chosen[uri] = hunks or changes[uri].hunks
    return chosen, conflicts
