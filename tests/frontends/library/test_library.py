"""The Python API, through the public names of `oh_daemon`, against the scripted model."""

import json
import os
import shutil
import subprocess
import sys
import threading
from asyncio import sleep
from base64 import b64encode
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any, cast, get_args

import mcp_server
import pytest
from fake_llm import FakeLLM, call, error, hang, say
from mcp_world import browse, vault
from pydantic import BaseModel, SecretStr, ValidationError

import oh_daemon
from oh_daemon import LLM, Agent, Conversation, ConversationStatus, Tool, ToolResult, Workspace
from oh_daemon.protocol.errors import (
    ConversationNotFoundError,
    InvalidParamsError,
    InvalidStateError,
    ModelError,
    StorageError,
    UserError,
)
from oh_daemon.protocol.mcp import McpServerSettings
from oh_daemon.protocol.status import ConversationState

KEY = SecretStr("sk-library-0123456789")
Status = ConversationStatus


@pytest.fixture
def fake() -> Iterator[FakeLLM]:
    with FakeLLM() as server:
        yield server


@pytest.fixture
def llm(fake: FakeLLM) -> LLM:
    return LLM(model="openai/fake", api_key=KEY, base_url=fake.url, max_attempts=1)


def echo(**arguments: object) -> str:
    return json.dumps(arguments, sort_keys=True)


def tool(callback: Callable[..., object] | str = echo, **fields: object) -> Tool:
    return Tool.model_validate(
        {"name": "probe", "description": "For tests.", "callback": callback, **fields}
    )


def results(fake: FakeLLM) -> list[str]:
    """Return the results of tool calls in the last request to the model."""
    messages = fake.requests[-1].body["messages"]
    return [message["content"] for message in messages if message["role"] == "tool"]


def test_all_public_names_are_there_and_load_when_they_are_used() -> None:
    assert {
        *("LLM", "Agent", "Conversation", "ConversationStatus", "Router", "Tool", "ToolResult"),
        *("Workspace", "Turn", "Record", "Approval", "Intent", "ToolSpec", "DaemonError"),
    } <= set(oh_daemon.__all__)
    for name in oh_daemon.__all__:
        assert getattr(oh_daemon, name).__name__ in {name, "Record"}
    assert oh_daemon.__version__
    assert dir(oh_daemon) == sorted([*oh_daemon.__all__, "__version__"])
    assert not hasattr(oh_daemon, "no_such_name")
    code = "import sys, oh_daemon; sys.exit('pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=120, check=False).returncode == 0


def test_the_statuses_are_those_of_the_protocol() -> None:
    assert {status.value for status in Status} == set(get_args(ConversationState))


# Values


def test_agent_llm_and_tool_are_frozen(llm: LLM) -> None:
    agent = Agent(llm=llm, tools=(tool(),))
    for value, field in ((llm, "model"), (agent.tools[0], "name"), (agent, "max_steps")):
        with pytest.raises(ValidationError, match="frozen"):
            setattr(value, field, "other")


def test_an_agent_is_the_same_after_json_but_for_the_key(llm: LLM, tmp_path: Path) -> None:
    agent = Agent(
        llm=llm,
        tools=(*Workspace(tmp_path).tools, tool(input_schema={"type": "string"})),
        instructions="Be brief.",
        approval="askRisky",
        max_steps=7,
        max_cost_usd=0.5,
        tool_choice="required",
    )
    text = agent.model_dump_json()
    assert KEY.get_secret_value() not in text + repr(agent)
    again = Agent.from_json(text, {"echo": echo})
    assert again.model_copy(update={"llm": llm}) == agent
    assert again.llm == LLM.model_validate({**llm.model_dump(), "api_key": None})
    assert Tool.from_json(tool().model_dump_json(), {"echo": echo}) == tool()


def test_more_settings_hold_for_an_agent_also_after_json(
    fake: FakeLLM, llm: LLM, tmp_path: Path
) -> None:
    deny = {"decision": "deny", "tool": "terminal", "argv": ["touch"], "match": ["touch a"]}
    hook = {"matcher": "Bash", "hooks": [{"type": "command", "command": "echo watched"}]}
    more = {"rules": [deny], "hooks": {"PreToolUse": [hook]}, "logCompletions": True}
    agent = Agent.from_json(Agent(llm=llm, settings=more).model_dump_json(), {})
    agent = agent.model_copy(update={"llm": llm})
    fake.add(call("terminal", command="touch made"), call("terminal", command="ls"), say("Done."))
    with Conversation(agent, tmp_path) as conversation:
        conversation.run("go")
    assert "user rule: deny terminal touch" in results(fake)[0]
    assert not (tmp_path / "made").exists()
    assert len([*tmp_path.glob(".openhands/conversations/*/completions/*")]) == 3

    fake.add(call("terminal", command="touch made"), say("Done."))
    with Conversation(Agent(llm=llm, settings={"mode": "plan"}), tmp_path) as conversation:
        conversation.run("go")
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("wrong", "final_text"),
    [
        ({"profiles": {}}, "'profiles' is none of mode, rules"),
        ({"mode": "wild"}, "mode: must be 'plan'"),
        ({"rules": [{"decision": "deny", "argv": ["rm"], "match": ["ls"]}]}, "match"),
    ],
)
def test_a_setting_that_would_not_count_is_refused(llm: LLM, wrong: Any, final_text: str) -> None:
    with pytest.raises(ValidationError, match=final_text):
        Agent(llm=llm, settings=wrong)


def test_older_steps_are_condensed_when_the_program_says_so(
    fake: FakeLLM, llm: LLM, tmp_path: Path
) -> None:
    with Conversation(Agent(llm=llm), tmp_path) as conversation:
        for n in range(6):
            fake.add(call("terminal", command=f"echo {n}; seq 900"), say(f"Said {n}."))
            conversation.run(f"count {n}")
        fake.add(say("Six counts."), say("Done."))
        conversation.condense("keep the numbers")
        assert conversation.run("and now?").final_text == "Done."
    assert "Six counts." in str(fake.requests[-1].body["messages"])


def test_json_with_a_callback_that_nobody_gave_names_it(llm: LLM) -> None:
    text = Agent(llm=llm, tools=(tool(),)).model_dump_json()
    with pytest.raises(ValidationError, match="no callback 'echo'"):
        Agent.from_json(text, {})


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"name": "no spaces"}, "name"),
        ({"callback": "echo"}, "callback"),
        ({"callback": sleep}, "is async; give a plain function"),
        ({"input_schema": {"type": "object", "properties": 5}}, "it is not a JSON Schema"),
        ({"readonly": True}, "readonly"),
    ],
)
def test_a_tool_that_cannot_work_is_refused(fields: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint):
        tool(**fields)


def test_an_agent_that_would_not_do_as_it_is_told_is_refused(llm: LLM) -> None:
    with pytest.raises(ValidationError, match="aproval"):
        Agent.model_validate({"llm": llm, "aproval": "askAlways"})
    with pytest.raises(ValidationError, match="more than one has the name 'probe'"):
        Agent(llm=llm, tools=(tool(), tool()))
    with pytest.raises(ValueError, match="is async"):
        Conversation(Agent(llm=llm), on_question=cast("Any", sleep))
    with Conversation(Agent(llm=llm)) as conversation, pytest.raises(ValueError, match="is async"):
        conversation.register_callback(cast("Any", sleep))


# Tools


def test_tools_of_mcp_servers_are_offered_beside_the_named_ones(fake: FakeLLM, llm: LLM) -> None:
    servers = {"shop": McpServerSettings.model_validate(mcp_server.settings())}
    agent = Agent(llm=llm, tools=("think",), mcp_servers=servers)
    assert Agent.from_json(agent.model_dump_json(), {}).mcp_servers == servers
    fake.add(call("shop__price", item="tea"), say("ok"))
    with Conversation(agent) as conversation:
        conversation.run("go")
    tool_names = [tool["function"]["name"] for tool in fake.requests[-1].body["tools"]]
    assert {"think", "shop__order"} <= set(tool_names)
    assert "finish" not in tool_names
    assert results(fake) == ["tea costs 3 coins"]


def test_the_user_signs_in_to_an_mcp_server_where_the_program_shows_the_page(
    fake: FakeLLM, llm: LLM, tmp_path: Path
) -> None:
    fake.add(call("vault__open_vault"), say("ok"))
    with vault() as far:
        settings = McpServerSettings.model_validate(far)
        agent = Agent(llm=llm, mcp_servers={"vault": settings}, mcp_tokens=tmp_path / "tokens")
        with Conversation(agent) as conversation:
            conversation.sign_in("vault", browse)
        with Conversation(agent) as conversation:
            conversation.run("go")
    assert results(fake) == ["gold"]
    with vault("denies") as far:
        settings = McpServerSettings.model_validate(far)
        agent = Agent(llm=llm, mcp_servers={"vault": settings})
        with (
            Conversation(agent) as conversation,
            pytest.raises(UserError, match="signing in was refused"),
        ):
            conversation.sign_in("vault", browse)


def test_both_spellings_of_a_tools_schema_are_taken() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    by_python_name, by_wire_name = tool(input_schema=schema), tool(inputSchema=schema)
    assert by_python_name == by_wire_name
    assert by_wire_name.input_schema == schema


def test_a_plain_function_gets_keyword_arguments(fake: FakeLLM, llm: LLM) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {}}}
    fake.add(call("probe", a=1, b=[True]), say("ok"))
    with Conversation(Agent(llm=llm, tools=(tool(input_schema=schema),))) as conversation:
        conversation.run("go")
    assert results(fake) == ['{"a": 1, "b": [true]}']


class Size(BaseModel):
    width: int
    height: int


def cut_price(size: Size, on: date | None = None) -> str:
    """Cut a sheet."""
    return f"{size!r} on {on!r}"


def test_a_function_with_type_hints_is_a_tool(fake: FakeLLM, llm: LLM) -> None:
    tool_made = Tool.from_function(cut_price)
    agent = Agent.from_json(
        Agent(llm=llm, tools=(tool_made,)).model_dump_json(), {"cut_price": cut_price}
    )
    assert agent.tools == (tool_made,)
    fake.add(
        call("cut_price", size={"width": 3, "height": 4}, on="2026-02-03"),
        call("cut_price"),
        say("ok"),
    )
    with Conversation(agent.model_copy(update={"llm": llm})) as conversation:
        conversation.run("go")
    first_result, second_result = results(fake)
    assert first_result == "Size(width=3, height=4) on datetime.date(2026, 2, 3)"
    assert "size" in second_result
    [function] = [t["function"] for t in fake.requests[0].body["tools"] if "cut" in str(t)]
    assert function["description"] == "Cut a sheet."
    assert function["parameters"]["required"] == ["size"]


def _by_position(size: int, /) -> None:
    """Cut."""


def _unknown_hint(size: "Nowhere") -> None:  # noqa: F821 - the point of it.  # pyright: ignore[reportUndefinedVariable]
    """Cut."""


@pytest.mark.parametrize(
    ("function", "complaint"),
    [
        (lambda: None, "needs a docstring or a `description`"),
        (_by_position, "takes arguments without names"),
        (_unknown_hint, "has a type hint without a JSON Schema"),
        (sleep, "is async"),
    ],
)
def test_a_function_that_says_too_little_of_itself_makes_no_tool(
    function: Callable[..., object], complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        Tool.from_function(function)


def test_a_schema_that_is_no_object_is_wrapped_as_one_argument(fake: FakeLLM, llm: LLM) -> None:
    fake.add(call("probe", value="x"), say("ok"))
    probe = tool(input_schema={"type": "string"})
    with Conversation(Agent(llm=llm, tools=(probe,))) as conversation:
        conversation.run("go")
    assert results(fake) == ['{"value": "x"}']
    [function] = [t["function"] for t in fake.requests[0].body["tools"] if "probe" in str(t)]
    assert function["parameters"]["properties"]["value"] == {"type": "string"}
    assert function["parameters"]["required"] == ["value"]


def test_a_tool_can_be_shown_in_openais_form_and_in_mcps(llm: LLM) -> None:
    probe = tool(input_schema={"type": "string"}, read_only=True)
    schema = {"type": "object", "properties": {"value": {"type": "string"}}, "required": ["value"]}
    description = {"name": "probe", "description": "For tests."}
    function = {**description, "parameters": schema}
    assert probe.to_openai() == {"type": "function", "function": function}
    hints = {"annotations": {"readOnlyHint": True}}
    assert probe.to_mcp() == {**description, "inputSchema": schema, **hints}


def test_a_program_asks_a_model_outside_of_conversations(fake: FakeLLM, llm: LLM) -> None:
    fake.add(call("probe", value="x"), say("Hi."), error(401, "no"))
    messages = [{"role": "user", "content": "Probe x."}]
    probe = tool(input_schema={"type": "string"})
    answer = llm.complete(messages, [probe], tool_choice="required")
    [choice] = answer["choices"]
    [tool_call] = choice["message"]["tool_calls"]
    assert choice["finish_reason"] == "tool_calls"
    assert (tool_call["function"]["name"], json.loads(tool_call["function"]["arguments"])) == (
        "probe",
        {"value": "x"},
    )
    result = {"role": "tool", "tool_call_id": tool_call["id"], "content": "found"}
    answer = llm.complete([*messages, choice["message"], result], [probe.to_openai()])
    assert answer["choices"][0]["message"] == {"role": "assistant", "content": "Hi."}
    assert answer["usage"]["total_tokens"] > 0
    first, second = (request.body for request in fake.requests)
    assert first["tools"] == second["tools"] == [probe.to_openai()]
    assert first["tool_choice"] == "required"
    assert second["messages"][-1]["content"] == "found"
    with pytest.raises(ModelError, match="401"):
        llm.complete(messages)


def _raise() -> None:
    raise ValueError("the lamp is out")


@pytest.mark.parametrize(
    ("callback", "expected_text"),
    [
        (lambda: "text", "text"),
        (lambda: {"n": [1, None]}, '{"n": [1, null]}'),
        (lambda: None, "Done."),
        (lambda: ToolResult.of("a result"), "a result"),
        (lambda: {"content": [{"type": "text", "text": "as in MCP"}]}, "as in MCP"),
        (_raise, "the lamp is out"),
        (lambda: b"bytes", "b'bytes'"),
        (lambda: {"content": "no list"}, "no list"),
        (lambda: {"content": [{"type": "text"}, 7]}, '{"type": "text"}\n7'),
        (lambda: {"content": [{"type": "resource", "resource": b"?"}]}, "b'?'"),
        (lambda: {"content": [{"type": "resource", "resource": "?"}]}, '"resource": "?"'),
        (lambda: {"content": [], "_meta": {1: {"a set"}}}, "(no output)"),
        (lambda: ToolResult(({"type": "text", "text": 7},)), '"text": 7'),
        (lambda: ToolResult.of("x" * (50 << 20)), "characters cut]"),
    ],
    ids=[
        *("text", "json", "nothing", "ToolResult", "MCP", "raises", "no JSON", "content no list"),
        *("no blocks", "no JSON in a block", "no resource", "meta no JSON", "no text", "50 MB"),
    ],
)
def test_what_a_callback_gives_is_told_to_the_model(
    fake: FakeLLM, llm: LLM, callback: Callable[..., object], expected_text: str
) -> None:
    fake.add(call("probe"), say("ok"))
    with Conversation(Agent(llm=llm, tools=(tool(callback),))) as conversation:
        assert conversation.run("go").status == "completed"
    assert expected_text in results(fake)[0]


def test_a_result_says_in_mcps_words_that_it_is_an_error_and_keeps_what_it_has_for_clients(
    fake: FakeLLM, llm: LLM
) -> None:
    part = {"type": "text", "text": "no lamp"}
    gave = {"content": [part], "isError": True, "_meta": {"lamp": 7}}
    fake.add(call("probe"), say("ok"))
    with Conversation(Agent(llm=llm, tools=(tool(lambda: gave),))) as conversation:
        conversation.run("go")
        history = [record.model_dump(mode="json", by_alias=True) for record in conversation.history]
    items_ended = [r["event"]["item"] for r in history if r["event"]["type"] == "item.completed"]
    [item] = [item for item in items_ended if item["kind"] == "toolCall"]
    assert (item["status"], item["content"], item["meta"]) == ("failed", [part], {"lamp": 7})
    assert "lamp" not in str(fake.requests[1].body).replace("no lamp", "")


def test_tool_choice_required_holds_for_the_first_request_of_each_turn(
    fake: FakeLLM, llm: LLM
) -> None:
    fake.add(call("probe"), say("one"), call("probe"), say("two"))
    agent = Agent(llm=llm, tools=(tool(),), tool_choice="required")
    with Conversation(agent) as conversation:
        conversation.run("go")
        conversation.run("again")
    choices = [request.body.get("tool_choice") for request in fake.requests]
    assert choices == ["required", None, "required", None]


def test_a_turn_gives_the_result_that_the_agent_has_a_schema_for(fake: FakeLLM, llm: LLM) -> None:
    fake.add(call("finish", message="Three.", result=[1, 2, 3]))
    with Conversation(Agent(llm=llm, result_schema={"type": "array"})) as conversation:
        assert conversation.run("count").result == [1, 2, 3]


def test_instructions_and_limits_reach_the_agent(fake: FakeLLM, llm: LLM) -> None:
    fake.add(call("probe"), call("probe"))
    agent = Agent(llm=llm, tools=(tool(),), instructions="Speak like a sailor.", max_steps=2)
    with Conversation(agent) as conversation:
        turn = conversation.run("go")
    assert (turn.stop_reason, turn.n_steps) == ("maxSteps", 2)
    assert "Speak like a sailor." in str(fake.requests[0].body["messages"][0])


def test_a_program_replaces_the_packaged_prompt_and_keeps_data_of_its_own(
    fake: FakeLLM, llm: LLM, tmp_path: Path
) -> None:
    fake.add(say("Aye."))
    agent = Agent(llm=llm, system_prompt="You are a sailor.", instructions="Be brief.")
    assert Agent.from_json(agent.model_dump_json(), {}).system_prompt == agent.system_prompt
    with Conversation(agent, tmp_path, metadata={"user_id": 7}) as conversation:
        conversation.run("go")
        creation = conversation.history[0].event
    prompt = fake.requests[0].body["messages"][0]["content"]
    assert prompt.startswith("You are a sailor.\n# This workspace\n")
    assert str(tmp_path) in prompt
    assert prompt.endswith("Be brief.\n")
    assert creation.model_dump()["metadata"] == {"user_id": 7}


# Conversations


def test_send_message_returns_with_status_running_and_the_agent_at_work(
    fake: FakeLLM, llm: LLM
) -> None:
    fake.add(hang())
    with Conversation(Agent(llm=llm)) as conversation:
        assert conversation.state.status is Status.IDLE
        assert conversation.send_message("go")
        assert conversation.state.status is Status.RUNNING
        fake.wait_for_requests(1)
        conversation.interrupt()
        assert conversation.state.status is Status.IDLE


def test_start_thread_may_be_called_at_any_time(fake: FakeLLM, llm: LLM) -> None:
    fake.add(say("done"))
    with Conversation(Agent(llm=llm)) as conversation:
        conversation.start_thread()
        conversation.start_thread()
        assert conversation.run("go").final_text == "done"
    conversation.start_thread()


def test_a_reopened_conversation_that_is_resumed_goes_on_with_its_queue(
    fake: FakeLLM, llm: LLM, tmp_path: Path
) -> None:
    fake.add(hang())
    with Conversation(Agent(llm=llm), tmp_path) as first:
        first.send_message("go")
        fake.wait_for_requests(1)
        first.send_message("and then?", "queue")
    fake.add(say("went on"), say("then this"))
    ends = threading.Semaphore(0)
    with Conversation(Agent(llm=llm), tmp_path, conversation_id=first.id) as again:
        again.register_callback(
            lambda record: ends.release() if record.event.type == "turn.completed" else None
        )
        again.resume()
        for _ in range(2):
            assert ends.acquire(timeout=120)
        assert "then this" in str(again.history[-2].event)


def test_a_paused_turn_of_a_reopened_conversation_can_be_interrupted(
    fake: FakeLLM, llm: LLM, tmp_path: Path
) -> None:
    def pause() -> None:
        first.pause()

    fake.add(call("probe"))
    with Conversation(Agent(llm=llm, tools=(tool(pause),)), tmp_path) as first:
        first.run("go")
    with Conversation(Agent(llm=llm), tmp_path, conversation_id=first.id) as again:
        assert again.state.status is Status.PAUSED
        again.interrupt()
        assert again.state.status is Status.IDLE


def test_run_blocks_until_the_turn_has_ended_and_callbacks_have_seen_it(
    fake: FakeLLM, llm: LLM
) -> None:
    fake.add(call("finish", message="All good"))
    texts: list[str] = []
    with Conversation(Agent(llm=llm), metadata={"ticket": 7}) as conversation:
        conversation.register_callback(lambda record: texts.append(record.event.type))
        turn = conversation.run("go")
        assert texts[-2:] == ["turn.completed", "status.changed"]
        assert (turn.status, turn.final_text) == ("completed", "All good")
        assert conversation.state.status is Status.FINISHED
        assert [r.event.type for r in conversation.history][1:] == texts
        assert [r.seq for r in conversation.history] == list(range(1, len(texts) + 2))
        assert conversation.state.title == "go"
        assert conversation.state.usage == turn.usage
        assert conversation.state.usage.input_tokens == 100
        assert repr(conversation) == f"<Conversation {conversation.id} finished>"


def test_a_callback_can_be_unregistered_and_one_that_raises_stops_nobody(
    fake: FakeLLM, llm: LLM
) -> None:
    fake.add(say("one"), say("two"))
    texts: list[str] = []
    n_broken = []

    def raise_error(_record: object) -> None:
        n_broken.append(1)
        raise ValueError("a bug of the program")

    def hear(record: Any) -> None:
        texts.append(record.event.type)

    with Conversation(Agent(llm=llm)) as conversation:
        conversation.register_callback(raise_error)
        unregister = conversation.register_callback(hear)
        conversation.register_callback(hear)
        conversation.run("go")
        assert texts.count("turn.completed") == 2
        unregister()
        conversation.run("again")
    assert texts.count("turn.completed") == 3
    assert texts.count("turn.started") == 3
    assert n_broken


def test_a_callback_may_use_the_conversation(fake: FakeLLM, llm: LLM) -> None:
    fake.add(say("one"), say("two"))
    turns = []
    with Conversation(Agent(llm=llm)) as conversation:
        has_finished = threading.Event()

        def on_record(record: Any) -> None:
            if record.event.type == "turn.completed" and not turns:
                turns.append(conversation.run("again"))
                conversation.close()
                has_finished.set()

        conversation.register_callback(on_record)
        conversation.send_message("go")
        assert has_finished.wait(120)
    assert turns[0].final_text == "two"


def test_pause_stops_after_the_step_and_resume_goes_on_with_the_same_turn(
    fake: FakeLLM, llm: LLM
) -> None:
    def pause() -> None:
        conversation.pause()

    fake.add(call("probe"), say("done"))
    with Conversation(Agent(llm=llm, tools=(tool(pause),))) as conversation:
        turn = conversation.run("go")
        assert (turn.status, conversation.state.status) == ("paused", Status.PAUSED)
        assert len(fake.requests) == 1
        assert conversation.run().id == turn.id
        assert len(fake.requests) == 2
        with pytest.raises(InvalidStateError, match="not paused"):
            conversation.resume()


def test_interrupt_stops_a_model_that_hangs_and_the_turn_can_be_resumed(
    fake: FakeLLM, llm: LLM
) -> None:
    fake.add(hang(), say("after all"))
    with Conversation(Agent(llm=llm)) as conversation:
        conversation.send_message("go")
        [request] = fake.wait_for_requests(1)
        conversation.interrupt()
        assert request.close_event.wait(120)
        assert conversation.state.status is Status.IDLE
        assert conversation.run().final_text == "after all"


def test_a_failed_turn_says_why(fake: FakeLLM, llm: LLM) -> None:
    fake.add(error(401, "bad key"))
    with Conversation(Agent(llm=llm)) as conversation:
        turn = conversation.run("go")
        assert turn.status == "failed"
        assert turn.error
        assert turn.error.kind == "authRequired"
        assert conversation.state.status is Status.ERROR


def test_run_has_a_deadline_and_the_turn_goes_on(fake: FakeLLM, llm: LLM) -> None:
    fake.add(hang())
    with Conversation(Agent(llm=llm)) as conversation:
        with pytest.raises(TimeoutError, match=r"has not ended within 0\.05 s"):
            conversation.run("go", timeout_s=0.05)
        assert conversation.state.status is Status.RUNNING


def test_run_raises_when_the_log_cannot_be_written(fake: FakeLLM, llm: LLM, tmp_path: Path) -> None:
    def lose_the_log() -> None:
        shutil.rmtree(tmp_path / ".openhands")

    fake.add(call("probe"), say("done"))
    agent = Agent(llm=llm, tools=(tool(lose_the_log),))
    with (
        Conversation(agent, tmp_path) as conversation,
        pytest.raises(StorageError, match="deleted"),
    ):
        conversation.run("go", timeout_s=120)


def test_an_approval_can_be_answered(fake: FakeLLM, llm: LLM, tmp_path: Path) -> None:
    # The second message joins the turn before or after the model is asked again.
    fake.add(call("terminal", command="touch made"), say("done"), say("done"))
    with Conversation(Agent(llm=llm, approval="askAlways"), tmp_path) as conversation:
        was_asked = threading.Event()
        conversation.register_callback(
            lambda record: was_asked.set() if record.event.type == "approval.requested" else None
        )
        conversation.send_message("go")
        assert was_asked.wait(120)
        [approval] = conversation.state.pending
        conversation.respond(approval, allow=False, feedback="not today")
        conversation.run("and then?")
        assert "not today" in results(fake)[0]

        was_asked.clear()
        fake.play([call("terminal", command="touch wrong"), say("done")])
        conversation.send_message("go on")
        assert was_asked.wait(120)
        [approval] = conversation.state.pending
        own_subject = approval.subject.model_copy(update={"command": "touch right"})
        was_asked.clear()
        conversation.respond(approval, allow=True, subject=own_subject)
        assert was_asked.wait(120)
        [planned_changes] = conversation.state.pending
        assert planned_changes.title == "Keep changes to right"
        conversation.respond(planned_changes, allow=True)
        conversation.run("and then?")
    assert {name for name in ("made", "wrong", "right") if (tmp_path / name).exists()} == {"right"}


@pytest.mark.parametrize(
    ("approval", "read_only", "question"),
    [
        ("askAlways", True, "low"),
        ("askAlways", False, "medium"),
        ("askRisky", True, None),
        ("askRisky", False, "medium"),
        ("askNever", True, None),
        ("askNever", False, None),
    ],
)
def test_a_tool_of_the_program_is_asked_about_as_one_of_an_mcp_server(
    fake: FakeLLM, llm: LLM, approval: Any, read_only: bool, question: str | None
) -> None:
    fake.add(call("probe"), say("done"))
    questions: list[str] = []
    agent = Agent(llm=llm, approval=approval, tools=(tool(read_only=read_only),))
    with Conversation(agent) as conversation:

        def answer(record: Any) -> None:
            if record.event.type == "approval.requested":
                questions.append(record.event.approval.risk)
                conversation.respond(record.event.approval, allow=False)

        conversation.register_callback(answer)
        conversation.run("go", timeout_s=120)
    assert questions == ([question] if question else [])
    assert ("rejected" in results(fake)[0]) == bool(question)


@pytest.mark.parametrize("level", ["overlay", "landlock", "off"])
def test_what_the_program_rates_high_is_asked_about_at_every_level(
    fake: FakeLLM, llm: LLM, tmp_path: Path, level: str
) -> None:
    (tmp_path / "a.txt").write_text("secret plans")
    fake.add(call("terminal", command="cat a.txt"), say("done"))
    agent = Agent(llm=llm, approval="askRisky", risk_analyzer=lambda *_: "high")
    with Conversation(agent, Workspace(tmp_path, sandbox=cast("Any", level))) as conversation:

        def refuse(record: Any) -> None:
            if record.event.type == "approval.requested":
                conversation.respond(record.event.approval, allow=False)

        conversation.register_callback(refuse)
        conversation.run("go", timeout_s=120)
    assert "rejected" in results(fake)[0]


# Workspaces and reopening


def test_without_a_workspace_there_are_no_tools_on_disk_and_the_log_is_in_memory(
    fake: FakeLLM, llm: LLM, tmp_path: Path
) -> None:
    code = f"""
import os
from oh_daemon import LLM, Agent, Conversation
llm = LLM(model="openai/fake", api_key="sk-any", base_url="{fake.url}")
with Conversation(Agent(llm=llm)) as conversation:
    print(conversation.run("go").final_text, len(conversation.history) > 3, os.listdir())
"""
    fake.add(say("done"))
    home = tmp_path / "home"
    (home / "work").mkdir(parents=True)
    outcome = subprocess.run(
        [sys.executable, "-c", code],
        check=False,
        cwd=home / "work",
        env={**os.environ, "HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (outcome.stdout, outcome.stderr) == ("done True []\n", "")
    tools = {t["function"]["name"] for t in fake.requests[0].body["tools"]}
    assert tools == {"ask", "todo", "think", "finish"}
    assert [path for path in home.rglob("*") if "openhands" in path.name] == []


@pytest.mark.full
def test_a_platform_that_knows_its_callers_gets_no_made_up_key(fake: FakeLLM) -> None:
    code = f"""
from oh_daemon import LLM, Agent, Conversation
model = "bedrock/anthropic.claude-sonnet-4-20250514-v1:0"
llm = LLM(model=model, base_url="{fake.url}", max_attempts=1)
with Conversation(Agent(llm=llm)) as conversation:
    conversation.run("go")
"""
    fake.add(say("this is not what Bedrock answers"))
    machine = {
        "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
        "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI",
        "AWS_REGION": "eu-west-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    subprocess.run(
        [sys.executable, "-c", code], check=False, env={**os.environ, **machine}, timeout=120
    )
    assert fake.requests[0].headers["authorization"].startswith("AWS4-HMAC-SHA256 ")


def test_the_library_reads_no_file_and_no_variable(fake: FakeLLM, tmp_path: Path) -> None:
    settings = {"model": "openai/other", "maxSteps": 1, "instructions": "From a file."}
    for folder in (tmp_path / "home/.openhands", tmp_path / "work/.openhands"):
        folder.mkdir(parents=True)
        (folder / "settings.json").write_text(json.dumps(settings))
    code = f"""
from oh_daemon import LLM, Agent, Conversation
with Conversation(Agent(llm=LLM(model="openai/fake", base_url="{fake.url}")), ".") as conversation:
    print(conversation.run("go").final_text)
"""
    fake.add(call("think", thought="hm"), say("done"))
    variables = {
        "HOME": str(tmp_path / "home"),
        "OH_DAEMON_MODEL": "openai/third",
        "OH_DAEMON_MAX_STEPS": "1",
        "OH_DAEMON_API_KEY": "sk-from-our-variable",
        "OPENAI_API_KEY": "sk-from-the-providers-variable",
    }
    outcome = subprocess.run(
        [sys.executable, "-c", code],
        check=False,
        cwd=tmp_path / "work",
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (outcome.stdout, outcome.stderr) == ("done\n", "")
    first = fake.requests[0]
    assert first.body["model"] == "fake"
    assert "From a file." not in str(first.body)
    assert "sk-from" not in str(first.headers)


@pytest.mark.parametrize("client", ["auto", "litellm"])
def test_the_library_leaves_its_process_as_it_was(
    fake: FakeLLM, tmp_path: Path, client: str
) -> None:
    code = f"""
import gc, logging, os, sys
names = ("", "httpx", "openai", "aiohttp")
for name in names:
    logging.getLogger(name).addHandler(logging.NullHandler())
before = dict(os.environ)
from oh_daemon import LLM, Agent, Conversation
llm = LLM(model="openai/fake", api_key="sk-any", base_url="{fake.url}", client="{client}")
with Conversation(Agent(llm=llm)) as conversation:
    print(conversation.run("go").final_text)
assert "litellm" not in sys.modules
assert dict(os.environ) == before
assert [len(logging.getLogger(name).handlers) for name in names] == [1, 1, 1, 1]
assert gc.isenabled() and gc.get_freeze_count() == 0
"""
    fake.add(say("done"))
    outcome = subprocess.run(
        [sys.executable, "-X", "dev", "-c", code],
        check=False,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (outcome.stdout, outcome.stderr) == ("done\n", "")


def test_a_workspace_runs_commands_in_one_lasting_shell(tmp_path: Path) -> None:
    with Workspace(tmp_path, {**os.environ, "COLOR": "blue"}) as workspace:
        assert workspace.run_command("mkdir sub; cd sub; false").exit_code == 1
        result = workspace.run_command('echo "$COLOR in ${PWD##*/}"')
        assert (result.output, result.exit_code) == ("blue in sub\n", 0)
        assert workspace.run_command("sleep 300", timeout_s=0.05).exit_code is None


def test_commands_of_agents_are_held_and_land_what_they_change_in_the_workspace(
    fake: FakeLLM, llm: LLM, tmp_path: Path
) -> None:
    inside, outside = tmp_path / "work/made", tmp_path / "made"
    inside.parent.mkdir()
    fake.add(call("terminal", command=f"touch {inside} {outside}; ls {outside}"), say("Done."))
    with Conversation(Agent(llm=llm), tmp_path / "work") as conversation:
        conversation.run("go")
    assert str(outside) in results(fake)[0]
    assert (inside.exists(), outside.exists()) == (True, False)


def test_only_the_builtin_tools_that_an_agent_names_are_offered(
    fake: FakeLLM, llm: LLM, tmp_path: Path
) -> None:
    fake.add(say("done"))
    with Conversation(Agent(llm=llm, tools=("edit", "grep", tool())), tmp_path) as conversation:
        conversation.run("go")
    tool_names = [t["function"]["name"] for t in fake.requests[0].body["tools"]]
    assert sorted(tool_names) == ["edit", "grep", "probe"]


@pytest.mark.parametrize(
    ("answer", "expected_text"),
    [
        (lambda question: question.choices[1], "blue"),
        (lambda _question: None, "Skipped by the user"),
        (lambda _question: 1 // 0, "Skipped by the user"),
        (lambda _question: 1, "Skipped by the user"),
    ],
    ids=["an answer", "none", "an error", "no text"],
)
def test_a_question_is_put_to_the_program(
    fake: FakeLLM, llm: LLM, answer: Callable[[Any], Any], expected_text: str
) -> None:
    fake.add(call("ask", question="Which colour?", choices=["red", "blue"]), say("done"))
    with Conversation(Agent(llm=llm), on_question=answer) as conversation:
        assert conversation.run("go").final_text == "done"
    assert expected_text in results(fake)[0]


def test_a_question_that_waited_is_put_to_the_program_that_reopens_the_conversation(
    fake: FakeLLM, llm: LLM, tmp_path: Path
) -> None:
    fake.add(call("ask", question="Which port?"), say("done"))
    agent, is_closed = Agent(llm=llm), threading.Event()

    def leave(_question: object) -> str:
        first.close()
        is_closed.set()
        return "too late"

    first = Conversation(agent, tmp_path, on_question=leave)
    first.send_message("go")
    assert is_closed.wait(120)
    again = Conversation(
        agent, tmp_path, conversation_id=first.id, on_question=lambda question: question.prompt
    )
    with again:
        assert again.run().final_text == "done"
    assert results(fake) == ["Which port?"]


def test_without_a_callback_a_question_is_the_last_word_and_a_message_the_answer(
    fake: FakeLLM, llm: LLM
) -> None:
    fake.add(call("ask", question="Which port?"), say("done"))
    with Conversation(Agent(llm=llm)) as conversation:
        turn = conversation.run("go")
        assert (turn.stop_reason, turn.final_text) == ("needsInput", "Which port?")
        assert conversation.run("8080").final_text == "done"


def test_a_conversation_reopens_with_another_agent(fake: FakeLLM, llm: LLM, tmp_path: Path) -> None:
    fake.add(say("first"), call("probe"), say("second"))
    with Conversation(Agent(llm=llm), tmp_path) as conversation:
        conversation.run("go")
    other_llm = LLM(model="openai/other", api_key=KEY, base_url=fake.url)
    again = Conversation(
        Agent(llm=other_llm, tools=(tool(),)), tmp_path, conversation_id=conversation.id
    )
    with again:
        assert again.id == conversation.id
        assert again.run("go on").final_text == "second"
        assert "agent.changed" in [record.event.type for record in again.history]
    last = fake.requests[-1].body
    assert last["model"] == "other"
    assert "first" in str(last["messages"])
    assert results(fake) == ["{}"]


def test_history_and_state_can_be_read_after_the_end_and_nothing_can_be_sent(
    fake: FakeLLM, llm: LLM, tmp_path: Path
) -> None:
    fake.add(say("done"))
    for place in (None, tmp_path):
        fake.add(say("done"))
        with Conversation(Agent(llm=llm), place) as conversation:
            conversation.run("go")
        conversation.close()
        assert conversation.history[-1].event.type == "conversation.closed"
        assert conversation.state.status is Status.CLOSED
        for late in (lambda: conversation.send_message("more"), lambda: conversation.ask("Why?")):
            with pytest.raises(InvalidStateError, match="closed"):
                late()
    assert "> go" in conversation.export()
    with pytest.raises(InvalidStateError, match="closed"):
        conversation.fork()


def test_a_command_or_a_skill_is_called_by_its_name(
    fake: FakeLLM, llm: LLM, tmp_path: Path
) -> None:
    skills = tmp_path / ".agents/skills"
    skills.mkdir(parents=True)
    skills.joinpath("deploy.md").write_text("---\ntype: task\n---\nDeploy to $ARGUMENTS now.")
    fake.add(say("Deployed."), say("Read."), say("Yes."))
    with Conversation(Agent(llm=llm), tmp_path) as conversation:
        conversation.run("/deploy prod")
        assert "Deploy to prod now." in str(fake.requests[-1].body["messages"])
        conversation.run("/review")
        assert "Review the changes" in fake.requests[-1].body["messages"][-1]["content"]
        conversation.run("/etc/hosts is a file")
        assert fake.requests[-1].body["messages"][-1]["content"] == "/etc/hosts is a file"


def test_images_are_sent_from_files(fake: FakeLLM, llm: LLM, tmp_path: Path) -> None:
    image, other_file = tmp_path / "shot.png", tmp_path / "notes.txt"
    image.write_bytes(b"\x89PNG\r\n\x1a\n...")
    other_file.write_text("none")
    fake.add(say("A cat."))
    with Conversation(Agent(llm=llm)) as conversation:
        conversation.run("What is it?", images=[image])
        words, text_part = fake.requests[-1].body["messages"][-1]["content"]
        assert words["text"] == "What is it?"
        data = b64encode(image.read_bytes()).decode()
        assert text_part["image_url"]["url"] == f"data:image/png;base64,{data}"
        for images, model, message in (
            ([image, str(other_file)], None, r"notes.txt' is no PNG, JPEG, GIF or WebP image"),
            ([image], "demo", "'demo' does not see images"),
            ([image] * 21, None, "at most 20 images"),
            (str(image), None, "images: give a list of files, also for one"),
        ):
            with pytest.raises(InvalidParamsError, match=message):
                conversation.run("And this?", images=images, model=model)
        assert len(fake.requests) == 1


def test_what_cannot_be_sent_or_exported_is_named(llm: LLM) -> None:
    with Conversation(Agent(llm=llm)) as conversation:
        for text in ("\udce9", "x" * (1 << 20) + "x"):
            with pytest.raises(InvalidParamsError, match="text: "):
                conversation.run(text)
        for send in (conversation.run, conversation.send_message):
            with pytest.raises(InvalidParamsError, match="text: the message is empty"):
                send(" ")
        with pytest.raises(InvalidParamsError, match="'pdf' is none of jsonl, markdown, html"):
            conversation.export(cast("Any", "pdf"))
        with pytest.raises(InvalidParamsError, match="'soon' is none of auto, queue, steer, inter"):
            conversation.send_message("text", cast("Any", "soon"))


def test_a_conversation_that_cannot_be_is_refused_and_leaves_no_thread(
    llm: LLM, tmp_path: Path
) -> None:
    before = set(threading.enumerate())
    with pytest.raises(ConversationNotFoundError, match=r"'\.\./elsewhere'"):
        Conversation(Agent(llm=llm), tmp_path, conversation_id="../elsewhere")
    with pytest.raises(ValidationError, match="metadata"):
        Conversation(Agent(llm=llm), tmp_path, metadata=cast("Any", {1: "number"}))
    assert set(threading.enumerate()) <= before


def test_a_tool_may_outlive_its_conversation(fake: FakeLLM, llm: LLM) -> None:
    has_begun, may_end = threading.Event(), threading.Event()

    def work() -> None:
        has_begun.set()
        may_end.wait(120)

    def watch(record: Any) -> None:
        if record.event.type == "turn.started":
            workers.extend(t for t in threading.enumerate() if t.name.startswith("conversation-"))

    workers: list[threading.Thread] = []
    fake.add(call("probe"))
    with Conversation(Agent(llm=llm, tools=(tool(work),))) as conversation:
        conversation.register_callback(watch)
        conversation.send_message("go")
        assert has_begun.wait(120)
    may_end.set()
    for worker in workers:
        worker.join(120)
    assert "internal error" not in conversation.export()


def test_a_conversation_messages_another_and_says_that_it_did(fake: FakeLLM, llm: LLM) -> None:
    def send_text(text: str) -> str:
        return other_conversation.send_message(text, sender=first)

    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    teller = Agent(llm=llm, tools=(tool(send_text, input_schema=schema),))
    fake.add(call("probe", text="The port is 9090."), say("Told."))
    with FakeLLM([say("Good to know.")]) as other_server:
        its_llm = LLM(model="openai/fake", api_key=KEY, base_url=other_server.url)
        with Conversation(Agent(llm=its_llm)) as other_conversation, Conversation(teller) as first:
            assert first.run("tell it").final_text == "Told."
            [request] = other_server.wait_for_requests(1)
    texts = [m["content"] for m in request.body["messages"] if m["role"] == "user"]
    assert texts[0] == f"<message uri='oh-log:/{first.id}'>\nThe port is 9090.\n</message>"


def test_a_program_answers_for_the_sub_agents_of_its_conversation(
    fake: FakeLLM, llm: LLM, tmp_path: Path
) -> None:
    fake.add(
        call("delegate", tasks=[{"task": "make it"}]),
        call("terminal", command="touch made"),
        say("It is there."),
        say("All done."),
    )
    was_asked = threading.Event()
    with Conversation(Agent(llm=llm, approval="askRisky"), tmp_path) as conversation:

        def answer(record: Any) -> None:
            if record.event.type == "approval.requested":
                assert conversation.state.pending == (record.event.approval,)
                was_asked.set()
                conversation.respond(record.event.approval, allow=True)

        conversation.register_callback(answer)
        turn = conversation.run("go", timeout_s=120)
    assert turn.final_text == "All done."
    assert was_asked.is_set()
    assert (tmp_path / "made").exists()
