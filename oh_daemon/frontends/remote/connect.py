"""A program as the client of a daemon elsewhere: without an editor, and with the models of here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from importlib.metadata import version

from oh_daemon.features.models.models import Models
from oh_daemon.frontends.client.connection import DaemonClient
from oh_daemon.frontends.remote.call_budget import CallBudget
from oh_daemon.frontends.remote.carrier import Carrier
from oh_daemon.frontends.remote.local_models import LocalModels
from oh_daemon.frontends.remote.opening import opened_params, problem_of
from oh_daemon.jsonrpc.dispatch import Method
from oh_daemon.kernel.ports import Json
from oh_daemon.protocol.settings import Settings


def connect(
    carrier: Carrier,
    models: Models,
    settings: Settings,
    params: Json,
    methods: Mapping[str, Method] | None = None,
    spend: Callable[[float], float] = lambda _cost_usd: 0.0,
) -> DaemonClient:
    """Say hello to the daemon there with these params of `initialize`.

    `methods` are answered beside those about models. Keys and the word of trust in the params stay
    here. `spend` adds to what the user spent today, see `CallBudget`. Raises `UserError`; then the
    carrier has ended.
    """
    with ExitStack() as undo:
        undo.callback(carrier.kill)
        unread = carrier.begin()

        def on_notification(method: str, notification: Json) -> None:
            client.notify(method, notification)

        own = LocalModels(models, on_notification, CallBudget(lambda: settings, spend))
        client = DaemonClient(carrier, {**own.methods, **(methods or {})}, unread=unread)
        undo.callback(client.close)
        # The daemon there may hold the output open for longer than its carrier lives.
        carrier.on_end(lambda: carrier.end(client.hang_up))
        answer = client.greet(opened_params(params, own.offer, settings))
        problem = problem_of({"result": answer}, version("oh-daemon"), carrier.target.text)
        if problem is not None:
            raise problem
        undo.pop_all()
    return client
