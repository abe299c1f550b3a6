"""A model behind an endpoint: one streamed call, with retries, and what the model can do.

`dialect` says how requests are written; `assembly` reads answers, and `failures` explains failures.
Invariant: an answer is returned only when the provider said that it is finished.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from functools import cached_property
from http import HTTPStatus
from http.client import HTTPException
from weakref import WeakKeyDictionary

from msgspec.structs import replace

from oh_daemon.common.cancel import CancelToken
from oh_daemon.features.models.answer_ends import failed_end
from oh_daemon.features.models.anthropic import ANTHROPIC
from oh_daemon.features.models.assembly import Assembly
from oh_daemon.features.models.attempts import AttemptDeadlines, with_retries
from oh_daemon.features.models.capabilities import (
    Capabilities,
    costs_nothing,
    edits_by_patch,
    find_capabilities,
    input_price,
)
from oh_daemon.features.models.chat import CHAT
from oh_daemon.features.models.dialect import (
    Dialect,
    EncodedMessages,
    ProviderCall,
    encode_body,
    encoded_body,
)
from oh_daemon.features.models.documents import DocumentTexts
from oh_daemon.features.models.failures import (
    CallFailure,
    explain,
    is_refusal,
    no_responses,
    unreachable,
)
from oh_daemon.features.models.http import Response, bearer_headers, request
from oh_daemon.features.models.image_scaling import ScaledImages
from oh_daemon.features.models.litellm_calls import litellm_chunks
from oh_daemon.features.models.model_messages import ShownText, read_answer
from oh_daemon.features.models.prices import cost_usd, price_table, read_usage
from oh_daemon.features.models.providers import (
    PROVIDERS,
    Provider,
    find_provider,
    server_address,
)
from oh_daemon.features.models.request_healing import (
    Relief,
    original_call,
    plan_relief,
    relieved,
    relieved_rules,
    with_ends,
    within_images,
)
from oh_daemon.features.models.responses import RESPONSES
from oh_daemon.features.models.server_facts import read_facts
from oh_daemon.features.models.sockets import Waiter, reason_of
from oh_daemon.features.models.stream_events import read_events
from oh_daemon.features.models.usage_check import dropped_parts
from oh_daemon.features.models.written_calls import WRITTEN, read_written
from oh_daemon.kernel.ports import Caveat, Json, ModelAnswer, ModelRequest, Progress, Traits
from oh_daemon.protocol.errors import ModelError
from oh_daemon.protocol.llm import LLMSettings
from oh_daemon.protocol.status import Usage


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
        self._encoded_messages = WeakKeyDictionary[object, EncodedMessages]()
        """By conversation."""
        self._reliefs = WeakKeyDictionary[object, tuple[Relief, ...]]()
        """What a provider refused before, by conversation."""
        self._images = ScaledImages()
        self._documents = DocumentTexts()
        self._has_asked_again = False
        """Whether the server was asked for its limits once more, after it has loaded the model."""
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
            reads_pdfs=self._reads_pdfs,
            caveats=() if is_known else (Caveat("noFunctionCalls", warning, about=self.name),),
            input_price=input_price(settings, self._address, price_table()),
        )

    @property
    def edits_by_patch(self) -> bool:
        return edits_by_patch(self._settings)

    def complete(self, request: ModelRequest, progress: Progress) -> ModelAnswer:
        """Complete as the port says. `on_delta` is called on the caller's thread."""
        return with_retries(
            lambda: self._relieved_attempt(request, progress),
            max_attempts=self._settings.max_attempts,
            first_delay_s=self._first_delay_s,
            progress=progress,
        )

    def _relieved_attempt(self, request: ModelRequest, progress: Progress) -> ModelAnswer:
        """Ask; after a refusal that names a part of the request, once more without that part.

        What helped is kept for the conversation, since its next request would be refused, too.
        """
        history = request.history
        reliefs = self._reliefs.get(history, ()) if history is not None else ()
        try:
            return self._attempt(request, progress, reliefs)
        except ModelError as exc:
            relief = plan_relief(exc.message, request) if is_refusal(exc) else None
            if relief is None or relief in reliefs:
                raise
            reason = exc.message
        answer = self._attempt(request, progress, (*reliefs, relief))
        if history is not None:
            self._reliefs[history] = (*reliefs, relief)
        title = f"{reason}. The request was sent again, and {relief.what}, as in those that follow."
        caveat = Caveat("requestChanged", title, about=relief.what)
        return replace(answer, caveats=(*answer.caveats, caveat))

    def _attempt(
        self, request: ModelRequest, progress: Progress, reliefs: Sequence[Relief]
    ) -> ModelAnswer:
        progress.cancel.raise_if_cancelled()
        self._require_key()
        call = self._call(request, reliefs)
        request, settings, sent_tools = call.request, call.settings, call.sent_tools
        has_functions = call.can.calls_functions
        on_delta = progress.on_delta
        on_text = on_delta if has_functions else ShownText(on_delta).feed
        assembly = Assembly(on_text, call.tools or request.tools)
        patience = AttemptDeadlines(settings, self._address)
        with closing(self._chunks(call, progress.cancel, patience)) as chunks:
            for chunk in chunks:
                patience.restart()
                assembly.feed(chunk)
        if not assembly.is_complete:
            raise unreachable(f"the answer of {self.name} ended before it was complete")
        answer = assembly.answer(read_usage(assembly.usage, self._price))
        calls = tuple(original_call(call_made, sent_tools) for call_made in answer.tool_calls)
        answer = self._with_written_calls(
            replace(answer, model=self.name, tool_calls=calls), request
        )
        if answer.finish_reason == "tool_calls" and not answer.tool_calls:
            raise failed_end("a tool call, but without one")
        caveats = filter(None, (self._tools_left_out(call), self._dropped_parts(call, answer)))
        return replace(answer, caveats=(*answer.caveats, *caveats))

    def _tools_left_out(self, call: ProviderCall) -> Caveat | None:
        n_sent, n_tools = len(call.sent_tools), len(call.request.tools)
        if n_sent == n_tools or not call.can.calls_functions:
            return None
        title = (
            f"{self.name} takes {n_sent} tools in a request, so the last {n_tools - n_sent} of "
            f"{n_tools} are left out; stop MCP servers that are not needed"
        )
        return Caveat("requestChanged", title, about="tools")

    def _dropped_parts(self, call: ProviderCall, answer: ModelAnswer) -> Caveat | None:
        """Compare the usage that a server of the user's own reports with our estimate."""
        if not call.can.is_served:
            return None
        if not call.can.is_final and not self._has_asked_again:
            # The model is in memory since this answer, so the server knows its window now.
            self._has_asked_again = True
            for name in ("_capabilities", "_traits"):
                self.__dict__.pop(name, None)
        return dropped_parts(call.request, call.tools, answer.usage.input_tokens)

    def _call(self, request: ModelRequest, reliefs: Sequence[Relief]) -> ProviderCall:
        """Return the request as the model takes it, whatever is in the conversation."""
        settings, can = self._settings, self._capabilities
        for relief in reliefs:
            request, can = (
                relieved(request, relief),
                replace(can, rules=relieved_rules(can.rules, relief)),
            )
            if relief.without_setting:
                settings = settings.model_copy(update={relief.without_setting: None})
        messages = within_images(request.messages, can.rules, self._images.scaled)
        if not self._reads_pdfs or any(relief.documents_as_text for relief in reliefs):
            messages = self._documents.written_out(messages)
        messages = with_ends(messages)
        provider = find_provider(settings, price_table())
        return ProviderCall(replace(request, messages=messages), settings, can, provider)

    @cached_property
    def _reads_pdfs(self) -> bool:
        provider = find_provider(self._settings, price_table())
        return self._capabilities.reads_pdfs and (provider is None or provider.takes_pdfs)

    def _with_written_calls(self, answer: ModelAnswer, request: ModelRequest) -> ModelAnswer:
        """Return the answer with the calls in its text as calls, if the model makes them so."""
        is_native = self._capabilities.calls_functions
        if not is_native:
            answer = read_answer(answer, request.tools)
        if request.purpose is not None or request.tool_choice == "none" or not answer.text:
            return answer
        ids = (call["id"] for each in request.messages for call in each.get("tool_calls", ()))
        may_run = not is_native or all(call_id.startswith(WRITTEN) for call_id in ids)
        answer = read_written(answer, request.tools, may_run=may_run)
        if is_native and answer.tool_calls and answer.tool_calls[0].id.startswith(WRITTEN):
            title = (
                f"{self.name} writes tool calls into its text, which were run as calls. If its "
                "server passes no native calls on, set `llm.nativeToolCalling` to false."
            )
            caveat = Caveat("callsInText", title, about=self.name)
            answer = replace(answer, caveats=(*answer.caveats, caveat))
        return answer

    def _require_key(self) -> None:
        """Raises `AuthRequiredError` where the provider would refuse whatever comes."""
        provider = find_provider(self._settings, price_table())
        environment: Mapping[str, str] = os.environ if self._finds_key else {}
        error = provider and provider.missing_key(self._settings, environment)
        if error:
            raise error

    def _chunks(
        self, call: ProviderCall, cancel: CancelToken, patience: AttemptDeadlines
    ) -> Generator[Json]:
        if call.provider is None:
            return litellm_chunks(call, finds_key=self._finds_key, cancel=cancel, patience=patience)
        return self._direct_chunks(call, call.provider, Waiter(cancel, patience.left_s))

    def _direct_chunks(
        self, call: ProviderCall, provider: Provider, waiter: Waiter
    ) -> Generator[Json]:
        """Yield the chunks of the answer to a request of our own over HTTP."""
        dialect = _dialect_of(call, provider)
        address = provider.address_for(self._settings, os.environ)
        url = address if address.endswith(dialect.path) else address + dialect.path
        headers, body = self._headers(provider, dialect), self._body(call, dialect)
        try:
            with waiter, closing(request("POST", url, headers, body, waiter)) as response:
                _require_success(response, self._settings)
                kind = response.headers.get("content-type", "")
                yield from dialect.chunks(read_events(kind, response.pieces(), self._settings))
        except (OSError, HTTPException) as exc:
            # Not `from exc`: a cause is shown in logs, with what it holds.
            raise explain(CallFailure(reason_of(exc)), self._settings) from None

    def _body(self, call: ProviderCall, dialect: Dialect) -> bytes:
        history = call.request.history
        if history is None:
            return encode_body(dialect.body(call))
        return encoded_body(
            dialect, call, self._encoded_messages.setdefault(history, EncodedMessages())
        )

    def _headers(self, provider: Provider, dialect: Dialect) -> dict[str, str]:
        settings, token = self._settings, None
        key = settings.key
        if key is None and self._finds_key:
            key, token = (_first_of(names) for names in (provider.keys_in, provider.tokens_in))
        fields = {
            "content-type": "application/json",
            **dialect.headers(key),
            **bearer_headers(None if key else token),
            **{name.lower(): value for name, value in settings.extra_headers.items()},
        }
        for name, value in fields.items():
            if not all(text.isascii() and text.isprintable() for text in (name, value)):
                raise ModelError(
                    f"the header {name!r} for {self.name} has characters that HTTP cannot send",
                    hint="check the key and `llm.extraHeaders` for line breaks and special"
                    " characters",
                )
        return fields

    @cached_property
    def _capabilities(self) -> Capabilities:
        url = self._settings.base_url or _first_of(PROVIDERS["openai"].addresses_in)
        settings = self._settings.model_copy(update={"base_url": url})
        address, provider = self._address, find_provider(self._settings, price_table())
        name = provider.model_in(self.name) if provider else self.name
        facts = read_facts(self._settings, address, name) if address else None
        return find_capabilities(settings, price_table(), facts)

    @cached_property
    def _address(self) -> str | None:
        return server_address(self._settings, price_table())

    def _price(self, usage: Usage) -> float | None:
        """Return the cost in US dollars by the user's prices, else litellm's table; else None.

        A model on this machine costs nothing.
        """
        per_input = self._settings.input_cost_per_token
        per_output = self._settings.output_cost_per_token
        if per_input is not None and per_output is not None:
            return usage.input_tokens * per_input + usage.output_tokens * per_output
        if costs_nothing(self._settings, self._address, price_table()):
            return 0.0
        key = self._capabilities.table_entry
        return None if key is None else cost_usd(price_table()[key], usage, datetime.now(UTC))


_DIALECTS: Mapping[str, Dialect] = {"anthropic": ANTHROPIC, "chat": CHAT, "responses": RESPONSES}
_MAX_REFUSAL_BYTES = 1 << 20


def _dialect_of(call: ProviderCall, provider: Provider) -> Dialect:
    if provider.dialect != "chat":
        return _DIALECTS[provider.dialect]
    if call.can.api == "responses" and not provider.has_responses:
        raise no_responses(call.settings)
    return _DIALECTS[call.can.api]


def _first_of(variables: Iterable[str]) -> str | None:
    return next(filter(None, map(os.environ.get, variables)), None)


def _require_success(response: Response, settings: LLMSettings) -> None:
    if response.status < HTTPStatus.MULTIPLE_CHOICES:
        return
    body = b""
    for piece in response.pieces():
        body += piece
        if len(body) > _MAX_REFUSAL_BYTES:
            break
    text = body.decode("utf-8", "replace").strip() or response.reason
    raise explain(CallFailure(text, response.status, response.headers), settings)
