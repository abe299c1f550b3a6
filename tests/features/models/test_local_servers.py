"""Servers of the user's own: the limits that they report, what they drop, patience and cost."""

from __future__ import annotations

from typing import Any

import pytest
from fake_llm import FakeLLM, Json, say, with_usage
from model_calls import HELLO, TOOL, ask, complete, settings_for

from oh_daemon.features.models.attempts import AttemptDeadlines
from oh_daemon.features.models.capabilities import input_price
from oh_daemon.features.models.remote_model import RemoteModel
from oh_daemon.features.models.usage_check import dropped_parts
from oh_daemon.kernel.ports import ModelRequest
from oh_daemon.protocol.llm import LLMSettings

TABLE: Json = {
    "gpt-paid": {"litellm_provider": "openai", "input_cost_per_token": 2.0},
    "deepseek-chat": {"litellm_provider": "deepseek", "input_cost_per_token": 3.0},
}
PROPS: Json = {
    "default_generation_settings": {"n_ctx": 8192},
    "chat_template_caps": {"supports_tools": False},
    "modalities": {"vision": False},
}
"""As llama.cpp's server of 2026-10 answers for a model whose template knows no tools."""
SHOW: Json = {
    "parameters": 'num_ctx                        16384\nstop    "<|eot_id|>"',
    "model_info": {"llama.context_length": 131_072},
    "capabilities": ["completion", "tools"],
}
LOADED = {"name": "fake:latest", "model": "fake:latest", "context_length": 4096}
LM_STUDIO = {"id": "fake", "type": "vlm", "state": "loaded", "max_context_length": 131_072}


@pytest.mark.parametrize(
    ("models", "pages", "expected"),
    [
        # llama.cpp answers for its one model, whatever the request calls it.
        ([{"id": "/m.gguf", "owned_by": "llamacpp"}], {"/props": PROPS}, (8192, False, False)),
        (
            [{"id": "fake", "owned_by": "llamacpp", "meta": {"n_ctx": 8192, "n_ctx_train": 32768}}],
            {"/props": PROPS},
            (8192, False, False),
        ),
        ([{"id": "fake", "meta": {"n_ctx_train": 32_768}}], {}, (32_768, True, True)),
        # Ollama: the window of the model in memory, else the configured one; never the trained one.
        (
            [{"id": "fake", "owned_by": "library"}],
            {"/api/ps": {"models": [LOADED]}, "/api/show": SHOW},
            (4096, True, False),
        ),
        ([{"id": "fake"}], {"/api/ps": {"models": []}, "/api/show": SHOW}, (16_384, True, False)),
        (
            [{"id": "fake"}],
            {"/api/ps": {"models": []}, "/api/show": {**SHOW, "parameters": "stop x"}},
            (None, True, False),
        ),
        # LM Studio, with the model in memory and without.
        (
            [{"id": "fake"}],
            {"/api/v0/models": {"data": [{**LM_STUDIO, "loaded_context_length": 4096}]}},
            (4096, True, True),
        ),
        ([{"id": "fake"}], {"/api/v0/models": {"data": [LM_STUDIO]}}, (None, True, True)),
        # vLLM and SGLang.
        ([{"id": "fake", "max_model_len": 40_960}], {}, (40_960, True, True)),
        # Only Ollama gets the POST, which others might take for a request to the model.
        ([{"id": "fake"}], {"/api/ps": {"data": []}, "/api/show": SHOW}, (None, True, True)),
        # A server with answers of another form says nothing.
        (
            [{"id": "fake"}],
            {"/props": {"default_generation_settings": 3}, "/api/ps": {"models": ["x", 1]}},
            (None, True, True),
        ),
    ],
)
def test_local_server_reports_the_limits_of_its_model(
    models: list[Json], pages: dict[str, Json], expected: tuple[object, ...]
):
    with FakeLLM() as fake:
        fake.models, fake.pages = models, pages
        model = RemoteModel(settings_for(fake))
        traits = model.traits
        has_text_mode = [caveat.code for caveat in traits.caveats] == ["noFunctionCalls"]
        assert (traits.context_window, not has_text_mode, traits.sees_images) == expected
        own = RemoteModel(settings_for(fake, context_window=7, native_tool_calling=True))
        assert (own.traits.context_window, own.traits.caveats) == (7, ())


def test_address_of_a_provider_is_asked_without_a_setting(monkeypatch: pytest.MonkeyPatch):
    with FakeLLM() as fake:
        monkeypatch.setenv("OLLAMA_API_BASE", fake.url.removesuffix("/v1"))
        fake.models = [{"id": "fake"}]
        fake.pages = {"/api/ps": {"models": []}, "/api/show": SHOW}
        assert RemoteModel(LLMSettings(model="ollama_chat/fake")).traits.context_window == 16_384
        [show] = [each for each in fake.lookups if each.method == "POST"]
        assert show.body == {"model": "fake"}


def test_window_is_asked_again_once_the_server_has_loaded_the_model():
    with FakeLLM([say("One."), say("Two."), say("Three.")]) as fake:
        fake.models, fake.pages = [{"id": "fake"}], {"/api/ps": {"models": []}}
        model = RemoteModel(settings_for(fake))
        assert model.traits.context_window is None
        fake.pages["/api/ps"] = {"models": [LOADED]}
        complete(model)
        assert model.traits.context_window == 4096
        n_lookups = len(fake.lookups)
        complete(model)
        assert len(fake.lookups) == n_lookups


WORDS = "The quick brown fox jumps over the lazy dog and runs away. " * 200
"""Some 2,950 tokens by our estimate."""
LONG_TOOL: Json = {
    "type": "function",
    "function": {
        "name": "terminal",
        "description": WORDS[:8000],
        "parameters": {"type": "object", "properties": {}},
    },
}


def _request(text: str, tools: list[Json]) -> ModelRequest:
    return ModelRequest([{"role": "system", "content": text}, *HELLO], tools)


@pytest.mark.parametrize(
    ("text", "tools", "n_counted", "about"),
    [
        ("Be brief. " * 250, [LONG_TOOL], 620, "tools"),
        (WORDS, [LONG_TOOL], 2900, None),
        (WORDS, [TOOL], 1024, "messages"),
        (WORDS, [LONG_TOOL], 1024, "messages"),
        (WORDS, [TOOL], 2100, None),
        (WORDS, [TOOL], 0, None),
        (WORDS, [TOOL], 90_000, None),
        ("Be brief.", [TOOL], 3, None),
        # A tokenizer reads a run of one character as a few tokens.
        ("=" * 40_000 + " " * 40_000 + "0" * 9000, [TOOL], 400, None),
    ],
)
def test_gross_contradiction_in_usage_names_its_likely_cause(
    text: str, tools: list[Json], n_counted: int, about: str | None
):
    caveat = dropped_parts(_request(text, tools), tools, n_counted)
    assert (caveat and caveat.about) == about
    if caveat is not None:
        cause = "nativeToolCalling" if about == "tools" else "num_ctx"
        assert cause in caveat.title
        assert f"{n_counted:,} tokens" in caveat.title


@pytest.mark.parametrize("is_listed", [True, False])
def test_usage_of_a_server_that_reports_its_model_is_compared(is_listed: bool):
    usage = {"prompt_tokens": 12, "completion_tokens": 1}
    with FakeLLM([with_usage(say("Hi."), usage)]) as fake:
        fake.models = [{"id": "fake", "max_model_len": 9000}] * is_listed
        answer = ask(fake, _request(WORDS, [LONG_TOOL]))
    assert [caveat.code for caveat in answer.caveats] == ["requestCut"] * is_listed


@pytest.mark.parametrize(
    ("address", "setting", "expected"),
    [
        (None, None, 120),
        ("https://api.example.com/v1", None, 120),
        ("http://127.0.0.1:8080/v1", None, 1200),
        ("http://gpu-box:8000/v1", None, 1200),
        ("http://127.0.0.1:8080/v1", 7, 7),
    ],
)
def test_patience_for_the_first_token_depends_on_the_place_of_the_server(
    address: str | None, setting: float | None, expected: float
):
    settings = LLMSettings(model="m", first_token_timeout_s=setting)
    assert expected - 5 < AttemptDeadlines(settings, address).left_s() <= expected


@pytest.mark.parametrize(
    ("model", "address", "price"),
    [
        ("openai/qwen3-coder", "http://localhost:8080/v1", 0),
        ("hosted_vllm/deepseek-chat", "http://127.0.0.1:8000/v1", 0),
        ("ollama/qwen3:8b", "http://[::1]:11434/v1", 0),
        # Somebody may pay for a machine elsewhere, and a proxy here serves a provider's own models.
        ("openai/qwen3-coder", "http://192.168.1.7:8080/v1", None),
        ("openai/qwen3-coder", "https://models.example.com/v1", None),
        ("openai/gpt-paid", "http://127.0.0.1:4000/v1", 2.0),
        ("litellm_proxy/qwen3", "http://127.0.0.1:4000/v1", None),
        ("openai/gpt-paid", None, 2.0),
    ],
)
def test_model_on_this_machine_costs_nothing_and_others_never_zero(
    model: str, address: str | None, price: float | None
):
    settings = LLMSettings(model=model, base_url=address)
    known_price = input_price(settings, address, TABLE)
    assert known_price == (float("inf") if price is None else price)


@pytest.mark.parametrize(
    ("changes", "cost_usd"),
    [
        ({}, 0.0),
        ({"model": "groq/fake"}, None),
        ({"input_cost_per_token": 1.0, "output_cost_per_token": 1.0}, 110.0),
    ],
)
def test_answer_from_this_machine_has_a_cost_of_zero(changes: Any, cost_usd: float | None):
    with FakeLLM([say("Hi.")]) as fake:
        cost = ask(fake, **changes).usage.cost
    assert (cost and cost.amount) == cost_usd
