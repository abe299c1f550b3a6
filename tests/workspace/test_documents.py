"""Text in the editor and on disk: which of the two is current, and through which one to edit."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from scripted_editor import MemoryBlobs, ScriptedEditor

from oh_daemon.common.cancel import Cancelled, CancelToken
from oh_daemon.kernel.editor_ports import TextEdit
from oh_daemon.protocol.errors import EditRejectedError, StaleDocumentError
from oh_daemon.workspace.arbiter import EditDone, Seen, arbitrate
from oh_daemon.workspace.concurrent_edits import PathLocks
from oh_daemon.workspace.documents import Documents
from oh_daemon.workspace.edit_history import EditHistory
from oh_daemon.workspace.paths import Folders
from oh_daemon.workspace.text_changes import Create, Insert, Replace, Replacement


@dataclass
class Workspace:
    root: Path
    editor: ScriptedEditor = field(default_factory=ScriptedEditor)
    locks: PathLocks = field(default_factory=PathLocks)

    def __post_init__(self) -> None:
        self.documents = self.another_agent()
        self.path = self.root / "a.py"

    def another_agent(self) -> Documents:
        folders = Folders((self.root,))
        history = EditHistory(folders, MemoryBlobs())
        return Documents(folders, self.editor, history, self.locks)

    def open(self, text: str, *, unsaved_text: str | None = None) -> None:
        """Create a file that is open in the editor and that the agent has read."""
        self.path.write_bytes(text.encode())
        self.editor.open(self.path)
        if unsaved_text is not None:
            self.editor.type(self.path, unsaved_text)
        self.documents.read(self.path)

    def edit(self, old: str, new: str, documents: Documents | None = None) -> EditDone:
        change = Replace((Replacement(old, new),))
        documents = documents or self.documents
        return documents.edit(self.path, change, label="oh: edit", cancel=CancelToken())

    @property
    def shown_text(self) -> str:
        document = self.editor.document(self.path)
        assert document is not None
        return document.text

    @property
    def on_disk(self) -> str:
        return self.path.read_bytes().decode()


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


@pytest.mark.parametrize(
    ("buffer", "disk", "sighting", "source", "has_note"),
    [
        (None, "d", None, "disk", False),
        ("x", "x", None, "buffer", False),
        ("c", None, None, "buffer", True),
        ("c", "d", None, "buffer", True),
        ("old", "d", Seen("old", "old", "old"), "disk", True),
        ("c", "old", Seen("old", "old", "old"), "buffer", True),
        ("c", "d", Seen("old", "old", "old"), "buffer", True),
        ("old", "d", Seen("d", "old", "d"), "disk", True),
    ],
)
def test_the_newest_text_is_found_by_content(
    buffer: str | None, disk: str | None, sighting: Seen | None, source: str, *, has_note: bool
) -> None:
    truth = arbitrate(buffer, disk, sighting)
    assert (truth.source, truth.note is not None) == (source, has_note)


def test_an_edit_of_an_open_file_is_minimal_one_step_and_saved(workspace: Workspace) -> None:
    workspace.open("one\ntwo 😀\nthree\n")
    edit_result = workspace.edit("two 😀\nthree", "two 😀!\nthree")
    assert workspace.editor.calls == [(TextEdit(9, 9, "!"),)]
    assert (edit_result.route, edit_result.note, edit_result.change.unsaved) == (
        "editor",
        None,
        None,
    )
    assert workspace.shown_text == workspace.on_disk == "one\ntwo 😀!\nthree\n"


def test_unsaved_text_of_the_user_is_never_written_to_disk(workspace: Workspace) -> None:
    workspace.open("one\ntwo\n", unsaved_text="one\ntwo\nmine\n")
    edit_result = workspace.edit("two", "2")
    assert workspace.shown_text == "one\n2\nmine\n"
    assert workspace.on_disk == "one\ntwo\n"
    assert edit_result.change.unsaved
    assert "commands still see the older file" in str(edit_result.note)
    assert workspace.documents.unsaved_agent_edits() == (workspace.path,)
    assert workspace.documents.unsaved_texts() == {workspace.path: "one\n2\nmine\n"}
    assert workspace.documents.save([workspace.path], cancel=CancelToken()) == (workspace.path,)
    assert workspace.on_disk == "one\n2\nmine\n"
    assert workspace.documents.unsaved_agent_edits() == ()


def test_unsaved_text_in_an_editor_that_takes_no_edits_is_left_alone(workspace: Workspace) -> None:
    workspace.open("one\n", unsaved_text="mine one\n")
    workspace.editor.can_apply = False
    with pytest.raises(StaleDocumentError, match="takes no edits"):
        workspace.edit("one", "1")
    assert (workspace.shown_text, workspace.on_disk) == ("mine one\n", "one\n")


@pytest.mark.parametrize("lies", [False, True])
def test_typing_during_an_edit_is_kept(workspace: Workspace, *, lies: bool) -> None:
    workspace.open("one\ntwo\n")
    workspace.editor.lies_when_stale = lies
    typed_texts = iter(["typed\none\ntwo\n"])

    def type_once() -> None:
        for text in typed_texts:
            workspace.editor.type(workspace.path, text)

    workspace.editor.user_before_apply = type_once
    workspace.edit("two", "2")
    assert workspace.shown_text == "typed\none\n2\n"
    assert workspace.on_disk == "one\ntwo\n", "the text was the user's unsaved one by then"


def test_a_user_who_never_stops_typing_wins_after_two_rounds(workspace: Workspace) -> None:
    workspace.open("one\ntwo\n")
    workspace.editor.user_before_apply = lambda: workspace.editor.type(
        workspace.path, "t\n" + workspace.shown_text
    )
    with pytest.raises(StaleDocumentError, match="twice"):
        workspace.edit("two", "2")
    assert workspace.shown_text == "t\nt\none\ntwo\n"
    assert len(workspace.editor.calls) == 2


def test_typing_after_the_edit_does_not_make_it_fail(workspace: Workspace) -> None:
    workspace.open("one\ntwo\n")
    workspace.editor.user_after_apply = lambda: workspace.editor.type(
        workspace.path, workspace.shown_text + "typed\n"
    )
    edit_result = workspace.edit("two", "2")
    assert workspace.shown_text == "one\n2\ntyped\n"
    assert "user changed the text after your edit" in str(edit_result.note)


@pytest.mark.parametrize("failure", ["readOnly", "timeout"])
def test_an_editor_that_refuses_is_not_gone_round(workspace: Workspace, failure: str) -> None:
    workspace.open("one\n")
    workspace.editor.failure = failure
    with pytest.raises(EditRejectedError, match=failure):
        workspace.edit("one", "1")
    assert (workspace.shown_text, workspace.on_disk) == ("one\n", "one\n")


def test_without_a_way_to_save_a_clean_file_is_edited_on_disk(workspace: Workspace) -> None:
    workspace.open("one\n")
    workspace.editor.can_save = False
    assert workspace.edit("one", "1").route == "disk"
    assert workspace.on_disk == "1\n"
    # The editor has not reloaded the file yet, but the agent already works with the newest text.
    assert workspace.documents.read(workspace.path).text == "1\n"
    assert workspace.edit("1", "2").route == "disk"
    assert workspace.on_disk == "2\n"


def test_where_commands_see_unsaved_text_a_clean_file_too_is_edited_in_the_editor(
    workspace: Workspace,
) -> None:
    workspace.open("one\n")
    workspace.editor.can_save = False
    workspace.documents.commands_see_buffers = True
    edit_result = workspace.edit("one", "1")
    assert (edit_result.route, edit_result.note, edit_result.change.unsaved) == (
        "editor",
        None,
        True,
    )
    assert (workspace.shown_text, workspace.on_disk) == ("1\n", "one\n")
    note = workspace.documents.read(workspace.path).note
    assert note == "The editor shows unsaved changes, and so do this and commands."
    workspace.path.unlink()
    assert "commands see it as a file" in str(workspace.documents.read(workspace.path).note)


def test_mixed_line_ends_are_edited_on_disk_since_editors_unify_them(workspace: Workspace) -> None:
    workspace.path.write_bytes(b"a\r\nb\nc\r\n")
    workspace.editor.open(workspace.path, "a\r\nb\r\nc\r\n")
    workspace.documents.read(workspace.path)
    assert workspace.edit("b\n", "B\nB\n").route == "disk"
    assert workspace.on_disk == "a\r\nB\nB\nc\r\n"


def test_a_file_that_changed_on_disk_under_a_clean_buffer_counts(workspace: Workspace) -> None:
    workspace.open("one\n")
    workspace.path.write_text("one\nfrom git\n")
    view = workspace.documents.read(workspace.path)
    assert view.text == "one\nfrom git\n"
    assert "has not reloaded" in str(view.note)
    workspace.edit("from git", "mine")
    assert workspace.on_disk == "one\nmine\n"


def test_two_new_texts_are_a_conflict_that_nobody_overwrites(workspace: Workspace) -> None:
    workspace.open("one\n")
    workspace.editor.type(workspace.path, "one\nmine\n")
    workspace.path.write_text("one\nfrom git\n")
    with pytest.raises(StaleDocumentError, match="Only the user knows which one counts"):
        workspace.edit("one", "1")
    assert (workspace.shown_text, workspace.on_disk) == ("one\nmine\n", "one\nfrom git\n")


def test_the_work_of_a_formatter_on_save_is_what_the_agent_knows(workspace: Workspace) -> None:
    workspace.open("a = 1\n")
    workspace.editor.formatter = lambda text: text.replace("a=2", "a = 2")
    edit_result = workspace.edit("a = 1", "a=2")
    assert workspace.shown_text == workspace.on_disk == "a = 2\n"
    assert "formatter" in str(edit_result.note)
    assert workspace.edit("a = 2", "a = 3").note is None


def test_a_file_that_is_only_in_the_editor_is_edited_there(workspace: Workspace) -> None:
    workspace.editor.open(workspace.path, "draft\n")
    assert "in the editor only" in str(workspace.documents.read(workspace.path).note)
    workspace.edit("draft", "done")
    assert workspace.shown_text == "done\n"
    assert not workspace.path.exists()
    with pytest.raises(EditRejectedError, match="exists already"):
        workspace.documents.plan(workspace.path, Create("x"))


def test_a_new_file_goes_into_the_empty_buffer_that_waits_for_it(workspace: Workspace) -> None:
    workspace.editor.open(workspace.path, "")
    edit_result = workspace.documents.edit(
        workspace.path, Create("x\n"), label="oh", cancel=CancelToken()
    )
    assert (edit_result.route, edit_result.change.op) == ("editor", "add")
    assert workspace.shown_text == workspace.on_disk == "x\n"


def test_a_file_that_is_closed_during_the_edit_is_edited_on_disk(workspace: Workspace) -> None:
    workspace.open("one\n")

    def close() -> None:
        if workspace.editor.document(workspace.path):
            workspace.editor.close(workspace.path)

    workspace.editor.user_before_apply = close
    assert workspace.edit("one", "1").route == "disk"
    assert workspace.on_disk == "1\n"


def test_a_file_that_the_editor_knows_by_a_link_is_edited_there(workspace: Workspace) -> None:
    workspace.path.write_text("one\n")
    link = workspace.root / "link.py"
    link.symlink_to("a.py")
    workspace.editor.open(link, "one\nmine\n")
    workspace.documents.read(workspace.path)
    workspace.edit("one", "1")
    document = workspace.editor.document(link)
    assert document is not None
    assert document.text == "1\nmine\n"
    assert workspace.on_disk == "one\n"


def test_two_agents_take_turns_at_one_file_and_lose_nothing(workspace: Workspace) -> None:
    workspace.path.write_text("start\n")
    failures: list[BaseException] = []

    def work(name: str) -> None:
        documents = workspace.another_agent()
        try:
            for number in range(20):
                documents.read(workspace.path)
                workspace.edit("start\n", f"start\n{name}{number}\n", documents)
        except BaseException as exc:  # noqa: BLE001 - handed to the test's own thread.
            failures.append(exc)

    threads = [threading.Thread(target=work, args=(name,)) for name in "xy"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert failures == []
    assert sorted(workspace.on_disk.split()) == sorted(
        ["start", *(f"{name}{number}" for name in "xy" for number in range(20))]
    )


def test_waiting_for_a_file_ends_with_a_cancel(workspace: Workspace) -> None:
    workspace.path.write_text("one\n")
    workspace.documents.read(workspace.path)
    cancel = CancelToken()
    threading.Timer(0.1, cancel.cancel).start()
    with workspace.locks.hold(workspace.path, CancelToken()), pytest.raises(Cancelled):
        workspace.documents.edit(workspace.path, Insert(0, "x"), label="oh", cancel=cancel)
    assert workspace.on_disk == "one\n"
    workspace.edit("one", "1")


def test_nothing_is_left_of_an_edit_that_was_only_planned(workspace: Workspace) -> None:
    workspace.open("one\n")
    workspace.documents.plan(workspace.path, Insert(0, "x\n"))
    assert (workspace.shown_text, workspace.on_disk, workspace.editor.calls) == (
        "one\n",
        "one\n",
        [],
    )
    assert [path.name for path in workspace.root.iterdir()] == ["a.py"]
