"""Profiles, fallbacks and routers: which model is asked, as the endpoint sees it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from fake_llm import FakeLLM, Step, error, say, with_usage
from model_calls import HELLO, complete

from oh_daemon.features.models.models import Models
from oh_daemon.kernel.ports import Json, ModelAnswer, ModelRequest, Retry
from oh_daemon.protocol.errors import (
    ContextWindowExceededError,
    ModelUnavailableError,
    RateLimitError,
)
from oh_daemon.protocol.problems import render_problem
from oh_daemon.protocol.settings import Layer, Settings, merge_settings

OVERFLOW = error(400, "This model's maximum context length is 10 tokens")
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
BLIND = "openai/gpt-audio"
"""A model that is known not to see images."""


@dataclass
class Endpoint:
    """Models that are all behind one fake, which answers by the model that a request names."""

    models: Models
    llm: FakeLLM
    retries: list[Retry] = field(default_factory=list[Retry])

    def ask(self, name: str, request: ModelRequest | None = None) -> ModelAnswer:
        return complete(self.models.model_for(name), request, on_retry=self.retries.append)

    @property
    def requested_models(self) -> list[str]:
        return [request.body["model"] for request in self.llm.requests]


@contextmanager
def endpoint(
    settings: Json,
    answers: Mapping[str, Step] | None = None,
    environment: Mapping[str, str] | None = None,
):
    """Run a fake in which models give their step in `answers`, or else say their own name."""

    def answer(request: Json) -> Step:
        return (answers or {}).get(request["model"]) or say(request["model"])

    with FakeLLM(answer) as fake:
        llm = {"baseUrl": fake.url, "apiKey": "sk-common-0123456789", "maxAttempts": 1}
        actual_settings = {"llm": llm, **settings}
        models = Models(lambda: Settings.model_validate(actual_settings), environment or {})
        yield Endpoint(models, fake)


def profile(model: str, *fallbacks: str, **llm: Any) -> Json:
    return {"model": f"openai/{model}", "fallbacks": fallbacks, "llm": llm}


def test_a_profile_lays_its_settings_over_the_common_ones_and_uses_its_providers_key() -> None:
    settings: Json = {
        "llm": {"temperature": 0.5, "topP": 0.25, "maxAttempts": 1},
        "profiles": {"warm": {"model": "openai/a", "llm": {"temperature": 1.5, "topP": None}}},
    }
    with endpoint({}, environment={"OPENAI_API_KEY": "sk-own-0123456789"}) as at:
        settings["llm"] |= {"baseUrl": at.llm.url, "apiKey": "sk-common-0123456789"}
        at.models = Models(lambda: Settings.model_validate(settings), at.models.variables)
        assert at.ask("warm").model == "openai/a"
        assert at.ask("openai/b").text == "b"
        warm, plain = at.llm.requests
    assert (warm.body["temperature"], warm.body.get("top_p")) == (1.5, None)
    assert (plain.body["temperature"], plain.body["top_p"]) == (0.5, 0.25)
    assert warm.headers["authorization"] == "Bearer sk-own-0123456789"
    assert plain.headers["authorization"] == "Bearer sk-common-0123456789"


@pytest.mark.parametrize("refusal", [error(500), error(401), error(404), error(429), error(400)])
def test_a_fallback_answers_when_the_first_does_not_and_the_first_rests(refusal: Step) -> None:
    profiles = {"work": profile("a", "openai/b", "spare"), "spare": profile("c")}
    with endpoint({"profiles": profiles}, {"a": refusal, "b": refusal}) as at:
        answer = at.ask("work")
        assert (answer.text, answer.model, at.requested_models) == (
            "c",
            "openai/c",
            ["a", "b", "c"],
        )
        retries = [(retry.model, retry.attempt, retry.max_attempts) for retry in at.retries]
        assert retries == [("openai/b", 2, 3), ("spare", 3, 3)]
        assert all("scripted error" in retry.error.message for retry in at.retries)
        assert at.ask("work").text == "c"
        assert at.requested_models[3:] == ["c"]


def test_the_last_error_counts_and_then_all_are_tried_again() -> None:
    with endpoint(
        {"profiles": {"work": profile("a", "openai/b")}}, {"a": error(401), "b": error(429)}
    ) as at:
        for _ in range(2):
            with pytest.raises(RateLimitError):
                at.ask("work")
        assert at.requested_models == ["a", "b"] * 2


def test_an_overflow_goes_to_a_wider_model_only_and_puts_none_to_rest() -> None:
    profiles = {
        "work": profile("a", "narrow", "wide", contextWindow=1000),
        "narrow": profile("b", contextWindow=500),
        "wide": profile("c", contextWindow=2000),
        "stuck": profile("a", "narrow", contextWindow=1000),
    }
    with endpoint({"profiles": profiles}, {"a": OVERFLOW}) as at:
        assert [at.ask("work").text for _ in range(2)] == ["c", "c"]
        with pytest.raises(ContextWindowExceededError):
            at.ask("stuck")
        assert at.requested_models == ["a", "c", "a", "c", "a"]


def test_names_that_lead_back_to_themselves_are_refused_with_the_way() -> None:
    settings = {
        "profiles": {"a": profile("x", "b")},
        "routers": {"b": {"models": ["openai/y", "a"]}},
    }
    with endpoint(settings) as at, pytest.raises(ModelUnavailableError) as error_info:
        at.ask("a")
    assert "a -> b -> a" in error_info.value.message


LONG: list[Json] = [{"role": "user", "content": "x" * 8000}]
SEEN: list[Json] = [{"role": "user", "content": [{"type": "text", "text": "What?"}, IMAGE]}]
PROFILES = {
    "blind": {"model": BLIND},
    "seeing": {**profile("seeing"), "model": "groq/seeing"},
    "small": profile("small", contextWindow=1000, inputCostPerToken=2e-6),
    "large": profile("large", contextWindow=100_000, inputCostPerToken=1e-6),
    "dear": profile("dear", inputCostPerToken=9e-6),
}
RULES = [
    {"use": "small", "purpose": "title"},
    {"use": "dear", "contains": "Think Hard", "minTokens": 2},
    {"use": "seeing", "images": True},
]


def message_output(text: str) -> list[Json]:
    return [{"role": "user", "content": text}]


@pytest.mark.parametrize(
    ("router", "messages", "expected"),
    [
        ({"models": ["blind", "seeing"]}, HELLO, "gpt-audio"),
        ({"models": ["blind", "seeing"]}, SEEN, "seeing"),
        ({"models": ["small", "large"]}, HELLO, "small"),
        ({"models": ["small", "large"]}, LONG, "large"),
        ({"models": ["small"]}, LONG, "small"),
        ({"models": ["dear", "large", "small"], "pick": "cheapest"}, HELLO, "large"),
        ({"models": ["seeing", "dear"], "pick": "cheapest"}, HELLO, "dear"),
        ({"models": ["large"], "rules": RULES}, message_output("please think hard"), "dear"),
        ({"models": ["large"], "rules": RULES}, message_output("think"), "large"),
        ({"models": ["large"], "rules": RULES}, SEEN, "seeing"),
    ],
)
def test_a_router_lets_the_model_answer_that_its_settings_say(
    router: Json, messages: list[Json], expected: str
) -> None:
    with endpoint({"profiles": PROFILES, "routers": {"r": router}}) as at:
        answer = at.ask("r", ModelRequest(messages=messages))
        provider = "groq" if expected == "seeing" else "openai"
        assert (at.requested_models, answer.model) == ([expected], f"{provider}/{expected}")


def test_a_router_looks_at_what_a_call_is_for_and_has_the_widest_window() -> None:
    router = {"models": ["large", "small"], "rules": RULES}
    with endpoint({"profiles": PROFILES, "routers": {"r": router}}) as at:
        at.ask("r", ModelRequest(messages=HELLO, purpose="title"))
        assert at.requested_models == ["small"]
        assert at.models.model_for("r").traits.context_window == 100_000


def test_a_random_router_tries_all_but_keeps_to_one_in_a_conversation() -> None:
    names = [f"openai/{n}" for n in range(4)]
    with endpoint({"routers": {"r": {"models": names, "pick": "random"}}}) as at:
        for n in range(12):
            for _ in range(2):
                at.ask("r", ModelRequest(messages=HELLO, cache_key=f"conversation {n}"))
        pairs = list(zip(at.requested_models[::2], at.requested_models[1::2], strict=True))
    assert all(first == second for first, second in pairs)
    assert len(set(pairs)) > 1


def test_routers_profiles_and_fallbacks_compose() -> None:
    settings = {
        "profiles": {"safe": profile("a", "cheap")},
        "routers": {
            "cheap": {"models": ["openai/b"]},
            "top": {"models": ["safe"]},
        },
    }
    usage = {"prompt_tokens": 5, "completion_tokens": 5}
    with endpoint(settings, {"a": error(503), "b": with_usage(say("b"), usage)}) as at:
        answer = at.ask("top")
    assert (answer.text, answer.model, answer.usage.input_tokens) == ("b", "openai/b", 5)
    assert [retry.model for retry in at.retries] == ["cheap"]


def test_profiles_and_routers_are_offered_first_and_by_kind() -> None:
    settings = {
        "models": ["openai/a"],
        "profiles": {"p": profile("x")},
        "routers": {"r": {"models": ["p"]}},
    }
    with endpoint(settings) as at:
        model_infos = at.models.model_infos()
    assert [(info.id, info.kind, info.label) for info in model_infos[:3]] == [
        ("p", "profile", "p"),
        ("r", "router", "r"),
        ("openai/a", "model", "openai/a"),
    ]


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"profiles": {"p": {"model": "x", "llm": {"apiKey": "sk-1"}}}}, "apiKey does not belong"),
        ({"profiles": {"p": {"model": "x", "llm": {"temperatur": 1}}}}, "temperatur: Extra inputs"),
        ({"profiles": {"p": {}}}, "profiles.p.model"),
        ({"routers": {"r": {"models": []}}}, "routers.r.models"),
        ({"routers": {"r": {"models": ["a"], "rules": [{"use": "b", "when": 1}]}}}, "rules.0.when"),
    ],
)
def test_what_is_wrong_with_a_profile_or_router_is_said(settings: Json, problem: str) -> None:
    merged_settings = merge_settings([Layer("user", settings)])
    [message] = map(render_problem, merged_settings.problems)
    assert problem in message
    assert "sk-1" not in message


@pytest.mark.parametrize("name", ["profiles", "routers"])
def test_a_repository_cannot_name_models(name: str) -> None:
    value: Callable[..., Json] = {"profiles": profile, "routers": lambda m: {"models": [m]}}[name]
    own = Layer("user", {name: {"mine": value("a")}})
    project_layer = Layer("project", {name: {"mine": value("b"), "theirs": value("c")}})
    merged_settings = merge_settings([project_layer, own])
    assert list(getattr(merged_settings.settings, name)) == ["mine"]
    assert merged_settings.problems[0].code == "notFromProject"
