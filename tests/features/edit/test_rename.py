"""The user's language server renames a symbol: one action, several files, all or none."""

from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from editor import Buffer, Editor, refuse
from fake_llm import Step, call, say
from language_server import FEATURES, LanguageServer, python_file
from world import World, content_of, items

from oh_daemon.conformance.rpc_process import WITHIN_S

pytestmark = pytest.mark.one_daemon

Json = dict[str, Any]
RENAME = call("rename", path="src/uses.py", line=2, symbol="load", new_name="fetch")
LOAD = "def load(name):\r\n    return name\r\n"
USES = 'from load import load\nx = "😀😀"; y = load(x)\n'
TYPED = USES + "# typed, load\n"


class Project:
    """A closed file with CR LF, an open one that is as on disk, an open one with unsaved text."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.closed_file = python_file(world, "a.py", LOAD)
        self.clean = python_file(world, "clean.py", "load(1)\n")
        self.dirty = python_file(world, "src/uses.py", USES)
        self.editor = Editor(world, features=FEATURES)
        self.editor.open(self.clean)
        self.buffer = self.editor.open(self.dirty, typed_text=TYPED)
        self.server = LanguageServer(world, self.editor)

    def start(self, *steps: Step, **options: str) -> str:
        self.world.script(*steps, say("Done."))
        return self.world.start(self.editor.client, options=options or {"approval": "askNever"})

    def run(self, *steps: Step) -> list[Json]:
        """Run one turn; return its edits."""
        self.start(*steps)
        self.world.turn(self.editor.client)
        return items(self.editor.client, "fileChange")

    def wait_for_approval(self, nth: int = 1) -> Json:
        event = self.editor.client.wait_for_event("approval.requested", nth=nth)
        return event["event"]["approval"]

    def allow(self, approval: Json) -> None:
        answer = {"approvalId": approval["id"], "digest": approval["digest"]}
        self.editor.client.request("approval/respond", {**answer, "optionId": "allow-once"})

    def texts(self) -> tuple[str, str, str, str]:
        """Return the closed file, the clean one, the dirty buffer, and the disk below it."""
        closed_text, clean, disk = (
            path.read_bytes().decode() for path in (self.closed_file, self.clean, self.dirty)
        )
        return closed_text, clean, self.buffer.text, disk


BEFORE = (LOAD, "load(1)\n", TYPED, USES)
AFTER = tuple(text.replace("load", "fetch") for text in BEFORE[:3])


def test_a_rename_is_asked_about_once_and_changes_all_files_and_can_be_undone(world: World) -> None:
    project = Project(world)
    undo = [call("edit", command="undo", path=path) for path in ("a.py", "src/uses.py")]
    conversation = project.start(RENAME, mode="ask", approval="askRisky")
    approval = project.wait_for_approval()
    assert approval["title"] == "Rename 'load' to 'fetch' in 3 files"
    assert all("+" in change["patch"] for change in approval["subject"]["changes"])
    assert project.texts() == BEFORE
    project.allow(approval)
    world.turn(project.editor.client)
    [rename_item] = items(project.editor.client, "fileChange")
    assert (rename_item["status"], [c["op"] for c in rename_item["changes"]]) == (
        "completed",
        ["modify"] * 3,
    )
    assert (*project.texts()[:3], project.texts()[3]) == (*AFTER, USES)
    assert "Edited src/uses.py: +3 -3 lines." in content_of(rename_item)
    assert sum("method" in request for request in project.server.requests) == 1
    files = project.editor.client.request("changes/list", {"conversationId": conversation})
    assert [file["state"] for file in files["files"]] == ["pending"] * 3
    world.script(*undo, say("Undone."))
    world.send(project.editor.client, conversation, "undo it")
    for nth in (2, 3):
        project.allow(project.wait_for_approval(nth))
    world.turn(project.editor.client, nth=2)
    assert project.texts() == (LOAD, "fetch(1)\n", TYPED, USES)


def test_old_name_that_still_stands_is_reported(world: World) -> None:
    """A server that still loads the project knows a part of its files only."""
    project = Project(world)
    (world.project / "docs").mkdir()
    (world.project / "docs/api.md").write_text("`load` reads.\nSo does load(1), not reload.\n")
    (world.project / ".env").write_text("load=1\n")
    honest = project.server.answers["textDocument/rename"]

    def partial(params: Json) -> Json:
        changes = honest(params)["documentChanges"]
        edits = [each for each in changes if "clean.py" not in each["textDocument"]["uri"]]
        return {"documentChanges": edits}

    project.server.answers["textDocument/rename"] = partial
    project.server.loading = ["gopls", "typos"]
    project.editor.type(project.clean, "x = load(2)\n")
    [item] = project.run(RENAME)
    assert project.buffer.text == TYPED.replace("load", "fetch")
    assert content_of(item).endswith(
        "['load' still stands in clean.py (1 line), docs/api.md (2 lines): other names, texts, or"
        " uses that the server does not know]\n"
        "[gopls, typos are still loading the project and may not know all of it]"
    )


def test_rename_of_all_uses_reports_nothing_more(world: World) -> None:
    [item] = Project(world).run(RENAME)
    assert "still stands" not in content_of(item)


def test_when_one_file_cannot_be_changed_the_others_are_taken_back(world: World) -> None:
    project = Project(world)
    project.editor.habits = [lambda _buffer: None, refuse("readonly")]
    [failed_item] = project.run(RENAME)
    assert failed_item["status"] == "failed"
    assert "readonly" in content_of(failed_item)
    assert project.texts() == BEFORE


def test_what_runs_is_what_was_shown_or_it_is_shown_again(world: World) -> None:
    project = Project(world)
    project.start(RENAME, mode="ask", approval="askRisky")
    first = project.wait_for_approval()
    project.editor.type(project.dirty, TYPED + "load\n")
    project.allow(first)
    second = project.wait_for_approval(2)
    assert "changed after you allowed it" in second["reason"]
    project.allow(second)
    world.turn(project.editor.client)
    assert project.texts()[2] == (TYPED + "load\n").replace("load", "fetch")


def test_an_edit_that_leaves_the_project_or_makes_no_sense_changes_nothing(world: World) -> None:
    project = Project(world)
    honest = project.server.answers["textDocument/rename"]
    span = {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 3}}
    git = world.project / ".git/config"

    def with_change(path: Path, *edits: Json) -> Callable[[Json], Json]:
        change = {"textDocument": {"uri": path.as_uri(), "version": None}, "edits": edits}
        return lambda p: {"documentChanges": [*honest(p)["documentChanges"], change]}

    def outdated_edit(params: Json) -> Json:
        edit = honest(params)
        edit["documentChanges"][-1]["textDocument"]["version"] -= 1
        return edit

    rename_change = {"kind": "rename", "oldUri": "file:///a", "newUri": "file:///b"}
    edit = {"range": span, "newText": "x"}
    lies: list[tuple[Callable[[Json], Any], str]] = [
        (lambda _params: None, "cannot rename"),
        (lambda _params: {}, "cannot rename"),
        (lambda _params: {"documentChanges": [rename_change]}, "make, move or remove files"),
        (lambda _params: {"changes": {"untitled:x": [edit]}}, "names no file"),
        (lambda _params: {"changes": {project.clean.as_uri(): [edit, edit]}}, "make no sense"),
        (with_change(world.home / "x.py", edit), "outside the open folders"),
        (with_change(git, edit), "git's own files"),
        (with_change(world.project / "none.py", edit), "is not there"),
        (with_change(project.clean, edit), "twice"),
        (outdated_edit, "changed just now"),
    ]
    answers = [answer for answer, _ in lies for _ in range(2)]

    def lying(params: Json) -> Any:
        return answers.pop(0)(params)

    project.server.answers["textDocument/rename"] = lying
    project.start(*([RENAME] * len(lies)))
    world.turn(project.editor.client)
    failed_calls = items(project.editor.client, "toolCall")
    assert [item["status"] for item in failed_calls] == ["failed"] * len(lies)
    for item, (_, text) in zip(failed_calls, lies, strict=True):
        assert text in content_of(item)
    assert project.texts() == BEFORE


def test_a_rename_that_is_interrupted_while_the_editor_edits_leaves_nothing_behind(
    world: World,
) -> None:
    project = Project(world)
    start_future: Future[str] = Future()

    def interrupt(_buffer: Buffer) -> Json:
        params = {"conversationId": start_future.result(WITHIN_S)}
        project.editor.client.request("conversation/interrupt", params)
        return {"applied": False, "failureReason": "rejected"}

    project.editor.habits = [interrupt]
    start_future.set_result(project.start(RENAME))
    world.turn(project.editor.client)
    [cut_item] = items(project.editor.client, "fileChange")
    assert cut_item["status"] == "cancelled"
    assert project.texts() == BEFORE
