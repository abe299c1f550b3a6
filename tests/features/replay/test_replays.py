"""The agent's loop does on each recorded conversation what it did when that was recorded."""

from pathlib import Path

import pytest
from places import TESTS

from oh_daemon.features.replay.replay import replay

PLACES = sorted(log.parent for log in TESTS.glob("replays/*/*/events.jsonl"))


@pytest.mark.parametrize("place", PLACES, ids=lambda p: f"{p.parent.name}-{p.name}")
def test_a_replay_makes_no_difference(place: Path) -> None:
    """If one is meant, `tests/replays/record.py` records the conversations again."""
    report = replay(place, is_strict=True)
    difference = report.difference
    assert difference is None, "\n".join((difference.where, *difference.lines()))
    assert (report.left_out, report.n_steps > 0) == ("", True)
