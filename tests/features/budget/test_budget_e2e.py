"""Limits of cost beyond one turn, for a conversation and for a day; and of a turn's time."""

from typing import Any

import pytest
from fake_llm import Step, say, with_usage
from noon import where_it_is_noon
from raw_client import RawClient
from world import World, items, wait_for_status

pytestmark = pytest.mark.one_daemon

Json = dict[str, Any]


def paid_step(words: str, usd: float) -> Step:
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2, "cost": usd}
    return with_usage(say(words), usage)


def limits(client: RawClient, **settings: float) -> None:
    """Replace the settings."""
    changed_settings = {"settings": {"ohDaemon": {**settings, "titles": False}}}
    client.notify("workspace/didChangeConfiguration", changed_settings)


def stop_reason(world: World, client: RawClient, *, nth: int) -> str:
    turn = world.turn(client, nth=nth)
    assert turn.get("nSteps", 0) == 0
    pause_event = wait_for_status(client, "paused")["event"]
    assert pause_event["reason"] == "budget"
    return turn["stopReason"]


def test_a_conversation_stops_at_its_limit_and_goes_on_when_that_is_raised(world: World) -> None:
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    world.script(with_usage(say("One."), usage), paid_step("Two.", 1.2), paid_step("Three.", 0.1))
    # The model is one that is paid elsewhere: an answer from this machine costs nothing.
    paid = {"model": "groq/fake", "titles": False}
    client = world.daemon(settings={**paid, "maxCostUsdPerConversation": 1.0})
    conversation = world.start(client)
    assert world.turn(client)["finalText"] == "One."
    world.send(client, conversation, "more")
    assert world.turn(client, nth=2)["finalText"] == "Two."
    world.send(client, conversation, "more")
    assert stop_reason(world, client, nth=3) == "maxCostUsdPerConversation"
    limits(client, maxCostUsdPerConversation=5.0)
    client.request("conversation/resume", {"conversationId": conversation})
    assert world.turn(client, nth=4)["finalText"] == "Three."
    [notice] = items(client, "notice")
    assert notice["title"] == "The limit of cost counts only calls with a known price"


def test_a_day_has_one_limit_for_all_daemons_of_the_user(world: World) -> None:
    world.variables["TZ"] = where_it_is_noon()
    world.script(paid_step("One.", 0.6), paid_step("Two.", 0.6))
    settings = {"maxCostUsdPerDay": 1.0, "titles": False}
    first, second = (world.daemon(settings=settings) for _ in range(2))
    for client, words in ((first, "One."), (second, "Two.")):
        conversation = world.start(client)
        assert world.turn(client)["finalText"] == words
        client.request("conversation/close", {"conversationId": conversation})
    world.start(first)
    assert stop_reason(world, first, nth=2) == "maxCostUsdPerDay"


def test_a_turn_stops_at_its_limit_of_time_and_goes_on_when_that_is_raised(world: World) -> None:
    world.script(say("In time."))
    client = world.daemon(settings={"maxMinutes": 1e-9, "titles": False})
    params = {"conversationId": world.start(client)}
    assert stop_reason(world, client, nth=1) == "maxMinutes"
    client.request("conversation/resume", params)
    assert stop_reason(world, client, nth=2) == "maxMinutes"
    limits(client, maxMinutes=1)
    client.request("conversation/resume", params)
    assert world.turn(client, nth=3)["finalText"] == "In time."
