"""The daemon's own log file."""

import logging
import os
import stat
from pathlib import Path

from oh_daemon.common.masking import Masker
from oh_daemon.conversations.daemon_log import log_quietly_to


def test_the_file_is_for_this_user_only_also_when_it_is_full_and_begun_anew(tmp_path: Path) -> None:
    root = logging.getLogger("oh_daemon")
    before, level, umask = {*root.handlers}, root.level, os.umask(0)
    try:
        log_quietly_to(tmp_path / "log" / "daemon.log", "INFO", Masker())
        for _ in range(16):
            root.info("x" * (1 << 20))
    finally:
        os.umask(umask)
        root.setLevel(level)
        for handler in {*root.handlers} - before:
            root.removeHandler(handler)
            handler.close()
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*")}
    files = ("daemon.log", "daemon.log.1", "daemon.log.2")
    assert modes == {"log": 0o700, **dict.fromkeys(files, 0o600)}
