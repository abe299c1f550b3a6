"""A log as long as that of a month, made from one of a few events."""

import json
from pathlib import Path
from typing import Any


def grow(log: Path, n_events: int) -> None:
    """Repeat the command of a finished conversation until its log has so many events."""
    lines = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    records = [line for line in lines if "event" in line]
    of_command = [r for r in records if r["event"].get("item", {}).get("kind") == "command"]
    assert [r["event"]["type"] for r in of_command] == ["item.started", "item.completed"]
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
