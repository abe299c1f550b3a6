"""Logs of every released format, made by real runs, fold to the state they always had.

`golden/vN/NAME.jsonl` is a log and `NAME.state.json` the state it folds to; neither ever changes.
`golden/later/NAME.jsonl` is such a log as a later release of the same format may write it: with
fields, an event, an item, a part and a subject that this release does not know.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest
from fake_llm import malformed_reason
from msgspec import Struct
from msgspec.structs import asdict
from places import TESTS

from oh_daemon.kernel.context import ModelContext
from oh_daemon.kernel.folding import apply
from oh_daemon.kernel.ports import Json
from oh_daemon.kernel.recovery import restart_events
from oh_daemon.kernel.state import State
from oh_daemon.protocol.events import Record, UnknownEvent
from oh_daemon.storage.log_scan import scan_file

LOGS = sorted((TESTS / "golden").glob("*/*.jsonl"))

pytestmark = pytest.mark.parametrize("log", LOGS, ids=lambda log: f"{log.parent.name}-{log.stem}")


def replay_log(log: Path) -> State:
    state = State("golden")
    with log.open("rb") as file:
        scan_file(file, partial(apply, state))
    return state


def as_json(state: State) -> Json:
    """Return the whole state as JSON: sets become sorted lists, keys of two parts are joined."""

    def plain(value: Any) -> Any:
        if isinstance(value, Struct):
            return plain(asdict(value))
        if isinstance(value, dict):
            return {" ".join(k) if isinstance(k, tuple) else k: plain(v) for k, v in value.items()}
        if isinstance(value, list | tuple):
            return [plain(each) for each in value]
        return sorted(value) if isinstance(value, set) else value

    return plain(state)


def test_it_folds_to_its_state(log: Path):
    expected = json.loads(log.with_suffix(".state.json").read_text("utf-8"))
    # A later version may add fields to the state, but it keeps the values of the earlier ones.
    assert as_json(replay_log(log)) | expected == as_json(replay_log(log))


def test_each_of_its_records_is_a_known_one_and_survives_a_round_trip(log: Path):
    if log.parent.name == "later":
        return
    for line in log.read_bytes().splitlines():
        if b'"kind":"header"' in line or b'"kind":"closed"' in line:
            continue
        record = Record.model_validate_json(line)
        assert not isinstance(record.event, UnknownEvent)
        assert orjson.loads(record.model_dump_json(exclude_none=True)) == orjson.loads(line)


def test_it_needs_no_repair_and_gives_a_model_well_formed_messages(log: Path):
    state = replay_log(log)
    assert restart_events(state, "now") == []
    assert malformed_reason(ModelContext("").messages(state.items)) is None
