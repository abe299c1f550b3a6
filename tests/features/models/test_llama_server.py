"""llama.cpp's own server, end to end: its model is too small to judge the answers.

`make test-full` installs it, as tests/llama.lock lists it.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest
from fake_llm import Json
from model_calls import complete
from places import REPO
from world import World, items, wait_for_status

from oh_daemon.common.cancel import Cancelled, CancelToken
from oh_daemon.features.models.remote_model import RemoteModel
from oh_daemon.kernel.ports import ModelDelta, ModelRequest
from oh_daemon.protocol.errors import ContextWindowExceededError
from oh_daemon.protocol.llm import LLMSettings

pytestmark = pytest.mark.full
WINDOW = 8192
LONG_WITHIN_S = 900.0
"""A prompt of 4,000 tokens takes 100 seconds on one core, more on a busy machine."""
TOOL: Json = {
    "type": "function",
    "function": {
        "name": "terminal",
        "description": "Run a command in the shell and return what it prints. " * 120,
        "parameters": {"type": "object", "properties": {"command": {"type": "string"}}},
    },
}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    server = subprocess.Popen(
        [sys.executable, str(REPO / "tests/support/llama_server.py"), str(WINDOW)],
        env={"PYTHONPATH": str(REPO / ".venv/llama")},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    with server:
        assert server.stdout
        yield f"{server.stdout.readline().decode().strip()}/v1"
        server.communicate()


def _model(url: str, **changes: object) -> RemoteModel:
    fields = {"model": "openai/gemma", "base_url": url, "max_output_tokens": 16, "temperature": 0}
    return RemoteModel(LLMSettings.model_validate({**fields, **changes}))


def _request(words: str) -> ModelRequest:
    return ModelRequest([{"role": "user", "content": words}], [TOOL])


def test_server_reports_its_window_and_that_its_template_drops_tools(url: str) -> None:
    traits = _model(url).traits
    assert (traits.context_window, traits.sees_images, traits.input_price) == (WINDOW, False, 0)
    assert [caveat.code for caveat in traits.caveats] == ["noFunctionCalls"]


def test_answer_streams_in_text_mode_with_usage_and_without_cost(url: str) -> None:
    deltas: list[ModelDelta] = []
    answer = complete(_model(url), _request("Say a few words."), deltas.append)
    assert len(deltas) > 1
    assert answer.text.startswith("".join(delta.text for delta in deltas).strip())
    # The tools are in the prompt.
    assert answer.usage.input_tokens > 1200
    assert (answer.usage.output_tokens, answer.usage.cost and answer.usage.cost.amount) == (16, 0)
    assert (answer.finish_reason, answer.caveats) == ("length", ())


def test_tools_that_the_template_drops_are_reported(url: str) -> None:
    answer = complete(_model(url, native_tool_calling=True), _request("Say a few words."))
    assert [(caveat.code, caveat.about) for caveat in answer.caveats] == [("requestCut", "tools")]


def test_prompt_above_the_window_is_a_full_context(url: str) -> None:
    with pytest.raises(ContextWindowExceededError):
        complete(_model(url), _request("word " * (WINDOW + 100)))


def test_interrupt_ends_the_call_and_frees_the_server(url: str) -> None:
    cancel = CancelToken()
    with pytest.raises(Cancelled):
        complete(
            _model(url, max_output_tokens=4000),
            _request("Say a few words."),
            lambda _delta: cancel.cancel(),
            cancel=cancel,
        )
    assert complete(_model(url), _request("Say a few words.")).usage.output_tokens == 16


def test_daemon_works_with_the_server_and_interrupts_it(world: World, url: str) -> None:
    world.variables["OH_DAEMON_BASE_URL"] = url
    client = world.daemon(settings={"titles": False, "llm": {"maxOutputTokens": 400}})
    conversation = world.start(client, "Say a few words.")
    client.wait_for(lambda m: m.get("method") == "conversation/delta", LONG_WITHIN_S)
    client.request("conversation/interrupt", {"conversationId": conversation})
    wait_for_status(client, "idle")
    turn = world.turn(client)
    assert (turn["status"], [item["code"] for item in items(client, "notice")]) == (
        "interrupted",
        ["noFunctionCalls"],
    )
    settings = {"ohDaemon": {"titles": False, "llm": {"maxOutputTokens": 8}}}
    client.notify("workspace/didChangeConfiguration", {"settings": settings})
    world.send(client, conversation, "more")
    event = client.wait_for_event("usage.updated", LONG_WITHIN_S)["event"]
    assert event["contextSize"] == WINDOW
    assert (event["usage"]["cost"]["amount"], event["usage"]["outputTokens"]) == (0, 8)
