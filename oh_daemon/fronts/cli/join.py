"""`oh-daemon sandbox --join`: the user's own shell where an isolated conversation works."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

from oh_daemon.app.conversations import Conversations
from oh_daemon.app.for_user import share_for_user
from oh_daemon.app.places import Places
from oh_daemon.app.sources import SettingsSources
from oh_daemon.app.views import ground_of
from oh_daemon.contract.errors import InvalidStateError, ToolError
from oh_daemon.core.ports import Json
from oh_daemon.fronts.cli.logs import find_id
from oh_daemon.sandbox import first, joining
from oh_daemon.sandbox.levels import places, try_levels
from oh_daemon.sandbox.view import KEPT, View, holder
from oh_daemon.sandbox.worktree import Worktree
from oh_daemon.workspace.attached import run_attached
from oh_daemon.workspace.paths import paths_from_uris, real_path
from oh_daemon.workspace.spawner import Spawner, clean_env


def join(folder: Path, start_of_id: str, command: Sequence[str]) -> int:
    """Run the command, by default the user's shell, and return its exit code."""
    summary = _summary(folder, start_of_id)
    words = command or [os.environ.get("SHELL") or "bash"]
    # What runs in the view can read the variables of this shell.
    kept = clean_env(os.environ)
    env = {name: value for name, value in os.environ.items() if name in kept}
    folders = [real_path(path) for path in paths_from_uris(summary["folders"])]
    if not summary.get("isolated"):
        raise InvalidStateError("that conversation is not isolated: it works in the folder itself")
    state_folder = Places.of_user(os.environ).state_folder
    if summary["isolated"] == "worktree":
        with closing(Spawner()) as host:
            kept_at = state_folder / "worktrees" / summary["id"]
            return run_attached(
                words, cwd=Worktree(host, folders, kept_at).for_programs(folders[0]), env=env
            )
    found = [place / f"{KEPT}{summary['id']}" for place, _ in places(state_folder, os.environ)]
    place = next(filter(Path.is_dir, found), None)
    if place is None:
        raise InvalidStateError("that conversation has changed nothing yet, or its layer is gone")
    process = holder(place)
    if process is None:
        return _mounted(place, folders, state_folder, words, env)
    argv = (sys.executable, "-I", "-S", joining.__file__, str(process), str(folders[0]))
    return run_attached([*argv, first.__file__, *words], cwd=Path("/"), env=env, is_deaf=True)


def _summary(folder: Path, start_of_id: str) -> Json:
    sources = SettingsSources(os.environ, Places.of_user(os.environ).settings_file)
    shared, _ = share_for_user(sources, Places.of_user(os.environ), {folder: True})
    listed = {each["id"]: each for each in Conversations(shared).listed([folder])}
    return listed[find_id([*listed], start_of_id, folder)]


def _mounted(
    place: Path,
    folders: Sequence[Path],
    state_folder: Path,
    words: Sequence[str],
    env: Mapping[str, str],
) -> int:
    """Run the command in a view on the layers that no daemon has mounted."""
    with closing(Spawner()) as host:
        rows = try_levels(host, state_folder, os.environ)
        program = next((row.program for row in rows if row.holds and row.program), None)
        if program is None:
            raise ToolError("there is no view on this machine now; `oh-daemon doctor` says why")
        ground = ground_of(program, folders, Path.home())
        with closing(View(host, ground, place, outlives=True)) as view:
            around = view.enclose()
            argv = [*around.argv, sys.executable, "-I", "-S", first.__file__, *words]
            return run_attached(argv, cwd=folders[0], env=env, fds=around.fds, is_deaf=True)
