"""Prepares the messages of a conversation for one model; pure.

Any models may have made them: what this one refuses is removed, and its own parts are unmodified.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256

from oh_daemon.core.ports import Json
from oh_daemon.model.capabilities import Capabilities

_BELOW = "(an image, in the message after the results)"
_UNSEEN = "(an image, left out: this model does not see images)"


def prepare_messages(
    messages: Sequence[Json],
    model: str,
    can: Capabilities,
    *,
    is_start: bool = True,
    is_end: bool = True,
) -> list[Json]:
    """Prepare for chat completions: thinking, images that the model sees, and cache marks.

    `is_start` and `is_end` say whether these are the first and the last of a request.
    """
    prepared = [_with_thinking(message, model, can) for message in taken_by(messages, can)]
    if not can.quirks.takes_images_in_results:
        prepared = list(_with_images_after(prepared))
    if can.quirks.wants_cache_marks and prepared:
        # The system prompt (and the tools before it) stays the same, and the last message ends the
        # next prefix. A mark at the previous step's end finds its cache even after a long answer.
        answers = [n for n, message in enumerate(prepared) if message["role"] == "assistant"]
        last = {len(prepared) - 1, *(n - 1 for n in answers[-1:] if n)} if is_end else set[int]()
        for n in last | ({0} if is_start else set[int]()):
            prepared[n] = _with_cache_mark(prepared[n])
    return prepared


def taken_by(messages: Sequence[Json], can: Capabilities) -> list[Json]:
    """Do what every dialect needs: ids that the model accepts, and images only if it sees them."""
    taken = [_with_call_ids(message, can) for message in messages]
    return taken if can.sees_images else [_without_images(message, _UNSEEN) for message in taken]


def own_thinking(message: Json, model: str) -> Json | None:
    """Return this model's own thinking in a message; it would refuse another's signatures."""
    thinking: Json | None = message.get("thinking")
    return thinking if thinking is not None and thinking["model"] == model else None


def lacks_thinking(messages: Sequence[Json], model: str) -> bool:
    """Return whether the last answer called tools and lacks this model's own thinking."""
    answers = (message for message in reversed(messages) if message["role"] == "assistant")
    last = next(answers, None)
    if last is None or "tool_calls" not in last:
        return False
    thinking = own_thinking(last, model)
    return not (thinking and thinking["blocks"])


def _with_thinking(message: Json, model: str, can: Capabilities) -> Json:
    if "thinking" not in message:
        return message
    sent = {key: value for key, value in message.items() if key != "thinking"}
    thinking = own_thinking(message, model)
    if thinking is None:
        return sent
    for name, heads in (
        ("thinking_blocks", ("thinking", "redacted_thinking")),
        ("reasoning_details", ("reasoning.",)),
    ):
        blocks = [block for block in thinking["blocks"] if block["type"].startswith(heads)]
        if blocks:
            sent[name] = blocks
    if can.quirks.wants_reasoning_text and thinking["text"]:
        sent["reasoning_content"] = thinking["text"]
    return sent


def _with_images_after(messages: Iterable[Json]) -> Iterator[Json]:
    """Move images out of tool results, into a user message after all results of an answer."""
    images = list[Json]()
    for message in messages:
        is_result = message["role"] == "tool"
        if images and not is_result:
            yield {"role": "user", "content": images}
            images = []
        if is_result:
            images += [part for part in parts_of(message["content"]) if part["type"] == "image_url"]
        yield _without_images(message, _BELOW) if is_result else message
    if images:
        yield {"role": "user", "content": images}


def text_part(text: str) -> Json:
    return {"type": "text", "text": text}


def parts_of(content: str | list[Json] | None) -> list[Json]:
    """Return the content of a message as a list of parts."""
    return [text_part(content)] if isinstance(content, str) else content or []


def plain_content(parts: list[Json]) -> str | list[Json]:
    """Return one text if all parts are text, since some endpoints accept no list."""
    is_text = all(part["type"] == "text" for part in parts)
    return "\n".join(part["text"] for part in parts) if is_text else parts


def _with_call_ids(message: Json, can: Capabilities) -> Json:
    if "tool_call_id" in message:
        return {**message, "tool_call_id": _call_id(message["tool_call_id"], can)}
    if "tool_calls" in message:
        calls = [{**call, "id": _call_id(call["id"], can)} for call in message["tool_calls"]]
        return {**message, "tool_calls": calls}
    return message


def _call_id(call_id: str, can: Capabilities) -> str:
    if can.quirks.call_ids.fullmatch(call_id):
        return call_id
    return sha256(call_id.encode()).hexdigest()[:9]


def _without_images(message: Json, note: str) -> Json:
    content = message.get("content")
    if isinstance(content, str | None):
        return message
    named = [text_part(note) if p["type"] == "image_url" else p for p in parts_of(content)]
    return {**message, "content": plain_content(named)}


def _with_cache_mark(message: Json) -> Json:
    content = message.get("content")
    if not content:
        return message
    parts = parts_of(content)
    marked = {**parts[-1], "cache_control": {"type": "ephemeral"}}
    return {**message, "content": [*parts[:-1], marked]}
