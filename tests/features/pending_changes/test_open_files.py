"""Changes of files that other programs have open: real programs, outside of every sandbox."""

from __future__ import annotations

import json
import shutil
import sqlite3
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from apply_child import Kept, land, planned_change, tool_at
from open_files import (
    APPENDING,
    DATABASE_SERVER,
    READING,
    WRITING,
    check_rows,
    contents,
    running,
)

from oh_daemon.kernel.ports import Intent

Json = dict[str, Any]


def plan_files(
    place: Path, before: Mapping[str, bytes], after: Mapping[str, bytes], **more: Any
) -> None:
    """Write a plan that turns some files of the project into others."""
    (place / "blobs").mkdir(exist_ok=True)
    store = Kept(place / "blobs")
    changes = [
        planned_change(store, place / "project" / name, before.get(name), after.get(name), **more)
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name)
    ]
    (place / "landing.json").write_text(json.dumps({"changes": changes, "itemFields": {}}))


def question(place: Path) -> Intent:
    return tool_at(place).plan({})


def report(place: Path, *, asks: bool) -> str:
    return "".join(part["text"] for part in land(place, asks=asks).content)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    log = tmp_path / "project/dev.log"
    log.parent.mkdir()
    log.write_text("one\ntwo\n")
    return log


@pytest.mark.parametrize("argv", [*APPENDING.values(), *WRITING.values()])
def test_replaced_text_that_a_program_writes_is_named_and_keeps_its_inode(
    tmp_path: Path, log: Path, argv: tuple[str, ...]
) -> None:
    inode = log.stat().st_ino
    with running(*argv, file=log) as process:
        plan_files(tmp_path, contents(log.parent), {"dev.log": b"ONE\n"})
        intent = question(tmp_path)
        assert "dev.log is open for writing in " in intent.reasons[0]
        assert f"(process {process.pid})" in intent.reasons[0]
        assert intent.outside_floor
        assert "Left as it was: dev.log" in report(tmp_path, asks=False)
        assert log.read_text() == "one\ntwo\n"
        report(tmp_path, asks=True)
        assert (log.read_text(), log.stat().st_ino) == ("ONE\n", inode)


@pytest.mark.parametrize("argv", APPENDING.values())
def test_lines_appended_to_a_log_follow_those_of_its_writer(
    tmp_path: Path, log: Path, argv: tuple[str, ...]
) -> None:
    inode = log.stat().st_ino
    with running(*argv, file=log):
        before = log.read_bytes()
        plan_files(tmp_path, {"dev.log": before}, {"dev.log": before + b"agent\n"})
        first = question(tmp_path)
        with log.open("a") as other_writer:
            other_writer.write("theirs\n")
        assert question(tmp_path).digest_material == first.digest_material
        assert first.reasons == ()
        for _ in range(2):  # As after a kill: nothing is written twice.
            report(tmp_path, asks=False)
            assert log.read_bytes() == before + b"theirs\nagent\n"
        assert log.stat().st_ino == inode


def test_writer_with_a_position_of_its_own_is_named_before_an_append(
    tmp_path: Path, log: Path
) -> None:
    before = log.read_bytes()
    with running(*WRITING["redirection"], file=log):
        plan_files(tmp_path, {"dev.log": before}, {"dev.log": before + b"agent\n"})
        assert "dev.log is open for writing in bash" in question(tmp_path).reasons[0]


def test_appended_line_is_shown_by_tail(tmp_path: Path, log: Path) -> None:
    before = log.read_bytes()
    with running(*READING["tail"], file=log) as process:
        plan_files(tmp_path, {"dev.log": before}, {"dev.log": before + b"agent\n"})
        report(tmp_path, asks=False)
        assert process.stdout is not None
        while (line := process.stdout.readline()) != "agent\n":
            assert line


@pytest.mark.parametrize("argv", READING.values())
def test_file_that_programs_only_read_is_replaced_without_a_reason(
    tmp_path: Path, log: Path, argv: tuple[str, ...]
) -> None:
    with running(*argv, file=log):
        plan_files(tmp_path, {"dev.log": log.read_bytes()}, {"dev.log": b"ONE\n"})
        assert question(tmp_path).reasons == ()
        report(tmp_path, asks=False)
    assert log.read_text() == "ONE\n"


RARE_MODES = [pytest.param(n, marks=pytest.mark.full) for n in ("TRUNCATE", "MEMORY", "OFF")]
JOURNAL_MODES = ("DELETE", "PERSIST", "WAL", *RARE_MODES)


def changed_database(project: Path, place: Path) -> dict[str, bytes]:
    """Return the files after a command added rows, without the locks of other processes."""
    shutil.copytree(project, place)
    with closing(sqlite3.connect(place / "app.db")) as db, db:
        db.executemany("INSERT INTO t VALUES (?)", [(n,) for n in range(5)])
    return contents(place)


@pytest.mark.parametrize("mode", JOURNAL_MODES)
def test_database_that_a_server_has_open_is_named_and_loses_no_row(
    tmp_path: Path, mode: str
) -> None:
    database = tmp_path / "project/app.db"
    database.parent.mkdir()
    with running(sys.executable, "-c", DATABASE_SERVER, "FILE", mode, file=database) as server:
        before = contents(database.parent)
        after = changed_database(database.parent, tmp_path / "sandbox")
        plan_files(tmp_path, before, after, raw="bytes")
        changed_names = {n for n in {*before, *after} if before.get(n) != after.get(n)}
        reasons = "\n".join(question(tmp_path).reasons)
        words = report(tmp_path, asks=False)
        for name in changed_names:
            assert f"{name} is open for writing in python" in reasons
            assert f"Left as it was: {name}: " in words
        assert contents(database.parent) == before
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write("\n")
        server.stdin.flush()
        assert server.stdout.readline() == "20\n"
        check_rows(database, 20)


@pytest.mark.parametrize("mode", ["DELETE", "WAL"])
def test_database_that_nobody_has_open_is_applied_with_its_journals(
    tmp_path: Path, mode: str
) -> None:
    database = tmp_path / "project/app.db"
    database.parent.mkdir()
    with running(sys.executable, "-c", DATABASE_SERVER, "FILE", mode, file=database):
        pass
    before = contents(database.parent)
    plan_files(
        tmp_path, before, changed_database(database.parent, tmp_path / "sandbox"), raw="bytes"
    )
    assert question(tmp_path).reasons == ()
    report(tmp_path, asks=False)
    check_rows(database, 15)


PARTS = {
    "app.db": (b"\0old", b"\0new"),
    "app.db-wal": (b"\0frames", None),
    "app.db-shm": (None, b"\0index"),
}


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("is_omitted", [False, True])
def test_database_is_applied_whole_or_not_at_all(
    tmp_path: Path, part: str, *, is_omitted: bool
) -> None:
    """One part is left out of the plan, or it changed on the disk meanwhile."""
    project = tmp_path / "project"
    project.mkdir()
    before = {name: old for name, (old, _) in PARTS.items() if old is not None}
    after = {name: new for name, (_, new) in PARTS.items() if new is not None}
    plan_files(tmp_path, before, after, raw="bytes")
    for name, data in before.items():
        (project / name).write_bytes(data)
    (project / part).write_bytes(b"\0of another program")
    plan = json.loads((tmp_path / "landing.json").read_text())
    if is_omitted:
        plan["changes"] = [row for row in plan["changes"] if not row["uri"].endswith(part)]
        plan["omitted"] = {part: "it is too large"}
    (tmp_path / "landing.json").write_text(json.dumps(plan))
    now = contents(project)
    words = report(tmp_path, asks=True)
    assert contents(project) == now
    assert all(f"Left as it was: {name}: " in words for name in PARTS)
