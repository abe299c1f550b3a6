"""Following a conversation that another process works on, until that process closes it."""

from __future__ import annotations

import os
from pathlib import Path
from queue import SimpleQueue
from typing import NoReturn

from oh_daemon.common.masking import Masker
from oh_daemon.conversations.following import Followed
from oh_daemon.conversations.services import Shared
from oh_daemon.features.mcp.connections import Surroundings
from oh_daemon.features.mcp.servers import McpServers
from oh_daemon.features.trust.trust import TrustBook
from oh_daemon.protocol.settings import Merged, Settings
from oh_daemon.storage.event_log import open_log
from oh_daemon.system.io_loop import run_on_loop
from oh_daemon.system.spawner import Spawner

WITHIN_S = 90


def shared(folder: Path) -> Shared:
    around = Surroundings(Spawner(), os.environ, Masker(), folder)
    return Shared(
        settings=lambda _folder: Merged(Settings(), {}, ()),
        model_for=_no_model,
        default_model=lambda: "",
        trust=TrustBook(),
        user_folder=folder,
        mcp=McpServers(run_on_loop, dict, around),
    )


def _no_model(name: str) -> NoReturn:
    raise AssertionError(name)


def test_one_that_its_writer_has_closed_is_not_taken_for_one_that_lives(tmp_path: Path) -> None:
    ours, place = shared(tmp_path), tmp_path / "c1"
    writer = open_log(place, ours.commit, create=True).log
    followed = Followed(place, {}, ours)
    over = SimpleQueue[bool]()
    followed.start(lambda: over.put(followed.is_live))
    assert followed.is_live
    writer.close()
    assert over.get(timeout=WITHIN_S) is False
    followed.leave()
    ours.commit.close()
