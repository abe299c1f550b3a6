"""What acts at once while the daemon imports: an import is held up until the test lets it go."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from raw_client import RawClient

Held = Callable[..., tuple[RawClient, Callable[[], None]]]
HOLDING = """
import sys
from importlib.machinery import PathFinder

class Holding:
    def find_spec(self, name, path=None, target=None):
        if name != {name!r}:
            return None
        spec = PathFinder.find_spec(name, path)
        run = spec.loader.exec_module

        def held(module):
            with open({gate!r}) as gate:
                gate.read()
            run(module)

        spec.loader.exec_module = held
        return spec

sys.meta_path.insert(0, Holding())
"""


@pytest.fixture
def held(spawn_product: Callable[..., RawClient], tmp_path: Path) -> Iterator[Held]:
    """Start the daemon; `let_go` ends the import that holds it up."""
    gates: list[int] = []

    def start(
        name: str = "pydantic", at_first: Callable[[RawClient], object] = lambda _client: None
    ) -> tuple[RawClient, Callable[[], None]]:
        folder, gate = tmp_path / "first", tmp_path / "gate"
        folder.mkdir()
        os.mkfifo(gate)
        text = HOLDING.format(name=name, gate=str(gate))
        (folder / "sitecustomize.py").write_text(text)
        client = spawn_product(env={"PYTHONPATH": str(folder)})
        client.initialize()
        at_first(client)
        gates.append(os.open(gate, os.O_WRONLY))  # Waits until the import is there.
        return client, lambda: os.close(gates.pop())

    yield start
    for gate in gates:
        os.close(gate)


def start_and_list_terminals(client: RawClient) -> None:
    options = {"model": "openai/fake"}
    start_result = client.request("conversation/start", {"folders": [], "options": options})
    params = {"conversationId": start_result["conversation"]["id"]}
    client.send_request("terminal/list", params, "first")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_the_daemon_amid_an_import(held: Held, number: int) -> None:
    client, _ = held()
    first_request, second_request = (client.send_request("conversation/list") for _ in range(2))
    client.notify("$/cancelRequest", {"id": second_request})
    assert client.error_of(second_request).code == -32800
    client.process.send_signal(number)
    assert client.exit_code() == 0
    assert client.error_of(first_request).code == -31025


def test_the_end_of_input_ends_the_daemon_amid_an_import(held: Held) -> None:
    client, _ = held()
    client.close_stdin()
    assert client.exit_code() == 0


def test_exit_in_order_needs_no_import(held: Held) -> None:
    client, _ = held()
    assert client.request("shutdown") is None
    client.notify("exit")
    assert client.exit_code() == 0


def test_a_request_is_cancelled_amid_an_import_and_others_are_answered_after_it(held: Held) -> None:
    client, let_go = held()
    first, second = (client.send_request("conversation/list") for _ in range(2))
    client.notify("$/cancelRequest", {"id": first})
    assert client.error_of(first).code == -32800
    last = client.send_request("shutdown")
    let_go()
    assert client.result_of(second) == {"conversations": []}
    assert client.result_of(last) is None


def test_an_import_for_one_method_holds_up_no_other_and_no_interrupt(held: Held) -> None:
    client, let_go = held("oh_daemon.features.terminal.handlers", start_and_list_terminals)
    [conversation_load] = client.request("daemon/status")["conversations"]
    params = {"conversationId": conversation_load["id"]}
    behind = client.send_request("terminal/list", params)
    assert client.request("conversation/interrupt", params)["status"] == "idle"
    assert client.request("conversation/list") is not None
    let_go()
    assert client.result_of("first") == client.result_of(behind) == {"terminals": []}


def test_an_interrupt_does_not_overtake_what_opens_its_conversation(held: Held) -> None:
    client, let_go = held("oh_daemon.features.terminal.handlers", start_and_list_terminals)
    [conversation_load] = client.request("daemon/status")["conversations"]
    params = {"conversationId": conversation_load["id"]}
    client.request("conversation/close", params)
    client.send_request("conversation/open", params)
    interrupt_request = client.send_request("conversation/interrupt", params)
    client.request("daemon/status")
    let_go()
    assert client.result_of(interrupt_request)["status"] == "idle"
