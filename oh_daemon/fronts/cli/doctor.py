"""`oh-daemon doctor`: whether this machine has what the daemon needs, by trying it."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Literal

from rich.console import Console
from rich.text import Text

from oh_daemon.contract.errors import DaemonError
from oh_daemon.core.cancel import CancelToken
from oh_daemon.fronts.models import Models
from oh_daemon.fronts.places import Places
from oh_daemon.fronts.sources import SettingsSources
from oh_daemon.store.commit import CommitThread
from oh_daemon.store.event_log import open_log
from oh_daemon.workspace.spawner import Spawner

Verdict = Literal["ok", "warning", "error"]
_MARKS: dict[Verdict, tuple[str, str]] = {
    "ok": ("✓", "green"),
    "warning": ("!", "yellow"),
    "error": ("✗", "red"),
}


def run_doctor(folder: Path) -> int:
    """Print each finding; 1 when something that is needed does not work."""
    console = Console(highlight=False, soft_wrap=True)
    worst = 0
    for verdict, text in _findings(folder):
        mark, style = _MARKS[verdict]
        console.print(Text(f"{mark} ", style).append(text, style=""))
        worst = max(worst, verdict == "error")
    return int(worst)


def _findings(folder: Path) -> Iterator[tuple[Verdict, str]]:
    yield "ok", f"oh-daemon {version('oh-daemon')}, Python {platform.python_version()}"
    if platform.system() != "Linux":
        yield "warning", f"{platform.system()} is untested; Linux is what is tested"
    yield _shell(folder)
    for name, why in (("git", "searches then ignore no files"), ("rg", "searches are slower")):
        found = shutil.which(name)
        yield ("ok", f"{name}: {found}") if found else ("warning", f"{name} is missing: {why}")
    yield _log(folder)
    yield from _settings(folder)


def _shell(folder: Path) -> tuple[Verdict, str]:
    spawner = Spawner()
    try:
        ran = spawner.run(["bash", "--version"], cwd=folder, timeout_s=10, cancel=CancelToken())
    except DaemonError as exc:
        return "error", f"no command can be run: {exc.message}"
    finally:
        spawner.close()
    return "ok", f"commands run: {ran.stdout.decode(errors='replace').splitlines()[0]}"


def _log(folder: Path) -> tuple[Verdict, str]:
    commit = CommitThread()
    home = folder / ".openhands"
    place = (home if home.is_dir() else folder) / ".doctor"
    try:
        log = open_log(place, commit, create=True).log
        log.sync()
        log.close()
    except DaemonError as exc:
        return "error", f"no log can be written: {exc.message}"
    finally:
        commit.close()
        shutil.rmtree(place, ignore_errors=True)
    return "ok", f"logs can be written in {folder}"


def _settings(folder: Path) -> Iterator[tuple[Verdict, str]]:
    environment = dict(os.environ)
    sources = SettingsSources(environment, Places.of_user(environment).settings_file)
    merged = sources.merged(folder)
    for problem in merged.problems:
        yield "warning", f"settings: {problem}"
    try:
        name = Models(lambda: merged.settings, environment).require_default()
    except DaemonError as exc:
        yield "warning", f"{exc.message}: {exc.hint}"
    else:
        yield "ok", f"model: {name}"
