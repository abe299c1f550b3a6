from __future__ import annotations

import threading

import pytest
from fake_llm import FakeLLM, Step, call, cut_step, error, raw, reason, say
from model_calls import complete, retrying

from oh_daemon.common.cancel import Cancelled, CancelToken
from oh_daemon.features.models.attempts import plan_delay_s
from oh_daemon.kernel.ports import ModelDelta, Retry
from oh_daemon.protocol.errors import (
    AuthRequiredError,
    ContextWindowExceededError,
    ModelError,
    ModelUnavailableError,
    NetworkError,
    RateLimitError,
)


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
def test_a_passing_failure_is_tried_again(status: int):
    with FakeLLM([error(status), error(status), say("Done.")]) as fake:
        assert complete(retrying(fake)).text == "Done."
        assert len(fake.requests) == 3


@pytest.mark.parametrize(
    ("step", "kind"),
    [
        (error(400), ModelError),
        (error(401), AuthRequiredError),
        (error(403), AuthRequiredError),
        (error(404), ModelUnavailableError),
        (error(422), ModelError),
        (error(429, "no", code="insufficient_quota"), RateLimitError),
        (error(500, "prompt is too long: 9 tokens > 5 maximum"), ContextWindowExceededError),
    ],
)
def test_a_lasting_failure_is_raised_at_once(step: Step, kind: type[ModelError]):
    with FakeLLM([step, say("Never.")]) as fake:
        with pytest.raises(ModelError) as error_info:
            complete(retrying(fake))
        assert len(fake.requests) == 1
    assert type(error_info.value) is kind
    assert not error_info.value.retryable


@pytest.mark.parametrize(("status", "kind"), [(429, RateLimitError), (503, NetworkError)])
def test_the_last_failure_is_raised_when_no_attempt_is_left(status: int, kind: type[ModelError]):
    with FakeLLM([error(status)] * 4) as fake:
        with pytest.raises(kind):
            complete(retrying(fake, 4))
        assert len(fake.requests) == 4


def test_each_new_attempt_is_announced_before_its_deltas():
    parts: list[ModelDelta | Retry] = []
    broken_step = cut_step(say("Lost."), 500)
    with FakeLLM([broken_step, say("Kept.")]) as fake:
        answer = complete(retrying(fake, 3), on_delta=parts.append, on_retry=parts.append)
    assert answer.text == "Kept."
    lost_delta, retry, last_delta = parts
    assert (lost_delta, last_delta) == (ModelDelta("text", "Lost."), ModelDelta("text", "Kept."))
    assert isinstance(retry, Retry)
    assert (retry.attempt, retry.max_attempts, type(retry.error)) == (2, 3, NetworkError)


@pytest.mark.parametrize("step", [say(""), say(" \n"), reason("Only thoughts."), call("terminal")])
def test_an_answer_without_text_is_an_answer(step: Step):
    """Whoever asks decides what comes of it: the same request gets the same answer again."""
    with FakeLLM([step]) as fake:
        complete(retrying(fake, 4))
        assert len(fake.requests) == 1


@pytest.mark.parametrize(
    "body", [b"", b'data: {"choices": []}\n\n', b"data: {broken\n\n", b"data: [DONE]\n\n"]
)
def test_a_stream_without_an_end_is_tried_again(body: bytes):
    with FakeLLM([raw(body), say("Done.")]) as fake:
        assert complete(retrying(fake)).text == "Done."


@pytest.mark.parametrize(
    ("retry_after_s", "attempt", "jitter", "delay_s"),
    [
        (None, 1, 0.0, 0.5),
        (None, 1, 1.0, 1.0),
        (None, 3, 1.0, 4.0),
        (None, 9, 1.0, 30.0),
        (7.0, 1, 0.3, 7.0),
        (0.0, 3, 0.3, 0.0),
        (3600.0, 1, 0.3, 60.0),
    ],
)
def test_the_delay_is_what_the_provider_asks_or_doubles(
    retry_after_s: float | None, attempt: int, jitter: float, delay_s: float
):
    failure = RateLimitError("slow down", retryable=True, retry_after_s=retry_after_s)
    assert plan_delay_s(failure, attempt, 1.0, jitter) == delay_s


@pytest.mark.parametrize(
    ("header", "delay_s"),
    [("0", 0.0), ("30", 30.0), ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0), ("soon", None)],
)
def test_the_header_retry_after_is_read(header: str, delay_s: float | None):
    limit_step = error(429, headers={"Retry-After": header})
    with FakeLLM([limit_step]) as fake, pytest.raises(RateLimitError) as error_info:
        complete(retrying(fake, 1))
    assert error_info.value.retry_after_s == delay_s


def test_a_cancel_ends_the_wait_for_the_next_attempt():
    cancel, is_waiting = CancelToken(), threading.Event()
    has_ended = threading.Event()

    def turn(model_url: FakeLLM) -> None:
        with pytest.raises(Cancelled):
            complete(retrying(model_url), on_retry=lambda _: is_waiting.set(), cancel=cancel)
        has_ended.set()

    with FakeLLM([error(429, headers={"retry-after": "60"}), say("Never.")]) as fake:
        worker = threading.Thread(target=turn, args=(fake,))
        worker.start()
        assert is_waiting.wait(120)
        cancel.cancel()
        assert has_ended.wait(90)
        worker.join()
        assert len(fake.requests) == 1
