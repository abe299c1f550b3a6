"""Starting, opening, closing, listing and reading conversations through the real daemon."""

import resource
import stat
from itertools import chain
from typing import Any

import pytest
from fake_llm import Step, call, calls, error, hang, say
from world import World, items, text

pytestmark = pytest.mark.one_daemon

Json = dict[str, Any]


def test_a_start_says_everything_and_happens_once_per_request_id(world: World) -> None:
    world.script(say("Hello."))
    client = world.daemon()
    params: Json = {
        "content": text("  \nFirst line\nsecond"),
        "clientRequestId": "start-1",
        "clientMessageId": "message-1",
        "options": {"approval": "askAlways", "mode": "plan"},
        "metadata": {"ticket": 7},
        "maxSteps": 3,
        "folders": [world.project.as_uri(), str(world.project)],
        "maxCostUsd": 2.5,
        "instructions": "Speak like a pirate.",
        "tools": {"allow": ["think", "finish", "todo"], "deny": ["todo"]},
    }
    first = client.request("conversation/start", params)
    world.turn(client)
    info = first["conversation"]
    assert (info["title"], info["folders"]) == ("First line", [world.project.as_uri()])
    assert info["lock"] == {"mine": True}
    values = {option["id"]: option["value"] for option in first["options"]}
    assert values == {"mode": "plan", "approval": "askAlways", "model": "openai/fake"}
    again = client.request("conversation/start", params)
    assert again["duplicate"] is True
    assert again["conversation"]["id"] == info["id"]
    refusal = client.error("conversation/start", {**params, "maxSteps": 4})
    assert (refusal.code, refusal.data["kind"]) == (-31016, "idempotencyConflict")
    creation = client.events[0]["event"]
    assert (creation["maxSteps"], creation["maxCostUsd"]) == (3, 2.5)
    assert creation["metadata"] == {"ticket": 7}
    [request] = world.llm.requests
    assert "Speak like a pirate." in str(request.body["messages"][0])
    assert {tool["function"]["name"] for tool in request.body["tools"]} == {"think", "finish"}
    [message] = items(client, "userMessage")
    assert (message["clientMessageId"], message["messageId"]) == ("message-1", first["messageId"])


def test_no_conversation_starts_in_a_folder_that_is_neither_open_nor_trusted(world: World) -> None:
    outside, link = world.project.parent / "elsewhere", world.project / "link"
    outside.mkdir()
    link.symlink_to(outside)
    (inside := world.project / "inside").mkdir()
    client = world.daemon()
    for folders in ([outside], [world.project, outside], [link]):
        params: Json = {"folders": [folder.as_uri() for folder in folders]}
        error = client.error("conversation/start", {**params, "content": text("go")})
        assert (error.code, error.data["kind"]) == (-31001, "workspaceUntrusted")
        assert "neither open nor trusted" in error.message
    assert not any(outside.iterdir())
    assert client.request("conversation/list")["conversations"] == []
    client.request("conversation/start", {"folders": [str(inside)]})
    client.request("workspace/setTrust", {"folder": str(outside), "trusted": "full"})
    start_result = client.request("conversation/start", {"folders": [str(outside)]})
    assert start_result["conversation"]["folders"] == [outside.as_uri()]


def test_a_conversation_reads_the_same_live_closed_and_opened_again(world: World) -> None:
    world.script(calls(say("Looking."), call("terminal", command="echo out")), say("Done."))
    client = world.daemon()
    conversation = world.start(client)
    world.turn(client)
    params = {"conversationId": conversation}
    read_live = client.request("conversation/read", params)
    client.request("conversation/close", params)
    error = client.error("conversation/sendMessage", {**params, "content": text("closed?")})
    assert (error.code, error.data["kind"]) == (-31002, "conversationNotFound")
    assert "conversation/list" in error.data["hint"]
    page_when_closed = client.request("conversation/read", params)
    assert page_when_closed["items"] == read_live["items"]
    kinds = [item["kind"] for item in page_when_closed["items"]]
    assert kinds == ["userMessage", "agentMessage", "command", "agentMessage"]
    open_result = client.request("conversation/open", params)
    assert open_result["items"] == read_live["items"]
    assert (open_result["pending"], open_result["queue"], open_result["repaired"]) == ([], [], [])
    assert open_result["conversation"]["status"] == "idle"
    lines = world.records_of(conversation)
    reopen_result = client.request("conversation/open", {**params, "replay": "events"})
    assert reopen_result["events"] == lines[: reopen_result["lastSeq"]]
    assert reopen_result["hasMore"] is False
    part = client.request(
        "conversation/open", {**params, "replay": "events", "afterSeq": 3, "limit": 2}
    )
    assert [event["seq"] for event in part["events"]] == [4, 5]
    assert part["hasMore"] is True
    assert part["lastSeq"] == reopen_result["lastSeq"]
    begin = client.request(
        "conversation/open", {**params, "replay": "events", "afterSeq": 0, "limit": 1}
    )
    assert [event["seq"] for event in begin["events"]] == [1]
    world.script(say("Still here."))
    world.send(client, conversation, "and now?")
    assert world.turn(client, nth=2)["finalText"] == "Still here."
    assert len(world.llm.requests[-1].body["messages"]) == 6


def test_a_plan_that_is_pages_back_comes_with_the_last_page_while_it_may_hold(
    world: World,
) -> None:
    tasks = [{"text": "Count", "status": "in_progress"}]
    think = call("think", thought="Hm.")
    world.script(call("todo", tasks=tasks), think, think, say("Done."), say("Again."))
    client = world.daemon()
    params = {"conversationId": world.start(client, "count")}
    world.turn(client)
    open_result = client.request("conversation/open", {**params, "limit": 2})
    assert [entry["text"] for entry in open_result["plan"]["entries"]] == ["Count"]
    assert "plan" not in client.request("conversation/open", {**params, "limit": 4})
    world.send(client, params["conversationId"], "again")
    world.turn(client, nth=2)
    assert "plan" not in client.request("conversation/open", {**params, "limit": 1})


def test_pages_of_items_events_and_lists_join_without_hole_or_overlap(world: World) -> None:
    world.script(calls(*(call("think", thought=f"{n}") for n in range(5))), say("Done."))
    client = world.daemon()
    conversation = world.start(client)
    world.turn(client)
    client.wait_for_event(lambda params: params["event"].get("to") == "idle")
    request_params = {"conversationId": conversation}
    all_items = client.request("conversation/read", request_params)["items"]
    pages: list[Json] = []
    before: Json = {}
    while True:
        page = client.request("conversation/read", {**request_params, "limit": 3, **before})
        pages = page["items"] + pages
        if "nextBefore" not in page:
            break
        before = {"before": page["nextBefore"]}
    assert pages == all_items
    last = client.request("conversation/events", request_params)["lastSeq"]
    seqs: list[int] = []
    while len(seqs) < last:
        page = client.request(
            "conversation/events", {**request_params, "afterSeq": len(seqs), "limit": 4}
        )
        seqs += [event["seq"] for event in page["events"]]
        assert page["truncated"] == (len(seqs) < last)
    assert seqs == list(range(1, last + 1))
    page = client.request("conversation/events", {**request_params, "beforeSeq": 6, "limit": 2})
    assert [event["seq"] for event in page["events"]] == [4, 5]
    only = client.request("conversation/events", {**request_params, "types": ["turn.completed"]})
    assert [event["event"]["type"] for event in only["events"]] == ["turn.completed"]
    epoch = only["epoch"]
    client.request("conversation/close", request_params)
    assert client.request("conversation/events", request_params)["epoch"] == epoch


def test_a_page_of_some_types_is_full_however_many_others_are_between(world: World) -> None:
    """A client that reads page by page would take an empty page for the end."""
    world.script(*[call("think", thought=f"{n}") for n in range(40)], say("Done."))
    client = world.daemon()
    request_params: Json = {"conversationId": world.start(client)}
    world.turn(client)
    client.wait_for_event(lambda params: params["event"].get("to") == "idle")
    every = client.request("conversation/events", request_params)["events"]
    filters = {"types": ["turn.started", "turn.completed", "usage.updated"]}
    expected = [record for record in every if record["event"]["type"] in filters["types"]]

    def pages(limit: int, edge: Json, side: str, key: str) -> list[list[Json]]:
        pages: list[list[Json]] = []
        while True:
            params = {**request_params, **filters, "limit": limit, **edge}
            page = client.request("conversation/events", params)
            pages.append(page["events"])
            if not page["truncated"]:
                return pages
            edge = {side: page[key]}

    for is_open in (True, False):
        if not is_open:
            client.request("conversation/close", request_params)
        forwards = pages(10, {"afterSeq": 0}, "afterSeq", "lastSeq")
        backwards = pages(10, {}, "beforeSeq", "firstSeq")
        assert [*chain(*forwards)] == [*chain(*reversed(backwards))] == expected
        assert (
            [len(page) for page in forwards] == [len(page) for page in backwards] == [10] * 4 + [3]
        )


def test_lists_are_filtered_and_paged_newest_first(world: World) -> None:
    client = world.daemon()
    titles = ["one apple", "two pears", "three Apples"]
    ids = [
        client.request("conversation/start", {"title": title})["conversation"]["id"]
        for title in titles
    ]
    client.request("conversation/close", {"conversationId": ids[0]})
    search_result = client.request("conversation/list", {"query": "APPLE"})["conversations"]
    assert {info["title"] for info in search_result} == {"one apple", "three Apples"}
    first = client.request("conversation/list", {"limit": 2})
    second = client.request("conversation/list", {"limit": 2, "cursor": first["nextCursor"]})
    conversations = first["conversations"] + second["conversations"]
    assert sorted(info["id"] for info in conversations) == sorted(ids)
    assert "nextCursor" not in second
    moments = [info["updatedAt"] for info in conversations]
    assert moments == sorted(moments, reverse=True)
    project_params, home_params = (
        {"folder": path.as_uri()} for path in (world.project, world.home)
    )
    assert len(client.request("conversation/list", project_params)["conversations"]) == 3
    assert client.request("conversation/list", home_params)["conversations"] == []
    error = client.error("conversation/list", {"cursor": "c"})
    assert (error.code, error.data["kind"]) == (-31015, "cursorInvalid")


def test_all_texts_are_searched_and_the_line_that_matched_is_told(world: World) -> None:
    world.script(
        call("terminal", command="echo 'ECONNREFUSED by the database'"),
        say("The pool was\nnever *closed* there."),
        say("It is blue."),
    )
    client = world.daemon()
    first = world.start(client, "Why does it fail?", title="a failure")
    world.turn(client)
    second = world.start(client, "What color has the sky?", title="the sky")
    world.turn(client, nth=2)

    def search(query: str, **more: Any) -> Json:
        params = {"query": query, "texts": True, **more}
        result = client.request("conversation/list", params)
        lines = result.pop("matches")
        return {info["id"]: lines.get(info["id"]) for info in result["conversations"]}

    for _ in "at work, and closed":
        assert search("econnrefused") == {first: "ECONNREFUSED by the database"}
        assert search("CLOSED never") == {first: "never *closed* there."}
        assert search("blue sky") == {second: "It is blue."}
        assert search("sky") == {second: None}, "its title has the word"
        assert list(search("the")) == [second, first]
        assert list(search("the", limit=1)) == [second]
        assert list(search("the", limit=1, cursor=second)) == [first]
        assert search("blue", archived=True) == search("blue nowhere") == {}
        # Closing one is news of it, so the order stays.
        for each in reversed(client.request("conversation/list")["conversations"]):
            if each["lock"]["mine"]:
                client.request("conversation/close", {"conversationId": each["id"]})
    assert client.request("conversation/list", {"query": "blue"})["conversations"] == []
    [index, _] = world.project.glob(".openhands/conversations/*/search")
    assert stat.S_IMODE(index.stat().st_mode) == 0o600


def test_a_list_has_what_is_at_work_without_reading_its_log(world: World) -> None:
    world.script(hang())
    client = world.daemon()
    conversation = world.start(client)
    world.llm.wait_for_requests(1)
    [meta] = world.project.glob(".openhands/conversations/*/meta.json")
    inode = meta.stat().st_ino
    [summary] = client.request("conversation/list")["conversations"]
    assert (summary["id"], summary["status"]) == (conversation, "running")
    assert meta.stat().st_ino == inode
    client.request("conversation/interrupt", {"conversationId": conversation})


def test_a_conversation_is_renamed_and_put_away_also_when_it_is_closed(world: World) -> None:
    world.script(say("Hi."))
    client = world.daemon()
    params = {"conversationId": world.start(client)}
    world.turn(client)
    info = client.request("conversation/update", {**params, "title": "Plan B"})["conversation"]
    assert (info["title"], info["archived"], info["lock"]) == ("Plan B", False, {"mine": True})
    client.request("conversation/close", params)
    put_away = client.send_request("conversation/update", {**params, "archived": True})
    open_result = client.send_request("conversation/open", params)
    assert client.result_of(put_away)["conversation"]["lock"] == {"mine": False}
    info = client.result_of(open_result)["conversation"]
    assert (info["title"], info["archived"], info["lock"]) == ("Plan B", True, {"mine": True})
    assert client.request("conversation/list")["conversations"] == []
    [summary] = client.request("conversation/list", {"archived": True})["conversations"]
    assert summary["title"] == "Plan B"
    titles = [c["conversation"]["title"] for c in client.notifications("conversation/changed")]
    assert titles[-1] == "Plan B"


@pytest.mark.own_daemon
def test_a_conversation_works_after_a_change_of_it_that_could_not_be_written(world: World) -> None:
    client = world.daemon()
    start_result = client.request("conversation/start", {"options": {"model": "demo"}})
    params = {"conversationId": start_result["conversation"]["id"]}
    client.request("conversation/close", params)
    log = world.log_of(params["conversationId"])
    [header] = [line for line in log.read_bytes().splitlines() if b'"kind":"header"' in line]
    room = log.stat().st_size + len(header) + 50
    no_limit, pid = resource.RLIM_INFINITY, client.process.pid
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (room, no_limit))
    refusal = client.error("conversation/update", {**params, "title": "much " * 30})
    assert "ulimit -f" in refusal.message
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (no_limit, no_limit))
    client.request("conversation/open", params)
    client.request("conversation/sendMessage", {**params, "content": text("Fix it")})
    world.turn(client)


def test_a_new_conversation_gets_a_title_from_the_model_unless_the_user_says_no(
    world: World,
) -> None:
    titles = {"slow": hang(), "refused": error(401), "": say("Prices by rule")}

    def answer(request: Json) -> Step:
        if "tools" in request:
            return say("Done.")
        last_message = str(request["messages"][-1])
        return next(step for word, step in titles.items() if word in last_message)

    world.llm.play(answer)
    world.variables["OH_DAEMON_TITLES"] = ""
    client = world.daemon()
    # A title that never comes, or is refused, neither delays nor fails a turn.
    for nth, word in enumerate(("slow", "refused"), 1):
        other_conversation = world.start(client, word)
        assert world.turn(client, nth=nth)["status"] == "completed"
        [title_request] = [
            r for r in world.llm.wait_for_requests(2 * nth)[-2:] if "tools" not in r.body
        ]
        assert word == "refused" or not title_request.answer_event.is_set()
        client.request("conversation/close", {"conversationId": other_conversation})
        assert title_request.answer_event.wait(60)
        client.request("conversation/delete", {"conversationId": other_conversation})
    assert "error.raised" not in [e["event"]["type"] for e in client.events]
    conversation = world.start(client, "Make the code follow RULES.md")
    world.turn(client, nth=3)
    title_event = client.wait_for_event(lambda p: p["event"].get("title") == "Prices by rule")
    assert title_event["conversationId"] == conversation
    [summary] = client.request("conversation/list")["conversations"]
    assert summary["title"] == "Prices by rule"
    client.close()
    client_without_titles = world.daemon(settings={"titles": False})
    world.start(client_without_titles, "Another task")
    world.turn(client_without_titles)
    assert len([r for r in world.llm.requests if "tools" not in r.body]) == 3


def test_tags_and_metadata_are_set_merged_and_cleared(world: World) -> None:
    world.script(say("Hi."))
    client = world.daemon()
    params = {"conversationId": world.start(client, metadata={"ticket": "SHOP-7"})}
    world.turn(client)

    def update(**values: Any) -> tuple[list[str], Json]:
        info = client.request("conversation/update", {**params, **values})["conversation"]
        return info["tags"], info["metadata"]

    assert update(tags=["prices", "bug"]) == (["prices", "bug"], {"ticket": "SHOP-7"})
    both = {"ticket": "SHOP-7", "estimate": {"days": 2}}
    assert update(metadata={"estimate": {"days": 2}}) == (["prices", "bug"], both)
    assert update(metadata={"ticket": None}) == (["prices", "bug"], {"estimate": {"days": 2}})
    assert update(tags=None, title="Plan B") == ([], {"estimate": {"days": 2}})
    client.request("conversation/close", params)
    assert update(tags=["late"]) == (["late"], {"estimate": {"days": 2}})
    [summary] = client.request("conversation/list")["conversations"]
    assert (summary["title"], summary["tags"]) == ("Plan B", ["late"])
    assert update(metadata=None) == (["late"], {})
    too_many = {**params, "tags": ["x"] * 21}
    assert client.error("conversation/update", too_many).code == -32602


@pytest.mark.parametrize("damage", ["nothing", "no sense"])
def test_a_conversation_whose_log_is_damaged_can_be_deleted(world: World, damage: str) -> None:
    world.script(say("Hi."))
    client = world.daemon()
    conversation = world.start(client)
    params = {"conversationId": conversation}
    world.turn(client)
    client.request("conversation/close", params)
    log = world.log_of(conversation)
    header, first, *remaining = log.read_bytes().splitlines(keepends=True)
    damaged_logs = {
        "nothing": [],
        "no sense": [header, first.replace(b'"title"', b'"name"'), *remaining],
    }
    log.write_bytes(b"".join(damaged_logs[damage]))
    client.error("conversation/open", params)
    assert client.request("conversation/delete", params) == {}
    assert not log.parent.exists()
    assert [trash_folder.name[:4] for trash_folder in (log.parents[1] / ".trash").iterdir()] == [
        conversation[:4]
    ]


def test_a_deleted_conversation_goes_to_the_trash_unless_it_is_deleted_for_good(
    world: World,
) -> None:
    world.script(say("One."), hang())
    client = world.daemon()
    first = world.start(client)
    world.turn(client)
    second = world.start(client)
    world.llm.wait_for_requests(2)
    error = client.error("conversation/delete", {"conversationId": second})
    assert (error.code, error.data["kind"]) == (-31003, "conversationBusy")
    client.request("conversation/interrupt", {"conversationId": second})
    for conversation, permanent in ((first, True), (second, False), (second, False)):
        params = {"conversationId": conversation, "permanent": permanent}
        assert client.request("conversation/delete", params) == {}
        assert client.error("conversation/open", params).code == -31002
        assert not world.log_of(conversation).exists()
    assert client.request("conversation/list")["conversations"] == []
    changes = client.notifications("conversation/changed")
    deleted_ids = [c["conversation"]["id"] for c in changes if c["change"] == "deleted"]
    assert deleted_ids == [first, second]
    [trash_folder] = (world.project / ".openhands/conversations/.trash").iterdir()
    assert (trash_folder / "events.jsonl").is_file()
    assert trash_folder.name.startswith(second)


def test_an_ephemeral_conversation_leaves_no_file(world: World) -> None:
    world.script(say("Hi."))
    client = world.daemon()
    conversation = world.start(client, ephemeral=True)
    world.turn(client)
    params = {"conversationId": conversation}
    assert client.request("conversation/read", params)["items"]
    assert not world.log_of(conversation).exists()
    client.request("conversation/close", params)
    assert client.error("conversation/open", params).code == -31002
