"""Which level of sandbox is used, of those that were tried: pure, and imports nothing slow."""

from __future__ import annotations

from collections.abc import Sequence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from oh_daemon.protocol.settings import SandboxSetting

Tried = tuple[str, bool, str, str]
"""The level of one try, whether it holds, and if not or not well, the cause and its cure."""
_AUTO = ("overlay", "landlock")
"""What `auto` tries, best first."""


def choose_rows(setting: SandboxSetting, rows: Sequence[Tried]) -> tuple[int | None, int | None]:
    """Return the row of the best level that is wanted and holds, and the row that says more.

    That is what keeps a better level away, or else the one that holds.
    """
    levels = _AUTO if setting == "auto" else () if setting == "off" else (setting,)
    first_missing: int | None = None
    for level in levels:
        of_level = [index for index, row in enumerate(rows) if row[0] == level]
        usable = next((index for index in of_level if rows[index][1]), None)
        if usable is not None:
            return usable, usable if first_missing is None else first_missing
        if first_missing is None:
            first_missing = next(iter(of_level), None)
    return None, first_missing


def report(
    setting: SandboxSetting, rows: Sequence[Tried], chosen_index: int | None, why: int | None
) -> dict[str, str]:
    """Return the report for clients on the result of `choose_rows`."""
    cause, cure = ("", "") if why is None else rows[why][2:]
    level = "off" if chosen_index is None else rows[chosen_index][0]
    level_report = {"level": level, "setting": setting, "cause": cause, "cure": cure}
    return {name: value for name, value in level_report.items() if value}
