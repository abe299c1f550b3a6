"""A model behind an endpoint: one streamed call, with retries, and what the model can do.

`dialect` says how requests are written; `assembly` reads answers, and `failures` explains failures.
Invariant: an answer is returned only when the provider said that it is finished.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import closing
from dataclasses import replace
from functools import cached_property
from weakref import WeakKeyDictionary

from oh_daemon.contract.llm import LLMSettings
from oh_daemon.contract.status import Usage
from oh_daemon.core.cancel import CancelToken
from oh_daemon.core.ports import Caveat, Json, ModelAnswer, ModelRequest, Progress, Traits
from oh_daemon.model.assembly import Assembly
from oh_daemon.model.by_litellm import litellm_chunks
from oh_daemon.model.capabilities import (
    Capabilities,
    edits_by_patch,
    find_capabilities,
    input_price,
)
from oh_daemon.model.dialect import Call
from oh_daemon.model.direct import direct_chunks
from oh_daemon.model.failures import unreachable
from oh_daemon.model.live_metadata import read_live_metadata
from oh_daemon.model.patience import Patience
from oh_daemon.model.price_table import cost_of, price_table
from oh_daemon.model.providers import find_provider
from oh_daemon.model.retry import with_retries
from oh_daemon.model.text_tools import ShownText, read_answer
from oh_daemon.model.usage import read_usage
from oh_daemon.model.written import Written


class RemoteModel:
    """A model behind an endpoint. Thread-safe."""

    def __init__(
        self,
        settings: LLMSettings,
        *,
        finds_key: bool = True,
        first_delay_s: float = 1.0,
    ) -> None:
        """With `finds_key`, the provider's own variable is used when the settings have no key."""
        self._settings = settings
        self._finds_key = finds_key
        self._first_delay_s = first_delay_s
        self._written = WeakKeyDictionary[object, Written]()
        """By conversation."""
        self.name = settings.model
        self.label = settings.model

    @property
    def traits(self) -> Traits:
        """Asks the endpoint at its first use."""
        return self._traits

    @cached_property
    def _traits(self) -> Traits:
        can, settings = self._capabilities, self._settings
        warning = (
            f"{self.name} is not known to call functions: it is told of the tools in its prompt "
            "and calls them in its text. If it does call functions, set `llm.nativeToolCalling` "
            "to true."
        )
        is_known = can.calls_functions or settings.native_tool_calling is False
        return Traits(
            context_window=can.context_window,
            sees_images=can.sees_images,
            caveats=() if is_known else (Caveat("noFunctionCalls", warning, about=self.name),),
            input_price=input_price(settings, price_table()),
        )

    @property
    def edits_by_patch(self) -> bool:
        return edits_by_patch(self._settings)

    def complete(self, request: ModelRequest, progress: Progress) -> ModelAnswer:
        """Complete as the port says. `on_delta` is called on the caller's thread."""
        return with_retries(
            lambda: self._attempt(request, progress),
            max_attempts=self._settings.max_attempts,
            first_delay_s=self._first_delay_s,
            progress=progress,
        )

    def _attempt(self, request: ModelRequest, progress: Progress) -> ModelAnswer:
        progress.cancel.raise_if_cancelled()
        settings, can = self._settings, self._capabilities
        has_functions = can.calls_functions
        on_delta = progress.on_delta
        assembly = Assembly(on_delta if has_functions else ShownText(on_delta).feed)
        patience = Patience(settings)
        with closing(self._chunks(request, progress.cancel, patience)) as chunks:
            for chunk in chunks:
                patience.restart()
                assembly.feed(chunk)
        if assembly.finish_reason is None:
            raise unreachable(f"the answer of {self.name} ended before it was complete")
        answer = assembly.answer(read_usage(assembly.usage, self._table_price))
        answer = replace(answer, model=self.name)
        return answer if has_functions else read_answer(answer)

    def _chunks(
        self, request: ModelRequest, cancel: CancelToken, patience: Patience
    ) -> Generator[Json]:
        provider = find_provider(self._settings, price_table())
        call = Call(request, self._settings, self._capabilities, provider)
        if provider is None:
            return litellm_chunks(call, finds_key=self._finds_key, cancel=cancel, patience=patience)
        kept = request.history
        written = Written() if kept is None else self._written.setdefault(kept, Written())
        return direct_chunks(
            call,
            provider,
            finds_key=self._finds_key,
            cancel=cancel,
            patience=patience,
            written=written,
        )

    @cached_property
    def _capabilities(self) -> Capabilities:
        url = self._settings.base_url or _openai_elsewhere()
        settings = self._settings.model_copy(update={"base_url": url})
        live = read_live_metadata(self._settings)
        return find_capabilities(settings, price_table(), live)

    def _table_price(self, usage: Usage) -> float | None:
        """Return the cost in US dollars by the user's prices, else litellm's table; else None."""
        per_input = self._settings.input_cost_per_token
        per_output = self._settings.output_cost_per_token
        if per_input is not None and per_output is not None:
            return usage.input_tokens * per_input + usage.output_tokens * per_output
        key = self._capabilities.table_entry
        return None if key is None else cost_of(key, usage)


def _openai_elsewhere() -> str | None:
    """Return another endpoint for OpenAI's models, from the variables that litellm reads."""
    return os.environ.get("OPENAI_BASE_URL") or os.environ.get("OPENAI_API_BASE")
