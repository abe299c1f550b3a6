"""Where the shells of a test run: beside the daemon, or in a sandbox, as the whole run wants it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from oh_daemon.features.sandbox import bwrap
from oh_daemon.features.sandbox.mounts import SandboxMounts
from oh_daemon.features.sandbox.overlay import OverlaySandbox
from oh_daemon.system.spawner import Spawner

LEVEL = os.environ.get("OH_TEST_SANDBOX", "off")
"""The value of the setting `sandbox` for the tests of terminals and processes."""


def view_of(host: Spawner, project: Path) -> OverlaySandbox | None:
    """Return an overlay of the project, if this run has one; its layers lie outside the project."""
    if LEVEL != "overlay":
        return None
    program = next(bwrap.candidates(os.environ["PATH"], [project]))
    temporary = Path(tempfile.gettempdir()).resolve()
    ground = SandboxMounts(program, [project], [temporary], [Path("/run")])
    return OverlaySandbox(host, ground, project.parent / f"{project.name}-views/one")
