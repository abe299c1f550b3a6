"""The thread that makes ACP's updates outlives what breaks in one of them."""

import logging
from queue import SimpleQueue

import pytest

from oh_daemon.frontends.acp.projector import Projector


def test_an_update_that_breaks_is_left_out_and_the_next_ones_come(
    caplog: pytest.LogCaptureFixture,
) -> None:
    paths: SimpleQueue[str] = SimpleQueue()
    projector = Projector()
    with caplog.at_level(logging.ERROR):
        projector.put(lambda: paths.put("first"))
        projector.put(lambda: {}["no such kind"])
        projector.put(lambda: paths.put("last"))
        assert [paths.get(timeout=60) for _ in range(2)] == ["first", "last"]
    assert "an update is left out" in caplog.text
