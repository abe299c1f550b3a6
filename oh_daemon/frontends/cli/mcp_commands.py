"""`oh-daemon mcp`: our tools for other agents, over stdio; `login` and `marks`: the user's servers.

If an editor's daemon shares its tools, this is a pipe to that daemon; else it works on the disk.
"""

from __future__ import annotations

import os
import stat
import sys
import webbrowser
from pathlib import Path

from oh_daemon.common.cancel import CancelToken
from oh_daemon.common.plain_text import display_escaped
from oh_daemon.conversations.daemon_log import log_quietly_to
from oh_daemon.conversations.services import ClientConnection, ConversationContext, compose
from oh_daemon.features.mcp.serving import serve_descriptors
from oh_daemon.features.settings.places import Places
from oh_daemon.frontends.mcp_server.served_tools import ServedTools, connect
from oh_daemon.frontends.serve.attach import pass_on
from oh_daemon.jsonrpc.stdio import claim_stdio
from oh_daemon.protocol.errors import InvalidParamsError
from oh_daemon.system.io_loop import run_on_loop
from oh_daemon.system.private_files import PrivateValues


def serve_mcp(folder: Path) -> int:
    """Serve one client until it hangs up. Raises `InvalidParamsError` when there is none."""
    _require_client()
    inbound, outbound = claim_stdio()
    places = Places(os.environ)
    peer = connect(places.tool_sockets, folder)
    if peer is not None:
        pass_on(peer, inbound, outbound)
        return 0
    services, user, _models = compose(places, {folder: True})
    try:
        context = ConversationContext(services, user, ClientConnection())
        tools = ServedTools(context, [folder])
        run_on_loop(serve_descriptors(inbound, outbound, tools), CancelToken())
    finally:
        services.close()
    return 0


def sign_in(name: str) -> None:
    """Sign the user in to a server of the settings. Raises `UserError`."""
    places = Places(os.environ)
    services, user, _models = compose(places, {})
    settings = user.settings.of(None).settings
    log_quietly_to(places.log_file, settings.log_level, services.masker)
    if name not in settings.mcp_servers:
        names = ", ".join(sorted(settings.mcp_servers)) or "none"
        raise InvalidParamsError(f"no MCP server {name!r} in the settings; known: {names}")
    # None of the others is started for this.
    servers = services.mcp.beside(lambda: {name: settings.mcp_servers[name]}, Path.cwd())
    try:
        info = servers.sign_in(name, _show)
    finally:
        servers.close()
        services.close()
    sys.stdout.write(f"{name!r} is connected, with {len(info.tools)} tools\n")


def show_marks(withdrawn_name: str | None) -> None:
    """Print the servers whose read-only marks the user trusts; withdraw that from one first.

    Raises `InvalidParamsError` for a name that has no such entry.
    """
    marks = PrivateValues(Places(os.environ).mcp_marks)
    identities = {entry["identity"]: str(entry["name"]) for entry in marks.all() if entry}
    if withdrawn_name is not None:
        names = ", ".join(sorted({*identities.values()})) or "none"
        if withdrawn_name not in identities.values():
            raise InvalidParamsError(
                f"no trusted read-only marks of {withdrawn_name!r}; trusted: {names}"
            )
        for identity in [each for each, name in identities.items() if name == withdrawn_name]:
            marks.forget(identity)
            del identities[identity]
    lines = [f"{display_escaped(name)}\n" for name in sorted({*identities.values()})]
    sys.stdout.write("".join(lines) or "No server's read-only marks are trusted.\n")


def _show(url: str) -> None:
    sys.stdout.write(f"Sign in with a browser on this machine:\n{display_escaped(url)}\n")
    sys.stdout.flush()
    webbrowser.open(url)


def _require_client() -> None:
    modes = [os.fstat(descriptor).st_mode for descriptor in (0, 1)]
    if not all(stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) for mode in modes):
        raise InvalidParamsError(
            "another agent starts this command, with pipes as stdin and stdout; add it to the MCP "
            "servers in that agent's settings"
        )
