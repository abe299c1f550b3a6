"""An agent in a program has several models, and notes that outlive a conversation."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_llm import FakeLLM, Step, call, error, say
from pydantic import ValidationError

from oh_daemon import (
    LLM,
    Agent,
    Conversation,
    ModelAnswer,
    ModelDelta,
    ModelRequest,
    Progress,
    Router,
    Traits,
    Usage,
)
from oh_daemon.protocol.errors import InvalidParamsError, ModelUnavailableError

Json = dict[str, object]
BROKEN = "openai/broken"


def answer(request: Json) -> Step:
    """Let each model say its name."""
    return error(500) if request["model"] == "broken" else say(f"I am {request['model']}.")


@pytest.fixture
def fake() -> Iterator[FakeLLM]:
    with FakeLLM(answer) as server:
        yield server


def llm(fake: FakeLLM, name: str) -> LLM:
    return LLM(
        model=f"openai/{name}",
        api_key=f"sk-of-{name}-0123456789",
        base_url=fake.url,
        max_attempts=1,
    )


def test_one_message_or_all_from_now_on_go_to_another_model(fake: FakeLLM) -> None:
    agent = Agent(llm=llm(fake, "main"), models={"fast": llm(fake, "small")})
    with Conversation(agent) as conversation:
        turns = [conversation.run("One", model="fast"), conversation.run("Two")]
        conversation.set_option("model", "fast")
        turns.append(conversation.run("Three"))
        texts = [turn.final_text for turn in turns]
        assert texts == ["I am small.", "I am main.", "I am small."]
        keys = [request.headers["authorization"] for request in fake.requests]
        assert keys == [f"Bearer sk-of-{name}-0123456789" for name in ("small", "main", "small")]
        known_names = "it has 'openai/main', 'fast'"
        with pytest.raises(ModelUnavailableError, match=f"no model 'slow'; {known_names}"):
            conversation.send_message("Four", model="slow")
        with pytest.raises(ModelUnavailableError, match="'slow'"):
            conversation.set_option("model", "slow")
        with pytest.raises(InvalidParamsError, match=r"^mode: cannot be 'wild'"):
            conversation.set_option("mode", "wild")


def test_a_fallback_answers_for_a_model_that_does_not(fake: FakeLLM) -> None:
    agent = Agent(llm=llm(fake, "broken"), models={"spare": llm(fake, "b")}, fallbacks=("spare",))
    with Conversation(agent) as conversation:
        assert conversation.run("Hello").final_text == "I am b."
    assert [request.body["model"] for request in fake.requests] == ["broken", "b"]


def test_a_router_lets_one_of_them_answer(fake: FakeLLM) -> None:
    router = Router.model_validate(
        {"models": ["openai/main"], "rules": [{"use": "deep", "contains": "think hard"}]}
    )
    models = {"deep": llm(fake, "large"), "either": router}
    agent = Agent(llm=llm(fake, "main"), models=models)
    agent = Agent.from_json(agent.model_dump_json(), {})
    with Conversation(agent) as conversation:
        conversation.set_option("model", "either")
        assert conversation.run("Hello").final_text == "I am main."
        assert conversation.run("Think hard.").final_text == "I am large."


class Parrot:
    """A model that is an object of the program."""

    name = label = "parrot"
    traits = Traits(context_window=10_000)
    edits_by_patch = False

    def complete(self, request: ModelRequest, progress: Progress) -> ModelAnswer:
        message_text = request.messages[-1]["content"].upper()
        progress.on_delta(ModelDelta("text", message_text))
        return ModelAnswer(
            text=message_text, finish_reason="stop", usage=Usage(input_tokens=7, requests=1)
        )


def test_a_program_may_answer_itself(fake: FakeLLM) -> None:
    parrot = Parrot()
    agent = Agent(llm=parrot)
    assert Agent.from_json(agent.model_dump_json(), {"parrot": parrot}) == agent
    agent = Agent(llm=parrot, models={"main": llm(fake, "main")}, fallbacks=("main",))
    with Conversation(agent) as conversation:
        turns = [conversation.run("hello"), conversation.run("and you?", model="main")]
        assert conversation.state.usage.input_tokens > 7
    assert [turn.final_text for turn in turns] == ["HELLO", "I am main."]
    with pytest.raises(ValidationError, match="no model 'parrot'; pass it in `callbacks`"):
        Agent.from_json(agent.model_dump_json(), {})


@pytest.mark.parametrize(
    ("fields", "final_text"),
    [
        ({"fallbacks": ("spare",)}, "'spare' is the name of none"),
        ({"models": {"either": {"models": ["other"]}}}, "'other' is the name of none"),
        ({"models": {"openai/main": {"model": "openai/other"}}}, "is the name of `llm`"),
    ],
)
def test_a_name_that_leads_nowhere_is_refused(fake: FakeLLM, fields: Json, final_text: str) -> None:
    with pytest.raises(ValidationError, match=final_text):
        Agent.model_validate({"llm": llm(fake, "main"), **fields})


def test_keys_of_all_models_are_masked(fake: FakeLLM, tmp_path: Path) -> None:
    agent = Agent(llm=llm(fake, "main"), models={"fast": llm(fake, "small")})
    with Conversation(agent, tmp_path) as conversation:
        conversation.run("One", model="fast")
        fake.play(lambda _request: say("Both: sk-of-main-0123456789 sk-of-small-0123456789."))
        conversation.run("Two")
        log = conversation.export("jsonl")
    assert "Both: " in log
    assert "sk-of-" not in log


def test_notes_outlive_a_conversation_where_the_program_names_a_folder(
    fake: FakeLLM, tmp_path: Path
) -> None:
    notes, project = tmp_path / "notes", tmp_path / "project"
    project.mkdir()
    note = {"command": "write", "topic": "tea", "text": "The user likes green tea."}
    steps = [call("memory", scope="user", **note), say("Noted."), say("Green."), say("What?")]
    fake.play(steps)
    main = llm(fake, "main")
    for agent, question in (
        (Agent(llm=main, memory=notes), "I like green tea."),
        (Agent(llm=main, memory=notes), "Which tea?"),
        (Agent(llm=main), "Which tea?"),
    ):
        with Conversation(agent, project) as conversation:
            conversation.run(question)
    flags = ["green tea" in str(request.body["messages"][0]) for request in fake.requests]
    assert flags == [False, False, True, False]
    assert [path.parent for path in notes.rglob("*.md")]
