"""A program as the client of a daemon elsewhere: without an editor, and with the models of here."""

from __future__ import annotations

from contextlib import ExitStack
from importlib.metadata import version

from oh_daemon.app.models import Models
from oh_daemon.app.sources import SettingsSources
from oh_daemon.core.ports import Json
from oh_daemon.fronts.client.connection import DaemonClient
from oh_daemon.fronts.remote.carrier import Carrier
from oh_daemon.fronts.remote.models_here import ModelsHere
from oh_daemon.fronts.remote.opening import opened, problem_of


def connect(
    carrier: Carrier, models: Models, sources: SettingsSources, params: Json
) -> DaemonClient:
    """Say hello to the daemon there with these params of `initialize`.

    Keys and the word of trust in them stay here. Raises `UserError`; then the carrier has ended.
    """
    with ExitStack() as undo:
        undo.callback(carrier.kill)
        unread = carrier.begin()

        def tell(method: str, said: Json) -> None:
            client.notify(method, said)

        here = ModelsHere(models, sources, tell)
        client = DaemonClient(carrier, here.methods, unread=unread)
        undo.callback(client.close)
        # The daemon there may hold the output open for longer than its carrier lives.
        carrier.on_end(lambda: carrier.end(client.hang_up))
        answer = client.greet(opened(params, here.offer, sources.merged().settings))
        problem = problem_of({"result": answer}, version("oh-daemon"), carrier.target.text)
        if problem is not None:
            raise problem
        undo.pop_all()
    return client
