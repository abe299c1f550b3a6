"""Real shells: commands of every kind end, wait, go on or are ended; the shell survives them."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from held import view_of
from leftovers import DEADLINE_S, n_open_files, tagged_pids, wait_until_gone

from oh_daemon.common.cancel import CancelToken
from oh_daemon.features.terminal.bash import Bash, CommandOutcome
from oh_daemon.features.terminal.output import MAX_SPILL_BYTES
from oh_daemon.features.terminal.shell import MAX_SHELLS, Shells
from oh_daemon.protocol.errors import ToolError
from oh_daemon.system.spawner import Spawner

Run = Callable[..., CommandOutcome]


@pytest.fixture
def shells(tmp_path: Path) -> Iterator[Shells]:
    spawner = Spawner()
    view = view_of(spawner, tmp_path)
    shells = Shells(spawner, tmp_path, lambda: os.environ, sandbox=view)
    yield shells
    shells.close()
    if view is not None:
        wait_until_gone(tagged_pids(view.spawner.run_id))
        view.close()  # Its monitor runs outside, as long as the sandbox does.
    wait_until_gone(tagged_pids(spawner.run_id))
    spawner.close()


@pytest.fixture
def run(shells: Shells) -> Run:
    def run(command: str, terminal_id: str = "main", timeout_s: float = 60) -> CommandOutcome:
        cancel = CancelToken()
        return shells.open(terminal_id).run(command, timeout_s=timeout_s, cancel=cancel)

    return run


def begin(shell: Bash, command: str) -> None:
    """Start a command, and return when it has written something."""
    has_written = threading.Event()
    shell.begin(command, lambda _text: has_written.set())
    assert has_written.wait(DEADLINE_S)


class Impatient(CancelToken):
    """Begins the next command as soon as the first has ended, before its output is taken."""

    def __init__(self, shells: Shells) -> None:
        super().__init__()
        self._shell = shells.open()

    @property
    def is_cancelled(self) -> bool:
        last = self._shell.last
        if last is not None and last.text == "echo one" and not self._shell.is_running:
            self._shell.begin("echo two")
        return False


def test_a_command_that_begins_before_the_last_ones_output_was_taken_is_not_lost(shells: Shells):
    shell = shells.open()
    shell.run("echo one", timeout_s=60, cancel=Impatient(shells))
    assert not shell.is_idle
    outcome = shell.wait(timeout_s=60, cancel=CancelToken())
    assert (outcome.state, outcome.exit_code) == ("done", 0)


ENDINGS = {
    "one line": ("echo hi", "hi\n", 0),
    "several lines": ("for x in a b; do\n  echo $x\ndone\nfalse", "a\nb\n", 1),
    "no line break at the end": ("printf hi", "hi", 0),
    "nothing": ("", "", 0),
    "heredoc": ("cat <<'EOF'\n$x `y` \"\nEOF", '$x `y` "\n', 0),
    "a pipe that ends early": ("yes | head -n 2", "y\ny\n", 0),
    "syntax error": (
        "true\necho )",
        "bash: line 2: syntax error near unexpected token `)'\nbash: line 2: `echo )'\n",
        2,
    ),
    "return": ("return 7", "", 7),
    "break outside of a loop": ("break 2>/dev/null; continue 2>/dev/null; echo on", "on\n", 0),
    "no such program": ("no-such-program-x", None, 127),
    "killed program": ("bash -c 'kill -9 $$'", None, 137),
    "wide line": ("printf '%0300d'", "0" * 300, 0),
    "not UTF-8": (r"printf '\xff\xfea'", "\ufffd\ufffda", 0),
    "marks of others": (r"printf '\036%032d\036\0330;x\007-' 0", "0" * 32 + ";x-", 0),
    "colors and clipboard": (r"printf '\033[31mred\033]52;c;eA==\007\033[0m'", "red", 0),
    "history signs": ("echo 'hello!' !!", "hello! !!\n", 0),
    "output to stderr": ("echo a; echo b >&2; echo c", "a\nb\nc\n", 0),
    "stdin is not ours": ("exec 0</dev/null; cat; echo ok", "ok\n", 0),
    "a prompt of one's own": ("PS1='mine> '; PS2=x; PROMPT_COMMAND='echo hook'", "", 0),
    "trace": ("set -x; true; { set +x; } 2>/dev/null", None, 0),
    "a deaf terminal": ("stty raw -echo; echo a", "a\n", 0),
    "an echoing terminal": ("stty sane; echo a", "a\n", 0),
    "no output descriptors": ("exec 3>&1 4>&2 >/dev/null 2>&1; echo x; exec 1>&3 2>&4", "", 0),
    "flushed terminal": ("python3 -c 'import termios; termios.tcflush(0, 2)'", "", 0),
}


@pytest.mark.parametrize(("command", "text", "code"), ENDINGS.values(), ids=ENDINGS.keys())
def test_a_command_gives_its_output_and_code_and_leaves_the_shell_in_order(
    run: Run, command: str, text: str | None, code: int
) -> None:
    outcome = run(command)
    assert (outcome.state, outcome.exit_code, outcome.note) == ("done", code, "")
    assert text is None or outcome.output.head == text
    after = run("echo after")
    assert (after.output.head, after.exit_code, after.note, after.late) == ("after\n", 0, "", "")


FORGER = r"""
import os, re, sys
from contextlib import suppress

shell = os.getppid()
known = sys.stdin.buffer.read()
for name in ("environ", "cmdline", "stat", "maps"):
    known += open(f"/proc/{shell}/{name}", "rb").read() + open(f"/proc/self/{name}", "rb").read()
fds = []
for fd in os.listdir(f"/proc/{shell}/fd"):
    path = f"/proc/{shell}/fd/{fd}"
    known += os.readlink(path).encode()
    with suppress(OSError):
        opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
        known += b"" if os.isatty(opened) else os.read(opened, 1 << 16)
    with suppress(OSError):
        fds.append(os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY))
        os.set_blocking(fds[-1], os.isatty(fds[-1]))
marks = {b"", b"-", b"0" * 32, *re.findall(rb"(?<![0-9a-f])[0-9a-f]{32}(?![0-9a-f])", known)}
for mark in sorted(marks):
    os.write(1, b"\x1e%b\x1e" % mark)
    for fd in fds:
        os.write(fd, b"%b 0 /\0%b\0" % (mark, mark))
open("tried", "w").write(f"{len(marks)} {len(fds)}")
"""
KNOWN = """{ env; set; declare -p; trap -p; history; fc -l; jobs -l; echo "$_ $BASH_COMMAND $*";
  cat "$(dirname "$BASH_SOURCE")"/*; } 2>&1"""
# The shell itself has more descriptors than its children.
REPORT = r"for fd in /proc/$$/fd/*; do printf -- '- 0 /\0-\0\0' >&${fd##*/}; done 2>/dev/null"


def test_a_completion_cannot_be_forged_by_what_a_command_prints_or_learns(
    run: Run, tmp_path: Path
) -> None:
    """Whatever looks like the mark in the shell's variables, files and descriptors is not it."""
    (tmp_path / "forger.py").write_text(FORGER)
    (tmp_path / "sub").mkdir()
    run("true")
    for _ in range(3):
        forge = f"known=$({KNOWN}); cd ..; python3 forger.py <<< $known; {REPORT}"
        outcome = run(f"cd sub; {forge}; echo end; (exit 7)")
        assert (outcome.state, outcome.exit_code, outcome.note) == ("done", 7, "")
        n_marks, n_opened = map(int, run("cat tried").output.head.split())
        assert (n_marks > 3, n_opened >= 1) == (True, True)
        assert outcome.output.head.endswith("end\n")
        assert outcome.cwd == tmp_path
    after = run("echo after")
    assert (after.output.head, after.exit_code, after.note, after.late) == ("after\n", 0, "", "")


def test_the_history_of_the_user_is_neither_read_nor_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    history = tmp_path / ".bash_history"
    history.write_text("mysql -pcity-token\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    shell = request.getfixturevalue("shells").open()
    outcome = shell.run("history; set -o history; history", timeout_s=60, cancel=CancelToken())
    assert "mysql" not in outcome.output.head
    shell.run("echo more; exit", timeout_s=60, cancel=CancelToken())
    assert history.read_text() == "mysql -pcity-token\n"


def test_a_shell_keeps_folder_variables_functions_and_status(run: Run, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    outcome = run(
        "cd sub; x=1; export y=2; declare -A m=([k]=3); f() { echo f$1; }; alias g='f 4'; false"
    )
    assert outcome.cwd == tmp_path / "sub"
    command_outcome = run("echo $? $x $y ${m[k]}; f 5; g; basename $PWD")
    assert command_outcome.output.head == "1 1 2 3\nf5\nf4\nsub\n"


def test_a_virtual_environment_stays_active(run: Run) -> None:
    run("python3 -m venv --without-pip .venv && . .venv/bin/activate")
    outcome = run("command -v python")
    assert outcome.output.head.endswith("/.venv/bin/python\n")
    assert outcome.late == ""


def test_shells_by_other_names_are_apart_and_start_where_main_is(run: Run, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    run("cd sub; x=1")
    assert run("echo [$x] $PWD", "other").output.head == f"[] {tmp_path}/sub\n"


LOSSES = {
    "exit": ("exit 3", 3, "/sub kept\n"),
    "errexit": ("set -e; false; echo never", 1, "/sub kept\n"),
    "exec": ("exec sh -c 'exit 4'", 4, None),
    "kill": ("kill -9 $$", -signal.SIGKILL, None),
}


@pytest.mark.parametrize(("command", "code", "kept"), LOSSES.values(), ids=LOSSES.keys())
def test_a_shell_that_ends_is_replaced_and_the_model_told(
    run: Run, tmp_path: Path, command: str, code: int, kept: str | None
) -> None:
    (tmp_path / "sub").mkdir()
    run("cd sub; export E=kept")
    outcome = run(f"echo before; {command}")
    assert (outcome.state, outcome.exit_code) == ("done", code)
    assert outcome.output.head.startswith("before\n")
    assert "ended" in outcome.note
    after = run('echo "${PWD#"$OLDPWD"}/sub $E"' if kept is None else 'echo "/${PWD##*/} $E"')
    assert "new one" in after.note
    assert after.cwd == tmp_path / "sub"
    assert kept is None or after.output.head == kept


def test_a_deleted_folder_is_survived(run: Run, tmp_path: Path) -> None:
    run("mkdir gone; cd gone; rmdir ../gone")
    assert run("echo alive").output.head == "alive\n"
    run("exit")
    assert run("pwd").output.head == f"{tmp_path}\n"


def test_the_files_of_the_shell_may_vanish(run: Run) -> None:
    command = 'rm -rf "$(dirname "$BASH_SOURCE")" 2>/dev/null; echo gone'
    assert run(command).output.head == "gone\n"
    assert run("echo alive").output.head == "alive\n"


def test_a_job_in_the_background_neither_holds_the_call_nor_is_lost(run: Run) -> None:
    outcome = run("mkfifo go gone; (read < go; echo late; echo > gone) & echo started")
    assert outcome.state == "done"
    assert "started\n" in outcome.output.head
    run("echo > go; read < gone", "other")
    # The job has written by now, but its output may be read before or after `true` begins.
    outcomes = [run("true"), run("true")]
    assert "late\n" in "".join(each.late + each.output.head for each in outcomes)


def test_what_a_job_writes_later_is_told_with_the_next_command(run: Run) -> None:
    run("mkfifo go gone; (read < go; seq 100000; echo > gone) &")
    # The job cannot write this much before most of it was read, between two commands of `main`.
    assert run("echo > go; read < gone", "other").late == ""
    outcome = run("true")
    assert outcome.late != ""
    # What came while `true` ran may be more than `head` has room for.
    assert "99999\n100000\n" in outcome.late + outcome.output.head + outcome.output.tail


def test_a_command_that_takes_longer_stays_alive_and_gives_the_rest_later(
    shells: Shells, run: Run
) -> None:
    run("mkfifo go")
    begin(shells.open(), "echo one; read < go; echo two; exit_code=5; (exit 5)")
    first = shells.existing("main").wait(timeout_s=0.3, cancel=CancelToken())
    assert (first.state, first.output.head, first.exit_code) == ("running", "one\n", None)
    with pytest.raises(ToolError, match="busy with 'echo one"):
        run("echo three")
    run("echo > go", "other")
    outcome = shells.existing("main").wait(timeout_s=60, cancel=CancelToken())
    assert (outcome.state, outcome.output.head, outcome.exit_code) == ("done", "two\n", 5)


WAITERS = {
    "read of the shell": ("read -p 'Name: ' n; echo got $n", "Name: ", "bob", "got bob\n"),
    "cat": ("cat | sed s/^/got./", "", "bob", None),
    "hidden password": (
        'python3 -c \'import getpass; print("got", getpass.getpass("Name: "))\'',
        "Name: ",
        "bob",
        "\ngot bob\n",
    ),
}


@pytest.mark.parametrize(("command", "prompt", "answer", "reply"), WAITERS.values(), ids=WAITERS)
def test_a_program_that_waits_for_input_says_so_soon_and_takes_it(
    shells: Shells, run: Run, command: str, prompt: str, answer: str, reply: str | None
) -> None:
    """The promise is one second; the deadline here is generous, for slow machines."""
    outcome = run(command, timeout_s=DEADLINE_S)
    assert (outcome.state, outcome.output.head) == ("waitingForInput", prompt)
    shells.existing("main").type(answer)
    if reply is None:
        shells.existing("main").type("C-d")
        reply = "got.bob\n"
    command_outcome = shells.existing("main").wait(timeout_s=DEADLINE_S, cancel=CancelToken())
    assert (command_outcome.state, command_outcome.output.head) == ("done", reply)


FULL_SCREEN = {
    "a pager": ("seq 500 > many; less many", "q"),
    "an editor": ("vi -u NONE -N -i NONE new.txt", ":q!"),
}


@pytest.mark.parametrize(("command", "leave"), FULL_SCREEN.values(), ids=FULL_SCREEN)
def test_a_program_that_takes_the_whole_screen_waits_and_can_be_left(
    shells: Shells, run: Run, command: str, leave: str
) -> None:
    """Pagers that programs start by themselves are switched off in the environment."""
    assert run(command, timeout_s=DEADLINE_S).state == "waitingForInput"
    shells.existing("main").type(leave)
    outcome = shells.existing("main").wait(timeout_s=DEADLINE_S, cancel=CancelToken())
    assert (outcome.state, outcome.exit_code) == ("done", 0)
    assert run("echo after").output.head == "after\n"


def test_output_without_end_stays_small_and_says_what_is_cut(shells: Shells, run: Run) -> None:
    """`yes` until somebody stops it."""
    run("true")
    cancel = CancelToken()
    tracemalloc.start()
    first = shells.open().run("yes", timeout_s=2, cancel=cancel)
    threading.Timer(2, cancel.cancel).start()
    command_outcome = shells.existing("main").wait(timeout_s=1000, cancel=cancel)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (first.state, command_outcome.state) == ("running", "done")
    assert peak < 10 << 20
    for outcome in (first, command_outcome):
        output = outcome.output
        assert "y\ny\n" in output.head
        assert len(output.head) + len(output.tail) <= 32 << 10
        assert output.n_cut_bytes > 0
        assert output.spill is not None
        assert output.spill.stat().st_size <= MAX_SPILL_BYTES
    assert run("echo after").output.head == "after\n"


def test_a_prompt_line_of_python_can_be_talked_to(shells: Shells, run: Run) -> None:
    assert run("python3 -q").state == "waitingForInput"
    shell = shells.existing("main")
    # A line end at the end of what is typed is the Enter; a second one is an empty line.
    for input_text, output in (
        ("6 * 7\n", "42"),
        ("for n in (2, 3):\n    print(n * 7)\n\n", "14\n21"),
    ):
        shell.type(input_text)
        outcome = shell.wait(timeout_s=DEADLINE_S, cancel=CancelToken()).output.head
        assert outcome.endswith(f"{output}\n>>> ")
    shell.type("C-d")
    assert shell.wait(timeout_s=DEADLINE_S, cancel=CancelToken()).exit_code == 0


def test_text_typed_after_the_end_never_runs_as_a_command(shells: Shells, run: Run) -> None:
    run("sleep 0")
    with pytest.raises(ToolError, match="no command runs"):
        shells.existing("main").type("touch hacked")
    assert run("read -t 0.1; read x", timeout_s=0.5).state in {"waitingForInput", "running"}
    # Two lines for one `read`: the second is thrown away, not run.
    shells.existing("main").type("a\ntouch hacked")
    shells.existing("main").wait(timeout_s=DEADLINE_S, cancel=CancelToken())
    assert run("ls").output.head == ""


def test_a_program_that_reads_nothing_is_not_said_to_wait(shells: Shells, run: Run) -> None:
    begin(shells.open(), "echo begun; sleep 1000")
    outcome = shells.existing("main").wait(timeout_s=1, cancel=CancelToken())
    assert outcome.state == "running"
    shells.existing("main").type("C-c")
    command_outcome = shells.existing("main").wait(timeout_s=DEADLINE_S, cancel=CancelToken())
    assert (command_outcome.state, command_outcome.exit_code) == ("done", 130)


def test_a_server_polled_without_news_is_waited_for(shells: Shells, run: Run) -> None:
    assert run("cat").state == "waitingForInput"
    poll = shells.existing("main").wait(timeout_s=0.5, cancel=CancelToken(), needs_output=True)
    assert poll.state == "running"


INTERRUPTED = {
    "a program": "sleep 1000",
    "a builtin": "while :; do :; done",
    "a pipe": "sleep 1000 | cat",
    "a substitution": "x=$(sleep 1000)",
    "the whole list": "sleep 1000; sleep 1000; echo never",
    "a program that catches it": (
        "python3 -c 'import time\ntry: time.sleep(1000)\nexcept KeyboardInterrupt: pass';"
        " echo never"
    ),
    "a program that ignores it": "(trap '' INT TERM; sleep 1000); echo never",
    "a tree": 'bash -c \'trap "" INT; bash -c "sleep 1000" & setsid -w sleep 1000\'; echo never',
    "a read of a pipe that nobody writes": "mkfifo f; cat f; echo never",
    "a shell that ignores it": "trap '' INT USR2; while :; do :; done",
}


@pytest.mark.parametrize("command", INTERRUPTED.values(), ids=INTERRUPTED.keys())
def test_a_cancel_ends_the_command_and_what_follows_it(
    shells: Shells, run: Run, command: str
) -> None:
    cancel, shell = CancelToken(), shells.open()
    begin(shell, f"echo begun; {command}")
    cancel.cancel()
    outcome = shell.wait(timeout_s=1000, cancel=cancel)
    assert outcome.state == "done"
    assert outcome.exit_code != 0
    assert outcome.output.head.startswith("begun\n")
    assert "never" not in outcome.output.head
    # A killed process may take a moment to disappear.
    after = run("while pgrep -fx 'sleep 1000' -s 0 > /dev/null; do sleep 0.02; done; echo; echo ok")
    # Bash itself may report that a child was gone before it got its group.
    assert after.output.head.endswith("\nok\n")


def interrupt(shells: Shells, command: str) -> None:
    """Begin a command and interrupt it at once; the shell must survive."""
    cancel, shell = CancelToken(), shells.open()
    shell.listen(lambda _text: cancel.cancel())
    outcome = shell.run(f"echo begun; {command}", timeout_s=DEADLINE_S, cancel=cancel)
    assert (outcome.state, outcome.note) == ("done", "")


def test_an_interrupt_never_reaches_the_command_that_follows(shells: Shells, run: Run) -> None:
    """A late interrupt can drop the first characters of that command."""
    for command in ("while :; do :; done", "x=$(sleep 1000)", "sleep 1000 | cat") * 10:
        interrupt(shells, command)
        after = run("/bin/echo after")
        assert (after.output.head, after.late, after.note) == ("after\n", "", "")


def test_an_interrupt_between_forks_leaves_the_shell_in_order(shells: Shells, run: Run) -> None:
    """Bash can miss such an interrupt, and then its shell would be lost."""
    for _ in range(20):
        interrupt(shells, "while :; do /bin/true | /bin/true | /bin/true; done")
        after = run("/bin/echo after")
        # Bash itself may report that it has no record of a child it was just making, or end the
        # line of the interrupted job only now (`notify_of_job_status` in its jobs.c).
        assert "after" in after.output.head.splitlines()
        assert after.note == ""


def test_a_cancel_leaves_jobs_in_the_background_alone(shells: Shells, run: Run) -> None:
    run("sleep 1000 &")
    shells.open("job-1").begin("sleep 999", is_background=True)
    cancel = CancelToken()
    begin(shells.open(), "echo begun; sleep 998")
    cancel.cancel()
    shells.existing("main").wait(timeout_s=1000, cancel=cancel)
    assert "sleep 1000" in run("jobs -r").output.head
    outcome = shells.existing("job-1").wait(timeout_s=1000, cancel=cancel)
    assert (outcome.state, outcome.exit_code) == ("running", None)


def test_closing_ends_deaf_jobs_and_idle_shells_together(shells: Shells, run: Run) -> None:
    for n in range(4):
        run("(trap '' INT TERM HUP; exec sleep 1000) &", f"t{n}")
    started = psutil.Process().children(recursive=True)
    pids = [child.pid for child in started if child.name() in ("bash", "sleep")]
    assert len(pids) >= 8
    shells.close()
    wait_until_gone(pids)


def test_more_shells_than_allowed_end_an_idle_one_first(shells: Shells, run: Run) -> None:
    for n in range(MAX_SHELLS):
        run(f"x={n}", f"t{n}")
    assert run("echo [$x]", "new").output.head == "[]\n"
    assert run("echo [$x]", "t0").output.head == "[]\n"
    assert run("echo [$x]", "t5").output.head == "[5]\n"


def test_a_terminal_that_does_not_exist_is_named(shells: Shells) -> None:
    with pytest.raises(ToolError, match="no terminal 'none'"):
        shells.existing("none").wait(timeout_s=1, cancel=CancelToken())


def test_much_output_takes_little_memory_and_is_all_in_the_file(run: Run) -> None:
    run("true")
    tracemalloc.start()
    outcome = run("seq 3000000", timeout_s=300)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert outcome.state == "done"
    assert peak < 4 << 20
    assert outcome.output.head.startswith("1\n2\n")
    assert outcome.output.tail.endswith("2999999\n3000000\n")
    assert outcome.output.spill is not None
    with outcome.output.spill.open() as file:
        assert sum(1 for _ in file) == 3_000_000


def test_live_output_comes_while_the_command_runs(shells: Shells, run: Run) -> None:
    run("mkfifo go")
    first_output = threading.Event()
    heard: list[str] = []

    def on_output(text: str) -> None:
        heard.append(text)
        first_output.set()

    def go_on() -> None:
        assert first_output.wait(DEADLINE_S)
        run("echo > go", "other")

    thread = threading.Thread(target=go_on)
    thread.start()
    shells.open().listen(on_output)
    outcome = run("echo one; read < go; echo two")
    thread.join()
    assert "".join(heard) == outcome.output.head == "one\ntwo\n"


def test_shells_leave_no_descriptors_files_or_threads(tmp_path: Path) -> None:
    _join_readers(set())  # The readers of earlier tests may still be ending.
    threads, n_files = set(threading.enumerate()), n_open_files()
    spawner = Spawner()
    for _ in range(3):
        shells = Shells(spawner, tmp_path, lambda: os.environ)
        outcome = shells.open().run('echo "$BASH_SOURCE"', timeout_s=60, cancel=CancelToken())
        shells.open().run("exit", timeout_s=60, cancel=CancelToken())
        shells.open().run("echo again", timeout_s=60, cancel=CancelToken())
        shells.close()
        assert not Path(outcome.output.head.strip()).parent.parent.exists()
    spawner.close()
    _join_readers(threads)
    assert set(threading.enumerate()) <= threads
    assert n_open_files() <= n_files


def test_shells_leave_no_files_when_the_daemon_is_killed(tmp_path: Path) -> None:
    script = (
        "import os, sys\nfrom pathlib import Path\n"
        "from oh_daemon.common.cancel import CancelToken\n"
        "from oh_daemon.features.terminal.shell import Shells\n"
        "from oh_daemon.system.spawner import Spawner\n"
        "shell = Shells(Spawner(), Path.cwd(), lambda: os.environ).open()\n"
        "outcome = shell.run('echo \"$BASH_SOURCE\"', timeout_s=60, cancel=CancelToken())\n"
        "print(outcome.output.head.strip(), flush=True)\n"
        "sys.stdin.read()\n"
    )
    argv = [sys.executable, "-c", script]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(argv, cwd=tmp_path, text=True, **pipes) as daemon:
        assert daemon.stdout is not None
        folder = Path(daemon.stdout.readline().strip()).parent.parent
        assert folder.name.startswith("oh-shells-")
        assert folder.is_dir()
        children = [child.pid for child in psutil.Process(daemon.pid).children(recursive=True)]
        daemon.kill()
        wait_until_gone(children)
    assert not folder.exists()


def _join_readers(other_threads: set[threading.Thread]) -> None:
    for thread in set(threading.enumerate()) - other_threads:
        if thread.name.startswith(("shell-", "reaper")):
            thread.join(DEADLINE_S)


BYSTANDER = """
import os, subprocess, threading
from pathlib import Path
from oh_daemon.common.cancel import CancelToken
from oh_daemon.features.terminal.shell import Shells
from oh_daemon.system.spawner import Spawner

bystander = subprocess.Popen(["sleep", "1000"])
assert os.getpgid(bystander.pid) == os.getpgid(1) == 0
# It sleeps in a poll, as an editor with a raw terminal does that waits for keys.
threading.Thread(target=__import__("select").poll().poll, daemon=True).start()
spawner, cancel = Spawner(), CancelToken()
shells = Shells(spawner, Path.cwd(), lambda: os.environ)
# The leader of a session that gives its terminal away leaves it without a foreground group.
leave = (
    "import fcntl, signal, termios, time; signal.signal(signal.SIGHUP, signal.SIG_IGN);"
    "signal.signal(signal.SIGINT, signal.SIG_IGN);"
    "fcntl.ioctl(1, termios.TIOCNOTTY); print('alone', flush=True); time.sleep(1000)"
)
is_alone = threading.Event()
shells.open().begin(f'stty raw; exec python3 -c "{leave}"', lambda _text: is_alone.set())
assert is_alone.wait(60)
outcome = shells.existing("main").wait(timeout_s=2, cancel=cancel)
assert (outcome.state, outcome.output.head) == ("running", "alone\\n"), outcome
cancel.cancel()
ended = shells.existing("main").wait(timeout_s=60, cancel=cancel)
assert ended.state == "done", ended
shells.close()
spawner.close()
assert bystander.poll() is None, bystander.returncode
bystander.kill()
"""


def test_an_interrupt_reaches_nobody_else_when_no_group_has_the_terminal(tmp_path: Path) -> None:
    """The kernel reports 0 for no group, and in a container also for every group outside of it."""
    namespace_command = ("unshare", "-Urpf", "--mount-proc")
    if subprocess.run([*namespace_command, "true"], check=False, capture_output=True).returncode:
        pytest.skip("this machine does not allow namespaces of processes, also not for root")
    outcome = subprocess.run(
        [*namespace_command, sys.executable, "-c", BYSTANDER],
        check=False,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (outcome.returncode, outcome.stderr) == (0, "")


@pytest.mark.parametrize("last", ["true", "IFS=_", "set -eu", "set -x", "exit 3", "exec sleep 0"])
def test_a_shell_forgets_what_one_command_was_lent(shells: Shells, last: str) -> None:
    value = 'it\'s a shop-token of 2026, "quoted" $HOME'

    def run(command: str, **secret: str) -> tuple[int | None, str]:
        shell = shells.open()
        shell.begin(command, variables=secret)
        outcome = shell.wait(timeout_s=60, cancel=CancelToken())
        return outcome.exit_code, outcome.output.head

    assert run("false") == (1, "")
    assert run('echo $? "$SHOP_TOKEN"', SHOP_TOKEN=value, OTHER="x" * 16_384) == (0, f"1 {value}\n")
    run(f": $SHOP_TOKEN $OTHER; {last}", SHOP_TOKEN=value, OTHER="b")
    assert run('echo "[${SHOP_TOKEN-}${OTHER-}]"')[1].splitlines()[-1] == "[]"
    assert "0" in run("env | grep -c ^SHOP || true")[1].splitlines()
    files = [path for path in shells.open()._scratch.parent.rglob("*") if path.is_file()]
    assert not [path for path in files if value in path.read_text("utf-8", "replace")]


def test_shell_with_unread_secrets_runs_no_other_command(shells: Shells, run: Run) -> None:
    """The secrets end with an empty one; an interrupt can come before that."""
    shell = shells.open()
    shell.begin("true", variables={"FIRST": "a\0\0UNREAD=b"})
    assert shell.wait(timeout_s=60, cancel=CancelToken()).exit_code == 0
    shells.open().begin('echo "[${UNREAD-}]"', variables={"SECOND": "c"})
    outcome = shells.open().wait(timeout_s=60, cancel=CancelToken())
    assert outcome.output.head == "[]\n"
    assert run("echo after").output.head == "after\n"


ALL = "builtin . source command eval printf unset export kill trap return declare read set : ["
"""The names of builtins that the lines of the daemon use or might use."""
OURS = "__oh_intact __oh_quiet __oh_lend __oh_done __oh_save __oh_stop __oh_forget __oh_begin"
KEPT = {
    "our functions": "\n".join(f"{name}() {{ true; }}" for name in OURS.split()),
    "our functions removed": f"unset -f {OURS}",
    "our functions as aliases": "; ".join(f"alias {name}=true" for name in OURS.split()),
    "our variables": "unset __oh_lent __oh_runs; readonly __oh_lent=() __oh_runs __oh_status",
    "functions named as builtins": "\n".join(f"{x}() {{ true; }}" for x in ALL.split()[1:]),
    "such functions kept for good": "printf() { true; }; readonly -f printf; .() { true; }",
    "aliases": "shopt -s expand_aliases; " + "; ".join(f"alias {x}=true" for x in ALL.split()),
    "traps": "trap - USR2 EXIT DEBUG",
    "traps of its own": "trap 'x=1' DEBUG; trap 'x=2' ERR RETURN CHLD; set -ET",
    "strict": "set -u -f -C -k; IFS=_",
    "prompts": "PROMPT_COMMAND=(: 'echo hook'); PS0='zero '",
    "closed descriptors": "exec 240>&- 241>&-",
    "no builtins": "enable -n printf . unset export trap return read set kill declare",
    "posix": "set -o posix",
    "a history": "set -o history",
}
SPOILT = {
    "a function named builtin": "builtin() { true; }",
    "that function kept for good": "builtin() { true; }; readonly -f builtin",
    "that function in disguise": 'builtin() { [ "$1" = . ] || command builtin "$@"; }',
    "no builtin": "enable -n builtin",
    "no builtins, and no way back": "enable -n printf . unset export trap return; enable -n enable",
    "aliased words": "alias '{'=true 'if'=true '[['=true",
    "an open quote": "alias '{'=\"echo '\"",
    "a prompt kept for good": "readonly PS1='mine> '",
    "a prompt command kept for good": "readonly PROMPT_COMMAND='echo hook'",
    "a trap that skips all": "shopt -s extdebug; trap false DEBUG",
    "errexit": "set -e; false",
    "all descriptors closed": 'for fd in /proc/$$/fd/*; do eval "exec ${fd##*/}>&-"; done',
    "stopped by a signal": "trap - USR2; kill -USR2 $$",
}


@pytest.mark.parametrize("command", KEPT.values(), ids=KEPT.keys())
def test_no_command_takes_away_what_reports_the_end_of_the_next(run: Run, command: str) -> None:
    spoilt = run(f"kept=kept\n{command}")
    assert (spoilt.state, spoilt.note) == ("done", "")
    # Also a builtin of the test's own may be another by now.
    after = run("echo $kept; /bin/sh -c 'exit 7'")
    assert (after.output.head, after.exit_code, after.note) == ("kept\n", 7, "")
    assert run("").exit_code == 0


@pytest.mark.parametrize("command", SPOILT.values(), ids=SPOILT.keys())
def test_a_shell_that_cannot_report_is_replaced_soon_and_the_model_told(
    run: Run, command: str
) -> None:
    outcomes = [run(command)]
    # What took effect after the first report ends the shell with the second.
    outcomes.extend(run("echo after; /bin/sh -c 'exit 7'") for _ in range(2))
    after = outcomes.pop()
    assert (after.output.head, after.exit_code) == ("after\n", 7)
    assert all(outcome.state == "done" for outcome in outcomes)
    assert any("ended" in outcome.note for outcome in outcomes)


def test_a_shell_that_was_killed_while_idle_takes_no_command(shells: Shells, run: Run) -> None:
    run("true")
    shell = shells.open()
    os.kill(shell._process.pid, signal.SIGKILL)
    with suppress(ToolError):  # It may come before anybody knows, and ends with the shell.
        shell.run("true", timeout_s=60, cancel=CancelToken())
    with pytest.raises(ToolError, match="run the command again"):
        shell.begin("true")
    assert run("echo after").output.head == "after\n"


def test_a_shell_is_replaced_while_nobody_waits_and_a_job_writes(shells: Shells, run: Run) -> None:
    run("(while :; do echo noise; sleep 0.01; done) &")
    shells.open().begin("enable -n builtin", is_background=True)
    spoilt = shells.open().wait(timeout_s=DEADLINE_S, cancel=CancelToken())
    assert (spoilt.state, spoilt.exit_code) == ("done", -signal.SIGKILL)
    assert run("echo after").output.head.endswith("after\n")


@pytest.mark.parametrize("command", (KEPT | SPOILT).values(), ids=(KEPT | SPOILT).keys())
def test_a_lent_secret_never_enters_the_shell_whatever_was_done_to_it(
    shells: Shells, run: Run, command: str
) -> None:
    """Not even its memory has it: neither as a variable, nor in the text of a command."""
    value = f"lent-{secrets.token_hex(16)}"
    run(command)
    shell = shells.open()
    shell.begin("echo ${#LENT}; kept=$LENT; export kept", variables={"LENT": value})
    outcome = shell.wait(timeout_s=60, cancel=CancelToken())
    assert command in SPOILT.values() or outcome.output.head == f"{len(value)}\n"
    assert value.encode() not in memory(shells.open()._process.pid)
    output = run("/bin/sh -c 'env'; declare -xp | grep -i -e lent -e kept | rev; jobs; history")
    assert not any(text in output.output.head for text in (value, value[::-1]))


def memory(pid: int) -> bytes:
    """Return what a process can write to."""
    parts: list[bytes] = []
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as file:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            where, rights, *_ = line.split()
            if rights.startswith("rw"):
                start, end = (int(edge, 16) for edge in where.split("-"))
                file.seek(start)
                parts.append(file.read(end - start))
    return b"".join(parts)
