"""Usage of a model call, as the log keeps it, and its sums by model and day over any logs."""

from __future__ import annotations

import json

from oh_daemon.kernel.folding import add_usage
from oh_daemon.kernel.ports import Clock, Json, Model, ModelAnswer, ModelRequest, Progress
from oh_daemon.protocol import plain
from oh_daemon.protocol.events import UsageUpdated


def bill_model(
    model: Model, request: ModelRequest, progress: Progress, clock: Clock
) -> tuple[ModelAnswer, UsageUpdated]:
    """Return the answer and its usage; only a step's usage says how full the context is."""
    start_s = clock.monotonic()
    answer = model.complete(request, progress)
    is_step = request.purpose is None
    return answer, UsageUpdated(
        usage=answer.usage,
        model=answer.model or model.name,
        latency_ms=int((clock.monotonic() - start_s) * 1000),
        context_used=answer.usage.input_tokens if is_step else 0,
        context_size=model.traits.context_window if is_step else None,
        purpose=request.purpose,
    )


class Bill:
    """Sums up usage; counts each call once, even if the log of a branch has a copy of it."""

    def __init__(self, since: str = "") -> None:
        """Leave out calls before `since`, a time in ISO 8601, UTC, or the start of one."""
        self._since = since
        self._keys: set[str] = set()
        self._total: plain.Usage | None = None
        self._by_model: dict[str, plain.Usage] = {}
        self._by_day: dict[str, plain.Usage] = {}

    def add(self, record: plain.Record) -> None:
        """Add one record of a log."""
        event, ts = record["event"], record["ts"]
        if event["type"] != "usage.updated" or ts < self._since:
            return
        key = ts + json.dumps(event, sort_keys=True)
        if key in self._keys:
            return
        self._keys.add(key)
        usage, model, day = event["usage"], event["model"], ts[:10]
        self._total = add_usage(self._total, usage)
        self._by_model[model] = add_usage(self._by_model.get(model), usage)
        self._by_day[day] = add_usage(self._by_day.get(day), usage)

    def render(self) -> Json:
        """Return the sums by wire names: most input tokens first among models, newest day first."""
        models = sorted(self._by_model.items(), key=lambda pair: -pair[1].get("inputTokens", 0))
        days = sorted(self._by_day.items(), reverse=True)
        return {
            "usage": self._total or {},
            "byModel": [{"model": model, "usage": usage} for model, usage in models],
            "byDay": [{"day": day, "usage": usage} for day, usage in days],
        }
