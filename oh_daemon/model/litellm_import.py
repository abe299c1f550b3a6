"""Imports litellm and sets it up; a program that embeds us keeps its process to itself."""

from __future__ import annotations

import gc
import logging
import os
import threading
import warnings
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

logger = logging.getLogger(__name__)
_DURING_IMPORT = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    # Otherwise it loads a `.env` from a folder above its own. With a virtual environment inside a
    # project that is the project's file, which could then say where our keys are sent.
    "LITELLM_MODE": "PRODUCTION",
}
_HTTP_HANDLER = "EXPERIMENTAL_OPENAI_BASE_LLM_HTTP_HANDLER"
IS_OWN_CALL: ContextVar[bool] = ContextVar("IS_OWN_CALL", default=False)
"""Set by whoever calls litellm for us."""
_LOADING = threading.Lock()
_NO_ENDLESS_LOOP_CHECK = 1 << 60


@cache
def warm_up() -> None:
    """Import litellm (1.7 s) in the background, so that the first call does not wait for it.

    Further calls do nothing. Only for a process of our own: the garbage collector then passes over
    all that exists so far.
    """
    threading.Thread(target=_load_for_good, name="litellm-import", daemon=True).start()


def _load_for_good() -> None:
    gc.disable()
    try:
        load_litellm()
    except (ImportError, OSError) as exc:
        # With hardly any descriptors left; whoever makes a call imports it again and is told.
        logger.warning("litellm could not be imported ahead of the first call: %s", exc)
    finally:
        gc.enable()
    gc.freeze()


def load_litellm() -> Any:
    """Import and configure litellm: no retries, no telemetry, no downloads, quiet.

    It is typed as Any, since its own types are partly unknown. The process may be that of a program
    that embeds us, so its variables, loggers and garbage collector are left alone.
    """
    with _LOADING:
        return _configured()


@cache
def _configured() -> Any:
    # pydantic warns when litellm's types are built, which happens as late as during a call.
    warnings.filterwarnings("ignore", message="Item .* on TypedDict class")
    with _environment(_DURING_IMPORT):
        import litellm  # noqa: PLC0415 - takes 1.7 s and 170 MB.
        from litellm import _logging  # noqa: PLC0415
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
        logger = logging.getLogger(name)
        logger.setLevel(logging.WARNING)
        logger.removeHandler(_logging.handler)
    _switch_for_own_calls(module.main)
    return module


class _LateTokenizer:
    """Stands for litellm's tokenizer, which each request passes along and very few use."""

    def __getattr__(self, name: str) -> Any:
        from litellm.litellm_core_utils import default_encoding  # noqa: PLC0415 - see load_litellm.

        return getattr(default_encoding.encoding, name)


@contextmanager
def _environment(variables: Mapping[str, str]) -> Generator[None]:
    """Set the variables, and put back what was there."""
    earlier = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in earlier.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _switch_for_own_calls(main: Any) -> None:
    """Let our own calls of OpenAI's API take litellm's HTTP handler, and leave others alone.

    The other route copies every message through typed dicts: 190 ms instead of 10 for 1,000
    messages. litellm takes the switch from the environment only, at each call, and the environment
    belongs to the whole process.
    """
    read = main.get_secret_bool

    def read_for_call(name: str, default: bool | None = None) -> bool | None:
        return (name == _HTTP_HANDLER and IS_OWN_CALL.get()) or read(name, default)

    main.get_secret_bool = read_for_call
