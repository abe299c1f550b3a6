"""Makes any conversation a request that a provider takes, by its row of rules; pure.

The log is not touched: what is merged, bridged, renamed or left out is so in the request only, and
`original_call` gives a call the names back that the tools have.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from oh_daemon.common.decoded import as_list, as_object
from oh_daemon.features.models.request_rules import Rules, strict_rules
from oh_daemon.features.models.schemas import without_unions
from oh_daemon.kernel.ports import Json, ModelRequest, ToolCall

Scale = Callable[[str, int, int], str | None]
"""Scales the image of a data URL to a side in pixels and a size in bytes."""
NO_SIGNATURE = "skip_thought_signature_validator"
"""Google's own stand-in for the signature of a call that its model did not make."""
_BRIDGE: Json = {"role": "assistant", "content": "I have the results."}
_BEGIN: Json = {"role": "user", "content": "<note>Earlier messages were left out.</note>"}
_GO_ON: Json = {"role": "user", "content": "<note>Go on where you ended.</note>"}
_NAMED = re.compile(r"[^A-Za-z0-9_-]")
_IN_KEYS = re.compile(r"[^A-Za-z0-9_.-]")
_MAX_NAME = 64
_UNIONS = ("allOf", "anyOf", "oneOf", "not", "enum", "const")
_UNION_CHARS = 600
_BY_NAME = frozenset({"properties", "patternProperties", "$defs", "definitions"})
_DATA = frozenset({"const", "default", "enum", "examples"})
_DEPENDENT = frozenset({"dependentRequired", "dependentSchemas", "dependencies"})
_SEGMENT = 0xFF
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""The segments of a JPEG that have its size."""
_MAX_IMAGE_CHARS = 20 << 20
_MAX_SIDE = 8000
_HEAD_CHARS = 64 << 10
"""Base64 that holds the size of every image; a JPEG may have a picture of its own before it."""


# Messages


def with_ends(messages: Sequence[Json]) -> Sequence[Json]:
    """Return the messages so that the user begins them, and the model does not end them.

    Many providers refuse to go on with an answer, such as one that was cut at a limit.
    """
    first = next((n for n, each in enumerate(messages) if each["role"] != "system"), None)
    if first is None:
        return messages
    whole = [*messages]
    if messages[-1]["role"] == "assistant":
        whole.append(_GO_ON)
    if messages[first]["role"] != "user":
        whole.insert(first, _BEGIN)
    return whole if len(whole) > len(messages) else messages


def in_order(messages: Iterable[Json], rules: Rules) -> list[Json]:
    """Return the messages in an order of roles that is taken."""
    result: list[Json] = []
    for message in _with_accepted_calls(messages, rules):
        role, before = message["role"], result[-1]["role"] if result else None
        if rules.bridges_results and (before, role) == ("tool", "user"):
            result.append(_BRIDGE)
        if not rules.takes_system and (before, role) == ("system", "user"):
            result[-1] = {**joined(result[-1], message), "role": "user"}
        elif rules.alternates and before == role == "user":
            result[-1] = joined(result[-1], message)
        elif rules.alternates and before == role == "assistant":
            calls = {name: message[name] for name in ("tool_calls",) if name in message}
            content = joined(result[-1], message)
            if calls and not rules.takes_text_with_calls:
                content["content"] = None
            result[-1] = {**content, **calls}
        else:
            result.append(message)
    return result


def _with_accepted_calls(messages: Iterable[Json], rules: Rules) -> Iterator[Json]:
    """Yield the messages, with the calls of each answer and their results in a form that is taken.

    A piece of a conversation has the results of each of its answers (see `encoded_body`).
    """
    names: dict[str, str] = {}
    later_calls: list[Json] = []
    for message in messages:
        if message["role"] == "assistant" and "tool_calls" in message:
            calls: list[Json] = message["tool_calls"]
            names = {call["id"]: call["function"]["name"] for call in calls}
            later_calls = [] if rules.takes_parallel_calls else calls[1:]
            content = message["content"] if rules.takes_text_with_calls else None
            first_calls = calls[: len(calls) - len(later_calls)]
            yield {**message, "content": content, "tool_calls": first_calls}
        elif message["role"] == "tool":
            name = names.get(message["tool_call_id"]) if rules.names_results else None
            yield {**message, "name": name} if name else message
            if later_calls:
                yield {"role": "assistant", "content": None, "tool_calls": [later_calls.pop(0)]}
        else:
            yield message


def joined(first: Json, second: Json) -> Json:
    """Return both messages as one, one after the other."""
    contents = [each["content"] for each in (first, second) if each["content"]]
    if all(isinstance(content, str) for content in contents):
        return {**first, "content": "\n\n".join(contents) or None}
    return {**first, "content": [part for content in contents for part in parts_of(content)]}


def text_part(text: str) -> Json:
    return {"type": "text", "text": text}


def parts_of(content: str | list[Json] | None) -> list[Json]:
    """Return the content of a message as a list of parts."""
    return [text_part(content)] if isinstance(content, str) else content or []


def plain_content(parts: list[Json]) -> str | list[Json]:
    """Return one text if all parts are text, since some endpoints accept no list."""
    is_text = all(part["type"] == "text" for part in parts)
    return "\n".join(part["text"] for part in parts) if is_text else parts


def without_images(message: Json, note: str) -> Json:
    """Return the message with a note in place of each image."""
    content = message.get("content")
    if isinstance(content, str | None):
        return message
    parts = [text_part(note) if part["type"] == "image_url" else part for part in content]
    return {**message, "content": plain_content(parts)}


def has_document(message: Json) -> bool:
    """Return whether the message has a PDF, in the form of OpenAI's part `file`."""
    return any(part["type"] == "file" for part in as_list(message.get("content")))


def within_images(messages: Sequence[Json], rules: Rules, scale: Scale) -> Sequence[Json]:
    """Return the messages with smaller images, and a line of text for each that is left out.

    Of too many, the oldest go first, a quarter of the limit at once, so that the messages before
    stay the same for some requests. `scale` returns None for an image that cannot be read.
    """
    images = [
        (n, k, part["image_url"]["url"])
        for n, message in enumerate(messages)
        for k, part in enumerate(as_list(message["content"]))
        if part["type"] == "image_url"
    ]
    limit = rules.max_images or len(images)
    step = max(limit // 4, 1)
    n_dropped = -(-(len(images) - limit) // step) * step if len(images) > limit else 0
    too_many = text_part("(an image, left out: there are too many)")
    parts: dict[int, dict[int, Json]] = {}
    for n, k, _ in images[:n_dropped]:
        parts.setdefault(n, {})[k] = too_many
    for n, k, url in images[n_dropped:]:
        if _is_too_large(url, rules):
            parts.setdefault(n, {})[k] = _scaled_part(url, rules, scale)
    if not parts:
        return messages
    return [
        _with_parts(message, parts[n]) if n in parts else message
        for n, message in enumerate(messages)
    ]


def _is_too_large(url: str, rules: Rules) -> bool:
    side = _side(url) if rules.max_side else None
    return bool(side and rules.max_side and side > rules.max_side) or bool(
        rules.max_image_bytes and url.startswith("data:") and len(url) > rules.max_image_bytes
    )


def _scaled_part(url: str, rules: Rules, scale: Scale) -> Json:
    max_bytes = (rules.max_image_bytes or _MAX_IMAGE_CHARS) // 4 * 3
    smaller = scale(url, rules.max_side or _MAX_SIDE, max_bytes)
    if smaller is None:
        why = f"it is too large ({_side(url)} pixels) and cannot be scaled"
        return text_part(f"(an image, left out: {why})")
    return {"type": "image_url", "image_url": {"url": smaller}}


def _with_parts(message: Json, parts: Mapping[int, Json]) -> Json:
    return {**message, "content": [parts.get(k, p) for k, p in enumerate(message["content"])]}


def _side(url: str) -> int | None:
    """Return the pixels of an image's longer side; None when its data does not say it."""
    _, mark, data = url[: _HEAD_CHARS + 64].partition(";base64,")
    try:
        head = base64.b64decode(data[: len(data) // 4 * 4]) if mark else b""
    except ValueError:
        return None
    sides = _sides_in(head)
    return max(sides) if sides else None


def _sides_in(head: bytes) -> Sequence[int]:
    if head.startswith(b"\x89PNG"):
        return [int.from_bytes(head[at : at + 4], "big") for at in (16, 20)]
    if head.startswith(b"GIF8"):
        return [int.from_bytes(head[at : at + 2], "little") for at in (6, 8)]
    if head[12:16] == b"VP8X":
        return [int.from_bytes(head[at : at + 3], "little") + 1 for at in (24, 27)]
    if head[12:16] == b"VP8 ":
        return [int.from_bytes(head[at : at + 2], "little") & 0x3FFF for at in (26, 28)]
    if head[12:16] == b"VP8L":
        bits = int.from_bytes(head[21:25], "little")
        return [(bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1]
    return _sides_of_jpeg(head) if head.startswith(b"\xff\xd8") else ()


def _sides_of_jpeg(head: bytes) -> Sequence[int]:
    at = 2
    while at + 9 < len(head) and head[at] == _SEGMENT:
        kind, length = head[at + 1], int.from_bytes(head[at + 2 : at + 4], "big")
        if kind in _FRAMES:
            return [int.from_bytes(head[at + n : at + n + 2], "big") for n in (5, 7)]
        at += 2 + length
    return ()


# Tools


class SentTool(Struct, frozen=True):
    """A tool as it is sent, and what its names were."""

    name: str
    """The tool's own name."""
    function: Json
    keys: Mapping[str, str]
    """The own names of arguments, by those that are sent."""


def sent_tools(tools: Sequence[Json], rules: Rules) -> list[SentTool]:
    """Return the tools that are sent, with names and schemas that are taken."""
    tools_for_model: list[SentTool] = []
    names = {tool["function"]["name"] for tool in tools}
    for tool in tools[: rules.max_tools]:
        function: Json = tool["function"]
        name = sent_name(function["name"], rules)
        if name != function["name"]:
            name = _unique(name, names)
            names.add(name)
        parameters: Json = function.get("parameters", {})
        keys = _new_keys(parameters, rules)
        if keys:
            parameters = _renamed(parameters, {own: new for new, own in keys.items()})
        function_for_model = {**function, "name": name}
        if "parameters" in function:
            function_for_model["parameters"] = parameters
        tools_for_model.append(
            SentTool(function["name"], _without_root_unions(function_for_model, rules), keys)
        )
    return tools_for_model


def sent_name(name: str, rules: Rules) -> str:
    """Return the name of a tool as it is sent, also in a call of a tool that there never was."""
    return name if rules.tool_names.fullmatch(name) else _NAMED.sub("_", name)[:_MAX_NAME] or "_"


def original_call(call: ToolCall, tools_sent: Sequence[SentTool]) -> ToolCall:
    """Return a call with the tool's own names."""
    tool = next((each for each in tools_sent if each.function["name"] == call.name), None)
    if tool is None or (tool.name == call.name and not tool.keys):
        return call
    try:
        args = json.loads(call.arguments, strict=False) if tool.keys else None
    except ValueError:
        args = None
    if args is None:
        return replace(call, name=tool.name)
    text = json.dumps(_with_keys(args, tool.keys), ensure_ascii=False)
    return replace(call, name=tool.name, arguments=text)


def _with_keys(value: Any, keys: Mapping[str, str]) -> Any:
    if isinstance(value, list):
        return [_with_keys(each, keys) for each in as_list(value)]
    if not isinstance(value, dict):
        return value
    return {keys.get(key, key): _with_keys(each, keys) for key, each in as_object(value).items()}


def _unique(name: str, other_names: Iterable[str]) -> str:
    names, unique, n = set(other_names), name, 1
    while unique in names:
        n += 1
        unique = f"{name[: _MAX_NAME - 4]}_{n}"
    return unique


def _new_keys(schema: Json, rules: Rules) -> dict[str, str]:
    """Return the own names of arguments that are refused, by the names that are sent instead."""
    own = [*dict.fromkeys(_keys_in(schema))]
    new: dict[str, str] = {}
    for key in own:
        if not rules.property_keys.fullmatch(key):
            new[_unique(_IN_KEYS.sub("_", key)[:_MAX_NAME] or "_", (*own, *new))] = key
    return new


def _keys_in(node: Any) -> Iterator[str]:
    """Yield the names of all properties in a schema."""
    for name, value in as_object(node).items():
        if name in _BY_NAME:
            if name == "properties":
                yield from as_object(value)
            for each in as_object(value).values():
                yield from _keys_in(each)
        elif name not in _DATA:
            for each in as_list(value) or [value]:
                yield from _keys_in(each)


def _renamed(node: Any, names: Mapping[str, str]) -> Any:
    if isinstance(node, list):
        return [_renamed(each, names) for each in as_list(node)]
    if not isinstance(node, dict):
        return node
    schema: Json = {}
    for name, value in as_object(node).items():
        if name in _DATA:
            schema[name] = value
        elif name == "required" and isinstance(value, list):
            schema[name] = [names.get(each, each) for each in map(str, as_list(value))]
        elif name in _BY_NAME:
            own = names if name == "properties" else dict[str, str]()
            schema[name] = {
                own.get(key, key): _renamed(each, names) for key, each in as_object(value).items()
            }
        elif name not in _DEPENDENT:
            schema[name] = _renamed(value, names)
    return schema


def _without_root_unions(function: Json, rules: Rules) -> Json:
    """Merge what is refused at the top of a schema, and say in the description what it was."""
    parameters: Json = function.get("parameters", {})
    unions = {name: parameters[name] for name in _UNIONS if name in parameters}
    if rules.takes_root_unions or not unions:
        return function
    merged_schema = without_unions(parameters)
    schema = {name: value for name, value in merged_schema.items() if name not in _UNIONS}
    rule = json.dumps(unions, ensure_ascii=False)[:_UNION_CHARS]
    about = f"{function.get('description', '')}\n\nThe arguments must also fit: {rule}".strip()
    return {**function, "description": about, "parameters": schema}


# Refusals


_PLACE = re.compile(r"tools[.\[](\d+)")
_FIELD = re.compile(
    r"(?:unsupported|unknown|unrecognized|unexpected|extra)[^'\"`]{0,60}['\"`](\w+)['\"`]"
    r"|['\"`](\w+)['\"`][^'\"`]{0,30}(?:is|are) (?:not supported|not permitted|unknown)",
    re.IGNORECASE,
)
_SETTINGS = {
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "reasoning_effort": "reasoning_effort",
    "max_tokens": "max_output_tokens",
}


class Relief(Struct, frozen=True):
    """What to leave out or to do otherwise, since a provider refused a request for it."""

    what: str
    """What the user is told."""
    without_images: bool = False
    documents_as_text: bool = False
    without_thinking: bool = False
    in_strict_order: bool = False
    without_tools: tuple[str, ...] = ()
    plain_schemas: bool = False
    without_setting: str | None = None


def plan_relief(message: str, request: ModelRequest) -> Relief | None:
    """Return what may help after a refusal, by the part that it names; None if nothing."""
    text = message.lower()
    names = [tool["function"]["name"] for tool in request.tools]
    has_thinking = any("thinking" in each or "tool_calls" in each for each in request.messages)
    if has_thinking and re.search(r"signature|thinking|reasoning_(?:content|item)", text):
        return Relief("the thinking of earlier answers was left out", without_thinking=True)
    if re.search(r"\bpdf|document|\bfiles?\b", text) and any(map(has_document, request.messages)):
        return Relief("PDFs were sent as text", documents_as_text=True)
    if "image" in text:
        return Relief("the images of the conversation were left out", without_images=True)
    if re.search(
        r"\brole|alternat|prefill|last message|must be followed|message.{0,10}order|single tool"
        r"|same assistant message|tool call id|system (?:message|prompt)",
        text,
    ):
        return Relief("messages were sent in a strict order of roles", in_strict_order=True)
    field = next((a or b for a, b in _FIELD.findall(message)), "")
    if field in _SETTINGS:
        return Relief(f"`{field}` was left out", without_setting=_SETTINGS[field])
    places = [int(place) for place in _PLACE.findall(message)]
    tool_names = [names[place] for place in places if place < len(names)]
    tool_names += [
        name for name in names if re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", message)
    ]
    if tool_names:
        name_list = ", ".join(dict.fromkeys(tool_names))
        return Relief(f"these tools were left out: {name_list}", without_tools=tuple(tool_names))
    if names and re.search(r"schema|tool|function", text):
        return Relief("the tools were sent with simple schemas", plain_schemas=True)
    return None


def relieved(request: ModelRequest, relief: Relief) -> ModelRequest:
    """Return the request without what was refused."""
    messages, tools = request.messages, request.tools
    if relief.without_images:
        note = "(an image, left out: the provider refused it)"
        messages = [without_images(each, note) for each in messages]
    if relief.without_thinking:
        messages = [{k: v for k, v in each.items() if k != "thinking"} for each in messages]
    tools = [each for each in tools if each["function"]["name"] not in relief.without_tools]
    if relief.plain_schemas:
        tools = [{**each, "function": _plain(each["function"])} for each in tools]
    effort = None if relief.without_setting == "reasoning_effort" else request.effort
    return replace(request, messages=messages, tools=tools, effort=effort)


def relieved_rules(rules: Rules, relief: Relief) -> Rules:
    """Return the rules that hold after a refusal."""
    if relief.in_strict_order:
        rules = strict_rules(rules)
    return replace(rules, needs_signatures=True) if relief.without_thinking else rules


def _plain(function: Json) -> Json:
    parameters: Json = function.get("parameters", {})
    properties = as_object(parameters.get("properties"))
    simple = {name: {"description": json.dumps(each)[:300]} for name, each in properties.items()}
    schema = {"type": "object", "properties": simple, "required": parameters.get("required", [])}
    return {**function, "parameters": schema}
