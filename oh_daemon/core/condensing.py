"""Makes room in a conversation that fills its model's window, before a request or after it failed.

`core.condensation` plans; this module asks the model for the summary and appends the result. The
call is on the conversation's bill, but does not count as a step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from oh_daemon.contract import events as e
from oh_daemon.contract.base import Contract
from oh_daemon.contract.errors import ModelError, NetworkError, RateLimitError
from oh_daemon.contract.items import CondensationItem
from oh_daemon.contract.settings import Condenser
from oh_daemon.core.answer import retry_event
from oh_daemon.core.bill import billed
from oh_daemon.core.cancel import CancelToken
from oh_daemon.core.condensation import (
    ASSUMED_WINDOW,
    CHARS_PER_TOKEN,
    FULL,
    SUMMARIZE,
    Plan,
    plan_cut,
    plan_last_resort,
    plan_pruning,
    render_transcript,
)
from oh_daemon.core.context import View, render_cut, size_of
from oh_daemon.core.conversation import Conversation
from oh_daemon.core.journal import new_id
from oh_daemon.core.ports import Json, Model, ModelRequest, Progress

_SUMMARIZING = {"summarize", "pipeline"}
_PRUNING = {"prune", "pipeline"}
_LEAST_TRANSCRIPT = 8_000


class Condensing:
    """Condenses one conversation; called by its worker only."""

    def __init__(
        self,
        conversation: Conversation,
        view: View,
        condenser: Condenser,
        before: Callable[[CancelToken], bool] = lambda _cancel: True,
    ) -> None:
        """`before` is called before anything is left out, and may forbid it."""
        self._before = before
        self._conversation = conversation
        self._view = view
        self._condenser = condenser
        self._asked_chars: int | None = None
        """Size of the last request, whose tokens the provider counted."""

    def messages(self, model: Model, cancel: CancelToken) -> list[Json]:
        """Return the next request's messages, condensed first if they would fill the window."""
        items = self._conversation.state.items
        messages = self._view.messages(items)
        window = model.context_window or ASSUMED_WINDOW
        if self._tokens() >= FULL * window and self.condense(model, cancel):
            messages = self._view.messages(items)
        self._asked_chars = self._view.n_chars
        return messages

    def _tokens(self) -> int:
        """Return the next request's tokens: the provider's last count, and later text estimated."""
        counted = self._conversation.state.context.get("used") or 0
        if self._asked_chars is None or not counted:
            return self._view.n_chars // CHARS_PER_TOKEN
        return max(0, counted + (self._view.n_chars - self._asked_chars) // CHARS_PER_TOKEN)

    def condense(self, model: Model, cancel: CancelToken) -> bool:
        """Prune or summarize, as the setting says; return False when that makes no room.

        Raises `NetworkError` and `RateLimitError`, which may pass with time, and `Cancelled`.
        """
        items, room = self._conversation.state.items, self._view.n_chars
        plan = plan_pruning(items, room) if self._condenser in _PRUNING else None
        if plan is None and self._condenser not in {"none", "prune"}:
            plan = plan_cut(items, room)
        return plan is not None and self._carry_out(plan, model, cancel)

    def strip(self, model: Model, cancel: CancelToken) -> bool:
        """Keep the last step only, outputs cut: a last resort after overflow, without a model."""
        plan = plan_last_resort(self._conversation.state.items)
        if plan is None or self._condenser == "none":
            return False
        return self._carry_out(plan, model, cancel)

    def by_hand(self, model: Model, cancel: CancelToken) -> None:
        """Condense at the user's request; log a note when there is nothing to condense."""
        conversation = self._conversation
        self._view.messages(conversation.state.items)
        plan = plan_cut(conversation.state.items, self._view.n_chars)
        if plan is None:
            nothing = CondensationItem(id=new_id(), reason="nothingToCondense")
            conversation.append(e.ItemCompleted(item=nothing))
        elif not self._carry_out(plan, model, cancel):
            kept = CondensationItem(id=new_id(), status="cancelled", reason="hook")
            conversation.append(e.ItemCompleted(item=kept))

    def _carry_out(self, plan: Plan, model: Model, cancel: CancelToken) -> bool:
        if not self._before(cancel):
            return False
        conversation, items = self._conversation, self._conversation.state.items
        now, before = conversation.clock.now(), self._tokens()
        item = CondensationItem(id=new_id(), status="running", started_at=now, tokens_before=before)
        conversation.append(e.ItemStarted(item=item))
        summary, told = plan.cut.summary, list[Contract]()
        if plan.dropped and self._condenser in _SUMMARIZING:
            summary, told = self._summarize(plan, model, cancel)
        cut = replace(plan.cut, summary=summary)
        saved = self._view.n_chars - sum(map(size_of, render_cut(cut, items)))
        ended = item.model_copy(
            update={
                "status": "completed",
                "ended_at": conversation.clock.now(),
                "keep_from": items[cut.start]["id"],
                "pruned": tuple(sorted(cut.pruned)),
                "summary": summary,
                "tokens_after": max(0, before - saved // CHARS_PER_TOKEN),
            }
        )
        conversation.append(*told, e.ItemCompleted(item=ended))
        return True

    def _summarize(
        self, plan: Plan, model: Model, cancel: CancelToken
    ) -> tuple[str | None, list[Contract]]:
        """Return the summary, None if the model gives none, and the events that go with it."""
        conversation = self._conversation
        wish = (conversation.state.condense_requested or {}).get("instructions")
        asked = f"{SUMMARIZE}\nThe user asks in particular: {wish}\n" if wish else SUMMARIZE
        known = model.context_window
        limit = known * CHARS_PER_TOKEN if known else self._view.n_chars
        transcript = render_transcript(
            plan.dropped, max(_LEAST_TRANSCRIPT, limit // 2), earlier=plan.earlier
        )
        request = ModelRequest(
            messages=[
                {"role": "system", "content": asked},
                {"role": "user", "content": f"<transcript>\n{transcript}\n</transcript>"},
            ],
            purpose="condensation",
        )
        progress = Progress(cancel, on_retry=lambda retry: conversation.append(retry_event(retry)))
        try:
            answer, usage = billed(model, request, progress, conversation.clock)
        except (NetworkError, RateLimitError):
            raise
        except ModelError as exc:
            problem = e.Notice(
                severity="warning",
                title="Older steps were dropped without a summary",
                description=str(exc),
            )
            return None, [problem]
        return answer.text.strip() or None, [usage]
