"""What an endpoint's own list of models says about a model, under the keys of litellm's table.

vLLM, llama.cpp, LM Studio and OpenRouter say more there than OpenAI's form has. Nothing depends on
it: on any failure, nothing is known.
"""

from __future__ import annotations

import json
import time
from contextlib import closing
from http.client import OK, HTTPException

from pydantic import AliasPath, BaseModel, Field

from oh_daemon.contract.llm import LLMSettings
from oh_daemon.core.cancel import CancelToken
from oh_daemon.core.ports import Json
from oh_daemon.model.http import request
from oh_daemon.model.sockets import Waiter

_PATIENCE_S = 2.0
"""An interrupt has to wait for it."""


class _Told(BaseModel):
    """What is said of one model, in the places that servers use; an absent field is unknown."""

    loaded: int | None = Field(default=None, validation_alias="loaded_context_length")
    configured: int | None = Field(default=None, validation_alias="context_length")
    served: int | None = Field(default=None, validation_alias="max_model_len")
    trained: int | None = Field(default=None, validation_alias=AliasPath("meta", "n_ctx_train"))
    parameters: list[str] | None = Field(default=None, validation_alias="supported_parameters")
    kinds: list[str] | None = Field(
        default=None, validation_alias=AliasPath("architecture", "input_modalities")
    )


class _List(BaseModel):
    data: list[object]
    """Entries of any form: what is wrong with one says nothing about the others."""


def read_live_metadata(settings: LLMSettings) -> Json:
    """Ask the endpoint in the settings; blocks for a few seconds at most."""
    if settings.base_url is None:
        return {}
    headers = dict(settings.extra_headers)
    if settings.api_key is not None:
        headers["authorization"] = f"Bearer {settings.api_key.get_secret_value()}"
    url = f"{settings.base_url.rstrip('/')}/models"
    end = time.monotonic() + _PATIENCE_S

    def left_s() -> float:
        if (left := end - time.monotonic()) <= 0:
            raise TimeoutError
        return left

    try:
        with (
            Waiter(CancelToken(), left_s) as waiter,
            closing(request("GET", url, headers, None, waiter)) as response,
        ):
            body = b"".join(response.pieces())
        return parse_models(json.loads(body), settings.model) if response.status == OK else {}
    except (OSError, HTTPException, ValueError):
        return {}


def parse_models(listed: object, model: str) -> Json:
    """Find `model`, named with or without its provider. Raises `ValueError` for another form."""
    names = {model, model.partition("/")[2], model.rpartition("/")[2]}
    found = (each for each in _List.model_validate(listed).data if _id_of(each) in names)
    told = _Told.model_validate(next(found, dict[str, object]()))
    # A server may send null, 0 or -1 for a window that it does not know.
    windows = (told.loaded, told.configured, told.served, told.trained)
    entry = {
        "max_input_tokens": next((size for size in windows if size and size > 0), None),
        "supports_function_calling": told.parameters and "tools" in told.parameters,
        "supports_vision": told.kinds and "image" in told.kinds,
    }
    return {name: value for name, value in entry.items() if value is not None}


def _id_of(entry: object) -> str | None:
    match entry:
        case {"id": str(name)}:
            return name
        case _:
            return None
