"""What only the user decides, and what else needs a turn: rules A, and some of B, E, I, L and T."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oh_daemon.conformance.bench import (
    Bench,
    TestSession,
    checks,
    expect,
    is_delta,
    limits_of,
    text,
)
from oh_daemon.conformance.order_checks import RESULT, busy, leave_open, option_of, release
from oh_daemon.conformance.rpc_process import Json, RpcError
from oh_daemon.conformance.scripted_model import call, script_reply


def start_waiting_turn(runtime: Bench, **params: Any) -> tuple[TestSession, Json]:
    """Start a conversation whose action waits; return also the request that asks for approval."""
    server = runtime.server
    server.answer("approval/request", leave_open)
    server.answer("tool/call", lambda _params: RESULT)
    talk = runtime.talk(call("probe", n=1), **params)
    request = talk.expect_request()
    talk.server.wait_for_event(
        lambda each: each["conversationId"] == talk.id and each["event"].get("to") == "waiting"
    )
    return talk, request


def respond(talk: TestSession, approval: Json, **params: Any) -> Json:
    option = {"optionId": option_of(approval, "allow")}
    answer = {"approvalId": approval["id"], "digest": approval["digest"], **option, **params}
    return talk.server.request("approval/respond", answer)


def calls_of(talk: TestSession) -> list[Json]:
    calls = talk.server.notifications("tool/call")
    return [each for each in calls if each["conversationId"] == talk.id]


def pending(talk: TestSession) -> list[str]:
    return [each["id"] for each in talk.request("approval/list")["pending"]]


def stays_pending(runtime: Bench) -> None:
    server = runtime.server
    refusal = {"code": -32603, "message": "the user has closed it"}
    for answer in ({"error": refusal}, {"result": {"optionId": "no-such-option"}}):
        talk, request = start_waiting_turn(runtime)
        server.send({"jsonrpc": "2.0", "id": request["id"], **answer})
        server.is_alive()
        ids = [request["params"]["id"]]
        expect(pending(talk) == ids, f"it must stay pending after {answer}", request)
        expect(not calls_of(talk), "nothing may run", *calls_of(talk))


def in_the_log(runtime: Bench) -> None:
    talk, request = start_waiting_turn(runtime)
    record = talk.wait("approval.requested")
    same = {key: request["params"].get(key) for key in record["event"]["approval"]}
    expect(record["event"]["approval"] == same, "the request is the record's", record, request)
    ids = [each["id"] for each in talk.request("conversation/open")["pending"]]
    expect(ids == [request["params"]["id"]], f"open must list it, not {ids}", request)


def digests(runtime: Bench) -> None:
    talk, request = start_waiting_turn(runtime)
    wrong = {"approvalId": request["params"]["id"], "digest": "0" * 64, "optionId": "allow-once"}
    talk.server.expect_refusal(-31027, "approval/respond", wrong)
    expect(not calls_of(talk), "nothing may run", *calls_of(talk))


def as_shown(runtime: Bench) -> None:
    talk, request = start_waiting_turn(runtime)
    respond(talk, request["params"])
    talk.wait_until_idle()
    subject = request["params"]["subject"]
    shown_call = (subject["tool"], subject["args"])
    calls = [(each["name"], each["arguments"]) for each in calls_of(talk)]
    expect(calls == [shown_call], f"shown was {shown_call}, what ran is {calls}", request)


def first_answer(runtime: Bench) -> None:
    talk, request = start_waiting_turn(runtime)
    first = respond(talk, request["params"])
    expect(first["resolved"] is True, "the first answer counts", first)
    talk.server.wait_for(
        lambda m: m.get("method") == "$/cancelRequest" and m["params"]["id"] == request["id"]
    )
    late = respond(talk, request["params"], optionId=option_of(request["params"], "reject"))
    is_right = late["resolved"] is False and "alreadyResolved" in late
    expect(is_right, "a later answer does not", late)
    talk.wait_until_idle()
    expect(len(calls_of(talk)) == 1, "it runs once", *calls_of(talk))


def no_such_answer(runtime: Bench) -> None:
    talk, request = start_waiting_turn(runtime)
    answer = {name: request["params"][name] for name in ("id", "digest")}
    answer_fields = {"approvalId": answer["id"], "digest": answer["digest"]}
    talk.server.expect_refusal(
        -32602, "approval/respond", {**answer_fields, "optionId": "no-such-option"}
    )
    other_answer = {**answer_fields, "approvalId": "no-such-approval", "optionId": "allow-once"}
    talk.server.expect_refusal(-31021, "approval/respond", other_answer)


def rejects(runtime: Bench) -> None:
    ways: list[tuple[str, Callable[[TestSession], object]]] = [
        ("superseded", lambda talk: talk.send("Do not.", delivery="auto")),
        ("interrupted", lambda talk: talk.request("conversation/interrupt")),
    ]
    for by, act in ways:
        talk, _ = start_waiting_turn(runtime)
        act(talk)
        event = talk.wait("approval.resolved")["event"]
        is_right = event["by"] == by and event["decision"]["effect"] == "reject"
        expect(is_right, f"it is rejected, by {by}", event)
        talk.wait_until_idle()
        expect(not calls_of(talk), "nothing may run", *calls_of(talk))


def needs_resume(runtime: Bench) -> None:
    talk, request = start_waiting_turn(runtime)
    talk.request("conversation/pause")
    talk.wait("turn.paused")
    expect(respond(talk, request["params"]).get("needsResume") is True, "needsResume is missing")
    talk.server.is_alive()
    expect(not calls_of(talk), "nothing may run before conversation/resume", *calls_of(talk))
    talk.request("conversation/resume")
    talk.wait_until_idle()
    expect(len(calls_of(talk)) == 1, "after it, the action runs", *calls_of(talk))


# A client that can do little


def play_bare(runtime: Bench) -> tuple[TestSession, list[Json]]:
    """Let a client without features, deltas and events of usage see an action that must wait."""
    events = {"deltas": False, "optOut": ["usage.updated"]}
    server = runtime.open_server(features={}, events=events)
    talk = runtime.talk(call("probe", n=1), script_reply("So ", "be it."), server=server)
    talk.wait_until_idle()
    return talk, list(server.messages)


def no_features(runtime: Bench) -> None:
    _, messages = runtime.once(play_bare)
    requests = [m for m in messages if "method" in m and "id" in m]
    expect(not requests, "the client has set no feature", *requests)


def opted_out(runtime: Bench) -> None:
    talk, messages = runtime.once(play_bare)
    optional_messages = [*filter(is_delta, messages), *talk.events("usage.updated")]
    expect(not optional_messages, "the client does not want these", *optional_messages)


def nobody_asks(runtime: Bench) -> None:
    talk, _ = runtime.once(play_bare)
    event = talk.wait("approval.resolved")["event"]
    is_right = event["by"] == "noClient" and event["decision"]["effect"] == "reject"
    expect(is_right, "it is rejected at once", event)


# Requests that are open

NO_IDS: list[Any] = [{}, [], "x"]


def open_ids(runtime: Bench) -> None:
    talk = busy(runtime)
    params = {"conversationId": talk.id, "content": text("Wait."), "wait": "completed"}
    talk.server.send_request("conversation/sendMessage", params, "open")
    talk.server.expect_refusal(-32600, "conversation/list", {}, "open")
    release(talk)
    answer = talk.server.answer_to("open", nth=2)
    expect("result" in answer, "the first is answered as usual", answer)


def ids_of_both(runtime: Bench) -> None:
    talk, request = start_waiting_turn(runtime)
    number = f"both-{request['id']}"
    for request_id in (request["id"], number):
        n_before = talk.server.n_answers(request_id)
        talk.server.send_request("conversation/list", {}, request_id)
        answer = talk.server.answer_to(request_id, nth=n_before + 1)
        expect("result" in answer, "the server has a request open under this id, too", answer)


def cancellation(runtime: Bench) -> None:
    talk = runtime.start_held_turn()
    server = talk.server
    waits = talk.post("Wait.", wait="completed")
    ids: list[Any] = [{"id": n} for n in (9999, "x", None, [1], waits)]
    for params in [*NO_IDS, *ids]:
        server.send({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": params})
    server.is_refusal(-32800, server.answer_to(waits), "a request that is cancelled")
    turn = talk.wait("turn.completed")["event"]["turn"]
    expect(turn["status"] == "interrupted", "its turn is interrupted", turn)
    request = server.send_request("conversation/list")
    server.notify("$/cancelRequest", {"id": request})
    answer = server.answer_to(request)
    expect("result" in answer, "this cannot be cancelled", answer)
    server.is_alive()
    expect(server.n_answers(waits) == 1, "it is answered once")


def in_flight(runtime: Bench) -> None:
    n_allowed = limits_of(runtime.server)["requestsInFlight"]
    talks = [runtime.start_held_turn() for _ in range(-(-n_allowed // 30))]
    ids = [talks[n % len(talks)].post("Wait.", wait="completed") for n in range(n_allowed)]
    error = runtime.server.expect_refusal(-31013, "conversation/list")
    expect(error.data.get("retryAfterMs", 0) > 0, "retryAfterMs is missing", error.data)
    for talk in talks:
        talk.request("conversation/interrupt", clearQueue=True)
    for request_id in ids:
        runtime.server.answer_to(request_id)


def failures_of_tools(runtime: Bench) -> None:
    def fail(_params: Json) -> Json:
        raise RpcError({"code": -32000, "message": "no network"})

    runtime.server.answer("tool/call", fail)
    talk = runtime.talk(call("look", n=1), script_reply("Well."))
    turn = talk.wait_until_idle()
    statuses = [each["event"]["item"]["status"] for each in talk.events("item.completed")]
    expect("failed" in statuses, f"the observation says so: {statuses}")
    expect(turn["status"] == "completed", "the turn goes on", turn)


def strange_folders(runtime: Bench) -> None:
    folder = runtime.project.with_name("another")
    folder.mkdir(exist_ok=True)
    params = {"folders": [folder.as_uri()], "content": text("Hi")}
    runtime.server.expect_refusal(-31001, "conversation/start", params)
    expect(not [*folder.iterdir()], f"nothing may be written in {folder}")


APPROVALS = checks(
    "core",
    {
        "A1": stays_pending,
        "A2": in_the_log,
        "A3": digests,
        "A4": as_shown,
        "A5": first_answer,
        "A7": no_such_answer,
        "A9": rejects,
        "A10": nobody_asks,
        "A11": needs_resume,
        "I5": no_features,
        "I12": opted_out,
        "B11": open_ids,
        "B12": ids_of_both,
        "B19": cancellation,
        "L2": in_flight,
        "E5": failures_of_tools,
        "T2": strange_folders,
    },
)
