"""What a message may hold beside text: commands that the daemon writes out."""

import threading
from typing import Any

from fake_llm import held, say
from world import World, items, text

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
