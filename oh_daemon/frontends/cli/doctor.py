"""`oh-daemon doctor`: tries whether this machine has what the daemon needs."""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from importlib.metadata import version
from pathlib import Path

from rich.console import Console
from rich.text import Text

from oh_daemon.common.cancel import CancelToken
from oh_daemon.common.plain_text import display_escaped
from oh_daemon.conversations.services import compose, login_shell_of
from oh_daemon.features.browser.browser import find_programs
from oh_daemon.features.models.logins import Logins
from oh_daemon.features.models.models import Models, greet
from oh_daemon.features.pending_changes.git_repositories import git_dir_of
from oh_daemon.features.settings.places import Places
from oh_daemon.features.settings.sources import SettingsSources
from oh_daemon.features.skills.files import find_skills
from oh_daemon.features.terminal.login_shell import is_from_shell
from oh_daemon.frontends.cli.mcp_lines import omission_lines, state_line
from oh_daemon.frontends.cli.sandbox import level_lines
from oh_daemon.protocol.errors import DaemonError, ToolError
from oh_daemon.protocol.problems import render_problem
from oh_daemon.storage.commit import CommitThread
from oh_daemon.storage.event_log import open_log
from oh_daemon.system import git_lock
from oh_daemon.system.git import refusal_of
from oh_daemon.system.private_files import disk_error
from oh_daemon.system.spawner import Spawner

_NO_MODEL = (
    "no model: run `oh-daemon login`, or `export ANTHROPIC_API_KEY=...` with your key, or that of "
    "another provider, or set `model` in {file}; `demo` is a script. An editor can expose one, too"
)
_STYLES = {"✓": "green", "!": "yellow", "✗": "red"}


def run_doctor(folder: Path, *, tries_model: bool) -> int:
    """Print each finding; return 1 when something that is needed, such as a model, is not there."""
    console = Console(highlight=False)
    findings = list(_findings(folder, tries_model=tries_model))
    for mark, text in findings:
        safe_text = display_escaped(text)
        console.print(Text(f"{mark} ", _STYLES[mark]).append(safe_text, ""), soft_wrap=True)
    return int(any(mark == "✗" for mark, _ in findings))


def _findings(folder: Path, *, tries_model: bool) -> Iterator[tuple[str, str]]:
    """Yield (mark, what was found)."""
    yield "✓", f"oh-daemon {version('oh-daemon')}, Python {platform.python_version()}"
    if platform.system() != "Linux":
        yield "!", f"{platform.system()} is not tested; only Linux is"
    yield _shell(folder)
    yield login_shell_line(os.environ, Path.home())
    yield from level_lines(folder)
    git = shutil.which("git")
    consequence = "searches do not skip ignored files, and changes by commands cannot be undone"
    yield ("✓", f"git: {git}") if git else ("!", f"git is missing: {consequence}")
    with closing(Spawner()) as spawner:
        if refusal := refusal_of(spawner, folder):
            yield "!", refusal
    yield from _lock(folder)
    yield _log(folder)
    log_file = Places(os.environ).log_file
    yield "✓", f"the daemon's own log, without your messages and files: {log_file}"
    # Also those of a folder that is not trusted: nothing of them runs here.
    for skill in find_skills([folder], Path.home(), lambda _folder: True):
        if skill.problem is not None:
            yield "!", f"the skill {skill.path} is not used: {skill.problem}"
    yield from _settings(folder, tries_model=tries_model)
    yield from _servers(folder)


def _shell(folder: Path) -> tuple[str, str]:
    with closing(Spawner()) as spawner:
        try:
            result = spawner.run(["bash", "--version"], cwd=folder, timeout_s=10)
        except DaemonError as exc:
            return "✗", f"no command can be run: {exc.message}"
    return "✓", f"commands run: {result.stdout.decode(errors='replace').splitlines()[0]}"


def login_shell_line(environment: Mapping[str, str], home: Path) -> tuple[str, str]:
    """Run the start-up files of the login shell, also where a terminal has run them."""
    places = Places(environment)
    if not SettingsSources(environment, places.settings_file).merged().settings.login_shell:
        return "✓", "environment: the daemon's own, since the setting `loginShell` is off"
    with closing(Spawner()) as spawner:
        shell = login_shell_of(places, environment, spawner, home)
        start_s = time.monotonic()
        outcome = shell.run_again()
        seconds = time.monotonic() - start_s
    if not outcome.is_complete:
        return "!", f"environment: {outcome.text}; an editor started from a desktop needs them"
    difference = outcome.text or f"that of {shell.name}'s start-up files"
    if is_from_shell(environment):
        difference = f"this terminal's; an editor started from a desktop gets {difference}"
    return "✓", f"environment: {difference} ({seconds:.1f} s)"


def _lock(folder: Path) -> Iterator[tuple[str, str]]:
    """Unlock the folder's repository if a killed daemon, perhaps an earlier version, locked it."""
    git_dir = git_dir_of(folder)
    if git_dir is None:
        return
    try:
        if git_lock.drop_leftover(git_dir):
            yield "!", f"{git_dir / git_lock.LOCK} was left by a killed daemon, and was removed"
        elif report := git_lock.remove_old(git_dir, time.time(), git_lock.running_programs()):
            yield "!", report
    except OSError as exc:
        yield "!", f"{git_dir / git_lock.LOCK} cannot be removed: {exc.strerror}"


def _log(folder: Path) -> tuple[str, str]:
    commit = CommitThread()
    home = folder / ".openhands"
    near = home if home.is_dir() else folder
    try:
        # Of a name of its own, since it is removed with all in it.
        with tempfile.TemporaryDirectory(prefix=".oh-doctor-", dir=near) as place:
            log = open_log(Path(place), commit, create=True).log
            log.sync()
            log.close()
    except DaemonError as exc:
        return "✗", f"no log can be written: {exc.message}"
    except OSError as exc:
        return "✗", f"no log can be written: {disk_error(near, exc).message}"
    finally:
        commit.close()
    return "✓", f"logs can be written in {folder}"


def _settings(folder: Path, *, tries_model: bool) -> Iterator[tuple[str, str]]:
    places = Places(os.environ)
    settings_file = places.settings_file
    settings = SettingsSources(os.environ, settings_file).merged(folder)
    for problem in settings.problems:
        yield "!", f"settings: {render_problem(problem)}"
    logins = Logins(places.logins_file)
    models = Models(lambda: settings.settings, os.environ, logins=logins).for_trial()
    name = models.default_name()
    if name is None:
        yield "✗", _NO_MODEL.format(file=settings_file)
    else:
        yield _model(models, name, is_tried=tries_model)


def _servers(folder: Path) -> Iterator[tuple[str, str]]:
    """Start the MCP servers in a trusted folder, and report the state and tools of each."""
    services, user, _models = compose(Places(os.environ), {})
    settings = user.settings.of(folder).settings
    try:
        if not settings.mcp_servers and not settings.browser:
            return
        if user.trust.of(folder) != "full":
            names = ", ".join([*sorted(settings.mcp_servers), *(["browser"] * settings.browser)])
            yield "!", f"MCP servers not started, since {folder} is not trusted: {names}"
            return
        services.mcp.wait_s = threading.TIMEOUT_MAX
        services.mcp.open_folders = lambda: (folder,)
        services.mcp.begin()
        services.mcp.tools(CancelToken())
        for server in services.mcp.infos():
            is_fine = server.status in {"running", "disabled"}
            yield "✓" if is_fine else "!", state_line(server)
            yield from (("!", line) for line in omission_lines(server))
        if settings.browser:
            yield _browser()
    finally:
        services.mcp.close()
        services.close()


def _browser() -> tuple[str, str]:
    try:
        return "✓", f"browser: {find_programs()}; its server starts with a conversation"
    except ToolError as exc:
        return "!", f"browser: {exc}"


def _model(models: Models, name: str, *, is_tried: bool) -> tuple[str, str]:
    """Check the model; if `is_tried`, ask it for a word, which costs a little."""
    try:
        models.check(name)
        if not is_tried:
            return "✓", f"model: {name}; --try-model sends it a short request"
        greet(models.model_for(name))
    except DaemonError as exc:
        return "✗", f"model {name}: {exc.with_hint}"
    return "✓", f"model {name}: it answers"
