"""What all sessions of one client share."""

from __future__ import annotations

from functools import partial

from msgspec import Struct, field

from oh_daemon.conversations.services import ConversationContext
from oh_daemon.frontends.acp.chunks import SentText
from oh_daemon.frontends.acp.client_facts import AcpClientFacts
from oh_daemon.frontends.acp.projector import Projector
from oh_daemon.frontends.acp.updates import SupportedUpdates
from oh_daemon.jsonrpc.client import Client
from oh_daemon.jsonrpc.outbox import Outbox


class AcpConnection(Struct, frozen=True):
    """What all sessions of a client share."""

    outbox: Outbox
    client: Client
    facts: AcpClientFacts
    streams: SentText
    context: ConversationContext
    """The context of conversations that no session has open."""
    projector: Projector = field(default_factory=Projector)

    @property
    def shows(self) -> SupportedUpdates:
        has = partial(self.facts.offers, "session")
        return SupportedUpdates(notices=has("notices"), compaction=has("compaction"))
