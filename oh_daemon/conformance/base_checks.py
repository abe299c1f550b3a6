"""The base protocol: framing, messages and the life of a connection, rules B."""

from __future__ import annotations

import json
import signal
from contextlib import suppress
from typing import Any

from oh_daemon.conformance.bench import Bench, checks, expect, limits_of
from oh_daemon.conformance.connection import frame
from oh_daemon.conformance.rpc_process import Json, part

UNKNOWN = "no/suchMethod"
BROKEN_STREAM = 3
"""The exit code after bytes that are no header."""


def _request(request_id: Any, **more: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": request_id, "method": UNKNOWN, **more}).encode()


def whole_messages(runtime: Bench) -> None:
    server = runtime.server
    for byte in frame(_request("é😀")):
        server.send_raw(bytes([byte]))
    server.is_refusal(-32601, server.answer_to("é😀"), "a message of single bytes")
    names = [f"many-{number}" for number in range(100)]
    server.send_raw(b"".join(frame(_request(name)) for name in names))
    for name in names:
        server.is_refusal(-32601, server.answer_to(name), "each of many messages in one write")
    expect(not server.problems, "what comes must be messages", *server.problems)


HEADERS = (
    b"content-length: %d\r\n\r\n",
    b"CONTENT-LENGTH:%d\r\n\r\n",
    b"Content-Length:    %d   \r\n\r\n",
    b"Content-Type: application/vscode-jsonrpc; charset=utf-8\r\nContent-Length: %d\r\n\r\n",
    b"Content-Length: %d\r\ncontent-type: application/vscode-jsonrpc; charset=utf-16\r\n\r\n",
    b"X-Whatever: 1\r\nContent-Length: %d\r\n\r\n",
)


def headers(runtime: Bench) -> None:
    for number, header in enumerate(HEADERS):
        name = f"header-é-{number}"
        body = json.dumps({"jsonrpc": "2.0", "id": name, "method": UNKNOWN}, ensure_ascii=False)
        runtime.server.send_raw(header % len(body.encode()) + body.encode())
        runtime.server.is_refusal(-32601, runtime.server.answer_to(name), repr(header))


def nothing_else(runtime: Bench) -> None:
    server = runtime.open_server()
    server.request("conversation/list")
    server.request("shutdown")
    server.notify("exit")
    server.exit_code()
    expect(not server.problems, "only messages may come", *server.problems)


NO_JSON = (
    *(b"{", b"", b'{"jsonrpc":"2.0","id":1,"method":"x",}', b"\xff\xfe{}"),
    b'{"jsonrpc":"2.0","id":NaN,"method":"x"}',
    b'{"jsonrpc":"2.0","id":1,"method":"\x00"}',
    b'{"jsonrpc":"2.0","id":1,"method":"x","params":"\xed\xa0\x80"}',
)


def no_json(runtime: Bench) -> None:
    for body in NO_JSON:
        runtime.server.null_refusal(-32700, frame(body), f"the body {body!r}")
    for header in (b"Content-Length: abc", b"Content-Length: -5", b"X: 1"):
        runtime.server.null_refusal(-32700, header + b"\r\n\r\n", f"the header {header!r}")


def too_large(runtime: Bench) -> None:
    server, limit = runtime.server, limits_of(runtime.server)["maxMessageBytes"]
    start = b'{"jsonrpc":"2.0","id":"large","method":"no/suchMethod","params":{"x":"'
    just = start.replace(b"large", b"just") + b"x" * (limit - len(start) - 2) + b'"}}'
    server.send_raw(frame(just))
    server.is_refusal(-32601, server.answer_to("just"), "a body of the largest size")
    server.send_raw(frame(start + b"x" * limit + b'"}}'))
    server.is_refusal(-31014, server.answer_to("large"), "a body above maxMessageBytes")
    without = b'{"jsonrpc":"2.0","method":"x","params":{"id":9,"x":"' + b"x" * limit + b'"}}'
    server.null_refusal(-31014, frame(without), "a notification above maxMessageBytes")


GARBAGE = (
    b'{"jsonrpc":"2.0","id":1,"method":"initialize"}\n',
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    b"Content-Length: 10000000000\r\n\r\n",
    b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n",
    b"X-Long: " + b"x" * 1_000_000 + b"\r\n",
    b"Content-Length: abc\r\n\r\n" + b"x" * 70_000,
)


def no_headers(runtime: Bench) -> None:
    for garbage in GARBAGE:
        server = runtime.start()
        with suppress(BrokenPipeError):  # It need not read all of what it refuses.
            server.send_raw(garbage)
        code = server.exit_code()
        expect(code == BROKEN_STREAM, f"after {garbage[:40]!r}: exit code {code}")
        expect(server.stderr.count("\n") == 1, f"one line on stderr, not {server.stderr!r}")


def odd_text(runtime: Bench) -> None:
    server = runtime.server
    server.send(b'{"jsonrpc":"2.0","id":"first","id":"last","method":"no/suchMethod"}')
    server.is_refusal(-32601, server.answer_to("last"), "a request with two ids")
    server.send(rb'{"jsonrpc":"2.0","id":"a\ud800b \ud83d\ude00","method":"no/suchMethod"}')
    server.is_refusal(-32601, server.answer_to("a\ufffdb 😀"), "half a surrogate pair")


def one_answer(runtime: Bench) -> None:
    server = runtime.server
    ids = [server.send_request("conversation/list") for _ in range(20)]
    results = [server.answer_to(each) for each in ids]
    server.is_alive()
    for request_id, answer in zip(ids, results, strict=True):
        n_answers = server.n_answers(request_id)
        expect(n_answers == 1, f"{n_answers} answers", answer)


def ids_come_back(runtime: Bench) -> None:
    for request_id in (0, -1, 1.5, "", "a", "\u0000", 2**53 - 1, "1"):
        runtime.server.send_request(UNKNOWN, request_id=request_id)
        answer = runtime.server.answer_to(request_id)
        same = isinstance(answer["id"], str) == isinstance(request_id, str)
        expect(same, f"the id was {request_id!r}", answer)


NO_MESSAGES = (b"[]", b"[1]", b"1", b'"x"', b"null", b"true")
NO_IDS: list[Any] = [None, True, [], {"id": 1}]
WRONG_FORMS: tuple[Json, ...] = (
    {"method": "x"},
    {"jsonrpc": "1.0", "method": "x"},
    {"jsonrpc": 2.0, "method": "x"},
    {"jsonrpc": "2.0", "method": 5},
    {"jsonrpc": "2.0"},
)


def no_message(runtime: Bench) -> None:
    server = runtime.server
    for body in NO_MESSAGES:
        server.null_refusal(-32600, frame(body), body.decode())
    for request_id in NO_IDS:
        server.null_refusal(-32600, frame(_request(request_id)), f"the id {request_id!r}")
    for number, form in enumerate(WRONG_FORMS):
        server.send({**form, "id": f"form-{number}"})
        answer = server.answer_to(f"form-{number}")
        server.is_refusal(-32600, answer, f"a request of the form {form}")
    batch: list[Any] = [{"jsonrpc": "2.0", "id": n, "method": "shutdown"} for n in ("b1", "b2")]
    server.null_refusal(-32600, frame(batch), "a batch")
    expect(not server.n_answers("b1"), "none of a batch may run")


def unknown_names(runtime: Bench) -> None:
    server = runtime.server
    n_before = server.n_answers(None)
    for method in (UNKNOWN, "$/noSuchRequest", "exit", "$/cancelRequest"):
        server.expect_refusal(-32601, method)
    for method in (UNKNOWN, "$/noSuchNotification", "shutdown"):
        server.notify(method)
    server.send({"jsonrpc": "2.0", "id": 4711, "result": {}})
    server.send({"jsonrpc": "2.0", "id": "x", "error": {"code": 1, "message": "m"}})
    server.is_alive()
    expect(server.n_answers(None) == n_before, "nothing of this may be answered")


def forms_of_params(runtime: Bench) -> None:
    server = runtime.server
    forms: list[Json] = [{}, {"params": None}, {"params": []}, {"params": {}}]
    for number, params in enumerate(forms):
        name = f"params-{number}"
        server.send({"jsonrpc": "2.0", "id": name, "method": "conversation/list", **params})
        answer = server.answer_to(name)
        expect("conversations" in part(answer, "result"), f"sent with {params}", answer)
    for wrong in ([1], 1, "x", True):
        server.expect_refusal(-32602, "conversation/list", wrong)
    runtime.start().initialize(params={"capabilities": [], "initializationOptions": []})


def unknown_fields(runtime: Bench) -> None:
    runtime.server.request("conversation/list", {"noSuchField": 1, "limit": 1})


def strict_types(runtime: Bench) -> None:
    for params in ({"limit": "3"}, {"limit": True}, {"archived": 1}, {"archived": "no"}):
        runtime.server.expect_refusal(-32602, "conversation/list", params)


def before_initialize(runtime: Bench) -> None:
    server = runtime.start()
    server.notify("textDocument/didOpen", {"textDocument": {}})
    for method in ("conversation/list", "shutdown", UNKNOWN, "$/x"):
        server.expect_refusal(-32002, method)
    server.initialize()
    server.is_alive()


def second_initialize(runtime: Bench) -> None:
    runtime.server.expect_refusal(-32600, "initialize", {"capabilities": {}})
    runtime.server.is_alive()


def after_shutdown(runtime: Bench) -> None:
    server = runtime.start()
    server.initialize()
    expect(server.request("shutdown") is None, "the result of shutdown is null")
    for method in ("shutdown", "initialize", "conversation/list", UNKNOWN):
        server.expect_refusal(-32600, method)


def exit_codes(runtime: Bench) -> None:
    for number, with_shutdown in enumerate((True, False)):
        server = runtime.start()
        server.initialize()
        if with_shutdown:
            server.request("shutdown")
        server.notify("exit")
        expect(server.exit_code() == number, f"the exit code must be {number}")
    server = runtime.start()
    server.notify("exit")
    expect(server.exit_code() == 1, "before `initialize`, the exit code must be 1")


def ends(runtime: Bench) -> None:
    server = runtime.start()
    server.initialize()
    server.is_alive()
    ids = [server.send_request(UNKNOWN) for _ in range(50)]
    server.send_raw(b"Content-Length: 100\r\n\r\n{")
    expect(server.end() == 0, "at the end of input, the exit code must be 0")
    for request_id in ids:
        server.is_refusal(-32601, server.answer_to(request_id), "what came before the end")
    expect(runtime.start().end() == 0, "before `initialize`, the exit code must be 0 as well")
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        server = runtime.start()
        server.initialize()
        server.process.send_signal(number)
        expect(server.exit_code() == 0, f"on {number.name}, the exit code must be 0")


BASE = checks(
    "core",
    {
        "B1": whole_messages,
        "B2": headers,
        "B3": nothing_else,
        "B4": no_json,
        "B5": too_large,
        "B6": no_headers,
        "B7": odd_text,
        "B8": one_answer,
        "B9": ids_come_back,
        "B10": no_message,
        "B13": unknown_names,
        "B15": forms_of_params,
        "B16": unknown_fields,
        "B18": strict_types,
        "B20": before_initialize,
        "B21": second_initialize,
        "B22": after_shutdown,
        "B23": exit_codes,
        "B24": ends,
    },
)
