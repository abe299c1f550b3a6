"""Draws the items of logs and renders them as an agent's requests do, by the kernel's own view."""

from __future__ import annotations

import base64
import itertools
import json
import struct
from typing import Any

from fake_llm import Json
from hypothesis import strategies as st

from oh_daemon.kernel.context import ModelContext

NAMES = ("terminal", "files__find", "no such tool", "functions.edit", "x" * 80)
MODELS = (None, "anthropic/claude-x", "hosted_vllm/mistral-x")


def png(width: int, height: int) -> bytes:
    """Return the head of an image, which has its size."""
    head = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + struct.pack(">II", width, height)
    return head + bytes(16)


def png_url(width: int, height: int) -> str:
    return f"data:image/png;base64,{base64.b64encode(png(width, height)).decode()}"


def unreadable(url: str, max_side: int, max_bytes: int) -> None:
    """Stands for a scaler to which no image is readable, since those drawn here have only heads."""


TEXT: Json = {"type": "text", "text": "See:"}
PICTURE: Json = {
    "type": "image",
    "mimeType": "image/png",
    "data": base64.b64encode(png(1170, 2532)).decode(),
}
RESULTS: tuple[list[Json], ...] = ([], [TEXT], [TEXT, PICTURE], [PICTURE])


@st.composite
def histories(draw: st.DrawFn, *, n_rounds: int = 5) -> list[Json]:
    """Draw the messages of a request.

    The log has steering, nudges, interrupts, images, switches of model, sub-agents that were cut
    off, retries, kills in the middle of an answer, changes in the background, and condensations.
    """
    ids = (f"i{n}" for n in itertools.count())
    items = [_item(draw, next(ids), "userMessage", content=[TEXT])]
    for _ in range(draw(st.integers(0, n_rounds))):
        if draw(st.integers(0, 3)):
            items += _answer(draw, ids)
        else:
            items.append(_between(draw, next(ids), items))
    view: Any = items
    return ModelContext("Be good.").messages(view)


def _between(draw: st.DrawFn, item_id: str, items: list[Json]) -> Json:
    kind = draw(
        st.sampled_from(["userMessage"] * 3 + ["notice", "subagent", "condensation", "fileChange"])
    )
    match kind:
        case "userMessage":
            content = draw(st.sampled_from([[TEXT], [TEXT, PICTURE], [PICTURE]]))
            facts = draw(st.sampled_from([{}, {"editor": {"file": "a.py"}}]))
            return _item(draw, item_id, kind, content=content, **facts)
        case "notice":
            note = draw(st.sampled_from(["Your last answer held nothing.", None]))
            return _item(draw, item_id, kind, note=note)
        case "subagent":
            reason = draw(st.sampled_from(["outcomeUnknown", None]))
            task = {"agent": "review", "title": "Look", "conversationId": "c"}
            return _item(draw, item_id, kind, reason=reason, **task)
        case "condensation":
            summary = draw(st.sampled_from([{}, {"summary": "I looked."}]))
            keep_from = draw(st.sampled_from(items))["id"]
            return _item(draw, item_id, kind, keepFrom=keep_from, pruned=[], **summary)
        case _:
            return _item(draw, item_id, kind, content=[TEXT], origin="command")


def _answer(draw: st.DrawFn, ids: itertools.count[Any] | Any) -> list[Json]:
    """Draw an answer of a model: it may have thought, spoken and called, or have been cut."""
    batch, model = next(ids), draw(st.sampled_from(MODELS))
    reason = draw(st.sampled_from([{}] * 4 + [{"reason": "outcomeUnknown"}, {"reason": "retried"}]))
    items: list[Json] = []
    if model:
        blocks = draw(st.sampled_from([[], [{"type": "thinking", "thinking": "Hm."}]]))
        thought = {"text": "Hm.", "blocks": blocks, "model": model}
        items.append(_item(draw, next(ids), "reasoning", batch=batch, **thought, **reason))
    if draw(st.booleans()):
        text = draw(st.sampled_from(["I look.", " "]))
        items.append(_item(draw, next(ids), "agentMessage", batch=batch, text=text, **reason))
    for name in draw(st.lists(st.sampled_from(NAMES), max_size=3)):
        item_id = next(ids)
        call_id = draw(st.sampled_from([f"call_{item_id}", f"call|{item_id}__thought__c2ln"]))
        arguments = json.dumps({"command": "ls"})
        call = {"id": call_id, "name": name, "arguments": arguments, "batch": batch}
        content = draw(st.sampled_from(RESULTS))
        items.append(_item(draw, item_id, "toolCall", call=call, content=content))
    return items


def _item(draw: st.DrawFn, item_id: str, kind: str, **fields: Any) -> Json:
    status = draw(st.sampled_from(["completed", "completed", "failed", "cancelled"]))
    if kind == "condensation":
        status = "completed"
    return {"id": item_id, "kind": kind, "status": status, **fields}
