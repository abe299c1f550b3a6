"""Tool calls that a model writes into its text in a form of its own training; pure.

Servers without a parser for the model pass them on as text. All forms are read by one grammar: a
mark, the name of a known tool, and a JSON object or named parameters, up to the end of the text:

    <tool_call>{"name": "terminal", "arguments": {"command": "ls"}}</tool_call>
    <function=terminal><parameter=command>ls</parameter></function>
    [TOOL_CALLS]terminal[ARGS]{"command": "ls"}
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from oh_daemon.common.decoded import as_object, objects_in
from oh_daemon.features.models.call_pieces import KnownTools
from oh_daemon.kernel.call_aliases import repaired_json
from oh_daemon.kernel.ports import Json, ModelAnswer, ToolCall

WRITTEN = "written_"
"""How the ids of such calls begin, so that they do not count as native ones later."""
_BEGIN = re.compile(
    r"<(?:[\w-]+:)?tool_calls?>|<(?:[\w-]+:)?function_calls?>|<function[=\s]|<(?:[\w-]+:)?invoke\s|<tool[=\s]"
    r"|\[TOOL_CALLS?\]|<\|python_tag\|>|<\uff5ctool\u2581calls?\u2581begin\uff5c>|<\|tool_calls?(?:_section)?_begin\|>"
    r"|<\|tool_call\|>|<\|channel\|>(?:commentary|analysis) to="
)
_BARE = re.compile(r"^[ \t]*(?=[\[{])", re.MULTILINE)
"""Where JSON without any mark may begin."""
_NAMED = re.compile(
    r"""<(?:[\w-]+:)?(?:function|tool|invoke)(?:=|\s+name\s*=\s*)["']?([\w.:-]+)["']?\s*>"""
)
_PARAMETER = re.compile(
    r"""\s*<(?:[\w-]+:)?param(?:eter)?(?:=|\s+name\s*=\s*)["']?([^"'>]+)["']?[^>]*>(.*?)"""
    r"""</(?:[\w-]+:)?param(?:eter)?>|\s*<arg_key>(.*?)</arg_key>\s*<arg_value>(.*?)</arg_value>""",
    re.DOTALL,
)
_MARK = re.compile(
    r"</?(?!tool_result)[\w:-]+>|<\|[^<>|]{1,40}\|>|<\uff5c[^<>\uff5c]{1,40}\uff5c>|\[/?[A-Z_]{3,20}\]|```\w*|[,;]"
)
_WORDS = re.compile(r"(?:to=)?([\w.:-]+)")
_FILLING = frozenset({"assistant", "commentary", "analysis", "function", "json", "tool_calls"})
_FENCE = "```"
_WHOLE_FENCE = re.compile(r"```\w*\s*(.*?)\s*```", re.DOTALL)
_CLOSING = re.compile(r"</|<\||<\uff5c|\[/|```")
_MOST_ENDS = 8
"""Marks in a text of arguments that are tried as its end."""
_DECODER = json.JSONDecoder(strict=False)
_ARGUMENTS = ("arguments", "parameters", "args", "input")


def read_written(answer: ModelAnswer, tools: Sequence[Json], *, may_run: bool) -> ModelAnswer:
    """Return the answer with the calls in which its text ends, else with `has_written_call` set.

    With `may_run` false, its calls are only noticed: the model makes native ones.
    """
    text, tool_set = answer.text, KnownTools(tools)
    if answer.tool_calls or not tools or answer.finish_reason not in {"stop", "tool_calls"}:
        return answer
    starts = sorted({match.start() for each in (_BEGIN, _BARE) for match in each.finditer(text)})
    for start in starts:
        calls, end = written_calls(text[start:], tool_set)
        is_fenced = text.count(_FENCE, 0, start) % 2 == 1
        if calls and may_run and not is_fenced and not text[start + end :].strip():
            numbered_calls = tuple(
                replace(call, id=f"{WRITTEN}{n}") for n, call in enumerate(calls, 1)
            )
            prose = text[:start].rstrip()
            return replace(
                answer, text=prose, tool_calls=numbered_calls, finish_reason="tool_calls"
            )
        if calls:
            return replace(answer, has_written_call=True)
    return replace(answer, has_written_call=_is_arguments(text, tools))


def written_calls(text: str, tools: KnownTools) -> tuple[list[ToolCall], int]:
    """Return the calls at the start of the text, and where they end with the marks after them."""
    scan = _Scan(text, tools)
    while scan.step():
        pass
    return scan.calls, scan.end


class _Scan:
    """Reads calls from the start of a text, part by part."""

    def __init__(self, text: str, tools: KnownTools) -> None:
        self.calls: list[ToolCall] = []
        self.end = 0
        self._text = text
        self._tools = tools
        self._at = 0
        self._name = ""
        """The tool whose arguments are to follow."""

    def step(self) -> bool:
        """Read the next part; return False if it is no part of a call, or there is none."""
        self._at += len(self._text[self._at :]) - len(self._text[self._at :].lstrip())
        if match := _NAMED.match(self._text, self._at):
            self._at, self._name = match.end(), match[1]
            return True
        if self._name and _PARAMETER.match(self._text, self._at):
            return self._add([(self._name, self._parameters())])
        if mark := _MARK.match(self._text, self._at):
            self._at = mark.end()
            if self._name and mark[0].startswith("</"):
                return self._add([(self._name, {})])
            if not self._name:
                self.end = self._at
            return True
        if self._text[self._at : self._at + 1] in ("{", "["):
            pairs = self._json()
            return bool(pairs) and self._add(pairs)
        return self._word()

    def _word(self) -> bool:
        word = _WORDS.match(self._text, self._at)
        if word is None:
            return False
        self._at = word.end()
        if self._tools.own_name(word[1]):
            self._name = word[1]
            return True
        return word[1].lower() in _FILLING

    def _parameters(self) -> Json:
        parameters: Json = {}
        while match := _PARAMETER.match(self._text, self._at):
            self._at = match.end()
            key, value = (match[1], match[2]) if match[1] else (match[3], match[4])
            # The line breaks around a value are those of the form.
            parameters[key.strip()] = value.removeprefix("\n").removesuffix("\n")
        return parameters

    def _json(self) -> list[tuple[str, Any]]:
        text = self._text
        try:
            value, end = _DECODER.raw_decode(text, self._at)
        except (ValueError, RecursionError):
            value, end = self._repaired()
        self._at = end
        pairs = list(_named_in(value))
        return pairs or ([(self._name, value)] if self._name and isinstance(value, dict) else [])

    def _repaired(self) -> tuple[Any, int]:
        """Return the JSON that is valid once repaired, up to one of the marks, and its end."""
        ends = [match.start() for match in _CLOSING.finditer(self._text, self._at)]
        for end in (*ends[:_MOST_ENDS], len(self._text)):
            with suppress(ValueError, RecursionError):
                return _DECODER.decode(repaired_json(self._text[self._at : end]).strip()), end
        return None, self._at

    def _add(self, pairs: Sequence[tuple[str, Any]]) -> bool:
        names = [self._tools.own_name(name) for name, _ in pairs]
        for name, (_, args) in zip(names, pairs, strict=True):
            if name is None:
                return False
            text = args if isinstance(args, str) else json.dumps(args, ensure_ascii=False)
            self.calls.append(ToolCall("", name, text))
        self._name, self.end = "", self._at
        return True


def _named_in(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield name and arguments of the calls in a JSON value, however it wraps them."""
    if isinstance(value, list):
        for each in objects_in(value):
            yield from _named_in(each)
        return
    if not (fields := as_object(value)):
        return
    name = fields.get("name") or fields.get("tool_name")
    if isinstance(name, str):
        yield name, next((fields[key] for key in _ARGUMENTS if key in fields), None) or {}
        return
    for key in ("function", "tool_calls", "tool_call"):
        yield from _named_in(fields.get(key))


def _is_arguments(text: str, tools: Sequence[Json]) -> bool:
    """Return whether the text is nothing but the arguments of one of the tools."""
    match = _WHOLE_FENCE.fullmatch(text.strip())
    try:
        keys = as_object(_DECODER.decode(match[1] if match else text.strip())).keys()
    except (ValueError, RecursionError):
        return False
    schemas: list[Json] = [tool["function"].get("parameters", {}) for tool in tools]
    return any(
        bool(schema.get("required"))
        and set(schema["required"]) <= keys <= schema.get("properties", {}).keys()
        for schema in schemas
    )
