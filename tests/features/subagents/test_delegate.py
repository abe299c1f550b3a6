"""Sub-agents: conversations that work for another conversation, through the real daemon."""

import json
import threading

import pytest
from command_line import end, environment, start
from delegation import Json, delegate, script, task
from fake_llm import call, calls, error, first_user_text, hang, hold_step, say
from raw_client import RawClient
from starts import SCRIPT
from world import World, content_of, items, wait_for_status

from oh_daemon.conformance.rpc_process import NoAnswer

pytestmark = pytest.mark.one_daemon
ASKING: Json = {"options": {"approval": "askRisky"}}
SLEEP = call("terminal", command="sleep 4321", timeout_s=600)


def of(client: RawClient, conversation: str, kind: str) -> list[Json]:
    """Return the events of one conversation and type."""
    own_events = (each for each in client.events if each["conversationId"] == conversation)
    return [each["event"] for each in own_events if each["event"]["type"] == kind]


def child_of(client: RawClient, *, nth: int = 1) -> str:
    """Wait for the nth sub-agent to be announced; return its conversation."""

    def is_announced(params: Json) -> bool:
        event = params["event"]
        return event["type"] == "item.started" and event["item"]["kind"] == "subagent"

    return client.wait_for_event(is_announced, nth=nth)["event"]["item"]["conversationId"]


def wait_for_end(client: RawClient, conversation: str, *, nth: int = 1) -> Json:
    """Wait for the nth turn that ends in this conversation."""

    def is_end(params: Json) -> bool:
        is_its = params["conversationId"] == conversation
        return is_its and params["event"]["type"] == "turn.completed"

    return client.wait_for_event(is_end, nth=nth)["event"]["turn"]


def result_of(client: RawClient, *, nth: int = 1) -> Json:
    """Return the nth result of `delegate`."""
    return [item for item in items(client, "toolCall") if item["tool"] == "delegate"][nth - 1]


def set_prices(world: World, **settings: float) -> None:
    prices = {"inputCostPerToken": 0.01, "outputCostPerToken": 0.01}
    (world.home / "settings.json").write_text(json.dumps({"llm": prices, **settings}))


def test_tasks_run_side_by_side_and_their_last_words_are_the_result(world: World) -> None:
    gate = threading.Event()
    set_prices(world)
    script(
        world,
        go=[delegate(task("one", "explore"), task("two")), say("Both are done.")],
        one=[hold_step(say("The parser is in a.py.", n_chunks=3), gate, after=1)],
        two=[hold_step(say("I fixed it.", n_chunks=3), gate, after=1)],
    )
    client = world.daemon()
    parent = world.start(client)
    world.llm.wait_for_requests(3)
    one, two = child_of(client), child_of(client, nth=2)
    gate.set()
    turn = wait_for_end(client, parent)
    assert turn["finalText"] == "Both are done."
    result = result_of(client)
    assert (result["status"], result["title"]) == (
        "completed",
        "Delegate: Title of one, Title of two",
    )
    assert [part["text"] for part in result["content"]] == [
        f"[explore: Title of one | conversation {one} | completed]\nThe parser is in a.py.",
        f"[general: Title of two | conversation {two} | completed]\nI fixed it.",
    ]
    assert result["meta"]["subagents"] == [
        {"conversationId": one, "agent": "explore", "status": "completed"},
        {"conversationId": two, "agent": "general", "status": "completed"},
    ]
    item_by_id = {item["conversationId"]: item for item in items(client, "subagent")}
    assert {key: item["status"] for key, item in item_by_id.items()} == dict.fromkeys(
        (one, two), "completed"
    )
    # A client that follows the parent hears every event of each child, from the first to the last.
    for child in (one, two):
        [creation] = of(client, child, "conversation.created")
        assert (creation["parentId"], creation["folders"]) == (parent, [world.project.as_uri()])
        assert of(client, child, "conversation.closed")
    # The parent's turn is billed for all of it, and the provider can share one cache.
    assert turn["usage"]["requests"] == 4
    assert turn["usage"]["cost"]["amount"] == pytest.approx(4 * 1.1)
    assert turn["nSteps"] == 2
    assert {r.body["prompt_cache_key"] for r in world.llm.requests} == {parent}
    check_lists(world, client, parent, {one, two})


def test_a_task_ends_with_the_result_that_was_asked_for(world: World) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    counting = [task(words, "explore", result_schema=schema) for words in ("one", "two")]
    script(
        world,
        go=[
            delegate(*counting, task("three"), task("four", result_schema={"type": "number!"})),
            call("finish", message="All.", result=[3]),
        ],
        one=[
            call("finish", message="Counted.", result={"n": "three"}),
            call("finish", message="Counted.", result={"n": 3}),
        ],
        two=[say("About three.")],
        three=[call("finish", message="Done.")],
    )
    client = world.daemon()
    # The schema for the parent's result does not apply to its sub-agents.
    parent = world.start(client, resultSchema={"type": "array"})
    assert wait_for_end(client, parent)["result"] == [3]
    result = result_of(client)
    entries = result["meta"]["subagents"]
    assert [(each["status"], each.get("reason"), each.get("result")) for each in entries] == [
        ("completed", None, {"n": 3}),
        ("failed", "noResult", None),
        ("completed", None, None),
        ("failed", "invalidParams", None),
    ]
    one, two, _, four = [part["text"] for part in result["content"]]
    assert one.endswith(' | completed]\nCounted.\nresult: {"n": 3}')
    assert "it ended without the result that was asked for; a task with resume" in two
    assert "it is not a JSON Schema" in four
    child_requests = [r for r in world.llm.requests if first_user_text(r.body).startswith("one")]
    assert "Call `finish` at the end" in child_requests[0].body["messages"][0]["content"]


def check_lists(world: World, client: RawClient, parent: str, children: set[str]) -> None:
    """Check that sub-agents are listed only on request, and are deleted with their parent."""
    conversations = client.request("conversation/list")["conversations"]
    assert [info["id"] for info in conversations] == [parent]
    actual_children = client.request("conversation/list", {"parentId": parent})["conversations"]
    assert {info["id"] for info in actual_children} == children
    assert {info["parentId"] for info in actual_children} == {parent}
    changes = client.notifications("conversation/changed")
    assert {each["conversation"]["id"] for each in changes} == {parent}
    client.request("conversation/delete", {"conversationId": parent})
    assert not any(world.log_of(child).exists() for child in children)


def test_what_sub_agents_change_is_reviewed_with_the_turn_of_their_parent(world: World) -> None:
    path = world.project / "a.txt"
    path.write_text("one\ntwo\n")
    view = call("edit", command="view", path="a.txt")
    edits = [
        call("edit", command="replace", path="a.txt", old_text=old, new_text=new)
        for old, new in (("one", "ONE"), ("two", "TWO"))
    ]
    script(
        world,
        go=[delegate(task("first")), delegate(task("second")), say("Done.")],
        first=[view, edits[0], say("One.")],
        second=[view, edits[1], say("Two.")],
    )
    client = world.daemon()
    params = {"conversationId": world.start(client)}
    turn = wait_for_end(client, params["conversationId"])
    in_file = {**params, "uri": path.as_uri()}
    for which in ({}, {"turnId": turn["id"]}):
        [file] = client.request("changes/list", {**params, **which})["files"]
        assert (file["uri"], file["state"], file["added"]) == (path.as_uri(), "pending", 2)
        diff = client.request("changes/diff", {**in_file, **which})
        assert (diff["oldText"], diff["newText"]) == ("one\ntwo\n", "ONE\nTWO\n")
    client.request("conversation/close", params)
    client.request("conversation/open", params)
    first = items(client, "userMessage")[0]["id"]
    back = {**params, "toItemId": first, "files": "restore", "dryRun": True}
    assert client.request("conversation/rollback", back)["restored"] == [path.as_uri()]
    assert client.request("changes/undo", params)["done"] == [path.as_uri()]
    assert path.read_text() == "one\ntwo\n"


@pytest.mark.own_daemon
def test_a_turn_that_waits_for_its_sub_agents_leaves_its_place_to_them(world: World) -> None:
    (world.home / "settings.json").write_text(json.dumps({"maxRunningTurns": 1}))
    tasks = [task(f"t{n}") for n in range(6)]
    script(
        world,
        go=[delegate(*tasks), say("Done.")],
        **{f"t{n}": [call("think", thought="hm"), say(f"Result {n}.")] for n in range(6)},
    )
    client = world.daemon()
    wait_for_end(client, world.start(client))
    texts = [part["text"].partition("\n")[2] for part in result_of(client)["content"]]
    assert texts == [f"Result {n}." for n in range(6)]


def test_what_a_sub_agent_does_is_asked_from_the_user_and_nothing_is_loosened(
    world: World,
) -> None:
    allowed_call, refused_call = (
        call("terminal", command=f"touch {name}") for name in ("a.txt", "b.txt")
    )
    script(
        world,
        go=[allowed_call, delegate(task("one"), task("two", "explore")), say("Done.")],
        one=[allowed_call, refused_call, say("One of two."), say("You are welcome.")],
        two=[refused_call, say("I only read.")],
    )
    client = world.daemon()

    def keep_waiting(_params: Json) -> None:
        raise NoAnswer

    client.answer("approval/request", keep_waiting)
    parent = world.start(client, **ASKING)
    first = client.wait_for_event("approval.requested")["event"]["approval"]
    answer = {"approvalId": first["id"], "digest": first["digest"]}
    client.request("approval/respond", {**answer, "optionId": "allow-conversation"})
    # What the parent was allowed is allowed; anything new is asked, under the child's own id.
    approval_event = client.wait_for_event("approval.requested", nth=2)["event"]["approval"]
    child = child_of(client)
    assert (approval_event["conversationId"], approval_event["title"]) == (child, "Run touch b.txt")
    assert client.wait_for(lambda m: m.get("method") == "approval/request", nth=2)
    assert client.request("approval/list")["pending"] == [approval_event]
    for each in (parent, child):
        for method in ("approval/list", "conversation/open"):
            assert client.request(method, {"conversationId": each})["pending"] == [approval_event]
    answer = {
        "approvalId": approval_event["id"],
        "digest": approval_event["digest"],
        "optionId": "reject",
    }
    client.request("approval/respond", {**answer, "feedback": "not that one"})
    wait_for_end(client, parent)
    wait_for_end(client, child)
    assert (world.project / "a.txt").exists()
    assert not (world.project / "b.txt").exists()
    commands = items(client, "command")
    assert any("not that one" in content_of(item) for item in commands)
    assert any("mode plan is read-only" in content_of(item) for item in commands)
    # A child that was opened by its own id stays open when its task is done.
    world.send(client, child, "thanks")
    assert wait_for_end(client, child, nth=2)["finalText"] == "You are welcome."


def test_what_holds_for_one_turn_holds_for_its_sub_agents_too(world: World) -> None:
    script(world, go=[say("Ready."), delegate(task("one")), say("Done.")], one=[say("One.")])
    client = world.daemon()
    parent = world.start(client, options={"mode": "full", "approval": "askNever"})
    wait_for_end(client, parent)
    overrides = {"options": {"mode": "ask", "model": "openai/other"}}
    world.send(client, parent, "now", overrides=overrides)
    wait_for_end(client, parent, nth=2)
    [creation] = of(client, child_of(client), "conversation.created")
    expected_options = {"mode": "ask", "approval": "askNever", "model": "openai/other"}
    assert creation["options"] == expected_options


def test_an_interrupt_reaches_sub_agents_and_their_commands(world: World) -> None:
    script(world, go=[delegate(task("one"), task("two"))], one=[SLEEP], two=[hang()])
    client = world.daemon()
    parent = world.start(client)
    world.llm.wait_for_requests(3)
    client.wait_for_event(lambda p: p["event"].get("status") == "running" and "itemId" in p, nth=2)
    interrupt_result = client.request("conversation/interrupt", {"conversationId": parent})
    assert interrupt_result["status"] == "interrupted"
    for child in (child_of(client), child_of(client, nth=2)):
        assert wait_for_end(client, child)["status"] == "interrupted"
    result = result_of(client)
    assert (result["status"], result["reason"]) == ("cancelled", "interrupted")
    assert f"resume '{child_of(client)}'" in content_of(result)
    assert {item["status"] for item in items(client, "subagent")} == {"cancelled"}


def test_a_pause_holds_sub_agents_and_a_task_with_resume_goes_on(world: World) -> None:
    gate = threading.Event()
    script(
        world,
        go=[delegate(task("one"))],
        one=[hold_step(call("think", thought="hm"), gate), say("All of it.")],
    )
    client = world.daemon()
    parent = world.start(client)
    world.llm.wait_for_requests(2)
    child = child_of(client)
    client.request("conversation/pause", {"conversationId": parent})
    gate.set()
    wait_for_status(client, "paused", nth=2)
    assert "paused by the user" in content_of(result_of(client))
    assert not of(client, child, "turn.completed")
    world.llm.play([delegate(task("go on", resume=child)), say("All of it."), say("Done.")])
    client.request("conversation/resume", {"conversationId": parent})
    assert wait_for_end(client, parent)["finalText"] == "Done."
    again = result_of(client, nth=2)
    assert f"conversation {child} | completed]\nAll of it." in content_of(again)
    messages = items(client, "userMessage")
    assert [content_of(item) for item in messages] == ["go", "one", "go on"]


def test_a_daemon_that_dies_leaves_sub_agents_that_can_be_resumed(world: World) -> None:
    script(world, go=[delegate(task("one"))], one=[call("think", thought="hm"), hang()])
    client = world.daemon()
    parent = world.start(client)
    world.llm.wait_for_requests(3)
    child = child_of(client)
    client.kill()
    second = world.daemon()
    second.request("conversation/open", {"conversationId": parent})
    [lost_item] = [
        r["event"]["item"] for r in world.records_of(parent) if _is_end_of(r, "subagent")
    ]
    assert (lost_item["status"], lost_item["reason"]) == ("cancelled", "outcomeUnknown")
    n_before = len(world.llm.requests)
    resume_call = delegate(task("go on", resume=child))
    world.llm.play([resume_call, say("Found it."), say("Done.")])
    world.send(second, parent, "go on")
    assert wait_for_end(second, parent)["finalText"] == "Done."
    messages = world.llm.requests[n_before].body["messages"]
    assert any(f"resume '{child}' goes on with it" in str(m.get("content")) for m in messages)
    assert "completed]\nFound it." in content_of(result_of(second))


def _is_end_of(record: Json, kind: str) -> bool:
    event = record["event"]
    return event["type"] == "item.completed" and event["item"]["kind"] == kind


def test_a_sub_agent_has_none_of_its_own(world: World) -> None:
    again = [delegate(task("two")), say("I did it myself.")]
    script(world, go=[delegate(task("one")), say("Done.")], one=again, two=[say("Too deep.")])
    client = world.daemon()
    wait_for_end(client, world.start(client))
    assert content_of(result_of(client, nth=2)).endswith("I did it myself.")
    assert len(items(client, "subagent")) == 1
    child = next(r.body for r in world.llm.requests if first_user_text(r.body).startswith("one"))
    tool_names = {each["function"]["name"] for each in child["tools"]}
    assert "terminal" in tool_names
    assert tool_names.isdisjoint({"delegate", "ask"})


def test_the_prompt_of_a_sub_agent_fits_its_tools(world: World) -> None:
    """Findings D6 and D16: it was told of tools that it lacks, and that the user may leave plan."""
    refused_call = call("terminal", command="touch a.txt")
    script(
        world,
        go=[delegate(task("one", "explore")), say("Done.")],
        one=[refused_call, say("No.")],
    )
    client = world.daemon()
    wait_for_end(client, world.start(client))
    first, second = (
        r.body for r in world.llm.requests if first_user_text(r.body).startswith("one")
    )
    prompt = first["messages"][0]["content"]
    assert not any(f"`{name}`" in prompt for name in ("ask", "todo", "delegate"))
    assert "# From the user" not in prompt
    assert "mode: plan: look" in prompt
    edit = next(t["function"] for t in first["tools"] if t["function"]["name"] == "edit")
    assert edit["parameters"]["properties"]["command"]["enum"] == ["view"]
    assert "The user may leave this mode" not in second["messages"][-1]["content"]


def test_a_sub_agent_that_fails_or_reaches_a_limit_says_so(world: World) -> None:
    set_prices(world)
    script(
        world,
        go=[
            delegate(task("steps"), task("broken"), task("x", resume="nobody")),
            say("Done."),
        ],
        steps=[calls(say("So far."), call("think", thought="a")), call("think", thought="b")],
        broken=[error(400, "no such thing")],
    )
    client = world.daemon()
    parent = world.start(client, maxSteps=2)
    wait_for_end(client, parent)
    result = result_of(client)
    steps, broken_text, nobody = (part["text"] for part in result["content"])
    assert result["status"] == "failed"
    assert "not completed: it reached its limit of steps" in steps
    assert steps.endswith("So far.")
    assert "no such thing" in broken_text
    assert "no open folder has a conversation 'nobody'" in nobody


@pytest.mark.parametrize("limit", ["maxCostUsd", "maxCostUsdPerConversation"])
def test_the_budget_of_the_parent_stops_its_sub_agents(world: World, limit: str) -> None:
    set_prices(world, **{limit: 2})
    script(
        world,
        go=[delegate(task("one"), task("two")), say("never")],
        one=[call("think", thought="a"), hang()],
        two=[hang()],
    )
    client = world.daemon()
    parent = world.start(client)
    turn = wait_for_end(client, parent)
    assert turn["stopReason"] == limit
    assert content_of(result_of(client)).count("the limit of cost was reached") == 2


AGENT_FILE = """\
---
name: reviewer
description: Reviews changes: carefully.
tools: Read, Grep
model: sonnet
---
You review like a pirate.
"""


def test_agents_come_from_files_of_trusted_folders_and_of_the_user(world: World) -> None:
    own_agents, project_agents = world.home / ".agents/agents", world.project / ".openhands/agents"
    for folder in (own_agents, project_agents):
        folder.mkdir(parents=True)
        (folder / "reviewer.md").write_text(AGENT_FILE.replace("carefully", folder.parts[-2]))
    (own_agents / "broken.md").write_text("no head")
    untrusted_client = world.daemon(trust_value=False)
    agent_by_name = {
        each["name"]: each for each in untrusted_client.request("agent/list")["agents"]
    }
    assert list(agent_by_name) == ["explore", "general", "reviewer"]
    assert agent_by_name["reviewer"]["source"] == "user"
    script(world, go=[delegate(task("one", "reviewer")), say("Done.")], one=[say("Arr.")])
    client = world.daemon()
    params = {"folder": world.project.as_uri()}
    assert client.request("agent/list", params)["agents"][-1] == {
        "name": "reviewer",
        "description": "Reviews changes: .openhands.",
        "source": "project",
        "path": str(project_agents / "reviewer.md"),
    }
    wait_for_end(client, world.start(client))
    parent, child, _ = (request.body for request in world.llm.requests)
    [delegate_tool] = [t for t in parent["tools"] if t["function"]["name"] == "delegate"]
    assert "- reviewer: Reviews changes: .openhands." in delegate_tool["function"]["description"]
    assert {t["function"]["name"] for t in child["tools"]} == {"edit", "grep", "finish"}
    assert "You review like a pirate." in child["messages"][0]["content"]
    assert child["model"] == parent["model"]
    [creation] = of(client, child_of(client), "conversation.created")
    assert creation["options"]["mode"] == "plan"
    # Whoever opens the child later, it still has the same tools.
    child_reopened = child_of(client)
    world.llm.play([say("Again.")])
    client.request("conversation/open", {"conversationId": child_reopened})
    world.send(client, child_reopened, "and?")
    assert wait_for_end(client, child_reopened, nth=2)["finalText"] == "Again."
    assert world.llm.requests[-1].body["tools"] == child["tools"]


def test_run_prints_the_lines_of_sub_agents_and_ends_with_its_own_turn(world: World) -> None:
    script(world, go=[delegate(task("one")), say("All done.")], one=[say("Yes.")])
    env = environment(world.home, **world.environment)
    argv = [SCRIPT, "run", "go", "--ask", "never", "--json"]
    outcome = end(start(argv, world.project, env))
    assert outcome.code == 0, outcome.err
    lines = [json.loads(line) for line in outcome.out.splitlines()]
    assert len({line["conversationId"] for line in lines}) == 2
    assert [line["event"]["type"] for line in lines].count("turn.completed") == 2
    assert lines[-1]["event"]["turn"]["finalText"] == "All done."
