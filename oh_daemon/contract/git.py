"""What a command changed in repositories of git: as it is shown, and as it waits to land."""

from __future__ import annotations

from oh_daemon.contract.base import Contract


class GitChange(Contract):
    """A branch, a tag, the stash, HEAD, or what is staged, of one repository."""

    repository: str
    """URI of its folder."""
    title: str
    """In words, such as `commit on main: Fix the parser`."""
    ref: str | None = None
    """The full name, such as `refs/heads/main`, or `HEAD`; absent for what is staged."""
    before: str | None = None
    """Name of the commit, for HEAD also of the branch; absent when there was none."""
    after: str | None = None


class RefMove(Contract):
    """A branch, a tag or HEAD that moves, if it is still where it was."""

    ref: str
    before: str | None = None
    after: str | None = None


class StashEntry(Contract):
    commit: str
    message: str


class StashMove(Contract):
    """All entries of the stash, the newest first."""

    before: tuple[StashEntry, ...] = ()
    after: tuple[StashEntry, ...] = ()


class RepositoryLanding(Contract):
    """What of one repository waits to land, all of it or nothing."""

    git_dir: str
    work_tree: str | None = None
    """Absent for what has none, or has it in its settings."""
    is_new: bool | None = None
    """Set if the disk has no repository there; then it is made first, with the user's settings."""
    refs: tuple[RefMove, ...] = ()
    stash: StashMove | None = None
    index: str | None = None
    """Hash of a blob with the index's rows that differ, as `sandbox/git_commands` writes it."""
    pack: str | None = None
    """Hash of a blob with the objects that the repository lacks, as git packs them."""
    ends: tuple[str, ...] = ()
    """Operations such as `merge` that the disk is still in and the command has ended."""
    protected: tuple[str, ...] = ()
    """Names in new commits, or of what is staged, that steer builds, editors or agents."""
    moved: str | None = None
    """What somebody else moved while the command ran, so that this cannot land."""
    shown: tuple[GitChange, ...] = ()
