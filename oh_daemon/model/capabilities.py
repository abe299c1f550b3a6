"""What a model can do: the user's override, else litellm's table, else ours, else a safe default.

An unknown model is one behind somebody's own endpoint: it is taken to call functions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from oh_daemon.contract.llm import LLMSettings
from oh_daemon.core.ports import Json

WINDOWS: Mapping[str, int] = {
    "deepseek": 128_000,
    "devstral": 128_000,
    "glm-4": 128_000,
    "gpt-oss": 131_072,
    "kimi-k2": 262_144,
    "qwen3": 262_144,
}
"""Input limits of models that people serve themselves, by a part of the name."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What is known of one model."""

    context_window: int | None
    calls_functions: bool
    sees_images: bool
    wants_cache_marks: bool
    """The provider caches what is marked; the others cache without marks or not at all."""
    table_entry: str | None
    """The model's key in litellm's table, which has its prices."""


def find_capabilities(settings: LLMSettings, table: Mapping[str, Json]) -> Capabilities:
    """Read `table`, litellm's `model_cost`."""
    key = find_entry(settings, table)
    entry = table[key] if key else {}
    name = settings.model.lower()
    window = entry.get("max_input_tokens") or entry.get("max_tokens")
    if not isinstance(window, int):
        window = next((size for part, size in WINDOWS.items() if part in name), None)
    native = settings.native_tool_calling
    if native is None:
        native = key is None or bool(entry.get("supports_function_calling"))
    return Capabilities(
        context_window=settings.context_window or window,
        calls_functions=native,
        sees_images=entry.get("supports_vision") is not False,
        wants_cache_marks=settings.caching_prompt and "claude" in name,
        table_entry=key,
    )


def find_entry(settings: LLMSettings, table: Mapping[str, Json]) -> str | None:
    """The table names a model with or without its provider, however the user does."""
    model, provider = settings.model, settings.custom_llm_provider
    names = [f"{provider}/{model}"] if provider else []
    names += [model, model.partition("/")[2], model.rpartition("/")[2]]
    return next((name for name in names if name in table), None)
