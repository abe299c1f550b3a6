"""Answers what the daemon elsewhere asks of models: with the keys, settings and network of here.

Only names and texts come from there; which address and key belong to a name is decided here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from msgspec import to_builtins

from oh_daemon.features.models.capabilities import edits_by_patch
from oh_daemon.features.models.models import Models
from oh_daemon.frontends.remote.call_budget import CallBudget
from oh_daemon.frontends.remote.opening import plain
from oh_daemon.jsonrpc.dispatch import Method, RequestContext, describe_error
from oh_daemon.kernel.ports import Json, ModelDelta, ModelRequest, Progress, Retry
from oh_daemon.protocol.base import parse_strictly
from oh_daemon.protocol.daemon_messages import SecretSetParams
from oh_daemon.protocol.errors import ModelError
from oh_daemon.protocol.model_requests import (
    ModelCompleteParams,
    ModelCompleteResult,
    ModelDescribeParams,
    ModelDescribeResult,
    ModelOffer,
    OfferedModel,
)

_MAX_CALLS = 64


class LocalModels:
    """The user's models, for a daemon elsewhere. Thread-safe."""

    def __init__(
        self, models: Models, notify: Callable[[str, Json], None], budget: CallBudget
    ) -> None:
        self._models = models
        self._budget = budget
        self._notify = notify
        self._workers = ThreadPoolExecutor(_MAX_CALLS, thread_name_prefix="model-here")
        self.methods: Mapping[str, Method] = {
            "model/describe": self._describe,
            "model/complete": self._complete,
        }
        """For the daemon there."""
        self.of_editor: Mapping[str, Method] = {"secret/set": self._set_key}
        """For the editor, which exposes keys."""

    @property
    def offer(self) -> Json:
        """What may be chosen there, a `ModelOffer`."""
        models = (
            OfferedModel(**dict(info), edits_by_patch=self._edits_by_patch(info.id))
            for info in self._models.model_infos()
        )
        offer = ModelOffer(default=self._models.default_name(), listed=tuple(models))
        return plain(offer)

    def forget_key(self, name: object) -> None:
        if isinstance(name, str):
            self._models.secrets.pop(name, None)

    def _edits_by_patch(self, name: str) -> bool:
        with suppress(ModelError):
            return edits_by_patch(self._models.llm_of(name))
        return False

    def _describe(self, params: Json, _context: RequestContext) -> Future[ModelDescribeResult]:
        name = parse_strictly(ModelDescribeParams, params).model

        def describe() -> ModelDescribeResult:
            traits = to_builtins(self._models.model_for(name).traits)
            if math.isinf(traits["input_price"]):
                traits["input_price"] = None
            return ModelDescribeResult.model_validate(traits)

        return self._workers.submit(describe)

    def _complete(self, params: Json, context: RequestContext) -> Future[ModelCompleteResult]:
        call = parse_strictly(ModelCompleteParams, params)
        request = ModelRequest(
            call.messages, call.tools, call.tool_choice, call.cache_key, call.purpose
        )

        def report_delta(**value: Any) -> None:
            self._notify("model/progress", {"callId": call.call_id, **value})

        def on_delta(delta: ModelDelta) -> None:
            report_delta(delta={"channel": delta.channel, "text": delta.text})

        def on_retry(retry: Retry) -> None:
            attempt = {"attempt": retry.attempt, "maxAttempts": retry.max_attempts}
            error = describe_error(retry.error, "model/complete")
            report_delta(
                retry={**attempt, "delayS": retry.delay_s, "error": error, "model": retry.model}
            )

        def complete() -> ModelCompleteResult:
            self._budget.check()
            model = self._models.model_for(call.model)
            answer = model.complete(request, Progress(context.cancel, on_delta, on_retry))
            self._budget.add(answer.usage)
            return ModelCompleteResult.model_validate(answer, from_attributes=True)

        return self._workers.submit(complete)

    def _set_key(self, params: Json, _context: RequestContext) -> Json:
        key = parse_strictly(SecretSetParams, params)
        self._models.secrets[key.name] = key.value.get_secret_value()
        return {"names": sorted(self._models.secrets), "forCommands": []}
