"""Imports litellm and sets it up. Only for `litellm_child`: it changes the whole process."""

from __future__ import annotations

import logging
import os
import warnings
from functools import cache
from typing import Any

_VARIABLES = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    # Otherwise it loads a `.env` from a folder above its own. With a virtual environment inside a
    # project that is the project's file, which could then say where our keys are sent.
    "LITELLM_MODE": "PRODUCTION",
    # The other route to OpenAI-shaped endpoints copies every message through typed dicts: 190 ms
    # instead of 10 for 1,000 messages. It is read at each call.
    "EXPERIMENTAL_OPENAI_BASE_LLM_HTTP_HANDLER": "True",
}
_NO_ENDLESS_LOOP_CHECK = 1 << 60


@cache
def load_litellm() -> Any:
    """Import and configure litellm: no retries, no telemetry, no downloads, quiet.

    It is typed as Any, since its own types are partly unknown.
    """
    # pydantic warns when litellm's types are built, which happens as late as during a call.
    warnings.filterwarnings("ignore", message="Items? .* on TypedDict class")
    os.environ.update(_VARIABLES)
    import litellm  # noqa: PLC0415 - takes 1.7 s and 170 MB.

    module: Any = litellm
    module.suppress_debug_info = True
    module.disable_streaming_logging = True
    module.num_retries = 0
    module.telemetry = False
    module.REPEATED_STREAMING_CHUNK_LIMIT = _NO_ENDLESS_LOOP_CHECK
    # Otherwise the first answer loads a tokenizer (0.15 s, 38 MB) to price a text of no words.
    module.disable_token_counter = True
    module.main.encoding = _LateTokenizer()
    for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
        logging.getLogger(name).setLevel(logging.WARNING)
    return module


class _LateTokenizer:
    """Stands for litellm's tokenizer, which each request passes along and very few use."""

    def __getattr__(self, name: str) -> Any:
        from litellm.litellm_core_utils import default_encoding  # noqa: PLC0415 - see load_litellm.

        return getattr(default_encoding.encoding, name)
