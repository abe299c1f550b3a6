"""Handler of `daemon/status`."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from oh_daemon.conversations.conversations import Conversations
from oh_daemon.conversations.description import status_of
from oh_daemon.features.sandbox.levels import Sandbox
from oh_daemon.jsonrpc.outbox import Outbox
from oh_daemon.protocol import daemon_messages as m
from oh_daemon.protocol.problems import render_problem
from oh_daemon.protocol.settings import Merged


def daemon_status(  # noqa: PLR0913 - a handler names each part that it takes.
    *,
    conversations: Conversations,
    settings: Callable[[Path | None], Merged],
    sandbox: Callable[[Sequence[Path]], Sandbox],
    is_sandbox_known: Callable[[], bool],
    outbox: Outbox,
    started_at: float,
    workers: Executor,
    folders: Sequence[Path],
) -> Any:
    """Answer at once: on a worker, it would wait for all conversations that are being opened.

    The first time, the sandbox may still have to be tested, and a worker waits for that.
    """

    def status() -> m.DaemonStatusResult:
        journals = (
            open_conversation.conversation.journal for open_conversation in conversations.all_open()
        )
        problems = settings(next(iter(folders), None)).problems
        return m.DaemonStatusResult(
            version=_version(),
            pid=os.getpid(),
            uptime_s=round(time.monotonic() - started_at, 3),
            rss_bytes=_rss_bytes(),
            conversations=tuple(
                m.ConversationLoad.model_validate({"id": each.id, "status": status_of(each)})
                for each in journals
            ),
            writer_queue_bytes=outbox.queued_bytes,
            sandbox=m.SandboxInfo.model_validate(sandbox(folders).report),
            warnings=tuple(map(render_problem, problems)),
        )

    return status() if is_sandbox_known() else workers.submit(status)


@cache
def _version() -> str:
    """Return the version of the package. Reads the disk once."""
    return version("oh-daemon")


def _rss_bytes() -> int:
    """Return the memory in use now; 0 where the system does not say."""
    try:
        pages = int(os.pread(_statm(), 256, 0).split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


@cache
def _statm() -> int:
    """Open it once: under load, each system call is a wait for the interpreter."""
    return os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
