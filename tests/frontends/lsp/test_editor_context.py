"""What the user looks at reaches the model once, with a message; what was sent never changes."""

from pathlib import Path
from typing import Any

import pytest
from fake_llm import say
from raw_client import RawClient
from world import KEY, World, text

pytestmark = pytest.mark.one_daemon

Json = dict[str, Any]


def span(start: int, end: int, character: int = 3) -> Json:
    first, last = ({"line": line, "character": c} for line, c in ((start, 0), (end, character)))
    return {"start": first, "end": last}


def user_messages(world: World, nth: int) -> list[str]:
    """Return the user's messages in the nth request to the model."""
    messages: list[Json] = world.llm.requests[nth].body["messages"]
    return [message["content"] for message in messages if message["role"] == "user"]


def look_at(client: RawClient, path: Path, **more: Any) -> None:
    client.notify("editor/contextChanged", {"activeUri": path.as_uri(), **more})


def test_only_what_changed_is_told_and_a_replay_gives_the_same_prompt(world: World) -> None:
    main, other_file = world.project / "main.py", world.project / "src/other.py"
    client = world.daemon()
    params = {"uri": main.as_uri(), "range": span(2, 4), "text": f"x = 1\nkey = '{KEY}'\n"}
    context_params: Json = {
        "selection": params,
        "visibleRanges": [span(0, 30)],
        "openUris": [main.as_uri(), other_file.as_uri(), "untitled:1", world.home.as_uri()],
        "diagnosticsSummary": {"errors": 2, "warnings": 1},
    }
    look_at(client, main, **context_params)
    world.script(*[say("Done.")] * 6)
    conversation = world.start(client, "one")
    world.turn(client)
    [message] = user_messages(world, 0)
    assert message == (
        "one\n\n<editor>\nactive: main.py, lines 1-31 on screen\n"
        "selection: main.py lines 3-5\nx = 1\nkey = '<secret hidden>'\n\n"
        "open: main.py, src/other.py\nproblems: errors 2, warnings 1\n</editor>"
    )
    world.send(client, conversation, "two")
    world.turn(client, nth=2)
    cursor = {"uri": other_file.as_uri(), "range": span(7, 7, 0)}
    look_at(client, other_file, **{**context_params, "selection": cursor, "visibleRanges": []})
    world.send(client, conversation, "three")
    world.turn(client, nth=3)
    first, second, third = user_messages(world, 2)
    assert [first, second] == user_messages(world, 1)
    assert second == "two"
    assert third == (
        "three\n\n<editor>\nactive: src/other.py, cursor in line 8\nselection: none\n</editor>"
    )
    client.request("conversation/close", {"conversationId": conversation})
    client.request("conversation/open", {"conversationId": conversation})
    world.send(client, conversation, "four")
    world.turn(client, nth=4)
    assert user_messages(world, 3) == [first, second, third, "four"]
    assert KEY not in world.log_of(conversation).read_text()


def test_nothing_of_other_folders_or_of_secrets_is_told_and_nonsense_is_passed_over(
    world: World,
) -> None:
    client = world.daemon()
    world.script(*[say("Done.")] * 3)
    client.notify("editor/contextChanged", {"openUris": 7})
    for path in (world.home / "diary.txt", world.project / ".env", world.project / "../x.py"):
        selection = {"uri": path.as_uri(), "range": span(0, 1), "text": "hunter2"}
        look_at(client, path, selection=selection, openUris=[path.as_uri()])
    conversation = world.start(client, "one")
    world.turn(client)
    path = world.project / "a.py"
    many = [(world.project / f"{n}.py").as_uri() for n in range(25)]
    # A secret at the end of what is shown of a selection is not cut in two.
    long = f"{'x' * 3_980} {KEY}{'x' * 30}"
    look_at(client, path, selection={"uri": path.as_uri(), "range": span(0, 1), "text": long})
    world.send(client, conversation, "cut")
    world.turn(client, nth=2)
    cut_message = user_messages(world, 1)[1]
    assert cut_message.endswith(f"{'x' * 3_980} \n[cut, 41 characters more]\n</editor>")
    selection = {"uri": path.as_uri(), "range": span(0, 1), "text": "y" * 5000}
    look_at(client, path, selection=selection, openUris=many)
    world.send(client, conversation, "", content=[*text("two"), {"type": "selection", **selection}])
    world.turn(client, nth=3)
    first, _, second = user_messages(world, 2)
    assert first == "one"
    assert "19.py, 5 more" in second
    assert second.count("y" * 5000) == 1
    assert "[cut" not in second
