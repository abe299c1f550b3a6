"""Puts approvals and questions before the user, in order, and takes the answers.

Only an option that was offered decides an approval; any other answer leaves it pending.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias, cast

from oh_daemon.common.plain_text import display_escaped
from oh_daemon.features.approval.consent import reject_unattended
from oh_daemon.features.approval.handlers import chosen_option
from oh_daemon.frontends.lsp.client_facts import ClientFacts
from oh_daemon.jsonrpc.client import Client, ClientAnswer, SharedQuestions
from oh_daemon.jsonrpc.framing import encode
from oh_daemon.jsonrpc.outbox import Outbox
from oh_daemon.kernel.approval_requests import before_user
from oh_daemon.kernel.conversation import Decisions
from oh_daemon.kernel.journal import History, Journal
from oh_daemon.kernel.ports import Json, Question
from oh_daemon.protocol import plain
from oh_daemon.protocol.approvals import InputAnswer
from oh_daemon.protocol.base import parse_strictly
from oh_daemon.protocol.errors import DaemonError
from oh_daemon.protocol.to_client import ApprovalAnswer

Asked: TypeAlias = "plain.Approval | plain.InputRequest"

log = logging.getLogger(__name__)

_BY_MESSAGE = "window/showMessageRequest"
_WARNING, _INFO = 2, 3


class ApprovalPrompts:
    """Any thread may ask; the client never has the same request open twice."""

    def __init__(self, outbox: Outbox, client: Client, facts: ClientFacts) -> None:
        self._outbox = outbox
        self._features = facts.features
        # LSP has the request since its beginnings and the capability only for its details.
        self._asks_lsp = facts.is_plain or facts.offers("window", "showMessage")
        """Until the client answers that it does not know the request."""
        self._is_panel = facts.is_panel
        self.shown_in_chat: set[str] = set()
        """Conversations whose user sees what is asked in a file, and answers by code action."""
        self.can_ask_others: Callable[[str], bool] = lambda _conversation_id: False
        """Whether other clients take part, so that what this one cannot ask about waits."""
        self.carry_on: Callable[[str], object] = lambda _conversation_id: None
        """Called after an answer to a message of LSP; see `Daemon.carry_on`."""
        self._questions = SharedQuestions(outbox, client)
        self.withdraw = self._questions.withdraw

    def can_ask(self) -> bool:
        has_prompts = "approvalRequests" in self._features or self._asks_lsp or self._is_panel
        return has_prompts or bool(self.shown_in_chat)

    def can_answer(self, question: Question) -> bool:
        by_message = self._asks_lsp and bool(question.choices)
        return "inputRequests" in self._features or self._is_panel or by_message

    def on_record(self, history: History, record: plain.Record) -> None:
        event = record["event"]
        match event["type"]:
            case "approval.requested":
                self.ask(history, event["approval"])
            case "input.requested":
                self.ask(history, event["input"])
            case "approval.resolved":
                self.withdraw([event["approvalId"]])
            case "input.resolved":
                self.withdraw([event["inputId"]])
            case _:
                pass

    def ask(self, history: History, request: Asked) -> None:
        """Ask the client, after the events so far, unless this request is open already."""
        if (form := self._form_of(request)) is not None:
            on_answer = partial(self._take_answer, history, request, form)
            self._questions.ask(request["id"], history.id, form, on_answer)

    def _form_of(self, request: Asked) -> tuple[str, Any] | None:
        """Return the method and params to ask this client with; None if it only sees the event."""
        kind = "input" if "prompt" in request else "approval"
        if f"{kind}Requests" in self._features:
            return f"{kind}/request", request
        message = _question_as_message(request) if "prompt" in request else _as_message(request)
        return (_BY_MESSAGE, message) if self._asks_lsp and message else None

    def _take_answer(
        self, history: History, request: Asked, form: tuple[str, Any], answer: ClientAnswer
    ) -> None:
        if not (answer.lacks_method and form[0] == _BY_MESSAGE):
            _take_answer(history, request, answer)
            if form[0] == _BY_MESSAGE and request["id"] not in history.state.pending:
                self.carry_on(history.id)
            return
        self._asks_lsp = False
        if history.id not in self.shown_in_chat:
            self._do_without(history, request, form[1])

    def _do_without(self, history: History, request: Asked, message: Json) -> None:
        """Reject an action that the client cannot ask about; only show it a question."""
        if "prompt" in request:
            lines = (message["message"], *(f"- {each['title']}" for each in message["actions"]))
            notification = {
                "type": _INFO,
                "message": "\n".join((*lines, "Send a message to answer.")),
            }
            self._outbox.notify("window/showMessage", encode(notification))
        elif isinstance(history, Journal) and not self.can_ask_others(history.id):
            reject_unattended(history, request["id"], request["digest"])


def _as_message(approval: plain.Approval) -> Json:
    """Show the whole action or offer no way to allow it: nobody may allow what they cannot see."""
    title = display_escaped(approval["title"])
    text, options = before_user(approval)
    note = "\nIt is too long to be shown here, so it can only be rejected here."
    body = note if text is None else "" if text in title else f"\n{text}"
    reason = approval.get("reason")
    why = f" ({reason})" if reason else ""
    risk = f"\nRisk: {approval['risk']}{why}"
    actions = [{"title": option["label"]} for option in options]
    return {"type": _WARNING, "message": f"{title}{body}{risk}", "actions": actions}


def _question_as_message(question: plain.InputRequest) -> Json | None:
    if question["kind"] == "text":
        return None
    actions = [{"title": choice} for choice in question.get("choices", ())]
    return {"type": _INFO, "message": display_escaped(question["prompt"]), "actions": actions}


def _take_answer(history: History, request: Asked, answer: ClientAnswer) -> None:
    if not isinstance(answer.result, dict) or not isinstance(history, Journal):
        return
    result = cast("Json", answer.result)  # pyright: ignore[reportUnknownMemberType] - any JSON.
    try:
        if "prompt" in request:
            _take_input(history, request, result)
        else:
            _take_decision(history, request, result)
    except (DaemonError, ValueError) as exc:
        # Fail closed: the request stays pending, and opening the conversation asks again.
        log.warning("request %s: the answer does not count: %s", request["id"], exc)


def _take_input(journal: Journal, question: plain.InputRequest, result: Json) -> None:
    if "title" in result:
        result = {"action": "accept", "content": result["title"]}
    answer = parse_strictly(InputAnswer, result)
    if answer.action is not None:
        Decisions(journal).answer(question["id"], answer.action, answer.content)


def _take_decision(journal: Journal, approval: plain.Approval, result: Json) -> None:
    if not result:
        return  # The editor decides later, with `approval/respond`.
    if "optionId" in result:
        decision = chosen_option(approval, by="id", value=result["optionId"])
    else:
        decision = chosen_option(approval, by="label", value=result.get("title"))
    if decision is None:
        log.warning("approval %s: the answer names no option that was offered", approval["id"])
        return
    more = parse_strictly(ApprovalAnswer, result)
    Decisions(journal).respond(
        approval["id"],
        approval["digest"],
        decision,
        feedback=more.feedback,
        edited_subject=more.edited_subject,
    )
