"""A branch is well formed wherever it is cut, and has everything that was said up to there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fake_llm import malformed_reason
from places import TESTS

from oh_daemon.kernel.context import ModelContext
from oh_daemon.kernel.folding import fold
from oh_daemon.kernel.records import fork_records
from oh_daemon.kernel.recovery import restart_events
from oh_daemon.kernel.state import ENDED
from oh_daemon.kernel.turns import may_resume
from oh_daemon.protocol.branches import ForkParams
from oh_daemon.protocol.errors import InvalidParamsError
from oh_daemon.protocol.events import Record, UnknownEvent
from oh_daemon.storage.log_scan import read_log

LOGS = sorted((TESTS / "golden").glob("*/*.jsonl"))


def records_of(log: Path, tmp_path: Path) -> list[Any]:
    (tmp_path / "events.jsonl").write_bytes(log.read_bytes())
    return read_log(tmp_path)


def fork(records: list[Any], at: str | None) -> list[Any]:
    return fork_records(records, ForkParams(conversation_id="old", at_item_id=at), "now")


def require_well_formed(records: list[Any], log_records: list[Any]) -> None:
    """Assert that a branch is at rest, and that its events are known ones or those of the log."""
    state = fold("new", records)
    assert [record["seq"] for record in records] == list(range(1, len(records) + 1))
    assert (state.turn, state.open_items, state.pending, state.queue) == (None, {}, {}, [])
    assert restart_events(state, "now") == []
    assert malformed_reason(ModelContext("").messages(state.items)) is None
    for record in records:
        if isinstance(Record.model_validate(record).event, UnknownEvent):
            assert record["event"] in [each["event"] for each in log_records]


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.stem)
def test_at_every_item_and_at_every_moment_a_branch_is_well_formed(log: Path, tmp_path: Path):
    records = records_of(log, tmp_path)
    for moment in range(1, len(records) + 1):
        records_known = records[:moment]
        state = fold("old", records_known)
        for n, item in enumerate(state.items):
            branch = fork(records_known, item["id"])
            require_well_formed(branch, records)
            ended_ids = [i["id"] for i in state.items[: n + 1] if i["status"] in ENDED]
            assert [i["id"] for i in fold("new", branch).items] == ended_ids
        require_well_formed(fork(records_known, None), records)


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.stem)
def test_a_branch_of_all_has_the_same_items_and_the_original_stays(log: Path, tmp_path: Path):
    records = records_of(log, tmp_path)
    before = fold("old", records)
    branch = fold("new", fork(records, None))
    assert branch.items == [item for item in before.items if item["status"] in ENDED]
    assert branch.forked_from == {"id": "old", "seq": records[-1]["seq"]}
    assert branch.title == f"{before.title} (fork)"
    assert (branch.options, branch.agent) == (before.options, before.agent)
    assert branch.usage is None
    assert records == records_of(log, tmp_path)


def test_a_turn_that_is_cut_can_be_resumed_and_a_whole_one_has_ended(tmp_path: Path):
    records = records_of(TESTS / "golden/v2/edit.jsonl", tmp_path)
    items = fold("old", records).items
    cut_state, full_state = (fold("new", fork(records, items[n]["id"])) for n in (0, -1))
    assert may_resume(cut_state)
    assert cut_state.last_turn
    assert cut_state.last_turn["status"] == "interrupted"
    assert not may_resume(full_state)
    assert full_state.turn_changes == fold("old", records).turn_changes


def test_an_item_that_is_not_there_is_refused(tmp_path: Path):
    with pytest.raises(InvalidParamsError, match="atItemId"):
        fork(records_of(LOGS[0], tmp_path), "nothing")


def test_the_branch_of_a_sub_agent_works_for_nobody(tmp_path: Path):
    records = records_of(LOGS[0], tmp_path)
    records[0]["event"]["parentId"] = "parent"
    assert fold("old", records).parent_id == "parent"
    assert fold("new", fork(records, None)).parent_id is None
