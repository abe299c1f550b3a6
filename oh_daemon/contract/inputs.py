"""The agent's questions to the user: the question, how a client is asked, how it answers."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from oh_daemon.contract.base import Contract

InputAction = Literal["accept", "decline", "cancel"]


class InputRequest(Contract):
    """A question of the agent, kept until the user answers. The model wrote it: untrusted."""

    id: str
    conversation_id: str
    turn_id: str
    item_id: str
    kind: Literal["text", "choice"]
    prompt: str
    choices: tuple[str, ...] | None = None
    """Suggested answers for kind `choice`; the user may answer with any other text too."""
    created_at: str


Answer = Annotated[str, Field(max_length=1 << 16)]


class InputAnswer(Contract):
    """Without an action, nothing is decided: the question stays open."""

    action: InputAction | None = None
    content: Answer | None = None
    """The text or the chosen answer; required to accept."""


class InputRequestParams(InputRequest):
    """Ask the user a question; `inputRequests`, else `window/showMessageRequest` for choices."""


class InputRespondParams(Contract):
    """Answer a question of the agent; the first answer wins."""

    input_id: str
    action: InputAction
    content: Answer | None = None
    """The text or the chosen answer; required to accept."""


class RespondResult(Contract):
    """Whether this answer to an approval or a question took effect, or which one came first."""

    resolved: bool
    already_resolved: dict[str, Any] | None = None
