"""The user's answers to what waits for them: approvals and questions. The first answer wins."""

from __future__ import annotations

from typing import Literal

from oh_daemon.contract import events as e
from oh_daemon.contract.approvals import Subject
from oh_daemon.contract.errors import (
    ApprovalNotFoundError,
    ApprovalStaleError,
    InvalidParamsError,
)
from oh_daemon.contract.inputs import InputAction
from oh_daemon.core.approval import require_editable
from oh_daemon.core.journal import Journal
from oh_daemon.core.ports import Json
from oh_daemon.core.recovery import answering_events
from oh_daemon.core.state import State


class Decisions:
    """What waits for the user in one conversation. Thread-safe."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def respond(
        self,
        approval_id: str,
        digest: str,
        decision: e.Decision,
        *,
        feedback: str | None = None,
        edited_subject: Subject | None = None,
        by: Literal["user", "noClient"] = "user",
    ) -> Json:
        """Answer an approval; the first answer wins.

        Raises `ApprovalNotFoundError`, or `ApprovalStaleError` when the digest is not that of the
        pending approval: the user must have seen something else.
        """
        with self._journal.changed:
            approval = self._journal.state.approvals.get(approval_id)
            if approval is None:
                return _resolved_before(self._journal.state, approval_id, "decision")
            if digest != approval["digest"]:
                raise ApprovalStaleError(
                    f"approval {approval_id!r} has another digest; show it again before answering"
                )
            if edited_subject is not None:
                require_editable(approval, edited_subject)
            self._journal.append(
                e.ApprovalResolved(
                    approval_id=approval_id,
                    decision=decision,
                    by=by,
                    feedback=feedback,
                    edited_subject=edited_subject,
                )
            )
            return {"resolved": True}

    def answer(self, input_id: str, action: InputAction, content: str | None = None) -> Json:
        """Answer a question of the agent; the first answer wins. Action accept needs `content`.

        Raises `ApprovalNotFoundError`, or `InvalidParamsError` for an empty answer.
        """
        with self._journal.changed:
            question = self._journal.state.questions.get(input_id)
            if question is None:
                return _resolved_before(self._journal.state, input_id, "action")
            if action == "accept" and not (content or "").strip():
                raise InvalidParamsError.at("content", "is needed to accept: the answer", "missing")
            now = self._journal.clock.now()
            self._journal.append(
                *answering_events(self._journal.state, question, now, action, content)
            )
            return {"resolved": True}


def _resolved_before(state: State, request_id: str, outcome: str) -> Json:
    earlier = state.resolutions.get(request_id)
    if earlier is None or outcome not in earlier:
        raise ApprovalNotFoundError(request_id)
    shown = {key: value for key, value in earlier.items() if key in {"by", outcome}}
    return {"resolved": False, "alreadyResolved": shown}
