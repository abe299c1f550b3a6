"""Abilities of a model: from the user's settings, else its server, else a table, else a default.

A model not in the table is taken to be on somebody's own endpoint and to support function calling.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from oh_daemon.common.hosts import reach_of_url
from oh_daemon.features.models.prices import RULES
from oh_daemon.features.models.request_rules import Rules, rules_for
from oh_daemon.features.models.server_facts import IS_FINAL
from oh_daemon.kernel.ports import Json
from oh_daemon.protocol.llm import EFFORTS, Api, LLMSettings


class Quirks(Struct, frozen=True):
    """How a family of models, or its provider, differs from OpenAI's chat completions."""

    context_window: int | None = None
    """In tokens, for models that people host themselves."""
    wants_cache_marks: bool = False
    """The provider caches what is marked; others cache without marks, or not at all."""
    wants_reasoning_text: bool = False
    """The model's own reasoning is sent back as `reasoning_content`, which others refuse."""
    needs_thinking_in_loop: bool = False
    """With thinking on, it refuses a tool loop whose answers lack its own thinking."""
    edits_by_patch: bool = False
    """It was trained on patches of several files."""
    takes_images_in_results: bool = False
    """Otherwise images that tools return follow in a user message."""


_PLAIN = Quirks()
_NO_RULES = Rules()
_NEEDS_RESPONSES = re.compile(r"gpt-(5\.([4-9]|\d\d)|[6-9])")
"""The models to which chat completions refuse tools while they reason."""
_CLAUDES_OWN = ("anthropic", "claude", "bedrock/", "vertex_ai/claude")
"""Prefixes of the models that litellm serves in Anthropic's form."""
QUIRKS: Mapping[str, Quirks] = {
    "claude": Quirks(wants_cache_marks=True, needs_thinking_in_loop=True),
    "codex": Quirks(edits_by_patch=True),
    "deepseek": Quirks(128_000, wants_reasoning_text=True),
    "devstral": Quirks(128_000),
    "glm": Quirks(128_000, wants_reasoning_text=True),
    "gpt-5": Quirks(edits_by_patch=True),
    "gpt-6": Quirks(edits_by_patch=True),
    "gpt-oss": Quirks(131_072),
    "kimi": Quirks(262_144, wants_reasoning_text=True),
    "minimax": Quirks(wants_reasoning_text=True),
    "qwen3": Quirks(262_144),
}
"""The quirks by a part of the model's name; the first that matches counts."""


class Capabilities(Struct, frozen=True):
    """What is known about one model."""

    context_window: int | None
    calls_functions: bool
    sees_images: bool
    table_entry: str | None
    """The model's key in litellm's table, which also has its prices."""
    api: Api = "chat"
    reasons: bool | None = None
    """Whether it reasons before it answers; None when unknown."""
    quirks: Quirks = _PLAIN
    row: Json = field(default_factory=dict[str, Any])
    """What the table says of the model under its own keys, or its rules for unknown names."""
    rules: Rules = _NO_RULES
    """What a request to it must keep."""
    reads_pdfs: bool = False
    is_served: bool = False
    """Whether its server reported facts about it."""
    is_final: bool = True
    """Whether the server had it in memory, so that its window is known for good."""


def find_capabilities(
    settings: LLMSettings, table: Mapping[str, Json], live: Json | None = None
) -> Capabilities:
    """`table` is litellm's `model_cost`; `live` are the server's facts (see `read_facts`)."""
    key = find_entry(settings, table)
    own = {
        "max_input_tokens": settings.context_window,
        "supports_function_calling": settings.native_tool_calling,
        "supports_vision": settings.sees_images,
    }
    own_values = {name: value for name, value in own.items() if value is not None}
    entry = {**(table[key] if key else {}), **(live or {}), **own_values}
    quirks = _quirks(settings, entry)
    window = entry.get("max_input_tokens") or entry.get("max_tokens")
    return Capabilities(
        context_window=window if isinstance(window, int) else quirks.context_window,
        calls_functions=bool(entry.get("supports_function_calling", key is None)),
        sees_images=bool(entry.get("supports_vision", key is None)),
        reads_pdfs=bool(entry.get("supports_pdf_input")),
        table_entry=key,
        api=settings.api or _find_api(settings, entry),
        reasons=bool(entry.get("supports_reasoning")) if key else None,
        quirks=quirks,
        row=table[key] if key else _rules_for(settings.model, table),
        rules=rules_for(settings.model, settings.custom_llm_provider),
        is_served=bool(live),
        is_final=bool(entry.get(IS_FINAL, True)),
    )


def efforts_of(settings: LLMSettings, table: Mapping[str, Json]) -> tuple[str, ...]:
    """Return how much the model can be told to think; none if that is not known."""
    return efforts_in(find_capabilities(settings, table).row)


def efforts_in(row: Json) -> tuple[str, ...]:
    """Return the same by the row of the table. It names only what differs from most models."""
    if not row.get("supports_reasoning"):
        return ()
    usual = {"low", "medium", "high"}
    return tuple(e for e in EFFORTS if row.get(f"supports_{e}_reasoning_effort", e in usual))


def _rules_for(model: str, table: Mapping[str, Json]) -> Json:
    """Return what the table says of all models with names like this one."""
    rules: Sequence[Json] = table.get(RULES, {}).get("rules", ())
    matching = (rule for rule in rules if re.search(rule["pattern"], model, re.IGNORECASE))
    return {key: value for rule in matching for key, value in rule["model_info"].items()}


def _find_api(settings: LLMSettings, entry: Json) -> Api:
    """Choose the API: OpenAI's own models keep their reasoning only in the Responses API."""
    if entry.get("mode") == "responses":
        return "responses"
    has_both = "/v1/responses" in entry.get("supported_endpoints", ())
    if entry.get("litellm_provider") != "openai" or not has_both:
        return "chat"
    if settings.base_url is None:
        return "responses" if entry.get("supports_reasoning") else "chat"
    is_asked_to_reason = settings.reasoning_effort not in {None, "none"}
    needs_it = is_asked_to_reason and _NEEDS_RESPONSES.search(settings.model)
    return "responses" if needs_it else "chat"


def edits_by_patch(settings: LLMSettings) -> bool:
    """Decide by the setting or the model's name alone, since litellm may not be loaded yet."""
    setting = settings.edits_by_patch
    return _family(settings).edits_by_patch if setting is None else setting


def _family(settings: LLMSettings) -> Quirks:
    name = settings.model.lower()
    return next((quirks for part, quirks in QUIRKS.items() if part in name), _PLAIN)


def _quirks(settings: LLMSettings, entry: Json) -> Quirks:
    name = settings.model.lower()
    quirks = _family(settings)
    thinks_as_it_likes = bool(entry.get("supports_adaptive_thinking"))
    return replace(
        quirks,
        wants_cache_marks=quirks.wants_cache_marks and settings.caching_prompt,
        takes_images_in_results=(settings.custom_llm_provider or name).startswith(_CLAUDES_OWN),
        needs_thinking_in_loop=quirks.needs_thinking_in_loop and not thinks_as_it_likes,
    )


_SELF_HOSTED = frozenset(
    ["hosted_vllm", "vllm", "ollama", "ollama_chat", "lm_studio", "llamafile", "xinference"]
)
"""litellm's names for servers that people run themselves."""
_ANY_SERVER = frozenset({"openai", "anthropic"})
"""Names of providers that also stand for their API at another address."""


def costs_nothing(settings: LLMSettings, address: str | None, table: Mapping[str, Json]) -> bool:
    """Return whether the model runs on this machine, so that it costs nothing.

    A proxy on this machine serves a provider's own models under their names, which cost money.
    """
    if address is None or reach_of_url(address) != "local":
        return False
    key, model = find_entry(settings, table), settings.model
    maker = table[key].get("litellm_provider") if key else None
    provider = settings.custom_llm_provider or (model.partition("/")[0] if "/" in model else maker)
    return provider in _SELF_HOSTED or (provider in _ANY_SERVER and provider != maker)


def input_price(settings: LLMSettings, address: str | None, table: Mapping[str, Json]) -> float:
    """Return the price in US dollars per input token, to compare models; infinite when unknown."""
    price, key = settings.input_cost_per_token, find_entry(settings, table)
    if price is None and costs_nothing(settings, address, table):
        return 0.0
    if price is None and key:
        price = table[key].get("input_cost_per_token")
    return math.inf if price is None else price


def find_entry(settings: LLMSettings, table: Mapping[str, Json]) -> str | None:
    """Return the model's key in the table, which may name it with or without its provider."""
    model, provider = settings.model, settings.custom_llm_provider
    names = [f"{provider}/{model}"] if provider else []
    names += [model, model.partition("/")[2], model.rpartition("/")[2]]
    return next((name for name in names if name in table), None)
