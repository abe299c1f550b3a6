"""Faults while files are written: kill -9, a full disk, links swapped during the work."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path
from typing import Self

import pytest
from places import TESTS
from scripted_editor import MemoryBlobs

from oh_daemon.common.cancel import CancelToken
from oh_daemon.common.masking import Masker
from oh_daemon.features.edit.edit import EditTool
from oh_daemon.kernel.ports import ToolContext
from oh_daemon.protocol.errors import EditRejectedError, ToolError
from oh_daemon.workspace.concurrent_edits import PathLocks
from oh_daemon.workspace.documents import Documents
from oh_daemon.workspace.edit_history import EditHistory
from oh_daemon.workspace.files import Files, sha256_of
from oh_daemon.workspace.paths import Folders

OLD, NEW = b"old\n" * 3000, b"new text\n" * 3000
# The whole program of the child: one write of one file.
REPLACE = """
import sys
from pathlib import Path
from oh_daemon.workspace.files import Files, sha256_of
from oh_daemon.workspace.paths import Folders
path = Path(sys.argv[1])
files = Files(Folders((path.parent,)), lambda data: None)
files.replace(path, b"new text\\n" * 3000, sha256_of(path.read_bytes()))
"""
# System calls that a write makes in this order, and that Python's own start does not make.
CALLS = ("flock", "fsync", "fchmod", "renameat", "unlinkat")


def make_tool(root: Path) -> EditTool:
    folders = Folders((root,))
    history = EditHistory(folders, MemoryBlobs())
    return EditTool(Documents(folders, None, history, PathLocks()))


def context() -> ToolContext:
    return ToolContext("c", "i", CancelToken(), lambda _: None, Masker())


def kill_at(call: str, number: int, path: Path) -> int:
    """Run the child under strace, which kills it inside that call; return its exit code."""
    inject = f"inject={call}:signal=KILL:when={number}"
    argv = ("strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={call}", "-e", inject,
            sys.executable, "-B", "-c", REPLACE, str(path))  # fmt: skip
    return subprocess.run(argv, check=False, stderr=subprocess.DEVNULL, timeout=300).returncode


def check_kill(path: Path, call: str, number: int) -> bool:
    """Check the text after a kill and the folder after the next write; return whether it hit."""
    path.write_bytes(OLD)
    was_killed = kill_at(call, number, path) != 0
    assert path.read_bytes() in (OLD, NEW)
    Files(Folders((path.parent,)), lambda _: None).replace(path, OLD, sha256_of(path.read_bytes()))
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]
    return was_killed


@pytest.mark.parametrize("call", CALLS)
def test_a_kill_inside_a_write_leaves_the_old_text_or_the_new(tmp_path: Path, call: str) -> None:
    (tmp_path / "w").mkdir()
    assert check_kill(tmp_path / "w" / "a.txt", call, 1)


@pytest.mark.full
def test_two_hundred_kills_inside_writes_leave_the_old_text_or_the_new(tmp_path: Path) -> None:
    (tmp_path / "w").mkdir()
    n_kills = 0
    while n_kills < 200:
        for call in CALLS:
            n_kills += sum(check_kill(tmp_path / "w" / "a.txt", call, n) for n in (1, 2, 3))


def trace_calls(path: Path, calls: str, *more: str) -> tuple[str, ...]:
    """Return the command of the child, with its system calls of these names noted beside `path`."""
    notes = str(path.with_suffix(".trace"))
    child = (sys.executable, "-B", "-c", REPLACE, str(path))
    return ("strace", "-f", "-qq", "-o", notes, "-e", f"trace={calls}", *more, *child)


def test_a_text_is_on_the_disk_before_it_gets_the_name_and_the_name_before_we_say_so(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(OLD)
    subprocess.run(trace_calls(path, "write,fsync,renameat"), check=True, timeout=300)
    trace_lines = path.with_suffix(".trace").read_text().splitlines()
    calls = [line.split(maxsplit=1)[1].partition("(")[0] for line in trace_lines]
    at = calls.index("renameat")
    assert calls[at - 1 : at + 2] == ["fsync", "renameat", "fsync"]
    # Once is enough: the bytes and the metadata are there by then.
    assert calls[:at].count("fsync") == 1


def test_what_the_user_saves_while_a_new_text_is_written_stays(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(OLD)
    slow = trace_calls(path, "fsync", "-e", "inject=fsync:delay_enter=700000")
    with subprocess.Popen(slow, stderr=subprocess.DEVNULL) as child:
        while not any(tmp_path.glob(".oh-*.tmp")):
            assert child.poll() is None
            threading.Event().wait(0.01)
        path.write_bytes(b"the user's\n")
        assert child.wait(300) != 0
    assert path.read_bytes() == b"the user's\n"


# The kernel writes up to the limit and then ends the process with SIGXFSZ, as in setrlimit(2):
# a kill in the middle of a write. Python ignores that signal by default.
APPEND = """
import resource, signal, sys
from pathlib import Path
from oh_daemon.workspace.files import Files, sha256_of
from oh_daemon.workspace.paths import Folders
path, limit, is_killed = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "True"
old = path.read_bytes()
if is_killed:
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
files = Files(Folders((path.parent,)), lambda data: None)
files.replace(path, old + b"line\\n" * 9, sha256_of(old))
"""
MORE = b"line\n" * 9


def append_up_to(path: Path, n_bytes: int, *, is_killed: bool) -> None:
    argv = (sys.executable, "-B", "-c", APPEND, path, str(len(OLD) + n_bytes), str(is_killed))
    path.write_bytes(OLD)
    outcome = subprocess.run(argv, check=False, capture_output=True, timeout=300)
    assert outcome.returncode != 0


@pytest.mark.parametrize(
    "n_bytes", [0, 7, *(pytest.param(n, marks=pytest.mark.full) for n in (1, len(MORE) - 1))]
)
def test_append_cut_short_by_a_kill_is_completed_at_the_next_start(
    tmp_path: Path, n_bytes: int
) -> None:
    path = tmp_path / "a.log"
    append_up_to(path, n_bytes, is_killed=True)
    assert path.read_bytes() == OLD + MORE[:n_bytes]
    inode = path.stat().st_ino
    Files(Folders((tmp_path,)), lambda _: None).sweep(path)
    assert path.read_bytes() == OLD + (MORE if n_bytes else b"")
    assert path.stat().st_ino == inode
    assert [*tmp_path.iterdir()] == [path]


def test_append_is_not_completed_after_lines_of_another_program(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    append_up_to(path, 7, is_killed=True)
    with path.open("ab") as log:
        log.write(b"theirs\n")
    Files(Folders((tmp_path,)), lambda _: None).sweep(path)
    assert path.read_bytes() == OLD + MORE[:7] + b"theirs\n"
    assert [*tmp_path.iterdir()] == [path]


def test_append_without_space_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    append_up_to(path, 7, is_killed=False)
    assert path.read_bytes() == OLD
    assert [*tmp_path.iterdir()] == [path]


@pytest.fixture
def full_disk(tmp_path: Path) -> Generator[Path]:
    """A folder with 64 KiB of room."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = subprocess.run(
        ("mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)),
        check=False,
        capture_output=True,
    )
    if mount.returncode != 0:
        pytest.skip("only root can mount a small disk")
    yield disk
    subprocess.run(("umount", "-l", str(disk)), check=True)


@pytest.mark.parametrize("is_linked", [False, True])
def test_a_full_disk_leaves_the_file_as_it_was(full_disk: Path, *, is_linked: bool) -> None:
    path = full_disk / "a"
    path.write_bytes(OLD)
    if is_linked:
        (full_disk / "b").hardlink_to(path)
    files = Files(Folders((full_disk,)), lambda _: None)
    with pytest.raises(EditRejectedError, match="No space left"):
        files.replace(path, b"x" * 200_000, sha256_of(OLD))
    with pytest.raises(EditRejectedError, match="No space left"):
        files.create(full_disk / "new", b"x" * 200_000)
    assert path.read_bytes() == OLD
    assert sorted(entry.name for entry in full_disk.iterdir()) == ["a", "b"][: 1 + is_linked]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a file immutable")
def test_an_immutable_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(OLD)
    outcome = subprocess.run(("chattr", "+i", str(path)), check=False, capture_output=True)
    if outcome.returncode != 0:
        pytest.skip("this file system has no immutable files")
    try:
        with pytest.raises(ToolError):
            Files(Folders((tmp_path,)), lambda _: None).replace(path, NEW, sha256_of(OLD))
    finally:
        subprocess.run(("chattr", "-i", str(path)), check=True)
    assert path.read_bytes() == OLD
    assert [entry.name for entry in tmp_path.iterdir()] == ["a"]


class Swapper:
    """A thread that turns a folder into a link to the outside and back, as fast as it can."""

    def __init__(self, inside: Path, outside: Path) -> None:
        self.n_swaps = 0
        self._inside, self._outside = inside, outside
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        parked_folder = self._inside.with_name("parked")
        while not self._end.is_set():
            self._inside.rename(parked_folder)
            with suppress(FileExistsError):  # A tool may create the folder again.
                self._inside.symlink_to(self._outside)
            while parked_folder.exists():
                self._clear()
                with suppress(OSError):
                    parked_folder.rename(self._inside)
            self.n_swaps += 1

    def _clear(self) -> None:
        try:
            self._inside.unlink(missing_ok=True)
        except IsADirectoryError:
            shutil.rmtree(self._inside, ignore_errors=True)


def check_race(tmp_path: Path, rounds: int) -> None:
    root, outside = tmp_path / "work", tmp_path / "outside"
    (root / "src").mkdir(parents=True)
    outside.mkdir()
    (outside / "a.py").write_text("secret\n")
    (root / "src" / "a.py").write_text("0\n")
    tool, n_done = make_tool(root), 0
    with Swapper(root / "src", outside) as swapper:
        for number in range(rounds):
            # While the folder is missing or a link, a call may fail, but nothing else may happen.
            with suppress(ToolError):
                view = tool.run({"command": "view", "path": "src/a.py"}, context())
                assert "secret" not in view.content[0]["text"]
                args = {"command": "replace", "path": "src/a.py"}
                tool.run(
                    args | {"old_text": f"{n_done}\n", "new_text": f"{n_done + 1}\n"}, context()
                )
                n_done += 1
            with suppress(ToolError):
                args = {"command": "create", "path": f"src/new{number}.py", "text": "x"}
                tool.run(args, context())
    assert swapper.n_swaps > 0
    assert n_done > 0
    assert (outside / "a.py").read_text() == "secret\n"
    assert [path.name for path in outside.iterdir()] == ["a.py"]
    assert (root / "src" / "a.py").read_text() == f"{n_done}\n"


def test_a_folder_swapped_for_a_link_during_edits_leads_nowhere(tmp_path: Path) -> None:
    check_race(tmp_path, 500)


@pytest.mark.full
def test_a_folder_swapped_for_a_link_ten_thousand_times_leads_nowhere(tmp_path: Path) -> None:
    check_race(tmp_path, 10_000)


def test_writers_in_one_folder_do_not_sweep_each_other_away(tmp_path: Path) -> None:
    """Each write clears away what dead writers left; a writer between two calls is not dead."""
    failures: list[BaseException] = []

    def write(name: str) -> None:
        files = Files(Folders((tmp_path,)), lambda _: None)
        try:
            for number in range(400):
                files.create(tmp_path / f"{name}{number}", b"")
        except BaseException as exc:  # noqa: BLE001 - handed to the test's own thread.
            failures.append(exc)

    threads = [threading.Thread(target=write, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


DEEP = """
import sys
from fake_llm import FakeLLM, call, say
from oh_daemon import LLM, Agent, Conversation, Workspace

with FakeLLM() as fake, Workspace(sys.argv[1]) as workspace:
    for name, n_folders in (("few", 100), ("many", 400)):
        path = "/".join([*[name] * n_folders, "new.txt"])
        fake.add(call("edit", command="create", path=path, file_text="new"))
    fake.add(say("Done."))
    llm = LLM(model="openai/fake", api_key="sk-deep-0123456789", base_url=fake.url)
    with Conversation(Agent(llm=llm), workspace) as conversation:
        conversation.run("go")
"""


def test_a_deep_path_costs_no_more_than_its_number_of_folders(tmp_path: Path) -> None:
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed: apt-get install strace")
    project, trace = tmp_path / "project", tmp_path / "trace"
    project.mkdir()
    argv = ("strace", "-f", "-qq", "-s", "9", "-o", str(trace), "-e", "trace=%file",
            sys.executable, "-B", "-c", DEEP, str(project))  # fmt: skip
    tests = {"PYTHONPATH": str(TESTS / "support")}
    subprocess.run(argv, check=True, env=os.environ | tests, timeout=300)
    calls = trace.read_text("utf-8", "replace").splitlines()
    few, many = (sum(f'"{n}"' in c or f"/{n}/" in c for c in calls) for n in ("few", "many"))
    assert 100 < few < many < 5 * few
    assert project.joinpath(*["many"] * 400, "new.txt").read_text() == "new"
