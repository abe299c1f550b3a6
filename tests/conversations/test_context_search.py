"""A few letters find what a message can mention, best match first."""

import shutil
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest
from fake_llm import call, say
from network_hosts import host
from raw_client import RawClient
from world import World

from oh_daemon.conformance.rpc_process import NoAnswer

pytestmark = pytest.mark.one_daemon

Json = dict[str, Any]


def labels(client: RawClient, query: str, **params: Any) -> list[str]:
    search_items = client.request("context/search", {"query": query, **params})["items"]
    return [item["label"] for item in search_items]


def test_files_are_found_as_git_sees_them_and_open_ones_first(world: World) -> None:
    for name in ("shop/prices.py", "shop/price_list.py", "out/prices.js", "gone_prices.py"):
        (world.project / name).parent.mkdir(exist_ok=True)
        (world.project / name).write_text("x\n")
    (world.project / ".gitignore").write_text("out/\n")
    for command in (["git", "init", "-q"], ["git", "add", "."]):
        subprocess.run(command, cwd=world.project, check=True)
    (world.project / "gone_prices.py").unlink()
    client = world.daemon()
    search_items = client.request("context/search", {"query": "pri", "kinds": ["file"]})["items"]
    uri = (world.project / "shop/prices.py").as_uri()
    assert search_items[0] == {
        "kind": "file",
        "label": "prices.py",
        "detail": "shop",
        "part": {"type": "resourceLink", "uri": uri, "name": "shop/prices.py"},
    }
    assert [item["label"] for item in search_items] == ["prices.py", "price_list.py"]
    other_uri = (world.project / "shop/price_list.py").as_uri()
    document = {"uri": other_uri, "languageId": "python", "version": 1, "text": "x\n"}
    client.notify("textDocument/didOpen", {"textDocument": document})
    assert labels(client, "", kinds=["file"])[0] == "price_list.py"
    assert labels(client, "pri", kinds=["file"], limit=1) == ["price_list.py"]
    assert labels(client, "nothing like it") == []


def test_a_folder_without_git_is_searched_too(world: World) -> None:
    (world.project / "deep/er").mkdir(parents=True)
    (world.project / "deep/er/note.txt").write_text("x\n")
    assert labels(world.daemon(), "dnote") == ["note.txt"]


def test_conversations_and_commands_are_ready_to_be_mentioned(world: World) -> None:
    world.script(say("Done."), say("Done."))
    client = world.daemon()
    old = world.start(client, "Explore the prices")
    world.turn(client)
    put_away = world.start(client, "Expand them")
    world.turn(client, nth=2)
    client.request("conversation/update", {"conversationId": put_away, "archived": True})
    search_items = client.request("context/search", {"query": "exp"})["items"]
    assert [item["label"] for item in search_items] == ["/explain", "Explore the prices"]
    assert [item["kind"] for item in search_items] == ["command", "conversation"]
    command, link = (item["part"] for item in search_items)
    assert command == {"type": "command", "name": "explain"}
    assert link["uri"] == f"oh-log:/{old}"
    assert labels(client, "exp", conversationId=old) == ["/explain"]
    content = [command, link]
    client.request("conversation/sendMessage", {"conversationId": old, "content": content})


def test_a_folder_the_changes_and_a_page_are_mentioned_with_their_text(
    world: World, tmp_path: Path
) -> None:
    world.script(say("I see."), say("I see."), say("I see."))
    for name in ("shop/prices.py", "shop/deep/list.py", "main.py"):
        (world.project / name).parent.mkdir(exist_ok=True)
        (world.project / name).write_text("old = 1\n")
    commit = ["git", "-c", "user.name=A", "-c", "user.email=a@example.org", "commit", "-qm", "one"]
    client, changes = world.daemon(), [{"type": "resourceLink", "uri": "oh-git:/diff"}]
    shutil.rmtree(world.project / ".git")
    error = client.error("conversation/start", {"content": changes})
    assert error.message.endswith("no folder that you trust is in a git repository")
    for command in (["git", "init", "-q"], ["git", "add", "."]):
        subprocess.run(command, cwd=world.project, check=True)
    client.request("conversation/start", {"content": changes})
    world.turn(client)
    message_text = str(world.llm.requests[0].body["messages"][-1]["content"])
    assert "\n+old = 1\n</resource>" in message_text, "before the first commit, all is new"
    subprocess.run(commit, cwd=world.project, check=True)
    (world.project / "main.py").write_text("new = 2\n")
    site = tmp_path / "site"
    site.mkdir()
    html = "<head><title>T</title></head><body><h1>Fees</h1><p>Two &euro;\n<b>each</b>.</p></body>"
    (site / "fees.html").write_text(html, "utf-8")
    (site / "logo.png").write_bytes(b"png")
    with host(site) as port:
        page = f"http://127.0.0.1:{port}/fees.html"
        queries = {"shop": "folder", "git": "changes", page: "page"}
        parts = [part_of(client, query, kind) for query, kind in queries.items()]
        conversation = client.request("conversation/start", {"content": parts})["conversation"]
        world.turn(client, nth=2)
        picture = {"type": "resourceLink", "uri": f"http://127.0.0.1:{port}/logo.png"}
        params = {"conversationId": conversation["id"], "content": [{**picture, "fetch": True}]}
        error = client.error("conversation/sendMessage", params)
        assert error.message.endswith("/logo.png is image/png, not text")
        with socket.create_server(("127.0.0.1", 0)) as silent_socket:
            waits = {
                "type": "resourceLink",
                "uri": f"http://127.0.0.1:{silent_socket.getsockname()[1]}/",
            }
            slow = {**params, "content": [{**waits, "fetch": True}]}
            first = client.send_request("conversation/sendMessage", slow)
            connection, _ = silent_socket.accept()
            later = {**params, "content": [picture], "wait": "completed"}
            second = client.send_request("conversation/sendMessage", later)
            client.request("conversation/interrupt", {"conversationId": conversation["id"]})
            assert len(world.llm.requests) == 2, "a later message waits, an interrupt does not"
            client.notify("$/cancelRequest", {"id": first})
            assert client.error_of(first).data["kind"] == "requestCancelled"
            connection.close()
        client.result_of(second)
    message_text = str(world.llm.requests[1].body["messages"][-1]["content"])
    assert "\ndeep/list.py\nprices.py\n</resource>" in message_text
    assert "\n-old = 1\n+new = 2\n</resource>" in message_text
    assert f"<resource uri='{page}'>\nFees\n\nTwo € each.\n</resource>" in message_text
    assert "logo.png'/>" in str(world.llm.requests[2].body["messages"]), "a mere link is one"


def part_of(client: RawClient, query: str, kind: str) -> Json:
    [search_items] = client.request(
        "context/search", {"query": query, "kinds": [kind], "limit": 1}
    )["items"]
    return search_items["part"]


SYMBOLS: list[Json] = [
    {
        "name": "price_of",
        "kind": 12,
        "containerName": "Shop",
        "location": {
            "uri": "file:///shop/prices.py",
            "range": {
                "start": {"line": 4, "character": 0},
                "end": {"line": 9, "character": 2},
            },
        },
    },
    {"name": "unplaced", "kind": 12},
]


def test_symbols_come_from_the_editors_language_servers(world: World) -> None:
    client = world.daemon(features={"languageRequests": True})
    requests: list[Json] = []

    def answer(params: Json) -> Json:
        requests.append(params)
        return {"result": SYMBOLS}

    client.answer("editor/languageRequest", answer)
    search_items = client.request("context/search", {"query": "price", "kinds": ["symbol"]})[
        "items"
    ]
    assert requests == [{"method": "workspace/symbol", "params": {"query": "price"}}]
    [symbol] = search_items
    assert (symbol["label"], symbol["detail"]) == ("price_of", "Shop, prices.py")
    place = SYMBOLS[0]["location"]
    assert symbol["part"] == {"type": "resourceLink", "name": "price_of", **place}


@pytest.mark.parametrize("answer", [{"result": "nonsense"}, {"result": None}, None])
def test_a_language_server_without_an_answer_holds_nothing_up(
    world: World, answer: Json | None
) -> None:
    (world.project / "prices.py").write_text("x\n")
    client = world.daemon(features={"languageRequests": True})

    def reply(_params: Json) -> Json:
        if answer is None:
            raise NoAnswer
        return answer

    client.answer("editor/languageRequest", reply)
    assert labels(client, "price") == ["prices.py"]


def test_a_file_that_was_just_made_is_found_within_seconds(world: World) -> None:
    world.script(call("terminal", command="touch brand_new.py"), say("Done."))
    client = world.daemon()
    assert labels(client, "brand") == []
    world.start(client)
    world.turn(client)
    values: list[str] = []
    while not values:
        values = labels(client, "brand")
    assert values == ["brand_new.py"]
