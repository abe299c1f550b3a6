"""Programs that bring a task to its end, however often they are ended themselves."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_llm import FakeLLM, call, hang, say

from oh_daemon import LLM, Agent, Conversation
from oh_daemon.protocol.errors import InvalidStateError

LOOK = call("terminal", command="ls")


@pytest.fixture
def fake() -> Iterator[FakeLLM]:
    with FakeLLM() as server:
        yield server


@pytest.fixture
def agent(fake: FakeLLM) -> Agent:
    return Agent(llm=LLM(model="openai/fake", base_url=fake.url, max_attempts=1), max_steps=3)


def cut_off(fake: FakeLLM, conversation: Conversation, n_requests: int) -> None:
    with conversation:
        conversation.send_message("do it")
        fake.wait_for_requests(n_requests)


def test_a_task_goes_on_under_the_id_that_the_program_chose_and_is_done_once(
    fake: FakeLLM, agent: Agent, tmp_path: Path
) -> None:
    fake.add(LOOK, hang())
    cut_off(fake, Conversation(agent, tmp_path, conversation_id="task-7"), 2)
    fake.add(say("Done."))
    for _ in range(2):
        with Conversation(agent, tmp_path, conversation_id="task-7") as again:
            assert again.continue_or_run("do it").final_text == "Done."
    messages = fake.requests[-1].body["messages"]
    assert len(fake.requests) == 3
    assert sum(m["role"] == "user" and "do it" in str(m["content"]) for m in messages) == 1


def test_the_limits_of_a_turn_hold_however_often_it_is_cut_off(
    fake: FakeLLM, agent: Agent, tmp_path: Path
) -> None:
    fake.add(LOOK, LOOK, hang())
    cut_off(fake, Conversation(agent, tmp_path, conversation_id="task"), 3)
    fake.add(LOOK, say("one too many"))
    for _ in range(2):
        with Conversation(agent, tmp_path, conversation_id="task") as again:
            assert again.continue_or_run("do it").stop_reason == "maxSteps"
    assert len(fake.requests) == 4


def test_a_moved_conversation_is_refused_or_works_where_it_is_now(
    fake: FakeLLM, agent: Agent, tmp_path: Path
) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    (old / "a.txt").write_text("one\n")
    edit = {"command": "str_replace", "path": "a.txt", "old_str": "one", "new_str": "two"}
    fake.add(call("edit", **edit), hang())
    cut_off(fake, Conversation(agent, old, conversation_id="task"), 2)
    old.rename(new)
    old.mkdir()
    (old / "a.txt").write_text("two\n")
    with pytest.raises(InvalidStateError, match=f"works in '{old}'.*'{new}' now.*moved=True"):
        Conversation(agent, new, conversation_id="task")
    back = {**edit, "path": f"{old}/a.txt", "old_str": "two", "new_str": "three"}
    fake.add(call("edit", **back), call("edit", **{**back, "path": "a.txt"}), say("Done."))
    with Conversation(agent, new, conversation_id="task", is_moved=True) as moved_conversation:
        assert moved_conversation.continue_or_run("do it").stop_reason == "maxSteps"
        assert moved_conversation.restore(moved_conversation.checkpoints[0].id).restored == (
            (new / "a.txt").as_uri(),
        )
        fork = moved_conversation.fork()
    assert (new / "a.txt").read_text() == "two\n"
    assert (old / "a.txt").read_text() == "two\n"
    messages_text = str(fake.requests[-1].body["messages"])
    assert f"Moved from {old} to {new}" in messages_text
    assert str(new) in str(fake.requests[-1].body["messages"][0])
    assert str(old) not in str(fake.requests[-1].body["messages"][0])
    for each in ("task", fork):
        Conversation(agent, new, conversation_id=each).close()
