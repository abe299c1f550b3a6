"""What a SIGKILL leaves, and modules: rules R, and those of methods that a server need not have."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any
from uuid import uuid4

from oh_daemon.conformance.approval_checks import calls_of, respond
from oh_daemon.conformance.bench import (
    READING,
    TOOL,
    Bench,
    Skipped,
    TestSession,
    block_of,
    checks,
    expect,
    text,
)
from oh_daemon.conformance.order_checks import RESULT, leave_open
from oh_daemon.conformance.rpc_process import Json
from oh_daemon.conformance.scripted_model import call, script_reply


@dataclass(frozen=True)
class Crash:
    """A server was killed while one conversation waited for approval and another ran a tool."""

    before: dict[str, list[Json]]
    """Conversation -> its events as they came."""
    open_results: dict[str, Json]
    """Conversation -> how the next server answered `conversation/open`."""
    waiting_id: str
    running_id: str
    approval: Json
    question: Json
    """The approval as the next server asked for it."""
    response: Json
    calls_before_resume: list[Json]
    calls: list[Json]
    again: Json
    """The answer to the `conversation/start` of the first, repeated."""
    after: list[Json]
    """Events of the first after the restart."""


def play_crash(runtime: Bench) -> Crash:
    one = runtime.open_server()
    for method in ("approval/request", "tool/call"):
        one.answer(method, leave_open)
    name = uuid4().hex
    first = runtime.talk(call("probe", n=1), server=one, clientRequestId=name)
    approval = first.expect_request()["params"]
    one.wait_for_event(
        lambda each: each["conversationId"] == first.id and each["event"].get("to") == "waiting"
    )
    second = runtime.talk(call("look", n=2), server=one)
    second.expect_request("tool/call")
    one.kill()
    before = {each.id: each.events() for each in (first, second)}
    return _after(runtime, name, first, second, before, approval)


def _after(
    runtime: Bench,
    name: str,
    first: TestSession,
    second: TestSession,
    before: dict[str, list[Json]],
    approval: Json,
) -> Crash:
    runtime.model.play(script_reply("It is done."))
    two = runtime.open_server()
    two.answer("approval/request", leave_open)
    two.answer("tool/call", lambda _params: RESULT)
    tools = {"clientTools": [TOOL, READING], "content": text("Begin.")}
    first_talk, second_talk = (TestSession(two, each.start_result) for each in (first, second))
    params: Json = {"afterSeq": 0, "replay": "events", "limit": 500}
    more = {**params, "clientTools": tools["clientTools"]}
    answer_by_id = {
        each.id: each.request("conversation/open", **more) for each in (first_talk, second_talk)
    }
    again = two.request("conversation/start", {**tools, "clientRequestId": name})
    question = first_talk.expect_request()["params"]
    response = respond(first_talk, approval)
    two.is_alive()
    early = calls_of(first_talk)
    first_talk.request("conversation/resume")
    first_talk.wait("turn.completed")
    calls = [*calls_of(first_talk), *calls_of(second_talk)]
    return Crash(
        before=before,
        open_results=answer_by_id,
        waiting_id=first.id,
        running_id=second.id,
        approval=approval,
        question=question,
        response=response,
        calls_before_resume=early,
        calls=calls,
        again=again,
        after=first_talk.events(),
    )


def logged_first(runtime: Bench) -> None:
    crash = runtime.once(play_crash)
    for conversation, events in crash.before.items():
        records = [json.dumps(each) for each in crash.open_results[conversation]["events"]]
        for live in events:
            record = {k: v for k, v in live.items() if k not in {"conversationId", "epoch"}}
            expect(json.dumps(record) in records, "this event is not in the log", live)


def seq_goes_on(runtime: Bench) -> None:
    crash = runtime.once(play_crash)
    last, seqs = (
        crash.open_results[crash.waiting_id]["lastSeq"],
        [each["seq"] for each in crash.after],
    )
    expect(
        last >= crash.before[crash.waiting_id][-1]["seq"], f"lastSeq is {last} after the restart"
    )
    is_right = seqs == list(range(last + 1, last + 1 + len(seqs)))
    expect(is_right and seqs, f"lastSeq was {last}, then came {seqs}")


def same_epoch(runtime: Bench) -> None:
    crash = runtime.once(play_crash)
    epochs = {each["epoch"] for each in (*crash.before[crash.waiting_id], *crash.after)}
    expect(len(epochs) == 1, f"no record was lost, and the epochs are {epochs}")


def outcome_unknown(runtime: Bench) -> None:
    crash = runtime.once(play_crash)
    opened_id = crash.open_results[crash.running_id]
    ends = [
        e["event"]["item"] for e in opened_id["events"] if e["event"]["type"] == "item.completed"
    ]
    outcomes = [(item["status"], item.get("reason")) for item in ends]
    is_right = ("cancelled", "outcomeUnknown") in outcomes
    expect(is_right, f"the items have ended as {outcomes}", *ends[-1:])
    info = opened_id["conversation"]
    status = (info["status"], info.get("statusReason"))
    expect(status == ("paused", "daemonRestarted"), f"the status is {status}", info)
    again = [each for each in crash.calls if each["conversationId"] == crash.running_id]
    expect(not again, "it may not run again", *again)


def survives(runtime: Bench) -> None:
    crash = runtime.once(play_crash)
    ids = [each["id"] for each in crash.open_results[crash.waiting_id]["pending"]]
    expect(ids == [crash.approval["id"]], f"pending are {ids}", crash.approval)
    same = [each["id"] == crash.approval["id"] for each in (crash.question, crash.approval)]
    expect(all(same), "it is asked again under the same id", crash.question)
    expect(
        crash.question["digest"] == crash.approval["digest"],
        "the digest is another",
        crash.question,
    )
    expect(crash.response.get("needsResume"), "the turn is paused", crash.response)
    expect(not crash.calls_before_resume, "nothing runs before conversation/resume")
    expect(len(crash.calls) == 1, "then the action runs", *crash.calls)


def other_process(runtime: Bench) -> None:
    talk = runtime.talk(script_reply("Hello."))
    talk.wait_until_idle()
    other_server = runtime.open_server()
    request_params = {"conversationId": talk.id}
    answer = other_server.answer_to(other_server.send_request("conversation/open", request_params))
    if "result" in answer:
        params = {**request_params, "content": text("Mine.")}
        answer = other_server.answer_to(
            other_server.send_request("conversation/sendMessage", params)
        )
    error = other_server.is_refusal(-31004, answer, "what would change the conversation")
    expect(error.data.get("lock"), "it has the process that has the log open", answer)


def repeated_start(runtime: Bench) -> None:
    again = runtime.once(play_crash).again
    expect(again.get("duplicate") is True, "this repeats the start before the kill", again)


RESTARTS = checks(
    "core",
    {
        "O2": logged_first,
        "R2": seq_goes_on,
        "R3": same_epoch,
        "R4": outcome_unknown,
        "R5": survives,
        "K1-restart": repeated_start,
        "C13": other_process,
    },
)


# Modules


def needing(*methods: str) -> Callable[[Callable[[Bench], None]], Callable[[Bench], None]]:
    """Skip a check where the server does not list what it needs."""

    def wrap(check: Callable[[Bench], None]) -> Callable[[Bench], None]:
        @wraps(check)
        def run(runtime: Bench) -> None:
            if missing_methods := {*methods} - {*block_of(runtime.server)["methods"]}:
                raise Skipped(f"the server has no {' and no '.join(sorted(missing_methods))}")
            check(runtime)

        return run

    return wrap


@needing("conversation/delete")
def deletes(runtime: Bench) -> None:
    talk = runtime.talk(script_reply("Hello."))
    talk.wait_until_idle()
    for _ in range(2):
        talk.request("conversation/delete")
    talk.expect_refusal(-31002, "conversation/read")


@needing("conversation/update")
def updates(runtime: Bench) -> None:
    talk = runtime.talk(script_reply("Hello."), title="The first title")
    talk.wait_until_idle()
    talk.request("conversation/update", tags=["a"])
    info = talk.request("conversation/update", archived=True)["conversation"]
    values: Any = (info["title"], info["tags"], info["archived"])
    expect(values == ("The first title", ["a"], True), f"now it has {values}", info)


@needing("conversation/ask")
def asks_side_question(runtime: Bench) -> None:
    """A question beside the work is answered by the model and leaves no item."""
    talk = runtime.talk(script_reply("Hello."))
    talk.wait_until_idle()
    n_before = len(talk.events("item.completed"))
    runtime.model.play(script_reply("Because."))
    result = talk.request("conversation/ask", question="Why?")
    expect(result["text"] == "Because.", "the answer is the model's", result)
    expect(len(talk.events("item.completed")) == n_before, "it leaves no item")


@needing("conversation/fork")
def forks(runtime: Bench) -> None:
    """A fork is a conversation of its own, and the original does not change."""
    talk = runtime.talk(script_reply("Hello."))
    talk.wait_until_idle()
    fork = talk.request("conversation/fork")["conversation"]
    expect(fork["id"] != talk.id, "a fork is a conversation of its own", fork)
    last = talk.request("conversation/open", replay="none")["lastSeq"]
    expect(last == talk.events()[-1]["seq"], "the original does not change")


MODULES = checks(
    "modules",
    {
        "C15": deletes,
        "C16": updates,
        "conversation/ask": asks_side_question,
        "conversation/fork": forks,
    },
)
