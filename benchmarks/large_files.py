"""Measures the CPU that one small change of a large file costs the daemon, from call to applied.

`make bench BENCH_ARGS="large_files 10"` (MB; default 10) changes two lines of a JSON file in mode
`ask`, so each change is also shown in a question: by `edit` with the file closed, by `apply_patch`,
by `edit` in an open editor with unsaved text (at most 4.9 MB, as much as the daemon follows), and
by `sed -i` in an overlay sandbox. Prints a Markdown table: the CPU of the daemon alone, and the
wall time, of the second turn of a conversation; the first has a small file and all imports.
Asserts nothing.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from fake_llm import Step, call, say
from measure import Bench, bench

Json = dict[str, Any]
MAX_OPEN_MB = 4.9


def make_text(megabytes: float) -> str:
    """Return JSON with many equal lines, some of them in their thousands."""
    rows: list[str] = []
    size = 0
    while size < megabytes * 1e6:
        n = len(rows)
        row = {
            "id": n,
            "kind": f"kind {n % 400}",
            "name": f"name {n}",
            "url": f"https://example.org/things/{n % 5000}/index.html",
            "tags": ["a", f"b{n % 50}"],
            "text": "One line of prose, as most such files have it.",
        }
        rows.append(json.dumps(row, indent=2))
        size += len(rows[-1])
    return "[\n" + ",\n".join(rows) + "\n]\n"


def edits_of(text: str) -> list[tuple[str, str]]:
    """Return two lines, one at a fifth of the text and one at four fifths, each with a new text."""
    lines = [line for line in text.splitlines() if '"name"' in line]
    olds = [lines[len(lines) // 5], lines[-len(lines) // 5]]
    return [(old, old.replace("name ", "changed ")) for old in olds]


def by_edit(name: str, edits: list[tuple[str, str]]) -> Step:
    rows = [{"old_text": f"{old}\n", "new_text": f"{new}\n"} for old, new in edits]
    return call("edit", command="replace", path=name, edits=rows)


def by_patch(name: str, edits: list[tuple[str, str]]) -> Step:
    hunks = "".join(f"@@\n-{old}\n+{new}\n" for old, new in edits)
    patch = f"*** Begin Patch\n*** Update File: {name}\n{hunks}*** End Patch"
    return call("apply_patch", input=patch)


def by_sed(name: str, edits: list[tuple[str, str]]) -> Step:
    script = "; ".join(f"s/{old.strip()}/{new.strip()}/" for old, new in edits)
    return call("terminal", command=f"sed -i '{script}' {name}")


class Buffer:
    """An open document with unsaved text, which takes edits as an editor does."""

    def __init__(self, one: Bench, path: Path, text: str) -> None:
        self._client = one.client
        self._uri, self.text, self._version = path.as_uri(), text, 2
        document = {"uri": self._uri, "languageId": "json", "version": 1, "text": path.read_text()}
        one.client.notify("textDocument/didOpen", {"textDocument": document})
        self._notify([{"text": text}])
        one.client.answer("editor/applyEdit", self._apply)

    def _apply(self, params: Json) -> Json:
        changes: list[Json] = params["edit"]["documentChanges"][0]["edits"][::-1]
        lines = self.text.splitlines(keepends=True)
        for change in changes:
            start: dict[str, int] = change["range"]["start"]
            end: dict[str, int] = change["range"]["end"]
            head = lines[start["line"]][: start["character"]]
            tail = lines[end["line"]][end["character"] :]
            lines[start["line"] : end["line"] + 1] = [head + change["newText"] + tail]
        self.text, self._version = "".join(lines), self._version + 1
        events = [{"range": each["range"], "text": each["newText"]} for each in changes]
        self._notify(events)
        return {"applied": True, "saved": False}

    def close(self) -> None:
        self._client.notify("textDocument/didClose", {"textDocument": {"uri": self._uri}})

    def _notify(self, changes: list[Json]) -> None:
        document = {"uri": self._uri, "version": self._version}
        self._client.notify(
            "textDocument/didChange", {"textDocument": document, "contentChanges": changes}
        )


def cpu_s(daemon: psutil.Process) -> float:
    return sum(daemon.cpu_times()[:2])


def turn(one: Bench, way: Way, text: str, talk: str | None = None) -> tuple[str, float, float]:
    """Return the conversation, the CPU of the daemon and the wall time of one turn."""
    path = one.project / ("big.json" if talk else "small.json")
    path.write_text(text)
    edits = edits_of(text)
    buffer = Buffer(one, path, text.replace("[", "[ ", 1)) if way.is_open else None
    one.llm.play([way.step(path.name, edits), say("Done.")])
    daemon = psutil.Process(one.client.process.pid)
    before, start_s = cpu_s(daemon), time.monotonic()
    if talk is None:
        talk = one.start(options={"mode": "ask", "approval": "askRisky"})
        one.wait_for_turns(1)
    else:
        one.send(talk)
        one.wait_for_turns(2)
    result = talk, cpu_s(daemon) - before, time.monotonic() - start_s
    now = buffer.text if buffer else path.read_text()
    assert now.count('"changed ') == len(edits), now[:200]
    if buffer:
        buffer.close()
    return result


@dataclass(frozen=True)
class Way:
    name: str
    step: Callable[[str, list[tuple[str, str]]], Step]
    settings: Json
    is_open: bool = False


WAYS = (
    Way("edit", by_edit, {}),
    Way("apply_patch", by_patch, {"model": "openai/gpt-5"}),
    Way("edit, open and unsaved", by_edit, {}, is_open=True),
    Way("sed -i, sandboxed", by_sed, {"sandbox": "overlay"}),
)


def main(words: list[str]) -> None:
    megabytes = float(words[0]) if words else 10
    sys.stdout.write("| by | MB | daemon, s | wall, s |\n|---|---|---|---|\n")
    for way in WAYS:
        size = min(megabytes, MAX_OPEN_MB) if way.is_open else megabytes
        with bench(features={"applyEdit2": True}, **way.settings) as one:
            one.client.answer("approval/request", lambda _params: {"optionId": "allow-once"})
            talk, _, _ = turn(one, way, make_text(0.001))
            _, cpu, wall = turn(one, way, make_text(size), talk)
        sys.stdout.write(f"| {way.name} | {size:g} | {cpu:.2f} | {wall:.1f} |\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
