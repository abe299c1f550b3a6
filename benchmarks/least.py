"""The floor of `light.py`: an agent that does the least possible, in plain Python.

It speaks as much of the protocol as the measurements need. Each conversation has one thread, one
bash and a file with its messages. It checks, masks, asks, counts, limits and repairs nothing.
"""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from queue import SimpleQueue
from typing import Any
from urllib.parse import urlsplit

Json = dict[str, Any]
FOLDER = Path(os.environ["OH_DAEMON_HOME"], "least")
WRITING = threading.Lock()


def send(message: Json) -> None:
    data = json.dumps({"jsonrpc": "2.0", **message}).encode()
    with WRITING:
        sys.stdout.buffer.write(b"Content-Length: %d\r\n\r\n%b" % (len(data), data))
        sys.stdout.buffer.flush()


class Conversation:
    """One conversation; `inbox` wakes its thread."""

    def __init__(self, conversation_id: str) -> None:
        self.id = conversation_id
        self.file = FOLDER / f"{conversation_id}.jsonl"
        lines = self.file.read_bytes().splitlines() if self.file.exists() else []
        self.messages: list[Json] = [json.loads(line) for line in lines]
        self.log = self.file.open("ab", buffering=0)
        self.inbox: SimpleQueue[str] = SimpleQueue()
        self.bash: subprocess.Popen[bytes] | None = None
        url = urlsplit(os.environ["OH_DAEMON_BASE_URL"])
        self.http = http.client.HTTPConnection(url.hostname or "", url.port)
        threading.Thread(target=self.work, daemon=True).start()

    def work(self) -> None:
        while True:
            self.keep({"role": "user", "content": self.inbox.get()})
            while calls := self.ask():
                for call in calls:
                    self.record("item.updated", status="running")
                    output = self.run(json.loads(call["function"]["arguments"])["command"])
                    self.keep({"role": "tool", "tool_call_id": call["id"], "content": output})
            self.record("turn.completed")

    def keep(self, message: Json) -> None:
        self.messages.append(message)
        self.log.write(json.dumps(message).encode() + b"\n")

    def record(self, kind: str, **fields: Any) -> None:
        params = {"conversationId": self.id, "event": {"type": kind, **fields}}
        send({"method": "conversation/event", "params": params})

    def ask(self) -> list[Json]:
        body = json.dumps({"model": "fake", "stream": True, "messages": self.messages})
        headers = {"Content-Type": "application/json"}
        self.http.request("POST", "/v1/chat/completions", body, headers)
        text, calls = "", list[Json]()
        with self.http.getresponse() as answer:
            for line in answer:
                if not line.startswith(b"data: {"):
                    continue
                for choice in json.loads(line[6:]).get("choices", ()):
                    delta = choice["delta"]
                    text += delta.get("content") or ""
                    for piece in delta.get("tool_calls") or ():
                        if piece["index"] == len(calls):
                            calls.append(piece)
                        else:
                            more = piece["function"]["arguments"]
                            calls[piece["index"]]["function"]["arguments"] += more
        message = {"role": "assistant", "content": text}
        self.keep({**message, "tool_calls": calls} if calls else message)
        return calls

    def run(self, command: str) -> str:
        if self.bash is None or self.bash.poll() is not None:
            pipe = subprocess.PIPE
            self.bash = subprocess.Popen(
                ["bash"], stdin=pipe, stdout=pipe, bufsize=0, start_new_session=True
            )
        assert self.bash.stdin is not None
        assert self.bash.stdout is not None
        self.bash.stdin.write(f"{command}\necho; echo the-end $?\n".encode())
        head, tail = b"", b""
        while b"the-end" not in tail and (data := os.read(self.bash.stdout.fileno(), 1 << 16)):
            head = head if len(head) > 1 << 14 else head + data
            tail = (tail + data)[-1 << 14 :]
        return (head if len(head) < 1 << 14 else head + tail).decode("utf-8", "replace")

    def interrupt(self) -> None:
        if self.bash is not None:
            os.killpg(self.bash.pid, 9)


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    conversations: dict[str, Conversation] = {}
    stream = sys.stdin.buffer
    while header := stream.readline():
        stream.readline()
        message = json.loads(stream.read(int(header.split(b":")[1])))
        if "id" not in message:
            continue
        params = message["params"]
        name = params.get("conversationId") or f"c{time.monotonic_ns()}"
        result: Json = {"conversation": {"id": name}}
        match message["method"]:
            case "conversation/start" | "conversation/sendMessage" | "conversation/open":
                conversation = conversations.get(name) or conversations.setdefault(
                    name, Conversation(name)
                )
                for part in params.get("content", ()):
                    conversation.inbox.put(part["text"])
            case "conversation/interrupt":
                conversations[name].interrupt()
            case "conversation/list":
                result = {"conversations": [{"id": file.stem} for file in FOLDER.iterdir()]}
            case _:
                result = {}
        send({"id": message["id"], "result": result})


main()
