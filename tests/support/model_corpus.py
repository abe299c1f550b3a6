"""Conversations and settings that every way to a model is tried with."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from fake_llm import Json
from fake_responses import SEAL

from oh_daemon.kernel.ports import ModelRequest

PICTURE = "data:image/png;base64,iVBORw0KGgo="
ODD = (
    "é \U0001f469\u200d\U0001f467 \u2028 \u2029 \x85 \x00 \x7f \ufeff \ufffd \ufdfd "
    "\u202eback\u202c \\ud800 [DONE] data: "
)
SYSTEM: Json = {"role": "system", "content": "Be good.\n\nAlways."}
TOOLS: list[Json] = [
    {
        "type": "function",
        "function": {
            "name": "terminal",
            "description": "Runs a command.",
            "parameters": {
                "type": "object",
                "properties": {"command": {"type": "string", "description": ODD}},
                "required": ["command"],
                "additionalProperties": False,
            },
        },
    },
    {"type": "function", "function": {"name": "stop", "parameters": {"type": "object"}}},
]
FOREIGN_TOOL: Json = {
    "type": "function",
    "function": {
        "name": "files__find",
        "description": "Of an MCP server.",
        "parameters": {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "title": "Find",
            "type": "object",
            "properties": {"in": {"$ref": "#/$defs/Folder"}, "name": {"type": "string"}},
            "$defs": {"Folder": {"type": "string", "enum": ["a", "b"]}},
        },
    },
}

ODD_TOOL: Json = {
    "type": "function",
    "function": {
        "name": "files__odd",
        "parameters": {
            "type": "object",
            "properties": {
                "control": {"type": "string", "pattern": "\\p{Cc}"},
                "pattern": {"type": "string", "pattern": "^a+$"},
            },
            "required": ["control"],
            "patternProperties": {"^x-": {"type": "string"}, "\\p{L}": {"type": "string"}},
            "anyOf": [
                {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
                {"$ref": "#/$defs/Other"},
            ],
            "$defs": {
                "Other": {
                    "type": "object",
                    "properties": {"a": {}, "b": {"type": "string"}},
                    "required": ["a", "b"],
                }
            },
        },
    },
}
OLD_TOOL: Json = {
    "type": "function",
    "function": {
        "name": "files__old",
        "parameters": {
            "type": "object",
            "properties": {"in": {"$ref": "#/definitions/Folder"}},
            "definitions": {"Folder": {"type": "string"}},
        },
    },
}


def user(content: str | list[Json]) -> Json:
    return {"role": "user", "content": content}


def text(full_text: str) -> Json:
    return {"type": "text", "text": full_text}


def image(url: str = PICTURE) -> Json:
    return {"type": "image_url", "image_url": {"url": url}}


def call_of(call_id: str, name: str, **args: Any) -> Json:
    function = {"name": name, "arguments": json.dumps(args)}
    return {"id": call_id, "type": "function", "function": function}


def answer(content: str | None, *calls: Json, **thinking: Any) -> Json:
    message: Json = {"role": "assistant", "content": content}
    if calls:
        message["tool_calls"] = list(calls)
    return {**message, "thinking": thinking} if thinking else message


def result(call_id: str, content: str | list[Json]) -> Json:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


SIGNED = [
    {"type": "thinking", "thinking": "Let me see.", "signature": "c2ln"},
    {"type": "redacted_thinking", "data": "b3BhcXVl"},
]
SEALED = [
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": SEAL},
    {"type": "message"},
    {"type": "function_call"},
]
DETAILS = [
    {"type": "reasoning.text", "text": "Let me see.", "signature": "c2ln", "format": "x-v1"},
    {"type": "reasoning.encrypted", "data": "b3BhcXVl"},
]
HALF = call_of("call_a", "terminal", command="\ud800")
A, B = call_of("call_a", "terminal", command="ls"), call_of("call_b", "stop")
GO_ON = [user("Go."), answer(None, A), result("call_a", "a")]


def conversations(model: str) -> dict[str, ModelRequest]:
    """Return the corpus; `model` is the one that has thought in it."""
    thinking = {"text": "Let me see."}
    long = [user("Go."), *(m for n in range(30) for m in _step(n))]
    requests: dict[str, tuple[list[Json], dict[str, Any]]] = {
        "plain": ([user("Hello.")], {"tools": ()}),
        "with a prompt and tools": ([SYSTEM, user("Hello.")], {}),
        "a tool of an MCP server": ([user("Hello.")], {"tools": [*TOOLS, FOREIGN_TOOL]}),
        "a tool with an odd schema": ([user("Hello.")], {"tools": [ODD_TOOL]}),
        "a tool with an old schema": ([user("Hello.")], {"tools": [OLD_TOOL]}),
        "must call": ([SYSTEM, user("Hello.")], {"tool_choice": "required"}),
        "must not call": ([SYSTEM, user("Hello.")], {"tool_choice": "none", "cache_key": "c-1"}),
        "calls without tools": (GO_ON, {"tools": ()}),
        "parallel calls": (
            [
                SYSTEM,
                user("Go."),
                answer("Both.", A, B),
                result("call_a", "a\nb"),
                result("call_b", "(no output)"),
                user("<note>One more.</note>"),
                user("And?"),
                answer("Done."),
                user("Thanks."),
            ],
            {},
        ),
        "failed calls": (
            [
                user("Go."),
                answer(None, call_of("odd id: 1/2", "no_such_tool"), call_of("x" * 70, "stop")),
                result("odd id: 1/2", "There is no tool 'no_such_tool'."),
                result("x" * 70, "The call was interrupted."),
            ],
            {},
        ),
        "images": (
            [
                user([text("See:"), image(), image("https://example.org/a.png")]),
                answer(None, A, B),
                result("call_a", [text("Seen:"), image()]),
                result("call_b", [image(), text("and more")]),
            ],
            {},
        ),
        "thinking": (
            [
                user("Go."),
                answer("Hm.", A, model=model, blocks=SIGNED, **thinking),
                result("call_a", "a"),
                answer(None, B, model=model, blocks=SIGNED[:1], **thinking),
                result("call_b", "b"),
            ],
            {},
        ),
        "thinking of OpenAI": (
            [
                user("Go."),
                answer("Hm.", A, model=model, blocks=SEALED, **thinking),
                result("call_a", "a"),
            ],
            {},
        ),
        "thinking of OpenRouter": (
            [
                user("Go."),
                answer(None, A, model=model, blocks=DETAILS, **thinking),
                result("call_a", "a"),
            ],
            {},
        ),
        "thinking of another model": (
            [
                user("Go."),
                answer(None, A, model="other/model", blocks=SIGNED, **thinking),
                result("call_a", "a"),
            ],
            {},
        ),
        "unsigned thinking": (
            [
                user("Go."),
                answer(
                    "a", model=model, blocks=[{"type": "thinking", "thinking": "b"}], **thinking
                ),
                user("b"),
            ],
            {},
        ),
        "long texts": (long, {}),
        "odd characters": (
            [
                {**SYSTEM, "content": ODD},
                user(ODD),
                answer(ODD, call_of("call_a", "terminal", command=ODD)),
                result("call_a", ODD),
            ],
            {},
        ),
        "half a surrogate pair": (
            [
                user("a"),
                answer(None, HALF),
                result("call_a", "b"),
            ],
            {},
        ),
        "empty texts": (
            [
                {**SYSTEM, "content": ""},
                user(""),
                answer(None, A),
                result("call_a", ""),
                user([text(""), image()]),
                answer("  "),
                user(" \n"),
            ],
            {},
        ),
        "ends with an answer": ([user("Go."), answer("I say  \n")], {"tools": ()}),
    }
    return {name: _request(messages, **more) for name, (messages, more) in requests.items()}


def _request(messages: list[Json], tools: Sequence[Json] = TOOLS, **more: Any) -> ModelRequest:
    return ModelRequest(messages, tools, **more)


def _step(n: int) -> list[Json]:
    call = call_of(f"call_{n}", "terminal", command=f"seq {n} " + "x" * 500)
    return [answer(f"Step {n}.", call), result(f"call_{n}", f"line {n}\n" * 200)]


SETTINGS: dict[str, Json] = {
    "no setting": {},
    "sampling": {"temperature": 0.5, "top_p": 0.25, "top_k": 7},
    "the default temperature": {"temperature": 1},
    "a limit": {"max_output_tokens": 5000},
    "a small limit": {"max_output_tokens": 3},
    "no marks": {"caching_prompt": False},
    "in text": {"native_tool_calling": False},
    "blind": {"sees_images": False},
    "more fields": {"extra_body": {"seed": 3, "metadata": {"user_id": "u"}}},
    **{
        f"effort {effort}": {"reasoning_effort": effort}
        for effort in ("none", "minimal", "low", "medium", "high", "xhigh")
    },
}


def everything(model: str) -> ModelRequest:
    """Return the messages of nearly the whole corpus as one conversation."""
    left_out = {"long texts", "half a surrogate pair", "calls without tools", "ends with an answer"}
    parts = [r for name, r in conversations(model).items() if name not in left_out]
    messages = [m for r in parts for m in r.messages if m["role"] != "system"]
    return ModelRequest([SYSTEM, *messages], TOOLS)
