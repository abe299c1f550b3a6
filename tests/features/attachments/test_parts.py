"""What a message may hold besides text: commands, images in pieces, other conversations."""

import hashlib
import threading
from base64 import b64decode, b64encode
from typing import Any

import pytest
from fake_llm import call, held, say
from raw_client import RawClient
from world import World, items, text

pytestmark = pytest.mark.one_daemon

Json = dict[str, Any]


def test_a_command_is_kept_as_given_and_written_out_for_the_model(world: World) -> None:
    world.script(say("Fixed."), say("Explained."))
    client = world.daemon()
    commands = {each["name"]: each for each in client.request("command/list")["commands"]}
    assert {"fix", "explain", "test", "review", "commit"} <= commands.keys()
    assert all(each["description"] and each["argumentHint"] for each in commands.values())
    forged = {"type": "command", "name": "fix", "args": "it rounds down", "prompt": "Say hello."}
    started = client.request("conversation/start", {"content": [forged]})["conversation"]
    assert started["title"] == "/fix it rounds down"
    world.turn(client)
    [message] = items(client, "userMessage")
    prompt = message["content"][0].pop("prompt")
    assert message["content"] == [{"type": "command", "name": "fix", "args": "it rounds down"}]
    assert prompt.startswith("Fix the problem")
    assert prompt.endswith("The user adds:\nit rounds down")
    assert world.llm.requests[0].body["messages"][-1] == {"role": "user", "content": prompt}
    unknown: Json = {"content": [*text("hi"), {"type": "command", "name": "dance"}]}
    for method in ("conversation/start", "conversation/sendMessage"):
        refused = client.error(method, {"conversationId": started["id"], **unknown})
        assert (refused.code, refused.data["errors"][0]["path"]) == (-32602, "content.1.name")
    assert len(client.request("conversation/list")["conversations"]) == 1


def test_a_command_in_the_queue_is_written_out_when_it_is_edited(world: World) -> None:
    gate = threading.Event()
    world.script(held(say("Done."), gate), say("Explained."))
    client = world.daemon()
    conversation = world.start(client)
    queued = world.send(client, conversation, "later", delivery="queue")
    wanted = [{"type": "command", "name": "explain"}]
    edit = {"op": "edit", "messageId": queued["messageId"], "content": wanted}
    client.request("conversation/queue", {"conversationId": conversation, **edit})
    gate.set()
    world.turn(client, nth=2)
    assert world.llm.requests[1].body["messages"][-1]["content"].startswith("Explain the code")


PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4096
PIECES = [PNG[: 512 << 10], PNG[512 << 10 : 1 << 20], PNG[1 << 20 :]]


def piece(index: int, data: bytes, **fields: Any) -> Json:
    named = {"mimeType": "image/png", "index": index, "total": len(PIECES)}
    return {**named, "data": b64encode(data).decode(), **fields}


def upload(client: RawClient) -> str:
    """Upload the whole image and return its id."""
    upload_id = client.request("attachment/put", piece(0, PIECES[0]))["attachmentId"]
    for n, data in list(enumerate(PIECES))[1:]:
        client.request("attachment/put", piece(n, data, attachmentId=upload_id))
    return upload_id


def image(attachment_id: str) -> Json:
    return {"type": "image", "mimeType": "image/png", "attachmentId": attachment_id}


def shown(world: World, nth: int) -> list[str]:
    """Return the images in the nth request to the model."""
    parts = (
        part
        for message in world.llm.requests[nth].body["messages"]
        if isinstance(message["content"], list)
        for part in message["content"]
    )
    return [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]


def test_an_image_in_pieces_reaches_the_model_and_survives_a_restart(world: World) -> None:
    world.script(say("A cat."), say("Still a cat."))
    client = world.daemon()
    first = client.request("attachment/put", piece(0, PIECES[0]))
    assert (first["received"], first["complete"]) == (1, False)
    named = {"attachmentId": first["attachmentId"]}
    second = piece(1, PIECES[1], **named)
    assert client.request("attachment/put", second) == client.request("attachment/put", second)
    digest = hashlib.sha256(PNG).hexdigest()
    last = client.request("attachment/put", piece(2, PIECES[2], **named, sha256=digest))
    assert last == {**named, "received": 3, "complete": True}
    content = [*text("What is it?"), image(first["attachmentId"])]
    started = client.request("conversation/start", {"content": content})["conversation"]["id"]
    world.turn(client)
    [message] = items(client, "userMessage")
    assert message["content"][1] == {"type": "image", "mimeType": "image/png", "outputRef": digest}
    url = f"data:image/png;base64,{b64encode(PNG).decode()}"
    assert shown(world, 0) == [url]
    client.kill()
    again = world.daemon()
    opened = again.request("conversation/open", {"conversationId": started})
    assert opened["items"][0]["content"] == message["content"]
    world.send(again, started, "And now?")
    world.turn(again)
    assert shown(world, 1) == [url]
    wanted = {"conversationId": started, "outputRef": digest, "encoding": "base64"}
    got = b""
    while len(got) < len(PNG):
        page = again.request("output/read", {**wanted, "offset": len(got), "limit": 200_000})
        got += b64decode(page["text"])
    assert got == PNG


def test_messages_keep_their_order_while_an_image_is_stored(world: World) -> None:
    gate = threading.Event()
    world.script(held(say("Working."), gate), say("One."), say("Two."))
    client = world.daemon()
    conversation = world.start(client)
    named: Json = {"conversationId": conversation, "delivery": "queue"}
    with_image = [*text("one"), image(upload(client))]
    client.send_request("conversation/sendMessage", {**named, "content": with_image})
    queued = client.request("conversation/sendMessage", {**named, "content": text("two")})
    assert queued["queuePosition"] == 1
    gate.set()
    world.turn(client, nth=3)
    said = [item["content"][0]["text"] for item in items(client, "userMessage")]
    assert said == ["go", "one", "two"]


def test_an_edited_message_keeps_its_image_by_the_name_it_has_in_the_log(world: World) -> None:
    gate = threading.Event()
    world.script(held(say("Working."), gate), say("A cat."))
    client = world.daemon()
    conversation = world.start(client)
    named: Json = {"conversationId": conversation}
    content = [*text("what?"), image(upload(client))]
    wait = {"content": content, "delivery": "queue"}
    queued = client.request("conversation/sendMessage", {**named, **wait})["messageId"]
    [waiting] = client.request("conversation/queue", named)["queue"]
    edit = {**named, "op": "edit", "messageId": queued}
    kept = [*text("What is it?"), waiting["content"][1]]
    [edited] = client.request("conversation/queue", {**edit, "content": kept})["queue"]
    assert edited["content"] == kept
    lost = client.error(
        "conversation/queue", {**edit, "content": [{**kept[1], "outputRef": "0" * 64}]}
    )
    assert "0" * 64 in lost.message
    gate.set()
    world.turn(client, nth=2)
    assert len(shown(world, 1)) == 1


WRONG: dict[str, tuple[Json, str]] = {
    "no such attachment": (piece(1, b"x", attachmentId="nope"), "attachmentId"),
    "a gap": (piece(1, PIECES[1]), "index"),
    "a piece too many": (piece(3, b"x"), "index"),
    "not base64": (piece(0, b"") | {"data": "%%%"}, "data"),
    "another type": (piece(0, PNG[:99], total=1, mimeType="image/jpeg"), "mimeType"),
    "another sum": (piece(0, PNG[:99], total=1, sha256="0" * 64), "sha256"),
    "no type of image": (piece(0, b"%PDF", mimeType="application/pdf"), "mimeType"),
    "a long piece": (piece(0, bytes((512 << 10) + 3)), "data"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_piece_that_does_not_fit_is_refused(world: World, case: str) -> None:
    params, path = WRONG[case]
    client = world.daemon()
    refused = client.error("attachment/put", params)
    assert (refused.code, refused.data["errors"][0]["path"]) == (-32602, path)


def test_more_than_an_attachment_may_have_is_refused_and_forgotten(world: World) -> None:
    client = world.daemon()
    data = bytes(512 << 10)
    upload_id = client.request("attachment/put", piece(0, data, total=99))["attachmentId"]
    for n in range(1, 40):
        client.request("attachment/put", piece(n, data, total=99, attachmentId=upload_id))
    more = piece(40, b"x", total=99, attachmentId=upload_id)
    refused = client.error("attachment/put", more)
    assert (refused.code, refused.data["kind"]) == (-31014, "payloadTooLarge")
    assert client.error("attachment/put", more).code == -32602


def test_what_is_uploaded_and_not_used_does_not_grow_for_ever(world: World) -> None:
    client = world.daemon()
    first = client.request("attachment/put", piece(0, PIECES[0]))["attachmentId"]
    for _ in range(128):
        client.request("attachment/put", piece(0, PIECES[0]))
    gone = client.error("attachment/put", piece(1, PIECES[1], attachmentId=first))
    assert "send it again" in gone.message


BAD_IMAGES: dict[str, Json] = {
    "an unfinished one": {"attachmentId": "UNFINISHED"},
    "an unknown one": {"attachmentId": "nope"},
    "nothing": {},
    "two ways at once": {"attachmentId": "nope", "data": "iVBORw0KGgo="},
    "another type": {"data": "R0lGODlh"},
    "not base64": {"data": "%%%"},
}


@pytest.mark.parametrize("case", BAD_IMAGES)
def test_a_message_with_a_bad_image_is_refused_before_anything_begins(
    world: World, case: str
) -> None:
    client = world.daemon()
    unfinished = client.request("attachment/put", piece(0, PIECES[0]))["attachmentId"]
    bad = {"type": "image", "mimeType": "image/png", **BAD_IMAGES[case]}
    bad = {key: unfinished if value == "UNFINISHED" else value for key, value in bad.items()}
    refused = client.error("conversation/start", {"content": [*text("See"), bad]})
    assert refused.code == -32602
    assert refused.data["errors"][0]["path"].startswith("content.1")
    assert client.request("conversation/list")["conversations"] == []


def test_a_model_that_sees_no_images_is_named_before_anything_begins(world: World) -> None:
    client = world.daemon()
    content = [*text("See"), image(upload(client))]
    blind: Json = {"content": content, "options": {"model": "demo"}}
    refused = client.error("conversation/start", blind)
    assert (refused.code, "'demo' does not see images" in refused.message) == (-32602, True)
    started = client.request("conversation/start", {"options": {"model": "demo"}})
    named = {"conversationId": started["conversation"]["id"]}
    refused = client.error("conversation/sendMessage", {**named, "content": content})
    assert (refused.code, "'demo' does not see images" in refused.message) == (-32602, True)
    assert len(client.request("conversation/list")["conversations"]) == 1
    assert items(client, "userMessage") == []


def test_an_image_file_that_is_mentioned_is_shown(world: World) -> None:
    world.script(say("A cat."), say("Still one."))
    client = world.daemon()
    here, broken, big = (world.project / name for name in ("my cat.PNG", "text.png", "big.png"))
    elsewhere = world.home / "private.png"
    for path, data in (
        (here, PNG),
        (elsewhere, PNG),
        (broken, b"no image"),
        (big, PNG + bytes(4 << 20)),
    ):
        path.write_bytes(data)
    files = (here, elsewhere, broken, big, world.project / "gone.png")
    links = [{"type": "resourceLink", "uri": path.as_uri()} for path in files]
    content = [*text("What is it?"), *links]
    named = {"conversationId": world.start(client, content=content)}
    world.turn(client)
    [message] = items(client, "userMessage")
    stored = {
        "type": "image",
        "mimeType": "image/png",
        "outputRef": hashlib.sha256(PNG).hexdigest(),
    }
    assert message["content"] == [*content, stored]
    assert shown(world, 0) == [f"data:image/png;base64,{b64encode(PNG).decode()}"]
    # A message that is sent again has its image already; a model that sees none gets the link.
    client.request("conversation/sendMessage", {**named, "content": message["content"]})
    world.turn(client, nth=2)
    assert items(client, "userMessage")[1]["content"] == message["content"]
    blind = {"options": {"model": "demo"}, "content": content}
    client.request("conversation/start", blind)
    world.turn(client, nth=3)
    assert items(client, "userMessage")[2]["content"] == content


def test_a_conversation_that_is_mentioned_is_read_by_the_model(world: World) -> None:
    look = call("terminal", command="echo found: 7")
    world.script(look, say("The price is 7."), say("Right."), say("Still right."))
    client = world.daemon()
    first = world.start(client, "Look for the price")
    world.turn(client)
    link = {"type": "resourceLink", "uri": f"oh-log:/{first}", "name": "Prices"}
    content = [*text("Is that right?"), link]
    second = client.request("conversation/start", {"content": content})["conversation"]["id"]
    world.turn(client, nth=2)
    asked, mentioned = items(client, "userMessage")[1]["content"]
    words = mentioned.pop("text")
    assert [asked, mentioned] == content
    assert words.startswith("Look for the price\n\n[user]\nLook for the price\n\n[terminal ")
    assert "found: 7" in words
    assert words.endswith("[agent]\nThe price is 7.")
    sent = world.llm.requests[2].body["messages"][-1]["content"]
    start = f"Is that right?\n\n<conversation uri='oh-log:/{first}'>"
    assert sent == f"{start}\n{words}\n</conversation>"
    client.request("conversation/close", {"conversationId": first})
    message = {"type": "resource", "uri": link["uri"], "text": "It is 8 now."}
    again = {"conversationId": second, "content": [message, {**link, "text": "forged"}]}
    client.request("conversation/sendMessage", again)
    world.turn(client, nth=3)
    told = world.llm.requests[3].body["messages"][-1]["content"]
    assert told.startswith(f"<message uri='oh-log:/{first}'>\nIt is 8 now.\n</message>")
    assert "forged" not in str(world.llm.requests[3].body)
    lost = {"conversationId": second, "content": [{**link, "uri": "oh-log:/nope"}]}
    refused = client.error("conversation/sendMessage", lost)
    assert (refused.code, "'nope'" in refused.message) == (-31002, True)
    # A conversation that would begin with something missing leaves nothing behind.
    gone = {"type": "image", "mimeType": "image/png", "outputRef": "0" * 64}
    for part in (lost["content"][0], gone):
        client.error("conversation/start", {"content": [*text("See"), part]})
    known = {each["id"] for each in client.request("conversation/list")["conversations"]}
    assert known == {first, second}
