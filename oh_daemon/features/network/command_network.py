"""The network of a sandbox: its proxy, services of this machine inside it, its own ports outside.

Inside there is nothing but the loopback. The daemon has sockets of it and serves them on the io
loop; each run of the sandbox begins with none.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial

from oh_daemon.common.cancel import CancelToken
from oh_daemon.common.hosts import Host, Reach
from oh_daemon.features.network.host_consent import HostConsent, HostQuestion
from oh_daemon.features.network.proxy import ListenerConnections, NetworkProxy, Streams, relay
from oh_daemon.features.sandbox.overlay import OverlaySandbox
from oh_daemon.features.terminal.shell import Shells
from oh_daemon.protocol.daemon_messages import OpenPort
from oh_daemon.protocol.errors import DaemonError, ToolError
from oh_daemon.system.io_loop import run_on_loop
from oh_daemon.system.proc import listening_ports

logger = logging.getLogger(__name__)

PROXY_PORT = 3128
_LOOPBACK = "127.0.0.1"
PROXY_URL = f"http://{_LOOPBACK}:{PROXY_PORT}"
_PATIENCE_S = "600"
VARIABLES: Mapping[str, str] = {
    **dict.fromkeys(("http_proxy", "https_proxy", "all_proxy"), PROXY_URL),
    **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), PROXY_URL),
    **dict.fromkeys(("no_proxy", "NO_PROXY"), f"localhost,{_LOOPBACK},::1"),
    "NODE_USE_ENV_PROXY": "1",
    # The proxy ends what takes too long, but waits for the user; these would not.
    **dict.fromkeys(("PIP_DEFAULT_TIMEOUT", "UV_HTTP_TIMEOUT", "CARGO_HTTP_TIMEOUT"), _PATIENCE_S),
}
_LOOK_S = 1.0
_LAST_LOOKS = 3
"""How many follow the end of the last command, for what it left starting."""


class OverlayNetwork:
    """Implements `features.sandbox.overlay.Network`. Safe from any thread."""

    variables = VARIABLES

    def __init__(
        self,
        variables: Callable[[], Mapping[str, str]],
        report: Callable[[str, Sequence[OpenPort]], None] = lambda _id, _ports: None,
    ) -> None:
        """`variables` may name the user's own proxy; `report` takes a conversation's open ports."""
        self._proxy = NetworkProxy(self._decide, variables)
        self._report = report
        self.members: dict[Shells, HostConsent] = {}
        """Those who run commands in the sandbox."""
        self._overlay: OverlaySandbox | None = None
        self._inside: dict[int, ListenerConnections] = {}
        """What we listen on in the sandbox, by port."""
        self._forwards: dict[int, tuple[ListenerConnections, int]] = {}
        """Ports of the sandbox with what listens for them outside, and where."""
        self._ports: frozenset[int] = frozenset()
        self._watch: asyncio.Task[None] | None = None

    @property
    def is_asking(self) -> bool:
        return any(consent.is_asking for consent in [*self.members.values()])

    def begin(self, overlay: OverlaySandbox) -> None:
        self._overlay = overlay
        self._listen_inside(PROXY_PORT, self._proxy.serve)
        for consent in [*self.members.values()]:
            with suppress(ToolError):
                self.offer(consent.services())

    def end(self) -> None:
        if self._overlay is not None:
            run_on_loop(self._close(), CancelToken())

    def offer(self, services: Sequence[Host]) -> None:
        """Let programs inside reach these services of this machine, under the same addresses."""
        for service in services:
            if service.port not in self._inside:
                try:
                    self._listen_inside(service.port, partial(_serve_here, service))
                except OSError as exc:
                    raise ToolError(
                        f"{service} cannot be offered in the sandbox: {exc.strerror}"
                    ) from exc

    def look(self) -> None:
        """See what programs inside listen on, from now until none runs; returns at once."""
        if self._overlay is not None:
            run_on_loop(self._begin_watch(), CancelToken())

    def ports(self) -> tuple[OpenPort, ...]:
        """Return what programs inside listen on."""
        return tuple(
            OpenPort(port=port, address=self._address(port)) for port in sorted(self._ports)
        )

    def listening_ports(self) -> frozenset[int]:
        """Return what programs inside listen on at this moment."""
        root = self._overlay.spawner.root if self._overlay is not None else None
        return listening_ports(root) - self._inside.keys() if root else frozenset()

    def forward(self, port: int) -> str:
        """Forward a port of this machine to one of the sandbox; return where. Raises `OSError`."""
        if port not in self._forwards:
            self._forwards[port] = run_on_loop(self._forward(port), CancelToken())
            self._report_all()
        return self._address(port) or ""

    def _address(self, port: int) -> str | None:
        forward = self._forwards.get(port)
        return f"{_LOOPBACK}:{forward[1]}" if forward else None

    def take_refused(self, shells: Shells, terminal_id: str, *, has_ended: bool) -> str | None:
        """Return a line about the hosts that were refused to a terminal since the last call."""
        consent = self.members.get(shells)
        return consent.take_refused(terminal_id, has_ended=has_ended) if consent else None

    def take_waited(self, shells: Shells, terminal_id: str) -> Mapping[str, float]:
        """Return the seconds that the user took for each answer about a terminal's command."""
        consent = self.members.get(shells)
        return consent.take_waited(terminal_id) if consent else {}

    def take_news(self, shells: Shells, terminal_id: str) -> str:
        """Return lines about hosts and the jobs in all terminals but this one."""
        consent = self.members.get(shells)
        return consent.take_news(terminal_id) if consent else ""

    def settle(self, shells: Shells, cancel: CancelToken) -> str | None:
        """Wait until the user has answered about hosts, though a program may have given up.

        Returns a line about those that were refused or allowed meanwhile. Raises `Cancelled`.
        """
        consent = self.members.get(shells)
        if consent is None:
            return None
        questions = consent.questions
        if questions:
            run_on_loop(_wait_for_answers(questions), cancel)
        late = ", ".join(each.host for each in questions if each.is_allowed)
        notice = f"[the user allowed {late}: load again what is missing]" if late else None
        return "\n".join(filter(None, (consent.take_refused(), notice))) or None

    def _listen_inside(self, port: int, serve: Callable[[Streams], Awaitable[None]]) -> None:
        if self._overlay is None:
            raise OSError(errno.ENETDOWN, "it has ended")
        listener = self._overlay.socket(socket.AF_INET, port)
        listener.listen(128)
        server = self._inside[port] = ListenerConnections(serve)
        run_on_loop(server.start(listener), CancelToken())

    # On the loop

    async def _close(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
        forwards = [server for server, _ in self._forwards.values()]
        for server in (*self._inside.values(), *forwards):
            server.close()
        self._inside, self._forwards, self._overlay = {}, {}, None
        self._show(frozenset())

    async def _decide(self, host: Host, reach: Reach) -> str | None:
        consent, jobs = self._consent()
        if consent is None:
            return "the conversation has ended"
        try:
            verdict = await asyncio.to_thread(consent.settle, host, reach, jobs)
            if not isinstance(verdict, HostQuestion):
                return verdict
            with suppress(DaemonError):
                answer = await asyncio.wrap_future(verdict.answer)
                return await asyncio.to_thread(consent.take, host, verdict, answer)
            return await asyncio.to_thread(consent.take, host, verdict, None)
        except DaemonError as exc:
            return str(exc)

    def _consent(self) -> tuple[HostConsent | None, Collection[str]]:
        """Return who must be asked, and its jobs: a program does not say whose it is."""
        members = [*self.members.items()]
        busy = [member for member in members if member[0].is_busy]
        browsing = [member for member in members if member[1].has_call]
        with_jobs = [member for member in members if member[0].job_names]
        shells, consent = next(iter((*busy, *browsing, *with_jobs, *members)), (None, None))
        return consent, shells.job_names if shells else ()

    async def _begin_watch(self) -> None:
        if self._watch is None or self._watch.done():
            self._watch = asyncio.ensure_future(self._look_while_running())

    async def _look_while_running(self) -> None:
        n_left = _LAST_LOOKS
        while n_left and self._overlay is not None:
            self._show(self.listening_ports())
            runs = self._ports or any(shells.is_running for shells in [*self.members])
            n_left = _LAST_LOOKS if runs else n_left - 1
            await asyncio.sleep(_LOOK_S)

    def _show(self, ports: frozenset[int]) -> None:
        if ports != self._ports:
            for closed_ports in self._forwards.keys() - ports:
                self._forwards.pop(closed_ports)[0].close()
            self._ports = ports
            self._report_all()

    def _report_all(self) -> None:
        for consent in [*self.members.values()]:
            self._report(consent.conversation_id, self.ports())

    async def _forward(self, port: int) -> tuple[ListenerConnections, int]:
        listener = _free_listener(port)
        server = ListenerConnections(partial(self._serve_inside, port))
        await server.start(listener)
        return server, int(listener.getsockname()[1])

    async def _serve_inside(self, port: int, streams: Streams) -> None:
        for place in ((_LOOPBACK, port), ("::1", port)):
            with suppress(OSError):
                inside = await self._connect(place)
                break
        else:
            return
        await relay(streams, await asyncio.open_connection(sock=inside))

    async def _connect(self, place: tuple[str, int]) -> socket.socket:
        if self._overlay is None:
            raise OSError(errno.ENETDOWN, "the sandbox has ended")
        family = socket.AF_INET6 if ":" in place[0] else socket.AF_INET
        one = await asyncio.to_thread(self._overlay.socket, family)
        try:
            one.setblocking(False)
            await asyncio.get_running_loop().sock_connect(one, place)
        except BaseException:
            one.close()
            raise
        return one


async def _wait_for_answers(questions: Sequence[HostQuestion]) -> None:
    await asyncio.wait([asyncio.wrap_future(each.answer) for each in questions])


async def _serve_here(service: Host, streams: Streams) -> None:
    await relay(streams, await asyncio.open_connection(service.name, service.port))


def _free_listener(wanted_port: int) -> socket.socket:
    """Listen on this port, as pages may name it in their links, or on any other."""
    for port in (wanted_port, 0):
        with suppress(OSError):
            return socket.create_server((_LOOPBACK, port))
    raise OSError(errno.EADDRINUSE, "no port of this machine is free")
