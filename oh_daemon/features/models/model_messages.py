"""The messages of a conversation in the form that one model accepts; pure.

Any models may have made them: what this one refuses is removed, and its own parts are unmodified.
A model without function calling finds the tools in its prompt and calls them in its text. The log
has native calls only, so a conversation may change between models of both kinds any time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256

from msgspec.structs import replace

from oh_daemon.features.models.call_pieces import KnownTools
from oh_daemon.features.models.capabilities import Capabilities
from oh_daemon.features.models.request_healing import (
    joined,
    parts_of,
    plain_content,
    sent_name,
    text_part,
    without_images,
)
from oh_daemon.features.models.written_calls import written_calls
from oh_daemon.kernel.ports import Json, ModelAnswer, ModelDelta, ToolCall

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
    prepared_messages = [_with_thinking(message, model, can) for message in taken_by(messages, can)]
    if not can.quirks.takes_images_in_results:
        prepared_messages = list(_with_images_after(prepared_messages))
    if can.quirks.wants_cache_marks and prepared_messages:
        # The system prompt (and the tools before it) stays the same, and the last message ends the
        # next prefix. A mark at the previous step's end finds its cache even after a long answer.
        answers = [
            n for n, message in enumerate(prepared_messages) if message["role"] == "assistant"
        ]
        last = (
            {len(prepared_messages) - 1, *(n - 1 for n in answers[-1:] if n)}
            if is_end
            else set[int]()
        )
        for n in last | ({0} if is_start else set[int]()):
            prepared_messages[n] = _with_cache_mark(prepared_messages[n])
    return prepared_messages


def taken_by(messages: Sequence[Json], can: Capabilities) -> list[Json]:
    """Do what every dialect needs: ids that the model accepts, and images only if it sees them."""
    messages_with_ids = [_with_call_ids(message, can) for message in messages]
    return (
        messages_with_ids
        if can.sees_images
        else [without_images(message, _UNSEEN) for message in messages_with_ids]
    )


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
    fields = {key: value for key, value in message.items() if key != "thinking"}
    thinking = own_thinking(message, model)
    if thinking is None:
        return fields
    for name, heads in (
        ("thinking_blocks", ("thinking", "redacted_thinking")),
        ("reasoning_details", ("reasoning.",)),
    ):
        blocks = [block for block in thinking["blocks"] if block["type"].startswith(heads)]
        if blocks:
            fields[name] = blocks
    if can.quirks.wants_reasoning_text and thinking["text"]:
        fields["reasoning_content"] = thinking["text"]
    return fields


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
        yield without_images(message, _BELOW) if is_result else message
    if images:
        yield {"role": "user", "content": images}


def _with_call_ids(message: Json, can: Capabilities) -> Json:
    if "tool_call_id" in message:
        return {**message, "tool_call_id": _call_id(message["tool_call_id"], can)}
    if "tool_calls" in message:
        return {**message, "tool_calls": [_accepted(call, can) for call in message["tool_calls"]]}
    return message


def _accepted(call: Json, can: Capabilities) -> Json:
    """Return a call with an id and a name that are accepted, whatever its model wrote."""
    function: Json = call["function"]
    function_with_name = {**function, "name": sent_name(function["name"], can.rules)}
    return {**call, "id": _call_id(call["id"], can), "function": function_with_name}


def _call_id(call_id: str, can: Capabilities) -> str:
    if can.rules.call_ids.fullmatch(call_id):
        return call_id
    return sha256(call_id.encode()).hexdigest()[:9]


def _with_cache_mark(message: Json) -> Json:
    content = message.get("content")
    if not content:
        return message
    parts = parts_of(content)
    marked_part = {**parts[-1], "cache_control": {"type": "ephemeral"}}
    return {**message, "content": [*parts[:-1], marked_part]}


_CALL, _CALL_END, _RESULT = "<tool_call>", "</tool_call>", "<tool_result"
STOP = (_RESULT,)
"""Where the provider should end an answer, since such models would go on to invent results."""
_HOW = f"""\
# Tools

You act by calling tools. A call is written in your answer like this:

{_CALL}
{{"name": "NAME", "arguments": {{"ARGUMENT": "VALUE"}}}}
{_CALL_END}

It holds one JSON object; line breaks and quotes in its strings are escaped. Write as many calls as
you need one after the other, then end your answer: they run, and the next message has a
{_RESULT}> for each. Never write a result yourself. These are the tools, with their arguments as
JSON Schema:
"""
_END = re.compile("|".join(map(re.escape, (_CALL, _RESULT))))
"""Marks that end the text that the user sees."""
_LONGEST = max(map(len, (_CALL, _RESULT)))
_NAME = re.compile(r'"name"\s*:\s*"([^"\\]+)"')


def in_text(messages: Sequence[Json], tools: Sequence[Json]) -> list[Json]:
    """Return the same conversation without any message or field about function calling.

    User and model messages alternate, as the templates of many such models require.
    """
    text_messages, names = list[Json](), dict[str, str]()
    for message in messages:
        for call in message.get("tool_calls", ()):
            names[call["id"]] = call["function"]["name"]
        text = _render(message, names)
        if text_messages and text_messages[-1]["role"] == text["role"] == "user":
            text = joined(text_messages.pop(), text)
        text_messages.append(text)
    if tools:
        schemas = (json.dumps(tool["function"], ensure_ascii=False) for tool in tools)
        how: Json = {"role": "system", "content": "\n".join([_HOW, *schemas])}
        has_prompt = bool(text_messages) and text_messages[0]["role"] == "system"
        text_messages[:1] = (
            [joined(text_messages[0], how)] if has_prompt else [how, *text_messages[:1]]
        )
    return text_messages


def _render(message: Json, names: dict[str, str]) -> Json:
    if message["role"] == "tool":
        head = f"{_RESULT} of={json.dumps(names[message['tool_call_id']])}>"
        end = text_part("</tool_result>")
        parts = [text_part(head), *parts_of(message["content"]), end]
        return {"role": "user", "content": plain_content(parts)}
    if "tool_calls" not in message:
        return message
    calls = "\n".join(_render_call(call["function"]) for call in message["tool_calls"])
    fields = {key: value for key, value in message.items() if key != "tool_calls"}
    return {**fields, "content": f"{message['content'] or ''}\n{calls}".lstrip()}


def _render_call(function: Json) -> str:
    name = json.dumps(function["name"])
    return f'{_CALL}\n{{"name": {name}, "arguments": {function["arguments"]}}}\n{_CALL_END}'


class ShownText:
    """Passes on the deltas of an answer, except its calls and everything after them."""

    def __init__(self, on_delta: Callable[[ModelDelta], None]) -> None:
        self._on_delta = on_delta
        self._pending = ""
        self._is_over = False

    def feed(self, delta: ModelDelta) -> None:
        if delta.channel == "reasoning":
            self._on_delta(delta)
        elif not self._is_over:
            self._pending += delta.text
            self._show()

    def _show(self) -> None:
        end = len(self._pending)
        if mark := _END.search(self._pending):
            self._is_over, end = True, mark.start()
        elif (start := self._pending.rfind("<")) >= 0 and end - start < _LONGEST:
            end = start
        if end:
            self._on_delta(ModelDelta("text", self._pending[:end]))
            self._pending = self._pending[end:]


def read_answer(answer: ModelAnswer, tools: Sequence[Json]) -> ModelAnswer:
    """Return the answer with the calls in its text turned into native ones."""
    tool_set, texts, calls = KnownTools(tools), list[str](), list[ToolCall]()
    rest = answer.text
    while mark := _END.search(rest):
        texts.append(rest[: mark.start()])
        rest = rest[mark.start() :] if mark[0] == _CALL else ""
        made_calls, end = written_calls(rest, tool_set)
        if made_calls:
            calls += made_calls
            rest = rest[end:]
        elif rest:
            # The model reads what is wrong with its call.
            body, _, rest = rest.removeprefix(_CALL).partition(_CALL_END)
            match = _NAME.search(body)
            calls.append(ToolCall("", match[1] if match else "", body))
    is_done = answer.finish_reason == "stop"
    return replace(
        answer,
        text="".join([*texts, rest]).strip(),
        tool_calls=(*answer.tool_calls, *calls),
        finish_reason="tool_calls" if calls and is_done else answer.finish_reason,
    )
