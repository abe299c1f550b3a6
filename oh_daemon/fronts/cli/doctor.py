"""`oh-daemon doctor`: whether this machine has what the daemon needs, by trying it."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

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

_STYLES = {"✓": "green", "!": "yellow", "✗": "red"}


def run_doctor(folder: Path) -> int:
    """Print each finding; 1 when something that is needed does not work."""
    console = Console(highlight=False)
    findings = list(_findings(folder))
    for mark, text in findings:
        console.print(Text(f"{mark} ", _STYLES[mark]).append(text, ""), soft_wrap=True)
    return int(any(mark == "✗" for mark, _ in findings))


def _findings(folder: Path) -> Iterator[tuple[str, str]]:
    """(mark, what was found)."""
    yield "✓", f"oh-daemon {version('oh-daemon')}, Python {platform.python_version()}"
    if platform.system() != "Linux":
        yield "!", f"{platform.system()} is untested; Linux is what is tested"
    yield _shell(folder)
    for name, why in (("git", "searches then ignore no files"), ("rg", "searches are slower")):
        found = shutil.which(name)
        yield ("✓", f"{name}: {found}") if found else ("!", f"{name} is missing: {why}")
    yield _log(folder)
    yield "✓", f"its own log, without texts of yours: {Places.of_user(os.environ).log_file}"
    yield from _settings(folder)


def _shell(folder: Path) -> tuple[str, str]:
    spawner = Spawner()
    try:
        ran = spawner.run(["bash", "--version"], cwd=folder, timeout_s=10, cancel=CancelToken())
    except DaemonError as exc:
        return "✗", f"no command can be run: {exc.message}"
    finally:
        spawner.close()
    return "✓", f"commands run: {ran.stdout.decode(errors='replace').splitlines()[0]}"


def _log(folder: Path) -> tuple[str, str]:
    commit = CommitThread()
    home = folder / ".openhands"
    place = (home if home.is_dir() else folder) / ".doctor"
    try:
        log = open_log(place, commit, create=True).log
        log.sync()
        log.close()
    except DaemonError as exc:
        return "✗", f"no log can be written: {exc.message}"
    finally:
        commit.close()
        shutil.rmtree(place, ignore_errors=True)
    return "✓", f"logs can be written in {folder}"


def _settings(folder: Path) -> Iterator[tuple[str, str]]:
    settings_file = Places.of_user(os.environ).settings_file
    merged = SettingsSources(os.environ, settings_file).merged(folder)
    for problem in merged.problems:
        yield "!", f"settings: {problem}"
    try:
        name = Models(lambda: merged.settings, os.environ).require_default()
    except DaemonError as exc:
        yield "!", f"{exc.message}: {exc.hint}"
    else:
        yield "✓", f"model: {name}"
