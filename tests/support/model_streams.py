"""Recorded answers of models in each dialect: whole, broken, cut, and in odd forms."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence

from fake_llm import Json, calls, raw_call, reason, say, stream_parts
from fake_responses import response_parts
from model_calls import anthropic, anthropic_block

TEXT = "A\u2028B [DONE]"
_A, _B = raw_call("a", '{"x": "é"}', call_id="call_a"), raw_call("b", '{"y": 1}', call_id="call_b")
_ANSWER = calls(reason("let me see"), say(TEXT), _A, _B)


def _data(**event: object) -> bytes:
    return f"data: {json.dumps(event)}\n\n".encode()


def _events_of(body: bytes) -> list[bytes]:
    return [part + b"\n\n" for part in body.split(b"\n\n") if part]


# Whole answers, one event per element


def _anthropic() -> list[bytes]:
    pieces = [{"type": "input_json_delta", "partial_json": p} for p in ('{"x": ', '"é"}')]
    number = {"type": "input_json_delta", "partial_json": '{"y": 1}'}
    think = [{"type": "thinking_delta", "thinking": piece} for piece in ("let me", " see")]
    seal = {"type": "signature_delta", "signature": "c2ln"}
    body = b"".join(
        [
            _start(input_tokens=10, cache_read_input_tokens=50, cache_creation_input_tokens=5),
            anthropic("ping"),
            anthropic_block(0, {"type": "thinking", "thinking": ""}, *think, seal),
            anthropic_block(1, {"type": "redacted_thinking", "data": "b3BhcXVl"}),
            _text_event(TEXT),
            anthropic_block(3, _tool("a"), *pieces),
            anthropic_block(4, _tool("b"), number),
            _stop("tool_use", output_tokens=20),
        ]
    )
    return _events_of(body)


def _start(**usage: int | None) -> bytes:
    message: Json = {"id": "msg_1", "type": "message", "role": "assistant", "content": []}
    return anthropic("message_start", message={**message, "model": "claude", "usage": usage})


def _text_event(text: str) -> bytes:
    delta = {"type": "text_delta", "text": text}
    return anthropic_block(2, {"type": "text", "text": ""}, delta)


def _tool(name: str, **args: object) -> Json:
    return {"type": "tool_use", "id": f"toolu_{name}", "name": name, "input": args}


def _stop(reason: str | None, **usage: object) -> bytes:
    delta = {"stop_reason": reason, "stop_sequence": None}
    return anthropic("message_delta", delta=delta, usage=usage) + anthropic("message_stop")


def _chat() -> list[bytes]:
    return stream_parts(_ANSWER)


def _responses() -> list[bytes]:
    usage = {"prompt_tokens": 65, "completion_tokens": 20}
    parts = response_parts(_ANSWER.deltas, "tool_calls", usage, 0)
    return _events_of(b"".join(parts))


WHOLE: Mapping[str, Callable[[], list[bytes]]] = {
    "anthropic": _anthropic,
    "chat": _chat,
    "responses": _responses,
}

# Others


def _anthropics() -> Mapping[str, bytes]:
    start = _start(input_tokens=10, output_tokens=1)
    end = _stop("end_turn", output_tokens=20)
    errors = ("overloaded_error", "rate_limit_error", "invalid_request_error", "api_error")
    late: Json = {"input_tokens": 7, "output_tokens": 2, "cache_read_input_tokens": None}
    stops = ("max_tokens", "stop_sequence", "refusal", "pause_turn", "tool_use", None)
    thoughts = [
        anthropic_block(
            n,
            {"type": "thinking", "thinking": ""},
            {"type": "thinking_delta", "thinking": f"{n}"},
            {"type": "signature_delta", "signature": f"SIG{n}"},
        )
        for n in range(2)
    ]
    halves = [b"data: " + json.dumps(_half(half)).encode() + b"\n\n" for half in "\ud83d\ude00"]
    return {
        **{f"error {kind}": start + _text_event("a") + _error(kind, "Oh no.") for kind in errors},
        "error about the length": start + _error("invalid_request_error", "prompt is too long"),
        "error at once": _error("overloaded_error", "Overloaded"),
        "error after the end": start
        + _text_event("a")
        + end
        + _error("overloaded_error", "Overloaded"),
        **{
            f"stop {stop}": start + _text_event("a") + _stop(stop, output_tokens=2)
            for stop in stops
        },
        "usage last": _start() + _text_event("a") + _stop("end_turn", **late),
        "usage of thinking": start
        + _text_event("a")
        + _stop("end_turn", output_tokens=9, output_tokens_details={"thinking_tokens": 4}),
        "no text": start + end,
        "no pieces of a call": start + anthropic_block(0, _tool("a")) + end,
        "a call as a whole": start + anthropic_block(0, _tool("a", x=1)) + end,
        "two thoughts": start + b"".join(thoughts) + _text_event("a") + end,
        "halves of a character": start + b"".join(halves) + end,
        "a delta without its text": start + _data(type="content_block_delta", index=0) + end,
    }


def _half(half: str) -> Json:
    delta = {"type": "text_delta", "text": half}
    return {"type": "content_block_delta", "index": 0, "delta": delta}


def _error(kind: str, message: str) -> bytes:
    return anthropic("error", error={"type": kind, "message": message})


def _chats() -> Mapping[str, bytes]:
    start, *middle, usage, last_chunk = _chat()
    problem = _data(error={"message": "Oh no.", "type": "server_error", "code": None})
    return {
        "usage first": b"".join([start, usage, *middle, last_chunk]),
        "no usage": b"".join([start, *middle, last_chunk]),
        "no end mark": b"".join([start, *middle, usage]),
        "an error in the middle": b"".join(
            [start, middle[0], problem, *middle[1:], usage, last_chunk]
        ),
        "an error for too many": start + _data(error={"message": "Wait.", "code": 429}),
        "an error about the length": start
        + _data(error={"message": "Long.", "code": "context_length_exceeded"}),
    }


def _responses_others() -> Mapping[str, bytes]:
    start = _responses()[0]
    failure = {"id": "r", "error": {"code": "rate_limit_exceeded", "message": "Wait."}}
    partial = {"id": "r", "incomplete_details": {"reason": "max_output_tokens"}}
    text_event = _data(type="response.output_text.delta", output_index=0, delta="a")
    return {
        "failed": start + _data(type="response.failed", response=failure),
        "error": start + _data(type="error", message="Oh.", code="server_error"),
        "incomplete": start + text_event + _data(type="response.incomplete", response=partial),
        "no usage": start + text_event + _data(type="response.completed", response={"id": "r"}),
        "a delta without its text": start + _data(type="response.output_text.delta"),
    }


_OTHERS: Mapping[str, Callable[[], Mapping[str, bytes]]] = {
    "anthropic": _anthropics,
    "chat": _chats,
    "responses": _responses_others,
}


def recorded_streams() -> Iterator[tuple[str, str, bytes]]:
    """Yield the dialect, a name and the body of each stream."""
    for dialect, make in WHOLE.items():
        first, *remaining = events = make()
        body = b"".join(events)
        streams = {
            "whole": body,
            "CRLF": body.replace(b"\n", b"\r\n"),
            "keep-alives": body.replace(b"\n\n", b"\n\n: still here\n\n"),
            "nothing": b"",
            "an event of another kind": first
            + _data(type="news", choices=[])
            + b"".join(remaining),
            "an event that is no JSON": first + b"data: {\n\n" + b"".join(remaining),
            "an event that is no object": first + b"data: 5\n\n" + b"".join(remaining),
            **_cut_streams(events),
            **_OTHERS[dialect](),
        }
        for name, stream in streams.items():
            yield dialect, name, stream


def _cut_streams(events: Sequence[bytes]) -> Mapping[str, bytes]:
    """Cut between events and in each; whatever reads lines gets the same from any other cut."""
    streams = dict[str, bytes]()
    for n, event in enumerate(events):
        before = b"".join(events[:n])
        streams[f"cut before event {n - len(events)}"] = before
        streams[f"cut in event {n - len(events)}"] = before + event[: len(event) * 2 // 3]
    return streams
