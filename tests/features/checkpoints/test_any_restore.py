"""After any mixture of edits, commands and reviews, going back gives what was, or says what not."""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from fake_llm import Step, call, say
from raw_client import RawClient
from world import World, items

Json = dict[str, Any]
Files = dict[str, str]

pytestmark = pytest.mark.one_daemon
N_ROUNDS = 8


def files_in(folder: Path) -> Files:
    return {path.name: path.read_text() for path in folder.glob("*.txt")}


@dataclass
class Round:
    """One conversation in which something is done at random."""

    world: World
    client: RawClient
    chance: random.Random
    conversation: str = ""
    n_done: int = 0
    before: dict[str, Files] = field(default_factory=dict[str, Files])
    """The files before each action, by the id of its item."""
    messages: list[tuple[str, Files]] = field(default_factory=list[tuple[str, Files]])
    """The user's messages by their ids, with the files before each."""

    def step(self) -> None:
        """Let the agent do something, or review a part of what it did."""
        self.n_done += 1
        choice = self.chance.choice(
            ["edit", "edit", "command", "command", "new", "review", "review"]
        )
        if choice == "review":
            self.review()
            return
        files = files_in(self.world.project)
        if not files:
            choice = "new"
        name = self.chance.choice(sorted(files)) if choice != "new" else f"n{self.n_done}.txt"
        self.act(self.edit(name, files) if choice in {"edit", "new"} else self.command(name, files))

    def edit(self, name: str, files: Files) -> Step:
        if name not in files:
            return call("edit", command="create", path=name, text=f"made {self.n_done}\n")
        line = self.chance.choice(files[name].splitlines())
        change = {"old_text": f"{line}\n", "new_text": f"edit {self.n_done}\n"}
        return call("edit", command="replace", path=name, **change)

    def command(self, name: str, files: Files) -> Step:
        n = self.chance.randint(1, max(1, len(files[name].splitlines())))
        command = self.chance.choice(
            [
                f"sed -i '{n}s/.*/command {self.n_done}/' {name}",
                f"sed -i '{n}i inserted {self.n_done}' {name}",
                f"echo made {self.n_done} > c{self.n_done}.txt",
                f"rm {name}",
            ]
        )
        return call("terminal", command=command)

    def act(self, step: Step) -> None:
        before = files_in(self.world.project)
        self.world.script(step, say("Done."))
        if self.conversation:
            self.world.send(self.client, self.conversation, "next", wait="completed")
        else:
            self.conversation = self.world.start(self.client, "first")
            self.world.turn(self.client)
        items_done = [i for i in items_of(self.client) if i["kind"] in {"fileChange", "command"}]
        self.before[items_done[-1]["id"]] = before
        self.messages.append((items(self.client, "userMessage")[-1]["id"], before))

    def review(self) -> None:
        if not self.conversation:
            return
        params = {"conversationId": self.conversation}
        files = self.client.request("changes/list", params)["files"]
        pending = [each["uri"] for each in files if each["state"] == "pending"]
        if not pending:
            return
        uri = self.chance.choice(pending)
        hunks = self.client.request("changes/diff", {**params, "uri": uri})["hunks"]
        review_params: Json = {"uris": [uri]}
        if len(hunks) > 1 and self.chance.random() < 0.7:
            review_params = {"hunks": [{"uri": uri, **self.chance.choice(hunks)}]}
        method = self.chance.choice(["changes/undo", "changes/undo", "changes/keep"])
        self.client.request(method, {**params, **review_params})

    def go_back(self) -> None:
        """Go back to before a random action, and compare."""
        request_params = {"conversationId": self.conversation}
        if self.chance.random() < 0.5:
            message, target_message = self.chance.choice([self.messages[0], *self.messages])
            params = {**request_params, "toItemId": message, "files": "restore"}
            result = self.client.request("conversation/rollback", params)
        else:
            checkpoints = self.client.request("checkpoint/list", request_params)["checkpoints"]
            if not checkpoints:
                return
            checkpoint_id = self.chance.choice([checkpoints[0], *checkpoints])["id"]
            target_message = self.before[checkpoint_id]
            params = {**request_params, "checkpointId": checkpoint_id}
            result = self.client.request("checkpoint/restore", params)
        named_files = {each["uri"].rpartition("/")[2] for each in result["conflicts"]}
        now = files_in(self.world.project)
        differing = {
            n for n in target_message.keys() | now.keys() if target_message.get(n) != now.get(n)
        }
        assert differing <= named_files, (target_message, now, result)


def items_of(client: RawClient) -> list[Json]:
    items_ended = (
        e["event"]["item"] for e in client.events if e["event"]["type"] == "item.completed"
    )
    return [item for item in items_ended if item["kind"] in {"fileChange", "command"}]


def test_what_commands_changed_is_reviewed_like_edits_and_marked(world: World) -> None:
    (world.project / "a.txt").write_text("one\ntwo\n")
    world.script(call("terminal", command="sed -i s/two/2/ a.txt; echo x > b.txt"), say("Done."))
    client = world.daemon()
    params = {"conversationId": world.start(client)}
    world.turn(client)
    files = client.request("changes/list", params)["files"]
    assert [(f["uri"].rpartition("/")[2], f["op"], f["byCommand"]) for f in files] == [
        ("a.txt", "modify", True),
        ("b.txt", "add", True),
    ]
    updates = [e["event"] for e in client.events if e["event"]["type"] == "changes.updated"]
    assert len(updates[-1]["files"]) == 2
    diff = client.request("changes/diff", {**params, "uri": files[0]["uri"]})
    assert (diff["oldText"], diff["newText"]) == ("one\ntwo\n", "one\n2\n")
    assert client.request("changes/undo", params)["conflicts"] == []
    assert files_in(world.project) == {"a.txt": "one\ntwo\n"}


@pytest.mark.parametrize("number", range(N_ROUNDS))
def test_going_back_gives_what_was_or_names_what_differs(world: World, number: int) -> None:
    seed = f"{os.environ.get('OH_TEST_SEED', 'x3')}-{number}"
    chance = random.Random(seed)
    for name in ("a.txt",):
        (world.project / name).write_text("".join(f"{name} {n}\n" for n in range(30)))
    round_ = Round(world, world.daemon(), chance)
    for _ in range(chance.randint(4, 9)):
        round_.step()
    if round_.conversation:
        round_.go_back()
