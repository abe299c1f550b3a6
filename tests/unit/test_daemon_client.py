"""The Python client of the protocol, against the other end of its pipes."""

import json
import os
import subprocess
import sys
import threading
from concurrent.futures import Future
from typing import Any

import pytest

from oh_daemon.contract.errors import DaemonError, UserError
from oh_daemon.fronts.client.child import start_daemon
from oh_daemon.fronts.client.connection import DaemonClient
from oh_daemon.fronts.wire.framing import ContentLength, message_of, read_frames

Json = dict[str, Any]
FRAMING = ContentLength()


class Scripted:
    """A daemon with five events, of which it leaves out some; it pages them by two."""

    def __init__(self) -> None:
        self._theirs, self.outbound = os.pipe()
        self.inbound, self._said = os.pipe()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def say(self, **message: Any) -> None:
        os.write(self._said, FRAMING.framed(json.dumps({"jsonrpc": "2.0", **message}).encode()))

    def close_input(self) -> None:
        os.close(self.outbound)

    def failure(self) -> DaemonError:
        return UserError("gone")

    def kill(self) -> None:
        self._thread.join()

    def _serve(self) -> None:
        for request in map(message_of, read_frames(self._theirs, FRAMING)):
            if request["method"] == "conversation/events":
                first = request["params"]["afterSeq"] + 1
                events = [record(seq) for seq in (first, first + 1)]
                page = {"events": events, "lastSeq": first + 1, "epoch": "e"}
                self.say(id=request["id"], result=page)
            elif "id" in request:
                self.say(id=request["id"], result=None)
        os.close(self._theirs)
        os.close(self._said)


def record(seq: int) -> Json:
    return {"seq": seq, "event": {"type": "notice"}}


def test_events_that_a_slow_connection_left_out_are_asked_for_and_come_in_order() -> None:
    daemon, head = Scripted(), {"conversationId": "c", "epoch": "e"}
    daemon.say(method="conversation/event", params={**head, **record(1)})
    gap = {"conversationId": "c", "fromSeq": 2, "toSeq": 4}
    daemon.say(method="conversation/gap", params=gap)
    daemon.say(method="conversation/event", params={**head, **record(5)})
    with DaemonClient(daemon) as client:
        events = client.events()
        shown = [next(events) for _ in range(5)]
    assert shown == [{**head, **record(seq)} for seq in range(1, 6)]
    assert [*events] == []


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
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    ours = {".".join(name.split(".")[1:3]) for name in ran if name.startswith("oh_daemon.")}
    assert {name for name in ours if not name.startswith(("contract", "fronts", "core"))} == set()
    assert {"core.cancel", "core.plain_text", "core"} >= {n for n in ours if n[:4] == "core"}
    assert {"fronts.client", "fronts.wire", "fronts"} >= {n for n in ours if n[:4] == "fron"}
    assert not {"pydantic", "asyncio"} & set(ran)
