"""What an endpoint itself says of a model, in its list of models; by the names of litellm's table.

vLLM, llama.cpp, LM Studio and OpenRouter tell more there than OpenAI's form has. Nothing depends on
it: whatever goes wrong means that nothing is known.
"""

from __future__ import annotations

from pydantic import TypeAdapter
from typing_extensions import TypedDict

from oh_daemon.contract.llm import LLMSettings
from oh_daemon.core.ports import Json

_PATIENCE_S = 2.0
"""For each of connecting and answering: an interrupt waits for it."""


class _Meta(TypedDict, total=False):
    n_ctx_train: int | None


class _Architecture(TypedDict, total=False):
    input_modalities: list[str] | None


class _Told(TypedDict, total=False):
    id: str
    context_length: int | None
    max_model_len: int | None
    loaded_context_length: int | None
    meta: _Meta | None
    supported_parameters: list[str] | None
    architecture: _Architecture | None


class _List(TypedDict):
    data: list[_Told]


_LIST = TypeAdapter(_List)


def read_live_metadata(settings: LLMSettings) -> Json:
    """Ask the endpoint of the settings; blocks for seconds at most."""
    if settings.base_url is None:
        return {}
    import httpx  # noqa: PLC0415 - comes with litellm, whose import the start must not pay.

    headers = dict(settings.extra_headers)
    if settings.api_key is not None:
        headers["authorization"] = f"Bearer {settings.api_key.get_secret_value()}"
    url = f"{settings.base_url.rstrip('/')}/models"
    try:
        answer = httpx.get(url, headers=headers, timeout=_PATIENCE_S).raise_for_status()
        return parse_models(answer.json(), settings.model)
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError):
        return {}


def parse_models(listed: object, model: str) -> Json:
    """The entry of `model`, with or without its provider. Raises `ValueError` for another form."""
    names = {model, model.partition("/")[2], model.rpartition("/")[2]}
    models = _LIST.validate_python(listed)["data"]
    told: _Told = next((each for each in models if each.get("id") in names), {})
    meta, architecture = told.get("meta") or {}, told.get("architecture") or {}
    window = (
        told.get("loaded_context_length")
        or told.get("context_length")
        or told.get("max_model_len")
        or meta.get("n_ctx_train")
    )
    parameters, kinds = told.get("supported_parameters"), architecture.get("input_modalities")
    entry = {
        "max_input_tokens": window or None,
        "supports_function_calling": None if parameters is None else "tools" in parameters,
        "supports_vision": None if kinds is None else "image" in kinds,
    }
    return {name: value for name, value in entry.items() if value is not None}
