"""Facts that a model's server reports about it: its window, and whether it calls functions.

Servers on the user's own machines report them in places of their own, listed in `LOCAL_APIS`. The
answers have the keys of litellm's table, such as `{"max_input_tokens": 8192}`.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from functools import partial
from http.client import OK, HTTPException
from typing import Any

from msgspec import Struct

from oh_daemon.common.cancel import CancelToken
from oh_daemon.common.decoded import as_list, as_object, objects_in
from oh_daemon.common.hosts import reach_of_url
from oh_daemon.features.models.http import bearer_headers, request
from oh_daemon.features.models.sockets import Waiter
from oh_daemon.kernel.ports import Json
from oh_daemon.protocol.llm import LLMSettings

IS_FINAL = "is_final"
"""A key of our own. False for the window of a model that its server has not loaded yet: a server
may give it less than it was trained for, and reports that once the model is in memory."""
_PATIENCE_S = 2.0
"""An interrupt has to wait for it."""
_MAX_BYTES = 4 << 20
_WINDOW, _CALLS, _SEES = "max_input_tokens", "supports_function_calling", "supports_vision"


class LocalApi(Struct, frozen=True):
    """One place where a kind of server reports on a model."""

    path: str
    """Below the server's root, as `/props` is beside `/v1`."""
    read: Callable[[Json, str], Json]
    """Returns the facts in an answer about the model of this name."""
    posts_after: str = ""
    """For a POST with the model's name: the key of an earlier answer that tells the server by its
    kind. Any other server might take a POST for a request to its model."""


def _llama_cpp(answer: Json, _model: str) -> Json:
    window = as_object(answer.get("default_generation_settings")).get("n_ctx")
    caps, kinds = (as_object(answer.get(key)) for key in ("chat_template_caps", "modalities"))
    return _facts(window, caps.get("supports_tools"), kinds.get("vision"))


def _ollama_loaded(answer: Json, model: str) -> Json:
    models = objects_in(answer.get("models"))
    names = {*_names(model), *(f"{name}:latest" for name in _names(model))}
    return _facts(next((m.get("context_length") for m in models if m.get("name") in names), None))


def _ollama(answer: Json, _model: str) -> Json:
    # The trained length in `model_info` is no window: without `num_ctx`, the server decides by its
    # memory, and it cuts longer prompts without an error.
    match = re.search(r"^num_ctx\s+(\d+)", str(answer.get("parameters")), re.MULTILINE)
    names = as_list(answer.get("capabilities"))
    flags = ("tools" in names, "vision" in names) if names else ()
    return _facts(int(match[1]) if match else None, *flags)


def _lm_studio(answer: Json, model: str) -> Json:
    models = objects_in(answer.get("data"))
    entry = next((each for each in models if each.get("id") in _names(model)), dict[str, Any]())
    sees = entry["type"] == "vlm" if "type" in entry else None
    return _facts(entry.get("loaded_context_length"), None, sees)


LOCAL_APIS: Sequence[LocalApi] = (
    # llama.cpp, tools/server/README.md (2026-10), "GET /props".
    LocalApi("/props", _llama_cpp),
    # docs.ollama.com, "List running models" (2026-11): `context_length` of a loaded model.
    LocalApi("/api/ps", _ollama_loaded),
    # docs.ollama.com, "Show model details", and "Context length" for the default (2026-11).
    LocalApi("/api/show", _ollama, posts_after="models"),
    # lmstudio.ai/docs, "REST API v0" (2026-11).
    LocalApi("/api/v0/models", _lm_studio),
)


def read_facts(settings: LLMSettings, address: str, name: str) -> Json:
    """Ask the server at an address such as `"http://127.0.0.1:8080/v1"`; blocks up to 2 s.

    `name` is the server's own name of the model. The facts are empty if it has no list of models.
    """
    ask = partial(_ask, settings, time.monotonic() + _PATIENCE_S)
    try:
        models = _models_in(ask(f"{address}/models"))
    except _FAILURES:
        return {}
    entry = next(
        (each for each in models if each["id"] in _names(settings.model)), dict[str, Any]()
    )
    facts = _listed_facts(entry)
    is_local = reach_of_url(address) != "public"
    if is_local and (_WINDOW not in facts or entry.get("owned_by") == "llamacpp"):
        own_facts: Json = {}
        keys = set[str]()
        for api in LOCAL_APIS:
            if api.posts_after and api.posts_after not in keys:
                continue
            body = json.dumps({"model": name}).encode() if api.posts_after else None
            with suppress(*_FAILURES):
                answer = as_object(ask(f"{address.removesuffix('/v1')}{api.path}", body))
                own_facts = {**api.read(answer, name), **own_facts}
                keys.update(answer)
        facts = {**facts, **own_facts}
    if not entry and not facts:
        return {}
    is_final = not is_local or _WINDOW in facts
    return {**_facts(as_object(entry.get("meta")).get("n_ctx_train")), IS_FINAL: is_final, **facts}


def served_models(settings: LLMSettings, address: str) -> Sequence[str] | None:
    """Return the names that the server lists, or None if it has no list."""
    try:
        data = _ask(settings, time.monotonic() + _PATIENCE_S, f"{address}/models")
    except _FAILURES:
        return None
    return [model["id"] for model in _models_in(data)]


_FAILURES = (OSError, HTTPException, ValueError)


def _ask(settings: LLMSettings, end_s: float, url: str, body: bytes | None = None) -> object:
    """Return what the server answers, with a POST of the body if there is one."""
    headers = {**settings.extra_headers, **bearer_headers(settings.key)}

    def left_s() -> float:
        if (seconds := end_s - time.monotonic()) <= 0:
            raise TimeoutError
        return seconds

    method = "POST" if body else "GET"
    with (
        Waiter(CancelToken(), left_s) as waiter,
        closing(request(method, url, headers, body, waiter)) as response,
    ):
        data = bytearray()
        for piece in response.pieces():
            data += piece
            if len(data) > _MAX_BYTES:
                raise ValueError(url)
    if response.status != OK:
        raise ValueError(response.status)
    return json.loads(data)


def _models_in(data: object) -> list[Json]:
    models = objects_in(as_object(data).get("data"))
    return [model for model in models if isinstance(model.get("id"), str)]


def _listed_facts(entry: Json) -> Json:
    """Return the facts in the places that servers use in their list of models."""
    windows = (
        entry.get("loaded_context_length"),
        as_object(entry.get("meta")).get("n_ctx"),
        entry.get("context_length"),
        # vLLM and SGLang: `ModelCard` of their OpenAI servers.
        entry.get("max_model_len"),
    )
    window = next((size for size in windows if _facts(size)), None)
    parameters = as_list(entry.get("supported_parameters"))
    kinds = as_list(as_object(entry.get("architecture")).get("input_modalities"))
    calls, sees = ("tools" in parameters, "image" in kinds)
    return _facts(window, calls if parameters else None, sees if kinds else None)


def _facts(window: object, calls: object = None, sees: object = None) -> Json:
    # A server may send null, 0 or -1 for a window that it does not know.
    is_window = isinstance(window, int) and not isinstance(window, bool) and window > 0
    values = {_CALLS: calls, _SEES: sees}
    flags = {name: value for name, value in values.items() if isinstance(value, bool)}
    return {_WINDOW: window, **flags} if is_window else flags


def _names(model: str) -> set[str]:
    return {model, model.partition("/")[2], model.rpartition("/")[2]}
