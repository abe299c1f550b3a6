"""Events about what commands changed, in files and in git, and about taking back."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from oh_daemon.protocol.base import Contract
from oh_daemon.protocol.items import FileChange, GitChange


class RefMove(Contract):
    """A branch, a tag or HEAD that moves, if it is still where it was."""

    ref: str
    """Full name of the ref."""
    before: str | None = None
    """The commit, or for HEAD also the branch; absent if there was none."""
    after: str | None = None
    """The same afterwards; absent if it is gone."""


class StashEntry(Contract):
    commit: str
    """Name of its commit."""
    message: str
    """Its message."""


class StashMove(Contract):
    """All entries of the stash, the newest first."""

    before: tuple[StashEntry, ...] = ()
    """The entries before."""
    after: tuple[StashEntry, ...] = ()
    """The entries afterwards."""


class Signing(Contract):
    """The program and the key that sign new commits and tags, from the user's own settings."""

    format: Literal["openpgp", "ssh", "x509"]
    """The kind of signature, as `gpg.format` names it."""
    program: str
    """Path of the program, such as `/usr/bin/gpg`."""
    key: str
    """The key as git's settings name it."""
    problem: str | None = None
    """The reason why nothing can be signed here; then the commits are applied unsigned or not."""


class RepositoryChanges(Contract):
    """The pending changes to one repository, which are applied as a whole."""

    git_dir: str
    """Path of the repository's own folder."""
    work_tree: str | None = None
    """Absent for what has none, or has it in its settings."""
    is_new: bool | None = None
    """Set if the disk has no repository there; then it is made first, with the user's settings."""
    refs: tuple[RefMove, ...] = ()
    """What moves."""
    stash: StashMove | None = None
    """How the stash changes; absent if it does not."""
    index: str | None = None
    """Hash of a blob with the index's rows that differ, as `system/git` writes it."""
    pack: str | None = None
    """Hash of a blob with the objects that the repository lacks, as git packs them."""
    ends: tuple[str, ...] = ()
    """Operations such as `merge` that the disk is still in and the command has ended."""
    protected_names: tuple[str, ...] = ()
    """Names in new commits, or of what is staged, that steer builds, editors or agents."""
    signing: Signing | None = None
    """Set if git would sign new commits or tags, which happens when they are applied."""
    unsigned: bool | None = None
    """Set if new commits have no signature although the user's settings ask for one."""
    conflict: str | None = None
    """What changed outside while the command ran, so that this cannot be applied."""
    summary: tuple[GitChange, ...] = ()
    """The same, as people see it."""


class ChangesPlanned(Contract):
    """A command ended, and its changes wait to be applied to the open folders."""

    type: Literal["changes.planned"] = "changes.planned"
    changes: tuple[FileChange, ...]
    """From what the command began with, to what it left."""
    omitted: dict[str, str] = Field(default_factory=dict)
    """Files that are not applied, by path, with the reason."""
    git: tuple[RepositoryChanges, ...] = ()
    """Changes to repositories, which are applied after all files."""
    notes: tuple[str, ...] = ()
    """Further notes for the model."""
    refusals: tuple[str, ...] = ()
    """The notes about changes by git that are refused as a whole, with the reasons."""
    item_fields: dict[str, Any]
    """The fields of the item that the command itself gave: its output, its exit code."""


class CheckpointCreated(Contract):
    """A command or tool changed files; the store has the folders before and after it."""

    type: Literal["checkpoint.created"] = "checkpoint.created"
    before: dict[str, str]
    """The name of each folder's tree, by the folder's URI."""
    after: dict[str, str]
    """The same, for the trees afterwards."""
    n_files: int
    """How many files differ."""
    saved: dict[str, str] | None = None
    """Texts that the user saved meanwhile, by URI; only later changes to those files are undone."""
    changes: tuple[FileChange, ...] | None = None
    """What differs in texts, for the review; they are kept by their hashes."""


class ConversationRolledBack(Contract):
    """This item and all later ones no longer count, nor do the events after `toSeq`."""

    type: Literal["conversation.rolledBack"] = "conversation.rolledBack"
    to_seq: int
    """The last event that counts."""
    to_item_id: str
    """The message that no longer counts, nor anything after it."""
    files: Literal["keep", "restore"]
    """Whether the files were taken back, too."""
