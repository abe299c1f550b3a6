"""The agent's browser: Playwright's MCP server, with the Chromium of this machine.

`browser.json` pins the server. npx fetches it, but where there is a sandbox its code runs only
inside.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from oh_daemon.common.cancel import Cancelled, CancelToken
from oh_daemon.features.mcp.servers import Confinement, ServerPool
from oh_daemon.features.network.command_network import PROXY_URL
from oh_daemon.features.network.host_consent import BROWSER
from oh_daemon.kernel.conversation import Conversation
from oh_daemon.kernel.extension_points import Feature
from oh_daemon.kernel.ports import Caveat, Json
from oh_daemon.protocol.errors import ToolError
from oh_daemon.protocol.mcp import McpServerSettings
from oh_daemon.protocol.settings import Settings
from oh_daemon.system.spawner import Spawner, Spawners

PINNED: Json = json.loads(Path(__file__).with_name("browser.json").read_text())
LAUNCH = Path(__file__).with_name("playwright.json")
"""The server's configuration: flags that stop the requests of Chromium's own services.

Playwright passes `--disable-background-networking`, `--disable-component-update` and more, but the
full Chromium and Chrome still connect to other hosts than a page's, about which the user would be
asked: for on-device models (`update.googleapis.com`), accounts (`accounts.google.com`), each form
(`content-autofill.googleapis.com`) and a dictionary once text is typed (`redirector.gvt1.com`).
No switch turns the first three off, so they connect to a closed port of this machine. A second
`--blink-settings` replaces Playwright's, so its values are repeated before ours. A second
`--disable-features` would replace Playwright's long list.
"""
HELD = "the browser runs in the sandbox, where it changes nothing outside"
_START_S = 300.0
_WAIT_S = 60.0
"""How long a step waits for it; the first start on a machine downloads 20 MB."""
_INSIDE = ("--no-sandbox", "--proxy-server", PROXY_URL, "--proxy-bypass", "localhost,127.0.0.1,::1")
"""Chromium's own sandbox needs namespaces, of which a sandbox has no more."""
_NOT_HELD = Caveat(
    "browserNotHeld",
    "The browser runs outside the sandbox",
    "You are asked before it does something, but not about the hosts that its pages reach. "
    "`oh-daemon doctor` says how to get the level `overlay`, which holds it.",
)
_NO_NODE = "it needs Node with npx: install it (`apt install npm`), or turn `browser` off"
_NO_CHROMIUM = "it needs Chromium: install it (`apt install chromium`), or turn `browser` off"


class Browser(Feature):
    """The browser of one conversation, if the settings want one."""

    def __init__(
        self,
        mcp: ServerPool,
        settings: Callable[[], Settings],
        refusal: Callable[[], str | None],
        cwd: Path,
        spawners: Spawners,
        settle: Callable[[CancelToken], str | None],
    ) -> None:
        """`refusal` returns why nothing may start; for `settle` see `Confinement`."""
        self._settings = settings
        self._refusal = refusal
        self._spawners = spawners
        self._cancel = CancelToken()
        inside = spawners.inside
        self.servers = mcp.beside(self._settings_wanted, cwd, self._prepare)
        self.servers.wait_s = _WAIT_S
        self.servers.confinement = Confinement(HELD, settle) if inside else None
        self.servers.caveat = None if inside else _NOT_HELD

    def _settings_wanted(self) -> dict[str, McpServerSettings]:
        settings = self._settings()
        if not settings.browser or BROWSER in settings.mcp_servers:
            return {}
        return {BROWSER: McpServerSettings(command="node", start_timeout_s=_START_S)}

    def _prepare(self, server: McpServerSettings) -> tuple[Spawner, McpServerSettings]:
        if refusal := self._refusal():
            raise ToolError(refusal)
        chromium = find_programs()
        program = self._fetch_server()
        is_root = os.geteuid() == 0  # Chromium refuses its own sandbox to root.
        sandbox_flags = (
            _INSIDE if self._spawners.inside else ("--no-sandbox" if is_root else "--sandbox",)
        )
        output = Path.home() / ".cache" / "oh-daemon-browser"
        own = ("--config", str(LAUNCH), "--executable-path", chromium, "--output-dir", str(output))
        args = (program, *PINNED["arguments"], *own, *sandbox_flags)
        return self._spawners.for_project_programs(), server.model_copy(update={"args": args})

    def _fetch_server(self) -> str:
        """Return the server's program, which is downloaded if it is not here, but not run.

        In the home folder, no project says where npx downloads from or what it finds.
        """
        package = f"--package={PINNED['package']}@{PINNED['version']}"
        where = ("-c", f"command -v {PINNED['program']}")
        argv = ("npx", "--yes", "--ignore-scripts", "--no-update-notifier", package, *where)
        try:
            result = self._spawners.host.run(
                argv, cwd=Path.home(), timeout_s=_START_S, cancel=self._cancel
            )
        except Cancelled as exc:
            raise ToolError("the conversation was closed") from exc
        if result.exit_code or not result.stdout.strip():
            lines = result.stderr.decode(errors="replace").strip().splitlines()
            raise ToolError(f"npx cannot fetch {package.partition('=')[2]}: {' '.join(lines[:2])}")
        return result.stdout.decode().strip()

    def before_step(self, _conversation: Conversation, _cancel: CancelToken) -> None:
        self.servers.begin()

    def close(self) -> None:
        self._cancel.cancel()
        self.servers.close()


def find_programs() -> str:
    """Return the program of a browser; Ubuntu's snap cannot be started in a sandbox.

    Raises `ToolError` if there is none, or no Node for the browser's server.
    """
    if shutil.which("npx") is None:
        raise ToolError(_NO_NODE)
    browsers: Sequence[str] = PINNED["browsers"]
    for name in browsers:
        program = shutil.which(name)
        if program and Path(program).resolve().name != "snap":
            return program
    raise ToolError(_NO_CHROMIUM)
