"""Faults of the model layer, each caused over HTTP."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import threading

import pytest
from fake_llm import (
    FakeLLM,
    Step,
    calls,
    chunks,
    cut_step,
    error,
    hang,
    raw,
    raw_call,
    reply,
    say,
    slow,
    stream_parts,
)
from model_calls import KEY, ask, complete, settings_for

from oh_daemon.common.cancel import Cancelled, CancelToken
from oh_daemon.conformance.rpc_process import WITHIN_S
from oh_daemon.features.models.failures import CallFailure, explain
from oh_daemon.features.models.remote_model import RemoteModel
from oh_daemon.kernel.ports import ModelDelta
from oh_daemon.protocol.errors import (
    AuthRequiredError,
    ContextWindowExceededError,
    ModelError,
    ModelUnavailableError,
    NetworkError,
    RateLimitError,
)
from oh_daemon.protocol.llm import LLMSettings

BOTH_WAYS = pytest.mark.parametrize("client", ["auto", "litellm"])
"""Asked directly, and through litellm's process."""


@pytest.mark.parametrize("url", ["http://127.0.0.1:{port}/v1", "http://no-such-host.invalid/v1"])
def test_an_unreachable_endpoint_is_named_and_worth_another_attempt(url: str):
    # The port is taken, so that nobody else can listen there, but nobody listens.
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        url = url.format(port=deaf.getsockname()[1])
        with FakeLLM() as fake, pytest.raises(NetworkError) as error_info:
            ask(fake, base_url=url)
    assert error_info.value.retryable
    assert error_info.value.message.startswith(f"{url} cannot be reached: cannot connect to host ")
    assert not re.search("object at|ssl:|Connect call", error_info.value.message)
    assert "llm.baseUrl" in str(error_info.value.hint)


@pytest.mark.parametrize(
    ("url", "address", "expected_text", "way_out"),
    [
        (
            "http://a.b/v1",
            "10.0.0.1:3128 ssl:default [Connect call failed (1, 2)]",
            "",
            "NO_PROXY=a.b",
        ),
        ("http://[::1]:9", "::1:9 ssl:<ssl.SSLContext object at 0x7f>", "", "llm.baseUrl"),
        ("https://a.b", "a.b:443 ssl:True [No such host]", " (No such host)", "llm.baseUrl"),
        (
            "https://a.b",
            "a.b:443 ssl:True [SSLError: (1, '[SSL: FAILED] self-signed certificate (_ssl.c:9)')]",
            " (self-signed certificate)",
            "SSL_CERT_FILE",
        ),
    ],
    ids=["proxy", "refused", "no host", "certificate"],
)
def test_what_a_library_says_of_a_connection_is_said_for_people(
    url: str, address: str, expected_text: str, way_out: str
):
    failure = CallFailure(f"Cannot connect to host {address}")
    message = explain(failure, LLMSettings(model="openai/fake", base_url=url))
    host = address.partition(" ")[0]
    assert (
        message.message == f"{url} cannot be reached: cannot connect to host {host}{expected_text}"
    )
    assert way_out in str(message.hint)


def test_a_page_of_a_gateway_is_shown_without_its_markup():
    page = "<html><style>a {}</style><body><h1>Bad\n Gateway</h1></body></html>"
    message = explain(CallFailure(page, 502), LLMSettings(model="openai/fake", base_url="http://a"))
    assert message.message == "http://a answered HTTP 502: Bad Gateway"


@pytest.mark.parametrize(
    ("model", "message", "expected_text"),
    [
        ("anthropic/claude-x", b"exceeds your organization's limit", None),
        ("anthropic/claude-x", "limit of \u20ac 5".encode(), None),
        ("gemini/gemini-x", b"the project's quota", None),
        ("openai/fake", b"two\nlines", "two lines"),
        ("openai/fake", rb"half a \ud83d", "half a \ufffd"),
        ("openai/fake", rb"C:\x", r'{"error":{"message":"C:\x"}}'),
    ],
)
def test_the_words_of_a_provider_are_shown_however_they_are_quoted(
    model: str, message: bytes, expected_text: str | None
):
    body = b'{"error":{"message":"%s"}}' % message
    limit_reply = reply(429, body, {"content-type": "application/json"})
    with FakeLLM([limit_reply]) as fake, pytest.raises(RateLimitError) as error_info:
        ask(fake, model=model)
    assert error_info.value.retryable
    assert error_info.value.message.endswith(
        f" answered HTTP 429: {expected_text or message.decode()}"
    )


def test_an_endpoint_without_tls_is_an_error_of_the_network():
    with FakeLLM([say("Never.")]) as fake, pytest.raises(NetworkError) as error_info:
        ask(fake, base_url=fake.url.replace("http:", "https:"))
    assert error_info.value.retryable


@pytest.mark.parametrize(
    ("step", "kind", "setting"),
    [
        (error(401, f"Incorrect API key provided: {KEY}"), AuthRequiredError, "OPENAI_API_KEY"),
        (error(403, f"Bearer {KEY} is not allowed"), AuthRequiredError, "OPENAI_API_KEY"),
        (error(404, "no such model"), ModelUnavailableError, "`model`"),
    ],
)
@BOTH_WAYS
def test_a_refusal_names_the_setting_and_never_the_key(
    step: Step, kind: type[ModelError], setting: str, client: str
):
    with FakeLLM([step]) as fake, pytest.raises(kind) as error_info:
        ask(fake, client=client)
    assert setting in str(error_info.value.hint)
    assert KEY not in f"{error_info.value!r} {error_info.value.hint} {error_info.value.__cause__!r}"
    assert not error_info.value.retryable


def test_a_model_without_a_provider_is_told_how_to_write_it():
    with FakeLLM() as fake, pytest.raises(ModelUnavailableError, match="'nonsense'") as error_info:
        ask(fake, model="nonsense", base_url=None)
    assert "provider/name" in str(error_info.value.hint)


@pytest.mark.parametrize(("is_clean", "stride"), [(True, 1), (False, 11)])
def test_a_call_cut_at_any_byte_is_never_an_answer(is_clean: bool, stride: int):
    step = raw_call("terminal", '{"command": "rm -r build"}', n_chunks=2)
    # Drop what every event of a stream repeats, which leaves fewer places to cut at.
    repeated_head = re.compile(rb'"id":"chatcmpl-0".*?"model":"fake",')
    body = repeated_head.sub(b"", b"".join(stream_parts(step, include_usage=False)))
    n_before_end = body.index(b'"finish_reason":"tool_calls"}]}') + len(b'"finish_reason":"tool_')
    cuts = range(0, n_before_end, stride)
    lengths = iter(cuts)
    with FakeLLM(lambda _: cut_step(raw(body), next(lengths), clean=is_clean)) as fake:
        model = RemoteModel(settings_for(fake, max_attempts=1))
        for _ in cuts:
            with pytest.raises(NetworkError) as error_info:
                complete(model)
            assert error_info.value.retryable


def test_arguments_that_are_no_json_come_through_as_written():
    with FakeLLM([raw_call("../rm", '{"command": ')]) as fake:
        [tool_call] = ask(fake).tool_calls
    assert (tool_call.name, tool_call.arguments) == ("../rm", '{"command": ')


@BOTH_WAYS
def test_a_first_token_that_does_not_come_has_a_deadline_and_the_socket_closes(client: str):
    for step in (hang(), hang(say("Some."))):
        with FakeLLM(lambda _, step=step: step) as fake:
            # On a busy machine the time may be up before the request is sent.
            while not fake.requests:
                with pytest.raises(NetworkError, match=r"nothing came .* for 1 s") as error_info:
                    ask(fake, first_token_timeout_s=1, client=client)
                assert error_info.value.retryable
            assert fake.requests[0].close_event.wait(WITHIN_S)


def test_an_answer_that_drips_has_a_total_deadline():
    with FakeLLM([slow(chunks(10_000), 0.02)]) as fake:
        with pytest.raises(NetworkError, match=r"longer than 1 s") as error_info:
            ask(fake, timeout_s=1)
        assert not error_info.value.retryable
        assert fake.wait_for_requests(1)[0].close_event.wait(WITHIN_S)


@pytest.mark.parametrize(
    "step",
    [
        error(400, "This model's maximum context length is 100 tokens."),
        error(400, "no", code="context_length_exceeded"),
        error(413, "Request Entity Too Large"),
        error(500, "litellm.BadRequestError: prompt is too long: 210000 tokens > 200000 maximum"),
        raw(b'data: {"error": {"message": "input is too long for the context window"}}\n\n'),
    ],
)
def test_a_prompt_that_does_not_fit_is_recognized(step: Step):
    with FakeLLM([step]) as fake, pytest.raises(ContextWindowExceededError) as error_info:
        ask(fake)
    assert not error_info.value.retryable


@BOTH_WAYS
def test_an_error_inside_the_stream_is_an_error(client: str):
    event = b'data: {"error": {"message": "Overloaded", "code": 529}}\n\n'
    step = raw(stream_parts(say("Some."))[1] + event)
    with (
        FakeLLM([step]) as fake,
        pytest.raises(NetworkError, match="529: Overloaded") as error_info,
    ):
        ask(fake, client=client)
    assert error_info.value.retryable


def test_text_that_is_no_utf8_or_no_unicode_stays_sendable():
    body = b"".join(stream_parts(calls(say("A?B"), say("\ud83d"), say("C"))))
    with FakeLLM([raw(body.replace(b"A?B", b"A\xff\xfeB"))]) as fake:
        answer = ask(fake)
    assert answer.text == "A\ufffd\ufffdB\ufffdC"
    json.dumps(answer.text, ensure_ascii=False).encode()


def test_event_that_is_cut_is_a_failed_attempt_since_it_may_hold_a_part_of_a_call():
    body = b'data: {"choices": [{"del\n\n' + b"".join(stream_parts(say("Hello.")))
    broken_stream = pytest.raises(NetworkError, match="broken event")
    with FakeLLM([raw(body)]) as fake, broken_stream as error_info:
        ask(fake)
    assert error_info.value.retryable


def test_a_delta_of_ten_megabytes_is_whole():
    with FakeLLM([say("ab" * 5_000_000)]) as fake:
        assert len(ask(fake).text) == 10_000_000


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_not_followed(status: int):
    with FakeLLM([say("Stolen.")]) as other_server:
        redirect = reply(status, b"", {"location": f"{other_server.url}/chat/completions"})
        with FakeLLM([redirect]) as fake, pytest.raises(ModelError) as error_info:
            ask(fake)
        assert other_server.requests == []
    assert not error_info.value.retryable
    assert "redirects" in str(error_info.value.hint)


@BOTH_WAYS
def test_a_redirect_of_another_dialect_is_not_followed(client: str):
    with FakeLLM([say("Stolen.")]) as other_server:
        redirect = reply(307, b"", {"location": f"{other_server.url}/v1/messages"})
        with FakeLLM([redirect]) as fake, pytest.raises(ModelError):
            ask(fake, model="anthropic/claude-x", client=client)
        assert other_server.requests == []


@pytest.mark.parametrize(
    "step",
    [
        reply(200, b"<html>Log in</html>", {"content-type": "text/html; charset=utf-8"}),
        reply(200, {"detail": "Log in"}),
    ],
)
def test_a_page_instead_of_an_answer_is_an_error_that_shows_it(step: Step):
    with FakeLLM([step]) as fake, pytest.raises(ModelError, match="Log in") as error_info:
        ask(fake)
    assert not error_info.value.retryable


@pytest.mark.parametrize("step", [hang(), hang(say("Some.")), slow(chunks(100_000), 0.001)])
@BOTH_WAYS
def test_a_cancel_ends_the_call_and_closes_the_socket(step: Step, client: str):
    cancel, has_ended, has_begun = CancelToken(), threading.Event(), threading.Event()

    def on_delta(_: ModelDelta) -> None:
        has_begun.set()

    def turn(fake: FakeLLM) -> None:
        with pytest.raises(Cancelled):
            ask(fake, on_delta=on_delta, cancel=cancel, client=client)
        has_ended.set()

    with FakeLLM([step]) as fake:
        worker = threading.Thread(target=turn, args=(fake,))
        worker.start()
        [request] = fake.wait_for_requests(1)
        assert step.hang_after == 0 or has_begun.wait(WITHIN_S)
        cancel.cancel()
        assert has_ended.wait(WITHIN_S)
        worker.join()
        assert request.close_event.wait(WITHIN_S)


def test_a_call_that_was_cancelled_before_it_began_sends_nothing():
    cancel = CancelToken()
    cancel.cancel()
    with FakeLLM([say("Never.")]) as fake:
        with pytest.raises(Cancelled):
            ask(fake, cancel=cancel)
        assert ask(fake).text == "Never."
        assert len(fake.requests) == 1


def test_an_error_of_the_listener_ends_the_call():
    def on_delta(_: ModelDelta) -> None:
        raise LookupError("the listener broke")

    with FakeLLM([hang(say("Some."))]) as fake:
        with pytest.raises(LookupError):
            ask(fake, on_delta=on_delta)
        assert fake.wait_for_requests(1)[0].close_event.wait(WITHIN_S)


@pytest.mark.full
def test_a_process_for_litellm_that_cannot_be_started_is_a_failure_that_may_pass() -> None:
    code = """
import resource
from oh_daemon.protocol.errors import NetworkError
from oh_daemon.protocol.llm import LLMSettings
from oh_daemon.features.models.litellm_calls import litellm_provider_of
before = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (3, before[1]))
try:
    litellm_provider_of(LLMSettings(model="bedrock/any"))
except NetworkError as exc:
    print(exc, exc.retryable)
resource.setrlimit(resource.RLIMIT_NOFILE, before)
print(litellm_provider_of(LLMSettings(model="bedrock/any")))
"""
    argv = [sys.executable, "-c", code]
    outcome = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=120)
    message = "the process in which litellm runs cannot be started: Too many open files True\n"
    assert (outcome.stdout, outcome.stderr) == (f"{message}bedrock\n", "")
