"""Real process trees: what was started ends, whatever it does and whichever process dies first."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from held import LEVEL, view_of
from leftovers import DEADLINE_S, n_open_files, tagged_pids, wait_until_gone

from oh_daemon.common.cancel import Cancelled, CancelToken
from oh_daemon.protocol.errors import ToolError
from oh_daemon.system import reaper
from oh_daemon.system.environment import clean_env
from oh_daemon.system.spawner import MAX_OUTPUT_BYTES, Process, Spawner

ENV = {"PATH": os.environ["PATH"]}
# Six children that are hard to end: in the same group, detached, by a double fork, without the tag,
# deaf to polite signals, and stopped. Each writes its process id to the file `pids`.
TREE = """
say='echo $BASHPID >> pids; exec sleep 1000'
bash -c "$say" &
setsid bash -c "$say" &
(setsid nohup bash -c "$say" >/dev/null 2>&1 &) &
(setsid env -i PATH="$PATH" bash -c "$say" &)
bash -c 'trap "" TERM HUP INT; echo $BASHPID >> pids; while :; do sleep 1000; done' &
bash -c 'echo $BASHPID >> pids; kill -STOP $BASHPID' &
while [ "$(wc -l < pids)" -lt 6 ]; do read -t 0.01 < /dev/zero; done 2>/dev/null
echo ready
wait
"""


@pytest.fixture
def spawner(tmp_path: Path) -> Iterator[Spawner]:
    """Start programs at the level that this run wants."""
    host = Spawner()
    view = view_of(host, tmp_path)
    spawner = view.spawner if view else host
    yield spawner
    spawner.close()
    wait_until_gone(tagged_pids(spawner.run_id))
    if view is not None:
        view.close()
        host.close()


def _start_tree(spawner: Spawner, folder: Path) -> tuple[Process, set[int]]:
    (folder / "pids").touch()
    read, write = os.pipe()
    process = spawner.spawn(
        ["bash", "-c", TREE], cwd=folder, env=clean_env(os.environ), fds=[None, write, None]
    )
    os.close(write)
    with os.fdopen(read, "rb") as out:
        assert out.readline() == b"ready\n"
    # What they wrote into `pids` are their numbers in a sandbox, if they are in one.
    return process, reaper.descendants({_reaper_pid(spawner)}, reaper.processes())


def test_a_program_runs_to_its_end_with_its_output_and_code(
    spawner: Spawner, tmp_path: Path
) -> None:
    script = "cat; echo out; echo err >&2; pwd; exit 3"
    outcome = spawner.run(["bash", "-c", script], cwd=tmp_path, timeout_s=60, cancel=CancelToken())
    assert (outcome.exit_code, outcome.stdout) == (3, f"out\n{tmp_path}\n".encode())


def test_nothing_is_started_before_the_first_use() -> None:
    before = set(psutil.Process().children())
    Spawner().close()
    assert set(psutil.Process().children()) <= before


def test_a_program_that_does_not_exist_is_named(spawner: Spawner, tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="no program 'no-such-program'"):
        spawner.spawn(["no-such-program"], cwd=tmp_path, env=ENV, fds=[])
    if LEVEL != "overlay":  # In a sandbox there may be folders that the disk does not have.
        with pytest.raises(ToolError, match="gone' is gone"):
            spawner.spawn(["true"], cwd=tmp_path / "gone", env=ENV, fds=[])


def test_a_command_line_too_long_for_the_system_names_the_way_out(
    spawner: Spawner, tmp_path: Path
) -> None:
    with pytest.raises(ToolError, match="write the text into a file"):
        spawner.spawn(["echo", "x" * (1 << 20)], cwd=tmp_path, env=ENV, fds=[])
    _run_true(spawner, tmp_path)


def test_a_child_has_only_the_descriptors_that_it_was_given(
    spawner: Spawner, tmp_path: Path
) -> None:
    script = "import os; print(sorted(map(int, os.listdir('/proc/self/fd'))))"
    outcome = spawner.run(
        [sys.executable, "-c", script], cwd=tmp_path, timeout_s=60, cancel=CancelToken()
    )
    assert outcome.stdout == b"[0, 1, 2, 3]\n"  # 3 is the folder being listed.


def test_a_program_that_takes_too_long_is_ended_with_its_children(
    spawner: Spawner, tmp_path: Path
) -> None:
    with pytest.raises(ToolError, match=r"took more than 0\.2 s"):
        spawner.run(
            ["bash", "-c", "sleep 1000 & sleep 1000"],
            cwd=tmp_path,
            timeout_s=0.2,
            cancel=CancelToken(),
        )
    wait_until_gone(tagged_pids(f"{spawner.run_id}.1"))


def test_a_cancel_ends_a_program_at_once(spawner: Spawner, tmp_path: Path) -> None:
    cancel = CancelToken()
    timer = threading.Timer(0.2, cancel.cancel)
    timer.start()
    with pytest.raises(Cancelled):
        spawner.run(["sleep", "1000"], cwd=tmp_path, timeout_s=1000, cancel=cancel)
    timer.join()
    wait_until_gone(tagged_pids(f"{spawner.run_id}.1"))


def test_a_program_cannot_write_without_end(spawner: Spawner, tmp_path: Path) -> None:
    outcome = spawner.run(["yes"], cwd=tmp_path, timeout_s=60, cancel=CancelToken())
    assert (outcome.exit_code, len(outcome.stdout)) == (1, MAX_OUTPUT_BYTES)


def test_an_orphan_that_holds_the_output_does_not_hold_the_caller(
    spawner: Spawner, tmp_path: Path
) -> None:
    outcome = spawner.run(
        ["bash", "-c", "sleep 1000 & echo out"], cwd=tmp_path, timeout_s=900, cancel=CancelToken()
    )
    assert (outcome.exit_code, outcome.stdout) == (0, b"out\n")


def test_a_tree_ends_as_a_whole_however_detached(spawner: Spawner, tmp_path: Path) -> None:
    process, pids = _start_tree(spawner, tmp_path)
    process.kill_tree()
    # Nothing ties a child without tag and parent to the tree; the reaper ends it when we close.
    untagged_pids = {pid for pid in pids if _has_no_tag(pid, spawner)}
    wait_until_gone(pids - untagged_pids)
    assert process.wait(DEADLINE_S) == -signal.SIGTERM
    spawner.close()
    wait_until_gone(untagged_pids)


def test_closing_ends_every_descendant(spawner: Spawner, tmp_path: Path) -> None:
    _, pids = _start_tree(spawner, tmp_path)
    spawner.close()
    wait_until_gone(pids)
    with pytest.raises(ToolError, match="stopping"):
        spawner.spawn(["true"], cwd=tmp_path, env=ENV, fds=[])


def test_nobody_survives_the_kill_of_the_daemon(tmp_path: Path) -> None:
    """SIGKILL leaves the daemon no time to clean up."""
    (tmp_path / "pids").touch()
    script = (
        "import os, sys; from pathlib import Path; from oh_daemon.system.spawner import *\n"
        f"spawner, argv = Spawner(), ['bash', '-c', {TREE!r}]\n"
        "spawner.spawn(argv, cwd=Path.cwd(), env=os.environ, fds=[None, 1, 2])\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as daemon:
        assert daemon.stdout is not None
        assert daemon.stdout.readline() == b"ready\n"
        children = [child.pid for child in psutil.Process(daemon.pid).children(recursive=True)]
        daemon.kill()
        wait_until_gone([*children, *map(int, (tmp_path / "pids").read_text().split())])


def test_a_killed_reaper_hangs_nobody_and_is_replaced(spawner: Spawner, tmp_path: Path) -> None:
    process = spawner.spawn(["sleep", "1000"], cwd=tmp_path, env=ENV, fds=[])
    successors = queue.SimpleQueue[Process]()
    read, write = os.pipe()

    def start_next(_end: object) -> None:
        successors.put(spawner.spawn(["cat"], cwd=tmp_path, env=ENV, fds=[read]))
        os.close(read)

    # At once, while what the reaper left is still being cleared away.
    process.exit_code.add_done_callback(start_next)
    os.kill(_reaper_pid(spawner), signal.SIGKILL)
    assert process.wait(DEADLINE_S) == -signal.SIGKILL
    successor = successors.get(timeout=DEADLINE_S)
    outcome = spawner.run(["echo", "again"], cwd=tmp_path, timeout_s=60, cancel=CancelToken())
    assert outcome.stdout == b"again\n"
    os.close(write)
    assert successor.wait(DEADLINE_S) == 0


def test_a_process_outlives_the_thread_that_started_it(spawner: Spawner, tmp_path: Path) -> None:
    """A parent death signal would already come when the thread ends."""
    processes: list[Process] = []

    def start() -> None:
        processes.append(spawner.spawn(["cat"], cwd=tmp_path, env=ENV, fds=[read]))

    read, write = os.pipe()
    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    os.close(read)
    os.close(write)  # The end of input: only a `cat` that still lives exits with 0.
    assert processes[0].wait(DEADLINE_S) == 0


def test_out_of_descriptors_is_an_answer_and_costs_none(tmp_path: Path) -> None:
    """The script has a process of its own, whose table of descriptors is nearly full."""
    script = """
import asyncio, os, resource
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
import anyio
from oh_daemon.protocol.errors import ToolError
from oh_daemon.protocol.rules_and_hooks import HookCommand
from oh_daemon.common.cancel import CancelToken
from oh_daemon.features.mcp.connections import connect_pipes
from oh_daemon.features.hooks.process import HookProcesses
from oh_daemon.features.terminal.shell import Shells
from oh_daemon.system.spawner import Spawner
spawner, cancel = Spawner(), CancelToken()
shells = Shells(spawner, Path.cwd(), lambda: os.environ)
n_open = lambda: len(os.listdir("/proc/self/fd"))
run = lambda command, name: shells.open(name).run(command, timeout_s=60, cancel=cancel)
run("true", "main")
resource.setrlimit(resource.RLIMIT_NOFILE, (300, 300))
held = [os.open(os.devnull, os.O_RDONLY) for _ in range(300 - n_open() - 25)]
for n in range(15):
    try:
        run("true", f"t{n}")
    except ToolError as exc:
        assert "too many files are open" in str(exc), exc
        break
else:
    raise AssertionError("nothing was refused")
full = n_open()
for _ in range(5):
    try:
        run("true", "one-more")
    except ToolError:
        pass
assert n_open() == full, (n_open(), full)
assert run("echo alive", "main").output.head == "alive\\n"
hooks = HookProcesses(spawner, Path.cwd(), lambda: os.environ)
two = [(HookCommand(type="command", command="echo hook"), "user")] * 2
said = set()
held += [os.open(os.devnull, os.O_RDONLY) for _ in range(300 - n_open())]
for _ in range(12):
    os.close(held.pop())
    full = n_open()
    said |= {(ran.exit_code, ran.stdout, ran.stderr) for ran in hooks.run(two, "{}", cancel)}
    assert n_open() == full, (n_open(), full)
refused = "cannot start 'bash': too many files are open; "
assert {code for code, *_ in said} == {0, None}, said
assert all(err.startswith(refused) for code, _, err in said if code is None), said
async def serve():
    start = lambda fds: spawner.spawn(["cat"], cwd=Path.cwd(), env=dict(os.environ), fds=fds)
    for n in range(20):
        held.extend(os.open(os.devnull, os.O_RDONLY) for _ in range(300 - n_open() - n))
        full = n_open()
        try:
            async with connect_pipes(start, deque(), lambda: None):
                return n
        except ToolError as exc:
            assert "too many files are open" in str(exc), exc
        assert n_open() == full, (n, n_open(), full)
        [os.close(held.pop()) for _ in range(n + 1)]
    raise AssertionError("nothing was started")
assert asyncio.run(serve()) > 0
shells.close()
spawner.close()
"""
    outcome = subprocess.run(
        [sys.executable, "-c", script],
        check=False,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (outcome.returncode, outcome.stderr) == (0, "")


def test_out_of_processes_is_an_answer(spawner: Spawner, tmp_path: Path) -> None:
    """Fork fails with EAGAIN in the reaper."""
    _run_true(spawner, tmp_path)
    forks = "inject=fork,vfork,clone,clone3:error=EAGAIN"
    with subprocess.Popen(
        [
            "strace",
            "-qq",
            "-e",
            "trace=fork,vfork,clone,clone3",
            "-e",
            forks,
            "-p",
            str(_reaper_pid(spawner)),
        ],
        stderr=subprocess.PIPE,
    ) as strace:
        assert strace.stderr is not None
        with pytest.raises(ToolError, match="no more processes can be started"):
            _run_true_while(spawner, tmp_path, strace)
        strace.terminate()
    _run_true(spawner, tmp_path)


def test_without_a_thread_to_give_a_start_is_refused_and_the_next_one_works(
    spawner: Spawner, tmp_path: Path
) -> None:
    n_open: list[int] = []
    threading.stack_size(1 << 46)  # More than there are addresses, so no thread can be started.
    try:
        for _ in range(2):
            with pytest.raises(ToolError, match="no more processes can be started"):
                _run_true(spawner, tmp_path)
            n_open.append(n_open_files())
    finally:
        threading.stack_size(0)
    assert n_open[1] <= n_open[0]
    _run_true(spawner, tmp_path)


def test_many_starts_leave_no_descriptor_behind(spawner: Spawner, tmp_path: Path) -> None:
    _run_true(spawner, tmp_path)
    before = n_open_files()
    for _ in range(50):
        _run_true(spawner, tmp_path)
    assert n_open_files() <= before


def test_the_environment_has_no_secrets_and_no_pagers() -> None:
    base = {
        "OPENAI_API_KEY": "1",
        "gh_token": "2",
        "MY_SECRET_X": "3",
        "DB_PASSWORD": "4",
        "A": "5",
    }
    env = clean_env(base | {"PAGER": "less", "HOME": "/home"})
    assert set(base) & set(env) == {"A"}
    assert (env["PAGER"], env["GIT_TERMINAL_PROMPT"], env["HOME"]) == ("cat", "0", "/home")


def test_git_keeps_the_settings_of_the_environment_but_no_secrets_and_starts_nothing(
    tmp_path: Path,
) -> None:
    settings = {"http.extraheader": "AUTHORIZATION: basic abc", "user.name": "Ann Example"}
    base = {**os.environ, "GIT_CONFIG_COUNT": str(len(settings))}
    for n, (key, value) in enumerate(settings.items()):
        base |= {f"GIT_CONFIG_KEY_{n}": key, f"GIT_CONFIG_VALUE_{n}": value}
    env = clean_env(base)
    assert not any("AUTHORIZATION" in value for value in env.values())

    def git(*args: str) -> str:
        argv = ["git", "-C", str(tmp_path), *args]
        return subprocess.run(argv, env=env, check=True, capture_output=True, text=True).stdout

    git("init", "-q")
    assert git("config", "user.name") == "Ann Example\n"
    program = tmp_path / "gpg"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n")
    program.chmod(0o755)
    git("config", "user.email", "ann@example.org")
    git("config", "log.showSignature", "true")
    git("config", "gpg.program", str(program))
    git("commit", "-q", "--allow-empty", "-m", "first")
    unsigned_commit = git("cat-file", "commit", "HEAD").replace("\n\n", "\ngpgsig x\n\n", 1)
    (tmp_path / "signed").write_text(unsigned_commit)
    signed_commit = git("hash-object", "-t", "commit", "-w", str(tmp_path / "signed")).strip()
    assert "first" in git("log", signed_commit)
    assert not (tmp_path / "started").exists()


EDITED = {
    "commit": True,
    "commit --amend": True,
    "tag -a v1": True,
    "rebase -q -i HEAD~1": True,
    "-c core.editor=vi commit": True,
    "merge --edit side": True,
    "commit -m words": False,
    "commit --amend --no-edit": False,
    "tag -a v1 -m words": False,
    "-c sequence.editor='sed -i s/pick/reword/' rebase -q -i HEAD~1": True,
    "merge --no-edit side": False,
    "status": False,
}
"""By command: whether git starts an editor."""


@pytest.mark.parametrize("command", EDITED)
def test_git_reports_that_it_has_no_editor_only_where_it_starts_one(
    tmp_path: Path, command: str
) -> None:
    env = clean_env({**os.environ, "HOME": str(tmp_path)})

    def sh(script: str) -> subprocess.CompletedProcess[str]:
        argv = ["sh", "-c", script]
        return subprocess.run(
            argv, cwd=tmp_path, env=env, check=False, capture_output=True, text=True
        )

    commit = "git commit -q --allow-empty -m"
    sh("git init -q; git config user.name A; git config user.email a@example.org")
    sh(f"{commit} 1; git checkout -q -b side; {commit} 2; git checkout -q -; {commit} 3")
    sh("echo x > file; git add file")
    if "commit" not in command:
        sh(f"{commit} 4")
    before = sh("git log -1 --format=%B").stdout
    outcome = sh(f"git {command}")
    has_hint = "[git started an editor for " in outcome.stderr
    assert has_hint == EDITED[command], outcome
    assert not has_hint or "; set GIT_EDITOR" in outcome.stderr
    assert before in sh("git log --format=%B").stdout


def _run_true(spawner: Spawner, folder: Path) -> None:
    outcome = spawner.run(["true"], cwd=folder, timeout_s=60, cancel=CancelToken())
    assert outcome.exit_code == 0


def _run_true_while(spawner: Spawner, folder: Path, strace: subprocess.Popen[bytes]) -> None:
    """Start programs until strace ends; only a start that it spoils shows that it is attached."""
    while strace.poll() is None:
        _run_true(spawner, folder)


def _reaper_pid(spawner: Spawner) -> int:
    assert spawner.root is not None
    return spawner.root


def _has_no_tag(pid: int, spawner: Spawner) -> bool:
    try:
        return spawner.run_id.encode() not in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
