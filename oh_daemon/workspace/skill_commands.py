"""Runs the commands in a skill's text; the output, or the error, of each takes its place."""

from __future__ import annotations

from pathlib import Path

from oh_daemon.contract.errors import ToolError
from oh_daemon.core.cancel import Cancelled, CancelToken
from oh_daemon.core.secrets import Masker
from oh_daemon.workspace.output import CleanText
from oh_daemon.workspace.paths import shown
from oh_daemon.workspace.spawner import Spawner

TIMEOUT_S = 10.0
MAX_BYTES = 50_000


def output_of(
    command: str, spawner: Spawner, masker: Masker, cwd: Path, cancel: CancelToken
) -> str:
    """Return what the command prints to both streams, or what went wrong.

    Never raises, since a reader needs the rest of the skill as well.
    """
    try:
        argv = ["bash", "-c", f"exec 2>&1\n{command}"]
        ran = spawner.run(argv, cwd=cwd, timeout_s=TIMEOUT_S, cancel=cancel)
    except ToolError as exc:
        return f"[{shown(command)}: {exc}]"
    except Cancelled:
        return f"[{shown(command)}: interrupted]"
    clean = CleanText()
    text = (clean.feed(ran.stdout[:MAX_BYTES]) + clean.flush()).rstrip()
    if len(ran.stdout) > MAX_BYTES:
        text = masker.mask_start(text)
        text += f"\n[cut after {MAX_BYTES:,} of {len(ran.stdout):,} bytes]"
    if ran.exit_code:
        return f"[{shown(command)}: exit code {ran.exit_code}] {text}".rstrip()
    return text
