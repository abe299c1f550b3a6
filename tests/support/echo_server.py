"""A server on the daemon's base layer that produces the faults that the product cannot.

Run as a program. Its methods are named `test/*`; everything below them is the daemon's own code.
"""

import os
import subprocess
import sys
import threading
from concurrent.futures import Future

from oh_daemon.frontends.lsp.lifecycle import LspServer
from oh_daemon.jsonrpc.dispatch import Json, RequestContext
from oh_daemon.jsonrpc.framing import encode
from oh_daemon.jsonrpc.main_loop import Service
from oh_daemon.jsonrpc.outbox import DeltaStream
from oh_daemon.jsonrpc.stdio import claim_stdio
from oh_daemon.protocol.errors import InvalidParamsError


class EchoServer:
    """Answers, raises, waits and publishes on demand."""

    def __init__(self) -> None:
        self._slow: dict[str, Future[Json]] = {}
        self._lost_uris: list[str] = []
        self._seq: dict[str, int] = {}
        self._may_stop = threading.Event()
        self._may_stop.set()
        methods = {
            "test/echo": lambda params, _context: params,
            "test/boom": self._boom,
            "test/exit": lambda _params, _context: sys.exit(7),
            "test/print": self._print,
            "test/slow": self._slow_answer,
            # This method is among those that are served however many others wait.
            "conversation/close": self._finish,
            "test/nan": lambda _params, _context: {"value": float("nan"), "more": float("inf")},
            "test/surrogate": lambda _params, _context: {"text": "a\ud800b"},
            "test/unencodable": lambda _params, _context: {"value": object()},
            "test/validate": self._validate,
            "test/events": self._events,
            "test/threads": self._threads,
            "test/flood": self._flood,
            "test/stream": self._stream,
            "test/ask": self._ask,
            "test/lost": lambda _params, _context: {"heads": self._lost_uris},
            "test/hangAtStop": lambda _params, _context: self._may_stop.clear(),
            "test/modules": lambda _params, _context: sorted(sys.modules),
        }
        service = Service(
            methods,
            {
                "test/boomNotification": lambda params: self._boom(params, None),
                "test/hang": lambda _params: _ignore(threading.Event().wait()),
            },
            on_lost_frame=lambda head: self._lost_uris.append(head[:80].decode()),
            stop=lambda _left_s: self._stop(),
        )
        self._server = LspServer(claim_stdio(), lambda _server, _facts: [service])

    def run(self) -> int:
        return self._server.run()

    def _boom(self, params: Json, _context: object) -> None:
        raise RuntimeError(f"secret-in-exception {params}")

    def _print(self, _params: Json, _context: RequestContext) -> Json:
        print("a stray print", flush=True)  # noqa: T201 - the fault to be survived.
        os.write(1, b"a stray write to descriptor 1\n")
        subprocess.run(["echo", "a stray child"], check=True)
        return {"stdin": os.read(0, 10).decode()}

    def _slow_answer(self, params: Json, context: RequestContext) -> Future[Json]:
        """Answer when conversation/close gives the same name; refuse when the client cancels."""
        future: Future[Json] = Future()
        if params.get("cancellable", True):
            context.cancel.on_cancel(lambda: _ignore(future.cancel()))
        self._slow[params["name"]] = future
        return future

    def _finish(self, params: Json, _context: RequestContext) -> None:
        future = self._slow.pop(str(params.get("name")), None)
        if future is None:
            raise InvalidParamsError.at("name", "no such test/slow is open")
        if future.cancelled():
            return
        if params.get("fail"):
            threading.Thread(target=future.set_exception, args=(SystemExit(3),)).start()
        else:
            threading.Thread(target=future.set_result, args=({"done": True},)).start()

    def _validate(self, params: Json, _context: RequestContext) -> Json:
        from pydantic import BaseModel  # noqa: PLC0415 - a test counts the imports before this.

        class Params(BaseModel):
            name: str
            count: int = 0

        return Params.model_validate(params).model_dump()

    def _events(self, params: Json, context: RequestContext) -> Future[Json]:
        """Run a turn whose events begin before the request is answered."""
        conversation_id = params["conversationId"]
        context.hold(conversation_id)
        future: Future[Json] = Future()
        is_begun = threading.Event()

        def work() -> None:
            self._publish(conversation_id, {"type": "turn.started"})
            is_begun.set()
            self._run_turn(conversation_id, params.get("deltas", 3))

        threading.Thread(target=work).start()
        is_begun.wait()
        future.set_result({"turnId": "t1"})
        return future

    def _run_turn(self, conversation_id: str, n_deltas: int) -> None:
        item = {"id": "i1", "kind": "agentMessage"}
        self._publish(conversation_id, {"type": "item.started", "item": item})
        stream = DeltaStream(conversation_id, "t1", "i1", "text")
        for number in range(n_deltas):
            self._server.outbox.delta(stream, number * 8, f"{number:07d} ")
        self._publish(conversation_id, {"type": "item.completed", "item": item})
        self._publish(conversation_id, {"type": "turn.completed", "turn": {"id": "t1"}})

    def _publish(self, conversation_id: str, event: Json) -> None:
        seq = self._seq[conversation_id] = self._seq.get(conversation_id, 0) + 1
        params = {
            "conversationId": conversation_id,
            "epoch": "e",
            "v": 2,
            "seq": seq,
            "turnId": "t1",
            "event": event,
        }
        self._server.outbox.event(conversation_id, seq, encode(params))

    def _threads(self, params: Json, _context: RequestContext) -> Future[Json]:
        """Publish `count` events from each of `threads` threads, all at once."""
        future: Future[Json] = Future()

        def publish(conversation_id: str) -> None:
            for number in range(params["count"]):
                self._publish(conversation_id, {"type": "notice", "title": str(number)})

        def work() -> None:
            workers = [
                threading.Thread(target=publish, args=(f"c{number}",))
                for number in range(params["threads"])
            ]
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
            future.set_result({})

        threading.Thread(target=work).start()
        return future

    def _flood(self, params: Json, _context: RequestContext) -> Json:
        """Publish `count` events of `size` bytes from the main loop; answer how much is queued."""
        for number in range(params["count"]):
            title = f"{number} ".ljust(params["size"], "x")
            self._publish("flood", {"type": "notice", "title": title})
        sys.stderr.write(f"{self._seq['flood']} published\n")
        return {"queuedBytes": self._server.outbox.queued_bytes, "logged": self._seq["flood"]}

    def _stream(self, params: Json, _context: RequestContext) -> Json:
        """Stream `pieces` of `size` characters from the main loop, faster than any client reads."""
        item = {"id": "i1", "kind": "command"}
        self._publish("c", {"type": "item.started", "item": item})
        stream = DeltaStream("c", "t1", "i1", "output")
        for number in range(params["pieces"]):
            self._server.outbox.delta(stream, number * params["size"], "x" * params["size"])
        queued_bytes = self._server.outbox.queued_bytes
        self._publish("c", {"type": "item.completed", "item": item})
        sys.stderr.write("all sent\n")
        return {"queuedBytes": queued_bytes}

    def _ask(self, params: Json, context: RequestContext) -> Future[Json]:
        """Ask the client, and answer with the outcome."""
        future: Future[Json] = Future()

        def work() -> None:
            try:
                answer = self._server.client.request(
                    "test/question",
                    params,
                    deadline_s=params.get("deadlineS", 90),
                    cancel=context.cancel,
                )
            except BaseException as error:  # noqa: BLE001 - `Cancelled` too.
                future.set_exception(error)
            else:
                future.set_result({"outcome": answer.outcome, "result": answer.result})

        threading.Thread(target=work).start()
        return future

    def _stop(self) -> None:
        self._may_stop.wait()
        sys.stderr.write("stopped in order\n")


def _ignore(_result: object) -> None:
    """Discard a result, so that a function that returns one can serve as a callback."""


if __name__ == "__main__":
    sys.exit(EchoServer().run())
