"""The models that the client reaches for us: a call is sent as `model/complete`.

The client has the keys and makes all attempts. Invariant: each call ends with an answer of the
client, an error, or a cancel, and what it says on the way comes before.
"""

from __future__ import annotations

import math
import uuid
from queue import SimpleQueue
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from oh_daemon.common.cancel import Cancelled, CancelToken
from oh_daemon.features.models.capabilities import edits_by_patch
from oh_daemon.jsonrpc.client import Client, ClientAnswer, error_of
from oh_daemon.jsonrpc.dispatch import Notification
from oh_daemon.kernel.ports import (
    Caveat,
    Json,
    Model,
    ModelAnswer,
    ModelDelta,
    ModelRequest,
    Progress,
    Retry,
    ToolCall,
    Traits,
)
from oh_daemon.protocol import errors as e
from oh_daemon.protocol.base import first_error, parse_strictly, problem_in
from oh_daemon.protocol.llm import LLMSettings
from oh_daemon.protocol.model_requests import (
    ModelCompleteParams,
    ModelCompleteResult,
    ModelDescribeResult,
    ModelOffer,
    ModelProgressParams,
    OfferedModel,
)

_DESCRIBE_S = 60.0

Parsed = TypeVar("Parsed", bound=BaseModel)
_Inbox = SimpleQueue[ModelProgressParams | ClientAnswer | None]


class ClientModels:
    """What a client offered in `initialize`. Thread-safe."""

    def __init__(self, client: Client, offer: Json, secrets: dict[str, str]) -> None:
        """Raises `InvalidParamsError` for an offer that has another form."""
        try:
            model_offer = parse_strictly(ModelOffer, offer)
        except ValidationError as exc:
            path, what = first_error(exc, "initializationOptions", "ohDaemon", "models")
            raise e.InvalidParamsError.at(path, what) from None
        self.secrets = secrets
        self._client = client
        self._default = model_offer.default
        self._offered_models = model_offer.listed
        self._inboxes: dict[str, _Inbox] = {}
        self._traits: dict[str, Traits] = {}

    def model_infos(self) -> tuple[OfferedModel, ...]:
        return self._offered_models

    def default_name(self) -> str | None:
        return self._default

    def require_default(self) -> str:
        """Raises `AuthRequiredError` when the client has no default model."""
        if self._default is None:
            raise e.AuthRequiredError(
                "the client offers no model that can be used",
                hint="run `oh-daemon login` where the client runs, or choose a model",
            )
        return self._default

    def model_for(self, name: str) -> Model:
        """Return the model of this name; whether the client has it shows at the first call."""
        model_offer = next((each for each in self._offered_models if each.id == name), None)
        if model_offer is None:
            return _ClientModel(self, name, name, edits_by_patch(LLMSettings(model=name)))
        return _ClientModel(self, name, model_offer.label, model_offer.edits_by_patch)

    def efforts_of(self, name: str) -> tuple[str, ...]:  # noqa: ARG002 - no client reports any.
        return ()

    def traits_of(self, name: str) -> Traits:
        """Ask the client at the first use."""
        if name not in self._traits:
            answer = self._client.request(
                "model/describe", {"model": name}, deadline_s=_DESCRIBE_S, cancel=CancelToken()
            )
            if answer.outcome != "answered":
                return Traits()  # The call will say why.
            self._traits[name] = _traits(_parse_as(ModelDescribeResult, answer.result))
        return self._traits[name]

    def complete(self, name: str, request: ModelRequest, progress: Progress) -> ModelAnswer:
        call_id = uuid.uuid4().hex
        inbox = self._inboxes[call_id] = _Inbox()
        params = ModelCompleteParams(
            call_id=call_id,
            model=name,
            messages=tuple(request.messages),
            tools=tuple(request.tools),
            tool_choice=request.tool_choice,
            cache_key=request.cache_key,
            purpose=request.purpose,
        )
        withdraw = self._client.request_async("model/complete", params, inbox.put)
        forget = progress.cancel.on_cancel(lambda: inbox.put(None))
        try:
            return _answer(_passed_on(inbox, progress))
        finally:
            forget()
            withdraw()
            del self._inboxes[call_id]

    def notifications(self) -> dict[str, Notification]:
        return {"model/progress": self._on_progress}

    def _on_progress(self, params: Json) -> None:
        """Take it to the thread that waits for the answer, which passes it on."""
        progress = parse_strictly(ModelProgressParams, params)
        if (inbox := self._inboxes.get(progress.call_id)) is not None:
            inbox.put(progress)


class _ClientModel:
    """One model, as the port says."""

    def __init__(self, models: ClientModels, name: str, label: str, by_patch: bool) -> None:
        self._models = models
        self.name = name
        self.label = label
        self.edits_by_patch = by_patch

    @property
    def traits(self) -> Traits:
        return self._models.traits_of(self.name)

    def complete(self, request: ModelRequest, progress: Progress) -> ModelAnswer:
        return self._models.complete(self.name, request, progress)


def _passed_on(inbox: _Inbox, progress: Progress) -> ClientAnswer:
    """Tell what the client says on the way, and return its answer. Raises `Cancelled`."""
    while not isinstance(message := inbox.get(), ClientAnswer):
        if message is None:
            raise Cancelled
        if message.delta is not None:
            progress.on_delta(ModelDelta(message.delta.channel, message.delta.text))
        if (it := message.retry) is not None:
            error = error_of(it.error, e.ModelError)
            progress.on_retry(Retry(it.attempt, it.max_attempts, it.delay_s, error, it.model))
    return message


def _answer(answer: ClientAnswer) -> ModelAnswer:
    if answer.outcome == "refused":
        raise error_of(answer.error, e.ModelError)
    if answer.outcome != "answered":
        raise e.NetworkError(answer.message, hint="the conversation goes on when it is back")
    result = _parse_as(ModelCompleteResult, answer.result)
    values: Json = {name: getattr(result, name) for name in ModelCompleteResult.model_fields}
    values["tool_calls"] = tuple(ToolCall(**vars(call)) for call in result.tool_calls)
    return ModelAnswer(**values)


def _parse_as(kind: type[Parsed], value: object) -> Parsed:
    try:
        return parse_strictly(kind, value)
    except ValidationError as exc:
        wrong = problem_in(exc, label="the answer")
        raise e.ModelError(f"the client's answer for a model cannot be read: {wrong}") from None


def _traits(description: ModelDescribeResult) -> Traits:
    price = description.input_price
    caveats = description.caveats
    return Traits(
        context_window=description.context_window,
        may_be_wider=description.may_be_wider,
        sees_images=description.sees_images,
        reads_pdfs=description.reads_pdfs,
        caveats=tuple(
            Caveat(each.code, each.title, each.description, each.about) for each in caveats
        ),
        input_price=math.inf if price is None else price,
    )
