from __future__ import annotations

import os
from base64 import b64decode
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pdf_files import pdf
from scripted_editor import MemoryBlobs, ScriptedEditor

from oh_daemon.common.cancel import CancelToken
from oh_daemon.common.masking import Masker
from oh_daemon.features.edit.edit import EditTool
from oh_daemon.kernel.ports import Intent, ToolContext, ToolResult
from oh_daemon.protocol.approvals import FileChangeSubject
from oh_daemon.protocol.errors import (
    EditRejectedError,
    PathOutsideWorkspaceError,
    StaleDocumentError,
    ToolError,
)
from oh_daemon.protocol.items import FileChange, FileChangeItem
from oh_daemon.workspace.concurrent_edits import PathLocks
from oh_daemon.workspace.documents import Documents
from oh_daemon.workspace.edit_history import EditHistory
from oh_daemon.workspace.paths import Folders

LINES = "".join(f"line {number}\n" for number in range(1, 9))


@dataclass
class Workspace:
    root: Path
    editor: ScriptedEditor
    blobs: MemoryBlobs
    locks: PathLocks
    tool: EditTool

    def plan(self, command: str, path: str, **args: Any) -> Intent:
        return self.tool.plan({"command": command, "path": path, **args})

    def run(self, command: str, path: str, **args: Any) -> ToolResult:
        """Plan and run, as a real call does."""
        self.plan(command, path, **args)
        context = ToolContext("c", "i", CancelToken(), lambda _: None, Masker())
        return self.tool.run({"command": command, "path": path, **args}, context)

    def ask(self, command: str, path: str, **args: Any) -> str:
        return self.run(command, path, **args).content[0]["text"]

    def change(self, command: str, path: str, **args: Any) -> FileChange:
        return next(iter(self.run(command, path, **args).item_fields.get("changes", ())))

    def write(self, name: str, text: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
        return path

    def mark_seen(self, name: str, text: str) -> Path:
        """Create a file that the agent has read."""
        path = self.write(name, text)
        self.ask("view", name)
        return path


def make_workspace(root: Path, blobs: MemoryBlobs | None = None) -> Workspace:
    root.mkdir(exist_ok=True)
    folders, editor, locks = Folders((root,)), ScriptedEditor(), PathLocks()
    blobs = blobs or MemoryBlobs()
    documents = Documents(folders, editor, EditHistory(folders, blobs), locks)
    return Workspace(root, editor, blobs, locks, EditTool(documents))


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return make_workspace(tmp_path / "work")


def test_view_has_true_line_numbers_and_says_how_to_page(workspace: Workspace) -> None:
    workspace.write("a.py", LINES)
    assert workspace.ask("view", "a.py", start_line=3, end_line=4) == (
        "     3\tline 3\n     4\tline 4\n[lines 3-4 of 8; view with start_line=5 for more]"
    )
    assert (
        workspace.ask("view", "a.py", start_line=7, end_line=99) == "     7\tline 7\n     8\tline 8"
    )
    with pytest.raises(ToolError, match=r"no lines from 9 to 8; the file has 8 lines"):
        workspace.ask("view", "a.py", start_line=9)


def test_pages_of_a_long_file_cover_every_line_once(workspace: Workspace) -> None:
    workspace.write("long.txt", "".join(f"{number} {'x' * 200}\n" for number in range(1, 1001)))
    numbers: list[int] = []
    while len(numbers) < 1000:
        page = workspace.ask("view", "long.txt", start_line=len(numbers) + 1)
        assert len(page.encode()) <= 32 << 10
        numbers += [int(line.split("\t")[0]) for line in page.splitlines() if "\t" in line]
    assert numbers == list(range(1, 1001))


def test_view_shows_what_is_special_about_the_end_and_long_lines(workspace: Workspace) -> None:
    notebook = '{"cells": [{"cell_type": "code", "source": "a", "outputs": []}]}'
    workspace.write("a.ipynb", notebook)
    assert workspace.ask("view", "a.ipynb").startswith("[cell 1, code]\na\n")
    assert workspace.ask("view", "a.ipynb", start_line=1).startswith(f"     1\t{notebook}")
    workspace.write("empty", "")
    workspace.write("open", "a\r\nb")
    workspace.write("wide", "y" * 5000 + "\n")
    assert workspace.ask("view", "empty") == "[the file is empty]"
    assert (
        workspace.ask("view", "open") == "     1\ta\n     2\tb\n[no newline at the end of the file]"
    )
    assert workspace.ask("view", "wide").endswith("y [line cut, 3,000 characters more]")


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        (b"\x89PNG\r\n\x1a\n\0", "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a\1\0\1\0", "image/gif"),
        (b"RIFF\x1a\0\0\0WEBPVP8 ", "image/webp"),
    ],
)
def test_an_image_is_viewed_as_an_image_whatever_its_name(
    workspace: Workspace, head: bytes, kind: str
) -> None:
    (workspace.root / "picture").write_bytes(head)
    text, image = workspace.run("view", "picture").content
    assert text["text"] == f"[picture: {kind}, {len(head)} bytes]"
    assert (image["type"], image["mimeType"]) == ("image", kind)
    assert b64decode(image["data"]) == head


def test_pdf_is_viewed_as_the_text_of_its_pages(tmp_path: Path) -> None:
    edit_tool = make_workspace(tmp_path)
    (edit_tool.root / "doc.pdf").write_bytes(pdf("One.", "Two."))
    (edit_tool.root / "scan.pdf").write_bytes(pdf("x", stream=b" "))
    (edit_tool.root / "ascii.pdf").write_bytes(b"%PDF-1.7\n1 0 obj\n<< >>\nendobj\n")
    page_text = edit_tool.ask("view", "doc.pdf")
    assert "     2\tOne.\n     3\t--- page 2 of 2 ---\n     4\tTwo.\n" in page_text
    assert "cannot be edited" in page_text
    later_lines = edit_tool.ask("view", "doc.pdf", start_line=4)
    assert ("Two." in later_lines, "One." in later_lines) == (True, False)
    for name in ("scan.pdf", "ascii.pdf"):
        with pytest.raises(ToolError, match="pdftotext"):
            edit_tool.ask("view", name)


def test_a_file_in_another_encoding_is_edited_in_it_or_not_at_all(workspace: Workspace) -> None:
    path = workspace.root / "a.py"
    path.write_bytes("# Élan vital, déjà vu\nx = 1\n".encode("latin-1"))
    assert "1\t# Élan vital, déjà vu" in workspace.ask("view", "a.py")
    workspace.run("replace", "a.py", old_text="x = 1", new_text="x = 'à la carte'")
    assert path.read_bytes() == "# Élan vital, déjà vu\nx = 'à la carte'\n".encode("latin-1")
    with pytest.raises(EditRejectedError, match=r"cp1252, which has no '→' \(U\+2192\)"):
        workspace.run("replace", "a.py", old_text="# Élan", new_text="# →")
    assert "→" not in workspace.ask("view", "a.py")


def test_a_file_whose_other_bytes_would_change_is_not_written(workspace: Workspace) -> None:
    path = workspace.root / "a.txt"
    # Two byte sequences are the same sign in this encoding.
    raw = "テスト設定ファイル\n".encode("cp932") + b"\x87\x90\n"
    path.write_bytes(raw)
    assert "≒" in workspace.ask("view", "a.txt")
    with pytest.raises(EditRejectedError, match="would be written with other bytes"):
        workspace.run("replace", "a.txt", old_text="テスト設定ファイル", new_text="テスト")
    assert path.read_bytes() == raw


def test_an_open_buffers_encoding_is_the_editors(workspace: Workspace) -> None:
    path = workspace.root / "a.txt"
    # In Windows-1252, it would be "pÿíliš žluté" and so on.
    text = "příliš žluté písmo, a few more words\nb\n"
    path.write_bytes(text.encode("cp1250"))
    workspace.editor.open(path, text)
    assert "příliš žluté" in workspace.ask("view", "a.txt")
    workspace.run("replace", "a.txt", old_text="b\n", new_text="c\n")
    document = workspace.editor.document(path)
    assert document is not None
    assert document.text == text.replace("b\n", "c\n")


def test_create_makes_the_folders_and_refuses_to_overwrite(workspace: Workspace) -> None:
    change = workspace.change("create", "new/deep/a.py", text="x = 1\n")
    assert (change.op, change.added, change.removed) == ("add", 1, 0)
    assert (workspace.root / "new/deep/a.py").read_text() == "x = 1\n"
    with pytest.raises(EditRejectedError, match="exists already"):
        workspace.plan("create", "new/deep/a.py", text="y\n")


def test_replace_needs_text_that_is_there_once_and_lists_the_lines(workspace: Workspace) -> None:
    path = workspace.mark_seen("a.py", "a\nb\na\n")
    with pytest.raises(ToolError, match=r"2 times \(lines 1, 3\)"):
        workspace.plan("replace", "a.py", old_text="a\n", new_text="c\n")
    workspace.run("replace", "a.py", old_text="a\n", new_text="c\n", replace_all=True)
    assert path.read_text() == "c\nb\nc\n"


def test_replace_never_guesses_about_white_space(workspace: Workspace) -> None:
    path = workspace.mark_seen("a.py", "def f():\n\treturn 1\n")
    with pytest.raises(ToolError, match="Lines 2-2 differ from it only in whitespace"):
        workspace.plan("replace", "a.py", old_text="    return 1\n", new_text="    return 2\n")
    with pytest.raises(ToolError, match="without the line numbers"):
        workspace.plan("replace", "a.py", old_text="     2\t\treturn 1", new_text="")
    with pytest.raises(ToolError, match="The nearest is line 2:\n\treturn 1"):
        workspace.plan("replace", "a.py", old_text="return 11", new_text="")
    assert path.read_text() == "def f():\n\treturn 1\n"


@pytest.mark.parametrize(
    ("old", "hint"),
    [
        (
            "see  chunked   and",
            "Lines 2-2 differ from it only in whitespace; the file has:\nA line",
        ),
        (
            "see chunked\n  and",
            "Lines 2-2 differ from it only in whitespace; the file has:\nA line",
        ),
        ("f (x,y)", "Lines 3-3 differ from it only in whitespace; the file has:\nreturn f(x, y)"),
        ("see chunkt and chunked_by for", "The nearest is line 2:\nA line"),
        ("nothing of this sort", "No line is like it; view the file."),
    ],
)
def test_a_hint_also_finds_a_part_of_a_line(workspace: Workspace, old: str, hint: str) -> None:
    workspace.mark_seen(
        "a", "First.\nA line of prose: see chunked and chunked_by for more.\nreturn f(x, y)\n"
    )
    with pytest.raises(ToolError) as error_info:
        workspace.plan("replace", "a", old_text=old, new_text="")
    assert hint in str(error_info.value)


def test_several_edits_in_one_call_happen_all_or_not_at_all(workspace: Workspace) -> None:
    path = workspace.mark_seen("a.py", LINES)
    good = {"old_text": "line 1\n", "new_text": "one\n"}
    for bad in ({"old_text": "nothing", "new_text": "x"}, {"old_text": "1\nline", "new_text": "x"}):
        with pytest.raises(ToolError):
            workspace.run("replace", "a.py", edits=[good, bad])
    assert path.read_text() == LINES
    workspace.run("replace", "a.py", edits=[{"old_text": "line 8\n", "new_text": ""}, good])
    assert path.read_text() == LINES.replace("line 1\n", "one\n").replace("line 8\n", "")


@pytest.mark.parametrize(
    ("before", "line", "text", "after"),
    [
        ("a\nb", 2, "c\n", "a\nb\nc"),
        ("a\nb\n", 2, "c", "a\nb\nc\n"),
        ("a\nb\n", 0, "c", "c\na\nb\n"),
        ("a\r\nb\r\n", 1, "c\nd", "a\r\nc\r\nd\r\nb\r\n"),
        ("", 0, "c\n", "c\n"),
    ],
)
def test_insert_starts_a_new_line_in_the_way_of_the_file(
    workspace: Workspace, before: str, line: int, text: str, after: str
) -> None:
    path = workspace.mark_seen("a", before)
    workspace.run("insert", "a", insert_line=line, text=text)
    assert path.read_bytes().decode() == after


def test_insert_past_the_end_is_said(workspace: Workspace) -> None:
    workspace.mark_seen("a", "a\n")
    with pytest.raises(ToolError, match="past the end; there are 1 lines"):
        workspace.plan("insert", "a", insert_line=2, text="x")


def test_line_ends_mark_and_missing_newline_survive_an_edit(workspace: Workspace) -> None:
    path = workspace.mark_seen("a", "\ufeffone\r\ntwo\r\nthree")
    workspace.run("replace", "a", old_text="two\nthree", new_text="2\n2.5\n3")
    assert path.read_bytes().decode() == "\ufeffone\r\n2\r\n2.5\r\n3"


def test_an_edit_through_a_link_changes_its_target(workspace: Workspace) -> None:
    path = workspace.mark_seen("real.py", "a\n")
    (workspace.root / "link.py").symlink_to("real.py")
    workspace.run("replace", "link.py", old_text="a", new_text="b")
    assert (workspace.root / "link.py").is_symlink()
    assert path.read_text() == "b\n"


def test_whole_lines_are_replaced_however_the_agent_came_to_see_them(workspace: Workspace) -> None:
    path = workspace.write("a.py", LINES)
    answer = workspace.ask("replace", "a.py", old_text="line 3\nline 4\n", new_text="three\nfour\n")
    assert answer == "Edited a.py at lines 3-4: +2 -2 lines."
    answer = workspace.ask("replace", "a.py", old_text="line 6", new_text="six")
    assert answer == "Edited a.py at line 6: +1 -1 lines."
    assert path.read_text() == LINES.replace("line 3", "three").replace("line 4", "four").replace(
        "line 6", "six"
    )


@pytest.mark.parametrize(
    ("command", "args"),
    [
        ("replace", {"old_text": "ine 50", "new_text": "x"}),
        ("replace", {"old_text": "ine 50\nlin", "new_text": "x"}),
        ("replace", {"old_text": "line 50\n", "new_text": "x\n", "replace_all": True}),
        ("insert", {"insert_line": 50, "text": "x"}),
    ],
)
def test_what_needs_a_look_at_the_file_is_refused_with_the_lines_around_the_place(
    workspace: Workspace, command: str, args: dict[str, Any]
) -> None:
    path = workspace.write("a.py", "".join(f"line {n}\n" for n in range(1, 201)))
    with pytest.raises(StaleDocumentError, match="you have not read it yet") as error_info:
        workspace.run(command, "a.py", **args)
    text = str(error_info.value)
    assert "These are lines 30-70 of 200:\n    30\tline 30\n" in text
    assert "    70\tline 70\n" in text
    assert "line 71" not in text
    assert "line 29" not in text
    assert error_info.value.on_shown is not None
    error_info.value.on_shown()
    workspace.run(command, "a.py", **args)
    assert "x" in path.read_text()


def test_an_outside_change_leaves_an_edit_that_still_fits_and_stops_one_that_does_not(
    workspace: Workspace,
) -> None:
    path = workspace.mark_seen("a.py", "a\nb\n")
    path.write_text("new\na\nb\n")
    assert "still fitted" in workspace.ask("replace", "a.py", old_text="a\n", new_text="A\n")
    assert path.read_text() == "new\nA\nb\n"
    path.write_text("gone\n")
    with pytest.raises(StaleDocumentError, match="it changed since you read it"):
        workspace.run("replace", "a.py", old_text="b\n", new_text="x")
    path.write_text("again\n")
    with pytest.raises(StaleDocumentError, match="it changed since you read it"):
        workspace.run("insert", "a.py", insert_line=0, text="x")


def test_undo_goes_back_edit_by_edit_until_the_file_is_gone(workspace: Workspace) -> None:
    workspace.run("create", "a.py", text="one\n")
    workspace.run("replace", "a.py", old_text="one", new_text="two")
    assert workspace.change("undo", "a.py").op == "modify"
    assert (workspace.root / "a.py").read_text() == "one\n"
    assert workspace.change("undo", "a.py").op == "delete"
    assert not (workspace.root / "a.py").exists()
    with pytest.raises(ToolError, match="is left to undo"):
        workspace.plan("undo", "a.py")


def test_undo_survives_a_restart(workspace: Workspace) -> None:
    path = workspace.mark_seen("a.py", "one\r\n")
    change = workspace.change("replace", "a.py", old_text="one", new_text="two")
    again = make_workspace(workspace.root, workspace.blobs)
    again.tool._documents.history.remember(FileChange.model_validate_json(change.model_dump_json()))
    again.run("undo", "a.py")
    assert path.read_bytes() == b"one\r\n"


def test_undo_writes_no_text_that_the_disk_has_damaged(workspace: Workspace) -> None:
    path = workspace.mark_seen("a.py", "one\n")
    workspace.run("replace", "a.py", old_text="one", new_text="two")
    for name, blob in workspace.blobs.data.items():
        workspace.blobs.data[name] = blob.replace(b"one", b"oNe")
    with pytest.raises(ToolError, match="damaged; nothing was changed"):
        workspace.run("undo", "a.py")
    assert path.read_text() == "two\n"


def test_undo_refuses_when_the_user_changed_the_file_since(workspace: Workspace) -> None:
    path = workspace.mark_seen("a.py", "one\n")
    workspace.run("replace", "a.py", old_text="one", new_text="two")
    path.write_text("two\nmine\n")
    with pytest.raises(EditRejectedError, match="undo would lose the change"):
        workspace.run("undo", "a.py")
    workspace.run("create", "b.py", text="x\n")
    workspace.editor.open(workspace.root / "b.py", "x\nmine\n")
    with pytest.raises((EditRejectedError, StaleDocumentError)):
        workspace.run("undo", "b.py")
    assert path.read_text() == "two\nmine\n"
    assert (workspace.root / "b.py").read_text() == "x\n"


def test_a_plan_shows_the_whole_change_and_changes_nothing(workspace: Workspace) -> None:
    path = workspace.mark_seen("a.py", "one\n")
    intent = workspace.plan("replace", "a.py", old_text="one", new_text="two")
    assert (intent.title, intent.risk, intent.outside_floor) == ("Edit a.py", "medium", False)
    assert isinstance(intent.subject, FileChangeSubject)
    assert intent.subject.changes[0].patch == "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-one\n+two\n"
    assert intent.footprint.paths == {str(path)}
    assert path.read_text() == "one\n"
    path.write_text("one\nmore\n")
    other_intent = workspace.plan("replace", "a.py", old_text="one", new_text="two")
    assert other_intent.digest_material != intent.digest_material
    fields = set(intent.item_fields)
    assert fields <= set(FileChangeItem.model_json_schema()["properties"])


@pytest.mark.parametrize(
    "name",
    [".env", "./.ENV", "src/../.env", "notes.txt", ".github/workflows/ci.yml", ".vscode/x.json",
     "AGENTS.md", "package-lock.json", ".Vscode/x.json"],
)  # fmt: skip
def test_an_edit_of_a_protected_path_always_asks(workspace: Workspace, name: str) -> None:
    (workspace.root / "src").mkdir()
    (workspace.root / "notes.txt").symlink_to(".env")
    intent = workspace.plan("create", name, text="x")
    assert (intent.risk, intent.outside_floor) == ("high", True)
    assert intent.reasons


def test_a_view_asks_for_secrets_and_for_nothing_else(workspace: Workspace) -> None:
    workspace.write(".env", "KEY=1\n")
    workspace.write("a.py", "")
    secret, plain = workspace.plan("view", ".env"), workspace.plan("view", "a.py")
    assert (secret.risk, secret.outside_floor, secret.subject.kind) == ("high", True, "path")
    assert (plain.risk, plain.outside_floor, plain.footprint.writes) == ("low", False, False)


def test_a_hard_link_asks_because_its_other_name_may_lie_outside(workspace: Workspace) -> None:
    outside = workspace.root.parent / "outside"
    outside.write_text("a\n")
    os.link(outside, workspace.root / "inside")
    workspace.ask("view", "inside")
    assert workspace.plan("replace", "inside", old_text="a", new_text="b").outside_floor


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "~/x", ".git/config", "out/x"])
def test_nothing_outside_is_viewed_or_planned(workspace: Workspace, name: str) -> None:
    (workspace.root / "out").symlink_to("/etc")
    for command, args in (("view", {}), ("create", {"text": "x"}), ("undo", {})):
        with pytest.raises(PathOutsideWorkspaceError):
            workspace.plan(command, name, **args)


def test_hidden_characters_in_new_text_make_an_edit_risky(workspace: Workspace) -> None:
    intent = workspace.plan("create", "a.py", text="x = '\u202e'\n")
    assert intent.risk == "high"
    assert "U+202E" in intent.reasons[0]
    workspace.mark_seen("b.py", "x = '\u202e'\n")
    assert workspace.plan("replace", "b.py", old_text="x", new_text="y").risk == "medium"
    assert workspace.plan("create", "c.md", text="👩\u200d👧\n").risk == "medium"


@pytest.mark.parametrize(
    ("command", "args", "message"),
    [
        ("replace", {}, "old_text is missing"),
        ("replace", {"old_text": "a"}, "new_text is missing"),
        ("replace", {"old_text": "", "new_text": "x"}, "old_text is empty"),
        ("replace", {"old_text": "a", "new_text": "a"}, "are the same"),
        ("replace", {"old_text": "a", "new_text": "a", "edits": []}, "not both"),
        ("replace", {"old_text": "a", "new_text": "\0"}, "NUL or surrogates"),
        ("insert", {"text": "x"}, "insert needs insert_line"),
        ("create", {}, "text is missing"),
    ],
)
def test_a_call_that_cannot_work_says_what_it_needs(
    workspace: Workspace, command: str, args: dict[str, Any], message: str
) -> None:
    workspace.mark_seen("a", "a\n")
    with pytest.raises(ToolError, match=message):
        workspace.plan(command, "a" if command != "create" else "b", **args)


def test_a_path_that_is_no_file_leads_to_what_is_there(workspace: Workspace) -> None:
    workspace.write("checkout.py", "")
    cases = {
        "chekout.py": "there is no file 'chekout.py'; beside it are 'checkout.py'",
        "none/x.py": "there is no file 'none/x.py'; glob finds files by name",
        ".": "is a folder; use list",
    }
    for name, message in cases.items():
        with pytest.raises(ToolError, match=message):
            workspace.ask("view", name)


def test_of_several_edits_the_one_that_does_not_fit_is_named(workspace: Workspace) -> None:
    workspace.mark_seen("a", "a\nb\n")
    edits = [{"old_text": "a", "new_text": "x"}, {"old_text": "c", "new_text": "y"}]
    with pytest.raises(ToolError, match=r"^edits\[1\]: old_text is not in the file"):
        workspace.plan("replace", "a", edits=edits)


def test_an_insert_shows_what_stands_around_it(workspace: Workspace) -> None:
    workspace.mark_seen("a", "a\nb\n")
    answer = workspace.ask("insert", "a", insert_line=1, text="x")
    assert answer.endswith("@@ -1,2 +1,3 @@\n a\n+x\n b\n")


def test_a_file_that_is_not_there_is_said(workspace: Workspace) -> None:
    for name in ("none.py", "none/x.py"):
        with pytest.raises(ToolError, match="there is no file"):
            workspace.run("view", name)
        with pytest.raises(ToolError, match=r"there is no .*; glob finds files by name"):
            workspace.plan("replace", name, old_text="a", new_text="b")


def test_of_an_edit_only_the_hunks_that_the_user_left_in_it_happen(workspace: Workspace) -> None:
    path = workspace.mark_seen("a.py", LINES)
    edits = [{"old_text": f"line {n}\n", "new_text": f"agent {n}\n"} for n in (2, 4, 8)]
    whole_intent = workspace.plan("replace", "a.py", edits=edits)
    assert isinstance(whole_intent.subject, FileChangeSubject)
    assert whole_intent.editable
    assert whole_intent.subject.hunks is not None
    first, second, third = whole_intent.subject.hunks
    assert (second.old_start, second.old_lines, second.new_start, second.new_lines) == (3, 1, 3, 1)

    hunks_kept = [hunk.model_dump(mode="json") for hunk in (first, third)]
    part = workspace.plan("replace", "a.py", edits=edits, hunks=hunks_kept)
    assert isinstance(part.subject, FileChangeSubject)
    assert (part.editable, part.subject.hunks) == (False, None)
    path.write_text("the user's\n" + LINES)
    with pytest.raises(StaleDocumentError, match="changed since the user chose"):
        workspace.run("replace", "a.py", edits=edits, hunks=hunks_kept)
    path.write_text(LINES)
    answer = workspace.ask("replace", "a.py", edits=edits, hunks=hunks_kept)
    assert path.read_text() == LINES.replace("line 2", "agent 2").replace("line 8", "agent 8")
    assert "The user left this out of your edit; do not do it again unless asked:" in answer
    assert "-line 4\n+agent 4\n" in answer
    assert "+agent 2" not in answer


def test_there_is_nothing_to_choose_from_in_an_edit_of_one_place(workspace: Workspace) -> None:
    workspace.mark_seen("a.py", LINES)
    one = workspace.plan("replace", "a.py", old_text="line 2\n", new_text="agent 2\n")
    new = workspace.plan("create", "new.py", text=LINES)
    assert (one.editable, new.editable) == (False, False)
