"""Text that streams, in files beside the log, as the next daemon finds it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from oh_daemon.common.partial_text import PartialText
from oh_daemon.storage.partial_files import PartialFiles, PartialThread

PIECE = 600_000


class AtOnce:
    """Stands in for the thread: writes each piece by itself."""

    def schedule(self, write: Callable[[], None]) -> None:
        write()


def test_the_next_daemon_finds_what_streamed_until_its_end_is_durable(tmp_path: Path) -> None:
    thread: Any = PartialThread()
    files = PartialFiles(tmp_path, thread)
    for piece in ("Grüße, ", "und"):
        files.add("said", piece)
    files.add("ended", "gone")
    files.end("ended")
    thread.close()
    after = PartialFiles(tmp_path, thread)
    assert after.read() == {"said": PartialText("Grüße, und")}
    after.drop(after.ended_ids())
    assert list(tmp_path.iterdir()) == []


def test_a_text_whose_item_ends_during_a_sync_stays_until_the_next_one(tmp_path: Path) -> None:
    thread: Any = AtOnce()
    files = PartialFiles(tmp_path, thread)
    for item_id in ("before", "during"):
        files.add(item_id, "text")
    files.end("before")
    turn_future = files.ended_ids()
    files.end("during")
    files.drop(turn_future)
    assert PartialFiles(tmp_path, thread).read().keys() == {"during"}
    assert files.ended_ids() == {"during"}


def test_of_a_long_output_the_last_mebibyte_stays(tmp_path: Path) -> None:
    thread: Any = AtOnce()
    files = PartialFiles(tmp_path, thread)
    for piece in "abcde":
        files.add("runs", piece * PIECE)
    text_kept = "".join(piece * PIECE for piece in "cde")
    assert PartialFiles(tmp_path, thread).read() == {"runs": PartialText(text_kept, is_whole=False)}
    files.end("runs")
    files.drop(files.ended_ids())
    assert list(tmp_path.iterdir()) == []


def test_what_comes_faster_than_the_disk_takes_it_is_kept_from_its_end(tmp_path: Path) -> None:
    thread: Any = PartialThread()
    files = PartialFiles(tmp_path, thread)
    for piece in "abc":
        files.add("runs", piece * PIECE)
    thread.close()
    text_kept = "".join(piece * PIECE for piece in "bc")
    assert files.read() == {"runs": PartialText(text_kept, is_whole=False)}
