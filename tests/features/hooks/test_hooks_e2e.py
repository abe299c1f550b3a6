"""Hooks in a real daemon: programs that watch, deny, rewrite and add."""

import json
from pathlib import Path
from typing import Any

import pytest
from fake_llm import call, calls, first_user_text, say, script_by_key
from raw_client import RawClient
from world import World, content_of, items, text, wait_for_status

pytestmark = pytest.mark.one_daemon

Json = dict[str, Any]
ASK: Json = {"options": {"approval": "askRisky"}}


def script(world: World, name: str, body: str) -> str:
    """Write a hook that keeps what it was told, then does `body`; return the command to run it."""
    path = world.home / name
    path.write_text(f"cat > '{world.home}/{name}.told'\n{body}\n")
    return f"bash '{path}'"


def hook_input(world: World, name: str) -> Json:
    return json.loads((world.home / f"{name}.told").read_text())


def hook(command: str, matcher: str = "", **fields: Any) -> list[Json]:
    return [{"matcher": matcher, "hooks": [{"type": "command", "command": command, **fields}]}]


def answer(**specific: Any) -> str:
    actual_answer = json.dumps({"hookSpecificOutput": {"hookEventName": "PreToolUse", **specific}})
    return f"cat <<'E'\n{actual_answer}\nE"


def decisions(client: RawClient) -> list[tuple[str, str]]:
    events = [e["event"] for e in client.events if e["event"]["type"] == "action.decided"]
    return [(event["effect"], event["rule"]) for event in events]


def wait_for_end(client: RawClient, conversation: str, *, nth: int = 1) -> Json:
    """Wait for the nth turn of one conversation to end."""

    def is_end(params: Json) -> bool:
        is_its = params["conversationId"] == conversation
        return is_its and params["event"]["type"] == "turn.completed"

    return client.wait_for_event(is_end, nth=nth)["event"]["turn"]


def test_a_denied_call_asks_nobody_and_a_rewritten_one_is_what_is_asked(world: World) -> None:
    deny = script(world, "deny", "grep -q nope $0.told && { echo not here >&2; exit 2; }; exit 0")
    rewrite = script(world, "rewrite", answer(updatedInput={"command": "touch safe"}))
    count = f"echo x >> '{world.home}/count'"
    groups = [*hook(deny, "Bash"), *hook(count, "terminal"), *hook(rewrite, "Bash")]
    world.script(
        call("terminal", command="touch nope"), call("terminal", command="touch it"), say("Done.")
    )
    client = world.daemon(settings={"hooks": {"PreToolUse": groups}})
    conversation = world.start(client, **ASK)
    approval = client.wait_for_event("approval.requested")["event"]["approval"]
    assert approval["subject"]["command"] == "touch safe"
    client.request(
        "approval/respond",
        {"approvalId": approval["id"], "digest": approval["digest"], "optionId": "allow-once"},
    )
    assert world.turn(client)["stopReason"] == "endTurn"
    denied, run = items(client, "command")
    assert (denied["status"], run["status"], run["command"]) == (
        "rejected",
        "completed",
        "touch safe",
    )
    assert "not here" in content_of(denied)
    assert decisions(client) == [("reject", "hook: not here")]
    assert {path.name for path in world.project.iterdir()} >= {"safe"}
    assert not (world.project / "it").exists()
    assert (world.home / "count").read_text() == "x\nx\n"
    payload = hook_input(world, "deny")
    assert payload["session_id"] == conversation
    assert (payload["hook_event_name"], payload["tool_name"]) == ("PreToolUse", "Bash")
    assert payload["tool_input"]["command"] == "touch it"
    assert Path(payload["transcript_path"]).is_file()


def test_a_hook_asks_once_what_would_run_and_one_of_the_project_allows_nothing(
    world: World,
) -> None:
    unsure = answer(permissionDecision="ask", permissionDecisionReason="who knows")
    ask = script(
        world, "ask", f"echo x >> '{world.home}/count'\ngrep -q ls $0.told || exit\n{unsure}"
    )
    allow = script(world, "allow", answer(permissionDecision="allow"))
    (world.project / ".claude").mkdir()
    project_values = {"hooks": {"PreToolUse": hook(allow)}}
    (world.project / ".claude/settings.json").write_text(json.dumps(project_values))
    world.script(call("terminal", command="ls"), call("terminal", command="touch it"), say("Done."))
    client = world.daemon(settings={"hooks": {"PreToolUse": hook(ask, "Bash")}})
    world.start(client, **ASK)
    reasons = ("hook: who knows; ls only reads", "touch creates, changes or deletes files")
    for nth, (reason, n_scopes) in enumerate(zip(reasons, (1, 3), strict=True), 1):
        approval = client.wait_for_event("approval.requested", nth=nth)["event"]["approval"]
        scopes = {each["scope"] for each in approval["options"] if each["effect"] == "allow"}
        assert (approval["reason"], len(scopes)) == (reason, n_scopes)
        params = {"approvalId": approval["id"], "digest": approval["digest"]}
        client.request("approval/respond", {**params, "optionId": "allow-once"})
    world.turn(client)
    assert [item["status"] for item in items(client, "command")] == ["completed"] * 2
    assert hook_input(world, "allow")["tool_input"]["command"] == "touch it"
    assert (world.home / "count").read_text() == "x\nx\n"


def test_half_a_character_that_a_hook_writes_into_a_call_breaks_no_turn(world: World) -> None:
    new_input = {"command": "create", "file_path": "\ud800.txt", "content": "x"}
    hooks = [
        *hook(script(world, "write", answer(updatedInput=new_input)), "Write"),
        *hook(script(world, "run", answer(updatedInput={"command": "echo \ud800"})), "Bash"),
    ]
    edit = call("edit", command="create", path="a.txt", text="x")
    world.script(edit, call("terminal", command="true"), say("Done."))
    client = world.daemon(settings={"hooks": {"PreToolUse": hooks}})
    world.start(client)
    assert world.turn(client)["finalText"] == "Done."
    assert (world.project / "\N{REPLACEMENT CHARACTER}.txt").read_text() == "x"
    [command] = items(client, "command")
    assert content_of(command).startswith("\N{REPLACEMENT CHARACTER}\n")


def test_a_finish_that_a_hook_denies_ends_nothing_so_what_comes_after_it_runs(world: World) -> None:
    deny = script(world, "deny", "echo 'Show the notes first.' >&2\nexit 2")
    world.script(
        calls(call("finish", message="Bye"), call("terminal", command="cat notes.txt")),
        say("Here they are."),
    )
    (world.project / "notes.txt").write_text("remember the milk\n")
    client = world.daemon(settings={"hooks": {"PreToolUse": hook(deny, "finish")}})
    world.start(client)
    assert world.turn(client)["finalText"] == "Here they are."
    [command] = items(client, "command")
    assert command["status"] == "completed"
    assert "remember the milk" in content_of(command)


def test_hooks_add_context_and_one_keeps_the_agent_from_resting(world: World) -> None:
    stop = script(
        world, "stop", "grep -q 'active\": true' $0.told || { echo 'Run the tests.' >&2; exit 2; }"
    )
    after = script(world, "after", answer(additionalContext="formatted"))
    hooks = {
        "SessionStart": hook("echo 'The sprint ends today.'", "startup"),
        "UserPromptSubmit": hook("echo 'Be brief.'"),
        "PostToolUse": hook(after, "Bash"),
        "Stop": hook(stop),
    }
    world.script(call("terminal", command="echo hi"), say("Done."), say("Tests pass."))
    client = world.daemon(settings={"hooks": hooks})
    world.start(client)
    assert world.turn(client)["finalText"] == "Tests pass."
    first, second, third = [json.dumps(r.body["messages"]) for r in world.llm.requests[-3:]]
    assert "The sprint ends today." in first
    assert "Be brief." in first
    assert "formatted" in second
    assert "Run the tests." in third
    assert hook_input(world, "after")["tool_response"]["output"].startswith("hi")


def test_a_sub_agent_is_kept_from_resting_and_older_steps_from_being_condensed(
    world: World,
) -> None:
    again = "grep -q 'active\": true' $0.told || { echo 'Check again.' >&2; exit 2; }"
    stop, go_on_hook = script(world, "stop", again), script(world, "keep", "echo no >&2; exit 2")
    let = script(world, "let", "exit 0")
    hooks = {
        "SubagentStop": [*hook(stop, "explore"), *hook("exit 3", "general")],
        "Stop": hook(let, "this says nothing here"),
        "PreCompact": hook(go_on_hook, "manual"),
    }
    task = {"task": "look", "title": "Look", "agent": "explore"}
    first = [call("terminal", command=f"echo {n}") for n in range(6)]
    parent = [*first, call("delegate", tasks=[task]), say("Done.")]
    child = [say("It is in a.py."), say("I am sure.")]
    world.llm.play(
        script_by_key(lambda r: first_user_text(r).split()[0], {"go": parent, "look": child})
    )
    client = world.daemon(settings={"hooks": hooks})
    conversation = world.start(client)
    assert wait_for_end(client, conversation)["finalText"] == "Done."
    [delegate_call] = [item for item in items(client, "toolCall") if item["tool"] == "delegate"]
    assert "I am sure." in content_of(delegate_call)
    payload = hook_input(world, "stop")
    assert (payload["agent_type"], payload["stop_hook_active"]) == ("explore", True)
    assert hook_input(world, "let")["session_id"] == conversation
    params = {"conversationId": conversation, "instructions": "Keep the names."}
    client.request("conversation/condense", params)
    wait_for_end(client, conversation, nth=2)
    [item] = items(client, "condensation")
    assert (item["status"], item["reason"]) == ("cancelled", "hook")
    titles = [item["title"] for item in items(client, "notice")]
    assert titles == ["A hook wants the agent to go on", "A hook kept older steps: no"]
    payload = hook_input(world, "keep")
    assert (payload["trigger"], payload["custom_instructions"]) == ("manual", "Keep the names.")


def test_a_refused_message_ends_the_turn_and_no_model_ever_gets_it(world: World) -> None:
    refuse = script(
        world, "refuse", "grep -q hunter2 $0.told && { echo 'a password' >&2; exit 2; }; exit 0"
    )
    world.script(say("Hello."))
    client = world.daemon(settings={"hooks": {"UserPromptSubmit": hook(refuse)}})
    content = [{"type": "command", "name": "fix", "args": "my login"}, *text("it is hunter2")]
    conversation = client.request("conversation/start", {"content": content})["conversation"]["id"]
    turn = world.turn(client)
    assert (turn["stopReason"], turn["finalText"]) == ("hook", "a password")
    assert hook_input(world, "refuse")["prompt"] == "/fix my login\nit is hunter2"
    world.send(client, conversation, "hello")
    assert world.turn(client, nth=2)["finalText"] == "Hello."
    assert "hunter2" not in json.dumps([request.body for request in world.llm.requests])


def test_an_interrupt_ends_a_hook_and_one_that_is_slow_or_broken_is_told(world: World) -> None:
    hooks = {
        "UserPromptSubmit": [*hook("sleep 600", timeout=0.2), *hook("exit 3")],
        "PreToolUse": hook(f"touch '{world.home}/begun'; sleep 600"),
    }
    world.script(call("terminal", command="echo hi"))
    client = world.daemon(settings={"hooks": hooks})
    conversation = world.start(client)
    client.wait_for_event(lambda p: p["event"].get("item", {}).get("kind") == "command")
    client.request("conversation/interrupt", {"conversationId": conversation})
    wait_for_status(client, "idle")
    assert world.turn(client)["status"] == "interrupted"
    titles = [item["title"] for item in items(client, "notice")]
    assert titles == [
        "The UserPromptSubmit hook 'sleep 600' took too long",
        "The UserPromptSubmit hook 'exit 3' ended with 3",
    ]


def test_hooks_of_a_project_count_in_a_trusted_folder_only(world: World) -> None:
    claude = world.project / ".claude"
    claude.mkdir()
    deny = {"hooks": {"UserPromptSubmit": hook("echo no >&2; exit 2")}, "model": "x"}
    (claude / "settings.json").write_text(json.dumps(deny))
    world.script(say("Hello."))
    doubtful = world.daemon(trust_value=False)
    world.start(doubtful)
    assert world.turn(doubtful)["stopReason"] == "endTurn"
    [problem] = doubtful.request("config/read")["problems"]
    assert "not trusted" in problem
    client = world.daemon()
    world.start(client)
    assert world.turn(client)["stopReason"] == "hook"
