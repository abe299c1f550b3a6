"""Compares what a conversation did with what it does when it is replayed. Pure.

Left out of every comparison: ids, times, and what only people see of a call. The tolerant one also
takes for equal, inside texts: folders, ids, dates, durations, and facts about the machine.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import unified_diff
from typing import cast, get_args

from msgspec import Struct

from oh_daemon.features.replay.recorded_answers import CUT
from oh_daemon.kernel.notices import EMPTY_ANSWER, code_of
from oh_daemon.kernel.pending_changes import is_own
from oh_daemon.kernel.ports import Json, ModelRequest
from oh_daemon.kernel.state import is_tool_item
from oh_daemon.protocol import plain
from oh_daemon.protocol.events import StuckPattern
from oh_daemon.storage.completions import render_completion

OF_CORE = {EMPTY_ANSWER, *get_args(StuckPattern)}
"""Codes of notices that the agent's loop itself makes."""
_LEFT_OUT = {
    *("id", "messageId", "clientMessageId", "batch", "startedAt", "endedAt", "durationMs", "meta"),
    *("usage", "title", "locations", "risk", "toolKind", "terminalId", "outputRef", "delivery"),
    # Estimates, which depend on the length of paths in the prompt.
    *("tokensBefore", "tokensAfter"),
    # What the model was told of the surroundings is in the requests.
    *("editor", "environment", "route", "undoLabel"),
}
_SENT = ("messages", "tools", "tool_choice")
_FOLDERS = re.compile(r"^# This workspace\nFolders, .*:\n((?:- /.*\n)+)", re.MULTILINE)
"""As `kernel.prompt` names them."""
_NEWS = re.compile(r"<note>(?:[a-z]+: .*\n?)+</note>")
_TOLERATED = (
    (re.compile(r"^# Environment\n(?:[a-z]+: .*\n?)+", re.MULTILINE), "# Environment\n"),
    (re.compile(r"\s*<environment>.*?</environment>", re.DOTALL), ""),
    (re.compile(r"\b[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}\b"), "<id>"),
    (re.compile(r"\b\d{4}-\d\d-\d\d(?:T[\d:.]+Z?)?\b"), "<date>"),
    (re.compile(r"\b\d+(?:\.\d+)? ?(?:s|ms|min)\b"), "<duration>"),
)


class ReplayDifference(Struct, frozen=True):
    """Where a replay first did something else, and both versions as lines."""

    where: str
    recorded_lines: Sequence[str]
    replayed_lines: Sequence[str]

    def lines(self) -> Iterator[str]:
        """Yield a unified diff."""
        return unified_diff(
            self.recorded_lines, self.replayed_lines, "recorded", "replayed", lineterm="", n=2
        )


class ReplayReport(Struct):
    """How a replay went, that of sub-agents included."""

    n_steps: int = 0
    n_requests: int = 0
    """Requests that were compared; the others were not recorded."""
    difference: ReplayDifference | None = None
    left_out: str = ""
    """Why the replay ended before the log did."""


class Comparison(Struct, frozen=True):
    """What counts as equal; `folders` do, whichever of them is named."""

    is_strict: bool = False
    folders: Sequence[str] = ()

    def difference(
        self, where: str, recorded_value: object, replayed_value: object
    ) -> ReplayDifference | None:
        if recorded_value == replayed_value:
            return None
        clean = str if self.is_strict else self._clean
        before, now = ([*_lines_of(each, clean)] for each in (recorded_value, replayed_value))
        return None if before == now else ReplayDifference(where, before, now)

    def _clean(self, text: str) -> str:
        for folder in self.folders:
            text = text.replace(folder, "<folder>")
        for pattern, name in _TOLERATED:
            text = pattern.sub(name, text)
        return text


def requests_differ(
    recorded_request: Json, request: ModelRequest, *, is_strict: bool
) -> ReplayDifference | None:
    """Compare a request with one that was kept, which may name other folders in its prompt."""
    now = json.loads(render_completion({"request": request}))["request"]
    before, now = (
        {key: each[key] for key in _SENT if key in recorded_request}
        for each in (recorded_request, now)
    )
    for each in () if is_strict else (before, now):
        # When git answers decides where that is told.
        each["messages"] = [m for m in each["messages"] if not _NEWS.fullmatch(str(m["content"]))]
    prompts = (str(each["messages"][0]["content"]) for each in (before, now))
    folders = [row[2:] for each in prompts for row in "".join(_FOLDERS.findall(each)).splitlines()]
    return Comparison(is_strict, folders).difference("the request", before, now)


def _lines_of(value: object, clean: Callable[[str], str], path: str = "") -> Iterator[str]:
    """Yield a value as lines, each with the path to it, that read well in a diff."""
    if isinstance(value, dict):
        for key, each in cast("Json", value).items():
            yield from _lines_of(each, clean, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for n, each in enumerate(cast("list[object]", value)):
            yield from _lines_of(each, clean, f"{path}[{n}]")
    elif isinstance(value, str):
        yield from (f"{path}: {line}" for line in clean(value).split("\n"))
    else:
        yield f"{path}: {json.dumps(value)}"


def is_compared(item: plain.Item) -> bool:
    """Return whether the agent's loop made the item, rather than a tool or the surroundings."""
    if item["kind"] == "notice":
        return code_of(item) in OF_CORE
    is_cut = item["kind"] in {"agentMessage", "reasoning"} and item.get("reason") in CUT
    return item["kind"] != "subagent" and not is_own(item) and not is_cut


def comparable(item: plain.Item, ids: Mapping[str, str]) -> Json:
    """Return what of an item must be the same; `ids` are those of the recording, by our own."""
    row: Json = {key: value for key, value in item.items() if key not in _LEFT_OUT}
    if is_tool_item(item):
        row["call"] = {key: value for key, value in item["call"].items() if key != "batch"}
    if item["kind"] == "command":
        # Where it was held decides whether these are known.
        row = {key: value for key, value in row.items() if key not in {"changes", "git", "cwd"}}
    if item.get("reason") in CUT:
        # How much there was of it depends on the moment.
        return {key: row[key] for key in ("status", "call") if key in row}
    if item.get("reason") == "invalidArguments" and row["call"]["arguments"] == "{}":
        del row["content"]  # It is about a text that the log does not have.
    if item["kind"] == "condensation":
        row["keepFrom"] = ids.get(item.get("keepFrom", ""), item.get("keepFrom"))
        row["pruned"] = sorted(ids.get(each, each) for each in item["pruned"])
        row["limits"] = {ids.get(key, key): n for key, n in (item.get("limits") or {}).items()}
    return row


def comparable_turn(turn: plain.Turn) -> Json:
    return {key: value for key, value in turn.items() if key not in _LEFT_OUT}


def name_of(item: plain.Item) -> str:
    return item["tool"] if is_tool_item(item) else item["kind"]
