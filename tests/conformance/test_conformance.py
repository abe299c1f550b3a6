"""Our own programs keep the rules of the suites, and no check of a suite is empty."""

import re
import shlex
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path

import pytest
import starts
from _pytest.mark import ParameterSet
from broken_servers import BREAKS, PATIENT_S, BrokenBench
from places import REPO, TESTS

from oh_daemon.conformance import suite
from oh_daemon.conformance.scripted_model import ScriptedModel, script_reply

PRODUCT = (sys.executable, "-m", "oh_daemon")
COMMANDS = {
    "server": (*PRODUCT, "--stdio"),
    "acp": (*PRODUCT, "acp"),
    "client": (sys.executable, str(TESTS / "support/scripted_client.py")),
}
PAGE = REPO / "protocol.md"


@pytest.mark.parametrize("name", suite.SUITES)
def test_our_own_programs_keep_all_rules(name: str) -> None:
    outcomes = [*suite.run(name, COMMANDS[name], within_s=PATIENT_S, popen=starts.start)]
    assert [each.as_text() for each in outcomes if each.status != "passed"] == []
    assert [each.id for each in outcomes] == [check.id for check in suite.SUITES[name]]
    assert [each.id for each in outcomes if not each.rule] == []


def test_a_command_that_says_nothing_fails_once_with_its_own_words() -> None:
    [only] = suite.run("server", ["sh", "-c", "echo no such option >&2"], within_s=PATIENT_S)
    assert only.status == "failed"
    assert "no such option" in only.as_text()


def test_the_client_of_the_document_keeps_the_rules_that_it_comes_to(tmp_path: Path) -> None:
    [program, *_] = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.M | re.S)
    client = tmp_path / "client.py"
    client.write_text(program)
    words = shlex.join([sys.executable, str(client), str(tmp_path), "Begin."])
    outcomes = [*suite.run("client", ["sh", "-c", f"yes let-it | {words}"], within_s=PATIENT_S)]
    assert [each.as_text() for each in outcomes if each.status == "failed"] == []
    passed_ids = {each.id for each in outcomes if each.status == "passed"}
    assert passed_ids >= {"B1", "B14", "B22", "I1", "I10", "X8", "A5", "A7"}


def test_a_request_that_nobody_waits_for_takes_no_reply_of_the_model() -> None:
    with ScriptedModel() as model:
        model.play(script_reply("first"), script_reply("second"))
        where = model.url.removeprefix("http://").removesuffix("/v1")
        old_connection = HTTPConnection(where)
        old_connection.connect()
        # What is sent leaves with the end of the connection, in one packet: see tcp(7).
        old_connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
        old_connection.request("POST", "/v1/chat/completions", "{}")
        old_connection.close()
        answers: list[str] = []
        for _ in range(2):
            with closing(HTTPConnection(where)) as connection:
                connection.request("POST", "/v1/chat/completions", "{}")
                answers.append(connection.getresponse().read().decode())
            for thread in threading.enumerate():
                if "process_request_thread" in thread.name:
                    thread.join()
        assert ["first" in answers[0], "second" in answers[1]] == [True, True]


@pytest.fixture(scope="module")
def benches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, BrokenBench]]:
    with ScriptedModel() as model:
        actual_benches = {
            name: BrokenBench(
                argv, tmp_path_factory.mktemp(name), model, within_s=PATIENT_S, popen=starts.start
            )
            for name, argv in COMMANDS.items()
        }
        yield actual_benches
        for bench in actual_benches.values():
            bench.tidy(has_failed=True)


def test_every_check_has_a_server_that_fails_it() -> None:
    rules = {name: {check.id for check in suite.SUITES[name]} for name in BREAKS}
    assert rules == {name: set(breaks) for name, breaks in BREAKS.items()}


def _rules() -> Iterator[ParameterSet]:
    """Yield each rule of each program; two of three only in `make test-full`."""
    rules = [(name, check.id) for name in BREAKS for check in suite.SUITES[name]]
    for number, (name, rule) in enumerate(rules):
        yield pytest.param(name, rule, marks=[pytest.mark.full] if number % 3 else [])


@pytest.mark.parametrize(("name", "rule"), [*_rules()])
def test_what_breaks_a_rule_fails_its_check(
    benches: dict[str, BrokenBench], name: str, rule: str
) -> None:
    [check] = [each for each in suite.SUITES[name] if each.id == rule]
    assert benches[name].has_finding(check)
