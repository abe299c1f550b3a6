"""What clients get through LSP alone: changes to look at, code actions, documents, messages."""

import threading
from typing import Any
from urllib.parse import quote, unquote

import pytest
from fake_llm import Step, call, error, hold_step, say
from raw_client import RawClient
from world import World

pytestmark = pytest.mark.one_daemon

Json = dict[str, Any]
SHOWS: Json = {
    "window": {"showDocument": {"support": True}},
    "workspace": {"textDocumentContent": {"dynamicRegistration": False}},
}

OURS = ("conversation/", "daemon/", "mcp/")
"""How the names of our own notifications begin."""


def change_file(world: World, client: RawClient) -> str:
    """Run a conversation in which the agent makes a file and prints a lot; return its id."""
    world.script(
        call("edit", command="create", path="new file.py", text="x = 1\n"),
        call("terminal", command="seq 20000"),
        say("Made it."),
    )
    conversation = world.start(client)
    world.turn(client)
    return conversation


def command(client: RawClient, name: str, argument: Json) -> Any:
    return client.request("workspace/executeCommand", {"command": name, "arguments": [argument]})


def content(client: RawClient, uri: str) -> str:
    return client.request("workspace/textDocumentContent", {"uri": uri})["text"]


def test_changes_are_shown_in_the_client_s_diff_and_all_documents_are_there(world: World) -> None:
    client = world.daemon(features={"openDiff": True})
    client.answer("editor/openDiff", lambda _params: {})
    conversation = change_file(world, client)
    uri = (world.project / "new file.py").as_uri()
    command(client, "ohDaemon.showChanges", {"conversationId": conversation})
    diff_request = client.wait_for(lambda m: m.get("method") == "editor/openDiff")["params"]
    assert (diff_request["uri"], diff_request["title"]) == (
        uri,
        "new file.py: changes of the agent",
    )
    assert content(client, diff_request["oldUri"]) == ""
    assert content(client, diff_request["newUri"]) == "x = 1\n"
    # VS Code also escapes the equals sign of a query.
    address, _, query = diff_request["newUri"].partition("?")
    assert content(client, f"{address}?{quote(unquote(query), safe='')}") == "x = 1\n"
    log = content(client, f"oh-log:/{conversation}")
    assert "Create new file.py" in log
    assert "Made it." in log
    events_ended = (e["event"] for e in client.events if e["event"]["type"] == "item.completed")
    [ref] = [e["item"]["outputRef"] for e in events_ended if "outputRef" in e["item"]]
    output = content(client, f"oh-output:/{conversation}/{ref}")
    assert [line for line in output.split("\n") if line.strip() == "10000"]
    for wrong in ("file:///etc/passwd", f"oh-output:/{conversation}/../x", "oh-diff:/x/old", ""):
        error = client.error("workspace/textDocumentContent", {"uri": wrong})
        assert error.code in (-32602, -31002)


def test_without_a_diff_the_patch_is_shown_or_else_it_is_said_that_nothing_can_be(
    world: World,
) -> None:
    plain = world.daemon()
    conversation = change_file(world, plain)
    params = {"command": "ohDaemon.showChanges", "arguments": [{}]}
    assert "changes/diff" in plain.error("workspace/executeCommand", params).message
    assert plain.error("workspace/executeCommand", {**params, "arguments": [7]}).code == -32602
    plain.close()
    client = world.raw()
    client.answer("window/showDocument", lambda _params: {"success": True})
    client.initialize([world.project], params={"capabilities": SHOWS})
    client.request("conversation/open", {"conversationId": conversation})
    command(client, "ohDaemon.showChanges", {"conversationId": conversation})
    message = client.wait_for(lambda m: m.get("method") == "window/showDocument")["params"]
    assert "+x = 1" in content(client, message["uri"])


def test_a_code_action_gives_the_selected_text_to_the_conversation_that_rests_there(
    world: World,
) -> None:
    path = world.project / "a.py"
    path.write_text("")
    client = world.daemon()
    document = {
        "uri": path.as_uri(),
        "languageId": "python",
        "version": 1,
        "text": "x = '😀' + 1\n",
    }
    client.notify("textDocument/didOpen", {"textDocument": document})
    span = {"start": {"line": 0, "character": 4}, "end": {"line": 0, "character": 8}}
    problem = {"range": span, "message": "no sum", "severity": 1}
    request_params = {"textDocument": {"uri": path.as_uri()}, "range": span}

    def offered_titles(**context: Any) -> dict[str, Json]:
        params = {**request_params, "context": {"diagnostics": [], **context}}
        return {a["title"]: a for a in client.request("textDocument/codeAction", params)}

    assert list(offered_titles()) == ["Explain", "Write a test"]
    assert list(offered_titles(diagnostics=[problem], triggerKind=2)) == ["Fix with agent"]
    assert list(offered_titles(diagnostics=[problem], only=["refactor"])) == []
    assert client.error("textDocument/codeAction", {"range": 1}).code == -32602
    world.script(say("Because."), say("Fixed."), say("Tested."))
    fix = offered_titles(diagnostics=[problem])["Fix with agent"]
    explain = offered_titles()["Explain"]
    result = client.request("workspace/executeCommand", explain)
    world.turn(client)
    receipt = client.request("workspace/executeCommand", fix)
    world.turn(client, nth=2)
    assert result["conversation"]["folders"] == [world.project.as_uri()]
    assert receipt["disposition"] == "started"
    assert len(client.request("conversation/list")["conversations"]) == 1
    first, second = (m["content"] for m in world.llm.requests[-1].body["messages"][1::2])
    assert "Explain the code given" in first
    assert "'😀'" in first
    assert "Fix the problem given" in second
    assert "no sum" in second
    client.request("workspace/executeCommand", offered_titles()["Write a test"])
    world.turn(client, nth=3)
    third = world.llm.requests[-1].body["messages"][-1]["content"]
    assert "Write tests for the code given" in third
    assert "'😀'" in third
    error = client.error(
        "workspace/executeCommand",
        {
            "command": "ohDaemon.codeAction",
            "arguments": [{**explain["arguments"][0], "command": "x"}],
        },
    )
    assert error.code == -32602


def test_a_client_that_only_runs_commands_gets_no_notification_that_lsp_does_not_know(
    world: World,
) -> None:
    world.script(call("think", thought="one"), say("Hello."), say("Again."))
    client = world.raw()
    client.initialize([world.project])
    start = {"command": "ohDaemon.start", "arguments": ["go"]}
    conversation_info = client.request("workspace/executeCommand", start)["conversation"]
    client.wait_for(lambda message: message.get("method") == "window/showMessage")
    client.error("no/suchMethod")
    assert not [m for m in client.messages if m.get("method", "").startswith(OURS)]
    # From its first request of our own on, the client is one that knows us.
    world.send(client, conversation_info["id"], "more")
    assert world.turn(client)["finalText"] == "Again."


def test_a_client_that_only_runs_commands_is_told_that_a_log_cannot_be_written(
    world: World,
) -> None:
    gate = threading.Event()
    world.script(hold_step(call("think", thought="x"), gate))
    client = world.raw()
    client.initialize([world.project])
    start = {"command": "ohDaemon.start", "arguments": ["go"]}
    conversation_info = client.request("workspace/executeCommand", start)["conversation"]
    world.llm.wait_for_requests(1)
    log = world.log_of(conversation_info["id"])
    log.rename(log.with_name("away"))
    gate.set()
    notification = client.wait_for(lambda message: message.get("method") == "window/showMessage")
    assert notification["params"]["type"] == 1
    assert "moved or deleted" in notification["params"]["message"]


@pytest.mark.parametrize(
    ("options", "turns"),
    [
        (
            None,
            [
                (say("Hello."), [(3, "Hello.")]),
                (error(401, "no such key"), [(1, "no such key")]),
                # The turn is paused then, and an editor without a plugin shows nothing else of it.
                (error(429, "too fast"), [(1, "too fast")]),
                (call("think", thought="one"), [(3, "The turn ended: maxSteps")]),
            ],
        ),
        ({"ohDaemon": {}}, [(say("Hello."), [])]),
        # What Lua makes of empty tables.
        ({"ohDaemon": {"features": []}}, [(say("Hello."), [])]),
        ([], [(say("Hello."), [(3, "Hello.")])]),
    ],
)
def test_a_client_without_our_block_is_shown_how_a_turn_went(
    world: World, options: Any, turns: list[tuple[Step, list[tuple[int, str]]]]
) -> None:
    (world.home / "settings.json").write_text('{"llm": {"maxAttempts": 1}}')
    client = world.raw()
    client.initialize([world.project], params={"initializationOptions": options})
    for step, expected_text in turns:
        client.forget()
        world.script(step)
        world.start(client, maxSteps=1)
        client.wait_for_event(lambda p: p["event"].get("from") == "running")
        client.request("daemon/status")
        messages = client.notifications("window/showMessage")
        assert [message["type"] for message in messages] == [kind for kind, _ in expected_text]
        pairs = zip(messages, expected_text, strict=True)
        assert all(words in message["message"] for message, (_, words) in pairs)
