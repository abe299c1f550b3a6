"""What the terminal does to the conversation that it follows, here or in a daemon elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from oh_daemon.conversations.conversations import Conversations
from oh_daemon.conversations.open_conversation import OpenConversation
from oh_daemon.features.approval.consent import reject_unattended
from oh_daemon.protocol import plain
from oh_daemon.protocol.approvals import Decision

OFFERS_S = 60.0


class ConversationControl(Protocol):
    """One conversation, with its sub-agents."""

    @property
    def id(self) -> str: ...

    def pending_requests(self, ids: Iterable[str]) -> Iterator[plain.Approval | plain.InputRequest]:
        """Yield those requests that still wait for an answer."""
        ...

    def decide(self, approval: plain.Approval, decision: Decision) -> None: ...

    def reject_unattended(self, approval: plain.Approval) -> None:
        """Reject it because there is nobody to ask."""

    def answer(self, question: plain.InputRequest, text: str) -> None:
        """Answer a question; an empty text declines."""

    def interrupt(self) -> None:
        """End the turn; may wait for that."""

    def answer_apply_prompts(self) -> None:
        """Wait until the agent has acted on the offers that were answered as the turn ended."""


@dataclass(frozen=True, slots=True)
class DeskHere:
    """A conversation of this process."""

    open_conversation: OpenConversation
    conversations: Conversations

    @property
    def id(self) -> str:
        return self.open_conversation.id

    def pending_requests(self, ids: Iterable[str]) -> Iterator[plain.Approval | plain.InputRequest]:
        state = self.open_conversation.conversation.state
        return (request for each in ids if (request := state.pending.get(each)) is not None)

    def decide(self, approval: plain.Approval, decision: Decision) -> None:
        if (asking := self.conversations.find_open(approval["conversationId"])) is not None:
            respond = asking.conversation.decisions.respond
            respond(approval["id"], approval["digest"], decision)

    def reject_unattended(self, approval: plain.Approval) -> None:
        reject_unattended(
            self.open_conversation.conversation.journal, approval["id"], approval["digest"]
        )

    def answer(self, question: plain.InputRequest, text: str) -> None:
        decisions = self.open_conversation.conversation.decisions
        decisions.answer(question["id"], "accept" if text else "decline", text or None)

    def interrupt(self) -> None:
        self.open_conversation.conversation.interrupt()

    def answer_apply_prompts(self) -> None:
        conversation = self.open_conversation.conversation
        with conversation.journal.condition:
            conversation.journal.condition.wait_for(
                lambda: not conversation.state.answered_prompts(), OFFERS_S
            )
