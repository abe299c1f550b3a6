"""Outputs that are kept beside the log, named by their hash; on disk and in memory alike."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from oh_daemon.protocol.errors import ReadOnlyError, StorageError, UserError
from oh_daemon.storage.commit import CommitThread
from oh_daemon.storage.event_log import LogFile, open_log
from oh_daemon.storage.memory_log import MemoryLog


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "conversation"


@pytest.fixture
def disk(folder: Path) -> Iterator[LogFile]:
    commit = CommitThread()
    log = open_log(folder, commit, create=True).log
    yield log
    log.close()
    commit.close()


@pytest.fixture(params=["disk", "memory"])
def log(request: pytest.FixtureRequest, disk: LogFile) -> LogFile | MemoryLog:
    return disk if request.param == "disk" else MemoryLog()


@pytest.mark.parametrize("data", [b"", b"hello", bytes(range(256)) * 5000])
def test_bytes_come_back_under_their_hash(log: LogFile | MemoryLog, data: bytes) -> None:
    name = log.put_blob(data)
    assert name == hashlib.sha256(data).hexdigest()
    assert log.put_blob(data) == name
    assert log.read_blob(name) == data
    assert log.blob_size(name) == len(data)
    log.sync()
    assert log.read_blob(name) == data


@pytest.mark.parametrize(
    ("offset", "limit", "expected"),
    [(0, -1, b"0123456789"), (3, 4, b"3456"), (8, 9, b"89"), (20, 5, b""), (2, 0, b"")],
)
def test_a_part_can_be_read(
    log: LogFile | MemoryLog, offset: int, limit: int, expected: bytes
) -> None:
    assert log.read_blob(log.put_blob(b"0123456789"), offset, limit) == expected


def test_a_finished_file_is_taken_over(log: LogFile | MemoryLog, tmp_path: Path) -> None:
    for _ in range(2):
        source = tmp_path / "output"
        source.write_bytes(b"output")
        name = log.put_blob_file(source)
        assert not source.exists()
        assert log.read_blob(name) == b"output"


@pytest.mark.parametrize("name", ["", "../../secret", "0" * 64, "A" * 64, "0" * 63 + "\n"])
def test_a_name_that_is_not_there_is_a_users_error(log: LogFile | MemoryLog, name: str) -> None:
    with pytest.raises(UserError, match=r"output|name"):
        log.read_blob(name)
    with pytest.raises(UserError, match=r"output|name"):
        log.blob_size(name)


def test_a_file_taken_over_is_for_this_user_only(
    disk: LogFile, folder: Path, tmp_path: Path
) -> None:
    source = tmp_path / "output"
    source.write_bytes(b"output")
    source.chmod(0o666)
    name = disk.put_blob_file(source)
    assert (folder / "blobs" / name).stat().st_mode & 0o777 == 0o600


def test_a_blob_planted_as_a_link_is_not_followed(
    disk: LogFile, folder: Path, tmp_path: Path
) -> None:
    name = hashlib.sha256(b"secret").hexdigest()
    (tmp_path / "secret").write_bytes(b"secret")
    (folder / "blobs" / name).symlink_to(tmp_path / "secret")
    with pytest.raises(ReadOnlyError):
        disk.read_blob(name)


def test_a_folder_that_is_gone_is_a_storage_error(disk: LogFile, folder: Path) -> None:
    folder.rename(folder.with_name("moved"))
    with pytest.raises(StorageError, match="cannot write"):
        disk.put_blob(b"output")
