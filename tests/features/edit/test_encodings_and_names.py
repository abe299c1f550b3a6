"""The `edit` tool with files that are not UTF-8, and with names that are printed escaped."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from scripted_editor import MemoryBlobs, ScriptedEditor

from oh_daemon.common.cancel import CancelToken
from oh_daemon.common.masking import Masker
from oh_daemon.features.edit.edit import EditTool
from oh_daemon.kernel.ports import ToolContext
from oh_daemon.protocol.errors import EditRejectedError, ToolError
from oh_daemon.workspace.concurrent_edits import PathLocks
from oh_daemon.workspace.documents import Documents
from oh_daemon.workspace.edit_history import EditHistory
from oh_daemon.workspace.paths import Folders, printable

LINES = "line 1\nline 2\nline 3\n"


class Project:
    def __init__(self, root: Path) -> None:
        self.root, self.editor = root, ScriptedEditor()
        folders = Folders((root,))
        history = EditHistory(folders, MemoryBlobs())
        self.tool = EditTool(Documents(folders, self.editor, history, PathLocks()))

    def ask(self, command: str, path: str, **args: Any) -> str:
        """Plan and run, as a real call does."""
        call = {"command": command, "path": path, **args}
        self.tool.plan(call)
        context = ToolContext("c", "i", CancelToken(), lambda _: None, Masker())
        return self.tool.run(call, context).content[0]["text"]

    def write(self, name: str, text: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
        return path


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


RUSSIAN = "# Пользователь по умолчанию\nuser = 'Иванов'\n"


def test_encoding_that_is_a_guess_is_said_and_can_be_named(project: Project) -> None:
    (project.root / "ru.py").write_bytes(RUSSIAN.encode("koi8-r"))
    assert project.ask("view", "ru.py").endswith(
        "[Read as koi8-r, a guess by its letters; if they are wrong, view it with its `encoding`.]"
    )
    answer = project.ask("replace", "ru.py", old_text="Иванов", new_text="Петров")
    assert "Read as koi8-r, a guess" in answer
    assert (project.root / "ru.py").read_bytes() == RUSSIAN.replace("Иванов", "Петров").encode(
        "koi8-r"
    )
    assert "[" not in project.ask("view", "ru.py", encoding="KOI8-R")
    with pytest.raises(ToolError, match="there is no text encoding 'koi9'"):
        project.ask("view", "ru.py", encoding="koi9")


@pytest.mark.parametrize("encoding", ["cp1251", "gb18030", "cp1252"])
def test_text_that_is_not_utf8_needs_its_encoding_once(project: Project, encoding: str) -> None:
    text = {"cp1251": "x = 'щи'\n", "gb18030": "中文\n", "cp1252": "é\n"}[encoding]
    path = project.root / "odd.txt"
    path.write_bytes(text.encode(encoding))
    with pytest.raises(ToolError, match=r"'.*odd.txt' is not UTF-8, .* with its `encoding`"):
        project.ask("view", "odd.txt")
    assert text.strip() in project.ask("view", "odd.txt", encoding=encoding)
    project.ask("insert", "odd.txt", insert_line=1, text="second")
    assert path.read_bytes() == (text + "second\n").encode(encoding)
    lacking = "\U0001f600" if encoding != "gb18030" else "\ud800"
    with pytest.raises(ToolError):
        project.ask("insert", "odd.txt", insert_line=1, text=lacking)
    assert path.read_bytes() == (text + "second\n").encode(encoding)


def test_new_file_is_created_in_the_named_encoding(project: Project) -> None:
    project.ask("create", "new.txt", text=RUSSIAN, encoding="windows-1251")
    assert (project.root / "new.txt").read_bytes() == RUSSIAN.encode("cp1251")
    with pytest.raises(EditRejectedError, match="which has no '→'"):
        project.ask("create", "other.txt", text="→\n", encoding="windows-1251")
    assert not (project.root / "other.txt").exists()


def test_utf8_file_is_not_read_in_another_encoding(project: Project) -> None:
    project.write("u.txt", "größer\n")
    with pytest.raises(ToolError, match="is UTF-8; leave out `encoding`"):
        project.ask("view", "u.txt", encoding="latin-1")
    assert "größer" in project.ask("view", "u.txt", encoding="utf-8")


def test_setting_of_the_editor_is_the_encoding_of_what_is_not_utf8(project: Project) -> None:
    path = project.root / "odd.txt"
    path.write_bytes("x = 'щи'\n".encode("cp1251"))
    project.editor.encodings[path] = "windows1251"
    assert project.ask("view", "odd.txt").endswith(
        "x = 'щи'\n[Read as cp1251, which the user's editor has as its setting.]"
    )
    project.write("u.txt", "щи\n")
    project.editor.encodings[project.root / "u.txt"] = "windows1251"
    assert project.ask("view", "u.txt") == "     1\tщи"


@pytest.mark.parametrize(
    "name", ["a\u202fb.txt", "tab\tname.txt", os.fsdecode(b"\xff\xfe.txt"), "in\u200bside/a.txt"]
)
def test_a_printed_name_is_accepted_as_a_path(project: Project, name: str) -> None:
    path = project.write(name, LINES)
    printed = printable(name)
    assert printed != name
    assert project.ask("view", printed, end_line=1).startswith("     1\tline 1\n")
    project.ask("replace", printed, old_text="line 2\n", new_text="second\n")
    assert path.read_text().splitlines()[1] == "second"
    with pytest.raises(ToolError) as refusal:
        project.ask("create", printed, text="x\n")
    assert printed in str(refusal.value)
    assert "\\\\" not in str(refusal.value)
    # A file whose own name has the backslash counts first.
    literal = project.write(printed, "literal\n")
    assert "literal" in project.ask("view", printed)
    assert literal.read_text() == "literal\n"


@pytest.mark.parametrize("editor", ["closed", "as VS Code shows it", "as Neovim shows it"])
def test_lone_cr_ends_no_line(project: Project, editor: str) -> None:
    path = project.write("progress.log", "10 %\r50 %\r\nnext\nlast\n")
    if editor != "closed":
        text = path.read_bytes().decode().replace("\r\n", "\n")
        project.editor.open(path, text.replace("\r", "\n") if "VS" in editor else text)
    lines = project.ask("view", "progress.log").split("\n")
    assert [line for line in lines if "\t" in line] == [
        "     1\t10 %\r50 %",
        "     2\tnext",
        "     3\tlast",
    ]
    project.ask("insert", "progress.log", insert_line=2, text="more\n")
    project.ask("replace", "progress.log", old_text="last\n", new_text="end\n")
    assert path.read_bytes() == b"10 %\r50 %\r\nnext\nmore\nend\n"
