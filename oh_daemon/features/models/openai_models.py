"""What OpenAI's own models refuse, and with it the whole request; pure, for both of its APIs.

That includes schemas of tools, since those of MCP servers may be any.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from oh_daemon.features.models.dialect import ProviderCall, without_none
from oh_daemon.features.models.schemas import with_regexes, without_unions
from oh_daemon.kernel.ports import Json

_ALWAYS_REASONS = re.compile(r"gpt-[56](?!-chat)|^o[1-9]")
"""The series that reason before each answer; they take sampling only while they do not."""
_TAKE_NO_UNIONS = ("chatgpt-4o", "gpt-3.5", "gpt-4", "o1", "o3", "o4")
"""How the names of models begin to which the Responses API refuses unions on top of a schema; chat
completions refuse them for all models, but the servers of others may take them."""


def is_openai(call: ProviderCall) -> bool:
    """Return whether the model is asked as one of OpenAI's, at whatever address."""
    return call.provider is not None and call.provider.name == "openai"


def always_reasons(call: ProviderCall) -> bool:
    return is_openai(call) and bool(_ALWAYS_REASONS.search(call.model))


def accepted_effort(call: ProviderCall) -> str | None:
    """Return the reasoning effort unless the table says that the model does not take it."""
    row, effort = call.can.row, call.effort
    if not is_openai(call) or effort is None:
        return effort
    is_own = row.get("litellm_provider") == "openai"
    if is_own and not row.get("supports_reasoning"):
        return None
    return None if row.get(f"supports_{effort}_reasoning_effort") is False else effort


def accepted_sampling(call: ProviderCall) -> Json:
    settings, row = call.settings, call.can.row
    sampling: Json = {"temperature": settings.temperature, "top_p": settings.top_p}
    if not always_reasons(call):
        return sampling
    effort = accepted_effort(call) or row.get("default_reasoning_effort")
    if effort == "none" and row.get("supports_none_reasoning_effort"):
        return sampling
    return {"temperature": 1.0 if settings.temperature == 1 else None, "top_p": None}


def accepted_chat(call: ProviderCall, fields: Json) -> Json:
    """Return the fields of a chat completion as the model accepts them."""
    body = {**fields, **accepted_sampling(call), "reasoning_effort": accepted_effort(call)}
    if "tools" in body:
        functions = accepted_functions(call)
        body["tools"] = [{"type": "function", "function": each} for each in functions]
    if always_reasons(call):
        # The limit includes the reasoning then, so it has another name.
        body |= {"stop": None, "max_tokens": None, "max_completion_tokens": body.get("max_tokens")}
    return without_none(body)


def accepted_functions(call: ProviderCall) -> Sequence[Json]:
    """Return the tools' functions, with schemas that the API accepts."""
    functions = [tool["function"] for tool in call.tools]
    if not is_openai(call):
        return functions
    is_chat, is_at_home = call.can.api == "chat", call.settings.base_url is None
    takes_unions = not is_at_home if is_chat else not call.model.startswith(_TAKE_NO_UNIONS)
    return [_accepted_function(each, takes_unions=takes_unions) for each in functions]


def _accepted_function(function: Json, *, takes_unions: bool) -> Json:
    if "parameters" not in function:
        return function
    schema = with_regexes(function["parameters"])
    return {**function, "parameters": schema if takes_unions else without_unions(schema)}
