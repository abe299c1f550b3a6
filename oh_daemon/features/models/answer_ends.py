"""What providers say at the end of an answer, as rows of data: which words are success.

Invariant: a word that is not listed is a failed attempt. `end_of("end_turn")` is "stop".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from oh_daemon.protocol.errors import NetworkError

FinishReason = Literal["stop", "tool_calls", "length", "content_filter", ""]

ENDS: Mapping[str, FinishReason] = {
    # OpenAI, "finish_reason" of a chat completion (API reference, 2026-11); most others follow it.
    "stop": "stop",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "content_filter": "content_filter",
    # Anthropic, "Stop reasons" (platform.claude.com, 2026-11); `pause_turn` is unfinished.
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
    # OpenAI's Responses API, `status` and `incomplete_details` (API reference, 2026-11).
    "completed": "stop",
    "max_output_tokens": "length",
    # Mistral's OpenAPI description 1.0.0: stop, length, model_length, error and tool_calls.
    "model_length": "length",
    # Cohere's Chat V2, as in Oracle's CohereChatResponseV2 (2026-11): also ERROR.
    "complete": "stop",
    "tool_call": "tool_calls",
    # Hugging Face's text generation server and Together, as in litellm 1.106.2 (2026-11).
    "eos_token": "stop",
    "eos": "stop",
    # Services that follow OpenAI loosely; others that call models read it so, such as pi (2026).
    "end": "stop",
}
"""By a provider's word in lower case; Gemini's own API and its proxies write them in capitals."""
_FILTERED = re.compile(r"safety|recitation|blocklist|prohibited|spii|guardrail|sensitive|filter")
"""Ends that the same request would meet again, so that another attempt is in vain."""
_BROKE = re.compile(
    r"error|fail|time.?out|abort|cancel|overload|malformed|insufficient|unavailable"
)
"""What a provider behind another one says of a failure. Its words for success may be any."""


def end_of(reason: str, native: str = "") -> FinishReason:
    """Return what an end means; `native` is the word of the provider behind the one that answered.

    Raises `NetworkError` if it is not known to be success.
    """
    word, behind = (_plain(each) for each in (reason, native))
    if word not in ENDS or (behind not in ENDS and _BROKE.search(behind)):
        raise failed_end(reason if word not in ENDS else native)
    return ENDS[word]


def _plain(word: str) -> str:
    return word.strip().lower().removeprefix("finishreason.").removeprefix("finish_reason_")


def failed_end(reason: str) -> NetworkError:
    """Return the error for an end that is not known to be success, with the provider's word."""
    return NetworkError(
        f"the provider ended the answer with {reason!r}, so nothing of it counts",
        retryable=not _FILTERED.search(reason.lower()),
        hint="resume to ask again; if it happens each time, choose another model",
    )
