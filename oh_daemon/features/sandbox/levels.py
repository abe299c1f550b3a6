"""Which level of sandbox this machine reaches: really tried, and explained where it does not hold.

What a failed try means in words is in `causes`. Nothing is kept; the scratch folders are removed.
"""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import Struct
from msgspec.structs import replace

from oh_daemon.features.sandbox import bwrap, landlock, seccomp
from oh_daemon.features.sandbox.causes import (
    SandboxFailure,
    facts_for,
    why_no_landlock,
    why_no_overlay,
)
from oh_daemon.features.sandbox.level_choice import Tried, choose_rows
from oh_daemon.features.sandbox.owners import has_files_of_others
from oh_daemon.features.sandbox.storage import own_folder, private_folder, remove
from oh_daemon.protocol.errors import ToolError
from oh_daemon.system.proc import mounts, mounts_below
from oh_daemon.system.spawner import FIRST_FD, Process, Spawner, output_file, written_to
from oh_daemon.workspace.paths import real_path

if TYPE_CHECKING:
    from oh_daemon.protocol.settings import SandboxSetting

Level = Literal["overlay", "landlock", "off"]
_LASTS_NOT = "it lies in memory: what is not applied is lost when the machine restarts"
_ONE_WALL = (
    "Landlock of Linux 5.19 or later is missing: in a sandbox, commands can write to named pipes"
    " outside of it"
)
_EMPTY = "{mount} is mounted, so that {place} is empty in a sandbox"
_FILES_STAY = "{mount} is mounted, so that files directly in {place} cannot be changed in a sandbox"
_OTHERS = (
    "{place} has files of another user or group: commands in a sandbox can replace them, but not"
    " write into them; the edit tool can, and so can commands outside the sandbox"
)
_PATIENCE_S = 5.0
_END = "all was tried"
_IN_VIEW = """
cd "$1" || exit
echo changed >a.txt || echo 'a file cannot be changed'
{ echo x >"$2"; } 2>&- && echo 'what lies outside can be written'
[ -d "/proc/$3" ] && echo 'other processes are visible'
n=0
while read -r line; do case $line in *:*) n=$((n + 1)); esac; done </proc/net/dev
[ "$n" = 1 ] || echo 'there is a network'
unshare -U true 2>&- && echo 'more namespaces can be made'
[ -s key.pem ] && echo 'secrets can be read'
[ -z "$4" ] || git diff --quiet -- .env || echo 'git sees changes where there are none'
echo 'all was tried'
"""
_HELD = """
{ echo x >"$1"; } 2>&- && echo 'a file can be written'
[[ $( { : </dev/tcp/127.0.0.1/9; } 2>&1) = *socket:* ]] || echo 'there is a network'
echo 'all was tried'
"""


class Trial(Struct, frozen=True):
    """One try of the self-test."""

    level: Level
    is_enforced: bool
    program: Path | None = None
    """The bubblewrap that was tried."""
    place: Path | None = None
    """Where layers were laid."""
    lasts: bool = True
    """Whether what lies at `place` outlives a restart of the machine."""
    cause: str = ""
    """Why it does not hold, or what is worse than it could be."""
    cure: str = ""
    """The command that cures the cause."""

    @property
    def as_tried(self) -> Tried:
        return self.level, self.is_enforced, self.cause, self.cure


class Sandbox(Struct, frozen=True):
    """What holds the commands that nobody was asked about, and why it is not more."""

    setting: SandboxSetting
    level: Level
    rows: Sequence[Trial] = ()
    enforced_by: Trial | None = None
    """The try on which `level` rests."""
    cause: str = ""
    cure: str = ""

    @property
    def refusal(self) -> str | None:
        """Return why no command may run: a level was named, and is not there."""
        if self.setting == self.level or self.setting in {"auto", "off"}:
            return None
        ways = filter(None, (self.cure, "set `sandbox` to `auto`"))
        return (
            f"the setting `sandbox` is {self.setting!r}, and that level is not there: {self.cause}."
            f" The user can change that: {', or '.join(ways)}. Other tools work"
        )

    @property
    def overlay(self) -> Trial | None:
        """Return the try of the sandbox in which commands run, if that is the level."""
        return self.enforced_by if self.level == "overlay" else None

    @property
    def report(self) -> dict[str, str]:
        """Return what clients are told."""
        level_report = {
            "level": self.level,
            "setting": self.setting,
            "cause": self.cause,
            "cure": self.cure,
        }
        return {name: value for name, value in level_report.items() if value}


def choose(setting: SandboxSetting, rows: Sequence[Trial]) -> Sandbox:
    """Return the best level that is wanted and holds, with what keeps a better one away."""
    chosen_index, why = choose_rows(setting, [row.as_tried for row in rows])
    sandbox = Sandbox(setting, "off", rows)
    if chosen_index is not None:
        sandbox = replace(sandbox, level=rows[chosen_index].level, enforced_by=rows[chosen_index])
    return sandbox if why is None else replace(sandbox, cause=rows[why].cause, cure=rows[why].cure)


def with_mounts(rows: Sequence[Trial], folders: Sequence[Path]) -> Sequence[Trial]:
    """Return what tries mean where these folders are open, since not all can be covered."""
    overlay = next((row for row in rows if row.level == "overlay" and row.is_enforced), None)
    if overlay is None:
        return rows
    other_rows = (row for row in rows if row.level != "overlay")
    places = (*folders, Path.home(), Path(tempfile.gettempdir()))
    mount, hidden_mount = _found_in(mounts(), places)
    if mount is not None:
        cause = f"{mount} is mounted in the open folder, which therefore cannot be covered"
        cure = f"sudo umount {shlex.quote(str(mount))}"
        return (replace(overlay, is_enforced=False, cause=cause, cure=cure), *other_rows)
    others = [_OTHERS.format(place=folder) for folder in folders if has_files_of_others(folder)]
    notes = filter(None, (overlay.cause, *hidden_mount, *others))
    return (replace(overlay, cause="; ".join(notes)), *other_rows)


@lru_cache
def _found_in(
    _mounts: Sequence[object], places: Sequence[Path]
) -> tuple[Path | None, Sequence[str]]:
    """Return a mount in an open folder, and what is lost by those in home and scratch, the last."""
    *folders, home, scratch = map(real_path, places)
    mount = next((each for folder in folders for each in mounts_below(folder)), None)
    hidden_mounts = [
        what.format(mount=next(iter(below)), place=place)
        for place, what in {scratch: _EMPTY, home: _FILES_STAY}.items()
        if (below := mounts_below(place))
    ]
    return mount, hidden_mounts


def try_levels(
    spawner: Spawner,
    state_folder: Path,
    environment: Mapping[str, str],
    projects: Sequence[Path] = (),
) -> tuple[Trial, ...]:
    """Try every level; takes some 50 ms. A program that lies in one of `projects` is left out."""
    trial = _TrialRunner(spawner, environment.get("PATH", ""))
    try:
        with ExitStack() as stack:
            reading = trial.start_reading(stack)
            programs = [*bwrap.candidates(trial.path, projects)]
            overlays = [*_try_overlays(trial, programs, [*places(state_folder, environment)])]
            return (*overlays, trial.end_reading(reading))
    except (OSError, ToolError) as exc:
        why = f"the levels of the sandbox cannot be tried: {exc}"
        return (
            Trial("overlay", is_enforced=False, cause=why),
            Trial("landlock", is_enforced=False, cause=why),
        )


def places(state_folder: Path, environment: Mapping[str, str]) -> Iterator[tuple[Path, bool]]:
    """Yield where layers may lie, best first, and whether they outlive a restart there."""
    yield state_folder / "views", True
    name = f"oh-daemon-{os.getuid()}"
    yield Path("/var/tmp", name), True  # noqa: S108 - made with mode 0700, and checked.
    if runtime := environment.get("XDG_RUNTIME_DIR", ""):
        yield Path(runtime, "oh-daemon"), False
    yield Path("/dev/shm", name), False  # noqa: S108 - as above.


def _try_overlays(
    trial: _TrialRunner, programs: Sequence[Path], where: Sequence[tuple[Path, bool]]
) -> Iterator[Trial]:
    """Yield the tries up to the first that holds."""
    if not seccomp.is_known():
        yield Trial("overlay", is_enforced=False, cause="there is no filter for this processor")
        return
    if not programs:
        failure = why_no_overlay("", facts_for(None))
        yield Trial("overlay", is_enforced=False, cause=failure.cause, cure=failure.cure)
    for program in programs:
        for place, lasts in where:
            failure = trial.try_overlay(program, place)
            if failure is None:
                notes = ("" if lasts else _LASTS_NOT, _second_wall())
                cause = "; ".join(filter(None, notes))
                yield Trial("overlay", True, program, place, lasts, cause)
                return
            yield Trial("overlay", False, program, place, lasts, failure.cause, failure.cure)
            if not failure.is_of_place:
                break


def _second_wall() -> str:
    return "" if landlock.is_enough_for_overlay() else _ONE_WALL


class _TrialRunner(Struct, frozen=True):
    """Starts what a level must hold, and reads what it found."""

    spawner: Spawner
    path: str

    def start_reading(self, stack: ExitStack) -> _TrialProcess:
        """Start what Landlock must hold; it goes on while overlays are tried."""
        file = _scratch(stack, Path(tempfile.gettempdir())) / "file"
        return self._start(stack, [*landlock.words(), "bash", "-c", _HELD, "bash", str(file)])

    def end_reading(self, trial: _TrialProcess) -> Trial:
        output = trial.read_output()
        if output == _END:
            return Trial("landlock", is_enforced=True)
        failure = why_no_landlock(output.removesuffix(_END), facts_for(None))
        return Trial("landlock", is_enforced=False, cause=failure.cause, cure=failure.cure)

    def try_overlay(self, program: Path, place: Path) -> SandboxFailure | None:
        """Try a sandbox with its layers at `place`."""
        with ExitStack() as stack:
            try:
                scratch = _scratch(stack, private_folder(place))
            except OSError as exc:
                return SandboxFailure(f"nothing can be kept in {place}: {exc}", is_of_place=True)
            below, outside = scratch / "below", scratch / "outside"
            git = self._make_project(stack, below)
            layer = bwrap.OverlayMount(below, scratch / "upper-0", scratch / "work-0")
            covered_file, empty = below / "key.pem", scratch / "empty"
            covered_file.write_text("secret")
            empty.touch()
            layer.upper.mkdir()
            layer.work.mkdir()
            filter_program = seccomp.memory_file(seccomp.for_overlay())
            stack.callback(os.close, filter_program)
            mounts = bwrap.Mounts([layer], covered=[covered_file], empty=empty)
            words = bwrap.arguments(program, mounts, seccomp=FIRST_FD)
            facts = (str(below), str(outside), str(os.getpid()), git)
            argv = [*words, "sh", "-c", _IN_VIEW, "sh", *facts]
            output = self._start(stack, argv, filter_program).read_output()
            if not output.endswith(_END):
                return why_no_overlay(output, facts_for(program))
            if lines := output.removesuffix(_END).split("\n")[:-1]:
                return SandboxFailure("; ".join(lines))
            if outside.exists() or (below / "a.txt").read_text() != "below\n":
                return SandboxFailure("what commands write reaches the disk")
        return None

    def _make_project(self, stack: ExitStack, folder: Path) -> str:
        """Make a repository with a file that looks like a secret; returns "" without git."""
        for name in (".git/objects", ".git/refs"):
            (folder / name).mkdir(parents=True)
        (folder / ".git/HEAD").write_text("ref: refs/heads/main\n")
        (folder / ".env").write_text("PORT=1\n")
        (folder / "a.txt").write_text("below\n")
        if shutil.which("git", path=self.path) is None:
            return ""
        output = self._start(
            stack, ["git", "-C", str(folder), "add", "--force", ".env"]
        ).read_output()
        return "" if output else "git"

    def _start(self, stack: ExitStack, argv: Sequence[str], *more: int) -> _TrialProcess:
        out = output_file(stack)
        env = {"PATH": self.path, "LC_ALL": "C", "HOME": "/nowhere"}
        fds = [None, out, out, *more]
        return _TrialProcess(self.spawner.spawn(argv, cwd=Path("/"), env=env, fds=fds), out)


class _TrialProcess(Struct, frozen=True):
    process: Process
    output: int

    def read_output(self) -> str:
        """Wait for its end and return what it wrote."""
        if self.process.wait(_PATIENCE_S) is None:
            self.process.kill_tree()
            return f"the try was ended after {_PATIENCE_S:g} s"
        return written_to(self.output).decode(errors="replace").strip()


def _scratch(stack: ExitStack, place: Path) -> Path:
    """Make a folder that is held like a sandbox's, which keeps it from being swept away."""
    folder = Path(tempfile.mkdtemp(prefix="try-", dir=place))
    stack.callback(remove, folder)
    stack.callback(os.close, own_folder(folder))
    return folder
