"""A code-server with the extension installed, which serves VS Code to browsers."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import forked_daemons
import playwright
import psutil
from playwright.async_api import Locator
from playwright.async_api import TimeoutError as WaitedTooLongError
from processes import argv

HOST = Path(__file__).parent / "host/node_modules/code-server"
NODE = str(Path(playwright.__file__).parent / "driver/node")
"""Playwright's own Node: code-server needs a newer one than distributions have."""
EXTENSION = Path(__file__).parents[3] / "editors/vscode"
WAIT_MS = 180_000
"""Generous: a slow machine is not a failure."""
N_CHANGES = 20

SETTINGS = {
    "oh.daemon.command": forked_daemons.REAL,
    "workbench.startupEditor": "none",
    "workbench.tips.enabled": False,
    "workbench.reduceMotion": "on",
    "workbench.secondarySideBar.defaultVisibility": "hidden",
    "workbench.colorTheme": "Default Dark Modern",
    "chat.disableAIFeatures": True,
    # With this off, a terminal's rows are elements that a test can read.
    "terminal.integrated.gpuAcceleration": "off",
    "telemetry.telemetryLevel": "off",
    "update.mode": "none",
    "extensions.autoUpdate": False,
    "extensions.autoCheckUpdates": False,
    "git.enabled": False,
    "files.autoSave": "off",
    "files.hotExit": "off",
    # What nothing here is about, and what keeps the machine busy: a caret that blinks, a second
    # server for TypeScript, a search for types on the net, copies of what is saved.
    "editor.cursorBlinking": "solid",
    "typescript.tsserver.useSyntaxServer": "never",
    "typescript.disableAutomaticTypeAcquisition": True,
    "workbench.localHistory.enabled": False,
    "editor.quickSuggestions": {"other": "off", "comments": "off", "strings": "off"},
    "window.restoreWindows": "none",
    # Or else a file that an earlier test had open would come back with its caret and scroll.
    "workbench.editor.restoreViewState": False,
}
CLEAR_KEY, CLEARED_KEY = "Control+Alt+F9", "Control+Alt+F8"
RESTART_KEY = "Control+Alt+F7"
KEYBINDINGS = [
    {
        "key": CLEAR_KEY.lower().replace("control", "ctrl"),
        "command": "runCommands",
        "args": {
            "commands": [
                "notifications.clearAll",
                "workbench.action.terminal.killAll",
                "workbench.action.closePanel",
                *["workbench.action.revertAndCloseActiveEditor"] * 8,
                # The commands run one after the other, so once this one shows its file, the others
                # are done. The file stays, even if something else takes the focus late.
                "workbench.action.openGlobalKeybindingsFile",
            ]
        },
    },
    {
        "key": CLEARED_KEY.lower().replace("control", "ctrl"),
        "command": "runCommands",
        "args": {
            "commands": ["notifications.clearAll", "workbench.action.closeAllEditors"],
        },
    },
    {"key": RESTART_KEY.lower().replace("control", "ctrl"), "command": "oh.restart"},
]
"""Keys for the tests only; the first two restore the workbench as it was when the window opened."""


@dataclass
class Server:
    """A code-server with a home of its own; every daemon in it inherits the environment."""

    home: Path
    extensions: Path
    environment: dict[str, str] = field(default_factory=dict)
    settings: dict[str, object] = field(default_factory=dict)
    is_trusting: bool = True
    """Whether the folders that it opens are trusted without a question."""
    written: dict[str, object] = field(default_factory=dict)
    """The settings that were written last."""

    @classmethod
    def with_model(cls, home: Path, extensions: Path, url: str) -> Self:
        environment = {
            "OH_DAEMON_HOME": str(home / "oh"),
            "OH_DAEMON_MODEL": "openai/fake",
            "OH_DAEMON_BASE_URL": url,
            "OH_DAEMON_API_KEY": "sk-test-abcdefghijklmnop123456",
            # The fake model answers from scripts, so no request for a title may come in between.
            "OH_DAEMON_TITLES": "false",
        }
        return cls(home, extensions, environment)

    def start(self) -> str:
        """Start the server and return `127.0.0.1:PORT`."""
        self.write_settings(self.settings)
        (self.home / "User/keybindings.json").write_text(json.dumps(KEYBINDINGS))
        options = ["--auth", "none", "--bind-addr", "127.0.0.1:0", "--disable-telemetry"]
        options += ["--disable-update-check", "--disable-proxy"]
        options += ["--disable-workspace-trust"] if self.is_trusting else []
        options += ["--disable-getting-started-override", "--reconnection-grace-time", "5"]
        self.process = subprocess.Popen(
            code_server(self.home, self.extensions, *options),
            env=host_environment(self.home) | self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        assert self.process.stdout
        for line in self.process.stdout:
            if match := re.search(r"HTTP server listening on http://(127\.0\.0\.1:\d+)", line):
                # The server goes on writing, and would block if nobody read its output.
                self._reader = threading.Thread(target=self.process.stdout.read, daemon=True)
                self._reader.start()
                return match[1]
        raise AssertionError("code-server ended before it listened")

    def write_settings(self, settings: dict[str, object]) -> None:
        """Write two files: a served window reads what has machine scope from a place of its own."""
        self.written = settings
        for scope in ("User", "Machine"):
            (self.home / scope).mkdir(parents=True, exist_ok=True)
            (self.home / scope / "settings.json").write_text(json.dumps(SETTINGS | settings))

    async def change_settings(self, settings: Mapping[str, object], locator: Locator) -> None:
        """Lay settings over those of the server until they are seen: VS Code may miss a change."""
        for _ in range(N_CHANGES):
            self.write_settings({**self.settings, **settings})
            with contextlib.suppress(WaitedTooLongError):
                await locator.wait_for(state="attached", timeout=WAIT_MS / N_CHANGES)
                return
        raise AssertionError(f"VS Code did not hear of {settings}")

    def daemons(self) -> list[psutil.Process]:
        """Return the daemons that windows on this server have started, the newest last."""
        parents: dict[psutil.Process, int] = {}
        for each in psutil.Process(self.process.pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                if is_daemon(argv(each)):
                    parents[each] = each.ppid()
                elif daemon := forked_daemons.daemon_of(each):
                    parents[daemon] = daemon.ppid()
        pids = {each.pid for each in parents}
        # A child of a daemon has the daemon's own name until it becomes the other program.
        daemons = [each for each, parent in parents.items() if parent not in pids]
        return sorted(daemons, key=psutil.Process.create_time)

    def daemon(self) -> psutil.Process:
        """Return the newest daemon; the one of a page before a reload may still be ending."""
        return self.daemons()[-1]

    def stop(self) -> None:
        os.killpg(self.process.pid, signal.SIGTERM)
        self.process.wait(timeout=WAIT_MS / 1000)
        self._reader.join(timeout=WAIT_MS / 1000)
        assert self.process.stdout
        self.process.stdout.close()


def is_daemon(words: list[str]) -> bool:
    return "oh_daemon" in words or any(Path(word).name == "oh-daemon" for word in words)


def install_extension(home: Path, extensions: Path, package: Path = EXTENSION / "oh.vsix") -> None:
    """Install the packed extension, as a user would."""
    install = code_server(home, extensions, "--install-extension", str(package))
    environment = host_environment(home)
    subprocess.run(install, env=environment, check=True, capture_output=True, timeout=120)


def code_server(home: Path, extensions: Path, *options: str) -> list[str]:
    config = home / "code-server.yaml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text("{}")
    entry = str(HOST / "out/node/entry.js")
    folders = ["--user-data-dir", str(home), "--extensions-dir", str(extensions)]
    return [NODE, entry, "--config", str(config), *folders, *options]


def host_environment(home: Path) -> dict[str, str]:
    """Return an environment without an extension gallery, so that nothing is looked up."""
    variables = {
        k: v for k, v in os.environ.items() if not k.startswith(("VSCODE_", "NODE_OPTIONS"))
    }
    return variables | {"HOME": str(home), "XDG_CONFIG_HOME": str(home), "EXTENSIONS_GALLERY": "{}"}
