"""The providers that are asked directly, as rows of data; all others are reached through litellm.

Names, addresses and variables are those of litellm (`get_llm_provider` and its provider folders).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct, field

from oh_daemon.common.hosts import reach_of_url
from oh_daemon.features.models.http import proxy_of
from oh_daemon.kernel.ports import Json
from oh_daemon.protocol.errors import AuthRequiredError
from oh_daemon.protocol.llm import LLMSettings


class Provider(Struct, frozen=True):
    """Whoever serves models at one address, and how its API differs from OpenAI's."""

    name: str
    """As litellm names it; a model's name may begin with it and a slash."""
    address: str
    addresses_in: tuple[str, ...] = ()
    """Variables that may hold another address; the first that is set counts."""
    keys_in: tuple[str, ...] = ()
    """Variables that may hold the key; the first that is set counts."""
    tokens_in: tuple[str, ...] = ()
    """Variables that may hold a token, which is sent as one, when no key is known."""
    path: str = ""
    """What follows an address, unless it ends in it already."""
    dialect: Literal["chat", "anthropic"] = "chat"
    is_at_home_only: bool = False
    """Another address speaks another dialect, which only litellm knows."""
    has_responses: bool = False
    """It also speaks the Responses API."""
    takes_cache_key: bool = False
    """It takes `prompt_cache_key`."""
    takes_effort: Literal["always", "known", "thinking"] = "known"
    """`reasoning_effort`: for all models that may reason, or only for those that are known to; or
    the field `thinking` instead, which is on or off."""
    takes_pdfs: bool = False
    """It takes PDFs in messages; LiteLLM translates them for the providers without a row."""
    required: str = "required"
    """The `tool_choice` for "some tool"."""
    effortless: str | None = None
    """A part of the names of models that cannot be told how much to think."""
    leaves_out: frozenset[str] = frozenset()
    """Fields that it refuses, in a request and in the schemas of its tools."""
    adds: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Fields of every request."""

    models_in: str = ""
    """The folder of the models whose names have none."""

    def model_in(self, name: str) -> str:
        """Return the provider's own name of a model."""
        own = name.removeprefix(f"{self.name}/")
        return own if "/" in own else self.models_in + own

    def address_for(self, settings: LLMSettings, environment: Mapping[str, str]) -> str:
        """Return where requests go, up to the dialect's own path."""
        addresses = (settings.base_url, *map(environment.get, self.addresses_in), self.address)
        address = next(filter(None, addresses)).rstrip("/")
        return address if address.endswith(self.path) else address + self.path

    def missing_key(
        self, settings: LLMSettings, environment: Mapping[str, str]
    ) -> AuthRequiredError | None:
        """Return the error for a key that is nowhere, so that asking would be in vain.

        Another address, and one on this machine, may need none.
        """
        is_own = self.address_for(settings, environment) == self.address_for(_NO_SETTINGS, {})
        key = settings.key or any(map(environment.get, (*self.keys_in, *self.tokens_in)))
        if key or settings.extra_headers or not (is_own and self.address.startswith("https:")):
            return None
        return AuthRequiredError(
            f"no key for {settings.model}: set {' or '.join(self.keys_in)}",
            hint="`oh-daemon login` stores one for all fronts; OH_DAEMON_API_KEY holds one, too",
        )


def _chat(name: str, address: str, base: str, *keys: str, **more: Any) -> Provider:
    """Return the row of a provider of chat completions; `base` is its variable for an address."""
    return Provider(name, address, (base,), keys, **more)


_NO_SETTINGS = LLMSettings(model="none")
_OLLAMA = ("http://localhost:11434", "OLLAMA_API_BASE", "OLLAMA_API_KEY")
PROVIDERS: Mapping[str, Provider] = {
    row.name: row
    for row in (
        Provider(
            "openai",
            "https://api.openai.com/v1",
            ("OPENAI_BASE_URL", "OPENAI_API_BASE"),
            ("OPENAI_API_KEY",),
            has_responses=True,
            takes_cache_key=True,
            takes_effort="always",
            takes_pdfs=True,  # platform.openai.com, "File inputs" (2026-11).
        ),
        Provider(
            "anthropic",
            "https://api.anthropic.com",
            ("ANTHROPIC_API_BASE", "ANTHROPIC_BASE_URL"),
            ("ANTHROPIC_API_KEY",),
            tokens_in=("ANTHROPIC_AUTH_TOKEN",),
            path="/v1/messages",
            dialect="anthropic",
            takes_pdfs=True,  # platform.claude.com, "PDF support" (2026-11).
        ),
        _chat(
            "openrouter",
            "https://openrouter.ai/api/v1",
            "OPENROUTER_API_BASE",
            *("OPENROUTER_API_KEY", "OR_API_KEY"),
            has_responses=True,
            takes_effort="always",
            takes_pdfs=True,  # openrouter.ai/docs, "PDF inputs" (2026-11).
            adds={"usage": {"include": True}},
        ),
        _chat(
            "deepseek",
            *("https://api.deepseek.com/beta", "DEEPSEEK_API_BASE", "DEEPSEEK_API_KEY"),
            takes_effort="thinking",
        ),
        _chat(
            "mistral",
            *("https://api.mistral.ai/v1", "MISTRAL_API_BASE", "MISTRAL_API_KEY"),
            path="/v1",
            required="any",
            effortless="magistral",
            leaves_out=frozenset({"stream_options", "$schema", "$id"}),
        ),
        _chat(
            "xai",
            *("https://api.x.ai/v1", "XAI_API_BASE", "XAI_API_KEY"),
            has_responses=True,
            leaves_out=frozenset({"stop"}),
        ),
        _chat("groq", "https://api.groq.com/openai/v1", "GROQ_API_BASE", "GROQ_API_KEY"),
        _chat(
            "together_ai",
            "https://api.together.ai/v1",
            "TOGETHER_AI_API_BASE",
            *("TOGETHER_API_KEY", "TOGETHER_AI_API_KEY", "TOGETHERAI_API_KEY", "TOGETHER_AI_TOKEN"),
        ),
        _chat(
            "fireworks_ai",
            "https://api.fireworks.ai/inference/v1",
            "FIREWORKS_API_BASE",
            *("FIREWORKS_API_KEY", "FIREWORKS_AI_API_KEY", "FIREWORKSAI_API_KEY"),
            "FIREWORKS_AI_TOKEN",
            has_responses=True,
            required="any",
            models_in="accounts/fireworks/models/",
        ),
        _chat(
            "gemini",
            "https://generativelanguage.googleapis.com/v1beta/openai",
            "GEMINI_API_BASE",
            *("GOOGLE_API_KEY", "GEMINI_API_KEY"),
            is_at_home_only=True,
            leaves_out=frozenset({"top_k"}),
        ),
        _chat("ollama", *_OLLAMA, path="/v1"),
        _chat("ollama_chat", *_OLLAMA, path="/v1"),
        _chat("lm_studio", "http://localhost:1234/v1", "LM_STUDIO_API_BASE", "LM_STUDIO_API_KEY"),
        _chat(
            "hosted_vllm",
            *("http://localhost:8000/v1", "HOSTED_VLLM_API_BASE", "HOSTED_VLLM_API_KEY"),
            has_responses=True,
            takes_effort="always",
        ),
        # Mozilla's name for llama.cpp's server.
        _chat("llamafile", "http://127.0.0.1:8080/v1", "LLAMAFILE_API_BASE", "LLAMAFILE_API_KEY"),
    )
}


def server_address(settings: LLMSettings, table: Mapping[str, Json]) -> str | None:
    """Return the address of a server that is not the provider's own service, such as a local one.

    It has the form `"http://127.0.0.1:8080/v1"`; None is the provider's own service.
    """
    provider, base_url = find_provider(settings, table), settings.base_url
    if provider is None or provider.dialect != "chat":
        return base_url and base_url.rstrip("/")
    address = provider.address_for(settings, os.environ)
    is_service = address == provider.address and reach_of_url(address) == "public"
    return None if is_service and base_url is None else address


def find_provider(settings: LLMSettings, table: Mapping[str, Json]) -> Provider | None:
    """Return the row of whoever serves the model; None if the call has to go through litellm."""
    if settings.client == "litellm" or settings.api_version is not None:
        return None
    name = settings.custom_llm_provider
    if name is None and "/" in settings.model:
        name = settings.model.partition("/")[0]
    if name is None and settings.base_url is None and settings.model in table:
        name = table[settings.model].get("litellm_provider")
    provider = PROVIDERS.get(name or "")
    if provider is None:
        return None
    address = provider.address_for(settings, os.environ)
    if provider.is_at_home_only and address != provider.address:
        return None
    proxy = proxy_of(address)
    return provider if proxy is None or proxy.startswith("http://") else None
