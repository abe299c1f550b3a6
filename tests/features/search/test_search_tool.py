from __future__ import annotations

import subprocess
import threading
from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from scripted_editor import MemoryBlobs, ScriptedEditor

from oh_daemon.common.cancel import Cancelled, CancelToken
from oh_daemon.common.masking import Masker
from oh_daemon.features.search.line_search import search
from oh_daemon.features.search.search import search_tools
from oh_daemon.kernel.ports import Tool, ToolContext
from oh_daemon.protocol.errors import ToolError
from oh_daemon.system.spawner import Spawner
from oh_daemon.workspace.concurrent_edits import PathLocks
from oh_daemon.workspace.documents import Documents
from oh_daemon.workspace.edit_history import EditHistory
from oh_daemon.workspace.file_names import fits, parse_glob
from oh_daemon.workspace.paths import Folders


@dataclass
class Desk:
    root: Path
    folders: Folders
    editor: ScriptedEditor
    tools: dict[str, Tool]

    def ask(self, tool: str, cancel: CancelToken | None = None, **args: Any) -> str:
        """Plan and run, as a real call does, and return the tool's answer."""
        intent = self.tools[tool].plan(args)
        assert (intent.risk, intent.footprint.writes) == ("low", False)
        context = ToolContext("c", "i", cancel or CancelToken(), lambda _: None, Masker())
        return self.tools[tool].run(args, context).content[0]["text"]

    def write(self, name: str, text: str | bytes = "") -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path


def make_desk(spawner: Spawner, *roots: Path) -> Desk:
    for root in roots:
        root.mkdir(exist_ok=True)
    folders, editor = Folders(roots), ScriptedEditor()
    history = EditHistory(folders, MemoryBlobs())
    documents = Documents(folders, editor, history, PathLocks())
    tools = search_tools(documents, folders, spawner)
    return Desk(roots[0], folders, editor, {tool.spec.name: tool for tool in tools})


@pytest.fixture(scope="module")
def spawner() -> Generator[Spawner]:
    with closing(Spawner()) as spawner:
        yield spawner


@pytest.fixture
def desk(tmp_path: Path, spawner: Spawner) -> Desk:
    return make_desk(spawner, tmp_path / "work")


@pytest.fixture
def git_desk(desk: Desk) -> Desk:
    git(desk.root, "init")
    return desk


def git(folder: Path, *args: str) -> None:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    subprocess.run(("git", *identity, *args), cwd=folder, check=True, capture_output=True)


def test_grep_shows_lines_by_file_with_numbers_and_context(desk: Desk) -> None:
    desk.write("src/a.py", "one\ntwo\nthree\nfour\nfive\ntwo\n")
    desk.write("b.txt", "two\r\nx")
    assert desk.ask("grep", pattern="^two$") == (
        "3 matching lines in 2 of 2 files\nb.txt\n1:two\n\nsrc/a.py\n2:two\n6:two\n"
    )
    assert desk.ask("grep", pattern="two", path="src", context=1) == (
        "2 matching lines in 1 of 1 file\nsrc/a.py\n1-one\n2:two\n3-three\n--\n5-five\n6:two\n"
    )


def test_grep_names_files_or_counts_lines(desk: Desk) -> None:
    desk.write("a.py", "Two two\ntwo\n")
    desk.write("b.ts", "TWO\n")
    desk.write("c.md", "two\n")
    assert desk.ask("grep", pattern="^TWO", mode="files", ignore_case=True, glob="*.{py,ts}") == (
        "3 matching lines in 2 of 2 files\na.py\nb.ts"
    )
    assert desk.ask("grep", pattern="^two", mode="count") == (
        "2 matching lines in 2 of 3 files\na.py: 1\nc.md: 1"
    )


def test_a_pattern_with_a_line_end_matches_across_lines(desk: Desk) -> None:
    desk.write("a.py", "class A:\n    x = 1\nclass B:\n    y = 2\n")
    desk.write("b.py", "class A:\r\n    x = 3\r\nend\r\n")
    across = r"^class A:\n +x = \d$"
    assert desk.ask("grep", pattern=across) == (
        "4 matching lines in 2 of 2 files\na.py\n1:class A:\n2:    x = 1\n\n"
        "b.py\n1:class A:\n2:    x = 3\n"
    )
    assert desk.ask("grep", pattern="1\nclass B:\n", mode="count") == (
        "2 matching lines in 1 of 2 files\na.py: 2"
    )
    assert desk.ask("grep", pattern=r"(?s:A:.*end)", mode="files") == (
        "3 matching lines in 1 of 2 files\nb.py"
    )
    assert desk.ask("grep", pattern=r"y[^\n]*$", mode="count").endswith("a.py: 1")


def test_grep_finds_what_the_user_sees_and_not_what_the_disk_has(desk: Desk) -> None:
    path = desk.write("a.py", "saved\n")
    desk.editor.open(path)
    desk.editor.type(path, "x\ntyped\n")
    assert desk.ask("grep", pattern="saved") == "0 matching lines in 0 of 1 file"
    assert "a.py (unsaved text)\n2:typed" in desk.ask("grep", pattern="typed")


def test_grep_and_glob_know_a_file_that_is_only_in_the_editor(desk: Desk) -> None:
    desk.editor.open(desk.root / "new.py", "fresh\n")
    desk.editor.open(desk.root.parent / "outside.py", "fresh\n")
    assert "1 of 1 file\nnew.py (unsaved text)\n1:fresh" in desk.ask("grep", pattern="fresh")
    assert desk.ask("glob", pattern="*.py") == "1 file\nnew.py"


def test_an_emptied_buffer_hides_the_text_on_disk(desk: Desk) -> None:
    path = desk.write("a.py", "saved\n")
    desk.editor.open(path, "")
    assert desk.ask("grep", pattern="saved") == "0 matching lines in 0 of 1 file"


def test_what_git_ignores_is_left_out_until_it_is_named(git_desk: Desk) -> None:
    git_desk.write(".gitignore", "build/\n*.log\n")
    git_desk.write("a.py", "x\n")
    git_desk.write("build/out.py", "x\n")
    git_desk.write("tracked.log", "x\n")
    git(git_desk.root, "add", "-f", "tracked.log")
    assert desk_names(git_desk) == [".gitignore", "a.py", "tracked.log"]
    assert desk_names(git_desk, path="build") == ["build/out.py"]


def desk_names(desk: Desk, **args: Any) -> list[str]:
    return desk.ask("glob", pattern="**", **args).splitlines()[1:]


def test_logs_of_conversations_are_no_files_of_the_project(desk: Desk) -> None:
    desk.write(".openhands/conversations/41c207/events.jsonl", "x")
    desk.write(".openhands/memory/notes.md", "x")
    desk.write(".openhands/skills/release/SKILL.md", "x")
    desk.write("docs/conversations/first.md", "x")
    assert desk_names(desk) == [".openhands/skills/release/SKILL.md", "docs/conversations/first.md"]


def test_files_of_nested_repositories_and_submodules_count(git_desk: Desk, tmp_path: Path) -> None:
    origin = tmp_path / "origin"
    origin.mkdir()
    git(origin, "init")
    (origin / "lib.c").write_text("x")
    git(origin, "add", ".")
    git(origin, "commit", "-m", "x")
    allow = ("-c", "protocol.file.allow=always")
    git(git_desk.root, *allow, "submodule", "add", str(origin), "module")
    git_desk.write("nested/n.py", "x")
    git(git_desk.root / "nested", "init")
    assert desk_names(git_desk) == [".gitmodules", "module/lib.c", "nested/n.py"]
    git(git_desk.root, "submodule", "deinit", "-f", "module")
    assert desk_names(git_desk) == [".gitmodules", "nested/n.py"]


def test_a_deleted_file_and_strange_names_do_no_harm(git_desk: Desk) -> None:
    for name in ("gone.py", "new\nline.py", "ä 😀.py"):
        git_desk.write(name, "x\n")
    (git_desk.root / b"\xff.py".decode("utf-8", "surrogateescape")).write_text("x\n")
    git(git_desk.root, "add", "gone.py")
    (git_desk.root / "gone.py").unlink()
    assert desk_names(git_desk) == ["new\\nline.py", "ä 😀.py", "\\udcff.py"]
    assert "3 matching lines in 3 of 3 files" in git_desk.ask("grep", pattern="x")


def test_a_repository_cannot_make_the_listing_run_its_programs(git_desk: Desk) -> None:
    marker = git_desk.root.parent / "ran"
    git(git_desk.root, "config", "core.fsmonitor", f"touch {marker}; false")
    git_desk.write("a.py", "x")
    assert desk_names(git_desk) == ["a.py"]
    assert not marker.exists()


def test_a_pattern_that_never_ends_stops_in_time(desk: Desk) -> None:
    desk.write("a.txt", "x" * 5000 + "\ny\n")
    desk.write("b.txt", "found xxy\n")
    job = {
        "pattern": "(x+x+)+y", "ignore_case": False, "texts": {}, "context": 0, "limit": 9,
        "paths": [str(desk.root / "b.txt"), str(desk.root / "a.txt")], "timeout_s": 2,
    }  # fmt: skip
    search_result = search(job)
    assert search_result["late"]
    assert [hit["count"] for hit in search_result["files"]] == [1]


@pytest.mark.parametrize("pattern", ["(", "*a", "a{99999999999999}", "(?P<x>a)(?P<x>b)"])
def test_a_pattern_that_is_none_is_said_with_its_fault(desk: Desk, pattern: str) -> None:
    with pytest.raises(ToolError, match="is not a Python regular expression"):
        desk.ask("grep", pattern=pattern)


def test_a_cancelled_search_ends_at_once(desk: Desk) -> None:
    desk.write("a.txt", "x" * 5000 + "\ny\n")
    cancel = CancelToken()
    timer = threading.Timer(0.3, cancel.cancel)
    timer.start()
    with pytest.raises(Cancelled):
        desk.ask("grep", cancel, pattern="(x+x+)+y")
    timer.join()


def test_binary_and_huge_files_are_skipped_and_said(desk: Desk) -> None:
    desk.write("a.bin", b"x\0x")
    desk.write("latin.txt", "é x\n".encode("latin-1"))
    desk.write("wide.txt", "\ufeffwide x\r\n".encode("utf-16-le"))
    with desk.write("huge.log").open("wb") as file:
        file.truncate(5 << 30)
    answer = desk.ask("grep", pattern="x$")
    assert "[1 binary files skipped]" in answer
    assert f"[1 files skipped for their size: {desk.root}/huge.log; use grep" in answer
    assert "latin.txt\n1:\ufffd x\n" in answer
    assert "wide.txt\n1:wide x\n" in answer


def test_what_was_cut_is_said_with_the_true_numbers(desk: Desk) -> None:
    desk.write("a.py", "x\n" * 150)
    desk.write("b.py", "x\n" * 5)
    answer = desk.ask("grep", pattern="x")
    assert answer.startswith("155 matching lines in 2 of 2 files\n[only 100 of 155 matching lines")
    assert answer.count(":x") == 100
    assert "[only 1 of 2 files are shown" in desk.ask("grep", pattern="x", mode="files", limit=1)
    desk.write("long.js", "a" * 10_000 + "needle" + "b" * 10_000)
    assert "needle" in (line := desk.ask("grep", pattern="needle"))
    assert "[19,606 characters of this line cut]" in line
    desk.write("wide.js", ("needle" + "b" * 390 + "\n") * 500)
    answer = desk.ask("grep", pattern="needle", limit=1000)
    assert len(answer.encode()) <= 32 << 10
    assert "[the result is cut here" in answer


def test_glob_says_how_many_files_are_not_shown(desk: Desk) -> None:
    for number in range(410):
        desk.write(f"{number:03}.txt")
    answer = desk.ask("glob", pattern="*.txt")
    assert answer.startswith("410 files\n[only 400 of 410 files are shown")
    assert answer.endswith("399.txt")


def test_secrets_are_neither_searched_nor_named_as_a_path(desk: Desk) -> None:
    desk.write(".env", "KEY=1\n")
    desk.write("sub/server.pem", "KEY=1\n")
    desk.write(".env.example", "KEY=\n")
    (desk.root / "plain").symlink_to(".env")
    assert desk.ask("grep", pattern="KEY") == (
        "1 matching line in 1 of 1 file\n"
        "[2 files that may hold secrets were left out: .env, sub/server.pem]\n"
        ".env.example\n1:KEY=\n"
    )
    for name in (".env", "plain"):
        with pytest.raises(ToolError, match="which asks the user"):
            desk.ask("grep", pattern="KEY", path=name)


@pytest.mark.parametrize("tool", ["grep", "glob", "list"])
@pytest.mark.parametrize("path", ["..", "/etc", "out", ".git", "~", "none"])
def test_a_search_stays_inside(desk: Desk, tool: str, path: str) -> None:
    (desk.root / "out").symlink_to("/etc")
    args: dict[str, Any] = {"path": path} | ({} if tool == "list" else {"pattern": "root"})
    with pytest.raises(ToolError):
        desk.ask(tool, **args)


def test_links_are_not_followed(desk: Desk) -> None:
    desk.write("../secret/s.txt", "secret\n")
    (desk.root / "folder").symlink_to("../secret")
    (desk.root / "file").symlink_to("../secret/s.txt")
    assert desk.ask("grep", pattern="secret") == "0 matching lines in 0 of 0 files"
    assert "folder@ (link)" in desk.ask("list")
    job = {
        "pattern": "secret", "ignore_case": False, "texts": {}, "context": 0, "limit": 9,
        "paths": [str(desk.root / "folder" / "s.txt"), str(desk.root / "file")], "timeout_s": 60,
    }  # fmt: skip
    assert search(job)["files"] == []


def test_list_goes_as_deep_as_asked_and_names_what_is_ignored(git_desk: Desk) -> None:
    git_desk.write(".gitignore", "dist/\n")
    git_desk.write("dist/x.js")
    git_desk.write("src/deep/er/a.py")
    git_desk.write("src/b.py")
    git(git_desk.root, "add", ".")
    assert desk_lines(git_desk) == [
        f"{git_desk.root}/", "  .git/ (ignored or empty)", "  .gitignore",
        "  dist/ (ignored or empty)", "  src/",
    ]  # fmt: skip
    assert desk_lines(git_desk, path="src", depth=2) == [
        f"{git_desk.root}/src/", "  b.py", "  deep/", "    er/",
    ]  # fmt: skip
    with pytest.raises(ToolError, match="is a file; view it"):
        git_desk.ask("list", path="src/b.py")


def desk_lines(desk: Desk, **args: Any) -> list[str]:
    return desk.ask("list", **args).splitlines()


def test_all_open_folders_are_searched(tmp_path: Path, spawner: Spawner) -> None:
    desk = make_desk(spawner, tmp_path / "one", tmp_path / "two")
    desk.write("a.py", "x\n")
    desk.write("../two/b.py", "x\n")
    assert desk_names(desk) == ["a.py", str(tmp_path / "two/b.py")]
    assert "2 matching lines in 2 of 2 files" in desk.ask("grep", pattern="x")


@pytest.mark.parametrize(
    ("pattern", "fitting", "other_names"),
    [
        ("*.py", ["a.py", "x/a.py"], ["a.pyc", "a.py/x"]),
        ("src/*.py", ["src/a.py"], ["src/x/a.py", "x/src/a.py"]),
        ("./src/**/*.py", ["src/a.py", "src/x/y/a.py"], ["a.py"]),
        ("**/test_?.py", ["test_a.py", "x/test_b.py"], ["test_ab.py"]),
        ("src/**", ["src/a", "src/a/b"], ["a"]),
        ("*.{ts,{js,mjs}}", ["a.ts", "a.mjs"], ["a.py"]),
        ("[a-c].py", ["b.py"], ["d.py"]),
        ("a/**/b/**/c", ["a/b/c", "a/x/b/y/z/c"], ["a/c", "b/c"]),
        ("/a.py", ["a.py"], ["x/a.py"]),
    ],
)
def test_a_glob_fits_as_in_gitignore(
    pattern: str, fitting: list[str], other_names: list[str]
) -> None:
    alternatives = parse_glob(pattern)
    assert [name for name in fitting + other_names if fits(Path(name), alternatives)] == fitting


def test_a_hostile_glob_ends_in_time() -> None:
    assert not fits(Path("/".join("a" * 60)), parse_glob("**/a/" * 30 + "b"))
    assert not fits(Path("a" * 250), parse_glob("*a" * 40 + "b"))
    for pattern in ("{a,b}" * 10, "{a"):
        with pytest.raises(ToolError):
            parse_glob(pattern)
