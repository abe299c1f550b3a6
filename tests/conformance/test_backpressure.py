"""A client that is slow or never reads costs bounded memory and loses no logged event."""

import threading
from collections.abc import Callable

import psutil
from raw_client import RawClient

Spawn = Callable[..., RawClient]
MIB = 1024 * 1024


def started_deaf(spawn_echo: Spawn) -> RawClient:
    """Start a server for a client that has sent `initialize` and reads nothing."""
    echo = spawn_echo(reading=False)
    echo.send_request("initialize", {"capabilities": {}})
    return echo


def rss_bytes(echo: RawClient) -> int:
    return psutil.Process(echo.process.pid).memory_info().rss


def test_events_of_many_threads_stay_whole_and_in_order(echo: RawClient) -> None:
    echo.request("test/threads", {"threads": 8, "count": 5000})
    assert len(echo.events) == 40_000


def test_100_000_deltas_arrive_merged_complete_and_before_the_end_of_their_item(
    echo: RawClient,
) -> None:
    echo.request("test/events", {"conversationId": "c1", "deltas": 100_000})
    echo.wait_for_event("turn.completed")
    deltas = echo.notifications("conversation/delta")
    assert "".join(d["text"] for d in deltas) == "".join(f"{n:07d} " for n in range(100_000))
    assert len(deltas) < 5000


def test_a_stalled_client_is_told_the_gap_once_and_nothing_is_lost_from_the_log(
    spawn_echo: Spawn,
) -> None:
    echo = started_deaf(spawn_echo)
    floods = [echo.send_request("test/flood", {"count": 100, "size": 10_000}) for _ in range(20)]
    echo.close_stdin()
    # Read only when everything is published, so that the client cannot catch up in between.
    echo.wait_for_stderr("2000 published")
    echo.read_on()
    assert echo.exit_code() == 0
    assert max(echo.result_of(flood)["queuedBytes"] for flood in floods) < 9 * MIB
    assert echo.result_of(floods[-1])["logged"] == 2000
    (gap,) = echo.notifications("conversation/gap")
    seqs = [params["seq"] for params in echo.events]
    assert seqs + list(range(gap["fromSeq"], gap["toSeq"] + 1)) == list(range(1, 2001))


def test_text_for_a_deaf_client_is_dropped_and_never_fills_the_memory(spawn_echo: Spawn) -> None:
    echo = started_deaf(spawn_echo)
    request = echo.send_request("test/stream", {"pieces": 1600, "size": 64 * 1024})
    echo.wait_for_stderr("all sent")
    assert rss_bytes(echo) < 120 * MIB
    echo.read_on()
    assert echo.result_of(request)["queuedBytes"] < 9 * MIB
    echo.wait_for_event("item.completed")
    n_received = sum(len(delta["text"]) for delta in echo.notifications("conversation/delta"))
    assert 0 < n_received < 10 * MIB


def test_a_client_that_asks_and_never_reads_is_not_read_from_either(spawn_echo: Spawn) -> None:
    echo = started_deaf(spawn_echo)
    ids: list[int] = []

    def ask() -> None:
        ids.extend(echo.send_request("test/echo", {"text": "x" * 100_000}) for _ in range(600))

    asking = threading.Thread(target=ask)
    asking.start()
    asking.join(1.5)
    assert asking.is_alive()
    assert rss_bytes(echo) < 120 * MIB
    echo.read_on()
    asking.join()
    assert [len(echo.result_of(request_id)["text"]) for request_id in ids] == [100_000] * 600
