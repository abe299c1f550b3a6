"""Grows a log of a few events to the length that a month of work would leave."""

import json
import re
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

TIME = re.compile(r'(?<=")\d{4}-\d\d-\d\dT[\d:.]+Z(?=")')


def grow(log: Path, n_events: int) -> None:
    """Repeat the command of a finished conversation until its log has `n_events` events."""
    lines = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    records = [line for line in lines if "event" in line]
    of_items = [r for r in records if r["event"]["type"] in {"item.started", "item.completed"}]
    of_command = [r for r in of_items if r["event"]["item"]["kind"] == "command"]
    assert len(of_command) == 2
    seq = records[-1]["seq"]
    more: list[str] = []
    while seq < n_events:
        for record in of_command:
            seq += 1
            item_id = f"item-{(seq - 1) // 2}"
            item: dict[str, Any] = {**record["event"]["item"], "id": item_id}
            item["call"] = {**item["call"], "id": item_id, "batch": item_id}
            event = {**record["event"], "item": item}
            more.append(json.dumps({**record, "seq": seq, "itemId": item_id, "event": event}))
    with log.open("a", encoding="utf-8") as end:
        end.write("\n".join([*more, json.dumps(lines[-1])]) + "\n")


def repeat_turn(log: Path, n_events: int) -> None:
    """Repeat a conversation's only turn, each time a minute later, up to `n_events` log events."""
    lines = log.read_text("utf-8").splitlines()
    start = next(n for n, line in enumerate(lines) if '"turn.started"' in line)
    turn = [line for line in lines[start:] if "event" in json.loads(line)]
    records = [json.loads(line) for line in turn]
    ids = re.compile(
        "|".join({r[key] for r in records for key in ("turnId", "itemId") if key in r})
    )
    seq = records[-1]["seq"]
    more: list[str] = []
    while seq < n_events:
        minutes = len(more) // len(turn) + 1
        for line in turn:
            seq += 1
            record = json.loads(_later(ids.sub(rf"\g<0>-{minutes}", line), minutes))
            more.append(json.dumps({**record, "seq": seq}))
    with log.open("a", encoding="utf-8") as end:
        end.write("\n".join([*more, lines[-1]]) + "\n")


def _later(line: str, minutes: int) -> str:
    """Move a line's times; else all turns end at once and clients show their changes together."""

    def move_forward(match: re.Match[str]) -> str:
        at = datetime.fromisoformat(match[0]) + timedelta(minutes=minutes)
        return f"{at:%Y-%m-%dT%H:%M:%S.%f}"[:-3] + "Z"

    return TIME.sub(move_forward, line)
