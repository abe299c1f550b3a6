"""The Python client of the protocol, against the other end of its pipes."""

import json
import os
import socket
import subprocess
import sys
import threading
from concurrent.futures import Future
from typing import Any

import pytest

from oh_daemon.frontends.client.async_connection import AsyncDaemonClient
from oh_daemon.frontends.client.child import start_daemon
from oh_daemon.frontends.client.connection import DaemonClient
from oh_daemon.frontends.client.line import Descriptors
from oh_daemon.jsonrpc.framing import ContentLength, message_of, read_frames
from oh_daemon.protocol.errors import DaemonError, UserError

Json = dict[str, Any]
FRAMING = ContentLength()


class Scripted:
    """A daemon with five events, of which it leaves out some; it pages them by two."""

    def __init__(self) -> None:
        self._far_end, self.outbound = os.pipe()
        self.inbound, self._write_end = os.pipe()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def say(self, **message: Any) -> None:
        os.write(self._write_end, FRAMING.frame(json.dumps({"jsonrpc": "2.0", **message}).encode()))

    def close_input(self) -> None:
        os.close(self.outbound)

    def failure(self) -> DaemonError:
        return UserError("gone")

    def kill(self) -> None:
        self._thread.join()

    def _serve(self) -> None:
        for request in map(message_of, read_frames(self._far_end, FRAMING)):
            if request["method"] == "conversation/events":
                first = request["params"]["afterSeq"] + 1
                events = [record(seq) for seq in (first, first + 1)]
                page = {"events": events, "lastSeq": first + 1, "epoch": "e"}
                self.say(id=request["id"], result=page)
            elif "id" in request:
                self.say(id=request["id"], result=None)
        os.close(self._far_end)
        os.close(self._write_end)


def record(seq: int) -> Json:
    return {"seq": seq, "event": {"type": "notice"}}


HEAD = {"conversationId": "c", "epoch": "e"}
IN_ORDER = [{**HEAD, **record(seq)} for seq in range(1, 6)]


def leave_out(daemon: Scripted) -> None:
    daemon.say(method="conversation/event", params={**HEAD, **record(1)})
    gap = {"conversationId": "c", "fromSeq": 2, "toSeq": 4}
    daemon.say(method="conversation/gap", params=gap)
    daemon.say(method="conversation/event", params={**HEAD, **record(5)})


def test_events_that_a_slow_connection_left_out_are_asked_for_and_come_in_order() -> None:
    leave_out(daemon := Scripted())
    with DaemonClient(daemon) as client:
        events = client.events()
        assert [next(events) for _ in range(5)] == IN_ORDER
    assert [*events] == []


async def test_so_they_are_by_an_async_client() -> None:
    leave_out(daemon := Scripted())
    async with AsyncDaemonClient(daemon) as client:
        events = client.events()
        assert [await anext(events) for _ in range(5)] == IN_ORDER
    assert [each async for each in events] == []


def hung_up(far: socket.socket) -> threading.Thread:
    """Let the other end answer all requests, and end when its input does."""

    def serve() -> None:
        for request in map(message_of, read_frames(far.fileno(), FRAMING)):
            if "id" in request:
                body = {"jsonrpc": "2.0", "id": request["id"], "result": request["method"]}
                far.sendall(FRAMING.frame(json.dumps(body).encode()))
        far.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    return thread


def test_a_client_speaks_over_a_socket_and_its_end_is_heard_there() -> None:
    near, far = socket.socketpair()
    serving, end = hung_up(far), near.detach()
    with DaemonClient(Descriptors(end, end)) as client:
        assert client.request("daemon/status") == "daemon/status"
        assert client.close()
    serving.join()


async def test_an_async_client_does_so_too_whatever_it_sends() -> None:
    near, far = socket.socketpair()
    serving, end = hung_up(far), near.detach()
    async with AsyncDaemonClient(Descriptors(end, end)) as client:
        # More than the socket takes at once, which asyncio has made one that does not block.
        assert await client.conversation_ask(conversationId="c", question="x" * (4 << 20))
    serving.join()


def test_whoever_waits_hears_of_it_when_what_comes_cannot_be_taken() -> None:
    daemon, heard = Scripted(), Future[DaemonError]()
    daemon.say(method="conversation/event", params={})
    with DaemonClient(daemon) as client:
        client.deliver(lambda _method, params: params["seq"], heard.set_result)
        error = heard.result(10)
        assert "KeyError('seq')" in error.message
        with pytest.raises(UserError, match="gone"):
            client.request("daemon/status")


def test_a_daemon_that_cannot_be_started_leaves_no_descriptors() -> None:
    before = os.listdir("/proc/self/fd")  # noqa: PTH208 - names of numbers.
    with pytest.raises(UserError, match="no program"):
        start_daemon(("no-such-program",))
    assert {*os.listdir("/proc/self/fd")} <= {*before}  # noqa: PTH208


def test_the_client_is_there_without_what_a_daemon_is_made_of() -> None:
    code = "import sys, oh_daemon; oh_daemon.DaemonClient; print(*sys.modules)"
    outcome = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    modules = {".".join(name.split(".")[1:3]) for name in outcome if name.startswith("oh_daemon.")}
    assert {name for name in modules if not name.startswith(("protocol", "jsonrpc"))} <= {
        *("common", "common.cancel", "common.plain_text"),
        *("frontends", "frontends.client", "client"),
    }
    assert not {"pydantic", "asyncio"} & set(outcome)
