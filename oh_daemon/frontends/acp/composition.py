"""Puts the agent together once the client is known. It imports everything slow.

All sessions share the locks, the processes, the logs and the trust of this process.
"""

from __future__ import annotations

import os

from oh_daemon.conversations.daemon_log import log_to
from oh_daemon.conversations.services import ClientConnection, ConversationContext
from oh_daemon.conversations.services import compose as compose_services
from oh_daemon.features.sandbox.self_test import SelfTest
from oh_daemon.features.settings.places import Places
from oh_daemon.features.settings.sources import SettingsSources
from oh_daemon.frontends.acp.client_facts import AcpClientFacts
from oh_daemon.frontends.acp.connection import AcpConnection
from oh_daemon.frontends.acp.prompts import Prompts
from oh_daemon.frontends.acp.server import AcpServer
from oh_daemon.frontends.acp.sessions import Sessions
from oh_daemon.jsonrpc.main_loop import Service


def compose(server: AcpServer, facts: AcpClientFacts) -> Service:
    """Build everything behind the methods. Called on the main loop, right after `initialize`."""
    environment = dict(os.environ)
    places = Places(environment)
    sources = SettingsSources(environment, places.settings_file)
    self_test = SelfTest(environment)
    self_test.start()
    services, user, models = compose_services(places, {}, sources, self_test)
    log_to(places.log_file, sources.merged().settings.log_level, services.masker)
    context = ConversationContext(services, user, ClientConnection(facts.name))
    connection = AcpConnection(server.outbox, server.client, facts, server.streams, context)
    sessions = Sessions(connection, models)
    prompts = Prompts(sessions)
    return Service(
        methods={**sessions.methods(), **prompts.methods()},
        notifications=prompts.notifications(),
        cancel=sessions.cancel,
        stop=sessions.stop,
        mask=services.masker.mask,
    )
