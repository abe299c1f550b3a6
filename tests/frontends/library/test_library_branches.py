"""A program branches its conversations and goes back in them, without any editor."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_llm import FakeLLM, call, say
from pydantic import SecretStr

from oh_daemon import LLM, Agent, Conversation
from oh_daemon.protocol.errors import InvalidParamsError, InvalidStateError


@pytest.fixture
def fake() -> Iterator[FakeLLM]:
    with FakeLLM() as server:
        yield server


@pytest.fixture
def agent(fake: FakeLLM) -> Agent:
    key = SecretStr("sk-library-0123456789")
    llm = LLM(model="openai/fake", api_key=key, base_url=fake.url, max_attempts=1)
    return Agent(llm=llm, approval="askNever")


def user_texts(fake: FakeLLM) -> list[str]:
    """Return the last request to the model, without the system prompt."""
    return [message["content"] for message in fake.requests[-1].body["messages"][1:]]


def test_a_program_goes_back_with_its_files_and_goes_on(
    agent: Agent, fake: FakeLLM, tmp_path: Path
) -> None:
    fake.add(say("Hello."), call("terminal", command="touch made"), say("Done."), say("Again."))
    with Conversation(agent, tmp_path) as conversation:
        conversation.run("first")
        conversation.run("second")
        messages = [record for record in conversation.history if record.item_id]
        second = [r.item_id for r in messages if '"userMessage"' in r.model_dump_json()][-1]
        preview = conversation.rollback(str(second), restore_files=True, dry_run=True)
        assert (tmp_path / "made").exists()
        rollback_result = conversation.rollback(str(second), restore_files=True)
        assert rollback_result.restored == preview.restored == ((tmp_path / "made").as_uri(),)
        assert not (tmp_path / "made").exists()
        conversation.run("third")
        assert user_texts(fake) == ["first", "Hello.", "third"]
        with pytest.raises(InvalidParamsError, match=r"^to_item: "):
            conversation.rollback(str(second))


def test_a_branch_is_opened_by_its_id(agent: Agent, fake: FakeLLM, tmp_path: Path) -> None:
    fake.add(say("Hello."), say("One."), say("Two."))
    with Conversation(agent, tmp_path) as conversation:
        conversation.run("first")
        branch = conversation.fork(title="B")
        conversation.run("one")
    with Conversation(agent, tmp_path, conversation_id=branch) as branch_conversation:
        assert branch_conversation.state.title == "B"
        branch_conversation.run("two")
    assert user_texts(fake) == ["first", "Hello.", "two"]
    with Conversation(agent) as in_memory, pytest.raises(InvalidStateError, match="in memory"):
        in_memory.fork()


def test_files_go_back_to_before_one_action_and_what_was_said_stays(
    agent: Agent, fake: FakeLLM, tmp_path: Path
) -> None:
    fake.add(call("terminal", command="touch one"), call("terminal", command="touch two"))
    fake.add(say("Done."), say("Yes."))
    with Conversation(agent, tmp_path) as conversation:
        conversation.run("Make both.")
        titles = [each.title for each in conversation.checkpoints]
        assert titles == ["Run touch one", "Run touch two"], conversation.export()
        second = conversation.checkpoints[1]
        assert conversation.restore(second.id, dry_run=True).restored
        assert (tmp_path / "two").exists()
        assert conversation.restore(second.id).restored == ((tmp_path / "two").as_uri(),)
        assert ((tmp_path / "one").exists(), (tmp_path / "two").exists()) == (True, False)
        conversation.run("Is it gone?")
        assert "took back your changes" in str(fake.requests[-1].body["messages"])
        with pytest.raises(InvalidParamsError, match=r"^checkpoint_id: "):
            conversation.restore("none")


def test_a_conversation_is_exported_also_one_in_memory(agent: Agent, fake: FakeLLM) -> None:
    fake.add(say("Hello to you."))
    with Conversation(agent) as conversation:
        conversation.run("Hello.")
        before = {form: conversation.export(form) for form in ("markdown", "html")}
        assert conversation.export().startswith("# Hello.\n")
        assert "Hello to you." in conversation.export("html")
        assert len(conversation.export("jsonl").splitlines()) == len(conversation.history)
    assert {form: conversation.export(form) for form in ("markdown", "html")} == before


def test_errors_name_what_a_program_writes(agent: Agent, tmp_path: Path) -> None:
    with pytest.raises(InvalidParamsError, match=r"^workspace: .* is not a folder"):
        Conversation(agent, tmp_path / "nowhere")
    with pytest.raises(InvalidParamsError, match=r"^result_schema: it is not a JSON Schema"):
        Conversation(agent.model_copy(update={"result_schema": {"type": "nonsense"}}), tmp_path)
    unknown = pytest.raises(InvalidParamsError, match=r"^at_item: names no item")
    with Conversation(agent, tmp_path) as conversation, unknown:
        conversation.fork("none")
