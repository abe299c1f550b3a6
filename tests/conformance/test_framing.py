"""Which bytes are a message, and which ids, params and results are allowed."""

import json
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from raw_client import RawClient

from oh_daemon.conformance.connection import frame
from oh_daemon.conformance.rpc_process import NoAnswer, RpcError

pytestmark = pytest.mark.one_daemon


def assert_alive(client: RawClient) -> None:
    """Check that the next request is answered."""
    assert client.error("no/suchMethod").code == -32601


def leave_waiting(_params: Any) -> None:
    raise NoAnswer


def request_bytes(request_id: Any, method: str = "no/suchMethod") -> bytes:
    return frame({"jsonrpc": "2.0", "id": request_id, "method": method})


def null_error(client: RawClient, nth: int = 1) -> RpcError:
    """Wait for the nth error answer without an id."""
    return client.error_of(None, nth=nth)


# Framing


@pytest.mark.parametrize(
    "header",
    [
        b"Content-Length: %d\n\n",
        b"\xef\xbb\xbfContent-Length: %d\r\n\r\n",
        b"\r\n\r\nContent-Length: %d\r\n\r\n",
        b"Content-Length: 00%d\r\n\r\n",
    ],
)
def test_more_ways_to_write_a_header_are_understood(client: RawClient, header: bytes) -> None:
    body = json.dumps({"jsonrpc": "2.0", "id": "a", "method": "no/suchMethod"}).encode()
    client.expect("a")
    client.send_raw(header % len(body) + body)
    assert client.error_of("a").code == -32601
    assert_alive(client)


@pytest.mark.parametrize(
    "body",
    [
        b'{"jsonrpc":"2.0","id":1,"method":"x","params":%b%b}' % (b"[" * 100_000, b"]" * 100_000),
    ],
)
def test_a_body_that_is_no_json_is_a_parse_error(client: RawClient, body: bytes) -> None:
    client.send(body)
    error = null_error(client)
    assert (error.code, error.data["kind"]) == (-32700, "parseError")
    assert_alive(client)


def test_a_broken_length_costs_at_most_the_next_message(client: RawClient) -> None:
    body = json.dumps({"jsonrpc": "2.0", "id": 70, "method": "no/suchMethod"}).encode()
    for wrong in (len(body) - 9, len(body) + 9):
        client.expect(None)
        client.expect(71)
        client.send_raw(b"Content-Length: %d\r\n\r\n%b" % (wrong, body))
        client.send_raw(request_bytes(69))
        client.send_raw(request_bytes(71))
    client.expect(69)
    assert client.error_of(71, nth=2).code == -32601
    assert null_error(client).code == -32700
    assert_alive(client)


@pytest.mark.parametrize("header", [b"Content-Length: abc", b"Content-Length: -5", b"X: 1"])
def test_a_header_without_a_length_is_answered_and_passed_over(
    client: RawClient, header: bytes
) -> None:
    client.expect(None)
    client.send_raw(header + b"\r\n\r\n" + b'{"jsonrpc":"2.0","id":70,"method":"x"}')
    client.expect(71)
    client.send_raw(request_bytes(71))
    assert client.error_of(71).code == -32601
    assert null_error(client).code == -32700


# Size


@pytest.mark.parametrize(
    ("start", "request_id"),
    [
        (b'{"params":{"id":9,"a":[{"id":8}],"s":"\\"id\\": 7"},"id":"q\\"}","y":"', 'q"}'),
        (b'{"jsonrpc":"2.0","id":[5],"method":"x","params":{"x":"', None),
    ],
)
def test_a_message_above_16_mib_is_skipped_and_answered(
    client: RawClient, start: bytes, request_id: Any
) -> None:
    client.expect(request_id)
    client.send_raw(frame(start + b"x" * (16 * 1024 * 1024) + b'"}}'))
    error = client.error_of(request_id)
    assert (error.code, error.data["kind"]) == (-31014, "payloadTooLarge")
    assert_alive(client)


@pytest.mark.own_daemon
def test_a_lost_message_is_reported_to_whoever_follows_documents(echo: RawClient) -> None:
    echo.expect(None)
    echo.notify("textDocument/didChange", {"textDocument": {"uri": "file:///a"}, "x": "x" * 2**24})
    assert "didChange" in echo.request("test/lost")["heads"][0]


# Text


def test_half_a_surrogate_pair_becomes_a_replacement_character(echo: RawClient) -> None:
    text = rb'"a\ud800b \ude00 \ud83d\ude00 \\ud800 \uD800\uD83D\uDE00 \ud800\\ud800"'
    echo.send(b'{"jsonrpc":"2.0","id":1000,"method":"test/echo","params":{"text":%b}}' % text)
    expected = "a\ufffdb \ufffd 😀 \\ud800 \ufffd😀 \ufffd\\ud800"
    assert echo.result_of(1000) == {"text": expected}


def test_results_hold_neither_nan_nor_half_surrogate_pairs(echo: RawClient) -> None:
    assert echo.request("test/nan") == {"value": None, "more": None}
    assert echo.request("test/surrogate") == {"text": "a\ufffdb"}


def test_keys_that_other_libraries_rename_arrive_unchanged(echo: RawClient) -> None:
    params = {"class": 1, "_meta": {"jsonrpc": "2.0", "id": 3}, "type_name": None, "from": [1.5]}
    assert echo.request("test/echo", params) == params


# Requests, ids, params


def test_invalid_params_name_the_field_and_never_the_value(echo: RawClient) -> None:
    error = echo.error("test/validate", {"count": "hunter2"})
    assert error.code == -32602
    problems = {(item["path"], item["code"]) for item in error.data["errors"]}
    assert problems == {("name", "missing"), ("count", "wrong_type")}
    assert "hunter2" not in str(error)


# Handlers


@pytest.mark.parametrize("method", ["test/boom", "test/exit", "test/unencodable"])
def test_a_handler_that_breaks_is_an_internal_error_with_a_reference(
    echo: RawClient, method: str
) -> None:
    error = echo.error(method, {"key": "hunter2"})
    assert (error.code, error.data["kind"]) == (-32603, "internalError")
    assert error.data["reference"] in error.message
    assert "secret-in-exception" not in str(error)
    assert "Traceback" not in str(error)
    assert_alive(echo)


def test_a_late_answer_that_breaks_is_an_internal_error(echo: RawClient) -> None:
    late = echo.send_request("test/slow", {"name": "a"})
    echo.request("conversation/close", {"name": "a", "fail": True})
    assert echo.error_of(late).code == -32603


def test_a_notification_that_breaks_is_not_answered(echo: RawClient) -> None:
    echo.notify("test/boomNotification")
    echo.send({"jsonrpc": "2.0", "method": "test/boomNotification", "params": [1]})
    assert_alive(echo)
    assert [m for m in echo.messages if m.get("id", 0) is None] == []


@pytest.mark.own_daemon
def test_stray_output_does_not_touch_the_stream(echo: RawClient) -> None:
    assert echo.request("test/print") == {"stdin": ""}
    assert_alive(echo)
    assert echo.close() == 0
    for text in ("a stray print", "a stray write to descriptor 1", "a stray child"):
        assert text in echo.stderr


# Cancelling


def test_a_cancelled_request_is_answered_once(echo: RawClient) -> None:
    slow = echo.send_request("test/slow", {"name": "a"})
    echo.notify("$/cancelRequest", {"id": slow})
    echo.notify("$/cancelRequest", {"id": slow})
    assert echo.error_of(slow).code == -32800
    echo.notify("$/cancelRequest", {"id": slow})
    echo.request("conversation/close", {"name": "a"})
    assert_alive(echo)
    assert echo.n_answers(slow) == 1


def test_a_request_that_cannot_be_cancelled_gets_its_result(echo: RawClient) -> None:
    slow = echo.send_request("test/slow", {"name": "a", "cancellable": False})
    echo.notify("$/cancelRequest", {"id": slow})
    echo.request("conversation/close", {"name": "a"})
    assert echo.result_of(slow) == {"done": True}


# Requests to the client


def test_the_clients_answer_reaches_whoever_asked(echo: RawClient) -> None:
    echo.answer("test/question", lambda params: {"heard": params["text"]})
    result = echo.request("test/ask", {"text": "é"})
    assert result == {"outcome": "answered", "result": {"heard": "é"}}


def test_a_client_that_refuses_is_an_outcome(echo: RawClient) -> None:
    assert echo.request("test/ask")["outcome"] == "refused"


def test_a_question_past_its_deadline_is_withdrawn_and_a_late_answer_ignored(
    echo: RawClient,
) -> None:
    answer: Future[Any] = Future()
    echo.answer("test/question", lambda _params: answer)
    assert echo.request("test/ask", {"deadlineS": 0.05})["outcome"] == "deadline"
    question = echo.wait_for(lambda m: m.get("method") == "test/question")
    cancellation = echo.wait_for(lambda m: m.get("method") == "$/cancelRequest")
    assert cancellation["params"] == {"id": question["id"]}
    answer.set_result("late")
    assert_alive(echo)


def test_cancelling_a_request_withdraws_the_question_behind_it(echo: RawClient) -> None:
    echo.answer("test/question", leave_waiting)
    outer = echo.send_request("test/ask")
    echo.wait_for(lambda m: m.get("method") == "test/question")
    echo.notify("$/cancelRequest", {"id": outer})
    assert echo.error_of(outer).code == -32800
    echo.wait_for(lambda m: m.get("method") == "$/cancelRequest")


# Order and load


def test_events_of_a_request_follow_its_answer(echo: RawClient) -> None:
    for number in range(50):
        conversation_id = f"c{number}"
        request_id = echo.send_request("test/events", {"conversationId": conversation_id})
        echo.wait_for_event(
            lambda params, wanted=conversation_id: (
                params["conversationId"] == wanted and params["event"]["type"] == "turn.completed"
            )
        )
        ids = [
            m.get("id", "event")
            for m in echo.messages
            if m.get("id") == request_id
            or (m.get("params") or {}).get("conversationId") == conversation_id
        ]
        assert ids[0] == request_id


def test_threads_of_the_client_may_write_at_once(echo: RawClient) -> None:
    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(lambda n: echo.request("test/echo", {"n": n}) == {"n": n}, range(400)))
