"""The direct way to a model beside the way through litellm: the same requests, the same answers.

What differs is in a table with its reason, and a row of it that nothing needs any more fails.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from fake_llm import FakeLLM, Json, error, raw
from model_calls import KEY, ask
from model_corpus import SETTINGS, conversations, everything, user
from model_streams import WHOLE, recorded_streams
from msgspec.structs import replace

from oh_daemon.features.models.anthropic import ANTHROPIC
from oh_daemon.features.models.assembly import Assembly
from oh_daemon.features.models.chat import CHAT
from oh_daemon.features.models.dialect import Dialect
from oh_daemon.features.models.failures import unreachable
from oh_daemon.features.models.prices import read_usage
from oh_daemon.features.models.responses import RESPONSES
from oh_daemon.features.models.stream_events import read_events
from oh_daemon.kernel.ports import ModelAnswer, ModelRequest
from oh_daemon.protocol.errors import ModelError, NetworkError
from oh_daemon.protocol.llm import LLMSettings
from oh_daemon.protocol.status import Usage

# litellm's own use of pydantic causes these warnings.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Items? .* on TypedDict class"),
    pytest.mark.filterwarnings("ignore:Accessing the 'model_"),
]
ABSENT = "(absent)"
HEADERS = re.compile("anthropic-|authorization|x-api-key|content-type")


@dataclass(frozen=True)
class Difference:
    """Where both ways differ: patterns of the model's name, the case and the place in the body."""

    model: str
    case: str
    place: str
    reason: str


DIFFERENCES: Sequence[Difference] = (
    Difference(
        "anthropic/.*",
        "half a surrogate pair",
        "/messages/1/content/0/input/command",
        "strict JSON has no such value, and the API would refuse the conversation for good",
    ),
    Difference(
        "anthropic/.*",
        "more fields",
        "/(seed|metadata|extra_body)",
        "litellm sends them inside a field that the API does not know",
    ),
    Difference(
        "anthropic/claude-(opus-4-6|next-9) .*",
        "effort xhigh",
        "",
        "litellm refuses an effort that its table does not name; the provider knows best",
    ),
    Difference(
        "anthropic/claude-next-9 .*",
        ".*",
        "/max_tokens",
        "litellm's limit for a Claude not in its table is 4,096, its rule for the family 64,000",
    ),
    Difference(
        "anthropic/.*",
        "a tool with an old schema",
        "/tools/0/input_schema/.*",
        "litellm puts definitions where they are named; under their new name they mean the same",
    ),
    Difference(
        "openai/o3 responses",
        "sampling",
        "/(temperature|top_p)",
        "the API refuses both for models that always reason",
    ),
    Difference(
        "openai/o3 chat",
        ".*",
        "/messages/0/role",
        "litellm makes it the user's words; the API takes a system prompt as a developer's",
    ),
    Difference("openai/o3 chat", "in text", "/stop", "models that always reason refuse it"),
    Difference(
        "openai/gpt-5.4 chat",
        "effort .*",
        ".*",
        "litellm uses the Responses API then, though the settings say which API to use",
    ),
    Difference(
        "deepseek/.*",
        "effort x?high",
        "/messages/[0-9]+/reasoning_content",
        "the API demands it while it thinks, also of a model that litellm's table has as silent",
    ),
    Difference(
        "(mistral|together_ai|fireworks_ai|hosted_vllm)/.*",
        ".*",
        "/messages/[0-9]+/thinking_blocks",
        "the blocks are of this very model, so only a server that sends them gets them back",
    ),
    Difference(
        "fireworks_ai/.*",
        "must call",
        "/tool_choice",
        "litellm drops it for models not in its table, and then the model need not call",
    ),
    Difference(
        "hosted_vllm/.*",
        ".*",
        "/tools/.*/additionalProperties",
        "litellm takes it out of every schema for Gemini's sake; vLLM understands it",
    ),
)

MAIN = (
    ("anthropic/claude-sonnet-4-5", None),
    ("openai/gpt-5.4", "responses"),
    ("openai/gpt-4o", "chat"),
)
"""A model of each dialect that is asked the whole corpus, with the API to ask it by."""
OTHERS = (
    ("anthropic/claude-fable-5-1", None),
    ("anthropic/claude-opus-4-6", None),
    ("anthropic/claude-next-9", None),
    ("anthropic/somebody-elses", None),
    ("openai/o3", "responses"),
    ("openai/o3", "chat"),
    ("openai/gpt-5.4", "chat"),
    ("openai/my-own", "chat"),
    ("openrouter/anthropic/claude-sonnet-4.5", "chat"),
    ("deepseek/deepseek-chat", "chat"),
    ("mistral/mistral-large-latest", "chat"),
    ("xai/grok-4", "chat"),
    ("groq/openai/gpt-oss-120b", "chat"),
    ("together_ai/somebody/model", "chat"),
    ("fireworks_ai/accounts/fireworks/models/somebodys", "chat"),
    ("lm_studio/somebodys", "chat"),
    ("hosted_vllm/somebodys", "chat"),
    ("llamafile/somebodys", "chat"),
)
"""Models that are asked one conversation of everything, with a few settings."""
FEW = {"no setting", "sampling", "in text", "a limit", "effort none", "effort high", "effort xhigh"}


def cases() -> Iterator[tuple[str, str | None, str, ModelRequest, Json]]:
    for model, api in MAIN:
        for name, request in conversations(model).items():
            yield model, api, name, request, {}
    odd = conversations("openai/gpt-4o")["a tool with an odd schema"]
    yield "openai/gpt-4o", "responses", "a tool with an odd schema", odd, {}
    for model, api in (*MAIN, *OTHERS):
        request = everything(model)
        yield model, api, "must call", replace(request, tool_choice="required"), {}
        for name, settings in SETTINGS.items():
            if name in FEW or (model, api) in MAIN:
                yield model, api, name, request, settings


@pytest.mark.full
def test_every_request_is_the_same_both_ways_but_for_the_differences_listed() -> None:
    unused_keys, unexplained_keys = set(DIFFERENCES), list[str]()
    with FakeLLM(lambda _: error(400, "enough")) as fake:
        for model, api, case, request, settings in cases():
            bodies = [
                send_both_ways(fake, request, model=model, api=api, client=client, **settings)
                for client in ("auto", "litellm")
            ]
            for place, own_value, litellm_value in differences(bodies[0], bodies[1]):
                match = [
                    row
                    for row in DIFFERENCES
                    if re.fullmatch(row.model, f"{model} {api}")
                    and re.fullmatch(row.case, case)
                    and re.fullmatch(row.place, place)
                ]
                unused_keys.difference_update(match)
                if not match:
                    values = f"{own_value!a:.200} | {litellm_value!a:.200}"
                    unexplained_keys.append(f"{model} {api} | {case} | {place} | {values}")
    assert unexplained_keys == []
    assert unused_keys == set()


def send_both_ways(fake: FakeLLM, request: ModelRequest, **settings: Any) -> Json | None:
    """Return the body of the request; None when none was sent."""
    n_before = len(fake.requests)
    with pytest.raises(ModelError):
        ask(fake, request, **settings)
    requests = fake.requests[n_before:]
    return requests[0].body if requests else None


def differences(
    own_value: Any, litellm_value: Any, place: str = ""
) -> Iterator[tuple[str, Any, Any]]:
    match own_value, litellm_value:
        case dict(), dict():
            for name in {**own_value, **litellm_value}:
                pair = (own_value.get(name, ABSENT), litellm_value.get(name, ABSENT))
                yield from differences(*pair, f"{place}/{name}")
        case list(), list() if len(own_value) == len(litellm_value):
            for n, pair in enumerate(zip(own_value, litellm_value, strict=True)):
                yield from differences(*pair, f"{place}/{n}")
        case _ if own_value != litellm_value:
            yield place, own_value, litellm_value
        case _:
            pass


@pytest.mark.parametrize(
    ("model", "key"),
    [
        ("anthropic/claude-sonnet-4-5", KEY),
        ("anthropic/claude-sonnet-4-5", "sk-ant-oat01-0123456789abcdefghijklmn"),
        ("openai/gpt-4o", KEY),
    ],
)
def test_a_key_is_in_the_same_headers_both_ways(model: str, key: str) -> None:
    with FakeLLM(lambda _: error(400, "enough")) as fake:
        for client in ("auto", "litellm"):
            send_both_ways(
                fake, ModelRequest([user("Hello.")]), model=model, api_key=key, client=client
            )
        own_headers, litellm_headers = (
            {name: value for name, value in request.headers.items() if HEADERS.match(name)}
            for request in fake.requests
        )
    assert own_headers == litellm_headers


# Answers

DIALECTS: Mapping[str, tuple[Dialect, str]] = {
    "anthropic": (ANTHROPIC, "anthropic/claude-sonnet-4-5"),
    "chat": (CHAT, "openai/gpt-4o"),
    "responses": (RESPONSES, "openai/gpt-4o"),
}
Outcome = ModelAnswer | tuple[type[ModelError], bool]
"""An answer, or the kind of error and whether another attempt is worth it."""
OTHER_OUTCOMES: Mapping[tuple[str, str], str] = {
    ("anthropic", "cut in event -1"): "an event that is no JSON is an error wherever it is",
    ("anthropic", "error after the end"): "litellm reads no further than the stop reason",
    ("anthropic", "error rate_limit_error"): "to litellm, every error in a stream is the server's",
    ("anthropic", "error invalid_request_error"): "the same, and trying again would not help",
    ("anthropic", "stop pause_turn"): "litellm makes it a stop, though the answer is not complete",
    ("anthropic", "an event that is no object"): "it holds no part of an answer",
    ("anthropic", "a delta without its text"): "the same; litellm breaks at it",
    ("anthropic", "a call as a whole"): "litellm loses the arguments",
}
"""The dialect and the name of recorded streams that mean something else each way, and why."""


def test_every_recorded_stream_means_the_same_both_ways_but_for_those_listed() -> None:
    script = list(recorded_streams())
    bodies = [raw(body) for _, _, body in script for _ in range(2)]
    other_values = dict[tuple[str, str], str]()
    with FakeLLM(bodies) as fake:
        for dialect, name, _ in script:
            own_outcome, litellm_outcome = (
                outcome(fake, dialect, client) for client in ("auto", "litellm")
            )
            if own_outcome != litellm_outcome:
                other_values[dialect, name] = f"{own_outcome!a} | {litellm_outcome!a}"
    assert {key: value for key, value in other_values.items() if key not in OTHER_OUTCOMES} == {}
    assert {key for key in OTHER_OUTCOMES if key not in other_values} == set()


def outcome(fake: FakeLLM, dialect: str, client: str) -> Outcome:
    api = None if dialect == "anthropic" else dialect
    try:
        answer = ask(fake, model=DIALECTS[dialect][1], api=api, client=client)
    except ModelError as exc:
        return type(exc), exc.retryable
    # litellm makes up its own ids.
    return replace(answer, response_id=None)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_answer_in_pieces_of_any_size_is_the_same_and_cut_anywhere_it_is_none(dialect: str):
    events = WHOLE[dialect]()
    body = b"".join(events)
    full_answer = read(dialect, [body])
    assert isinstance(full_answer, ModelAnswer)
    # In a chat completion the usage follows the finish reason, so a cut may lose just that.
    complete = (full_answer, replace(full_answer, usage=Usage(requests=1)))
    assert read(dialect, [bytes([byte]) for byte in body]) == full_answer
    for n in range(len(body)):
        assert read(dialect, [body[:n]]) in (*complete, (NetworkError, True))


def read(dialect: str, pieces: Sequence[bytes]) -> Outcome:
    assembly = Assembly(lambda _: None)
    settings = LLMSettings(model=DIALECTS[dialect][1])
    try:
        events = read_events("text/event-stream", iter(pieces), settings)
        for chunk in DIALECTS[dialect][0].chunks(events):
            assembly.feed(chunk)
        if not assembly.is_complete:
            raise unreachable("the answer ended early")
    except ModelError as exc:
        return type(exc), exc.retryable
    return assembly.answer(read_usage(assembly.usage, lambda _: None))
