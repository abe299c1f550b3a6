"""The log while the machine works against it: kills, full disks, broken disks, other processes."""

import os
import random
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from kill_loop import line, next_size, sizes
from places import TESTS

from oh_daemon.protocol.errors import ConversationLockedError
from oh_daemon.storage.commit import CommitThread
from oh_daemon.storage.event_log import open_log
from oh_daemon.storage.log_scan import LOG_NAME, read_log

CHILD = TESTS / "support/kill_loop.py"
N_KILLS = 20


class Child:
    """`kill_loop.py` in a process of its own, started through `prefix`."""

    def __init__(self, folder: Path, *prefix: str) -> None:
        command = [*prefix, sys.executable, str(CHILD), str(folder)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.greeting = self.hear()

    def ask(self, command: str) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return self.hear()

    def hear(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def kill(self) -> str:
        """Send SIGKILL; return what the child said and the test has not yet heard."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.kill()
        self.process.stdin.close()
        # Not `communicate`: it would leave out what `hear` has already buffered from the pipe.
        with self.process.stdout as stdout:
            remaining = stdout.read()
        self.process.wait(60)
        return remaining

    def stop(self) -> None:
        if self.process.returncode is None:
            self.kill()


Start = Callable[..., Child]


@pytest.fixture
def start() -> Iterator[Start]:
    with ExitStack() as stack:

        def run(folder: Path, *prefix: str) -> Child:
            child = Child(folder, *prefix)
            stack.callback(child.stop)
            return child

        yield run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "conversation"


def in_mounts(script: str) -> tuple[str, ...]:
    """Return a prefix that runs the child in its own mount namespace, after `script`."""
    prefix = ("unshare", "-Urm", "sh", "-ec", f'{script}; exec "$@"', "sh")
    if subprocess.run([*prefix, "true"], check=False, capture_output=True).returncode:
        pytest.skip("this machine does not allow mounts in a namespace, also not for root")
    return prefix


def under_strace(inject: str, *paths: Path) -> tuple[str, ...]:
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed: apt-get install strace")
    of_paths = [word for path in paths for word in ("-P", str(path))]
    return ("strace", "-f", "-qq", "-o", "/dev/null", *of_paths, "-e", f"inject={inject}")


def whole_lines(folder: Path) -> int:
    """Return how many events the file holds; it must end with a whole line."""
    assert (folder / LOG_NAME).read_bytes().endswith(b"\n")
    return len(read_log(folder))


@pytest.mark.full
def test_every_acknowledged_line_survives_twenty_kills(folder: Path, start: Start) -> None:
    choice = random.Random(os.environ["OH_TEST_SEED"])
    expected: list[bytes] = []
    # The file may also hold what was written but not acknowledged: one line at most.
    in_flight: list[bytes] = []
    epochs: set[str] = set()
    for n_kills in range(N_KILLS):
        child = start(folder)
        _, n_found, epoch = child.greeting.split()
        epochs.add(epoch)
        expected += in_flight[: int(n_found) - len(expected)]
        assert int(n_found) == len(expected)
        first, loop_seed = len(expected) + 1, choice.randrange(1 << 32)
        heard = [child.ask(f"loop {first} {loop_seed}")]
        heard += [child.hear() for _ in range(choice.randrange(1, 60))]
        acknowledged_ids = [*heard, *child.kill().split()]
        assert acknowledged_ids == [str(first + n) for n in range(len(acknowledged_ids))]
        source = sizes(loop_seed)
        expected += [line(int(seq), next_size(source)) for seq in acknowledged_ids]
        in_flight = [line(first + len(acknowledged_ids), next_size(source))]
        print(f"kill {n_kills} after event {acknowledged_ids[-1]}")  # noqa: T201
    commit = CommitThread()
    opened_log = open_log(folder, commit)
    assert [record["seq"] for record in read_log(folder)] == [*range(1, len(read_log(folder)) + 1)]
    assert opened_log.log.read_range(1, len(expected)) == [one[:-1] for one in expected]
    assert epochs == {opened_log.epoch}
    opened_log.log.close()
    commit.close()


def test_another_process_has_the_log_until_it_dies(folder: Path, start: Start) -> None:
    child = start(folder)
    child.ask("append 1 10")
    commit = CommitThread()
    with pytest.raises(ConversationLockedError) as error_info:
        open_log(folder, commit)
    assert f"open in process {child.process.pid} (child)" in str(error_info.value)
    assert len(read_log(folder)) == 1
    assert start(folder).greeting.startswith("refused conversationLocked")
    child.kill()
    opened_log = open_log(folder, commit)
    assert len(read_log(folder)) == 1
    opened_log.log.close()
    commit.close()


def test_a_full_disk_tears_no_line_and_writing_goes_on_when_there_is_space(
    tmp_path: Path, start: Start
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    child = start(disk / "c", *in_mounts(f"mount -t tmpfs -o size=64k none '{disk}'"))
    inside = Path(f"/proc/{child.process.pid}/root{disk}")
    seq = 1
    while (answer := child.ask(f"batch {seq} 2 2500")) == "ok":
        seq += 2
    assert "the disk is full; free some space, then resume" in answer
    assert seq > 3
    assert whole_lines(inside / "c") == seq - 1
    assert child.ask("blob 50000").startswith("error cannot write")
    assert child.ask(f"append {seq} 5000").startswith("error")
    assert whole_lines(inside / "c") == seq - 1
    (inside / "c" / "meta.json").unlink(missing_ok=True)
    grow = ["nsenter", "-t", str(child.process.pid), "-U", "-m", "--preserve-credentials"]
    subprocess.run([*grow, "mount", "-o", "remount,size=256k", str(disk)], check=True)
    assert [child.ask(f"append {seq} 5000"), child.ask("sync")] == ["ok", "ok"]
    assert whole_lines(inside / "c") == seq
    child.ask("close")


def test_a_limit_for_file_sizes_is_an_error_and_no_signal(folder: Path, start: Start) -> None:
    child = start(folder, "bash", "-c", 'ulimit -S -f 20; exec "$@"', "bash")
    seq = 1
    while (answer := child.ask(f"append {seq} 3000")) == "ok":
        seq += 1
    assert "`ulimit -f`" in answer
    assert whole_lines(folder) == seq - 1
    no_limit = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    resource.prlimit(child.process.pid, resource.RLIMIT_FSIZE, no_limit)
    assert child.ask(f"append {seq} 3000") == "ok"
    assert whole_lines(folder) == seq


@pytest.mark.parametrize(
    ("error", "message"), [("EIO", "the disk reported an error"), ("EDQUOT", "your disk quota")]
)
def test_an_error_of_one_write_costs_that_append_only(
    folder: Path, start: Start, error: str, message: str
) -> None:
    # The first write is that of the header.
    child = start(folder, *under_strace(f"write:error={error}:when=3", folder / LOG_NAME))
    answers = [child.ask(f"append {seq} 100") for seq in (1, 2, 2, 3)]
    assert [answer[:5] for answer in answers] == ["ok", "error", "ok", "ok"]
    assert message in answers[1]
    assert whole_lines(folder) == 3
    child.ask("close")


def test_a_sync_that_the_disk_refuses_is_told_to_who_waits(folder: Path, start: Start) -> None:
    inject = under_strace("fdatasync:error=EIO", folder / LOG_NAME)
    # Opening the log makes the header durable, so it already fails on this disk.
    assert "the disk reported an error" in start(folder, *inject).greeting
    child = start(folder)
    assert child.greeting.startswith("open 0")
    assert [child.ask("append 1 10"), child.ask("sync")] == ["ok", "ok"]


def test_a_blob_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, folder: Path, start: Start
) -> None:
    trace = tmp_path / "trace"
    child = start(folder, "strace", "-f", "-qq", "-o", str(trace), "-e", "trace=fsync,rename")
    n_before = len(trace.read_text().splitlines())
    assert len(child.ask("blob 50000")) == 64
    child.ask("close")
    trace_lines = trace.read_text().splitlines()[n_before:]
    calls = [line.split(maxsplit=1)[1].partition("(")[0] for line in trace_lines]
    assert calls[:3] == ["fsync", "rename", "fsync"]


def test_a_file_system_without_locks_is_refused(folder: Path, start: Start) -> None:
    child = start(folder, *under_strace("flock:error=ENOLCK"))
    assert child.greeting.startswith("refused readOnly: the file system of")
    assert "open a folder on a local disk" in child.greeting


def test_a_read_only_folder_is_refused_with_the_way_out(tmp_path: Path, start: Start) -> None:
    mount = f"mount --bind '{tmp_path}' '{tmp_path}'; mount -o remount,bind,ro '{tmp_path}'"
    child = start(tmp_path / "c", *in_mounts(mount))
    assert child.greeting.startswith("refused readOnly: cannot write")
    assert "make the folder writable for you, or open a folder that is" in child.greeting


@pytest.mark.full
def test_a_line_of_a_gigabyte_takes_no_memory(folder: Path, start: Start) -> None:
    folder.mkdir()
    with (folder / LOG_NAME).open("wb") as file:
        file.write(line(1, 10))
        file.seek(1 << 30)
        file.write(b"\n" + line(2, 10))
    child = start(folder, "bash", "-c", 'ulimit -v 800000; exec "$@"', "bash")
    assert child.greeting.startswith("open 2 ")
    assert child.ask("append 3 10") == "ok"
