"""Compares a server's count of tokens with our own estimate, to notice parts that it dropped; pure.

Servers of the user's own drop parts of a request without an error: a chat template that knows no
tools leaves them out, and a prompt above the server's window loses its beginning.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence

from oh_daemon.features.models.request_healing import parts_of
from oh_daemon.kernel.ports import Caveat, Json, ModelRequest
from oh_daemon.kernel.window import CHARS_PER_TOKEN

_GROSS = 0.6
"""The share of the estimate below which a count is a contradiction. Tokens of prose and code have
3 to 5 characters in all common tokenizers, so no text of words comes near it."""
_LEAST_MISSING = 500
"""Tokens that have to be missing: in a short request, a few words decide."""
_OF_SCHEMAS = 0.5
"""The share of the tools' JSON that counts, since templates write schemas in shorter forms."""
_REPEATED = re.compile(r"([^\w])\1+|(\w)\2{3,}")
"""Runs of one character, which a tokenizer reads as one or two tokens."""


def dropped_parts(request: ModelRequest, tools: Sequence[Json], n_counted: int) -> Caveat | None:
    """Return what a server seems to have dropped, by the input tokens that it counted.

    `tools` are those that were sent as such; a count of 0 is unknown.
    """
    texts = [
        text
        for message in request.messages
        for text in (
            *(part.get("text", "") for part in parts_of(message.get("content"))),
            *(json.dumps(call["function"]) for call in message.get("tool_calls", ())),
        )
    ]
    schemas = [json.dumps(tool["function"], ensure_ascii=False) for tool in tools]
    # The exact estimate takes milliseconds for a long conversation, this bound hardly any.
    most = (sum(map(len, texts)) + sum(map(len, schemas))) / CHARS_PER_TOKEN
    if not n_counted or n_counted >= _GROSS * most:
        return None
    n_text, n_tools = _tokens_in(texts), _OF_SCHEMAS * _tokens_in(schemas)
    estimate = n_text + n_tools
    if n_counted >= _GROSS * estimate or estimate - n_counted < _LEAST_MISSING:
        return None
    counts = f"the server counted {n_counted:,} tokens where about {estimate:,.0f} were sent"
    if n_tools and n_counted >= _GROSS * n_text:
        title = (
            f"{counts}: its chat template seems to drop the tools. Set `llm.nativeToolCalling` to "
            "false, or start the server with a template that knows tools (llama.cpp: `--jinja`)"
        )
        return Caveat("requestCut", title, about="tools")
    title = (
        f"{counts}: it seems to cut the prompt to its window. Start it with a larger one "
        "(`num_ctx` or OLLAMA_CONTEXT_LENGTH of Ollama, `--ctx-size` of llama.cpp), or set "
        "`llm.contextWindow`"
    )
    return Caveat("requestCut", title, about="messages")


def _tokens_in(texts: Iterable[str]) -> float:
    return sum(len(_REPEATED.sub(r"\1\2", text)) for text in texts) / CHARS_PER_TOKEN
