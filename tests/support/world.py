"""A project, a model that follows a script, and the real daemon between them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import starts
from fake_llm import FakeLLM, Step
from raw_client import RawClient

from oh_daemon.conformance.rpc_process import WITHIN_S

Json = dict[str, Any]
PRODUCT = (sys.executable, "-m", "oh_daemon", "--stdio")
KEY = "sk-test-abcdefghijklmnop123456"
NO_SETTINGS: Json = {"titles": False}
"""What the environment says anyway; an empty block would make the daemon ask for the settings."""
OF_THE_DAEMON = {"state", "daemon.log"}
"""Names that stay in the home that tests share; a test made everything else there."""
N_SHARED = 6
"""How many daemons wait for tests that can use them; each takes 200 MB."""


def text(words: str) -> list[Json]:
    """Return the content of a message."""
    return [{"type": "text", "text": words}]


@dataclass
class Common:
    """Daemons for all tests of this process that can share them, since a start takes two seconds.

    Settings reach them as a change, so a test of a setting that counts from the start, such as
    `maxRunningTurns`, is marked `own_daemon`. A test may end what it was lent, and be lent more;
    the ids that it chooses, such as a `clientRequestId`, are no other test's.
    """

    home: Path
    llm: FakeLLM
    stack: ExitStack
    clients: dict[RawClient, str] = field(default_factory=dict[RawClient, str])
    """What each client said of itself when it was initialized; the one lent last is the last."""

    def lend(
        self,
        world: World,
        *,
        is_trusted: bool,
        settings: Json | None,
        params: Json,
        block: Json,
    ) -> RawClient:
        """Lend a daemon with only this project open, as if it had just been initialized for it."""
        client = self._client(world, params, block)
        _change_folders(client, added_folders=[world.project])
        if is_trusted:
            trust = {"folder": world.project.as_uri(), "trusted": "full"}
            client.request("workspace/setTrust", trust)
        # From here on, the client hears what the settings start.
        client.forget()
        if settings is not None:
            _change_settings(client, settings)
        return client

    def _client(self, world: World, params: Json, block: Json) -> RawClient:
        key = json.dumps([params, block])
        at_rest = [each for each in self.clients if each not in world.daemons]
        alike = [each for each in at_rest if self.clients[each] == key]
        client = next((each for each in alike if each.process.poll() is None), None)
        if client is None:
            raw_client = RawClient.start(PRODUCT, self.home, world.environment, popen=starts.start)
            client = self.stack.enter_context(raw_client)
            client.initialize([], params=params, **block)
            if len(at_rest) >= N_SHARED:
                self._end(at_rest[0])
        self.clients.pop(client, None)
        self.clients[client] = key
        return client

    def _end(self, client: RawClient) -> None:
        del self.clients[client]
        client.close()

    def take_back(self, world: World, *, has_failed: bool) -> None:
        """Close what the test left open. A daemon that it ended is started again for the next test.

        A daemon is lent again only when everything that the test wanted of it is done.
        """
        # Clean last: until then, a turn may ask the model for more and read what is at home.
        with ExitStack() as stack:
            stack.callback(self._clean)
            for client in world.daemons:
                if client in self.clients:
                    scope = self.clients.pop(client)
                    cleanup = stack.enter_context(ExitStack())
                    cleanup.callback(client.kill)
                    is_alive = client.process.poll() is None and not client.was_shut_down
                    if is_alive and not has_failed:
                        self.llm.ignore(_tidy(client, world.project))
                        self.clients[client] = scope
                        cleanup.pop_all()

    def _clean(self) -> None:
        self.llm.forget()
        for path in (*self.home.iterdir(), *self.home.glob("state/mcp")):
            if path.name not in OF_THE_DAEMON:
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def _tidy(client: RawClient, project: Path) -> list[str]:
    """Close the conversations that are open and remove what the test left; return their ids."""
    busy_ids = [each["id"] for each in client.request("daemon/status")["conversations"]]
    for conversation in busy_ids:
        params = {"conversationId": conversation, "ifRunning": "interrupt"}
        client.request("conversation/close", params)
    # An editor in which nothing is open any more.
    client.notify("editor/contextChanged", {})
    _change_folders(client, removed_folders=[project])
    _change_settings(client, NO_SETTINGS)
    # The new settings end the servers that the old ones named.
    assert client.request("mcp/list") == {"servers": []}
    return busy_ids


def _change_folders(
    client: RawClient, *, added_folders: Sequence[Path] = (), removed_folders: Sequence[Path] = ()
) -> None:
    event = {
        name: [{"uri": folder.as_uri(), "name": folder.name} for folder in folders]
        for name, folders in (("added", added_folders), ("removed", removed_folders))
    }
    client.notify("workspace/didChangeWorkspaceFolders", {"event": event})


def _change_settings(client: RawClient, settings: Json) -> None:
    client.notify("workspace/didChangeConfiguration", {"settings": {"ohDaemon": settings}})


@dataclass
class World:
    """What one test has: a folder, a home, a scripted model, and the daemons that it starts."""

    project: Path
    home: Path
    llm: FakeLLM
    stack: ExitStack
    daemons: list[RawClient] = field(default_factory=list[RawClient])
    variables: dict[str, str] = field(default_factory=dict[str, str])
    """More variables for the environment of its daemons."""
    arguments: tuple[str, ...] = ()
    """More arguments for the command line of its daemons."""
    product: tuple[str, ...] = PRODUCT
    """How its daemons are started."""
    common: Common | None = None
    """In modules that are marked `one_daemon`, where most daemons come from."""

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
        """Start a daemon without initializing it; it is checked and ended after the test.

        `prefix` is a program that starts it.
        """
        argv = (*prefix, *self.product, *self.arguments)
        client = self.stack.enter_context(
            RawClient.start(
                argv, self.project, self.environment, reading=reading, popen=starts.start
            )
        )
        self.daemons.append(client)
        return client

    def serve(self, *options: str) -> subprocess.Popen[bytes]:
        """Start one daemon for several clients; those of this world are its clients from now on."""
        argv = (sys.executable, "-m", "oh_daemon", "serve", *options)
        environment = {**os.environ, **self.environment}
        process = starts.start(argv, env=environment, cwd=self.home, stdout=subprocess.PIPE)
        self.stack.callback(process.wait)
        self.stack.callback(process.terminate)
        assert process.stdout is not None
        self.stack.enter_context(process.stdout)
        assert b"serves clients" in process.stdout.readline()
        self.product = (sys.executable, "-m", "oh_daemon", "attach")
        return process

    def daemon(
        self,
        *,
        trust_value: bool | None = True,
        folders: Sequence[Path] | None = None,
        **value: Any,
    ) -> RawClient:
        """Start and initialize a daemon with this project open; `ours` is laid over our block."""
        features = {"approvalRequests": True, **value.pop("features", {})}
        params: Json = value.pop("params", {})
        if self.common is not None and trust_value is not False and not (folders or self.variables):
            settings = value.pop("settings", None)
            block = {"features": features, **value}
            shared_client = self.common.lend(
                self, is_trusted=bool(trust_value), settings=settings, params=params, block=block
            )
            self.daemons.append(shared_client)
            return shared_client
        client = self.raw()
        trust = [{"folder": self.project.as_uri(), "trusted": trust_value}]
        block: Json = {"features": features, **value}
        if trust_value is not None:
            block["trust"] = trust
        client.initialize(folders or [self.project], params=params, **block)
        return client

    def start(self, client: RawClient, words: str = "go", **params: Any) -> str:
        """Start a conversation with a first message; return its id."""
        params = {"options": {"approval": "askNever"}, **params}
        start_result = client.request("conversation/start", {"content": text(words), **params})
        return start_result["conversation"]["id"]

    def send(self, client: RawClient, conversation: str, words: str, **params: Any) -> Json:
        params = {"conversationId": conversation, "content": text(words), **params}
        return client.request("conversation/sendMessage", params)

    def turn(self, client: RawClient, *, nth: int = 1) -> Json:
        """Wait for the nth turn that ends, over all conversations of this client."""
        return client.wait_for_event("turn.completed", nth=nth)["event"]["turn"]

    def log_of(self, conversation_id: str) -> Path:
        return self.project / ".openhands/conversations" / conversation_id / "events.jsonl"

    def records_of(self, conversation_id: str) -> list[Json]:
        """Return the events on disk, without the lines that say who opened and closed the log."""
        lines = self.log_of(conversation_id).read_bytes().split(b"\n")
        messages = [json.loads(line) for line in lines if line]
        return [line for line in messages if "seq" in line]


def wait_for_status(client: RawClient, status: str, *, nth: int = 1) -> Json:
    """Wait for the nth `status.changed` to this status, over all conversations of this client."""
    return client.wait_for_event(lambda params: params["event"].get("to") == status, nth=nth)


def items(client: RawClient, kind: str) -> list[Json]:
    """Return the items of a kind that have ended, in order."""
    items_ended = (
        e["event"]["item"] for e in client.events if e["event"]["type"] == "item.completed"
    )
    return [item for item in items_ended if item["kind"] == kind]


def content_of(item: Json) -> str:
    return "\n".join(part.get("text", "") for part in item["content"])


def wait_for_words(file: Path, words: bytes, n: int) -> None:
    """Wait for words in a file, the only sign of what a daemon does while nobody reads from it."""
    deadline = time.monotonic() + WITHIN_S
    while not file.exists() or file.read_bytes().count(words) < n:
        assert time.monotonic() < deadline
        threading.Event().wait(0.02)
