"""The log through its public names: append, read, reopen, repair, lock, refuse."""

import io
import os
import shutil
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Queue
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oh_daemon.protocol.errors import (
    ConversationLockedError,
    ConversationNotFoundError,
    ReadOnlyError,
    StorageError,
)
from oh_daemon.storage.commit import CommitThread
from oh_daemon.storage.event_log import LogFile, OpenedLog, follow_log, open_log
from oh_daemon.storage.log_scan import LOG_NAME, Scan, last_seq_of, lock_owner, read_log, scan_file
from oh_daemon.storage.memory_log import MemoryLog

Reopen = Callable[[], OpenedLog]
HEADER = b'{"v":2,"kind":"header","epoch":"e1","boot":"b1","damage":0}\n'


def line(seq: int, text: str = "hi", v: int = 2) -> bytes:
    event = {"type": "notice", "severity": "info", "title": text}
    record = {"v": v, "seq": seq, "ts": "2026-01-01T00:00:00.000Z", "event": event}
    return orjson.dumps(record) + b"\n"


def seqs(opened_log: OpenedLog) -> list[int]:
    return [record["seq"] for record in read_log(opened_log.log.folder)]


@pytest.fixture
def commit() -> Iterator[CommitThread]:
    thread = CommitThread()
    yield thread
    thread.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "conversation"


@pytest.fixture
def reopen(folder: Path, commit: CommitThread) -> Iterator[Reopen]:
    """A function that opens the log, after closing it if it is open."""
    opened_logs: list[OpenedLog] = []

    def run() -> OpenedLog:
        if opened_logs:
            opened_logs.pop().log.close()
        opened_logs.append(open_log(folder, commit, client="test", create=True))
        return opened_logs[0]

    yield run
    for one in opened_logs:
        one.log.close()


def ignore(_record: object) -> None:
    pass


def scan(content: bytes) -> Scan:
    return scan_file(io.BytesIO(content), ignore)


def write_log(folder: Path, *lines: bytes) -> None:
    folder.mkdir(exist_ok=True)
    (folder / LOG_NAME).write_bytes(b"".join(lines))


# Append and read


def test_what_was_appended_comes_back_byte_for_byte(reopen: Reopen) -> None:
    log = reopen().log
    lines = [line(seq, "ä" * seq) for seq in range(1, 8)]
    log.append(lines[0])
    log.append(b"".join(lines[1:5]))
    log.append(b"".join(lines[5:]))
    expected = [one[:-1] for one in lines]
    assert log.read_range(1, 7) == expected
    again = reopen()
    assert read_log(again.log.folder) == [orjson.loads(one) for one in lines]
    assert again.repairs == ()
    assert again.log.read_range(1, 7) == expected


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [(2, 3, [2, 3]), (-5, 1, [1]), (4, 99, [4, 5]), (6, 9, []), (3, 2, []), (0, 0, [])],
)
@pytest.mark.parametrize("kind", ["disk", "memory"])
def test_a_range_holds_the_events_that_are_there(
    reopen: Reopen, kind: str, first: int, last: int, expected: list[int]
) -> None:
    log = reopen().log if kind == "disk" else MemoryLog()
    log.append(b"".join(line(seq) for seq in range(1, 6)))
    assert [orjson.loads(one)["seq"] for one in log.read_range(first, last)] == expected


def test_appends_after_a_reopening_are_numbered_on_and_paged(reopen: Reopen) -> None:
    reopen().log.append(line(1) + line(2))
    log = reopen().log
    log.append(line(3))
    assert log.read_range(2, 3) == [line(2)[:-1], line(3)[:-1]]


def test_files_are_for_this_user_only_whatever_the_umask(folder: Path, reopen: Reopen) -> None:
    before = os.umask(0)
    try:
        reopen().log.put_blob(b"x")
    finally:
        os.umask(before)
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in (folder, *folder.rglob("*"))}
    assert modes == {path: 0o700 if path.is_dir() else 0o600 for path in modes}


def test_wider_modes_are_narrowed_at_opening(folder: Path, reopen: Reopen) -> None:
    write_log(folder, HEADER, line(1))
    folder.chmod(0o777)
    (folder / LOG_NAME).chmod(0o666)
    reopen()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / LOG_NAME).stat().st_mode) == 0o600


def test_callbacks_come_in_order_once_the_lines_are_durable(reopen: Reopen) -> None:
    log = reopen().log
    heard: list[tuple[int, StorageError | None]] = []
    is_durable = threading.Event()
    for seq in range(1, 6):
        log.append(line(seq))
        log.after_sync(lambda error, seq=seq: heard.append((seq, error)))
    log.after_sync(lambda _error: is_durable.set())
    assert is_durable.wait(120)
    assert heard == [(seq, None) for seq in range(1, 6)]


def test_appends_from_many_threads_never_interleave(folder: Path, reopen: Reopen) -> None:
    log = reopen().log
    lock = threading.Lock()
    counter = iter(range(1, 401))

    def worker() -> None:
        for _ in range(100):
            with lock:
                log.append(line(next(counter), "x" * 5000))

    threads = [threading.Thread(target=worker) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [record["seq"] for record in read_log(folder)] == list(range(1, 401))


def test_a_closed_log_takes_nothing_more_and_a_second_close_is_harmless(reopen: Reopen) -> None:
    log = reopen().log
    log.append(line(1))
    log.close()
    log.close()
    with pytest.raises(StorageError):
        log.append(line(2))
    log.sync()


def test_a_stopped_commit_thread_says_so_and_the_log_still_closes_clean(folder: Path) -> None:
    thread = CommitThread()
    opened_log = open_log(folder, thread, create=True)
    opened_log.log.append(line(1))
    thread.close()
    with pytest.raises(StorageError, match="stopping"):
        opened_log.log.sync()
    opened_log.log.close()
    assert scan((folder / LOG_NAME).read_bytes()).is_closed


# Epoch


def test_the_epoch_stays_when_nothing_was_lost(reopen: Reopen) -> None:
    first = reopen()
    first.log.append(line(1))
    assert reopen().epoch == first.epoch == reopen().epoch


def test_a_log_left_open_by_an_earlier_boot_gets_a_new_epoch(folder: Path, reopen: Reopen) -> None:
    write_log(folder, HEADER, line(1))
    assert reopen().epoch != "e1"


def test_a_log_closed_by_an_earlier_boot_keeps_its_epoch(folder: Path, reopen: Reopen) -> None:
    write_log(folder, HEADER, line(1), b'{"v":2,"kind":"closed"}\n')
    assert reopen().epoch == "e1"


def test_a_header_without_an_epoch_does_not_keep_a_log_from_opening(
    folder: Path, reopen: Reopen
) -> None:
    write_log(folder, b'{"v":2,"kind":"header","damage":0}\n', b'{"v":2,"kind":"closed"}\n')
    assert reopen().epoch


def test_a_process_killed_in_this_boot_keeps_the_epoch(folder: Path, reopen: Reopen) -> None:
    epoch = reopen().epoch
    log_at_kill = (folder / LOG_NAME).read_bytes() + line(1) + line(2)[:20]
    write_log(folder.with_name("copy"), log_at_kill)
    with_copy = CommitThread()
    copy_log = open_log(folder.with_name("copy"), with_copy)
    assert (copy_log.epoch, seqs(copy_log)) == (epoch, [1])
    copy_log.log.close()
    with_copy.close()


def test_lost_lines_change_the_epoch_once_and_are_reported_once(
    folder: Path, reopen: Reopen
) -> None:
    first = reopen()
    first.log.append(line(1) + line(2) + line(3))
    first.log.close()
    content = (folder / LOG_NAME).read_bytes()
    (folder / LOG_NAME).write_bytes(content.replace(line(2), b"\0" * 10 + b"\n"))
    second = reopen()
    assert second.epoch != first.epoch
    assert list(second.repairs) == [
        f"11 bytes at byte {len(content.split(line(1))[0] + line(1))} are not an event; left out",
        "events 2 to 2 are missing",
    ]
    third = reopen()
    assert (third.epoch, third.repairs) == (second.epoch, ())


# Damage


def test_a_torn_tail_is_cut_at_every_byte_and_writing_goes_on(
    folder: Path, commit: CommitThread
) -> None:
    full_log = HEADER + line(1)
    for n_left in range(len(line(2))):
        write_log(folder, full_log, line(2)[:n_left])
        opened_log = open_log(folder, commit)
        is_whole = n_left == len(line(2)) - 1
        assert seqs(opened_log) == ([1, 2] if is_whole else [1])
        assert len(opened_log.repairs) == (0 if is_whole or n_left == 0 else 1)
        for repair in opened_log.repairs:
            assert (folder / repair.split()[-1]).read_bytes() == line(2)[:n_left]
        next_line = line(3 if is_whole else 2)
        opened_log.log.append(next_line)
        opened_log.log.close()
        assert read_log(folder)[-1] == orjson.loads(next_line)
        assert scan((folder / LOG_NAME).read_bytes()).damage == 0


@pytest.mark.parametrize(
    ("content", "expected", "n_repairs"),
    [
        ([], [], 0),
        ([b"\n"], [], 1),
        ([b"\0" * 4096], [], 1),
        ([line(1)], [1], 0),
        ([HEADER, line(1), b"garbage \xff\n", line(2)], [1, 2], 1),
        ([HEADER, line(1), b"[]\n", b"7\n", b"null\n", b'{"v":2}\n', line(2)], [1, 2], 4),
        ([HEADER, line(1), b'{"v":2,"seq":2,"event":{"type":"x"}}\n', line(2)], [1, 2], 1),
        ([HEADER, line(1), line(2), line(2, "other"), line(3)], [1, 2, 3], 1),
        ([HEADER, line(1), line(2), line(1), line(2), line(3)], [1, 2, 3], 2),
        ([HEADER, line(1), line(3), line(4)], [1, 3, 4], 1),
        ([HEADER, line(1), line(900), line(3), line(4)], [1, 3, 4], 2),
        ([HEADER, line(2), line(1 << 63), line(3)], [2, 3], 2),
        ([HEADER, line(1), b'{"v":2,"kind":"fromTheFuture"}\n', line(2)], [1, 2], 0),
    ],
)
def test_damage_is_passed_over_and_never_keeps_a_log_from_opening(
    folder: Path, reopen: Reopen, content: list[bytes], expected: list[int], n_repairs: int
) -> None:
    write_log(folder, *content)
    opened_log = reopen()
    assert (seqs(opened_log), len(opened_log.repairs)) == (expected, n_repairs)
    last = expected[-1] if expected else 0
    opened_log.log.append(line(last + 1))
    assert opened_log.log.read_range(1, 1 << 62)[-1] == line(last + 1)[:-1]
    assert seqs(reopen()) == [*expected, last + 1]


def test_of_two_events_with_one_number_the_first_counts(folder: Path) -> None:
    write_log(folder, HEADER, line(1), line(1, "other"), line(2))
    assert read_log(folder)[0]["event"].get("title") == "hi"


def test_damage_stays_in_the_file_as_it_is(folder: Path, reopen: Reopen) -> None:
    content = b"".join([HEADER, line(1), b"garbage\n", line(2), line(2)])
    write_log(folder, content)
    reopen()
    assert (folder / LOG_NAME).read_bytes().startswith(content)


@given(st.lists(st.binary(max_size=60), max_size=6))
def test_no_garbage_hides_an_event(garbage: list[bytes]) -> None:
    pieces = [piece + b"\n" + line(seq) for seq, piece in enumerate(garbage, 1)]
    assert [*scan(b"".join(pieces)).seqs] == list(range(1, len(garbage) + 1))


@given(st.data())
def test_one_changed_byte_costs_at_most_two_lines(data: st.DataObject) -> None:
    content = bytearray(b"".join(line(seq) for seq in range(1, 30)))
    content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    assert len(scan(bytes(content)).seqs) >= 27


def test_a_line_above_the_limit_is_damage_and_what_follows_is_read(
    folder: Path, reopen: Reopen
) -> None:
    big = b"x" * (33 << 20)
    write_log(folder, HEADER, line(1), big, b"\n", line(2))
    opened_log = reopen()
    assert seqs(opened_log) == [1, 2]
    assert opened_log.log.read_range(2, 2) == [line(2)[:-1]]


def test_ten_thousand_bad_lines_make_a_report_one_can_read(folder: Path, reopen: Reopen) -> None:
    write_log(folder, HEADER, b"bad\n" * 10_000, line(1))
    opened_log = reopen()
    assert (seqs(opened_log), len(opened_log.repairs)) == ([1], 100)


def test_a_later_version_is_read_but_not_written(
    folder: Path, commit: CommitThread, reopen: Reopen
) -> None:
    write_log(folder, HEADER, line(1), line(2, v=3), line(3)[:9])
    before = (folder / LOG_NAME).read_bytes()
    records: list[Any] = []
    with pytest.raises(ReadOnlyError, match="later version"):
        open_log(folder, commit, records.append)
    assert [record["v"] for record in records] == [2], (
        "nobody can fold what this version cannot know"
    )
    assert (folder / LOG_NAME).read_bytes() == before
    assert [record["v"] for record in read_log(folder)] == [2, 3]
    with pytest.raises(ReadOnlyError):
        reopen()


def test_half_written_temporary_files_are_swept_at_opening(folder: Path, reopen: Reopen) -> None:
    reopen().log.put_blob(b"kept")
    leftovers = [folder / ".meta.json.1.tmp", folder / "blobs" / ".2.tmp"]
    for path in leftovers:
        path.touch()
    reopen()
    assert [path for path in leftovers if path.exists()] == []
    assert len(list((folder / "blobs").iterdir())) == 1


# Lock and refusals


def test_a_second_opening_is_told_who_has_it_and_can_read(
    folder: Path, commit: CommitThread, reopen: Reopen
) -> None:
    reopen().log.append(line(1))
    with pytest.raises(ConversationLockedError, match=str(os.getpid())) as error_info:
        open_log(folder, commit)
    owner = error_info.value.data["lock"]
    assert isinstance(owner, dict)
    assert {"pid": os.getpid(), "client": "test"}.items() <= owner.items()
    assert "startedAt" in owner
    assert len(read_log(folder)) == 1


def test_a_log_is_read_on_while_another_writes_it_and_a_torn_line_waits(
    folder: Path, commit: CommitThread, reopen: Reopen
) -> None:
    log = reopen().log
    log.append(line(1))
    records: list[Any] = []
    tail, _ = follow_log(folder, records.append)
    assert records == [orjson.loads(line(1))]
    assert tail.read_on() == ([], True)
    with (folder / LOG_NAME).open("ab", 0) as file:
        file.write(line(2) + line(3)[:20])
        assert tail.read_on() == ([line(2)[:-1]], True)
        file.write(line(3)[20:] + b"damage\n" + line(3))
        assert tail.read_on() == ([line(3)[:-1]], True)
    assert tail.read_range(1, 9) == [line(n)[:-1] for n in (1, 2, 3)]
    (folder / LOG_NAME).unlink()
    assert tail.read_on() == ([], False)
    tail.close()


def test_who_reads_a_log_on_hears_of_its_clean_end_and_never_writes(
    folder: Path, commit: CommitThread, reopen: Reopen
) -> None:
    opened_log = reopen()
    opened_log.log.append(line(1))
    tail, epoch = follow_log(folder, ignore)
    assert epoch == opened_log.epoch
    assert lock_owner(folder)["pid"] == os.getpid()
    opened_log.log.close()
    assert tail.read_on() == ([], False)
    assert lock_owner(folder) == {}
    before = (folder / LOG_NAME).read_bytes()
    tail.close()
    assert (folder / LOG_NAME).read_bytes() == before


def test_a_conversation_that_is_not_there_is_not_made(folder: Path, commit: CommitThread) -> None:
    with pytest.raises(ConversationNotFoundError):
        open_log(folder, commit)
    assert not folder.exists()


@pytest.mark.parametrize("name", [LOG_NAME, "lock"])
@pytest.mark.parametrize("kind", ["symlink", "hard link", "pipe", "folder"])
def test_a_planted_file_is_refused_and_its_target_untouched(
    folder: Path, commit: CommitThread, name: str, kind: str
) -> None:
    write_log(folder, HEADER)
    target = folder.with_name("target")
    target.write_text("precious")
    target.chmod(0o644)
    (folder / name).unlink(missing_ok=True)
    match kind:
        case "symlink":
            (folder / name).symlink_to(target)
        case "hard link":
            (folder / name).hardlink_to(target)
        case "pipe":
            os.mkfifo(folder / name)
        case _:
            (folder / name).mkdir()
    with pytest.raises(ReadOnlyError, match="nothing is written to it; move it away"):
        open_log(folder, commit)
    assert target.read_text() == "precious"
    assert stat.S_IMODE(target.stat().st_mode) == 0o644


def test_a_linked_folder_is_refused(folder: Path, commit: CommitThread) -> None:
    write_log(folder, HEADER)
    folder.with_name("link").symlink_to(folder)
    with pytest.raises(ReadOnlyError, match="is a link"):
        open_log(folder.with_name("link"), commit)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to someone else")
@pytest.mark.parametrize("name", [".", LOG_NAME, "lock", "blobs"])
def test_what_belongs_to_another_user_is_refused(
    folder: Path, commit: CommitThread, reopen: Reopen, name: str
) -> None:
    reopen().log.close()
    os.chown(folder / name, 65534, -1)
    with pytest.raises(ReadOnlyError, match="belongs to another user"):
        open_log(folder, commit)


# The log is taken away while it is in use


def delete(folder: Path) -> None:
    shutil.rmtree(folder)


def move(folder: Path) -> None:
    folder.rename(folder.with_name("moved"))


def replace(folder: Path) -> None:
    content = (folder / LOG_NAME).read_bytes()
    (folder / "new").write_bytes(content)
    (folder / "new").rename(folder / LOG_NAME)


def empty(folder: Path) -> None:
    os.truncate(folder / LOG_NAME, 0)


@pytest.mark.parametrize("harm", [delete, move, replace, empty])
def test_a_log_that_is_taken_away_is_noticed_at_once(
    folder: Path, reopen: Reopen, harm: Callable[[Path], None]
) -> None:
    log = reopen().log
    log.append(line(1))
    harm(folder)
    with pytest.raises(StorageError, match="put it back and resume"):
        log.append(line(2))
    with pytest.raises(StorageError, match="put it back and resume"):
        log.sync()
    heard: Queue[StorageError | None] = Queue()
    log.after_sync(heard.put)
    assert isinstance(heard.get(timeout=120), StorageError)


def test_a_log_that_comes_back_is_written_again(folder: Path, reopen: Reopen) -> None:
    log = reopen().log
    log.append(line(1))
    move(folder)
    with pytest.raises(StorageError):
        log.append(line(2))
    folder.with_name("moved").rename(folder)
    log.append(line(2))
    log.sync()
    assert len(read_log(folder)) == 2


@pytest.mark.parametrize("speak", [lambda log: log.append(line(2)), LogFile.sync])
def test_a_commit_that_nobody_waited_for_makes_the_next_append_or_sync_speak(
    folder: Path, commit: CommitThread, reopen: Reopen, speak: Callable[[LogFile], None]
) -> None:
    log = reopen().log
    other_log = open_log(folder.with_name("other"), commit, create=True).log
    log.sync()
    is_held_up, is_moved = threading.Event(), threading.Event()

    def wait(_error: StorageError | None) -> None:
        is_held_up.set()
        is_moved.wait(60)

    # The commit thread works in order. `other` holds it up until this log has been moved, and once
    # `other` is synced again, the thread has tried to sync this log as well.
    other_log.after_sync(wait)
    assert is_held_up.wait(60)
    log.append(line(1))
    move(folder)
    is_moved.set()
    other_log.sync()
    folder.with_name("moved").rename(folder)
    with pytest.raises(StorageError):
        speak(log)
    speak(log)
    other_log.close()


# Readers beside the writer


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ([], 0),
        ([HEADER], 0),
        ([HEADER, line(1), line(2), b'{"v":2,"kind":"closed"}\n'], 2),
        ([HEADER, line(1), line(2)[:-9]], 1),
        ([HEADER, line(1), line(2, "x" * 200_000), b"garbage\n"], 0),
    ],
)
def test_the_last_number_is_read_from_the_end_of_the_file(
    folder: Path, content: list[bytes], expected: int
) -> None:
    write_log(folder, *content)
    assert last_seq_of(folder) == expected
