"""The tool items of a conversation."""

from typing import Any

from editor import Editor

Json = dict[str, Any]


def tool_items(editor: Editor) -> list[Json]:
    events_ended = (
        e["event"] for e in editor.client.events if e["event"]["type"] == "item.completed"
    )
    return [event["item"] for event in events_ended if "call" in event["item"]]
