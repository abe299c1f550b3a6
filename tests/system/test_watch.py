"""Waiting for a file and its writer: woken by the system, never by the clock."""

import subprocess
import threading
from pathlib import Path

import pytest

from oh_daemon.system.watch import Watch


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "log"
    path.write_text("")
    return path


def test_it_wakes_for_each_change_and_for_the_end_of_the_file(path: Path) -> None:
    watch = Watch(path, None)
    for change in (lambda: path.write_text("more"), path.unlink):
        change()
        assert watch.wait()
    watch.close()


def test_it_wakes_when_the_writer_ends(path: Path) -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as writer:
        watch = Watch(path, writer.pid)
        path.write_text("more")
        assert watch.wait()
    assert not watch.wait()
    watch.close()


def test_stop_wakes_whoever_waits(path: Path) -> None:
    watch = Watch(path, None)
    threading.Timer(0.05, watch.stop).start()
    assert not watch.wait()
    watch.close()


def test_a_writer_that_is_not_seen_here_is_no_error_and_a_missing_file_is(path: Path) -> None:
    watch = Watch(path, 2**22 + 1)
    path.write_text("more")
    assert watch.wait()
    watch.close()
    with pytest.raises(FileNotFoundError):
        Watch(path.with_name("nowhere"), None)
