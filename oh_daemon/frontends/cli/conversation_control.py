"""What the terminal does to the conversation that it follows, here or in a daemon elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from msgspec import Struct

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

    def is_pending(self, request: plain.Approval | plain.InputRequest) -> bool:
        """Return whether a request that was reported still waits for an answer."""
        ...

    def decide(self, approval: plain.Approval, decision: Decision) -> bool:
        """Return whether this is the answer that counts: the first one does."""
        ...

    def reject_unattended(self, approval: plain.Approval) -> None:
        """Reject it because there is nobody to ask."""

    def answer(self, question: plain.InputRequest, text: str) -> bool:
        """Answer a question, an empty text declines; return whether this answer counts."""
        ...

    def interrupt(self) -> None:
        """End the turn; may wait for that."""

    def answer_apply_prompts(self) -> None:
        """Wait until the agent has acted on the offers that were answered as the turn ended."""


class LocalControl(Struct, frozen=True):
    """A conversation of this process."""

    open_conversation: OpenConversation
    conversations: Conversations

    @property
    def id(self) -> str:
        return self.open_conversation.id

    def pending_requests(self, ids: Iterable[str]) -> Iterator[plain.Approval | plain.InputRequest]:
        state = self.open_conversation.conversation.state
        return (request for each in ids if (request := state.pending.get(each)) is not None)

    def is_pending(self, request: plain.Approval | plain.InputRequest) -> bool:
        asking = self.conversations.find_open(request["conversationId"])
        return asking is not None and request["id"] in asking.conversation.state.pending

    def decide(self, approval: plain.Approval, decision: Decision) -> bool:
        asking = self.conversations.find_open(approval["conversationId"])
        if asking is None:
            return False
        respond = asking.conversation.decisions.respond
        return respond(approval["id"], approval["digest"], decision)["resolved"]

    def reject_unattended(self, approval: plain.Approval) -> None:
        reject_unattended(
            self.open_conversation.conversation.journal, approval["id"], approval["digest"]
        )

    def answer(self, question: plain.InputRequest, text: str) -> bool:
        decisions = self.open_conversation.conversation.decisions
        action = "accept" if text else "decline"
        return decisions.answer(question["id"], action, text or None)["resolved"]

    def interrupt(self) -> None:
        self.open_conversation.conversation.interrupt()

    def answer_apply_prompts(self) -> None:
        conversation = self.open_conversation.conversation
        with conversation.journal.condition:
            conversation.journal.condition.wait_for(
                lambda: not conversation.state.answered_prompts(), OFFERS_S
            )
