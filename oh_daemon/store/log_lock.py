"""Who has a conversation's log open: what its owner wrote into the file `lock` beside it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from oh_daemon.contract.errors import ReadOnlyError
from oh_daemon.store.private_files import parse_object, read_private

Json = dict[str, Any]


def lock_owner(folder: Path) -> Json:
    """Return who has the log open, {pid, startedAt, client}; empty when nobody has. For people."""
    try:
        with read_private(folder / "lock") as file:
            # The file is empty for the moment in which its owner starts.
            owner = parse_object(file.read(4096))
    except (OSError, ReadOnlyError):
        return {}
    pid = owner.get("pid")
    if not isinstance(pid, int) or pid <= 0:
        return {}
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return {}
    except PermissionError:
        pass  # The process lives and belongs to another user.
    return owner
