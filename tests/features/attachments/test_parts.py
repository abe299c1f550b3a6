"""What a message may hold besides text: commands, images in pieces, other conversations."""

import hashlib
import threading
from base64 import b64decode, b64encode
from typing import Any

import pytest
from fake_llm import call, hold_step, say
from pdf_files import pdf
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
    forged_part = {
        "type": "command",
        "name": "fix",
        "args": "it rounds down",
        "prompt": "Say hello.",
    }
    start_result = client.request("conversation/start", {"content": [forged_part]})["conversation"]
    assert start_result["title"] == "/fix it rounds down"
    world.turn(client)
    [message] = items(client, "userMessage")
    prompt = message["content"][0].pop("prompt")
    assert message["content"] == [{"type": "command", "name": "fix", "args": "it rounds down"}]
    assert prompt.startswith("Fix the problem")
    assert prompt.endswith("The user adds:\nit rounds down")
    assert world.llm.requests[0].body["messages"][-1] == {"role": "user", "content": prompt}
    unknown: Json = {"content": [*text("hi"), {"type": "command", "name": "dance"}]}
    for method in ("conversation/start", "conversation/sendMessage"):
        error = client.error(method, {"conversationId": start_result["id"], **unknown})
        assert (error.code, error.data["errors"][0]["path"]) == (-32602, "content.1.name")
    assert len(client.request("conversation/list")["conversations"]) == 1


def test_a_command_in_the_queue_is_written_out_when_it_is_edited(world: World) -> None:
    gate = threading.Event()
    world.script(hold_step(say("Done."), gate), say("Explained."))
    client = world.daemon()
    conversation = world.start(client)
    receipt = world.send(client, conversation, "later", delivery="queue")
    expected_parts = [{"type": "command", "name": "explain"}]
    edit = {"op": "edit", "messageId": receipt["messageId"], "content": expected_parts}
    client.request("conversation/queue", {"conversationId": conversation, **edit})
    gate.set()
    world.turn(client, nth=2)
    assert world.llm.requests[1].body["messages"][-1]["content"].startswith("Explain the code")


PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4096
PIECES = [PNG[: 512 << 10], PNG[512 << 10 : 1 << 20], PNG[1 << 20 :]]


def piece(index: int, data: bytes, **fields: Any) -> Json:
    piece_params = {"mimeType": "image/png", "index": index, "total": len(PIECES)}
    return {**piece_params, "data": b64encode(data).decode(), **fields}


def upload(client: RawClient) -> str:
    """Upload the whole image and return its id."""
    upload_id = client.request("attachment/put", piece(0, PIECES[0]))["attachmentId"]
    for n, data in list(enumerate(PIECES))[1:]:
        client.request("attachment/put", piece(n, data, attachmentId=upload_id))
    return upload_id


def image(attachment_id: str) -> Json:
    return {"type": "image", "mimeType": "image/png", "attachmentId": attachment_id}


def shown_parts(world: World, nth: int) -> list[str]:
    """Return the images in the nth request to the model."""
    parts = (
        part
        for message in world.llm.requests[nth].body["messages"]
        if isinstance(message["content"], list)
        for part in message["content"]
    )
    return [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]


@pytest.mark.parametrize("model", ["openai/fake", "openai/gpt-5.1"])
def test_pdf_is_stored_and_reaches_each_model_in_its_form(world: World, model: str) -> None:
    data = pdf("Total: 12 EUR")
    (world.project / "bill.pdf").write_bytes(pdf("Total: 13 EUR"))
    world.script(say("12 EUR."))
    client = world.daemon(settings={"model": model, "llm": {"api": "chat"}, "titles": False})
    params = {"mimeType": "application/pdf", "index": 0, "total": 1}
    put = client.request("attachment/put", {**params, "data": b64encode(data).decode()})
    document = {"type": "document", "mimeType": "application/pdf", "name": "offer.pdf"}
    link = {"type": "resourceLink", "uri": (world.project / "bill.pdf").as_uri()}
    upload_part = {**document, "attachmentId": put["attachmentId"]}
    content = [*text("What is the sum?"), upload_part, link]
    client.request("conversation/start", {"content": content})
    world.turn(client)
    [message] = items(client, "userMessage")
    digest = hashlib.sha256(data).hexdigest()
    assert message["content"][1] == {**document, "outputRef": digest}
    parts = world.llm.requests[0].body["messages"][-1]["content"]
    files = [part["file"] for part in parts if part["type"] == "file"]
    if model == "openai/fake":
        # It views a file of the project itself, if it needs it.
        assert (files, "Total: 12 EUR" in str(parts), "13 EUR" in str(parts)) == ([], True, False)
        return
    assert files[0]["file_data"] == f"data:application/pdf;base64,{b64encode(data).decode()}"
    assert [file["filename"] for file in files] == ["offer.pdf", "document.pdf"]


def test_an_image_in_pieces_reaches_the_model_and_survives_a_restart(world: World) -> None:
    world.script(say("A cat."), say("Still a cat."))
    client = world.daemon()
    first = client.request("attachment/put", piece(0, PIECES[0]))
    assert (first["received"], first["complete"]) == (1, False)
    attachment_params = {"attachmentId": first["attachmentId"]}
    second = piece(1, PIECES[1], **attachment_params)
    assert client.request("attachment/put", second) == client.request("attachment/put", second)
    digest = hashlib.sha256(PNG).hexdigest()
    last = client.request("attachment/put", piece(2, PIECES[2], **attachment_params, sha256=digest))
    assert last == {**attachment_params, "received": 3, "complete": True}
    content = [*text("What is it?"), image(first["attachmentId"])]
    start_result = client.request("conversation/start", {"content": content})["conversation"]["id"]
    world.turn(client)
    [message] = items(client, "userMessage")
    assert message["content"][1] == {"type": "image", "mimeType": "image/png", "outputRef": digest}
    url = f"data:image/png;base64,{b64encode(PNG).decode()}"
    assert shown_parts(world, 0) == [url]
    client.kill()
    again = world.daemon()
    open_result = again.request("conversation/open", {"conversationId": start_result})
    assert open_result["items"][0]["content"] == message["content"]
    world.send(again, start_result, "And now?")
    world.turn(again)
    assert shown_parts(world, 1) == [url]
    params = {"conversationId": start_result, "outputRef": digest, "encoding": "base64"}
    data = b""
    while len(data) < len(PNG):
        page = again.request("output/read", {**params, "offset": len(data), "limit": 200_000})
        data += b64decode(page["text"])
    assert data == PNG


def test_messages_keep_their_order_while_an_image_is_stored(world: World) -> None:
    gate = threading.Event()
    world.script(hold_step(say("Working."), gate), say("One."), say("Two."))
    client = world.daemon()
    conversation = world.start(client)
    params: Json = {"conversationId": conversation, "delivery": "queue"}
    with_image = [*text("one"), image(upload(client))]
    client.send_request("conversation/sendMessage", {**params, "content": with_image})
    queue_result = client.request("conversation/sendMessage", {**params, "content": text("two")})
    assert queue_result["queuePosition"] == 1
    gate.set()
    world.turn(client, nth=3)
    texts = [item["content"][0]["text"] for item in items(client, "userMessage")]
    assert texts == ["go", "one", "two"]


def test_an_edited_message_keeps_its_image_by_the_name_it_has_in_the_log(world: World) -> None:
    gate = threading.Event()
    world.script(hold_step(say("Working."), gate), say("A cat."))
    client = world.daemon()
    conversation = world.start(client)
    params: Json = {"conversationId": conversation}
    content = [*text("what?"), image(upload(client))]
    wait = {"content": content, "delivery": "queue"}
    queue_result = client.request("conversation/sendMessage", {**params, **wait})["messageId"]
    [queue_entry] = client.request("conversation/queue", params)["queue"]
    edit = {**params, "op": "edit", "messageId": queue_result}
    kept_parts = [*text("What is it?"), queue_entry["content"][1]]
    [edited_entry] = client.request("conversation/queue", {**edit, "content": kept_parts})["queue"]
    assert edited_entry["content"] == kept_parts
    error = client.error(
        "conversation/queue", {**edit, "content": [{**kept_parts[1], "outputRef": "0" * 64}]}
    )
    assert "0" * 64 in error.message
    gate.set()
    world.turn(client, nth=2)
    assert len(shown_parts(world, 1)) == 1


WRONG: dict[str, tuple[Json, str]] = {
    "no such attachment": (piece(1, b"x", attachmentId="nope"), "attachmentId"),
    "a gap": (piece(1, PIECES[1]), "index"),
    "a piece too many": (piece(3, b"x"), "index"),
    "not base64": (piece(0, b"") | {"data": "%%%"}, "data"),
    "another type": (piece(0, PNG[:99], total=1, mimeType="image/jpeg"), "mimeType"),
    "another sum": (piece(0, PNG[:99], total=1, sha256="0" * 64), "sha256"),
    "no type of image": (piece(0, b"%PDF", mimeType="text/html"), "mimeType"),
    "a long piece": (piece(0, bytes((512 << 10) + 3)), "data"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_piece_that_does_not_fit_is_refused(world: World, case: str) -> None:
    params, path = WRONG[case]
    client = world.daemon()
    error = client.error("attachment/put", params)
    assert (error.code, error.data["errors"][0]["path"]) == (-32602, path)


def test_more_than_an_attachment_may_have_is_refused_and_forgotten(world: World) -> None:
    client = world.daemon()
    data = bytes(512 << 10)
    upload_id = client.request("attachment/put", piece(0, data, total=99))["attachmentId"]
    for n in range(1, 40):
        client.request("attachment/put", piece(n, data, total=99, attachmentId=upload_id))
    more = piece(40, b"x", total=99, attachmentId=upload_id)
    error = client.error("attachment/put", more)
    assert (error.code, error.data["kind"]) == (-31014, "payloadTooLarge")
    assert client.error("attachment/put", more).code == -32602


def test_what_is_uploaded_and_not_used_does_not_grow_for_ever(world: World) -> None:
    client = world.daemon()
    first = client.request("attachment/put", piece(0, PIECES[0]))["attachmentId"]
    for _ in range(128):
        client.request("attachment/put", piece(0, PIECES[0]))
    error = client.error("attachment/put", piece(1, PIECES[1], attachmentId=first))
    assert "send it again" in error.message


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
    unfinished_id = client.request("attachment/put", piece(0, PIECES[0]))["attachmentId"]
    bad = {"type": "image", "mimeType": "image/png", **BAD_IMAGES[case]}
    bad = {key: unfinished_id if value == "UNFINISHED" else value for key, value in bad.items()}
    error = client.error("conversation/start", {"content": [*text("See"), bad]})
    assert error.code == -32602
    assert error.data["errors"][0]["path"].startswith("content.1")
    assert client.request("conversation/list")["conversations"] == []


def test_a_model_that_sees_no_images_is_named_before_anything_begins(world: World) -> None:
    client = world.daemon()
    content = [*text("See"), image(upload(client))]
    blind: Json = {"content": content, "options": {"model": "demo"}}
    error = client.error("conversation/start", blind)
    assert (error.code, "'demo' does not see images" in error.message) == (-32602, True)
    start_result = client.request("conversation/start", {"options": {"model": "demo"}})
    params = {"conversationId": start_result["conversation"]["id"]}
    error = client.error("conversation/sendMessage", {**params, "content": content})
    assert (error.code, "'demo' does not see images" in error.message) == (-32602, True)
    assert len(client.request("conversation/list")["conversations"]) == 1
    assert items(client, "userMessage") == []


def test_an_image_file_that_is_mentioned_is_shown(world: World) -> None:
    world.script(say("A cat."), say("Still one."))
    client = world.daemon()
    good_image, broken_image, big = (
        world.project / name for name in ("my cat.PNG", "text.png", "big.png")
    )
    private_image = world.home / "private.png"
    for path, data in (
        (good_image, PNG),
        (private_image, PNG),
        (broken_image, b"no image"),
        (big, PNG + bytes(4 << 20)),
    ):
        path.write_bytes(data)
    files = (good_image, private_image, broken_image, big, world.project / "gone.png")
    links = [{"type": "resourceLink", "uri": path.as_uri()} for path in files]
    content = [*text("What is it?"), *links]
    params = {"conversationId": world.start(client, content=content)}
    world.turn(client)
    [message] = items(client, "userMessage")
    image_part = {
        "type": "image",
        "mimeType": "image/png",
        "outputRef": hashlib.sha256(PNG).hexdigest(),
    }
    assert message["content"] == [*content, image_part]
    assert shown_parts(world, 0) == [f"data:image/png;base64,{b64encode(PNG).decode()}"]
    # A message that is sent again has its image already; a model that sees none gets the link.
    client.request("conversation/sendMessage", {**params, "content": message["content"]})
    world.turn(client, nth=2)
    assert items(client, "userMessage")[1]["content"] == message["content"]
    blind = {"options": {"model": "demo"}, "content": content}
    client.request("conversation/start", blind)
    world.turn(client, nth=3)
    assert items(client, "userMessage")[2]["content"] == content


def test_a_conversation_that_is_mentioned_is_read_by_the_model(world: World) -> None:
    terminal_call = call("terminal", command="echo found: 7")
    world.script(terminal_call, say("The price is 7."), say("Right."), say("Still right."))
    client = world.daemon()
    first = world.start(client, "Look for the price")
    world.turn(client)
    link = {"type": "resourceLink", "uri": f"oh-log:/{first}", "name": "Prices"}
    content = [*text("Is that right?"), link]
    second = client.request("conversation/start", {"content": content})["conversation"]["id"]
    world.turn(client, nth=2)
    question, mention = items(client, "userMessage")[1]["content"]
    words = mention.pop("text")
    assert [question, mention] == content
    assert words.startswith("Look for the price\n\n[user]\nLook for the price\n\n[terminal ")
    assert "found: 7" in words
    assert words.endswith("[agent]\nThe price is 7.")
    content_text = world.llm.requests[2].body["messages"][-1]["content"]
    start = f"Is that right?\n\n<conversation uri='oh-log:/{first}'>"
    assert content_text == f"{start}\n{words}\n</conversation>"
    client.request("conversation/close", {"conversationId": first})
    message = {"type": "resource", "uri": link["uri"], "text": "It is 8 now."}
    again = {"conversationId": second, "content": [message, {**link, "text": "forged"}]}
    client.request("conversation/sendMessage", again)
    world.turn(client, nth=3)
    content_made = world.llm.requests[3].body["messages"][-1]["content"]
    assert content_made.startswith(f"<message uri='oh-log:/{first}'>\nIt is 8 now.\n</message>")
    assert "forged" not in str(world.llm.requests[3].body)
    params = {"conversationId": second, "content": [{**link, "uri": "oh-log:/nope"}]}
    error = client.error("conversation/sendMessage", params)
    assert (error.code, "'nope'" in error.message) == (-31002, True)
    # A conversation that would begin with something missing leaves nothing behind.
    missing_image = {"type": "image", "mimeType": "image/png", "outputRef": "0" * 64}
    for part in (params["content"][0], missing_image):
        client.error("conversation/start", {"content": [*text("See"), part]})
    conversation_ids = {each["id"] for each in client.request("conversation/list")["conversations"]}
    assert conversation_ids == {first, second}
