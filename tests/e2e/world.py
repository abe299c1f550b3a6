"""A project, a model that follows a script, and the real daemon between them."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fake_llm import FakeLLM, Step
from raw_client import RawClient

Json = dict[str, Any]
PRODUCT = (sys.executable, "-m", "oh_daemon", "--stdio")
KEY = "sk-test-abcdefghijklmnop123456"


def text(words: str) -> list[Json]:
    """The content of a message."""
    return [{"type": "text", "text": words}]


@dataclass
class Common:
    """One daemon for the tests of a module, one after the other: its start takes two seconds."""

    home: Path
    llm: FakeLLM
    stack: ExitStack
    client: RawClient | None = None

    def lend(self, world: World) -> RawClient:
        """The daemon with only this project open, as if it had just been initialized for it."""
        if self.client is None or self.client.process.poll() is not None:
            argv, env = PRODUCT, world.environment
            self.client = self.stack.enter_context(RawClient.start(argv, self.home, env))
            self.client.initialize([], features={"approvalRequests": True})
        _change_folders(self.client, added=[world.project])
        trust = {"folder": world.project.as_uri(), "trusted": "full"}
        self.client.request("workspace/setTrust", trust)
        self.client.forget()
        return self.client

    def take_back(self, world: World) -> None:
        """Close what the test left open. One that it ended is started anew for the next."""
        self.llm.forget()
        client = self.client
        if client is None or client.process.poll() is not None or client not in world.daemons:
            return
        for conversation in client.request("daemon/status")["conversations"]:
            left = {"conversationId": conversation["id"], "ifRunning": "interrupt"}
            client.request("conversation/close", left)
        _change_folders(client, removed=[world.project])


def _change_folders(
    client: RawClient, *, added: Sequence[Path] = (), removed: Sequence[Path] = ()
) -> None:
    event = {
        name: [{"uri": folder.as_uri(), "name": folder.name} for folder in folders]
        for name, folders in (("added", added), ("removed", removed))
    }
    client.notify("workspace/didChangeWorkspaceFolders", {"event": event})


@dataclass
class World:
    """What one test has: a folder, a home, a scripted model, and daemons that it starts."""

    project: Path
    home: Path
    llm: FakeLLM
    stack: ExitStack
    daemons: list[RawClient] = field(default_factory=list[RawClient])
    variables: dict[str, str] = field(default_factory=dict[str, str])
    """More for the environment of its daemons."""
    common: Common | None = None
    """Of a module that is marked `one_daemon`; the first plain daemon of each test is this one."""

    @property
    def environment(self) -> dict[str, str]:
        return {
            "OH_DAEMON_HOME": str(self.home),
            "HOME": str(self.home),
            "OH_DAEMON_MODEL": "openai/fake",
            "OH_DAEMON_BASE_URL": self.llm.url,
            "OH_DAEMON_API_KEY": KEY,
            **self.variables,
        }

    def script(self, *steps: Step) -> None:
        self.llm.add(*steps)

    def raw(self, *, reading: bool = True, prefix: Sequence[str] = ()) -> RawClient:
        """A daemon that is not initialized yet; checked and ended after the test.

        `prefix` is a program that starts it.
        """
        argv = (*prefix, *PRODUCT)
        client = self.stack.enter_context(
            RawClient.start(argv, self.project, self.environment, reading=reading)
        )
        self.daemons.append(client)
        return client

    def daemon(
        self, *, trusted: bool | None = True, folders: Sequence[Path] | None = None, **ours: Any
    ) -> RawClient:
        """A daemon, initialized, with this project open; `ours` is laid over our block."""
        is_plain = trusted and folders is None and not ours and not self.variables
        if self.common is not None and is_plain and not self.daemons:
            self.daemons.append(self.common.lend(self))
            return self.daemons[0]
        client = self.raw()
        features = {"approvalRequests": True, **ours.pop("features", {})}
        trust = [{"folder": self.project.as_uri(), "trusted": trusted}]
        block: Json = {"features": features, **ours}
        if trusted is not None:
            block["trust"] = trust
        client.initialize(folders or [self.project], **block)
        return client

    def start(self, client: RawClient, words: str = "go", **params: Any) -> str:
        """Start a conversation with a first message; returns its id."""
        params = {"options": {"approval": "askNever"}, **params}
        started = client.request("conversation/start", {"content": text(words), **params})
        return started["conversation"]["id"]

    def send(self, client: RawClient, conversation: str, words: str, **params: Any) -> Json:
        params = {"conversationId": conversation, "content": text(words), **params}
        return client.request("conversation/sendMessage", params)

    def turn(self, client: RawClient, *, nth: int = 1) -> Json:
        """The nth turn that ends, over all conversations of this client."""
        return client.wait_for_event("turn.completed", nth=nth)["event"]["turn"]

    def log_of(self, conversation_id: str) -> Path:
        return self.project / ".openhands/conversations" / conversation_id / "events.jsonl"

    def records_of(self, conversation_id: str) -> list[Json]:
        """The events on disk, without the lines that say who opened and closed the log."""
        lines = self.log_of(conversation_id).read_bytes().split(b"\n")
        parsed = [json.loads(line) for line in lines if line]
        return [line for line in parsed if "seq" in line]


def wait_for_status(client: RawClient, status: str, *, nth: int = 1) -> Json:
    """The nth `status.changed` to this, over all conversations of this client."""
    return client.wait_for_event(lambda params: params["event"].get("to") == status, nth=nth)


def items(client: RawClient, kind: str) -> list[Json]:
    """Items of a kind that have ended, in order."""
    ended = (e["event"]["item"] for e in client.events if e["event"]["type"] == "item.completed")
    return [item for item in ended if item["kind"] == kind]


def content_of(item: Json) -> str:
    return "\n".join(part.get("text", "") for part in item["content"])
