"""Puts approvals and questions of one session before the user, and takes the answers.

Only while a prompt is open, since clients ignore them at other times: what waits then is asked in
the next prompt. Only an option that was offered allows; anything else rejects.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from oh_daemon.common.plain_text import display_escaped
from oh_daemon.features.approval.consent import reject_unattended
from oh_daemon.frontends.acp.connection import AcpConnection
from oh_daemon.frontends.acp.updates import locations, reader_of, shown_subject
from oh_daemon.jsonrpc.client import ClientAnswer, SharedQuestions
from oh_daemon.jsonrpc.reading import field_in
from oh_daemon.kernel.conversation import Decisions
from oh_daemon.kernel.journal import History, Journal
from oh_daemon.kernel.ports import Json, Question
from oh_daemon.kernel.state import is_tool_item
from oh_daemon.protocol import plain
from oh_daemon.protocol.approvals import Decision
from oh_daemon.protocol.errors import DaemonError

if TYPE_CHECKING:
    from oh_daemon.frontends.acp import schema as acp

Asked: TypeAlias = "plain.Approval | plain.InputRequest"
log = logging.getLogger(__name__)

_ANSWER = "answer"
_REFUSED = "the user did not allow this before, in this session"


class PermissionRequests:
    """Thread-safe. The client never has the same request open twice."""

    def __init__(
        self,
        connection: AcpConnection,
        session_id: str,
        is_heard: Callable[[], bool],
        announce: Callable[[acp.ToolCall], None],
    ) -> None:
        """`is_heard` says whether a prompt is open; `announce` tells of a call."""
        self._to = connection
        self._session_id = session_id
        self._is_heard = is_heard
        self._announce = announce
        self._questions = SharedQuestions(connection.outbox, connection.client)
        self._refused_ids: set[str] = set()
        """The digests of folders that the user does not trust."""

    def can_answer(self, _question: Question) -> bool:
        return self._to.facts.offers("elicitation", "form")

    def on_event(self, history: History, event: plain.Event) -> None:
        match event["type"]:
            case "approval.requested":
                self._ask(history, event["approval"])
            case "input.requested":
                self._ask(history, event["input"])
            case "approval.resolved":
                self._questions.withdraw([event["approvalId"]])
            case "input.resolved":
                self._questions.withdraw([event["inputId"]])
            case _:
                pass

    def ask_again(self, histories: Iterable[Journal]) -> None:
        """Ask whatever waits for the user, but for what is just being asked."""
        for history in histories:
            with history.condition:
                pending = list(history.state.pending.values())
            for request in pending:
                self._ask(history, request)

    def _ask(self, history: History, request: Asked) -> None:
        if not self._is_heard() or not isinstance(history, Journal):
            return
        if "prompt" in request:
            form = "elicitation/create", self._elicitation(request)
            on_answer = partial(_take_answer, history, request)
        elif request["digest"] in self._refused_ids:
            with suppress(DaemonError):  # It may have been decided meanwhile.
                reject_unattended(history, request["id"], request["digest"], _REFUSED)
            return
        else:
            form = "session/request_permission", self._permission(history, request)
            on_answer = partial(self._take_decision, history, request)
        self._questions.ask(
            request["id"], self._session_id, form, partial(_take_answer_once, request, on_answer)
        )

    def _permission(
        self, history: History, approval: plain.Approval
    ) -> acp.RequestPermissionRequest:
        with history.condition:
            item = history.state.item(approval["itemId"])
        title = display_escaped(approval["title"])
        call: acp.ToolCall = {"toolCallId": approval["itemId"], "title": title, "kind": "other"}
        call["status"] = "pending"
        if is_tool_item(item):
            call["kind"], call["locations"] = item["toolKind"], locations(item)
        self._announce(call)
        call["content"] = shown_subject(approval, reader_of(history))
        tool_call: acp.ToolCallUpdate = {**call}
        return {
            "sessionId": self._session_id,
            "toolCall": tool_call,
            "options": options_of(approval),
        }

    def _elicitation(self, question: plain.InputRequest) -> Json:
        answer: Json = {"type": "string", "title": "Answer"}
        if choices := question.get("choices"):
            answer["enum"] = list(choices)
        schema = {"type": "object", "properties": {_ANSWER: answer}, "required": [_ANSWER]}
        message = display_escaped(question["prompt"])
        form = {"mode": "form", "message": message, "requestedSchema": schema}
        return {"sessionId": self._session_id, **form}

    def _take_decision(
        self, journal: Journal, approval: plain.Approval, answer: ClientAnswer
    ) -> None:
        option_id = field_in(answer.result, "outcome", "optionId")
        option_ids = {option["optionId"] for option in options_of(approval)}
        options = [
            o for o in approval["options"] if o["id"] == option_id and option_id in option_ids
        ]
        if answer.outcome == "refused":
            reject_unattended(journal, approval["id"], approval["digest"])
            return
        decision = Decision(effect="reject")
        if options:
            decision = Decision(effect=options[0]["effect"], scope=options[0]["scope"])
        if decision.effect == "reject" and approval["subject"]["kind"] == "trust":
            self._refused_ids.add(approval["digest"])
        Decisions(journal).respond(approval["id"], approval["digest"], decision)


def options_of(approval: plain.Approval) -> list[acp.PermissionOption]:
    """Return the answers that are offered: at most one of each kind, the narrowest first.

    Most clients show one option of each kind; the narrowest one that allows counts as once. Trust
    in a server's marks covers something else, so it comes in addition.
    """
    kinds: dict[str, Iterator[acp.PermissionOptionKind]] = {
        "allow": iter(("allow_once", "allow_always")),
        "reject": iter(("reject_once",)),
    }
    permission_options: list[acp.PermissionOption] = []
    for option in approval["options"]:
        is_about_server = option["scope"] == "server"
        kind = "allow_always" if is_about_server else next(kinds[option["effect"]], None)
        if kind is not None:
            permission_options.append(
                {"optionId": option["id"], "name": option["label"], "kind": kind}
            )
    return permission_options


def _take_answer_once(
    request: Asked, on_answer: Callable[[ClientAnswer], None], answer: ClientAnswer
) -> None:
    if answer.outcome == "gone":
        return
    try:
        on_answer(answer)
    except DaemonError as exc:
        # Fail closed: it stays pending, and the next prompt asks again.
        log.warning("request %s: the answer does not count: %s", request["id"], exc)


def _take_answer(journal: Journal, question: plain.InputRequest, answer: ClientAnswer) -> None:
    content = field_in(answer.result, "content", _ANSWER)
    is_given = (
        field_in(answer.result, "action") == "accept" and isinstance(content, str) and content
    )
    action = "accept" if is_given else "decline"
    Decisions(journal).answer(question["id"], action, content if is_given else None)
