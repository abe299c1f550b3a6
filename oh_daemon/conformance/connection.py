"""A client's end of a server, with no library below it, so that it can send what none would.

It frames by itself, keeps the answers by their id, and checks the order of all traffic.
"""

from __future__ import annotations

import json
import subprocess
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from oh_daemon.conformance.ordering import OrderingChecker
from oh_daemon.conformance.rpc_process import WITHIN_S, Json, Predicate, RpcError, RpcProcess


def frame(body: bytes | Json | list[Any]) -> bytes:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return b"Content-Length: %d\r\n\r\n%b" % (len(data), data)


class ServerConnection(RpcProcess):
    """One server process. Any thread may send and wait."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        *,
        reading: bool = True,
        within_s: float = WITHIN_S,
    ) -> None:
        self.capabilities: Json = {}
        """The capabilities in the server's answer to `initialize`."""
        self.ordering = OrderingChecker()
        self.problems: list[str] = []
        """What came and is no message."""
        self._answers: defaultdict[str, list[Json]] = defaultdict(list)
        super().__init__(process, reading=reading, within_s=within_s)

    # Sending

    def initialize(
        self, folders: Sequence[Path] = (), *, params: Json | None = None, **capabilities: Any
    ) -> Json:
        """Initialize; `ours` is our block (client, features, trust …), `params` override LSP's."""
        folder_entries = [{"uri": folder.as_uri(), "name": folder.name} for folder in folders]
        result = self.request(
            "initialize",
            {
                "processId": None,
                "capabilities": {},
                "workspaceFolders": folder_entries,
                **({"initializationOptions": {"ohDaemon": capabilities}} if capabilities else {}),
                **(params or {}),
            },
        )
        self.notify("initialized")
        self.capabilities = result["capabilities"]
        return result

    def request(self, method: str, params: Any = None, *, within_s: float | None = None) -> Any:
        """Send a request and return its result. Raises `RpcError`."""
        return self.result_of(self.send_request(method, params), within_s=within_s)

    def error(self, method: str, params: Any = None, *, within_s: float | None = None) -> RpcError:
        """Send a request and return the error that it is answered with."""
        return self.error_of(self.send_request(method, params), within_s=within_s)

    def send_request(self, method: str, params: Any = None, request_id: Any = None) -> Any:
        """Send without waiting; return the id for `result_of` or `answer_to`."""
        if request_id is None:
            request_id = next(self._ids)
        message = {"jsonrpc": "2.0", "id": request_id, "method": method}
        self.send(message if params is None else {**message, "params": params})
        return request_id

    def notify(self, method: str, params: Any = None) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params or {}})

    def send(self, message: bytes | Json | list[Any]) -> None:
        """Send one well-formed frame, whatever its body is."""
        if isinstance(message, dict):
            with self._condition:
                self.ordering.on_sent(message)
        self.send_raw(frame(message))

    # Waiting

    @property
    def events(self) -> list[Json]:
        """The params of every conversation/event so far."""
        return self.notifications("conversation/event")

    def notifications(self, method: str) -> list[Json]:
        return [m["params"] for m in list(self.messages) if m.get("method") == method]

    def wait_for_event(
        self, kind: str | Predicate, within_s: float | None = None, *, nth: int = 1
    ) -> Json:
        """Wait for the `nth` conversation/event of this type or predicate; return its params."""

        def is_event(message: Json) -> bool:
            if message.get("method") != "conversation/event":
                return False
            params = message["params"]
            return params["event"]["type"] == kind if isinstance(kind, str) else kind(params)

        return self.wait_for(is_event, within_s, nth=nth)["params"]

    def answer_to(self, request_id: Any, *, within_s: float | None = None, nth: int = 1) -> Json:
        """Wait for the `nth` answer with this id, and return the whole message."""
        with self._condition:
            answers = self._answers[json.dumps(request_id)]
        self._wait(lambda: len(answers) >= nth, within_s)
        return answers[nth - 1]

    def result_of(self, request_id: Any, *, within_s: float | None = None, nth: int = 1) -> Any:
        answer = self.answer_to(request_id, within_s=within_s, nth=nth)
        if "error" in answer:
            raise RpcError(answer["error"])
        return answer["result"]

    def error_of(self, request_id: Any, *, within_s: float | None = None, nth: int = 1) -> RpcError:
        answer = self.answer_to(request_id, within_s=within_s, nth=nth)
        if "error" not in answer:
            raise AssertionError(answer)
        return RpcError(answer["error"])

    def n_answers(self, request_id: Any) -> int:
        return len(self._answers[json.dumps(request_id)])

    # Ending

    def close_stdin(self) -> None:
        self._pipe("stdin").close()

    def exit_code(self, *, within_s: float | None = None) -> int:
        """Wait until the process and its output have ended; return the exit code."""
        within_s = self.within_s if within_s is None else within_s
        code = self.process.wait(within_s)
        self._may_read.set()
        for thread in self._threads:
            thread.join(within_s)
        return code

    def kill(self) -> None:
        """Send SIGKILL if the server still runs; check nothing."""
        if self.process.poll() is None:
            self.process.kill()
        self.exit_code()
        for name in ("stdin", "stdout", "stderr"):
            self._pipe(name).close()

    # Reading

    def _read_message(self, stream: IO[bytes]) -> Json | None:
        header = stream.readline()
        if not header:
            return None
        if not header.startswith(b"Content-Length: ") or stream.readline() != b"\r\n":
            self.problems.append(f"not a header: {header[:200]!r}")
            return None
        length = int(header.split(b":")[1])
        body = stream.read(length)
        if len(body) < length:
            return None  # A killed process may leave half a frame at the end.
        return self._parse(body)

    def _parse(self, body: bytes) -> Json:
        return json.loads(body, parse_constant=self._on_constant)

    def _on_constant(self, name: str) -> None:
        self.problems.append(f"{name} is not JSON")

    def _accept(self, message: Json) -> None:
        self.ordering.on_received(message)
        if "method" not in message:
            self._answers[json.dumps(message["id"])].append(message)
