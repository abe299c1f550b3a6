from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from fake_llm import (
    FakeLLM,
    Json,
    call,
    calls,
    chunks,
    raw,
    raw_call,
    reason,
    say,
    stream_parts,
    with_finish,
    with_usage,
)
from model_calls import HELLO, KEY, TOOL, anthropic, anthropic_block, ask, settings_for
from pydantic import ValidationError

from oh_daemon.features.models.assembly import Assembly
from oh_daemon.features.models.capabilities import (
    Capabilities,
    find_capabilities,
)
from oh_daemon.features.models.model_messages import prepare_messages
from oh_daemon.features.models.remote_model import RemoteModel
from oh_daemon.features.models.server_facts import read_facts
from oh_daemon.kernel.ports import ModelAnswer, ModelDelta, ModelRequest, ToolCall
from oh_daemon.protocol.errors import NetworkError
from oh_daemon.protocol.llm import LLMSettings
from oh_daemon.protocol.status import Cost, Usage

# litellm's own use of pydantic causes these warnings.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Items? .* on TypedDict class"),
    pytest.mark.filterwarnings("ignore:Accessing the 'model_"),
]

CONVERSATION: list[Json] = [
    {"role": "system", "content": "Be good."},
    {"role": "user", "content": "Look."},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "a", "arguments": "{}"}}
        ],
        "thinking": {
            "model": "anthropic/claude-sonnet-4-5",
            "text": "Hm.",
            "blocks": [{"type": "thinking", "thinking": "Hm.", "signature": "S1"}],
        },
    },
    {"role": "tool", "tool_call_id": "call_1", "content": "seen"},
]


SEALED = (
    {
        "id": "rs_0_0",
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": "Let me see."}],
        "encrypted_content": "sealed:Let me see.",
    },
    {"type": "message"},
    {"type": "function_call"},
    {"type": "function_call"},
)
ANTHROPIC_USAGE = {
    "input_tokens": 10,
    "output_tokens": 1,
    "cache_read_input_tokens": 50,
    "cache_creation_input_tokens": 5,
}
ANTHROPIC_ANSWER = b"".join(
    [
        anthropic(
            "message_start",
            message={
                "id": "msg_1",
                "type": "message",
                "role": "assistant",
                "content": [],
                "model": "claude",
                "usage": ANTHROPIC_USAGE,
            },
        ),
        anthropic_block(
            0,
            {"type": "thinking", "thinking": ""},
            {"type": "thinking_delta", "thinking": "let me"},
            {"type": "thinking_delta", "thinking": " see"},
            {"type": "signature_delta", "signature": "SIG"},
        ),
        anthropic_block(1, {"type": "redacted_thinking", "data": "OPAQUE"}),
        anthropic_block(
            2, {"type": "text", "text": ""}, {"type": "text_delta", "text": "A\u2028B [DONE]"}
        ),
        anthropic_block(
            3,
            {"type": "tool_use", "id": "toolu_1", "name": "a", "input": {}},
            {"type": "input_json_delta", "partial_json": '{"x": '},
            {"type": "input_json_delta", "partial_json": "1}"},
        ),
    ]
)
ANTHROPIC_END = anthropic(
    "message_delta", delta={"stop_reason": "tool_use"}, usage={"output_tokens": 20}
) + anthropic("message_stop")


@pytest.mark.parametrize(
    ("api", "blocks", "response_id"), [("chat", (), "chatcmpl-0"), ("responses", SEALED, "resp_0")]
)
def test_an_answer_has_everything_that_was_streamed(
    api: str, blocks: tuple[Json, ...], response_id: str
):
    script = [calls(reason("Let me see."), say("Two calls."), call("a", x=1), call("b", y="é"))]
    deltas: list[ModelDelta] = []
    with FakeLLM(script) as fake:
        answer = ask(fake, on_delta=deltas.append, api=api)
    assert answer == ModelAnswer(
        text="Two calls.",
        reasoning="Let me see.",
        thinking_blocks=blocks,
        tool_calls=(
            ToolCall("call_0_0", "a", '{"x": 1}'),
            ToolCall("call_0_1", "b", '{"y": "\\u00e9"}'),
        ),
        finish_reason="tool_calls",
        usage=Usage(input_tokens=100, output_tokens=10, cost=Cost(amount=0), requests=1),
        response_id=response_id,
        model="openai/fake",
    )
    assert deltas == [ModelDelta("reasoning", "Let me see."), ModelDelta("text", "Two calls.")]


@pytest.mark.parametrize(
    ("setting", "field", "value"),
    [
        ("temperature", "temperature", 0.25),
        ("top_p", "top_p", 0.5),
        ("top_k", "top_k", 7),
        ("max_output_tokens", "max_tokens", 99),
        ("reasoning_effort", "reasoning_effort", "low"),
    ],
)
def test_a_setting_is_in_the_request_and_absent_when_not_set(setting: str, field: str, value: Any):
    with FakeLLM([say("a"), say("b")]) as fake:
        ask(fake, **{setting: value})
        ask(fake)
        first, second = (request.body for request in fake.requests)
    assert first[field] == value
    assert field not in second


def test_headers_body_fields_key_and_cache_key_are_in_the_request():
    request = ModelRequest(HELLO, [TOOL], tool_choice="required", cache_key="conversation-1")
    with FakeLLM([say("a")]) as fake:
        ask(fake, request, extra_headers={"x-team": "blue"}, extra_body={"seed": 3})
        actual_request = fake.requests[0]
    assert actual_request.path == "/v1/chat/completions"
    assert actual_request.headers["authorization"] == f"Bearer {KEY}"
    assert actual_request.headers["x-team"] == "blue"
    assert actual_request.body == {
        "model": "fake",
        "messages": HELLO,
        "tools": [TOOL],
        "tool_choice": "required",
        "stream": True,
        "stream_options": {"include_usage": True},
        "prompt_cache_key": "conversation-1",
        "seed": 3,
    }


def test_another_dialect_can_be_chosen_for_an_endpoint():
    with FakeLLM([raw(b"")]) as fake:
        url = fake.url.removesuffix("/v1")
        with pytest.raises(NetworkError, match="ended before it was complete"):
            ask(fake, base_url=url, model="claude-next", custom_llm_provider="anthropic")
        assert fake.requests[0].path == "/v1/messages"
        assert fake.requests[0].headers["x-api-key"] == KEY


def test_the_env_file_of_a_project_around_the_installation_is_not_read(tmp_path: Path):
    """That file could send the user's key to an address of the repository's choice."""
    packages = tmp_path / ".venv/lib/site-packages"
    packages.mkdir(parents=True)
    litellm = find_spec("litellm")
    assert litellm is not None
    assert litellm.origin is not None
    (packages / "litellm").symlink_to(Path(litellm.origin).parent)
    (tmp_path / ".env").write_text("OPENAI_BASE_URL=http://evil.example\n")
    code = (
        "import os; from oh_daemon.features.models.litellm_child import load_litellm as load;"
        "print(load().__file__, os.environ.get('OPENAI_BASE_URL'))"
    )
    env = {"PYTHONPATH": str(packages), "PATH": os.environ["PATH"]}
    argv = [sys.executable, "-c", code]
    outcome = subprocess.run(
        argv, check=False, env=env, cwd=tmp_path, capture_output=True, text=True
    )
    assert outcome.stdout.split() == [str(packages / "litellm/__init__.py"), "None"], outcome.stderr


@pytest.mark.full
def test_a_request_loads_no_tokenizer_and_what_needs_one_has_it():
    code = """
import asyncio, json, sys
from oh_daemon.features.models.litellm_child import answer, load_litellm
async def run():
    return [message async for message in answer(json.loads(sys.argv[1]))]
assert "Two words" in str(asyncio.run(run()))
assert "litellm.litellm_core_utils.default_encoding" not in sys.modules
tokenizer = load_litellm().main.encoding
print(tokenizer.decode(tokenizer.encode("Two words")))
"""
    with FakeLLM([with_usage(say("Two words"), None)]) as fake:
        fields = {"model": "openai/fake", "messages": HELLO, "api_base": fake.url, "stream": True}
        request = {"ask": "chat", "fields": {**fields, "api_key": KEY}, "cache_key": None}
        argv = [sys.executable, "-c", code, json.dumps({**request, "finds_key": False})]
        outcome = subprocess.run(argv, check=False, capture_output=True, text=True)
    assert outcome.stdout == "Two words\n", outcome.stderr


def test_an_api_version_reaches_the_endpoint():
    with FakeLLM([say("a")]) as fake:
        ask(fake, model="azure/deployment", api_version="2024-10-21")
        assert fake.requests[0].path.endswith("api-version=2024-10-21")


def test_thinking_blocks_and_cache_figures_of_another_dialect_are_kept():
    with FakeLLM([raw(ANTHROPIC_ANSWER + ANTHROPIC_END)]) as fake:
        answer = ask(fake, model="anthropic/claude-sonnet-4-5")
    assert answer.text == "A\u2028B [DONE]"
    assert answer.reasoning == "let me see"
    assert answer.thinking_blocks == (
        {"type": "thinking", "thinking": "let me see", "signature": "SIG"},
        {"type": "redacted_thinking", "data": "OPAQUE"},
    )
    assert answer.tool_calls == (ToolCall("toolu_1", "a", '{"x": 1}'),)
    assert answer.finish_reason == "tool_calls"
    assert (answer.usage.cache_read_tokens, answer.usage.cache_write_tokens) == (50, 5)
    assert answer.usage.cost is not None


def test_a_stream_of_another_dialect_that_stops_early_is_no_answer():
    with (
        FakeLLM([raw(ANTHROPIC_ANSWER)]) as fake,
        pytest.raises(NetworkError, match="ended before"),
    ):
        ask(fake, model="anthropic/claude-sonnet-4-5")


def test_claude_gets_cache_marks_and_its_thinking_back():
    mark = {"cache_control": {"type": "ephemeral"}}
    with FakeLLM([raw(ANTHROPIC_ANSWER + ANTHROPIC_END)] * 2) as fake:
        for is_caching in (True, False):
            ask(
                fake,
                ModelRequest(CONVERSATION, [TOOL]),
                model="anthropic/claude-sonnet-4-5",
                caching_prompt=is_caching,
            )
        marked_body, plain = (request.body for request in fake.requests)
    thinking = marked_body["messages"][1]["content"][0]
    assert thinking == {"type": "thinking", "thinking": "Hm.", "signature": "S1"}
    assert marked_body["system"] == [{"type": "text", "text": "Be good.", **mark}]
    result = marked_body["messages"][-1]["content"][0]
    assert result["content"] == [{"type": "text", "text": "seen", **mark}]
    assert "cache_control" not in json.dumps(plain)


def test_claude_gets_the_image_of_a_result_in_the_result():
    picture = "iVBORw0KGgo="
    parts: list[Json] = [
        {"type": "text", "text": "See:"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{picture}"}},
    ]
    tool_message = {"role": "tool", "tool_call_id": "call_1", "content": parts}
    with FakeLLM([raw(ANTHROPIC_ANSWER + ANTHROPIC_END)]) as fake:
        request = ModelRequest([*CONVERSATION[:-1], tool_message], [TOOL])
        ask(fake, request, model="anthropic/claude-sonnet-4-5")
        [result] = fake.requests[0].body["messages"][-1]["content"]
    text, image = result["content"]
    assert text["text"] == "See:"
    assert image["source"] == {"type": "base64", "media_type": "image/png", "data": picture}
    assert "cache_control" in json.dumps(result)


def test_an_image_is_sent_as_it_is_and_left_out_for_a_blind_model():
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    text = {"type": "text", "text": "What is this?"}
    messages: list[Json] = [{"role": "user", "content": [text, image]}]
    with FakeLLM([say("a")]) as fake:
        ask(fake, ModelRequest(messages))
        assert fake.requests[0].body["messages"] == messages
    blind = Capabilities(None, calls_functions=True, sees_images=False, table_entry=None)
    [message] = prepare_messages(messages, "fake", blind)
    assert message["content"] == (
        "What is this?\n(an image, left out: this model does not see images)"
    )


def test_a_piece_of_text_that_looks_like_the_end_of_a_stream_is_text():
    lines = ["data: [DONE]\n", "[DONE]", "\u2028", "\u0085", "\x00", "end"]
    step = calls(*(say(piece) for piece in lines), raw_call("a", '{"x": "[DONE]\u2028"}'))
    body = b"".join(stream_parts(step)).replace(b"\\u2028", "\u2028".encode())
    with FakeLLM([raw(body)]) as fake:
        answer = ask(fake)
    assert answer.text == "".join(lines)
    assert json.loads(answer.tool_calls[0].arguments) == {"x": "[DONE]\u2028"}


@pytest.mark.parametrize("end", [b"\r\n", b"\n"])
def test_comments_and_both_line_ends_are_understood(end: bytes):
    body = b": keep-alive\n\n" + b"".join(stream_parts(say("Hello.")))
    with FakeLLM([raw(body.replace(b"\n", end))]) as fake:
        assert ask(fake).text == "Hello."


def test_a_long_run_of_equal_chunks_is_no_reason_to_stop():
    with FakeLLM([chunks(1_000, "ab")]) as fake:
        assert ask(fake).text == "ab" * 1_000


def test_calls_that_all_have_index_zero_stay_apart():
    pieces = [
        {"index": 0, "id": "1", "function": {"name": "a", "arguments": '{"x":'}},
        {"index": 0, "function": {"arguments": "1}"}},
        {"index": 0, "id": "2", "function": {"name": "b", "arguments": "{}"}},
    ]
    assembly = Assembly(lambda _: None)
    for piece in pieces:
        assembly.feed({"choices": [{"delta": {"tool_calls": [piece]}, "finish_reason": "stop"}]})
    answer = assembly.answer(Usage())
    assert answer.tool_calls == (ToolCall("1", "a", '{"x":1}'), ToolCall("2", "b", "{}"))
    assert answer.finish_reason == "tool_calls"


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        (["\ud83d", "\ude00!"], "\U0001f600!"),
        (["a\ud83d", "b"], "a\ufffdb"),
        (["\udc00"], "\ufffd"),
        (["a\ud83d"], "a\ufffd"),
    ],
)
def test_text_is_valid_unicode_wherever_it_was_split(pieces: list[str], text: str):
    deltas: list[ModelDelta] = []
    assembly = Assembly(deltas.append)
    for piece in pieces:
        assembly.feed({"choices": [{"delta": {"content": piece}}]})
    assert assembly.answer(Usage()).text == text
    for delta in deltas:
        delta.text.encode()


@pytest.mark.parametrize(
    ("litellm_name", "own_name"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("content_filter", "content_filter"),
    ],
)
def test_a_finish_reason_is_one_of_four(litellm_name: str, own_name: str):
    with FakeLLM([with_finish(say("x"), litellm_name)] * 2) as fake:
        assert ask(fake).finish_reason == own_name
        assert ask(fake, api="responses").finish_reason == own_name


def test_a_refusal_is_text_and_says_so():
    assembly = Assembly(lambda _: None)
    assembly.feed({"choices": [{"delta": {"refusal": "I will not."}, "finish_reason": "stop"}]})
    answer = assembly.answer(Usage())
    assert (answer.text, answer.finish_reason) == ("I will not.", "content_filter")


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (None, Usage(requests=1)),
        ({"prompt_tokens": -1, "completion_tokens": 5}, Usage(requests=1)),
        ({"prompt_tokens": 10**12, "completion_tokens": 5}, Usage(requests=1)),
        ({"prompt_tokens": 5}, Usage(requests=1)),
        ({"prompt_tokens": "many", "completion_tokens": True}, Usage(requests=1)),
        (
            {"prompt_tokens": 5, "completion_tokens": 2, "cost": 0.25},
            Usage(input_tokens=5, output_tokens=2, cost=Cost(amount=0.25), requests=1),
        ),
        (
            {"prompt_tokens": 5, "completion_tokens": 2, "cost": -1},
            Usage(input_tokens=5, output_tokens=2, cost=Cost(amount=0), requests=1),
        ),
        (
            {
                "prompt_tokens": 50,
                "completion_tokens": 2,
                "prompt_tokens_details": {"cached_tokens": 40},
                "completion_tokens_details": {"reasoning_tokens": 1},
            },
            Usage(
                input_tokens=50,
                output_tokens=2,
                cache_read_tokens=40,
                reasoning_tokens=1,
                cost=Cost(amount=0),
                requests=1,
            ),
        ),
    ],
)
def test_usage_is_what_the_provider_says_or_unknown(usage: Json | None, expected: Usage):
    with FakeLLM([with_usage(say("x"), usage)] * 2) as fake:
        assert [ask(fake, api=api).usage for api in ("chat", "responses")] == [expected] * 2


def test_cost_comes_from_the_settings_or_the_table():
    with FakeLLM([say("x")] * 2) as fake:
        own = ask(fake, input_cost_per_token=0.01, output_cost_per_token=0.1).usage.cost
        listed_cost = ask(fake, model="openai/gpt-4o").usage.cost
    assert own == Cost(amount=2.0)
    assert listed_cost is not None
    assert 0 < listed_cost.amount < 0.01


def test_a_model_that_is_not_known_to_call_functions_calls_them_in_its_text():
    text = 'Look: <tool_call>{"name": "terminal", "arguments": {}}</tool_call>'
    with FakeLLM([say(text)]) as fake:
        answer = ask(fake, native_tool_calling=False)
        body = fake.requests[0].body
    assert (answer.text, answer.tool_calls) == ("Look:", (ToolCall("", "terminal", "{}"),))
    assert "tools" not in body
    assert body["stop"] == ["<tool_result"]
    assert '"terminal"' in body["messages"][0]["content"]
    unknown, named_settings = (
        LLMSettings(model="ollama/codellama", native_tool_calling=is_native)
        for is_native in (None, False)
    )
    [caveat] = RemoteModel(unknown).traits.caveats
    assert "nativeToolCalling" in caveat.title
    assert RemoteModel(named_settings).traits.caveats == ()


TABLE: dict[str, Json] = {
    "gpt-x": {"max_input_tokens": 1000, "supports_function_calling": True},
    "gemini/y": {"max_tokens": 500, "supports_vision": False},
}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"model": "openai/gpt-x"}, (1000, True, False, False, "gpt-x")),
        ({"model": "gpt-x", "context_window": 9}, (9, True, False, False, "gpt-x")),
        ({"model": "gpt-x", "sees_images": True}, (1000, True, True, False, "gpt-x")),
        ({"model": "gemini/y"}, (500, False, False, False, "gemini/y")),
        (
            {"model": "y", "custom_llm_provider": "gemini", "native_tool_calling": True},
            (500, True, False, False, "gemini/y"),
        ),
        ({"model": "vllm/Qwen3-Coder"}, (262_144, True, True, False, None)),
        ({"model": "bedrock/claude-z"}, (None, True, True, True, None)),
        (
            {"model": "bedrock/claude-z", "caching_prompt": False},
            (None, True, True, False, None),
        ),
    ],
)
def test_capabilities_come_from_override_then_table_then_default(
    fields: Json, expected: tuple[object, ...]
):
    can = find_capabilities(LLMSettings.model_validate(fields), TABLE)
    marks = can.quirks.wants_cache_marks
    capabilities = (
        can.context_window,
        can.calls_functions,
        can.sees_images,
        marks,
        can.table_entry,
    )
    assert capabilities == expected


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"id": "fake", "max_model_len": 32_768}, (32_768, True, True)),
        ({"id": "openai/fake", "meta": {"n_ctx_train": 4096}}, (4096, True, True)),
        (
            {
                "id": "fake",
                "loaded_context_length": 0,
                "context_length": -1,
                "max_model_len": 32_768,
            },
            (32_768, True, True),
        ),
        (
            {
                "id": "fake",
                "context_length": 9000,
                "supported_parameters": ["temperature"],
                "architecture": {"input_modalities": ["text"]},
            },
            (9000, False, False),
        ),
        ({"id": "other", "max_model_len": 32_768}, (None, True, True)),
        ({"id": "fake", "max_model_len": "many", "meta": 5}, (None, True, True)),
    ],
)
def test_what_the_endpoint_says_of_a_model_counts_before_the_table(
    data: Json, expected: tuple[object, ...]
):
    with FakeLLM() as fake:
        fake.models = [{"id": "another"}, data]
        facts = read_facts(settings_for(fake), fake.url, "fake")
        can = find_capabilities(settings_for(fake), {}, facts)
        own = RemoteModel(settings_for(fake, context_window=7))
        assert (can.context_window, can.calls_functions, can.sees_images) == expected
        assert own.traits.context_window == 7
        assert own.traits.sees_images is expected[2]


def test_an_endpoint_that_says_nothing_of_its_models_is_no_problem():
    llm = LLMSettings(model="m")
    assert read_facts(llm, "http://127.0.0.1:9/v1", "m") == {}
    with FakeLLM() as fake:
        assert read_facts(llm, fake.url, "m") == {}
        # An entry with an error leaves the others as they are.
        fake.models = [{"id": "x", "context_length": "?"}, {"id": "m", "context_length": 5}]
        assert read_facts(llm, fake.url, "m") == {"max_input_tokens": 5, "is_final": True}
    assert (
        find_capabilities(LLMSettings(model="gpt-x"), TABLE, {"max_input_tokens": 5}).context_window
        == 5
    )


def test_the_key_is_in_no_dump_and_no_repr():
    settings = LLMSettings.model_validate(
        {"model": "m", "apiKey": KEY, "extraHeaders": {"authorization": f"Bearer {KEY}"}}
    )
    for text in (repr(settings), str(settings), settings.model_dump_json()):
        assert KEY not in text
    assert "Bearer" not in str(settings.model_dump())


@pytest.mark.parametrize(
    ("field", "value"),
    [("temperature", 3), ("baseUrl", "localhost:8000"), ("maxAttempts", 0), ("temprature", 1)],
)
def test_a_bad_setting_is_named_and_its_value_is_not_shown(field: str, value: Any):
    with pytest.raises(ValidationError) as error_info:
        LLMSettings.model_validate({"model": "m", "apiKey": KEY, field: value})
    assert error_info.value.errors()[0]["loc"] == (field,)
    assert KEY not in str(error_info.value)
