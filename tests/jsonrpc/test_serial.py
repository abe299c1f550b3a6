"""Requests about one conversation keep their order, whatever the threads do."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from oh_daemon.jsonrpc.serial import Serial

WITHIN_S = 30


@pytest.fixture
def serial() -> Iterator[Serial]:
    with ThreadPoolExecutor(4) as workers:
        yield Serial(workers)


def test_a_request_does_not_overtake_what_follows_from_the_one_before(serial: Serial) -> None:
    heard: list[str] = []
    is_acting, may_go_on = threading.Event(), threading.Event()

    def send_with_an_image() -> None:
        is_acting.set()
        assert may_go_on.wait(WITHIN_S)
        heard.append("image")

    first = serial.run("c", send_with_an_image)
    assert is_acting.wait(WITHIN_S)
    second = serial.after("c", lambda _failure: heard.append("words"))
    may_go_on.set()
    first.result(WITHIN_S)
    second.result(WITHIN_S)
    assert heard == ["image", "words"]


def test_what_an_act_starts_comes_before_all_that_waits(serial: Serial) -> None:
    heard: list[str] = []
    is_open = threading.Event()
    opening = serial.run("c", lambda: is_open.wait(WITHIN_S))
    image = serial.after("c", lambda _: serial.run("c", lambda: heard.append("image")))
    words = serial.after("c", lambda _: heard.append("words"))
    is_open.set()
    for each in (opening, image, words):
        each.result(WITHIN_S)
    assert heard == ["image", "words"]


def test_a_failure_is_told_to_what_waits_and_nothing_stays_under_way(serial: Serial) -> None:
    is_asked = threading.Event()

    def fail() -> None:
        assert is_asked.wait(WITHIN_S)
        raise ValueError("no log")

    opening = serial.run("c", fail)
    text = serial.after("c", repr)
    assert serial.ids() == ["c"]
    is_asked.set()
    with pytest.raises(ValueError, match="no log"):
        opening.result(WITHIN_S)
    assert text.result(WITHIN_S) == "ValueError('no log')"
    serial.run("c", lambda: "again").result(WITHIN_S)


def test_conversations_do_not_wait_for_each_other(serial: Serial) -> None:
    gate = threading.Event()
    one = serial.run("c", lambda: gate.wait(WITHIN_S))
    assert serial.run("d", lambda: "d").result(WITHIN_S) == "d"
    gate.set()
    assert one.result(WITHIN_S)
