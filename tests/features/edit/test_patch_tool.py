"""`apply_patch` on real files and a scripted editor: all or nothing, and as safe as `edit`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from scripted_editor import MemoryBlobs, ScriptedEditor

from oh_daemon.common.cancel import CancelToken
from oh_daemon.common.masking import Masker
from oh_daemon.features.edit.apply_patch import PatchTool
from oh_daemon.features.edit.edit import VIEW_SPEC, EditTool
from oh_daemon.kernel.ports import Intent, ToolContext, ToolResult
from oh_daemon.protocol.approvals import FileChangeSubject
from oh_daemon.protocol.errors import StaleDocumentError, ToolError
from oh_daemon.protocol.items import FileChange
from oh_daemon.workspace.concurrent_edits import PathLocks
from oh_daemon.workspace.documents import Documents
from oh_daemon.workspace.edit_history import EditHistory
from oh_daemon.workspace.paths import Folders

CONTEXT = ToolContext("c", "i", CancelToken(), lambda _: None, Masker())
BOM_CRLF = b"\xef\xbb\xbfone\r\ntwo\r\nthree"


@dataclass
class Workspace:
    root: Path
    editor: ScriptedEditor = field(default_factory=ScriptedEditor)

    def __post_init__(self) -> None:
        folders = Folders((self.root,))
        history = EditHistory(folders, MemoryBlobs())
        self.documents = Documents(folders, self.editor, history, PathLocks())
        self.tool = PatchTool(self.documents)
        self.edit = EditTool(self.documents, spec=VIEW_SPEC)

    def mark_seen(self, name: str, raw: bytes) -> Path:
        """Create a file that the agent has read."""
        path = self.root / name
        path.write_bytes(raw)
        self.documents.read(path)
        return path

    def plan(self, *lines: str, **more: object) -> Intent:
        text = "\n".join(("*** Begin Patch", *lines, "*** End Patch"))
        return self.tool.plan({"input": text, **more})

    def patch(self, *lines: str, **more: object) -> ToolResult:
        self.plan(*lines, **more)
        text = "\n".join(("*** Begin Patch", *lines, "*** End Patch"))
        return self.tool.run({"input": text, **more}, CONTEXT)

    def undo(self, name: str) -> ToolResult:
        self.edit.plan({"command": "undo", "path": name})
        return self.edit.run({"command": "undo", "path": name}, CONTEXT)

    def files(self) -> dict[str, bytes]:
        paths = (path for path in self.root.rglob("*") if path.is_file())
        return {path.relative_to(self.root).as_posix(): path.read_bytes() for path in paths}


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


def result_text(result: ToolResult) -> str:
    return result.content[0]["text"]


def ops(changes: Sequence[FileChange]) -> list[tuple[str, str, int, int]]:
    return [(c.uri.rpartition("/")[2], c.op, c.added, c.removed) for c in changes]


ALL = (
    *("*** Update File: a.py", "@@", "-two", "+2", "*** Delete File: gone.py"),
    *("*** Add File: new/b.py", "+b", "*** Update File: old.py", "*** Move to: new/old.py"),
    *("@@", "-three", "+3"),
)


def test_a_patch_adds_changes_moves_and_deletes_to_the_byte(workspace: Workspace) -> None:
    workspace.mark_seen("a.py", BOM_CRLF)
    workspace.mark_seen("gone.py", b"gone\n")
    workspace.mark_seen("old.py", BOM_CRLF).chmod(0o640)
    intent = workspace.plan(*ALL)
    assert (intent.title, intent.risk) == ("Patch 5 files", "medium")
    assert isinstance(intent.subject, FileChangeSubject)
    changes = intent.subject.changes
    assert [c.op for c in changes] == ["modify", "add", "add", "delete", "delete"]
    assert changes[2].patch == (
        "rename from old.py\nrename to new/old.py\n--- a/new/old.py\n+++ b/new/old.py\n"
        "@@ -1,3 +1,3 @@\n one\n two\n-three\n\\ No newline at end of file\n"
        "+3\n\\ No newline at end of file\n"
    )
    result = workspace.patch(*ALL)
    assert workspace.files() == {
        "a.py": BOM_CRLF.replace(b"two", b"2"),
        "new/b.py": b"b\n",
        "new/old.py": BOM_CRLF.replace(b"three", b"3"),
    }
    assert (workspace.root / "new/old.py").stat().st_mode & 0o777 == 0o640
    assert ops(result.item_fields.get("changes", ())) == [
        *(("a.py", "modify", 1, 1), ("b.py", "add", 1, 0), ("old.py", "add", 1, 1)),
        *(("gone.py", "delete", 0, 1), ("old.py", "delete", 0, 0)),
    ]
    assert "Deleted gone.py: +0 -1 lines." in result_text(result)


def test_of_a_patch_only_the_hunks_that_the_user_left_in_it_happen(workspace: Workspace) -> None:
    path = workspace.mark_seen("a.py", BOM_CRLF)
    workspace.mark_seen("gone.py", b"gone\n")
    workspace.mark_seen("old.py", b"old\n")
    lines = (
        *("*** Update File: a.py", "@@", "-one", "+1", "@@", "-three", "+3"),
        *("*** Delete File: gone.py", "*** Add File: made.py", "+made", "*** Add File: not.py"),
        *("+not", "*** Update File: old.py", "*** Move to: new.py"),
    )
    whole_intent = workspace.plan(*lines)
    assert isinstance(whole_intent.subject, FileChangeSubject)
    assert whole_intent.editable
    hunks = [hunk.model_dump(mode="json") for hunk in whole_intent.subject.hunks or ()]
    names = ("a.py", "a.py", "made.py", "not.py", "gone.py")
    assert [hunk["uri"] for hunk in hunks] == [(workspace.root / name).as_uri() for name in names]
    hunks_kept = hunks[1:3]
    part = workspace.plan(*lines, hunks=hunks_kept)
    assert isinstance(part.subject, FileChangeSubject)
    assert (part.editable, part.subject.hunks) == (False, None)
    assert ops(part.subject.changes)[:2] == [("a.py", "modify", 1, 1), ("made.py", "add", 1, 0)]
    path.write_bytes(BOM_CRLF + b" and more")
    with pytest.raises(ToolError):
        workspace.patch(*lines, hunks=hunks_kept)
    path.write_bytes(BOM_CRLF)
    result = workspace.patch(*lines, hunks=hunks_kept)
    assert workspace.files() == {
        "a.py": BOM_CRLF.replace(b"three", b"3"),
        "gone.py": b"gone\n",
        "made.py": b"made\n",
        "new.py": b"old\n",
    }
    text = result_text(result).partition("The user left this out of your edit")[2]
    assert all(each in text for each in ("-one\n+1\n", "-gone\n", "+not\n"))
    assert not any(each in text for each in ("+3\n", "+made\n"))


def test_what_a_patch_did_can_be_undone_file_by_file(workspace: Workspace) -> None:
    workspace.mark_seen("a.py", BOM_CRLF)
    workspace.mark_seen("gone.py", BOM_CRLF).chmod(0o755)
    before = workspace.files()
    workspace.patch(*ALL[:5])
    for name in ("a.py", "gone.py"):
        workspace.undo(name)
    assert workspace.files() == before
    assert (workspace.root / "gone.py").stat().st_mode & 0o777 == 0o755


def test_an_open_document_changes_in_one_step_with_the_users_text(workspace: Workspace) -> None:
    clean, dirty = (
        workspace.mark_seen("clean.py", b"one\ntwo\nthree\n"),
        workspace.root / "dirty.py",
    )
    workspace.editor.open(clean)
    dirty.write_bytes(b"one\n")
    workspace.editor.open(dirty)
    workspace.editor.type(dirty, "one\ntyped\n")
    workspace.documents.read(dirty)
    hunks = ("@@", "-one", "+1", "@@", "-three", "+3")
    result = workspace.patch(
        *("*** Update File: clean.py", *hunks, "*** Update File: dirty.py", " typed", "+more")
    )
    assert [len(edits) for edits in workspace.editor.calls] == [2, 1]
    assert workspace.files() == {"clean.py": b"1\ntwo\n3\n", "dirty.py": b"one\n"}
    document = workspace.editor.document(dirty)
    assert document is not None
    assert document.text == "one\ntyped\nmore\n"
    assert "commands still see the older file" in result_text(result)


def test_text_that_was_not_read_is_refused_and_shown_of_every_file(workspace: Workspace) -> None:
    for name in ("a.py", "b.py", "c.py"):
        (workspace.root / name).write_bytes(b"one\n")
    lines = (
        *("*** Update File: a.py", "@@", "+1", "*** End of File", "*** Delete File: b.py"),
        *("*** Update File: c.py", "*** Move to: d.py"),
    )
    with pytest.raises(StaleDocumentError) as error_info:
        workspace.plan(*lines)
    assert str(error_info.value).count("you have not read it yet") == 3
    assert str(error_info.value).count("These are lines 1-1 of 1:\n     1\tone\n") == 3
    assert error_info.value.on_shown is not None
    error_info.value.on_shown()
    workspace.patch(*lines)
    assert workspace.files() == {"a.py": b"one\n1\n", "d.py": b"one\n"}


def test_everything_that_does_not_fit_is_told_at_once_and_nothing_changes(
    workspace: Workspace,
) -> None:
    workspace.mark_seen("a.py", b"one\n\ttwo\n")
    (workspace.root / "link.py").symlink_to("a.py")
    before = workspace.files()
    with pytest.raises(ToolError) as error_info:
        workspace.patch(
            *("*** Update File: a.py", "@@", "-one", "+1", "@@", "-  two", "+2"),
            *("*** Add File: a.py", "+x", "*** Update File: none.py", "-x"),
            *("*** Delete File: link.py", "*** Add File: ../x", "*** Add File: .git/config"),
            "*** Delete File: gone.py",
            *("*** Add File: new.py", "+x", "*** Add File: ./new.py", "+y"),
        )
    rows = str(error_info.value)
    for row in (
        "a.py: hunk 2: its lines are not in the file. Lines 2-2 differ from it only in whitespace",
        "the file has:\n\ttwo\n",
        "a.py: 'a.py' exists already",
        "none.py: there is no 'none.py'; glob finds files by name",
        "gone.py: there is no 'gone.py'; glob finds files by name",
        "link.py: it is a link; use rm or mv in the terminal",
        "../x: '../x' leads outside the open folders",
        ".git/config: '.git/config' is closed to edits",
        "new.py: it is named 2 times",
    ):
        assert row in rows
    assert workspace.files() == before


def test_when_a_file_cannot_be_changed_all_others_come_back(workspace: Workspace) -> None:
    for name in ("a.py", "gone.py", "old.py"):
        workspace.mark_seen(name, BOM_CRLF)
    locked_file = workspace.mark_seen("locked.py", b"one\n")
    workspace.editor.open(locked_file)
    before = workspace.files()
    workspace.editor.failure = "readonly"
    with pytest.raises(ToolError, match="readonly"):
        workspace.patch(*ALL, "*** Update File: locked.py", "-one", "+1")
    assert workspace.files() == before
    workspace.editor.failure = None
    workspace.patch(*ALL)


def test_a_deletion_that_fails_brings_back_what_was_deleted_before(workspace: Workspace) -> None:
    for name in ("a.py", "b.py"):
        workspace.mark_seen(name, BOM_CRLF).chmod(0o600)

    def change_the_second(_paths: object, _cancel: CancelToken) -> Callable[[], str]:
        (workspace.root / "b.py").write_bytes(b"changed\n")
        return str

    workspace.tool = PatchTool(workspace.documents, change_the_second)
    lines = ("*** Add File: c.py", "+x", "*** Delete File: a.py", "*** Delete File: b.py")
    with pytest.raises(StaleDocumentError, match="it changed since you read it"):
        workspace.patch(*lines)
    assert workspace.files() == {"a.py": BOM_CRLF, "b.py": b"changed\n"}
    assert (workspace.root / "a.py").stat().st_mode & 0o777 == 0o600


def test_a_file_with_unsaved_text_is_neither_moved_nor_deleted(workspace: Workspace) -> None:
    path = workspace.mark_seen("a.py", b"one\n")
    workspace.editor.open(path)
    workspace.editor.type(path, "one\nmine\n")
    workspace.documents.read(path)
    for lines in (("*** Delete File: a.py",), ("*** Update File: a.py", "*** Move to: b.py")):
        with pytest.raises(ToolError, match="unsaved changes of the user"):
            workspace.patch(*lines)
    assert workspace.files() == {"a.py": b"one\n"}


def test_an_editor_that_still_shows_a_deleted_file_does_not_hinder_its_return(
    workspace: Workspace,
) -> None:
    path = workspace.mark_seen("a.py", b"one\n")
    workspace.editor.open(path)
    workspace.patch("*** Delete File: a.py")
    assert workspace.files() == {}
    workspace.undo("a.py")
    assert workspace.files() == {"a.py": b"one\n"}


def test_protected_places_and_hidden_characters_make_a_patch_risky(workspace: Workspace) -> None:
    workspace.mark_seen("a.py", b"one\n")
    intent = workspace.plan("*** Update File: a.py", "*** Move to: .vscode/settings.json")
    assert (intent.risk, intent.outside_floor) == ("high", True)
    intent = workspace.plan("*** Update File: a.py", " one", "+\u202e")
    assert intent.risk == "high"
    assert "hidden characters (U+202E)" in intent.reasons[0]
