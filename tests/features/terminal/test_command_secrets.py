"""Secrets for commands: a command that names one gets it, the user is asked, no other has it."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from command_line import end, environment, start
from fake_llm import FakeLLM, call, say
from starts import SCRIPT
from world import World, content_of, items

from oh_daemon import LLM, Agent, Conversation, Workspace

Json = dict[str, Any]
VALUE = 'it\'s a shop-token of 2026, "quoted" $HOME'
PRINTED = hashlib.sha256(VALUE.encode()).hexdigest()
PRINT = 'printf %s "$SHOP_TOKEN" | sha256sum; echo "$SHOP_TOKEN"'
LOOK = "env | grep -c ^SHOP"
"""A command that names no secret, only the beginning of one."""


def test_an_editor_lends_a_secret_to_commands_that_name_it(world: World) -> None:
    commands = (PRINT, LOOK, f"{PRINT}; exit 3", LOOK)
    world.script(*(call("terminal", command=command) for command in commands), say("Done."))
    client = world.daemon()
    client.answer("approval/request", lambda _asked: {"optionId": "allow-once"})
    names = client.request(
        "secret/set", {"name": "SHOP_TOKEN", "value": VALUE, "forCommands": True}
    )
    assert names == {"names": [], "forCommands": ["SHOP_TOKEN"]}
    world.start(client, options={"approval": "askRisky"})
    world.turn(client)
    approval_events = [
        e["event"] for e in client.events if e["event"]["type"] == "approval.requested"
    ]
    gets_it = [a["approval"] for a in approval_events if "SHOP_TOKEN" in a["approval"]["title"]]
    assert [approval["risk"] for approval in gets_it] == ["high", "high"]
    assert gets_it[0]["reason"].startswith("it gets the secret SHOP_TOKEN")
    first, second, third, fourth = map(content_of, items(client, "command"))
    for output in (first, third):
        assert PRINTED in output
        assert "<secret hidden>" in output
    assert [output.splitlines()[0] for output in (second, fourth)] == ["0", "0"]
    assert "secrets: $SHOP_TOKEN" in str(world.llm.requests[0].body["messages"][1])
    actual_names = client.request("secret/remove", {"name": "SHOP_TOKEN"})
    assert actual_names == {"names": [], "forCommands": []}


def test_a_secret_in_a_long_line_is_hidden_where_the_line_is_cut(world: World) -> None:
    (world.project / "a.js").write_text("x " * 990 + VALUE + " y" * 5000)
    (world.project / "b.js").write_text("x " * 5000 + f"{VALUE}{' ' * 186}needle" + " y" * 5000)
    world.script(
        call("edit", command="view", path="a.js"),
        call("grep", pattern="needle", path="b.js"),
        call("grep", pattern="x", path="a.js", context=1),
        say("Done."),
    )
    client = world.daemon()
    client.request("secret/set", {"name": "SHOP_TOKEN", "value": VALUE})
    world.start(client)
    world.turn(client)
    contents = [content_of(item) for kind in ("toolCall",) for item in items(client, kind)]
    for text in contents:
        assert "cut" in text
        assert not any(half in text for half in ("it's a shop", "$HOME", "quoted"))
    assert "needle" in contents[1]


def test_what_is_taken_back_before_the_answer_is_not_given(world: World) -> None:
    world.script(call("terminal", command=PRINT), say("Done."))
    client = world.daemon()
    client.request("secret/set", {"name": "SHOP_TOKEN", "value": VALUE, "forCommands": True})
    world.start(client, options={"approval": "askAlways"})
    approval = client.wait_for_event("approval.requested")["event"]["approval"]
    client.request("secret/remove", {"name": "SHOP_TOKEN"})
    answer = {"approvalId": approval["id"], "digest": approval["digest"]}
    client.request("approval/respond", {**answer, "optionId": "allow-once"})
    again = client.wait_for_event("approval.requested", nth=2)["event"]["approval"]
    assert "it gets the secret SHOP_TOKEN" in approval["reason"]
    assert "it gets the secret" not in again.get("reason", "")


def test_a_program_gives_a_secret_when_a_command_needs_it(tmp_path: Path) -> None:
    def raise_error() -> str:
        raise LookupError(VALUE)

    secrets = {"SHOP_TOKEN": lambda: VALUE, "OTHER": raise_error, "SHORT": "short"}
    heard: list[str] = []
    with FakeLLM() as fake, Workspace(tmp_path, secrets=secrets) as workspace:
        names = ("SHOP_TOKEN", "OTHER", "SHORT")
        for name in names:
            fake.add(call("terminal", command=PRINT.replace("SHOP_TOKEN", name)))
        fake.add(say("Done."))
        llm = LLM(model="openai/fake", api_key="sk-library-0123456789", base_url=fake.url)
        with Conversation(Agent(llm=llm), workspace) as conversation:
            conversation.register_callback(lambda record: heard.append(record.model_dump_json()))
            conversation.run("go")
        first, second, third = (m["content"] for m in fake.requests[-1].body["messages"][3::2])
    assert PRINTED in first
    assert "the secret OTHER cannot be had: LookupError" in second
    assert "the secret SHORT is too short to be hidden" in third
    assert heard
    assert VALUE not in "".join(heard)


def test_a_run_gives_a_variable_to_commands_that_name_it(world: World) -> None:
    def run(*options: str) -> tuple[int, str, str]:
        model = {"OH_DAEMON_MODEL": "openai/fake", "OH_DAEMON_BASE_URL": world.llm.url}
        model |= {"OH_DAEMON_API_KEY": "sk-run-0123456789", "SHOP_TOKEN": VALUE}
        argv = [SCRIPT, "run", "go", "--ask", "never", *options]
        outcome = end(start(argv, world.project, environment(world.home, **model)))
        return outcome.code, outcome.out, outcome.err

    world.script(call("terminal", command=PRINT), say("Done."))
    code, out, _ = run("--secret", "SHOP_TOKEN")
    assert code == 0
    assert PRINTED in out
    assert VALUE not in out
    code, _, err = run("--secret", "NO_SUCH")
    assert code == 2
    assert "--secret NO_SUCH: set this variable" in err


POISON = (
    "__oh_forget() { true; }; __oh_done() { true; }; __oh_lend() { true; }",
    "unset() { true; }; export() { declare -gx \"$@\"; }; trap 'kept=$BASH_COMMAND' DEBUG; set -ET",
    "set -o history; alias '{'=true",
)
LOOK_AROUND = "{ declare -xp; set; history; jobs; } | grep -i shop | rev; echo looked"


@pytest.mark.parametrize("poison", POISON)
def test_a_secret_is_gone_after_its_command_whatever_the_shell_was_told_before(
    world: World, poison: str
) -> None:
    commands = (poison, PRINT, LOOK_AROUND)
    world.script(*(call("terminal", command=command) for command in commands), say("Done."))
    client = world.daemon()
    client.request("secret/set", {"name": "SHOP_TOKEN", "value": VALUE, "forCommands": True})
    world.start(client, options={"approval": "askNever"})
    world.turn(client)
    outputs = [content_of(item) for item in items(client, "command")]
    assert "looked" in outputs[-1]
    frames = json.dumps([*client.events, *(r.body for r in world.llm.requests)])
    assert not any(half in frames for half in (VALUE, "nekot-pohs", "shop-token of"))
