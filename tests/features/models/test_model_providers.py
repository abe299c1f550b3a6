"""The providers that are asked directly: names, addresses, keys, and what each takes otherwise."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fake_llm import FakeLLM, Json, raw, say, with_usage
from model_calls import HELLO, KEY, TOOL, ask, claude, complete

from oh_daemon.features.models.assembly import Assembly
from oh_daemon.features.models.capabilities import find_capabilities
from oh_daemon.features.models.chat import CHAT
from oh_daemon.features.models.dialect import ProviderCall
from oh_daemon.features.models.providers import PROVIDERS, find_provider
from oh_daemon.features.models.remote_model import RemoteModel
from oh_daemon.kernel.ports import ModelRequest
from oh_daemon.protocol.errors import ModelError
from oh_daemon.protocol.llm import LLMSettings
from oh_daemon.protocol.status import Usage

AT_HOME = {name for name, row in PROVIDERS.items() if row.is_at_home_only}
SIGNED = "call_1__thought__c2ln"


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for row in PROVIDERS.values():
        for variable in (*row.addresses_in, *row.keys_in, *row.tokens_in):
            monkeypatch.delenv(variable, raising=False)


def _variables() -> Iterator[tuple[str, str, str]]:
    for name, row in PROVIDERS.items():
        if name not in AT_HOME:
            yield from ((name, address, row.keys_in[0]) for address in row.addresses_in)
            keys = (*row.keys_in[1:], *row.tokens_in)
            yield from ((name, row.addresses_in[0], key) for key in keys)


@pytest.mark.parametrize(("name", "address_in", "key_in"), list(_variables()))
def test_an_address_and_a_key_come_from_the_variables_of_the_provider(
    name: str, address_in: str, key_in: str, monkeypatch: pytest.MonkeyPatch
):
    is_anthropic = name == "anthropic"
    answer = claude(stop="end_turn") if is_anthropic else say("Hello.")
    with FakeLLM([answer]) as fake:
        monkeypatch.setenv(address_in, fake.url.removesuffix("/v1") if is_anthropic else fake.url)
        monkeypatch.setenv(key_in, KEY)
        complete(RemoteModel(LLMSettings(model=f"{name}/some/model", max_attempts=1)))
        [request] = fake.requests
    assert request.path == ("/v1/messages" if is_anthropic else "/v1/chat/completions")
    is_bearer = not is_anthropic or key_in == "ANTHROPIC_AUTH_TOKEN"
    assert request.headers.get("authorization") == (f"Bearer {KEY}" if is_bearer else None)
    assert request.headers.get("x-api-key") == (None if is_bearer else KEY)
    assert request.body["model"] == "some/model"


@pytest.mark.parametrize("name", ["ollama", "ollama_chat", "mistral"])
def test_an_address_without_its_version_is_completed(name: str):
    with FakeLLM([say("Hello.")]) as fake:
        ask(fake, model=f"{name}/m", base_url=fake.url.removesuffix("/v1"))
        assert fake.requests[0].path == "/v1/chat/completions"


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"model": "gpt-x"}, "openai"),
        ({"model": "claude-x"}, "anthropic"),
        ({"model": "m", "customLlmProvider": "groq"}, "groq"),
        ({"model": "groq/openai/gpt-oss-120b"}, "groq"),
        ({"model": "gemini/m"}, "gemini"),
        ({"model": "gemini/m", "baseUrl": "http://a/v1beta"}, None),
        ({"model": "gpt-x", "baseUrl": "http://a/v1"}, None),
        ({"model": "nobody-s"}, None),
        ({"model": "bedrock/claude-x"}, None),
        ({"model": "openai/m", "client": "litellm"}, None),
        ({"model": "openai/m", "apiVersion": "2024-10-21"}, None),
    ],
)
def test_a_name_leads_to_a_row_or_to_litellm(fields: Json, name: str | None):
    table: dict[str, Json] = {
        "gpt-x": {"litellm_provider": "openai"},
        "claude-x": {"litellm_provider": "anthropic"},
    }
    provider = find_provider(LLMSettings.model_validate(fields), table)
    assert (provider and provider.name) == name


def test_a_proxy_of_another_kind_leads_to_litellm(monkeypatch: pytest.MonkeyPatch):
    for proxy in ("socks5://127.0.0.1:9", "https://127.0.0.1:9"):
        monkeypatch.setenv("https_proxy", proxy)
        monkeypatch.setenv("no_proxy", "api.openai.com")
        assert find_provider(LLMSettings(model="groq/m"), {}) is None
        assert find_provider(LLMSettings(model="openai/m"), {}) is not None


def test_the_signatures_of_gemini_go_back_with_their_calls():
    piece: Json = {
        "index": 0,
        "id": "call_1",
        "function": {"name": "terminal", "arguments": "{}"},
        "extra_content": {"google": {"thought_signature": "c2ln"}},
    }
    assembly = Assembly(lambda _: None)
    event: Json = {"choices": [{"delta": {"tool_calls": [piece]}, "finish_reason": "stop"}]}
    for chunk in CHAT.chunks(iter([event])):
        assembly.feed(chunk)
    assert [tool_call.id for tool_call in assembly.answer(Usage()).tool_calls] == [SIGNED]
    calls = [{"id": SIGNED, "type": "function", "function": piece["function"]}]
    settings = LLMSettings(model="gemini/m", top_k=3)
    can = find_capabilities(settings, {})
    messages: list[Json] = [
        *HELLO,
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": SIGNED, "content": "seen"},
    ]
    call = ProviderCall(ModelRequest(messages, [TOOL]), settings, can, PROVIDERS["gemini"])
    body = CHAT.body(call)
    assert body["messages"][1]["tool_calls"][0]["extra_content"] == piece["extra_content"]
    assert body["messages"][2]["tool_call_id"] == SIGNED
    assert "top_k" not in body


def test_parts_of_reasoning_are_reasoning():
    thinking_event = b'{"type":"thinking","thinking":[{"type":"text","text":"Hm."}]}'
    event = b'data: {"choices":[{"delta":{"content":[%b]}}]}\n\n' % thinking_event
    end = b'data: {"choices":[{"delta":{"content":"Yes."},"finish_reason":"stop"}]}\n\n'
    with FakeLLM([raw(event + end)]) as fake:
        answer = ask(fake, model="mistral/m")
    assert (answer.reasoning, answer.text) == ("Hm.", "Yes.")


def test_a_key_that_no_header_can_hold_is_named_but_not_shown():
    with FakeLLM() as fake, pytest.raises(ModelError, match="'authorization'") as error_info:
        ask(fake, api_key="sk-one\ntwo")
    assert "sk-one" not in str(error_info.value)


def test_a_provider_without_the_responses_api_says_so():
    with FakeLLM() as fake, pytest.raises(ModelError, match="no Responses API is known"):
        ask(fake, model="groq/m", api="responses")


def test_tokens_of_reasoning_that_xai_counts_beside_the_output_are_output():
    actual_usage: Json = {
        "prompt_tokens": 10,
        "completion_tokens": 2,
        "total_tokens": 17,
        "completion_tokens_details": {"reasoning_tokens": 5},
    }
    with FakeLLM([with_usage(say("Hello."), actual_usage)]) as fake:
        usage = ask(fake, model="xai/m").usage
    assert (usage.output_tokens, usage.reasoning_tokens) == (7, 5)
