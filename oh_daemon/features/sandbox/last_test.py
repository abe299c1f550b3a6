"""What the last self-test of the sandbox found here, told before anything slow is imported.

`self_test` keeps it and verifies it. Whether it may still hold is seen by what it depends on.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

from oh_daemon.common.minimal_json import parse
from oh_daemon.features.sandbox.level_choice import choose_rows, report
from oh_daemon.features.settings.places import user_files
from oh_daemon.protocol.version import VERSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from oh_daemon.protocol.settings import SandboxSetting

    Json = dict[str, Any]

_FORM = "2"
"""Form of the kept result; another one counts as none."""
_SETTINGS = ("auto", "overlay", "landlock", "off")


def last_report(client: Json, environment: Mapping[str, str]) -> dict[str, str] | None:
    """Return what to tell a client with these settings; None if no test is known to hold."""
    rows = last_rows(environment)
    if rows is None:
        return None
    setting = level_setting(client, environment)
    return report(setting, rows, *choose_rows(setting, rows))


def level_setting(client: Json, environment: Mapping[str, str]) -> SandboxSetting:
    """Read one setting without the models of all, which take long to import."""
    of_user = _read(user_files(environment)[0])
    values = (
        *(client.get("sandbox"), environment.get("OH_DAEMON_SANDBOX") or None),
        *(of_user.get("sandbox"), "auto"),
    )
    setting: Any = next(value for value in values if value is not None)
    return setting if setting in _SETTINGS else "overlay"  # As `merge_settings` does.


def last_rows(environment: Mapping[str, str]) -> Sequence[tuple[str, bool, str, str]] | None:
    """Return level, success, cause and cure of each try, if this is the machine of the test."""
    record = _read(result_file(environment))
    return record["rows"] if record.get("machine") == machine(environment) else None


def result_file(environment: Mapping[str, str]) -> str:
    return f"{user_files(environment)[2]}/sandbox.json"


def machine(environment: Mapping[str, str]) -> list[str]:
    """Return what a kept result depends on, as far as that can be read in no time."""
    boot = _bytes("/proc/sys/kernel/random/boot_id").decode().strip()
    variables = [environment.get(name, "") for name in ("PATH", "XDG_RUNTIME_DIR")]
    return [boot, os.uname().release, VERSION, _FORM, sys.prefix, *variables]


def _read(path: str) -> Json:
    try:
        record = parse(_bytes(path))
    except ValueError:
        return {}
    return record if type(record) is dict else {}  # pyright: ignore[reportUnknownVariableType] - any JSON.


def _bytes(path: str) -> bytes:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - `pathlib` takes 15 ms to import.
            return file.read()
    except OSError:
        return b""
