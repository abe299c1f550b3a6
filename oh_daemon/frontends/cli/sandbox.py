"""`oh-daemon sandbox`: runs a command at a level as the agent's would run, or shows the levels.

With `--join`, it is the user's own shell where an isolated conversation works.
"""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path

from oh_daemon.common.plain_text import display_escaped
from oh_daemon.conversations.listing import list_summaries
from oh_daemon.conversations.sandboxes import mounts_of
from oh_daemon.features.isolation.isolated_worktree import Worktree
from oh_daemon.features.sandbox import entry, landlock
from oh_daemon.features.sandbox.levels import Level, Trial, places, try_levels, with_mounts
from oh_daemon.features.sandbox.overlay import OverlaySandbox
from oh_daemon.features.sandbox.secret_files import SecretCovers
from oh_daemon.features.sandbox.storage import KEPT, holder
from oh_daemon.features.settings.places import Places
from oh_daemon.frontends.cli.logs import catalogs_of, find_id
from oh_daemon.frontends.cli.process import print_line
from oh_daemon.kernel.ports import Json
from oh_daemon.protocol.errors import InvalidStateError, ToolError
from oh_daemon.system.environment import clean_env
from oh_daemon.system.pty import run_attached, run_relayed
from oh_daemon.system.spawner import Spawner
from oh_daemon.workspace.paths import paths_from_uris, real_path

_MAX_SHOWN = 50
_FAILED = 1


def print_levels(folder: Path) -> None:
    """Print each try of the self-test, with what to do where it does not hold."""
    for mark, text in level_lines(folder):
        sys.stdout.write(f"{mark} {display_escaped(text)}\n")


def level_lines(folder: Path) -> Iterator[tuple[str, str]]:
    """Try the levels; yield a mark and a line for each try."""
    return _lines_of(_rows(folder))


def _lines_of(rows: Iterable[Trial]) -> Iterator[tuple[str, str]]:
    """Yield a mark and a line for each try."""
    for row in rows:
        what = {"overlay": "commands run in a sandbox", "landlock": "commands run read-only"}[
            row.level
        ]
        by = f" ({row.program})" if row.program else ""
        if row.is_enforced:
            where = f", layers in {row.place}" if row.place else ""
            note = f"; {row.cause}" if row.cause else ""
            yield "✓", f"sandbox {row.level}: {what}{by}{where}{note}"
        else:
            way = f"; to change that: {row.cure}" if row.cure else ""
            yield "!", f"sandbox {row.level}{by}: {row.cause}{way}"


def run_at(level: Level | None, folder: Path, command: Sequence[str]) -> int:
    """Run the command in the folder and return its exit code; 1 when the level does not hold.

    Without a level, the best one counts that holds.
    """
    rows = _rows(folder) if level != "off" else [Trial("off", is_enforced=True)]
    level_row = next((row for row in rows if row.is_enforced and level in {None, row.level}), None)
    if level_row is None:
        for mark, text in _lines_of(row for row in rows if level in {None, row.level}):
            sys.stderr.write(f"{mark} {display_escaped(text)}\n")
        return _FAILED
    env = dict(clean_env(os.environ))
    # A person's programs need this of the environment, which the agent's do without.
    if sys.stdin.isatty() and (terminal := os.environ.get("TERM")):
        env["TERM"] = terminal
    if level_row.level == "overlay":
        return _run_in_overlay(level_row, folder, command, env)
    words = landlock.words() if level_row.level == "landlock" else []
    return run_attached([*words, *command], cwd=folder, env=env)


def _rows(folder: Path) -> Sequence[Trial]:
    with closing(Spawner()) as spawner:
        state_folder = Places(os.environ).state_folder
        return with_mounts(try_levels(spawner, state_folder, os.environ), [folder])


def _run_in_overlay(
    level_row: Trial, folder: Path, command: Sequence[str], env: Mapping[str, str]
) -> int:
    if level_row.program is None or level_row.place is None:
        raise ToolError("the self-test did not say what makes a sandbox")
    place = Path(tempfile.mkdtemp(prefix="command-", dir=level_row.place))
    with closing(Spawner()) as host:
        own, home = Places(os.environ).private, Path.home().resolve()
        masks = SecretCovers(host, [folder], home, os.environ, own=own)
        ground = mounts_of(level_row.program, [folder], home, masks)
        return _run_and_list(OverlaySandbox(host, ground, place), folder, command, env)


def _run_and_list(
    overlay: OverlaySandbox, folder: Path, command: Sequence[str], env: Mapping[str, str]
) -> int:
    with closing(overlay):
        code = run_relayed(overlay.spawner, command, cwd=folder, env=env)
        lines = sorted(_changes(overlay.upper(folder), folder))
    for line in lines[:_MAX_SHOWN]:
        print_line(f"discarded: {line}")
    if len(lines) > _MAX_SHOWN:
        print_line(f"discarded: {len(lines) - _MAX_SHOWN} more")
    return code


def _changes(upper: Path, folder: Path) -> Iterator[str]:
    """Yield what a layer holds; where something was deleted, it has a device without number."""
    for parent, names, files in os.walk(upper):
        for name in (*names, *files):
            path = Path(parent, name)
            below = folder / path.relative_to(upper)
            mode = path.lstat().st_mode
            if stat.S_ISCHR(mode):
                yield f"{below} (deleted)"
            elif not stat.S_ISDIR(mode):
                yield f"{below} ({'changed' if os.path.lexists(below) else 'new'})"


def join_overlay(folder: Path, start_of_id: str, command: Sequence[str]) -> int:
    """Run the command, by default the user's shell, and return its exit code."""
    summary = _summary(folder, start_of_id)
    words = command or [os.environ.get("SHELL") or "bash"]
    # Programs in the sandbox can read the variables of this shell.
    environment = clean_env(os.environ)
    env = {name: value for name, value in os.environ.items() if name in environment}
    folders = [real_path(path) for path in paths_from_uris(summary["folders"])]
    if not summary.get("isolated"):
        raise InvalidStateError("that conversation is not isolated: it works in the folder itself")
    state_folder = Places(os.environ).state_folder
    if summary["isolated"] == "worktree":
        with closing(Spawner()) as host:
            kept_at = state_folder / "worktrees" / summary["id"]
            return run_attached(
                words, cwd=Worktree(host, folders, kept_at).for_programs(folders[0]), env=env
            )
    candidates = [place / f"{KEPT}{summary['id']}" for place, _ in places(state_folder, os.environ)]
    place = next(filter(Path.is_dir, candidates), None)
    if place is None:
        raise InvalidStateError("that conversation has changed nothing yet, or its layer is gone")
    owner = holder(place)
    if owner is None:
        return _run_on_layers(place, folders, state_folder, words, env)
    root, writable = owner
    with closing(Spawner()) as host:
        argv = [*entry.join_words(root, str(folders[0]), writable), *words]
        return run_relayed(host, argv, cwd=Path("/"), env=env)


def _summary(folder: Path, start_of_id: str) -> Json:
    summaries_by_id = {
        each["id"]: each for each in list_summaries(catalogs_of(folder), parent_id=None)
    }
    return summaries_by_id[find_id([*summaries_by_id], start_of_id, folder)]


def _run_on_layers(
    place: Path,
    folders: Sequence[Path],
    state_folder: Path,
    words: Sequence[str],
    env: Mapping[str, str],
) -> int:
    """Run the command in a sandbox on the layers that no daemon has mounted."""
    with closing(Spawner()) as host:
        rows = try_levels(host, state_folder, os.environ)
        program = next((row.program for row in rows if row.is_enforced and row.program), None)
        if program is None:
            raise ToolError("there is no sandbox on this machine now; `oh-daemon doctor` says why")
        ground = mounts_of(program, folders, Path.home())
        with closing(OverlaySandbox(host, ground, place, outlives=True)) as overlay:
            return run_relayed(overlay.spawner, words, cwd=folders[0], env=env)
