"""What is answered before anything is imported, and what is left to the full path."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from oh_daemon.conformance.connection import frame
from oh_daemon.features.sandbox.last_test import machine
from oh_daemon.frontends.lsp.boot import Opening, answer_first
from oh_daemon.frontends.lsp.client_facts import parse_client_facts
from oh_daemon.frontends.lsp.lifecycle import LspServer
from oh_daemon.jsonrpc.framing import ContentLength, Message, read_frames
from oh_daemon.protocol.errors import InvalidParamsError

BLOCK = {
    "protocolVersion": {"major": 1, "minor": 0},
    "client": {"name": "test", "kind": "panel"},
    "features": {"applyEdit2": True},
    "events": {"deltas": False, "optOut": ["notice"]},
    "trust": [{"folder": "file:///x", "trusted": True}],
    "settings": {"sandbox": "landlock"},
}
USUAL: list[dict[str, Any]] = [
    {"capabilities": {}},
    {"processId": None, "rootUri": None, "capabilities": {}, "workspaceFolders": None},
    {"processId": 7, "clientInfo": {"name": "Vim", "version": "1"}, "capabilities": []},
    {"workspaceFolders": [{"uri": "file:///x", "name": "x"}], "initializationOptions": []},
    {"initializationOptions": {"ohDaemon": BLOCK}},
    {"capabilities": {"experimental": {"ohDaemon": BLOCK}}},
    {"initializationOptions": {"ohDaemon": {}}, "capabilities": {"experimental": {}}},
    {"capabilities": {"general": {"positionEncodings": ["utf-7", 5, "utf-8"]}}},
]
ODD: list[dict[str, Any]] = [
    {"processId": "7"},
    {"processId": True},
    {"capabilities": 5},
    {"capabilities": {"general": {"positionEncodings": "utf-8"}}},
    {"capabilities": {"experimental": {"ohDaemon": "x"}}},
    {"rootUri": 5},
    {"workspaceFolders": {}},
    {"workspaceFolders": [{"uri": 5}]},
    {"clientInfo": {"name": 5}},
    {"initializationOptions": {"ohDaemon": {**BLOCK, "protocolVersion": {"major": "1"}}}},
    {"initializationOptions": {"ohDaemon": {**BLOCK, "client": {"kind": 1}}}},
    {"initializationOptions": {"ohDaemon": {**BLOCK, "features": 1}}},
    {"initializationOptions": {"ohDaemon": {**BLOCK, "events": {"deltas": "no"}}}},
    {"initializationOptions": {"ohDaemon": {**BLOCK, "events": {"optOut": {}}}}},
    {"initializationOptions": {"ohDaemon": {**BLOCK, "trust": {}}}},
    {"initializationOptions": {"ohDaemon": {**BLOCK, "trust": [{"folder": 1}]}}},
    {"initializationOptions": {"ohDaemon": {**BLOCK, "trust": [{"trusted": "full"}]}}},
    {"initializationOptions": {"ohDaemon": {**BLOCK, "features": {"diagnostics": "yes"}}}},
    {"initializationOptions": {"ohDaemon": {**BLOCK, "settings": "x"}}},
]


def initialize(params: Any) -> bytes:
    return frame({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})


def open_boot(data: bytes, home: Path, *, is_known: bool = True) -> tuple[Opening, bytes]:
    """Return what `boot` made of these bytes, and what it answered."""
    environment = {"OH_DAEMON_HOME": str(home), "PATH": "/bin"}
    (home / "state").mkdir(exist_ok=True)
    rows = [("overlay", False, "no bubblewrap", "apt"), ("landlock", True, "", "")]
    test_file = {"machine": machine(environment), "rows": rows} if is_known else {}
    (home / "state" / "sandbox.json").write_text(json.dumps(test_file), "utf-8")
    (inbound, to_daemon), (from_daemon, outbound) = os.pipe(), os.pipe()
    os.write(to_daemon, data)
    os.close(to_daemon)
    opening = answer_first((inbound, outbound), environment)
    os.close(outbound)
    with os.fdopen(from_daemon, "rb") as answers, os.fdopen(inbound, "rb") as answers_left:
        assert opening.unread + answers_left.read() == data
        return opening, answers.read()


@pytest.mark.parametrize("params", USUAL)
def test_a_usual_client_is_answered_at_once(params: dict[str, Any], tmp_path: Path) -> None:
    opening, answer = open_boot(initialize(params) + frame({"method": "initialized"}), tmp_path)
    head, _, body = answer.partition(b"\r\n\r\n")
    result = json.loads(body)["result"]
    facts = parse_client_facts(params)
    level = {"level": "landlock", "setting": "landlock"}
    auto = {**level, "setting": "auto", "cause": "no bubblewrap", "cure": "apt"}
    block = result["capabilities"]["experimental"]["ohDaemon"]
    assert (opening.is_answered, head) == (True, b"Content-Length: %d" % len(body))
    assert result["capabilities"]["positionEncoding"] == facts.position_encoding
    assert block["daemon"]["pid"] == os.getpid()
    understood = {"features": ["applyEdit2"], "unknown": []} if facts.settings else None
    if understood or facts.block is not None:
        assert block["understood"] == understood or {"features": [], "unknown": []}
    else:
        assert "understood" not in block
    assert block["sandbox"] == (level if facts.settings else auto) == opening.sandbox


@pytest.mark.parametrize("params", ODD)
def test_what_is_refused_is_left_to_the_full_path(params: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(InvalidParamsError):
        parse_client_facts(params)
    opening, answer = open_boot(initialize(params), tmp_path)
    assert (opening.is_answered, answer) == (False, b"")


USUAL_BODY = initialize({"capabilities": {}}).partition(b"\r\n\r\n")[2]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"nonsense\r\n\r\n",
        b"Content-Length: 5",
        b"Content-Length: 500\r\n\r\n{",
        b"content-length: %d\r\n\r\n%b" % (len(USUAL_BODY), USUAL_BODY),
        b"Content-Length: %d\r\nContent-Type: x\r\n\r\n%b" % (len(USUAL_BODY), USUAL_BODY),
        b"Content-Length: 99999999999\r\n\r\n" + USUAL_BODY,
        frame(b"[]"),
        frame(b"{"),
        frame(b"\xff"),
        frame(b'{"id":NaN}'),
        frame({"jsonrpc": "2.0", "id": 1, "method": "shutdown", "params": {"a": 1}}),
        frame({"jsonrpc": "2.0", "id": "1", "method": "initialize", "params": {"a": 1}}),
        frame({"jsonrpc": "2.0", "method": "initialize", "params": {"a": 1}}),
        frame({"jsonrpc": "1.0", "id": 1, "method": "initialize", "params": {"a": 1}}),
        initialize([]),
        initialize({"initializationOptions": {"ohDaemon": {"protocolVersion": {"major": 2}}}}),
    ],
)
def test_any_other_beginning_is_read_again_as_it_came(data: bytes, tmp_path: Path) -> None:
    opening, answer = open_boot(data, tmp_path)
    assert (opening.is_answered, answer) == (False, b"")


def test_without_a_test_of_this_machine_the_full_path_waits_for_one(tmp_path: Path) -> None:
    opening, answer = open_boot(initialize({"capabilities": {}}), tmp_path, is_known=False)
    assert (opening.is_answered, answer) == (False, b"")


def test_what_was_read_comes_first_and_the_rest_after_it(tmp_path: Path) -> None:
    data = initialize({"capabilities": {}}) + frame({"n": "x" * 100_000}) + frame({"n": 2})
    (tmp_path / "rest").write_bytes(data[50:])
    rest_file = os.open(tmp_path / "rest", os.O_RDONLY)
    frames = read_frames(rest_file, ContentLength(), unread=data[:50])
    read = [each.value for each in frames if isinstance(each, Message)]
    assert [each.get("id") or each["n"] for each in read] == [1, "x" * 100_000, 2]


def test_a_signal_that_comes_before_the_first_message_is_read_again_ends_it_all_the_same() -> None:
    opening = Opening(frame({"id": 1, "method": "initialize", "params": {}}))
    opening.is_answered = True
    inbound, client_out = os.pipe()
    client_in, outbound = os.pipe()
    server = LspServer((inbound, outbound), lambda _server, _facts: (), opening=opening)
    server.stop("SIGINT")
    assert server.serve() == 0
    for descriptor in (client_out, client_in, outbound):
        os.close(descriptor)
    server.join()
    os.close(inbound)


def test_before_the_first_answer_hardly_anything_is_imported() -> None:
    show = "import sys, oh_daemon.__main__, oh_daemon.frontends.lsp.boot; print(*sys.modules)"
    outcome = subprocess.run(
        [sys.executable, "-I", "-c", show], capture_output=True, text=True, check=True
    )
    slow = {"dataclasses", "json", "logging", "orjson", "pathlib", "re", "threading", "typing"}
    assert slow & set(outcome.stdout.split()) == set()
