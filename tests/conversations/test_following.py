"""Following a conversation that another process works on, until that process closes it."""

from __future__ import annotations

from pathlib import Path
from queue import SimpleQueue

from oh_daemon.conversations.following import Followed
from oh_daemon.storage.commit import CommitThread
from oh_daemon.storage.event_log import open_log

WITHIN_S = 90


def test_one_that_its_writer_has_closed_is_not_taken_for_one_that_lives(tmp_path: Path) -> None:
    commit, place = CommitThread(), tmp_path / "c1"
    writer = open_log(place, commit, create=True).log
    followed_log = Followed(place, {}, ())
    over = SimpleQueue[bool]()
    followed_log.start(lambda: over.put(followed_log.is_live))
    assert followed_log.is_live
    writer.close()
    assert over.get(timeout=WITHIN_S) is False
    followed_log.leave()
    commit.close()
