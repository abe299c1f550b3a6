"""Turns that wait for a slot, and the cancel token that wakes those who wait."""

from __future__ import annotations

import threading

import pytest

from oh_daemon.common.cancel import Cancelled, CancelToken
from oh_daemon.kernel.runtime import Slots


def test_a_place_is_taken_in_the_order_of_asking():
    slots, order = Slots(1), list[int]()
    entry_events = [threading.Event() for _ in range(3)]

    def work(n: int) -> None:
        with slots.take(CancelToken()):
            order.append(n)
            entry_events[n].set()

    with slots.take(CancelToken()):
        threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
        for thread in threads:
            thread.start()
        assert order == []
    for thread in threads:
        thread.join(30)
    assert sorted(order) == [0, 1, 2]


def test_a_cancelled_wait_ends_at_once_and_leaves_the_place_to_others():
    slots, cancel, has_ended = Slots(1), CancelToken(), threading.Event()

    def wait() -> None:
        with pytest.raises(Cancelled), slots.take(cancel):
            raise AssertionError("there is no place")
        has_ended.set()

    with slots.take(CancelToken()):
        thread = threading.Thread(target=wait)
        thread.start()
        cancel.cancel()
        assert has_ended.wait(30)
        thread.join()
    with slots.take(CancelToken()):
        pass


def test_all_places_are_used_at_once_however_they_become_free():
    """Each holder of a slot waits for a holder of the other, so a lost wake-up blocks them all."""
    slots, pair, ended_ids = Slots(2), threading.Barrier(2), list[bool]()

    def work() -> None:
        with slots.take(CancelToken()):
            pair.wait()
        ended_ids.append(True)

    for _ in range(300):
        threads = [threading.Thread(target=work, daemon=True) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
            assert not thread.is_alive(), f"stuck after {len(ended_ids)}"


def test_a_place_is_given_back_when_the_turn_breaks():
    slots = Slots(1)
    with pytest.raises(ZeroDivisionError), slots.take(CancelToken()):
        raise ZeroDivisionError
    with slots.take(CancelToken()):
        pass


def test_a_callback_is_called_once_by_the_first_cancel():
    token, calls = CancelToken(), list[str]()
    token.on_cancel(lambda: calls.append("kept"))
    forget = token.on_cancel(lambda: calls.append("forgotten"))
    forget()
    token.cancel()
    token.cancel()
    assert calls == ["kept"]


def test_a_callback_on_a_cancelled_token_is_called_at_once():
    token, calls = CancelToken(), list[str]()
    token.cancel()
    forget = token.on_cancel(lambda: calls.append("late"))
    forget()
    assert calls == ["late"]
    assert token.wait(0)
    with pytest.raises(Cancelled):
        token.raise_if_cancelled()


def test_a_place_that_is_lent_is_used_by_others_and_taken_again():
    slots, inside, ended_ids = Slots(1), threading.Event(), list[str]()

    def work() -> None:
        with slots.take(CancelToken()):
            inside.set()
            ended_ids.append("other")

    with slots.take(CancelToken()):
        thread = threading.Thread(target=work)
        thread.start()
        assert not ended_ids
        with slots.give_back(CancelToken()):
            assert inside.wait(30)
        ended_ids.append("lender")
    thread.join()
    assert ended_ids == ["other", "lender"]


def test_a_cancelled_lender_does_not_wait_and_the_number_of_places_stays():
    slots, cancel, gate, inside = Slots(1), CancelToken(), threading.Event(), threading.Event()

    def work() -> None:
        with slots.take(CancelToken()):
            inside.set()
            gate.wait(30)

    with slots.take(CancelToken()):
        thread = threading.Thread(target=work)
        thread.start()
        with slots.give_back(cancel):
            assert inside.wait(30)
            cancel.cancel()
    gate.set()
    thread.join()
    entry_ids = list[int]()
    with slots.take(CancelToken()):
        late = threading.Thread(target=lambda: _enter(slots, entry_ids))
        late.start()
        assert entry_ids == []
    late.join()
    assert entry_ids == [1]


def _enter(slots: Slots, entry_ids: list[int]) -> None:
    with slots.take(CancelToken()):
        entry_ids.append(1)
