"""A landing that a kill cut short is finished by hash: nothing twice, nothing half."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from apply_child import Kept, land, planned_change
from places import TESTS

from oh_daemon.kernel.ports import ToolResult

Json = dict[str, Any]
CHILD = """
import json, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from apply_child import land
land(Path(sys.argv[2]))
"""
# Each is made at least once by some file of the landing, on its way or afterwards.
CALLS = ("renameat", "linkat", "unlinkat", "symlinkat", "mkdirat", "fchmod")
BEFORE = {"a.txt": "one\n", "b.txt": "same\ntwo\n", "gone.txt": "old\n", "run.sh": "echo\n"}
AFTER = {"a.txt": "ONE\n", "b.txt": "same\nTWO\n", "run.sh": "ECHO\n", "sub/new.txt": "new\n"}


def planned_at(place: Path) -> None:
    """Write the files as they were, and the landing of texts, bytes, a link and a folder."""
    blobs, project = place / "blobs", place / "project"
    blobs.mkdir(parents=True)
    project.mkdir()
    store = Kept(blobs)
    changes: list[Json] = []

    def change(name: str, before: bytes | None, after: bytes | None, **more: Any) -> None:
        changes.append(planned_change(store, project / name, before, after, **more))

    for name, text in BEFORE.items():
        (project / name).write_text(text)
    for name in {**BEFORE, **AFTER}:
        before, after = (texts.get(name) for texts in (BEFORE, AFTER))
        mode = {"mode_after": 0o755} if name == "run.sh" else {}
        old, new = (None if text is None else text.encode() for text in (before, after))
        change(name, old, new, **mode)
    (project / "logo.bin").write_bytes(b"\0\1")
    change("logo.bin", b"\0\1", b"\0\2", raw="bytes", mode_after=0o644)
    change("new.bin", None, b"\0\3", raw="bytes", mode_after=0o600)
    change("link", None, b"a.txt", raw="link")
    change("empty", None, None, raw="folder", op="add", mode_after=0o755)
    (place / "landing.json").write_text(json.dumps({"changes": changes, "itemFields": {}}))


def check_landed(project: Path, result: ToolResult) -> None:
    texts = {
        str(path.relative_to(project)): path.read_text()
        for path in project.rglob("*")
        if path.suffix in {".txt", ".sh"}
    }
    assert texts == {**AFTER}
    assert (project / "run.sh").stat().st_mode & 0o777 == 0o755
    assert (project / "logo.bin").read_bytes() == b"\0\2"
    assert (project / "new.bin").read_bytes() == b"\0\3"
    assert (project / "link").readlink() == Path("a.txt")
    assert (project / "empty").is_dir()
    assert not [*project.rglob(".oh-*")]
    names = [change.uri.rpartition("/")[2] for change in result.item_fields.get("changes", ())]
    assert len(names) == len({*names}) == 9


@pytest.mark.parametrize(
    "call", [CALLS[0], *(pytest.param(call, marks=pytest.mark.full) for call in CALLS[1:])]
)
def test_a_landing_killed_at_any_file_is_finished_without_doing_anything_twice(
    tmp_path: Path, call: str
) -> None:
    for number in range(1, 40):
        place = tmp_path / f"{number}"
        planned_at(place)
        inject = f"inject={call}:signal=KILL:when={number}"
        tracer = ("strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={call}", "-e", inject)
        child = (sys.executable, "-B", "-c", CHILD, str(TESTS / "support"), str(place))
        result = subprocess.run((*tracer, *child), check=False, capture_output=True, timeout=300)
        check_landed(place / "project", land(place))
        if result.returncode == 0:
            assert number > 1
            return
    raise AssertionError("it was killed each time")
