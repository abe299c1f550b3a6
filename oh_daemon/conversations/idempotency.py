"""Requests that take effect only once, however often they come with the same id.

A repeated request is recognised by the event that the first one caused, also after a restart.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from typing import Any

from msgspec import Struct

from oh_daemon.kernel.conversation import Conversation
from oh_daemon.kernel.journal import new_id
from oh_daemon.kernel.ports import Json
from oh_daemon.protocol import events as e
from oh_daemon.protocol import messages as m

_STARTS = uuid.UUID("6f682d64-6165-6d6f-6e2d-737461727473")
"""The UUID namespace in which a `clientRequestId` gives the id of its conversation."""


def new_conversation_id(request_id: str | None) -> str:
    """Return an id for the conversation that is started: a repeated start finds the first one."""
    return uuid.uuid5(_STARTS, request_id).hex if request_id else new_id()


class Repeatable(Struct, frozen=True):
    """A request that may be a repetition."""

    method: str
    params: Any
    """Of any method; the model of its parameters."""

    @property
    def id(self) -> str | None:
        """What the client named the request, or its message; None if it may not be repeated."""
        match self.params:
            case m.SendMessageParams(client_request_id=None, client_message_id=str() as message_id):
                return f"message {message_id}"
            case m.StartParams() | m.StartsWork():
                return self.params.client_request_id
            case _:
                return None

    def earlier(self, conversation: Conversation) -> Json | None:
        """Return the answer to the first request with this id, if there was one."""
        if self.id is None:
            return None
        return conversation.earlier_result(self.method, self.id, self._body_hash())

    def cause(self, result: Json) -> e.Cause | None:
        """Return what the event caused by this request says about it."""
        if self.id is None:
            return None
        return e.Cause(
            method=self.method,
            client_request_id=self.id,
            body_hash=self._body_hash(),
            result=result,
        )

    def _body_hash(self) -> str:
        body = self.params.model_dump(mode="json", exclude={"client_request_id"})
        return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
