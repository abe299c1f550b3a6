"""The changes of an isolated conversation, which the user applies or discards.

They are applied as those of commands. The agent then sees the files as they are on the disk.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from oh_daemon.common.cancel import CancelToken
from oh_daemon.features.isolation.isolated_files import IsolatedFiles, PendingFiles
from oh_daemon.features.language.language import Watch
from oh_daemon.features.pending_changes.apply import ApplyTool
from oh_daemon.features.pending_changes.apply_plan import plan_text
from oh_daemon.kernel.conversation import Conversation
from oh_daemon.kernel.editor_ports import TextEdit
from oh_daemon.kernel.journal import new_id
from oh_daemon.kernel.ports import ToolContext
from oh_daemon.kernel.turns import BUSY
from oh_daemon.protocol.branches import (
    ChangesDiffResult,
    ChangesListResult,
    ReviewedFile,
    ReviewParams,
    ReviewResult,
)
from oh_daemon.protocol.checkpoints import ChangesPlanned, RepositoryChanges
from oh_daemon.protocol.errors import ConversationBusyError, InvalidParamsError, ToolError
from oh_daemon.protocol.events import ChangesReviewed, ItemCompleted
from oh_daemon.protocol.forms import plain_form
from oh_daemon.protocol.items import FileChange, Hunk, NoticeItem
from oh_daemon.protocol.messages import Conflict
from oh_daemon.system.spawner import Spawner
from oh_daemon.workspace.documents import Documents
from oh_daemon.workspace.hunks import Rewrite, choose_hunks
from oh_daemon.workspace.line_diff import TextDiff
from oh_daemon.workspace.paths import uri_from_path
from oh_daemon.workspace.text_changes import apply_edits, with_newlines

_MAX_NAMED = 20
_CLASH = "the same lines were changed outside; change them there first, or discard these"
_UNFIT = "it does not fit what is on the disk now"
_APPLIED = "The user applied your changes: the workspace has them now. Applied: {}."
_DISCARDED = "The user discarded your changes; these are as on the disk again: {}."


class _WaitingFile(Struct, frozen=True, dict=True):
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
        return TextDiff.between(self.base, self.now).hunks

    def is_whole(self, hunks: Collection[Hunk]) -> bool:
        return self.change.op != "modify" or len(hunks) == len(self.hunks)

    def with_hunks(self, hunks: Collection[Hunk]) -> str:
        return apply_edits(self.base, [edit for hunk, edit in self.hunks.items() if hunk in hunks])


class IsolatedChanges(Struct, frozen=True):
    """Blocks. Safe from any thread while no turn is under way."""

    isolated_files: IsolatedFiles
    conversation: Conversation
    disk: Documents
    own: Documents
    """The same folders as the conversation has them."""
    watch: Watch
    host: Spawner

    def list(self, *, with_patches: bool = False) -> ChangesListResult:
        pending = self.isolated_files.pending_changes(self.disk)
        left_out = {"form"} if with_patches else {"form", "patch"}
        files = [self._review_file(change, left_out) for change in self._changes(pending.changes)]
        reason_by_uri = {self._uri(path): why for path, why in pending.left_out.items()}
        notes = "\n".join(pending.git.notes)
        reason_by_uri |= {self._uri(top): notes for top in pending.git_names if notes}
        git = tuple(
            git_changes for each in pending.git.repositories for git_changes in each.summary
        )
        return ChangesListResult(files=tuple(files), omitted=reason_by_uri or None, git=git or None)

    def diff(self, uri: str) -> ChangesDiffResult:
        file = self._by_uri(self.isolated_files.pending_changes(self.disk)).get(uri)
        if file is None:
            raise InvalidParamsError.at("uri", "the agent did not change that; see changes/list")
        is_text = file.change.raw is None
        file_with_patch = self._with_patch(file)
        return ChangesDiffResult(
            old_text=file.base if is_text and file.change.sha256_before else None,
            new_text=file.now if is_text and file.change.sha256_after else None,
            patch=file_with_patch.patch or "",
            hunks=tuple(file.hunks),
        )

    def apply(self, params: ReviewParams) -> ReviewResult:
        """Apply whole files, hunks, or all; a protected file is applied only if it is named."""
        require_rest(self.conversation)
        pending = self.isolated_files.pending_changes(self.disk)
        changes = self._by_uri(pending)
        tops = self._repositories(pending)
        selection, conflicts = choose_hunks(params, changes, lambda uri: changes[uri].hunks, tops)
        parts = {uri: self._part(changes[uri], hunks) for uri, hunks in selection.items()}
        unseen = self.disk.unseen_texts([each.path for each in parts.values()])
        clashes = {
            uri: why
            for uri, each in parts.items()
            if (why := unseen.get(each.path) or self._clash(each))
        }
        fitting = [part for uri, part in parts.items() if uri not in clashes]
        conflicts |= clashes
        other_paths = {*pending.changes, *pending.left_out} - {part.path for part in fitting}
        uris, reasons = self._apply(fitting, other_paths, asks=bool(params.uris or params.hunks))
        conflicts |= reasons
        paths: list[Path] = []
        for uri in uris:
            file, hunks = changes[uri], selection[uri]
            if file.is_whole(hunks):
                paths.append(file.path)
            else:
                self.isolated_files.rebase(file.path, file.with_hunks(hunks))
        self.isolated_files.settle(paths, self.disk)
        repositories: Collection[str] = ()
        if pending.git.repositories and (_is_all(params) or not tops.isdisjoint(params.uris)):
            missing_paths = [
                path for path in (*pending.changes, *pending.left_out) if path not in paths
            ]
            why_not = self._apply_git(pending, missing_paths, asks=not _is_all(params))
            shown_changes = _shown_commits(pending)
            repositories = () if why_not else shown_changes
            conflicts |= dict.fromkeys(shown_changes, why_not) if why_not else {}
        return self._log_review("applied", [changes[uri] for uri in uris], conflicts, repositories)

    def discard(self, params: ReviewParams) -> ReviewResult:
        """Let the conversation have what the disk has, of whole files, hunks, or all."""
        require_rest(self.conversation)
        pending = self.isolated_files.pending_changes(self.disk)
        changes = self._by_uri(pending)
        path_by_uri = {self._uri(path): path for path in pending.left_out}
        tops = self._repositories(pending)
        selection, conflicts = choose_hunks(params, changes, lambda uri: changes[uri].hunks, tops)
        is_all = _is_all(params)
        also = [path for uri, path in path_by_uri.items() if is_all or uri in params.uris]
        conflicts = {uri: why for uri, why in conflicts.items() if uri not in path_by_uri}
        paths: list[Path] = list(also)
        for uri, hunks in selection.items():
            file = changes[uri]
            if file.is_whole(hunks):
                paths.append(file.path)
                continue
            remaining = file.with_hunks([hunk for hunk in file.hunks if hunk not in hunks])
            change = Rewrite(file.now, remaining)
            self.own.restore(file.path, change, label="Discard", cancel=CancelToken())
        self.isolated_files.settle(paths, self.disk)
        uris = tops if is_all or not tops.isdisjoint(params.uris) else frozenset[str]()
        if uris:
            self.isolated_files.take_out(pending.git_names)
        return self._log_review("discarded", [changes[uri] for uri in selection], conflicts, uris)

    def _by_uri(self, pending: PendingFiles) -> dict[str, _WaitingFile]:
        return {each.change.uri: each for each in self._changes(pending.changes)}

    def _repositories(self, pending: PendingFiles) -> frozenset[str]:
        """Return the URIs by which people can mean what git did."""
        return frozenset((*_shown_commits(pending), *map(self._uri, pending.git_names)))

    def _apply_git(
        self, pending: PendingFiles, missing_folders: Sequence[Path], *, asks: bool
    ) -> str | None:
        """Apply commits and the like, if all files are applied whole; return why not."""
        if missing_folders:
            more = f" and {len(missing_folders) - 1} more" if len(missing_folders) > 1 else ""
            return f"{self.disk.folders.name(missing_folders[0])}{more} is not applied"
        tool = self._tool(asks=asks, git=pending.git.repositories)
        if tool.protected_names and not asks:
            return f"{tool.protected_names[0]} in it is protected; name the repository to apply it"
        if tool.unsigned_reasons and not asks:
            return f"{tool.unsigned_reasons[0]}; name the repository to apply it unsigned"
        why_not = tool.apply_git()
        if why_not is None:
            self.isolated_files.take_out(pending.git.removals)
        return why_not

    def _changes(self, changes: Mapping[Path, FileChange]) -> Sequence[_WaitingFile]:
        text = self.disk.history.text
        files: list[_WaitingFile] = []
        for path, change in changes.items():
            texts = ("", "")
            if change.raw is None:
                hashes = (change.sha256_before, change.sha256_after)
                texts = tuple(with_newlines(text(sha256)) for sha256 in hashes)
            files.append(_WaitingFile(path, change, *texts))
        return files

    def _uri(self, path: Path) -> str:
        return uri_from_path(self.disk.folders.as_opened(path))

    def _with_patch(self, file: _WaitingFile) -> FileChange:
        change = file.change
        if change.raw is not None:
            return change
        before = None if change.sha256_before is None else file.base
        after = None if change.sha256_after is None else file.now
        facts = self.disk.history.describe(file.path, before, after)
        return change.model_copy(
            update={"patch": facts.patch, "added": facts.added, "removed": facts.removed}
        )

    def _review_file(self, file: _WaitingFile, left_out: set[str]) -> ReviewedFile:
        reviewed_part = self._with_patch(file).model_copy(update=dict.fromkeys(left_out))
        return ReviewedFile(
            **dict(reviewed_part), state="conflict" if self._clash(file) else "pending"
        )

    def _clash(self, file: _WaitingFile) -> str | None:
        """Return why a change does not fit what is on the disk by now, if it does not."""
        if file.change.raw is not None:
            return None
        try:
            _, clashes = plan_text(self.disk, file.path, file.change)
        except ToolError as exc:
            return exc.message.partition("\n")[0]
        return _CLASH if clashes else None

    def _part(self, file: _WaitingFile, hunks: Collection[Hunk]) -> _WaitingFile:
        if file.is_whole(hunks):
            return file
        put = self.disk.history.put
        part = {"sha256_before": put(file.base), "sha256_after": put(file.with_hunks(hunks))}
        change = file.change.model_copy(update={**part, "mode_after": None})
        return replace(file, change=change)

    def _apply(
        self, parts: Sequence[_WaitingFile], other_paths: Collection[Path], *, asks: bool
    ) -> tuple[list[str], dict[str, str]]:
        """Return the URIs of the applied files, and why the others are not applied.

        `other_paths` stay as they are, and with them the other files of the same databases.
        """
        if not parts:
            return [], {}
        conversation = self.conversation
        cancel, masker = CancelToken(), conversation.journal.masker
        context = ToolContext(conversation.id, new_id(), cancel, lambda _text: None, masker)
        changes = [each.change for each in parts]
        try:
            result = self._tool(changes, other_paths, asks=asks).apply({}, context)
        except ToolError as exc:
            why = exc.message.partition("\n")[0]
            return [], dict.fromkeys((change.uri for change in changes), why)
        uris = [change.uri for change in result.changes]
        left_out, name = result.left_out, self.disk.folders.name
        reasons = {
            each.change.uri: left_out.get(name(each.path)) or left_out.get(each.path.name, _UNFIT)
            for each in parts
        }
        return uris, {uri: why for uri, why in reasons.items() if uri not in uris}

    def _tool(
        self,
        changes: Sequence[FileChange] = (),
        other_paths: Collection[Path] = (),
        *,
        asks: bool,
        git: Sequence[RepositoryChanges] = (),
    ) -> ApplyTool:
        omitted = dict.fromkeys(map(self.disk.folders.name, other_paths), "it was not chosen")
        plan = ChangesPlanned(
            changes=tuple(changes), omitted=omitted, git=tuple(git), item_fields={}
        )
        return ApplyTool(self.disk, self.watch, plain_form(plan), self.host, asks=asks)

    def _log_review(
        self,
        decision: Literal["applied", "discarded"],
        files: Sequence[_WaitingFile],
        conflicts: Mapping[str, str],
        repositories: Collection[str],
    ) -> ReviewResult:
        """Log the decision, and report it to the agent."""
        if files or repositories:
            some = [self.disk.folders.name(each.path) for each in files[:_MAX_NAMED]]
            names = ", ".join([*some, *(["what git did"] if repositories else [])])
            more = len(files) - _MAX_NAMED
            names += f" and {more} more" if more > 0 else ""
            is_applied = decision == "applied"
            title = f"{'Applied' if is_applied else 'Discarded'} {names}"
            note = (_APPLIED if is_applied else _DISCARDED).format(names)
            notice = NoticeItem(id=new_id(), title=title, note=note)
            reviews = [_review_event(decision, each.change) for each in files]
            conversation = self.conversation
            conversation.journal.append(*reviews, ItemCompleted(item=notice))
            conversation.journal.log.sync()
        return ReviewResult(
            done=(*(each.change.uri for each in files), *sorted(repositories)),
            conflicts=tuple(Conflict(uri=uri, reason=why) for uri, why in conflicts.items()),
        )


def require_rest(conversation: Conversation) -> None:
    """Raises `ConversationBusyError` while the agent may change files, too."""
    status = conversation.journal.status
    if status in BUSY:
        way_on = "answer it" if status == "waiting" else "wait"
        problem = f"the agent is {status} and may change the same files"
        raise ConversationBusyError(f"{problem}; {way_on}, or stop the turn")


def _review_event(decision: Literal["applied", "discarded"], change: FileChange) -> ChangesReviewed:
    now = change.sha256_after if decision == "applied" else change.sha256_before
    return ChangesReviewed(uri=change.uri, decision=decision, base=now, now=now)


def _shown_commits(pending: PendingFiles) -> frozenset[str]:
    """Return the URIs of the repositories with changes by git that are to be applied."""
    return frozenset(row.repository for each in pending.git.repositories for row in each.summary)


def _is_all(params: ReviewParams) -> bool:
    return not (params.uris or params.hunks)
