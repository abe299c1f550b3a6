"""Approvals as durable objects: nothing runs unless it was allowed, and no question is lost."""

import json
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from approvals import ASK, Json, keep_waiting, touch
from editor import Editor, ignore
from fake_llm import Step, call, calls, say
from raw_client import RawClient
from world import World, content_of, items, text, wait_for_status

from oh_daemon.conformance.rpc_process import WITHIN_S, NoAnswer

pytestmark = pytest.mark.one_daemon


def wait_for_approval(client: RawClient, *, nth: int = 1) -> Json:
    """Wait for the nth approval of this connection."""
    return client.wait_for_event("approval.requested", nth=nth)["event"]["approval"]


def respond(client: RawClient, approval: Json, option: str, **params: Any) -> Json:
    answer = {"approvalId": approval["id"], "digest": approval["digest"], "optionId": option}
    return client.request("approval/respond", {**answer, **params})


def resolutions(client: RawClient) -> list[Json]:
    return [e["event"] for e in client.events if e["event"]["type"] == "approval.resolved"]


def decisions(client: RawClient) -> list[tuple[str, str]]:
    """Return how the actions were decided, in order: by a rule, or by asking with a reason."""
    actual_decisions: list[tuple[str, str]] = []
    for event in (e["event"] for e in client.events):
        if event["type"] == "action.decided":
            actual_decisions.append((event["effect"], event["rule"]))
        elif event["type"] == "approval.requested":
            actual_decisions.append(("ask", event["approval"].get("reason", "")))
    return actual_decisions


@pytest.mark.own_daemon
def test_an_answer_does_not_overtake_the_mode_that_was_set_before_it(world: World) -> None:
    world.script(touch("made"), say("Done."))
    client = world.daemon()
    client.answer("approval/request", keep_waiting)
    conversation = world.start(client, **ASK)
    params = {"conversationId": conversation}
    approval = wait_for_approval(client)
    # The first request for the changes is one that imports its handler.
    client.send_request("changes/list", params)
    client.send_request("conversation/setOption", {**params, "optionId": "mode", "value": "ask"})
    respond(client, approval, "reject")
    world.turn(client)
    kinds = [e["event"]["type"] for e in client.events]
    assert kinds.index("options.changed") < kinds.index("approval.resolved")


def test_a_risky_command_waits_for_the_exact_answer_and_runs_once(world: World) -> None:
    world.script(touch("made"), say("Done."))
    client = world.daemon()
    client.answer("approval/request", keep_waiting)
    conversation = world.start(client, **ASK)
    approval = wait_for_approval(client)
    wait_for_status(client, "waiting")
    assert approval["subject"] == {
        "kind": "command",
        "command": "touch made",
        "cwd": str(world.project),
    }
    assert (approval["title"], approval["risk"]) == ("Run touch made", "medium")
    scopes = {option["id"] for option in approval["options"]}
    assert scopes == {"allow-once", "allow-conversation", "allow-folder", "reject"}
    assert client.request("approval/list")["pending"] == [approval]
    answer = {"approvalId": approval["id"], "optionId": "allow-once"}
    error = client.error("approval/respond", {**answer, "digest": "0" * 64})
    assert (error.code, error.data["kind"]) == (-31027, "approvalStale")
    forged_answer = {**answer, "digest": approval["digest"], "optionId": "allow-user"}
    assert client.error("approval/respond", forged_answer).code == -32602
    wider = {
        "approvalId": approval["id"],
        "digest": approval["digest"],
        "decision": {"effect": "allow", "scope": "user"},
    }
    assert client.error("approval/respond", wider).code == -32602
    assert not (world.project / "made").exists()
    assert respond(client, approval, "allow-once") == {"resolved": True}
    again = respond(client, approval, "reject")
    assert again["resolved"] is False
    assert again["alreadyResolved"]["by"] == "user"
    assert again["alreadyResolved"]["decision"]["effect"] == "allow"
    world.turn(client)
    assert (world.project / "made").exists()
    params = {"conversationId": conversation}
    assert client.request("approval/list", params)["pending"] == []
    assert len(resolutions(client)) == 1


def request_of(client: RawClient, *, nth: int = 1) -> Json:
    """Wait for the nth approval request to the client, which a test may answer itself."""
    return client.wait_for(lambda m: m.get("method") == "approval/request", nth=nth)


def reply(client: RawClient, request: Json, result: Any) -> None:
    client.send({"jsonrpc": "2.0", "id": request["id"], "result": result})


def test_reading_with_git_asks_only_in_a_repository_among_the_files(world: World) -> None:
    (world.project / "fixture").mkdir()
    (world.project / "fixture/HEAD").write_text("ref: refs/heads/main\n")
    commands = ("git status --short", "cd fixture && git log")
    world.script(*(call("terminal", command=command) for command in commands), say("Done."))
    client = world.daemon()
    world.start(client, **ASK)
    approval = wait_for_approval(client)
    assert approval["subject"]["command"] == "cd fixture && git log"
    assert approval["reason"] == "git may use a repository that came with the files here"
    respond(client, approval, "reject")
    world.turn(client)


HIDDEN = (
    "true [[ a =~ x;touch PWNED ]]",
    "uniq README.md -c PWNED",
    "GCONV_PATH=. iconv -f x README.md",
    'grep -r "" .',
)
"""Commands that seem only to read: other syntax, options, variables, and whole folders."""


def test_what_only_seems_to_read_asks_and_does_not_run_in_mode_plan(world: World) -> None:
    (world.project / "README.md").write_text("one\n")
    client = world.daemon()
    for options, effect in ((ASK["options"], "ask"), ({"mode": "plan"}, "reject")):
        client.forget()
        client.answer("approval/request", lambda _asked: {"optionId": "reject"})
        world.script(calls(*(call("terminal", command=each) for each in HIDDEN)), say("Done."))
        world.start(client, options=options)
        world.turn(client)
        assert [how for how, _ in decisions(client)] == [effect] * len(HIDDEN)
        assert not (world.project / "PWNED").exists()


def test_the_client_is_asked_and_its_answer_counts_only_when_it_was_offered(world: World) -> None:
    world.script(touch("one"), touch("two"), say("Done."))
    client = world.daemon()
    client.answer("approval/request", keep_waiting)
    params = {"conversationId": world.start(client, **ASK)}
    approval = wait_for_approval(client)
    for n, answer in enumerate([{"optionId": "allow-user"}, {}, None, [], {"optionId": 7}], 1):
        request = request_of(client, nth=n)
        assert request["params"] == approval
        reply(client, request, answer)
        # Nothing is decided, so a client that subscribes again is asked again.
        client.request("conversation/subscribe", params)
    reply(client, request_of(client, nth=6), {"optionId": "allow-once"})
    reply(client, request_of(client, nth=7), {"optionId": "reject", "feedback": "one is enough"})
    world.turn(client)
    assert (world.project / "one").exists()
    assert not (world.project / "two").exists()
    assert "one is enough" in content_of(items(client, "command")[1])


def test_a_closed_conversation_takes_its_question_back_and_asks_when_opened(world: World) -> None:
    world.script(touch("made"), say("Done."))
    client = world.daemon()
    client.answer("approval/request", keep_waiting)
    params = {"conversationId": world.start(client, **ASK)}
    first = request_of(client)
    wait_for_status(client, "waiting")
    client.request("conversation/close", {**params, "ifRunning": "pause"})
    taken_back = client.wait_for(lambda m: m.get("method") == "$/cancelRequest")
    assert taken_back["params"]["id"] == first["id"]
    client.request("conversation/open", params)
    second = request_of(client, nth=2)
    assert second["params"] == first["params"]
    reply(client, second, {"optionId": "allow-once"})
    client.request("conversation/resume", params)
    client.wait_for(
        lambda m: (m.get("params") or {}).get("event", {}).get("type") == "turn.completed", nth=2
    )
    assert (world.project / "made").exists()


def test_an_edited_command_is_rated_again_and_asked_again_when_it_is_riskier(
    world: World,
) -> None:
    world.script(touch("one"), touch("two"), say("Done."))
    client = world.daemon()
    world.start(client, **ASK)
    first = wait_for_approval(client)
    subject = {**first["subject"], "command": "touch other"}
    respond(client, first, "allow-once", editedSubject=subject)
    second = wait_for_approval(client, nth=2)
    assert (world.project / "other").exists()
    assert not (world.project / "one").exists()
    riskier = {**second["subject"], "command": "rm -rf ~"}
    respond(client, second, "allow-once", editedSubject=riskier)
    third = wait_for_approval(client, nth=3)
    assert third["risk"] == "high"
    assert third["digest"] != second["digest"]
    assert third["subject"]["command"] == "rm -rf ~"
    respond(client, third, "reject")
    world.turn(client)
    run_command, rejected_command = items(client, "command")
    assert (run_command["command"], run_command["title"], run_command["status"]) == (
        "touch other",
        "Run touch other",
        "completed",
    )
    assert (rejected_command["command"], rejected_command["risk"], rejected_command["status"]) == (
        "rm -rf ~",
        "high",
        "rejected",
    )
    assert not (world.project / "two").exists()


def test_an_edited_answer_changes_the_command_only_and_allows_nothing_for_good(
    world: World,
) -> None:
    edit = call("edit", command="create", path="new.txt", text="x")
    world.script(touch("one"), touch("one"), edit, say("Done."))
    client = world.daemon()
    world.start(client, **ASK)
    first = wait_for_approval(client)
    answer = {"approvalId": first["id"], "digest": first["digest"], "optionId": "allow-once"}
    other_subject = {**first["subject"], "cwd": "/"}
    error = client.error("approval/respond", {**answer, "editedSubject": other_subject})
    assert (error.code, error.data["errors"][0]["path"]) == (-32602, "editedSubject")
    actual_other_subject = {**first["subject"], "command": "touch other"}
    respond(client, first, "allow-conversation", editedSubject=actual_other_subject)
    second = wait_for_approval(client, nth=2)
    assert second["subject"] == first["subject"]
    respond(client, second, "reject")
    third = wait_for_approval(client, nth=3)
    answer = {"approvalId": third["id"], "digest": third["digest"], "optionId": "allow-once"}
    error = client.error("approval/respond", {**answer, "editedSubject": third["subject"]})
    assert error.code == -32602
    respond(client, third, "allow-once")
    world.turn(client)
    file_names = sorted(path.name for path in world.project.glob("*.txt"))
    assert file_names == ["new.txt"]
    assert (world.project / "other").exists()
    assert not (world.project / "one").exists()


def test_scopes_cover_the_same_command_for_as_long_as_they_say(world: World) -> None:
    same = call("terminal", command="touch made")
    world.script(same, same, say("One."), same, say("Two."), same, say("Three."))
    client = world.daemon()
    conversation = world.start(client, **ASK)
    respond(client, wait_for_approval(client), "allow-conversation")
    assert world.turn(client)["finalText"] == "One."
    world.send(client, conversation, "again", wait="completed")
    assert len([e for e in client.events if e["event"]["type"] == "approval.requested"]) == 1
    rules = [e["event"]["rule"] for e in client.events if e["event"]["type"] == "action.decided"]
    assert rules == ["granted before", "granted before"]
    world.start(client, **ASK)
    other_approval = wait_for_approval(client, nth=2)
    respond(client, other_approval, "allow-folder")
    assert world.turn(client, nth=3)["finalText"] == "Three."


def test_what_is_allowed_for_a_folder_is_allowed_after_a_restart(world: World) -> None:
    world.script(touch("made"), say("One."), touch("made"), say("Two."))
    first = world.daemon()
    world.start(first, **ASK)
    respond(first, wait_for_approval(first), "allow-folder")
    world.turn(first)
    first.close()
    second = world.daemon()
    world.start(second, **ASK)
    assert world.turn(second)["finalText"] == "Two."
    assert not [e for e in second.events if e["event"]["type"] == "approval.requested"]


@pytest.mark.parametrize("option", ["allow-conversation", "allow-folder"])
def test_lasting_approval_ends_when_a_script_changes(world: World, option: str) -> None:
    script = world.project / "build.sh"
    script.write_text("touch one\n")
    run = call("terminal", command="bash build.sh")
    world.script(run, run, say("One."), run, say("Two."))
    client = world.daemon()
    conversation = world.start(client, **ASK)
    first = wait_for_approval(client)
    assert [file["uri"] for file in first["subject"]["files"]] == [script.as_uri()]
    respond(client, first, option)
    assert world.turn(client)["finalText"] == "One."
    script.write_text("touch two\n")
    world.send(client, conversation, "again")
    second = wait_for_approval(client, nth=2)
    assert second["reason"].startswith("build.sh changed since you allowed this command")
    respond(client, second, option)
    assert world.turn(client, nth=2)["finalText"] == "Two."
    assert (world.project / "two").exists()


@pytest.mark.parametrize("option", ["allow-conversation", "allow-folder"])
def test_script_that_changes_before_the_answer_is_asked_about_again(
    world: World, option: str
) -> None:
    script = world.project / "build.sh"
    script.write_text("touch one\n")
    world.script(call("terminal", command="bash build.sh"), say("One."))
    client = world.daemon()
    world.start(client, **ASK)
    first = wait_for_approval(client)
    script.write_text("touch two\n")
    respond(client, first, option)
    respond(client, wait_for_approval(client, nth=2), "reject")
    world.turn(client)
    assert not (world.project / "two").exists()


def test_approval_of_a_runner_says_that_it_outlasts_changes(world: World) -> None:
    (world.project / "Makefile").write_text("all:\n\ttouch one\n")
    run = call("terminal", command="make")
    world.script(run, say("One."), run, say("Two."), run, say("Three."))
    client = world.daemon()
    conversation = world.start(client, **ASK)
    first = wait_for_approval(client)
    assert [option["label"] for option in first["options"]] == [
        "Allow once",
        "Allow this command in this conversation, also after the agent changes what it runs",
        "Always allow this command in this folder, also after the agent changes what it runs",
        "Reject",
    ]
    respond(client, first, "allow-once")
    world.turn(client)
    world.send(client, conversation, "again")
    respond(client, wait_for_approval(client, nth=2), "allow-conversation")
    world.turn(client, nth=2)
    (world.project / "Makefile").write_text("all:\n\ttouch two\n")
    world.send(client, conversation, "again")
    assert world.turn(client, nth=3)["finalText"] == "Three."
    assert sum(e["event"]["type"] == "approval.requested" for e in client.events) == 2


def edit(path: str) -> Step:
    return call("edit", command="create", path=path, text="x")


def test_edits_of_any_file_are_allowed_for_the_conversation_but_not_where_it_is_risky(
    world: World,
) -> None:
    world.script(
        calls(*map(edit, ("a.txt", "sub/b.txt", ".vscode/c.json"))), say("One."),
        edit("d.txt"), touch("made"), say("Two."),
        edit("e.txt"), say("Three."),
    )  # fmt: skip
    client = world.daemon()
    conversation = world.start(client, **ASK)
    first, second, protected_approval = (wait_for_approval(client, nth=n) for n in (1, 2, 3))
    labels = {option["id"]: option["label"] for option in first["options"]}
    assert labels["allow-edits"] == "Allow edits of any file in this conversation"
    assert "allow-edits" not in {option["id"] for option in protected_approval["options"]}
    respond(client, first, "allow-edits")
    # What waits and is covered waits no longer; what is not covered is answered by its own digest.
    respond(client, protected_approval, "reject")
    assert world.turn(client)["finalText"] == "One."
    assert (world.project / "sub/b.txt").exists()
    assert not (world.project / ".vscode/c.json").exists()
    by = {event["approvalId"]: event["by"] for event in resolutions(client)}
    assert by == {first["id"]: "user", second["id"]: "policy", protected_approval["id"]: "user"}
    client.close()
    client = world.daemon()
    client.request("conversation/open", {"conversationId": conversation, "replay": "none"})
    world.send(client, conversation, "more")
    command = wait_for_approval(client)
    assert command["subject"]["command"] == "touch made"
    respond(client, command, "reject")
    assert world.turn(client)["finalText"] == "Two."
    assert (world.project / "d.txt").exists()
    world.start(client, **ASK)
    assert wait_for_approval(client, nth=2)["title"] == "Create e.txt"


def test_a_change_of_mode_settles_what_waits_and_is_allowed_now(world: World) -> None:
    rated_high = call("edit", command="create", path="b.txt", text="x", security_risk="high")
    world.script(calls(edit("a.txt"), edit(".vscode/c.json"), rated_high), say("Done."))
    client, other_client = world.daemon(), world.daemon()
    conversation = world.start(client, **ASK)
    medium, protected_approval, high = (wait_for_approval(client, nth=n) for n in (1, 2, 3))
    wait_for_status(client, "waiting")
    other_client.request("conversation/open", {"conversationId": conversation})

    def settle_by(option: str, value: str, *, nth: int) -> list[Json]:
        params = {"conversationId": conversation, "optionId": option, "value": value}
        client.request("conversation/setOption", params)
        for each in (client, other_client):
            each.wait_for_event("approval.resolved", nth=nth)
        assert resolutions(client) == resolutions(other_client)
        return client.request("approval/list")["pending"]

    assert settle_by("mode", "autoEdit", nth=1) == [protected_approval, high]
    assert settle_by("approval", "askNever", nth=2) == [protected_approval]
    assert [
        (r["approvalId"], r["by"], r["decision"]["effect"]) for r in resolutions(other_client)
    ] == [
        (medium["id"], "policy", "allow"),
        (high["id"], "policy", "allow"),
    ]
    rules = [rule for effect, rule in decisions(other_client) if effect == "allow"]
    assert rules == ["mode autoEdit", "approval askNever"]
    respond(client, protected_approval, "reject")
    world.turn(client)
    assert (world.project / "b.txt").exists()
    assert not (world.project / ".vscode/c.json").exists()


@pytest.mark.parametrize("end", ["close", "kill"])
def test_a_pending_approval_outlives_the_daemon_with_its_id_and_digest(
    world: World, end: str
) -> None:
    world.script(touch("made"), say("Done."))
    first = world.daemon()
    conversation = world.start(first, **ASK)
    approval = wait_for_approval(first)
    wait_for_status(first, "waiting")
    first.kill() if end == "kill" else first.close()
    second = world.daemon()
    asking: Future[None] = Future()

    def on_asked(params: Json) -> None:
        asking.set_result(None)
        assert params == approval
        raise NoAnswer

    second.answer("approval/request", on_asked)
    open_result = second.request("conversation/open", {"conversationId": conversation})
    assert open_result["pending"] == [approval]
    assert open_result["conversation"]["status"] == "paused"
    asking.result(WITHIN_S)
    assert not (world.project / "made").exists()
    assert respond(second, approval, "allow-once") == {"resolved": True, "needsResume": True}
    second.request("conversation/resume", {"conversationId": conversation})
    assert world.turn(second)["finalText"] == "Done."
    assert (world.project / "made").exists()


def test_an_interrupt_cancels_what_outlived_the_daemon(world: World) -> None:
    world.script(touch("made"), say("Done."))
    first = world.daemon()
    params = {"conversationId": world.start(first, **ASK)}
    approval = wait_for_approval(first)
    first.kill()
    second = world.daemon(features={"approvalRequests": False}, client={"kind": "panel"})
    assert second.request("conversation/open", params)["pending"] == [approval]
    assert second.request("conversation/interrupt", params) == {"status": "idle"}
    assert second.request("conversation/interrupt", params) == {"status": "idle"}
    assert [r["by"] for r in resolutions(second)] == ["interrupted"]
    assert [item["status"] for item in items(second, "command")] == ["cancelled"]
    second.request("conversation/resume", params)
    assert world.turn(second)["finalText"] == "Done."
    assert not (world.project / "made").exists()


def test_an_edit_that_is_allowed_after_a_restart_is_made(world: World) -> None:
    (world.project / "a.txt").write_text("one\n")
    change = {"command": "replace", "path": "a.txt", "old_text": "one", "new_text": "two"}
    world.script(call("edit", command="view", path="a.txt"), call("edit", **change), say("Done."))
    first = world.daemon()
    conversation = world.start(first, **ASK)
    first.wait_for_event("approval.requested")
    first.kill()
    second = world.daemon()
    open_result = second.request("conversation/open", {"conversationId": conversation})
    respond(second, open_result["pending"][0], "allow-once")
    second.request("conversation/resume", {"conversationId": conversation})
    assert world.turn(second)["finalText"] == "Done."
    assert (world.project / "a.txt").read_text() == "two\n"


@pytest.mark.parametrize("delivery", ["auto", "steer", "interrupt"])
def test_a_new_message_takes_the_place_of_what_waits(world: World, delivery: str) -> None:
    world.script(calls(touch("one"), touch("two")), say("As you like."))
    client = world.daemon()
    conversation = world.start(client, **ASK)
    approval = wait_for_approval(client)
    wait_for_status(client, "waiting")
    world.send(client, conversation, "do not", delivery=delivery)
    n_turns = 2 if delivery == "interrupt" else 1
    assert world.turn(client, nth=n_turns)["finalText"] == "As you like."
    assert not list(world.project.glob("[a-z]*"))
    by = "interrupted" if delivery == "interrupt" else "superseded"
    assert {resolution["by"] for resolution in resolutions(client)} == {by}
    stale_result = respond(client, approval, "allow-once")
    assert stale_result["alreadyResolved"]["by"] == by
    tool_messages = [m for m in world.llm.requests[-1].body["messages"] if m["role"] == "tool"]
    assert len(tool_messages) == 2
    assert all("Not run" in str(message["content"]) for message in tool_messages)


def test_a_queued_message_and_a_pause_leave_the_question_open(world: World) -> None:
    world.script(touch("made"), say("Done."), say("Next."))
    client = world.daemon()
    conversation = world.start(client, **ASK)
    approval = wait_for_approval(client)
    wait_for_status(client, "waiting")
    world.send(client, conversation, "later", delivery="queue")
    client.request("conversation/pause", {"conversationId": conversation})
    wait_for_status(client, "paused")
    assert client.request("approval/list")["pending"] == [approval]
    respond(client, approval, "allow-once")
    assert not (world.project / "made").exists()
    client.request("conversation/resume", {"conversationId": conversation})
    assert world.turn(client, nth=2)["finalText"] == "Next."
    assert (world.project / "made").exists()


def test_a_pause_at_once_leaves_the_question_open_that_waits_beside_an_edit(world: World) -> None:
    editor = Editor(world)
    paths = [world.project / name for name in ("a.txt", "b.txt")]
    for path in paths:
        path.write_text("one\n")
        editor.open(path)
    editor.habits = [ignore]
    client = editor.client
    views = [call("edit", command="view", path=path.name) for path in paths]
    change = {"command": "replace", "old_text": "one", "new_text": "two"}
    edits = [call("edit", path=path.name, **change) for path in paths]
    world.script(calls(*views), calls(*edits), say("Done."))
    params = {"conversationId": world.start(client, **ASK)}
    first, second = wait_for_approval(client), wait_for_approval(client, nth=2)
    respond(client, first, "allow-once")
    client.wait_for(lambda message: message.get("method") == "editor/applyEdit")
    client.request("conversation/pause", {**params, "when": "now"})
    client.wait_for_event("turn.paused")
    assert client.request("approval/list", params)["pending"] == [second]
    client.request("conversation/resume", params)
    respond(client, second, "allow-once")
    assert world.turn(client)["finalText"] == "Done."
    assert [path.read_text() for path in paths] == ["one\n", "two\n"]
    assert [item["status"] for item in items(client, "fileChange")] == ["cancelled", "completed"]


def test_an_interrupt_cancels_the_question_and_tells_the_client(world: World) -> None:
    world.script(touch("made"))
    client = world.daemon()
    client.answer("approval/request", keep_waiting)
    conversation = world.start(client, **ASK)
    approval = wait_for_approval(client)
    request = client.wait_for(lambda message: message.get("method") == "approval/request")
    client.request("conversation/interrupt", {"conversationId": conversation})
    cancel_request = client.wait_for(lambda message: message.get("method") == "$/cancelRequest")
    assert cancel_request["params"]["id"] == request["id"]
    assert [(r["approvalId"], r["by"]) for r in resolutions(client)] == [
        (approval["id"], "interrupted")
    ]
    assert not (world.project / "made").exists()


# How each mode and policy decides: what only reads, a change of medium risk, one of high risk, an
# edit, an edit of a protected file, and what only the model rates high; "a" runs, "?" asks, "-" is
# rejected.
DECIDED = {
    ("plan", "askAlways"): "?----?",
    ("plan", "askRisky"): "a----?",
    ("plan", "askNever"): "a----a",
    ("ask", "askAlways"): "??????",
    ("ask", "askRisky"): "a?????",
    ("ask", "askNever"): "aaaa-a",
    ("autoEdit", "askAlways"): "??????",
    ("autoEdit", "askRisky"): "a??a??",
    ("autoEdit", "askNever"): "aaaa-a",
    ("full", "askAlways"): "aaaa-a",
    ("full", "askRisky"): "aaaa-a",
    ("full", "askNever"): "aaaa-a",
}
SIGNS = {"allow": "a", "ask": "?", "reject": "-"}
_NEVER = "protected places and unsaved texts are never touched without asking"


def test_each_mode_decides_with_each_policy_as_it_says_and_says_why(world: World) -> None:
    client = world.daemon()
    conversation = client.request("conversation/start")["conversation"]["id"]
    decisions_by_case: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for n, (mode, approval) in enumerate(DECIDED):
        client.forget()
        for option, value in (("mode", mode), ("approval", approval)):
            params = {"conversationId": conversation, "optionId": option, "value": value}
            client.request("conversation/setOption", params)
        client.answer("approval/request", lambda _asked: {"optionId": "reject"})
        commands = [call("terminal", command=c) for c in ("ls", "touch made", "python3 -c pass")]
        paths = f"{n}.txt", f".vscode/{n}.json"
        edits = [call("edit", command="create", path=path, text="x") for path in paths]
        rated_high = call("terminal", command="ls", security_risk="high")
        world.script(calls(*commands, *edits, rated_high), say("Done."))
        world.send(client, conversation, "go")
        world.turn(client)
        decisions_by_case[mode, approval] = decisions(client)
        if ("reject", _NEVER) in decisions_by_case[mode, approval]:
            contents = "\n".join(map(content_of, items(client, "fileChange")))
            assert f"Not allowed: {_NEVER}. Reason: " in contents
            assert ". Say what you would change there; or the user" in contents
    signs = {
        each: "".join(SIGNS[how] for how, _ in findings)
        for each, findings in decisions_by_case.items()
    }
    assert signs == DECIDED
    rules = {
        rule for findings in decisions_by_case.values() for how, rule in findings if how != "ask"
    }
    assert rules == {
        *("low risk", "mode autoEdit", "mode full", "approval askNever", "mode plan is read-only"),
        _NEVER,
    }
    assert (
        decisions_by_case["ask", "askAlways"][0][1]
        == "you are asked about every action; ls only reads"
    )
    assert decisions_by_case["ask", "askRisky"][-1][1] == "the model rates it high; ls only reads"


@pytest.mark.parametrize(
    ("options", "trust_value"), [({"approval": "askAlways"}, None), ({"mode": "plan"}, True)]
)
def test_tools_without_effect_never_ask_and_are_never_refused(
    world: World, options: Json, trust_value: bool | None
) -> None:
    tasks = [{"text": "Look", "status": "completed"}]
    steps = (call("think", thought="Hm."), call("todo", tasks=tasks), call("finish", message="Ok."))
    world.script(calls(*steps))
    client = world.daemon(trust_value=trust_value)
    world.start(client, options=options)
    turn = world.turn(client)
    assert (turn["stopReason"], turn["finalText"]) == ("finished", "Ok.")
    events = [each["event"] for each in client.events]
    assert "approval.requested" not in [event["type"] for event in events]
    items_ended = [event["item"] for event in events if event["type"] == "item.completed"]
    tools = [(item["tool"], item["status"]) for item in items_ended if item.get("tool")]
    # The first two tools run side by side.
    names = (*sorted(name for name, _ in tools[:2]), tools[-1][0])
    assert (names, {status for _, status in tools}) == (("think", "todo", "finish"), {"completed"})


def test_a_client_that_cannot_ask_means_no(world: World) -> None:
    world.script(touch("made"), say("It was refused."))
    client = world.daemon(features={"approvalRequests": False})
    world.start(client, **ASK)
    assert world.turn(client)["finalText"] == "It was refused."
    assert [resolution["by"] for resolution in resolutions(client)] == ["noClient"]
    assert "the user cannot be asked" in content_of(items(client, "command")[0])
    assert not (world.project / "made").exists()


def test_ten_questions_stand_in_order_and_none_replaces_another(world: World) -> None:
    world.script(calls(*(touch(f"f{n}") for n in range(10))), say("Done."))
    client = world.daemon()
    world.start(client, **ASK)
    answers = []
    for n in range(1, 11):
        approval = wait_for_approval(client, nth=n)
        answers.append(approval["subject"]["command"])
        respond(client, approval, "allow-once" if n % 2 else "reject")
    world.turn(client)
    assert answers == [f"touch f{n}" for n in range(10)]
    file_names = sorted(path.name for path in world.project.glob("f*"))
    assert file_names == ["f0", "f2", "f4", "f6", "f8"]


def test_what_changed_while_it_waited_is_shown_again_before_it_runs(world: World) -> None:
    target = world.project / "text.txt"
    target.write_text("one\ntwo\n")
    world.script(
        call("edit", command="view", path="text.txt"),
        call("edit", command="replace", path="text.txt", old_text="two", new_text="2"),
        say("Done."),
    )
    client = world.daemon()
    world.start(client, **ASK)
    first = wait_for_approval(client)
    target.write_text("ONE\ntwo\n")
    respond(client, first, "allow-once")
    second = wait_for_approval(client, nth=2)
    assert second["digest"] != first["digest"]
    assert "changed after you allowed it" in second["reason"]
    assert target.read_text() == "ONE\ntwo\n"
    respond(client, second, "allow-once")
    world.turn(client)
    assert target.read_text() == "ONE\n2\n"


CHANGES = {
    "its text": lambda project: (project / "build.sh").write_text("touch theirs\n"),
    "where its link leads": lambda project: relink(project / "linked.sh", "theirs.sh"),
    "it is gone": lambda project: (project / "build.sh").unlink(),
}


def relink(link: Path, target: str) -> None:
    link.unlink()
    link.symlink_to(target)


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_script_that_changed_while_it_waited_is_not_run_but_shown_again(
    world: World, change: Callable[[Path], object]
) -> None:
    (world.project / "build.sh").write_text("touch mine\n")
    (world.project / "theirs.sh").write_text("touch theirs\n")
    (world.project / "linked.sh").symlink_to("build.sh")
    world.script(call("terminal", command="cd . && bash ./linked.sh"), say("Done."))
    client = world.daemon()
    world.start(client, **ASK)
    first = wait_for_approval(client)
    change(world.project)
    respond(client, first, "allow-once")
    second = wait_for_approval(client, nth=2)
    assert second["subject"]["command"] == first["subject"]["command"]
    assert second["subject"].get("files") != first["subject"]["files"]
    assert "changed after you allowed it" in second["reason"]
    respond(client, second, "reject")
    world.turn(client)
    file_names = {path.name for path in world.project.iterdir()}
    assert not file_names & {"mine", "theirs"}


@pytest.mark.parametrize("way", ["answer", "method"])
def test_a_folder_nobody_judged_is_read_only_until_it_is_trusted(world: World, way: str) -> None:
    world.script(touch("made"), say("Done."), touch("more"), say("Done."))
    client = world.daemon(trust_value=None)
    conversation = world.start(client)
    trust = wait_for_approval(client)
    assert trust["subject"] == {"kind": "trust", "folder": world.project.as_uri()}
    assert {option["scope"] for option in trust["options"]} == {"conversation", "folder", "once"}
    assert not (world.project / "made").exists()
    if way == "answer":
        respond(client, trust, "allow-conversation")
    else:
        folder = {"folder": world.project.as_uri(), "trusted": "full"}
        client.request("workspace/setTrust", folder)
    world.turn(client)
    assert (world.project / "made").exists()
    world.send(client, conversation, "more", wait="completed")
    assert len([e for e in client.events if e["event"]["type"] == "approval.requested"]) == 1


def test_trust_is_set_kept_and_lowered_by_method_and_withheld_by_the_editor(
    world: World,
) -> None:
    world.script(touch("made"), say("Refused."))
    client = world.daemon(trust_value=False)
    world.start(client)
    assert world.turn(client)["finalText"] == "Refused."
    assert "does not trust" in content_of(items(client, "command")[0])
    [(effect, rule)] = decisions(client)
    assert (effect, "does not trust" in rule) == ("reject", True)
    folder = {"folder": world.project.as_uri(), "trusted": "none"}
    folders = client.request("workspace/setTrust", folder)["folders"]
    assert {"folder": str(world.project), "trusted": "none"} in folders
    error = client.error("conversation/start", {"content": text("go")})
    assert (error.code, error.data["kind"]) == (-31001, "workspaceUntrusted")
    assert "workspace/setTrust" in error.message
    client.close()
    second = world.daemon(trust_value=None)
    assert second.error("conversation/start", {"content": text("go")}).code == -31001
    second.request("workspace/setTrust", {**folder, "trusted": "full"})
    assert second.request("conversation/start")["conversation"]["status"] == "idle"


def test_a_plain_lsp_client_is_asked_by_message_and_no_answer_leaves_it_open(
    world: World,
) -> None:
    long, longer = ("echo " + "x" * n + "; touch tail" for n in (300, 9000))
    world.script(
        touch("one"),
        call("terminal", command=long),
        call("terminal", command=longer),
        touch("two"),
        say("Done."),
    )
    client = world.raw()
    messages_shown: list[Json] = []
    titles = ["Allow once", "Allow once", "Reject", None, "Allow once"]

    def answer(params: Json) -> Json | None:
        messages_shown.append(params)
        title = titles[len(messages_shown) - 1]
        return {"title": title} if title else None

    client.answer("window/showMessageRequest", answer)
    capabilities = {"window": {"showMessage": {"messageActionItem": {}}}}
    trust = [{"folder": world.project.as_uri(), "trusted": True}]
    client.initialize([world.project], params={"capabilities": capabilities}, trust=trust)
    world.start(client, **ASK)
    second = wait_for_approval(client, nth=4)
    assert "touch one" in messages_shown[0]["message"]
    assert "touch tail" in messages_shown[1]["message"]
    assert [action["title"] for action in messages_shown[2]["actions"]] == ["Reject"]
    assert "too long" in messages_shown[2]["message"]
    assert (world.project / "one").exists()
    client.wait_for(lambda message: "touch two" in (message.get("params") or {}).get("message", ""))
    assert client.request("approval/list")["pending"][0]["id"] == second["id"]
    # Whoever closed the message can have it shown again.
    again = client.request("workspace/executeCommand", {"command": "ohDaemon.approve"})
    assert [each["id"] for each in again["pending"]] == [second["id"]]
    assert world.turn(client)["finalText"] == "Done."
    assert (world.project / "two").exists()


def test_a_plain_client_need_not_say_that_it_shows_messages(world: World) -> None:
    world.script(touch("made"), say("Done."))
    client = world.raw()
    client.answer("window/showMessageRequest", lambda params: params["actions"][0])
    client.initialize([world.project])
    world.start(client, **ASK)
    assert world.turn(client)["finalText"] == "Done."
    assert (world.project / "made").exists()


def test_a_plain_client_that_cannot_show_messages_means_no(world: World) -> None:
    world.script(touch("one"), touch("two"), say("Both were refused."))
    client = world.raw()
    client.initialize([world.project])
    world.start(client, **ASK)
    assert world.turn(client)["finalText"] == "Both were refused."
    assert {resolution["by"] for resolution in resolutions(client)} == {"noClient"}
    # It answered once that it does not know the request.
    prompts = [m for m in client.messages if m.get("method") == "window/showMessageRequest"]
    assert len(prompts) == 1
    assert not (world.project / "one").exists()


def test_hunks_left_out_of_an_edit_are_not_written_and_the_model_is_told(world: World) -> None:
    notes = world.project / "notes.txt"
    notes.write_text("".join(f"line {n}\n" for n in range(9)))
    edits = [{"old_text": f"line {n}\n", "new_text": f"agent {n}\n"} for n in (1, 4, 7)]
    view = call("edit", command="view", path="notes.txt")
    world.script(view, call("edit", command="replace", path="notes.txt", edits=edits), say("Done."))
    client = world.daemon()
    world.start(client, **ASK)
    approval = wait_for_approval(client)
    assert approval["editable"]
    first, second, third = approval["subject"]["hunks"]
    answer = {"approvalId": approval["id"], "digest": approval["digest"], "optionId": "allow-once"}
    for wrong in ([], [{**second, "oldLines": 2}]):
        subject = {**approval["subject"], "hunks": wrong}
        error = client.error("approval/respond", {**answer, "editedSubject": subject})
        assert (error.code, error.data["errors"][0]["path"]) == (-32602, "editedSubject")
    assert "agent" not in notes.read_text()

    kept_subject = {**approval["subject"], "hunks": [first, third]}
    respond(client, approval, "allow-once", editedSubject=kept_subject)
    world.turn(client)
    assert notes.read_text().split("\n")[:8] == [
        *("line 0", "agent 1", "line 2", "line 3", "line 4", "line 5", "line 6", "agent 7")
    ]
    [edit] = items(client, "fileChange")
    assert (edit["summary"], edit["status"], edit["changes"][0]["added"]) == (
        *("edited by the user", "completed"),
        2,
    )
    last_message = json.dumps(world.llm.requests[-1].body["messages"][-1])
    assert "The user left this out of your edit" in last_message
    assert "agent 4" in last_message
