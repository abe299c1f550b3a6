"""Which calls of an answer were made in the belief that an earlier one would succeed. Pure.

The model makes all calls of one answer before it knows a result. What builds on a change that was
not made would do harm: an `undo` takes back an older, good edit, and tests run on the old code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from posixpath import normpath

from oh_daemon.kernel.pending_changes import is_own
from oh_daemon.kernel.state import is_tool_item
from oh_daemon.protocol import plain

_CHANGES = {"edit", "delete", "move"}
_NOT_MADE = {"failed", "rejected"}
_FILE_OF_A_PATCH = re.compile(r"(?m)^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.+?)\s*$")


def skip_reason(item: plain.ToolItem, items: Sequence[plain.Item]) -> str | None:
    """Return what to tell the model when this call builds on one of its answer that failed."""
    for earlier in _before(item, items):
        if earlier["status"] in _NOT_MADE and _is_change(earlier) and _builds_on(item, earlier):
            return (
                f"Skipped: it builds on {earlier['title']!r} of the same answer, which was not"
                " done. Look at why, and decide again."
            )
    return None


def _before(item: plain.ToolItem, items: Sequence[plain.Item]) -> Iterator[plain.ToolItem]:
    """Yield the calls of the same answer that come before this one, newest first."""
    is_before = False
    for each in reversed(items):
        if not is_tool_item(each) or is_own(each):
            continue
        if each["call"]["batch"] != item["call"]["batch"]:
            return
        if is_before:
            yield each
        is_before = is_before or each["id"] == item["id"]


def _is_change(item: plain.ToolItem) -> bool:
    return item["toolKind"] in _CHANGES and item["args"].get("command") != "view"


def _builds_on(item: plain.ToolItem, failure: plain.ToolItem) -> bool:
    if item["toolKind"] == "execute" or item["tool"] == "finish":
        # After the user's "no" to one call, the others are asked about for themselves.
        return failure["status"] == "failed" and not item["args"].get("is_input")
    return _is_change(item) and any(
        _is_same(one, other_path) for one in _paths(item) for other_path in _paths(failure)
    )


def _paths(item: plain.ToolItem) -> list[str]:
    """Return the paths as the model wrote them."""
    args = item["args"]
    paths = [str(args["path"])] if "path" in args else []
    return [*paths, *_FILE_OF_A_PATCH.findall(str(args.get("input", "")))]


def _is_same(one: str, other_path: str) -> bool:
    """Return whether two paths may name one file; one may be absolute, the other relative."""
    first, second = sorted((normpath(one), normpath(other_path)), key=len)
    return first == second or second.endswith(f"/{first}")
