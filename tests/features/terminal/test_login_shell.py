"""The variables that the user's start-up files set, as commands of the agent get them."""

from __future__ import annotations

import json
import shutil
import stat
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from fake_llm import call, say
from leftovers import tagged_pids, wait_until_gone
from msgspec.structs import replace
from world import World

from oh_daemon.features.terminal.login_shell import (
    CommandEnvironment,
    LoginShell,
    is_from_shell,
    merged_path,
)
from oh_daemon.system.environment import clean_env
from oh_daemon.system.private_files import PrivateValues
from oh_daemon.system.spawner import Spawner

DESKTOP_PATH = "/opt/desktop/bin:/usr/local/bin:/usr/bin:/bin"
SECRETS = ("hunter2", "s3cret")
POSIX = """
echo "Welcome back!"; echo "and on stderr" >&2
export PATH="$HOME/tools:$PATH" COLOR_OF_TEAM=blue SERVICE_TOKEN=hunter2
export DATABASE_URL=postgres://me:s3cret@db.example/shop
echo run >> "$HOME/runs"
alias env=false; env() { false; }
"""
FISH = """
echo "Welcome back!"
set -gx PATH $HOME/tools $PATH
set -gx COLOR_OF_TEAM blue
set -gx SERVICE_TOKEN hunter2
set -gx DATABASE_URL postgres://me:s3cret@db.example/shop
echo run >> $HOME/runs
"""
PYENV = """
export PYENV_ROOT="$HOME/.pyenv"
eval "$(printf '%s\\n' 'PATH="$HOME/.pyenv/shims:${PATH}"' 'export PATH COLOR_OF_TEAM=blue')"
"""
CONDA = """
conda() { export CONDA_PREFIX="$HOME/conda" COLOR_OF_TEAM=blue PATH="$HOME/conda/bin:$PATH"; }
conda activate base
"""
NVM = """
export NVM_DIR="$HOME/.nvm"
[ -s "$NVM_DIR/nvm.sh" ] && \\. "$NVM_DIR/nvm.sh"
"""
NVM_SCRIPT = 'export NVM_BIN="$NVM_DIR/bin" COLOR_OF_TEAM=blue PATH="$NVM_DIR/bin:$PATH"\n'
DEBIAN = "case $- in *i*) ;; *) return;; esac\n"


@dataclass(frozen=True)
class Home:
    """A user's home folder and what takes the environment of the shell there."""

    folder: Path
    spawner: Spawner

    def write(self, name: str, text: str) -> Path:
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    @property
    def cache(self) -> Path:
        return self.folder / "state/shell"

    def own(self, shell: str) -> dict[str, str]:
        """Return the variables of an editor that was started from a desktop."""
        program = shutil.which(shell)
        if program is None:
            pytest.skip(f"there is no {shell}")
        return {"HOME": str(self.folder), "SHELL": program, "PATH": DESKTOP_PATH, "LANG": "C"}

    def shell(self, own: Mapping[str, str]) -> LoginShell:
        self.cache.parent.mkdir(exist_ok=True)
        return LoginShell(self.spawner, own, self.folder, PrivateValues(self.cache))

    def environment(self, own: Mapping[str, str]) -> CommandEnvironment:
        environment = CommandEnvironment(own, self.shell(own).take)
        environment.begin()
        return environment

    @property
    def n_runs(self) -> int:
        return len((self.folder / "runs").read_text().splitlines())


@pytest.fixture(scope="module")
def spawner() -> Iterator[Spawner]:
    spawner = Spawner()
    yield spawner
    wait_until_gone(tagged_pids(spawner.run_id))
    spawner.close()


@pytest.fixture
def home(tmp_path: Path, spawner: Spawner) -> Home:
    return Home(tmp_path, spawner)


@pytest.mark.parametrize(
    ("shell", "file", "text", "first"),
    [
        ("bash", ".bashrc", DEBIAN + POSIX, "tools"),
        ("bash", ".profile", POSIX, "tools"),
        ("bash", ".bash_profile", ". ~/.bashrc\n", "tools"),
        ("bash", ".bashrc", PYENV, ".pyenv/shims"),
        ("bash", ".bashrc", CONDA, "conda/bin"),
        ("bash", ".bashrc", NVM, ".nvm/bin"),
        ("zsh", ".zshrc", POSIX, "tools"),
        ("zsh", ".zprofile", POSIX, "tools"),
        ("zsh", ".zshrc", PYENV, ".pyenv/shims"),
        ("zsh", ".zshrc", CONDA, "conda/bin"),
        ("zsh", ".zshrc", NVM, ".nvm/bin"),
        ("fish", ".config/fish/config.fish", FISH, "tools"),
        ("fish", ".config/fish/conf.d/tools.fish", FISH, "tools"),
        ("sh", ".profile", POSIX, "tools"),
    ],
)
def test_commands_get_what_start_up_files_export(
    home: Home, shell: str, file: str, text: str, first: str
) -> None:
    home.write(".nvm/nvm.sh", NVM_SCRIPT)
    if file == ".bash_profile":
        home.write(".bashrc", DEBIAN + POSIX)
    home.write(file, text)
    own = home.own(shell)
    environment = home.environment(own)
    variables = environment.variables()
    path = variables["PATH"].split(":")
    assert (path[0], variables["COLOR_OF_TEAM"]) == (f"{home.folder}/{first}", "blue")
    assert {*DESKTOP_PATH.split(":")} <= {*path}, "nothing that was found before is lost"
    assert {**variables, **own, "PATH": ""} == {**variables, "PATH": ""}
    assert not variables.keys() & {"SERVICE_TOKEN", "DATABASE_URL", "VSCODE_RESOLVING_ENVIRONMENT"}
    assert clean_env(variables)["TERM"] == "dumb", "nothing waits for a person"
    origin = environment.current().origin
    assert origin.startswith("PATH, "), origin
    assert origin.endswith(f"from {shell}'s start-up files")


@pytest.mark.parametrize(
    ("shell", "file", "text"),
    [
        ("bash", ".bashrc", POSIX),
        ("zsh", ".zshrc", POSIX),
        ("fish", ".config/fish/config.fish", FISH),
    ],
)
def test_shell_runs_again_only_after_a_change(home: Home, shell: str, file: str, text: str) -> None:
    start_up_file = home.write(file, text)
    own = home.own(shell)
    first = home.environment(own).variables()
    assert home.environment(own).variables() == first
    assert home.n_runs == 1
    [cached] = home.cache.iterdir()
    assert stat.S_IMODE(cached.stat().st_mode) == 0o600
    assert not any(secret in cached.read_text() for secret in SECRETS)
    # The editor was started with another PATH, from which the files make another one.
    other = {**own, "PATH": f"/opt/other:{DESKTOP_PATH}"}
    assert "/opt/other" in home.environment(other).variables()["PATH"].split(":")
    start_up_file.write_text(text.replace("blue", "green"))
    assert home.environment(other).variables()["COLOR_OF_TEAM"] == "green"
    assert home.n_runs == 3
    entry = json.loads(cached.read_text())
    cached.write_text(json.dumps({**entry, "takenAt": time.time() - 2 * 24 * 3600}))
    home.environment(other).variables()
    assert home.n_runs == 4, "what the files read may have changed in a day"


@pytest.mark.parametrize(
    ("text", "color", "reason"),
    [
        ("export COLOR=blue\nread -p 'Load the keys? ' answer", "blue", ""),
        ("while true; do read -p 'y or n? ' yn; [[ $yn == y ]] && break; done", None, "more than"),
        ("export COLOR=blue\nsleep 600", None, "more than"),
        ("export COLOR=blue\nsleep 600 &", "blue", ""),
        ("export COLOR=blue\nexec sh", "blue", ""),
        ("export COLOR=blue\nsh", "blue", ""),
        ("export COLOR=blue\nexit 3", None, "ended it"),
        ("export COLOR=blue\nset -e\nfalse", None, "ended it"),
        ("export COLOR=blue\nexec sleep 0", None, "ended it"),
        ("export COLOR=blue\nif then", "blue", ""),
        ("export COLOR=blue\nset -o noclobber\ntrap '' TERM INT HUP", "blue", ""),
        ("export COLOR=blue\nexec >/dev/full 2>&1\ntrap 'echo bye' EXIT", "blue", ""),
        ("export COLOR=$'a\\nb=c'", "a\nb=c", ""),
        ("export COLOR=$'\\xff'", None, ""),
        ('[ -n "$VSCODE_RESOLVING_ENVIRONMENT" ] || exec sleep 600\nexport COLOR=blue', "blue", ""),
    ],
)
def test_start_up_files_cannot_hold_commands_up(
    home: Home, text: str, color: str | None, reason: str
) -> None:
    home.write(".bashrc", text)
    own = home.own("bash")
    shell = replace(home.shell(own), deadline_s=0.5 if reason == "more than" else 10.0)
    environment = CommandEnvironment(own, shell.take)
    environment.begin()
    assert environment.variables().get("COLOR") == color
    assert reason in environment.current().origin
    wait_until_gone(tagged_pids(home.spawner.run_id))


def test_without_a_known_shell_commands_get_the_daemons_variables(home: Home) -> None:
    for program in ("/usr/sbin/nologin", "/no/such/bash"):
        own = {**home.own("bash"), "SHELL": program}
        environment = home.environment(own)
        assert environment.variables().items() >= own.items()
    assert CommandEnvironment(own).variables() == own


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, False),
        ({"SHLVL": "0"}, False),  # A display manager's script, which has become the desktop.
        ({"SHLVL": "1"}, True),
        ({"SHLVL": "x", "TERM": "dumb"}, False),  # Emacs sets TERM wherever it was started.
        ({"SHLVL": "0", "VSCODE_PID": "7"}, True),
    ],
)
def test_the_shell_runs_where_nobody_has_run_it(
    variables: Mapping[str, str], *, expected: bool
) -> None:
    assert is_from_shell(variables) == expected


@pytest.mark.parametrize(
    ("of_shell", "own", "expected"),
    [
        ("/nvm:/usr/bin:/bin", "/usr/bin:/bin", "/nvm:/usr/bin:/bin"),
        # /etc/profile of Debian sets PATH again, without what an image has put in front.
        ("/usr/bin:/bin", "/venv/bin:/usr/bin:/bin", "/venv/bin:/usr/bin:/bin"),
        ("/nvm:/usr/bin:/bin", "/venv/bin:/usr/bin:/bin", "/nvm:/venv/bin:/usr/bin:/bin"),
        ("/nvm:/usr/bin:/bin", "/usr/bin:/opt/a:/bin:/z", "/nvm:/usr/bin:/opt/a:/bin:/z"),
        ("/nvm:/bin", "", "/nvm:/bin"),
    ],
)
def test_path_of_the_shell_keeps_entries_of_the_daemon(
    of_shell: str, own: str, expected: str
) -> None:
    assert merged_path(of_shell, own) == expected


def test_agent_uses_programs_of_the_login_shell(world: World) -> None:
    """Finding E1 of real cases: `node` was that of the system, with no word why."""
    tools = world.home / "tools"
    tools.mkdir()
    node, server, hook = (tools / name for name in ("node", "server", "hook"))
    node.write_text("#!/bin/sh\necho v22 of $COLOR_OF_TEAM\n")
    for program in (server, hook):
        program.write_text(f"#!/bin/sh\necho $COLOR_OF_TEAM > {program}.out\n")
    for program in (node, server, hook):
        program.chmod(0o755)
    hooks = [{"hooks": [{"type": "command", "command": "hook"}]}]
    settings = {"mcpServers": {"own": {"command": "server"}}, "hooks": {"PreToolUse": hooks}}
    (world.home / ".bashrc").write_text(POSIX)
    bash = shutil.which("bash") or "bash"
    world.variables |= {"SHLVL": "0", "SHELL": bash}
    world.script(call("terminal", command="node; echo token=$SERVICE_TOKEN"), say("Done."))
    client = world.daemon(settings=settings)
    world.start(client)
    world.turn(client)
    messages = world.llm.requests[1].body["messages"]
    [result] = [message["content"] for message in messages if message["role"] == "tool"]
    assert "v22 of blue\ntoken=\n" in result
    outputs = [tools / f"{program.name}.out" for program in (server, hook)]
    assert [file.read_text() for file in outputs] == ["blue\n", "blue\n"]
    texts = json.dumps(messages)
    assert "shell: bash; PATH, COLOR_OF_TEAM" in texts
    assert "from bash's start-up files" in texts
    assert f"node: {node}" in texts
    assert not any(secret in json.dumps(messages[:-1]) for secret in SECRETS)
