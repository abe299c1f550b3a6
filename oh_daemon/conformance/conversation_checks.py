"""What is asked of a conversation, read again and repeated: rules C, R and K."""

from __future__ import annotations

import json
from uuid import uuid4

from oh_daemon.conformance.bench import Bench, TestSession, checks, expect, text
from oh_daemon.conformance.order_checks import TwoTurns, busy, play_session, release
from oh_daemon.conformance.rpc_process import Json
from oh_daemon.conformance.scripted_model import HOLD, script_reply


def acceptance(runtime: Bench) -> None:
    talk = runtime.start_held_turn()
    expect(not talk.events("turn.completed"), "the model has not answered yet")
    talk.request("conversation/interrupt")
    runtime.model.play(script_reply("At last."))
    result = talk.send("And now?", wait="completed")
    expect(result["finalText"] == "At last.", "the answer waits for the end", result)


def not_open(runtime: Bench) -> None:
    params = {"conversationId": "no-such-conversation", "content": text("Hi")}
    runtime.server.expect_refusal(-31002, "conversation/sendMessage", params)


def starts(runtime: Bench) -> None:
    session = runtime.once(play_session)
    first = session.events[0]
    expect(first["event"]["type"] == "conversation.created", "the first event", first)
    messages = [m for m in session.messages if m.get("method") != "conversation/changed"]
    expect("result" in messages[0], "the answer comes first", messages[0])


def opens(runtime: Bench) -> None:
    talk = runtime.talk(script_reply("Hello."))
    talk.wait_until_idle()
    results = [talk.request("conversation/open", replay="none") for _ in range(2)]
    n_before, last = len(talk.events()), results[1]["lastSeq"]
    runtime.model.play(script_reply("Again."))
    talk.send("Once more.")
    talk.wait_until_idle(2)
    seqs = [each["seq"] for each in talk.events()[n_before:]]
    expect(seqs == list(range(last + 1, last + 1 + len(seqs))), f"lastSeq {last}, then {seqs}")


def subscriptions(runtime: Bench) -> None:
    talk = runtime.talk(script_reply("Hello."))
    talk.wait_until_idle()
    talk.request("conversation/unsubscribe")
    n_before = len(talk.events())
    talk.send("Silently.", wait="completed")
    last = talk.request("conversation/subscribe")["lastSeq"]
    late = talk.events()[n_before:]
    expect(not late, "these came without a subscription", *late)
    expect(last > talk.events()[-1]["seq"], f"lastSeq {last} must count them")


def at_rest(runtime: Bench) -> None:
    busy(runtime).expect_refusal(-31003, "conversation/close")


def blank(runtime: Bench) -> None:
    talk = runtime.talk(script_reply("Hello."))
    talk.wait_until_idle()
    talk.expect_refusal(-32602, "conversation/sendMessage", content=text(" \n"))
    runtime.server.expect_refusal(-32602, "conversation/start", {"content": text("")})
    expect(len(talk.events("turn.started")) == 1, "no turn may begin")


def deliveries(runtime: Bench) -> None:
    talk = busy(runtime)
    effects = [talk.send("Now", delivery=each)["disposition"] for each in ("auto", "queue")]
    runtime.model.play(HOLD)
    effects.append(talk.send("Stop", delivery="interrupt")["disposition"])
    talk.request("conversation/interrupt", clearQueue=True)
    effects.append(talk.send("Anew")["disposition"])
    expected_deliveries = ["steered", "queued", "interruptedAndStarted", "started"]
    expect(
        effects == expected_deliveries, f"the dispositions are {effects}, not {expected_deliveries}"
    )


def other_turn(runtime: Bench) -> None:
    talk = busy(runtime)
    params = {"content": text("Hi"), "expectedTurnId": "no-such-turn"}
    talk.expect_refusal(-31005, "conversation/sendMessage", **params)


def queued_messages(runtime: Bench) -> None:
    talk = busy(runtime)
    for words in ("Second.", "Third."):
        talk.send(words, delivery="queue")
    release(talk)
    talk.wait_until_idle(3)
    kinds = {"turn.started", "turn.completed"}
    turns = [each["event"]["type"] for each in talk.events(*kinds)]
    expect(turns == ["turn.started", "turn.completed"] * 3, f"the turns are {turns}")
    items = [each["event"]["item"] for each in talk.events("item.completed")]
    words = [item["content"][0]["text"] for item in items if item["kind"] == "userMessage"]
    expect(words == ["Begin.", "Second.", "Third."], f"the messages are {words}")


def interrupts(runtime: Bench) -> None:
    talk = runtime.start_held_turn()
    result = talk.request("conversation/interrupt", turnId="no-such-turn")
    expect(result["status"] == "running", "another turn goes on", result)
    while runtime.model.hung_up.acquire(blocking=False):
        pass
    result = talk.request("conversation/interrupt", turnId=talk.start_result["turnId"])
    expect(result["status"] == "interrupted", "the turn is over", result)
    turn = talk.events("turn.completed")[0]["event"]["turn"]
    expect(turn["status"] == "interrupted", "it says so", turn)
    is_over = runtime.model.hung_up.acquire(timeout=runtime.within_s)
    expect(is_over, "the connection to the model must be closed")


def pauses(runtime: Bench) -> None:
    talk = busy(runtime)
    talk.request("conversation/pause")
    release(talk)
    talk.wait("turn.paused")
    expect(not talk.events("turn.completed"), "the turn stays open")
    turn = talk.request("conversation/resume")["turnId"]
    expect(
        talk.wait_until_idle()["id"] == turn == talk.start_result["turnId"],
        f"resume goes on with {turn}",
    )


def lists_change(runtime: Bench) -> None:
    talk = runtime.talk(script_reply("Hello."))
    talk.wait_until_idle()
    talk.request("conversation/unsubscribe")
    runtime.model.play(HOLD)
    talk.send("Go on.")
    expected_changes = [("created", ""), ("updated", "idle"), ("updated", "running")]
    for change, status in expected_changes:
        runtime.server.wait_for(
            lambda m, change=change, status=status: (
                m.get("method") == "conversation/changed"
                and m["params"]["conversation"]["id"] == talk.id
                and m["params"]["change"] == change
                and (not status or m["params"]["conversation"]["status"] in {status, "finished"})
            )
        )


def pages(runtime: Bench) -> None:
    for _ in range(2):
        runtime.talk(script_reply("Hello.")).wait_until_idle()
    first = runtime.server.request("conversation/list", {"limit": 1})
    more = {"limit": 1, "cursor": first["nextCursor"]}
    second = runtime.server.request("conversation/list", more)
    lists = [first["conversations"], second["conversations"]]
    expect([len(each) for each in lists] == [1, 1], "one each", first, second)
    expect(lists[0][0]["id"] != lists[1][0]["id"], "the next page goes on", first, second)


# Replay, and repeated requests


def replays(runtime: Bench) -> None:
    session = runtime.once(play_session)
    talk = _again(runtime, session)
    params: Json = {"replay": "events", "afterSeq": 0, "limit": 500}
    records = talk.request("conversation/open", **params)["events"]
    for live, record in zip(session.events, records, strict=False):
        same = json.dumps(_record(live)) == json.dumps(record)
        expect(same, "the second is the first, read again", live, record)
    expect(len(records) >= len(session.events), f"only {len(records)} records")


def _record(live: Json) -> Json:
    return {key: live[key] for key in live if key not in {"conversationId", "epoch"}}


def _again(runtime: Bench, session: TwoTurns) -> TestSession:
    """Return the conversation of a session on the present server."""
    return TestSession(runtime.server, session.talk.start_result)


def pages_of_events(runtime: Bench) -> None:
    session = runtime.once(play_session)
    talk = _again(runtime, session)
    seqs: list[int] = []
    is_more = True
    while is_more:
        after = seqs[-1] if seqs else 0
        page = talk.request("conversation/events", afterSeq=after, limit=7)
        numbers = [each["seq"] for each in page["events"]]
        is_whole = numbers == list(range(page["firstSeq"], page["lastSeq"] + 1))
        expect(is_whole and numbers, "a page is without holes", page)
        is_more = page["truncated"]
        seqs.extend(numbers)
    expect(seqs == list(range(1, len(seqs) + 1)), f"the pages have {seqs}")
    expect(len(seqs) >= len(session.events), f"only {len(seqs)} records")
    params: Json = {"afterSeq": 0, "types": ["turn.started"], "limit": 500}
    kinds = [e["event"]["type"] for e in talk.request("conversation/events", **params)["events"]]
    expect(kinds == ["turn.started"] * len(session.turns), f"of the type turn.started: {kinds}")


def repeated_requests(runtime: Bench) -> None:
    talk = runtime.talk(script_reply("Hello."))
    talk.wait_until_idle()
    first, second = (talk.send("Twice.", clientRequestId="k1") for _ in range(2))
    talk.wait_until_idle(2)
    expect(second == {**first, "duplicate": True}, "the second repeats the first", first, second)
    n_turns = len(talk.events("turn.started"))
    expect(n_turns == 2, f"{n_turns} turns have begun")  # noqa: PLR2004


def other_params(runtime: Bench) -> None:
    talk = runtime.talk(script_reply("Hello."))
    talk.wait_until_idle()
    talk.send("This.", clientRequestId="k2")
    params = {"content": text("That."), "clientRequestId": "k2"}
    talk.expect_refusal(-31016, "conversation/sendMessage", **params)


def repeated_starts(runtime: Bench) -> None:
    name = uuid4().hex
    first, second = (runtime.talk(script_reply("Hello."), clientRequestId=name) for _ in range(2))
    is_right = first.id == second.id and second.start_result.get("duplicate") is True
    expect(is_right, "the second is the first", first.start_result, second.start_result)
    first.wait_until_idle()
    first.send("The same id, another method.", clientRequestId=name)


def repeated_messages(runtime: Bench) -> None:
    talk = runtime.talk(script_reply("Hello."))
    talk.wait_until_idle()
    first, second = (talk.send("Twice.", clientMessageId="k4") for _ in range(2))
    is_right = second.get("duplicate") and first["messageId"] == second["messageId"]
    expect(is_right, "the second repeats the first", first, second)


def repeated_waits(runtime: Bench) -> None:
    talk = busy(runtime)
    params: Json = {"wait": "completed", "delivery": "queue", "clientRequestId": "k5"}
    first = talk.post("Wait.", **params)
    second = talk.send("Wait.", **params)
    expect("turn" not in second and second.get("duplicate"), "at once, without turn", second)
    expect(not talk.server.n_answers(first), "the first waits")
    release(talk)
    expect("turn" in talk.server.result_of(first), "the first has the turn")


CONVERSATIONS = checks(
    "core",
    {
        "C1": acceptance,
        "C2": not_open,
        "C3": starts,
        "C4": opens,
        "C5": subscriptions,
        "C6": at_rest,
        "C7": blank,
        "C8": deliveries,
        "C9": other_turn,
        "C10": queued_messages,
        "C11": interrupts,
        "C12": pauses,
        "C14": lists_change,
        "C17": pages,
        "R1": replays,
        "R6": pages_of_events,
        "K1": repeated_requests,
        "K2": other_params,
        "K3": repeated_starts,
        "K4": repeated_messages,
        "K5": repeated_waits,
    },
)
