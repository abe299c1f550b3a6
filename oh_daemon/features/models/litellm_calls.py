"""The way to a model through litellm, for the providers that have no row in `providers`.

litellm runs in a child process, so its import holds up nothing in this one. Lines of JSON go in,
`{"id": 1, "ask": …}` and `{"id": 1, "cancel": true}`, and come out as `litellm_child` answers. When
the child ends before this process, its calls fail and the next one starts another.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator
from contextlib import closing, nullcontext, suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import IO

from oh_daemon.common.cancel import Cancelled, CancelToken
from oh_daemon.features.models.attempts import AttemptDeadlines
from oh_daemon.features.models.chat import CHAT, chat_fields
from oh_daemon.features.models.dialect import Dialect, ProviderCall, without_none
from oh_daemon.features.models.failures import CallFailure, explain, no_responses
from oh_daemon.features.models.responses import RESPONSES, responses_fields
from oh_daemon.features.models.stream_events import read_events
from oh_daemon.kernel.ports import Json
from oh_daemon.protocol.errors import ModelError, NetworkError
from oh_daemon.protocol.llm import LLMSettings


def litellm_chunks(
    call: ProviderCall, *, finds_key: bool, cancel: CancelToken, patience: AttemptDeadlines
) -> Generator[Json]:
    """Yield the answer's chunks in OpenAI's form. Raises `ModelError`, or `Cancelled` at once.

    With `finds_key`, litellm looks for a key in the environment when the settings have none.
    """
    is_chat = call.can.api == "chat"
    fields = chat_fields(call) if is_chat else responses_fields(call)
    if not is_chat:
        # litellm's own parameter `stream` only fakes streaming for models not in its table.
        fields["extra_body"] = {"stream": fields.pop("stream")}
    request = {
        "ask": call.can.api,
        "fields": _with_options(fields, call.settings),
        "cache_key": call.request.cache_key,
        "finds_key": finds_key,
    }
    with closing(ask_litellm(request, cancel, patience)) as answer:
        messages = _explain_errors(answer, call.settings)
        yield from _chunks(messages, CHAT if is_chat else RESPONSES, call.settings)


def _chunks(messages: Iterator[Json], dialect: Dialect, settings: LLMSettings) -> Iterator[Json]:
    for message in messages:
        if "provider" in message:
            raise no_responses(settings)
        if "type" in message:
            pieces = (each["data"].encode("latin-1") for each in messages)
            yield from dialect.chunks(read_events(message["type"], pieces, settings))
            return
        yield message["chunk"]


def _explain_errors(messages: Iterator[Json], settings: LLMSettings) -> Iterator[Json]:
    for message in messages:
        if "failure" in message:
            raise explain(CallFailure(**message["failure"]), settings)
        if "bug" in message:
            explanation = (
                f"litellm could not make this call to {settings.model!r}: {message['bug']}"
            )
            raise ModelError(explanation, hint="the log of the daemon says where it broke")
        yield message


def _with_options(fields: Json, settings: LLMSettings) -> Json:
    """Add what litellm takes beside the request."""
    options: Json = {
        **fields,
        "model": settings.model,
        "custom_llm_provider": settings.custom_llm_provider,
        "api_version": settings.api_version,
        "api_base": settings.base_url,
        "api_key": settings.key,
        "extra_headers": settings.extra_headers or None,
        "extra_body": {**settings.extra_body, **fields.get("extra_body", {})} or None,
        "timeout": settings.timeout_s,
    }
    return without_none(options) | {
        "num_retries": 0,
        "max_retries": 0,
        "drop_params": True,
        # Otherwise litellm imports the mcp package, and needs it, for every request with tools.
        "_skip_mcp_handler": True,
    }


def litellm_provider_of(settings: LLMSettings) -> str:
    """Return litellm's name for whoever serves the model. Raises `ModelError` if nobody does."""
    request = {"ask": "provider", "fields": _with_options({}, settings)}
    with closing(ask_litellm(request, CancelToken())) as answer:
        message = next(_explain_errors(answer, settings))
    return str(message["provider"])


logger = logging.getLogger(__name__)
_STARTING = threading.Lock()
_RUNNING: list[_Child] = []
"""One at most."""


def ask_litellm(
    request: Json, cancel: CancelToken, patience: AttemptDeadlines | None = None
) -> Generator[Json]:
    """Yield the messages of an answer. Raises `NetworkError`, and `Cancelled` at once.

    `patience` begins when litellm does: its import takes seconds and counts for no timeout.
    """
    child = start_litellm()
    number, inbox = child.begin(request)
    forget = cancel.on_cancel(partial(inbox.put, {"cancelled": True}))
    try:
        for message in _messages(inbox, patience):
            if "cancelled" in message:
                raise Cancelled
            if "ended" in message:
                problem = f"the process in which litellm runs {message['ended']}"
                hint = "send the message again; the log of the daemon has what it wrote"
                raise NetworkError(problem, retryable=True, hint=hint)
            if "end" in message:
                return
            if "begun" not in message:
                yield message
    finally:
        forget()
        child.finish(number)


def _messages(inbox: SimpleQueue[Json], patience: AttemptDeadlines | None) -> Iterator[Json]:
    yield inbox.get()
    if patience is not None:
        patience.begin()
    while True:
        with suppress(Empty):  # Then `left_s` raises.
            yield inbox.get(timeout=patience and patience.left_s())


def start_litellm() -> _Child:
    """Return the child, which may still be starting; does not wait for anything."""
    with _STARTING:
        if not _RUNNING or _RUNNING[0].has_ended:
            _RUNNING[:] = [_Child()]
        return _RUNNING[0]


class _Child:
    """One process, and the threads that wait for it. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inboxes: dict[int, SimpleQueue[Json]] = {}
        self._n_calls = 0
        self._lines = SimpleQueue[bytes | None]()
        """What is to be written: the pipe to a process that is busy may be full."""
        self._end: str | None = None
        # The kernel ends the child when the thread that started it ends, so this one waits for it.
        threading.Thread(target=self._run, name="litellm", daemon=True).start()

    @property
    def has_ended(self) -> bool:
        return self._end is not None

    def begin(self, request: Json) -> tuple[int, SimpleQueue[Json]]:
        """Send a request; return its number and the queue in which the answer will be."""
        inbox = SimpleQueue[Json]()
        with self._lock:
            number = self._n_calls = self._n_calls + 1
            self._inboxes[number] = inbox
            if self._end is not None:
                inbox.put({"ended": self._end})
        self._lines.put(_line(number, request))
        return number, inbox

    def finish(self, number: int) -> None:
        """End the call if its answer is not complete."""
        with self._lock:
            del self._inboxes[number]
        self._lines.put(_line(number, {"cancel": True}))

    def _run(self) -> None:
        try:
            end = self._attend(_popen())
        except OSError as exc:
            end = f"cannot be started: {exc.strerror}"
        with self._lock:
            self._end = end
            inboxes = [*self._inboxes.values()]
        self._lines.put(None)
        for inbox in inboxes:
            inbox.put({"ended": end})

    def _attend(self, process: subprocess.Popen[bytes]) -> str:
        """Pass messages on until the process ends, and say how it ended."""
        for name, run, pipe in (
            ("litellm-in", self._write, process.stdin),
            ("litellm-log", _log, process.stderr),
        ):
            threading.Thread(target=run, args=(pipe,), name=name, daemon=True).start()
        with process.stdout or nullcontext(()) as answers:
            for line in answers:
                self._pass_on(line)
        process.kill()
        return f"ended with exit code {process.wait()}"

    def _pass_on(self, line: bytes) -> None:
        with suppress(ValueError):  # The last line of a process that was killed may be cut.
            message: Json = json.loads(line)
            with self._lock:
                inbox = self._inboxes.get(message["id"])
            if inbox is not None:
                inbox.put(message)

    def _write(self, pipe: IO[bytes]) -> None:
        with suppress(OSError), pipe:
            for line in iter(self._lines.get, None):
                pipe.write(line)
                pipe.flush()


def _popen() -> subprocess.Popen[bytes]:
    # With this path it finds what this process finds; without -P, also what the folder has.
    variables = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "oh_daemon.features.models.litellm_child", str(os.getpid())],
        env={**os.environ, **variables},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C in a terminal is for this process.
    )


def _log(pipe: IO[bytes]) -> None:
    with pipe:
        for line in pipe:
            logger.warning("litellm: %s", line.decode("utf-8", "replace").rstrip())


def _line(number: int, fields: Json) -> bytes:
    return json.dumps({"id": number, **fields}).encode() + b"\n"
