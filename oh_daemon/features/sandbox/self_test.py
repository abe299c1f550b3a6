"""The sandbox's self-test of one process: runs once, on a thread, while other things go on.

Its result is kept for the next start, whose `initialize` then waits for nothing (decision 66).
Nothing slow is imported on the thread of the caller.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotInTime
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oh_daemon.features.sandbox.last_test import (
    last_report,
    last_rows,
    level_setting,
    machine,
    result_file,
)
from oh_daemon.protocol.errors import DaemonError

if TYPE_CHECKING:
    from oh_daemon.features.sandbox.levels import Sandbox, Trial
    from oh_daemon.protocol.settings import SandboxSetting, Settings

_FIRST_WAIT_S = 0.3


class SelfTest:
    """Safe from any thread."""

    def __init__(
        self, environment: Mapping[str, str], report: dict[str, str] | None = None
    ) -> None:
        """`report` is what a client has been told."""
        self.environment = environment
        self._lock = threading.Lock()
        self._is_started = False
        self._report = report
        self._is_awaited = threading.Event()
        self._rows: Future[Sequence[Trial]] = Future()

    def is_known(self) -> bool:
        """Whether the test has ended, so that nobody waits for it."""
        return self._rows.done()

    def start(self) -> None:
        """Begin; the test itself waits until it is needed, if its last result may still hold."""
        with self._lock:
            if not self._is_started:
                self._is_started = True
                threading.Thread(target=self._run, name="self-test", daemon=True).start()

    def sandbox(self, setting: SandboxSetting, folders: Sequence[Path]) -> Sandbox:
        """Return what holds commands now where these folders are open; waits for the test."""
        return _choose(setting, self.rows(), folders)

    def rows(self) -> Sequence[Trial]:
        """Return the tries; waits for the test."""
        self.start()
        self._is_awaited.set()
        return self._rows.result()

    def report(self, client: dict[str, Any]) -> dict[str, str] | None:
        """Return what to tell a client with these settings at its start; None if it takes long.

        Only the first start after one of the machine waits at all.
        """
        self._report = last_report(client, self.environment)
        if self._report is None:
            with suppress(NotInTime):
                rows = self._rows.result(_FIRST_WAIT_S)
                self._report = _choose(level_setting(client, self.environment), rows, ()).report
        return self._report

    def verify(
        self,
        settings: Callable[[], Settings],
        folders: Callable[[], Sequence[Path]],
        on_change: Callable[[Sandbox], None],
    ) -> None:
        """Let the test run now, and say when its result is not what `report` returned."""

        def compare(rows: Future[Sequence[Trial]]) -> None:
            choice = _choose(settings().sandbox, rows.result(), folders())
            if self._report not in (None, choice.report):
                on_change(choice)

        self.start()
        self._is_awaited.set()
        self._rows.add_done_callback(compare)

    def _run(self) -> None:
        try:
            self._rows.set_result(self._try_levels())
        except BaseException as exc:  # noqa: BLE001 - raised again where somebody waits.
            self._rows.set_exception(exc)

    def _try_levels(self) -> Sequence[Trial]:
        if last_rows(self.environment) is not None:
            self._is_awaited.wait()
        from oh_daemon.features.sandbox.levels import try_levels, with_mounts  # noqa: PLC0415 - slow.
        from oh_daemon.system.private_files import replace_file  # noqa: PLC0415
        from oh_daemon.system.spawner import Spawner  # noqa: PLC0415

        file = Path(result_file(self.environment))
        spawner = Spawner()
        rows = try_levels(spawner, file.parent, self.environment)
        spawner.close()
        report = {
            "machine": machine(self.environment),
            "rows": [row.as_tried for row in with_mounts(rows, ())],
        }
        with suppress(OSError, DaemonError):
            replace_file(file, json.dumps(report).encode())
        return rows


def _choose(setting: SandboxSetting, rows: Sequence[Trial], folders: Sequence[Path]) -> Sandbox:
    # Not before `initialize`, and then the thread of the test has imported it.
    from oh_daemon.features.sandbox.levels import choose, with_mounts  # noqa: PLC0415

    return choose(setting, with_mounts(rows, folders))
