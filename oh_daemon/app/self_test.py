"""The sandbox's self-test of one process: runs once, on a thread, while other things go on.

Its result is kept for the next start, whose `initialize` then waits for nothing (decision 66).
Nothing slow is imported on the thread of the caller.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotInTime
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from oh_daemon.contract.settings import SandboxSetting, Settings
    from oh_daemon.sandbox.levels import Row, Sandbox

_FILE = "sandbox.json"
_WANTED = ("auto", "view", "landlock", "off")
_KEPT_WAIT_S = 5.0
"""For a small file to be read, which takes long on a machine that is very busy."""
_FIRST_WAIT_S = 0.3


class SelfTest:
    """Safe from any thread."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.environment = environment
        self._lock = threading.Lock()
        self._is_started = False
        self._told: dict[str, str] | None = None
        self._is_awaited = threading.Event()
        self._has_looked = threading.Event()
        """Set when it is known whether there is a kept result."""
        self._expected: Future[Sequence[Row]] = Future()
        self._rows: Future[Sequence[Row]] = Future()

    def is_known(self) -> bool:
        """Whether the test has ended, so that nobody waits for it."""
        return self._rows.done()

    def start(self) -> None:
        """Begin; the test itself waits until it is needed, if its last result may still hold."""
        with self._lock:
            if not self._is_started:
                self._is_started = True
                threading.Thread(target=self._run, name="self-test", daemon=True).start()

    def sandbox(self, wanted: SandboxSetting) -> Sandbox:
        """Return what holds commands now; waits for the test."""
        from oh_daemon.sandbox.levels import choose  # noqa: PLC0415 - not before `initialize`.

        return choose(wanted, self.rows())

    def rows(self) -> Sequence[Row]:
        """Return the tries; waits for the test."""
        self.start()
        self._is_awaited.set()
        return self._rows.result()

    def report(self, client: Mapping[str, Any]) -> dict[str, str] | None:
        """Return what to tell a client with these settings at its start; None if it takes long.

        Only the first start after one of the machine waits at all.
        """
        self._has_looked.wait(_KEPT_WAIT_S)
        try:
            rows = self._expected.result(_FIRST_WAIT_S)
        except NotInTime:
            return None
        from oh_daemon.sandbox.levels import choose  # noqa: PLC0415 - the thread has imported it.

        self._told = choose(self._wanted(client), rows).report
        return self._told

    def verify(
        self, settings: Callable[[], Settings], on_change: Callable[[Sandbox], None]
    ) -> None:
        """Let the test run now, and say when its result is not what `report` returned."""

        def compare(rows: Future[Sequence[Row]]) -> None:
            from oh_daemon.sandbox.levels import choose  # noqa: PLC0415 - as above.

            found = choose(settings().sandbox, rows.result())
            if self._told not in (None, found.report):
                on_change(found)

        self._is_awaited.set()
        self._rows.add_done_callback(compare)

    def _wanted(self, client: Mapping[str, Any]) -> SandboxSetting:
        """Read one setting without the models of all, which take long to import."""
        of_user = _read(_places(self.environment)[0])
        sources = (client.get("sandbox"), self.environment.get("OH_DAEMON_SANDBOX"))
        named = (value for value in (*sources, of_user.get("sandbox")) if value in _WANTED)
        return cast("SandboxSetting", next(named, "auto"))

    def _run(self) -> None:
        try:
            self._rows.set_result(self._tried())
        except BaseException as exc:  # noqa: BLE001 - raised again where somebody waits.
            self._rows.set_exception(exc)
            if not self._expected.done():
                self._expected.set_exception(exc)
            self._has_looked.set()

    def _tried(self) -> Sequence[Row]:
        from oh_daemon.sandbox.levels import Row, try_levels  # noqa: PLC0415 - slow.
        from oh_daemon.workspace.spawner import Spawner  # noqa: PLC0415

        folder = _places(self.environment)[1]
        machine = _machine(self.environment)
        kept = _read(folder / _FILE)
        is_known = kept.get("machine") == machine
        if is_known:
            self._expected.set_result([Row(a, b, cause=c, cure=d) for a, b, c, d in kept["rows"]])
        self._has_looked.set()
        if is_known:
            self._is_awaited.wait()
        spawner = Spawner()
        rows = try_levels(spawner, folder, self.environment)
        spawner.close()
        if not self._expected.done():
            self._expected.set_result(rows)
        told = [[row.level, row.holds, row.cause, row.cure] for row in rows]
        _keep(folder / _FILE, {"machine": machine, "rows": told})
        return rows


def _places(environment: Mapping[str, str]) -> tuple[Path, Path]:
    from oh_daemon.app.places import Places  # noqa: PLC0415 - imports what is slow to import.

    places = Places.of_user(environment)
    return places.settings_file, places.state_folder


def _machine(environment: Mapping[str, str]) -> list[str]:
    """Return what a kept result depends on, as far as that can be read in no time."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        boot = ""
    ours = [version("oh-daemon"), sys.prefix]
    theirs = [environment.get(name, "") for name in ("PATH", "XDG_RUNTIME_DIR")]
    return [boot, os.uname().release, *ours, *theirs]


def _read(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _keep(file: Path, value: dict[str, Any]) -> None:
    from oh_daemon.contract.errors import DaemonError  # noqa: PLC0415 - slow, as the next.
    from oh_daemon.store.private_files import replace_file  # noqa: PLC0415

    with suppress(OSError, DaemonError):
        replace_file(file, json.dumps(value).encode())
