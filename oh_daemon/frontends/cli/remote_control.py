"""The control of a conversation that a daemon elsewhere has, and what that daemon tells of it."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

from oh_daemon.features.approval.consent import NOBODY_THERE
from oh_daemon.frontends.cli.conversation_control import OFFERS_S
from oh_daemon.frontends.cli.turn_watch import TurnWatch
from oh_daemon.frontends.client.connection import DaemonClient
from oh_daemon.kernel.ports import Json
from oh_daemon.protocol import plain
from oh_daemon.protocol.approvals import Decision
from oh_daemon.protocol.errors import DaemonError


class RemoteControl:
    """A conversation of a daemon elsewhere; `take` says which."""

    id = model = ""

    def __init__(self, daemon: DaemonClient, watch: TurnWatch) -> None:
        """Let `watch` have what the daemon tells."""
        self._daemon = daemon
        self._watch = watch
        self._condition = threading.Condition()
        self._ended_ids = set[str]()
        """Items that have ended: what is asked about one is an offer."""
        self._apply_prompts = set[str]()
        """Those whose answers nobody has acted on yet."""
        self._resolved_ids = set[str]()
        """Requests that were answered, by whichever client."""
        daemon.deliver(self._on_signal, watch.fail)

    def take(self, info: Json) -> None:
        """Take a `ConversationInfo`."""
        self.id, self.model = info["id"], info["model"]

    def _on_signal(self, method: str, params: Any) -> None:
        if method == "conversation/event":
            with self._condition:
                self._on_event(params["event"])
        self._watch.take(method, params)

    def _on_event(self, event: Json) -> None:
        match event["type"]:
            case "item.completed":
                item = event["item"]
                self._ended_ids.add(item["id"])
                self._apply_prompts.discard(item.get("settles", ""))
                self._condition.notify_all()
            case "approval.resolved":
                self._resolved_ids.add(event["approvalId"])
            case "input.resolved":
                self._resolved_ids.add(event["inputId"])
            case _:
                pass

    def pending_requests(self, ids: Iterable[str]) -> Iterator[plain.Approval | plain.InputRequest]:
        for each in ids:
            pending = self.ask("conversation/open", replay="none")["pending"]
            yield from (request for request in pending if request["id"] == each)

    def is_pending(self, request: plain.Approval | plain.InputRequest) -> bool:
        with self._condition:
            return request["id"] not in self._resolved_ids

    def decide(self, approval: plain.Approval, decision: Decision) -> bool:
        with self._condition:
            self._apply_prompts |= {approval["itemId"]} & self._ended_ids
        return self._decide(approval, decision)

    def reject_unattended(self, approval: plain.Approval) -> None:
        self._decide(approval, Decision(effect="reject"), feedback=NOBODY_THERE)

    def _decide(self, approval: plain.Approval, decision: Decision, **more: str) -> bool:
        params = {"approvalId": approval["id"], "digest": approval["digest"], "decision": decision}
        return self._daemon.request("approval/respond", {**params, **more})["resolved"]

    def answer(self, question: plain.InputRequest, text: str) -> bool:
        answer = {"action": "accept", "content": text} if text else {"action": "decline"}
        return self._daemon.request("input/respond", {"inputId": question["id"], **answer})[
            "resolved"
        ]

    def interrupt(self) -> None:
        with suppress(DaemonError):
            self.ask("conversation/interrupt")

    def answer_apply_prompts(self) -> None:
        with self._condition:
            self._condition.wait_for(lambda: not self._apply_prompts, OFFERS_S)

    def ask(self, method: str, **params: Any) -> Json:
        """Ask something about the conversation."""
        return self._daemon.request(method, {"conversationId": self.id, **params})
