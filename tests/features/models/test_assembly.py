"""Answers are read by their structure, however a server numbers, names and cuts their pieces."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from fake_llm import FakeLLM, raw, say, stream_parts
from hypothesis import example, given, settings
from hypothesis import strategies as st
from model_calls import anthropic, ask

from oh_daemon.features.models.assembly import Assembly
from oh_daemon.kernel.ports import Json, ModelAnswer, ModelRequest
from oh_daemon.protocol.errors import NetworkError
from oh_daemon.protocol.status import Usage


def tool(name: str, *required: str) -> Json:
    properties = {each: {} for each in required}
    schema = {"type": "object", "properties": properties, "required": [*required]}
    return {"type": "function", "function": {"name": name, "parameters": schema}}


TOOLS = [
    tool("edit", "path"),
    tool("terminal", "command"),
    tool("files__read_file", "path"),
    tool("stop"),
]
REQUIRED = {"edit": "path", "terminal": "command", "files__read_file": "path"}
ABSENT = object()
WRAPPERS = (
    "functions.{}",
    "default_api.{}",
    "tools.{}",
    "{}<|channel|>commentary",
    " {}",
    "{}\n",
    "functions.{}:0",
    "<|channel|>commentary to=functions.{} <|constrain|>json",
)
Meant = tuple[str, Json]


def read(chunks: Sequence[Any], finish: str = "tool_calls") -> ModelAnswer:
    assembly = Assembly(lambda _: None, TOOLS)
    for chunk in chunks:
        assembly.feed(chunk)
    assembly.feed({"choices": [{"delta": {}, "finish_reason": finish}]})
    return assembly.answer(Usage())


def calls_in(answer: ModelAnswer) -> list[Meant]:
    return [(each.name, json.loads(each.arguments)) for each in answer.tool_calls]


# Arguments that hold whatever could be taken for the end of a call or the start of one.
TEXTS = st.text(alphabet='ab{}[]"\\:,é\n \U0001f600', max_size=12)
VALUES = st.recursive(
    st.one_of(TEXTS, st.integers(), st.booleans(), st.none()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=6,
)


@st.composite
def meant_calls(draw: st.DrawFn) -> list[Meant]:
    names = draw(st.lists(st.sampled_from(list(REQUIRED)), min_size=1, max_size=4))
    extra = st.dictionaries(st.sampled_from("xyz"), VALUES, max_size=2)
    calls = [(name, {REQUIRED[name]: draw(TEXTS), **draw(extra)}) for name in names]
    # The same call twice under one id is one call that was sent twice.
    return [call for n, call in enumerate(calls) if call not in calls[:n]]


@st.composite
def pieces_of(draw: st.DrawFn, text: str) -> list[str]:
    cuts = draw(st.lists(st.integers(0, len(text)), max_size=5))
    bounds = [0, *sorted(cuts), len(text)]
    return [text[start:end] for start, end in itertools.pairwise(bounds)]


@dataclass(frozen=True)
class Numbering:
    """How a server numbers its pieces, and by what alone its calls are told apart."""

    separator: str
    repeats: str
    """Which pieces have the name: the first, all, or it comes in pieces itself."""
    no_id: Any
    invents: bool
    """Whether each piece has a new id."""
    start: int
    step: int
    same_index: Any
    rises: bool
    """Whether each piece has a new index."""

    def head(self, n_call: int, n_piece: int) -> Json:
        index = self.start + n_call * self.step
        if self.separator != "index":
            index = n_piece if self.rises else self.same_index
        call_id: Any = f"call_{n_call}"
        if self.separator != "id":
            call_id = f"new_{n_piece}" if self.invents else self.no_id
        fields = {"index": index, "id": call_id}
        return {key: value for key, value in fields.items() if value is not ABSENT}


NUMBERINGS = st.builds(
    Numbering,
    separator=st.sampled_from(["index", "id", "json", "whole"]),
    repeats=st.sampled_from(["first", "all", "pieces"]),
    no_id=st.sampled_from([ABSENT, None, "", "same", 17]),
    invents=st.booleans(),
    start=st.integers(0, 3),
    step=st.sampled_from([1, 2, -1]),
    same_index=st.sampled_from([0, None, ABSENT, 3]),
    rises=st.booleans(),
)


@st.composite
def functions(draw: st.DrawFn, call: Meant, how: Numbering) -> list[Json]:
    """Draw the pieces of a call without their numbers."""
    name, args = call
    text = json.dumps(args, ensure_ascii=draw(st.booleans()))
    if how.separator == "whole":
        wrapped = draw(st.sampled_from(["{}", *WRAPPERS])).format(name)
        return [{"name": wrapped, "arguments": draw(st.sampled_from([text, args]))}]
    parts, names = draw(pieces_of(text)), [name]
    if how.repeats == "all":
        names *= len(parts)
    elif how.repeats == "pieces":
        # A name in pieces comes before the arguments.
        names = draw(pieces_of(name))
        parts = [*[""] * len(names), *parts]
    nothing = st.sampled_from([ABSENT, "", None])
    names += [draw(nothing) for _ in parts[len(names) :]]
    made = [{"name": each, "arguments": part} for each, part in zip(names, parts, strict=True)]
    return [{key: v for key, v in each.items() if v is not ABSENT} for each in made]


@st.composite
def streamed(draw: st.DrawFn) -> tuple[list[Meant], list[list[Json]]]:
    """Draw calls, and the entries of `tool_calls` in which a server sends them, chunk by chunk."""
    meant, how = draw(meant_calls()), draw(NUMBERINGS)
    n_piece = itertools.count(1)
    per_call = [
        [{**how.head(n, next(n_piece)), "function": each} for each in draw(functions(call, how))]
        for n, call in enumerate(meant)
    ]
    entries = [entry for each in per_call for entry in each]
    if how.separator in {"index", "id"} and draw(st.booleans()):
        order = draw(st.permutations([n for n, each in enumerate(per_call) for _ in each[1:]]))
        firsts = [each.pop(0) for each in per_call]
        entries = [*firsts, *(per_call[n].pop(0) for n in order)]
    size = draw(st.integers(1, 3))
    return meant, [entries[n : n + size] for n in range(0, len(entries), size)]


def check_streamed(case: tuple[list[Meant], list[list[Json]]]) -> None:
    meant, chunks = case
    answer = read([{"choices": [{"delta": {"tool_calls": entries}}]} for entries in chunks])
    assert calls_in(answer) == meant


def _pieces_of_name(*names: str, arguments: str) -> list[list[Json]]:
    """Return chunks with the pieces of a name, and then the arguments, all at index 0."""
    functions = [*({"name": name, "arguments": ""} for name in names), {"arguments": arguments}]
    return [[{"index": 0, "function": function}] for function in functions]


LAST_PIECE_IS_A_TOOL = (
    [("files__read_file", {"path": "a"}), ("files__read_file", {"path": "b"})],
    [
        *_pieces_of_name("f", "iles__read_file", arguments='{"path": "a"}'),
        *_pieces_of_name("f", "iles__", "read_file", arguments='{"path": "b"}'),
    ],
)


@example(LAST_PIECE_IS_A_TOOL)
@given(streamed())
@settings(max_examples=120, deadline=None)
def test_streamed_calls_are_the_calls_that_were_meant(
    case: tuple[list[Meant], list[list[Json]]],
) -> None:
    check_streamed(case)


@pytest.mark.full
@given(streamed())
@settings(max_examples=30_000, deadline=None)
def test_many_streamed_calls_are_the_calls_that_were_meant(
    case: tuple[list[Meant], list[list[Json]]],
) -> None:
    check_streamed(case)


@given(streamed(), st.data())
@settings(max_examples=80, deadline=None)
def test_lost_piece_never_makes_a_call_that_was_not_meant(
    case: tuple[list[Meant], list[list[Json]]], data: st.DataObject
) -> None:
    """A loss is an answer that fails, or a call that fails; or a whole call is missing."""
    meant, chunks = case
    lost = data.draw(st.integers(0, len(chunks) - 1))
    kept = [entries for n, entries in enumerate(chunks) if n != lost]
    try:
        answer = read([{"choices": [{"delta": {"tool_calls": entries}}]} for entries in kept])
    except NetworkError:
        return
    known = {each["function"]["name"] for each in TOOLS}
    runs = [call for call in calls_that_run(answer) if call[0] in known]
    assert len(runs) <= len(meant)
    # A text that lost its middle is another text, which no structure shows.
    assert {name for name, _ in runs} <= {name for name, _ in meant}


def calls_that_run(answer: ModelAnswer) -> list[Meant]:
    calls: list[Meant] = []
    for call in answer.tool_calls:
        with contextlib.suppress(ValueError):
            calls.append((call.name, json.loads(call.arguments)))
    return calls


@dataclass(frozen=True)
class Odd:
    """One odd form of an answer: its chunks, and the text and the calls that it means."""

    chunks: tuple[Any, ...]
    text: str = ""
    calls: tuple[Meant, ...] = ()


def delta(**fields: Any) -> Json:
    return {"choices": [{"index": 0, "delta": fields}]}


def entry(index: Any = ABSENT, call_id: Any = ABSENT, name: Any = ABSENT, args: Any = "") -> Json:
    function = {"name": name, "arguments": args}
    fields = {"index": index, "id": call_id}
    kept = {key: value for key, value in fields.items() if value is not ABSENT}
    return {**kept, "function": {k: v for k, v in function.items() if v is not ABSENT}}


LS = ("terminal", {"command": "ls"})
LS_ARGS = '{"command": "ls"}'
WHOLE = {"role": "assistant", "content": "Hi.", "tool_calls": [entry(0, "a", "terminal", LS_ARGS)]}
ODD: dict[str, Odd] = {
    "arguments as an object": Odd((delta(tool_calls=[entry(0, 17, *LS)]),), calls=(LS,)),
    "calls as an object": Odd((delta(tool_calls=entry(0, "a", *LS)),), calls=(LS,)),
    "calls keyed by number": Odd(
        (delta(tool_calls={"0": entry(name="stop")}),), "", (("stop", {}),)
    ),
    "flat call": Odd(
        (delta(tool_calls=[{"id": "a", "name": "terminal", "input": LS[1]}]),), "", (LS,)
    ),
    "legacy function": Odd(
        (delta(function_call={"name": "terminal"}), delta(function_call={"arguments": LS_ARGS})),
        calls=(LS,),
    ),
    "text in one choice, call in the other": Odd(
        (
            {
                "choices": [
                    {"index": 0, "delta": {"content": "Hi."}},
                    {"index": 1, "delta": {"tool_calls": [entry(0, "a", *LS)]}},
                ]
            },
        ),
        "Hi.",
        (LS,),
    ),
    "two choices side by side": Odd(
        tuple(
            {"choices": [{"index": n, "delta": {"content": "AXBY"[2 * k + n]}}]}
            for k in range(2)
            for n in range(2)
        ),
        "AB",
    ),
    "a choice that is null": Odd(({"choices": [None]}, delta(content="Hi.")), "Hi."),
    "whole message": Odd(({"choices": [{"message": WHOLE}]},), "Hi.", (LS,)),
    "whole message after its pieces": Odd(
        (
            delta(content="H"),
            delta(content="i."),
            delta(tool_calls=[entry(0, "a", *LS)]),
            {"choices": [{"message": WHOLE}]},
        ),
        "Hi.",
        (LS,),
    ),
    "content in parts": Odd((delta(content=[{"type": "text", "text": "Hi."}]),), "Hi."),
    "arguments then an empty object": Odd(
        (
            delta(tool_calls=[entry(0, "a", "terminal", LS_ARGS)]),
            delta(tool_calls=[entry(0, args="{}")]),
        ),
        calls=(LS,),
    ),
    "an empty object, then arguments": Odd(
        (
            delta(tool_calls=[entry(0, "a", "terminal", "{}")]),
            delta(tool_calls=[entry(0, args=LS_ARGS)]),
        ),
        calls=(LS,),
    ),
    "arguments then null": Odd(
        (delta(tool_calls=[entry(0, "a", "terminal", LS_ARGS + "null")]),), "", (LS,)
    ),
    "arguments then a brace": Odd(
        (delta(tool_calls=[entry(0, "a", "terminal", LS_ARGS + "}")]),), "", (LS,)
    ),
    "the same call twice under one id": Odd(
        (delta(tool_calls=[entry(0, "a", *LS)]), delta(tool_calls=[entry(0, "a", *LS)])),
        "",
        (LS,),
    ),
    "arguments that grow": Odd(
        tuple(delta(tool_calls=[entry(0, "a", "terminal", LS_ARGS[:n])]) for n in (4, 9, 17)),
        "",
        (LS,),
    ),
    "a call without arguments, then another": Odd(
        (delta(tool_calls=[entry(0, "", "stop")]), delta(tool_calls=[entry(0, "", *LS)])),
        calls=(("stop", {}), LS),
    ),
    **{
        f"unreadable: {junk!r}": Odd((junk, delta(content="Hi.")), "Hi.")
        for junk in (
            {"choices": 1},
            {"choices": [1]},
            {"choices": [{"delta": 1}]},
            {"usage": 5},
            {"choices": [{"delta": {"tool_calls": 5}}]},
            {"choices": [{"delta": {"tool_calls": [5, None, {"function": 5}]}}]},
            {"choices": [{"delta": {"content": 5, "reasoning_content": {}}}]},
        )
    },
}


@pytest.mark.parametrize("name", ODD)
def test_odd_answer_is_read_for_what_it_means(name: str) -> None:
    odd = ODD[name]
    answer = read(odd.chunks, "tool_calls" if odd.calls else "stop")
    assert (answer.text, tuple(calls_in(answer))) == (odd.text, odd.calls)


@pytest.mark.parametrize(
    "entries",
    [
        [entry(0, "a", args='{"x": 1}')],
        [entry(0, name="edit", args='{"path": '), entry(0, name="terminal", args='"x"}')],
        [entry(0, "a", "edit", '{"path": "a"}'), entry(1, "b", args='{"path": "b"}')],
    ],
)
def test_calls_that_cannot_be_told_apart_are_a_failed_attempt(entries: list[Json]) -> None:
    with pytest.raises(NetworkError) as caught:
        read([delta(tool_calls=[each]) for each in entries])
    assert caught.value.retryable


@pytest.mark.parametrize("event", ["[]", "5", '"text"', "null"])
def test_event_without_fields_costs_only_itself(event: str) -> None:
    body = f"data: {event}\n\n".encode() + b"".join(stream_parts(say("Hello.")))
    with FakeLLM([raw(body)]) as fake:
        assert ask(fake).text == "Hello."


def test_whole_completion_in_place_of_a_stream_is_an_answer() -> None:
    body: Json = {"id": "c", "choices": [{"message": WHOLE, "finish_reason": "tool_calls"}]}
    step = replace(raw(json.dumps(body).encode()), headers={"content-type": "application/json"})
    with FakeLLM([step]) as fake:
        answer = ask(fake, ModelRequest([{"role": "user", "content": "Go."}], TOOLS))
    assert (answer.text, calls_in(answer)) == ("Hi.", [LS])


def test_blocks_of_anthropic_that_interleave_are_kept_apart() -> None:
    block = {"type": "tool_use", "name": "terminal", "input": {}}
    starts = [
        anthropic("content_block_start", index=n, content_block={**block, "id": f"t{n}"})
        for n in range(2)
    ]
    parts = [(0, '{"command":'), (1, '{"command":'), (0, '"a"}'), (1, '"b"}')]
    piece = {"type": "input_json_delta"}
    deltas = [
        anthropic("content_block_delta", index=n, delta={**piece, "partial_json": part})
        for n, part in parts
    ]
    end = anthropic("message_delta", delta={"stop_reason": "tool_use"})
    with FakeLLM([raw(b"".join([*starts, *deltas, end]))]) as fake:
        answer = ask(fake, model="anthropic/claude-sonnet-4-5")
    assert calls_in(answer) == [("terminal", {"command": each}) for each in "ab"]
