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
class Workspace:
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


def make_workspace(spawner: Spawner, *roots: Path) -> Workspace:
    for root in roots:
        root.mkdir(exist_ok=True)
    folders, editor = Folders(roots), ScriptedEditor()
    history = EditHistory(folders, MemoryBlobs())
    documents = Documents(folders, editor, history, PathLocks())
    tools = search_tools(documents, folders, spawner)
    return Workspace(roots[0], folders, editor, {tool.spec.name: tool for tool in tools})


@pytest.fixture(scope="module")
def spawner() -> Generator[Spawner]:
    with closing(Spawner()) as spawner:
        yield spawner


@pytest.fixture
def workspace(tmp_path: Path, spawner: Spawner) -> Workspace:
    return make_workspace(spawner, tmp_path / "work")


@pytest.fixture
def git_workspace(workspace: Workspace) -> Workspace:
    git(workspace.root, "init")
    return workspace


def git(folder: Path, *args: str) -> None:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    subprocess.run(("git", *identity, *args), cwd=folder, check=True, capture_output=True)


def test_grep_shows_lines_by_file_with_numbers_and_context(workspace: Workspace) -> None:
    workspace.write("src/a.py", "one\ntwo\nthree\nfour\nfive\ntwo\n")
    workspace.write("b.txt", "two\r\nx")
    assert workspace.ask("grep", pattern="^two$") == (
        "3 matching lines in 2 of 2 files\nb.txt\n1:two\n\nsrc/a.py\n2:two\n6:two\n"
    )
    assert workspace.ask("grep", pattern="two", path="src", context=1) == (
        "2 matching lines in 1 of 1 file\nsrc/a.py\n1-one\n2:two\n3-three\n--\n5-five\n6:two\n"
    )


def test_grep_names_files_or_counts_lines(workspace: Workspace) -> None:
    workspace.write("a.py", "Two two\ntwo\n")
    workspace.write("b.ts", "TWO\n")
    workspace.write("c.md", "two\n")
    assert workspace.ask(
        "grep", pattern="^TWO", mode="files", ignore_case=True, glob="*.{py,ts}"
    ) == ("3 matching lines in 2 of 2 files\na.py\nb.ts")
    assert workspace.ask("grep", pattern="^two", mode="count") == (
        "2 matching lines in 2 of 3 files\na.py: 1\nc.md: 1"
    )


def test_a_pattern_with_a_line_end_matches_across_lines(workspace: Workspace) -> None:
    workspace.write("a.py", "class A:\n    x = 1\nclass B:\n    y = 2\n")
    workspace.write("b.py", "class A:\r\n    x = 3\r\nend\r\n")
    across = r"^class A:\n +x = \d$"
    assert workspace.ask("grep", pattern=across) == (
        "4 matching lines in 2 of 2 files\na.py\n1:class A:\n2:    x = 1\n\n"
        "b.py\n1:class A:\n2:    x = 3\n"
    )
    assert workspace.ask("grep", pattern="1\nclass B:\n", mode="count") == (
        "2 matching lines in 1 of 2 files\na.py: 2"
    )
    assert workspace.ask("grep", pattern=r"(?s:A:.*end)", mode="files") == (
        "3 matching lines in 1 of 2 files\nb.py"
    )
    assert workspace.ask("grep", pattern=r"y[^\n]*$", mode="count").endswith("a.py: 1")


def test_grep_finds_what_the_user_sees_and_not_what_the_disk_has(workspace: Workspace) -> None:
    path = workspace.write("a.py", "saved\n")
    workspace.editor.open(path)
    workspace.editor.type(path, "x\ntyped\n")
    assert workspace.ask("grep", pattern="saved") == "0 matching lines in 0 of 1 file"
    assert "a.py (unsaved text)\n2:typed" in workspace.ask("grep", pattern="typed")


def test_grep_and_glob_know_a_file_that_is_only_in_the_editor(workspace: Workspace) -> None:
    workspace.editor.open(workspace.root / "new.py", "fresh\n")
    workspace.editor.open(workspace.root.parent / "outside.py", "fresh\n")
    assert "1 of 1 file\nnew.py (unsaved text)\n1:fresh" in workspace.ask("grep", pattern="fresh")
    assert workspace.ask("glob", pattern="*.py") == "1 file\nnew.py"


def test_an_emptied_buffer_hides_the_text_on_disk(workspace: Workspace) -> None:
    path = workspace.write("a.py", "saved\n")
    workspace.editor.open(path, "")
    assert workspace.ask("grep", pattern="saved") == "0 matching lines in 0 of 1 file"


def test_what_git_ignores_is_left_out_until_it_is_named(git_workspace: Workspace) -> None:
    git_workspace.write(".gitignore", "build/\n*.log\n")
    git_workspace.write("a.py", "x\n")
    git_workspace.write("build/out.py", "x\n")
    git_workspace.write("tracked.log", "x\n")
    git(git_workspace.root, "add", "-f", "tracked.log")
    assert workspace_names(git_workspace) == [".gitignore", "a.py", "tracked.log"]
    assert workspace_names(git_workspace, path="build") == ["build/out.py"]


def workspace_names(workspace: Workspace, **args: Any) -> list[str]:
    return workspace.ask("glob", pattern="**", **args).splitlines()[1:]


def test_logs_of_conversations_are_no_files_of_the_project(workspace: Workspace) -> None:
    workspace.write(".openhands/conversations/41c207/events.jsonl", "x")
    workspace.write(".openhands/memory/notes.md", "x")
    workspace.write(".openhands/skills/release/SKILL.md", "x")
    workspace.write("docs/conversations/first.md", "x")
    assert workspace_names(workspace) == [
        ".openhands/skills/release/SKILL.md",
        "docs/conversations/first.md",
    ]


def test_files_of_nested_repositories_and_submodules_count(
    git_workspace: Workspace, tmp_path: Path
) -> None:
    origin = tmp_path / "origin"
    origin.mkdir()
    git(origin, "init")
    (origin / "lib.c").write_text("x")
    git(origin, "add", ".")
    git(origin, "commit", "-m", "x")
    allow = ("-c", "protocol.file.allow=always")
    git(git_workspace.root, *allow, "submodule", "add", str(origin), "module")
    git_workspace.write("nested/n.py", "x")
    git(git_workspace.root / "nested", "init")
    assert workspace_names(git_workspace) == [".gitmodules", "module/lib.c", "nested/n.py"]
    git(git_workspace.root, "submodule", "deinit", "-f", "module")
    assert workspace_names(git_workspace) == [".gitmodules", "nested/n.py"]


def test_a_deleted_file_and_strange_names_do_no_harm(git_workspace: Workspace) -> None:
    for name in ("gone.py", "new\nline.py", "ä 😀.py"):
        git_workspace.write(name, "x\n")
    (git_workspace.root / b"\xff.py".decode("utf-8", "surrogateescape")).write_text("x\n")
    git(git_workspace.root, "add", "gone.py")
    (git_workspace.root / "gone.py").unlink()
    assert workspace_names(git_workspace) == ["new\\nline.py", "ä 😀.py", "\\udcff.py"]
    assert "3 matching lines in 3 of 3 files" in git_workspace.ask("grep", pattern="x")


def test_a_repository_cannot_make_the_listing_run_its_programs(git_workspace: Workspace) -> None:
    marker = git_workspace.root.parent / "ran"
    git(git_workspace.root, "config", "core.fsmonitor", f"touch {marker}; false")
    git_workspace.write("a.py", "x")
    assert workspace_names(git_workspace) == ["a.py"]
    assert not marker.exists()


def test_a_pattern_that_never_ends_stops_in_time(workspace: Workspace) -> None:
    workspace.write("a.txt", "x" * 5000 + "\ny\n")
    workspace.write("b.txt", "found xxy\n")
    job = {
        "pattern": "(x+x+)+y", "ignore_case": False, "texts": {}, "context": 0, "limit": 9,
        "paths": [str(workspace.root / "b.txt"), str(workspace.root / "a.txt")], "timeout_s": 2,
    }  # fmt: skip
    search_result = search(job)
    assert search_result["late"]
    assert [hit["count"] for hit in search_result["files"]] == [1]


@pytest.mark.parametrize("pattern", ["(", "*a", "a{99999999999999}", "(?P<x>a)(?P<x>b)"])
def test_a_pattern_that_is_none_is_said_with_its_fault(workspace: Workspace, pattern: str) -> None:
    with pytest.raises(ToolError, match="is not a Python regular expression"):
        workspace.ask("grep", pattern=pattern)


def test_a_cancelled_search_ends_at_once(workspace: Workspace) -> None:
    workspace.write("a.txt", "x" * 5000 + "\ny\n")
    cancel = CancelToken()
    timer = threading.Timer(0.3, cancel.cancel)
    timer.start()
    with pytest.raises(Cancelled):
        workspace.ask("grep", cancel, pattern="(x+x+)+y")
    timer.join()


def test_binary_and_huge_files_are_skipped_and_said(workspace: Workspace) -> None:
    workspace.write("a.bin", b"x\0x")
    workspace.write("latin.txt", "é x\n".encode("latin-1"))
    workspace.write("wide.txt", "\ufeffwide x\r\n".encode("utf-16-le"))
    with workspace.write("huge.log").open("wb") as file:
        file.truncate(5 << 30)
    answer = workspace.ask("grep", pattern="x$")
    assert "[1 binary files skipped]" in answer
    assert f"[1 files skipped for their size: {workspace.root}/huge.log; use grep" in answer
    assert "latin.txt\n1:\ufffd x\n" in answer
    assert "wide.txt\n1:wide x\n" in answer


def test_what_was_cut_is_said_with_the_true_numbers(workspace: Workspace) -> None:
    workspace.write("a.py", "x\n" * 150)
    workspace.write("b.py", "x\n" * 5)
    answer = workspace.ask("grep", pattern="x")
    assert answer.startswith("155 matching lines in 2 of 2 files\n[only 100 of 155 matching lines")
    assert answer.count(":x") == 100
    assert "[only 1 of 2 files are shown" in workspace.ask(
        "grep", pattern="x", mode="files", limit=1
    )
    workspace.write("long.js", "a" * 10_000 + "needle" + "b" * 10_000)
    assert "needle" in (line := workspace.ask("grep", pattern="needle"))
    assert "[19,606 characters of this line cut]" in line
    workspace.write("wide.js", ("needle" + "b" * 390 + "\n") * 500)
    answer = workspace.ask("grep", pattern="needle", limit=1000)
    assert len(answer.encode()) <= 32 << 10
    assert "[the result is cut here" in answer


def test_glob_says_how_many_files_are_not_shown(workspace: Workspace) -> None:
    for number in range(410):
        workspace.write(f"{number:03}.txt")
    answer = workspace.ask("glob", pattern="*.txt")
    assert answer.startswith("410 files\n[only 400 of 410 files are shown")
    assert answer.endswith("399.txt")


def test_secrets_are_neither_searched_nor_named_as_a_path(workspace: Workspace) -> None:
    workspace.write(".env", "KEY=1\n")
    workspace.write("sub/server.pem", "KEY=1\n")
    workspace.write(".env.example", "KEY=\n")
    (workspace.root / "plain").symlink_to(".env")
    assert workspace.ask("grep", pattern="KEY") == (
        "1 matching line in 1 of 1 file\n"
        "[2 files that may hold secrets were left out: .env, sub/server.pem]\n"
        ".env.example\n1:KEY=\n"
    )
    for name in (".env", "plain"):
        with pytest.raises(ToolError, match="which asks the user"):
            workspace.ask("grep", pattern="KEY", path=name)


@pytest.mark.parametrize("tool", ["grep", "glob", "list"])
@pytest.mark.parametrize("path", ["..", "/etc", "out", ".git", "~", "none"])
def test_a_search_stays_inside(workspace: Workspace, tool: str, path: str) -> None:
    (workspace.root / "out").symlink_to("/etc")
    args: dict[str, Any] = {"path": path} | ({} if tool == "list" else {"pattern": "root"})
    with pytest.raises(ToolError):
        workspace.ask(tool, **args)


def test_links_are_not_followed(workspace: Workspace) -> None:
    workspace.write("../secret/s.txt", "secret\n")
    (workspace.root / "folder").symlink_to("../secret")
    (workspace.root / "file").symlink_to("../secret/s.txt")
    assert workspace.ask("grep", pattern="secret") == "0 matching lines in 0 of 0 files"
    assert "folder@ (link)" in workspace.ask("list")
    job = {
        "pattern": "secret", "ignore_case": False, "texts": {}, "context": 0, "limit": 9,
        "paths": [str(workspace.root / "folder" / "s.txt"), str(workspace.root / "file")],
        "timeout_s": 60,
    }  # fmt: skip
    assert search(job)["files"] == []


def test_list_goes_as_deep_as_asked_and_names_what_is_ignored(git_workspace: Workspace) -> None:
    git_workspace.write(".gitignore", "dist/\n")
    git_workspace.write("dist/x.js")
    git_workspace.write("src/deep/er/a.py")
    git_workspace.write("src/b.py")
    git(git_workspace.root, "add", ".")
    assert workspace_lines(git_workspace) == [
        f"{git_workspace.root}/", "  .git/ (ignored or empty)", "  .gitignore",
        "  dist/ (ignored or empty)", "  src/",
    ]  # fmt: skip
    assert workspace_lines(git_workspace, path="src", depth=2) == [
        f"{git_workspace.root}/src/", "  b.py", "  deep/", "    er/",
    ]  # fmt: skip
    with pytest.raises(ToolError, match="is a file; view it"):
        git_workspace.ask("list", path="src/b.py")


def workspace_lines(workspace: Workspace, **args: Any) -> list[str]:
    return workspace.ask("list", **args).splitlines()


def test_all_open_folders_are_searched(tmp_path: Path, spawner: Spawner) -> None:
    workspace = make_workspace(spawner, tmp_path / "one", tmp_path / "two")
    workspace.write("a.py", "x\n")
    workspace.write("../two/b.py", "x\n")
    assert workspace_names(workspace) == ["a.py", str(tmp_path / "two/b.py")]
    assert "2 matching lines in 2 of 2 files" in workspace.ask("grep", pattern="x")


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
