"""A model without function calling: what it is told, and how its text is read."""

from __future__ import annotations

import json

import pytest
from fake_llm import Json

from oh_daemon.features.models.assembly import Assembly, delta_chunk
from oh_daemon.features.models.model_messages import ShownText, in_text, read_answer
from oh_daemon.kernel.ports import ModelAnswer, ModelDelta, ToolCall
from oh_daemon.protocol.status import Usage

TOOL: Json = {
    "type": "function",
    "function": {"name": "look", "description": "Looks.", "parameters": {"type": "object"}},
}


def call(arguments: str, name: str = "look") -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


def read(text: str, finish: str = "stop") -> ModelAnswer:
    assembly = Assembly(lambda _delta: None, [TOOL])
    assembly.feed(delta_chunk(content=text))
    assembly.feed({"choices": [{"finish_reason": finish}]})
    return read_answer(assembly.answer(Usage()), [TOOL])


def arguments(text: str) -> list[Json]:
    return [json.loads(tool_call.arguments) for tool_call in read(text).tool_calls]


def native(call_id: str, text: str | None) -> Json:
    function = {"name": "look", "arguments": '{"at": "a"}'}
    native_call = {"id": call_id, "type": "function", "function": function}
    return {"role": "assistant", "content": text, "tool_calls": [native_call]}


def result(call_id: str, content: str | list[Json]) -> Json:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def test_tools_are_in_the_prompt_and_calls_and_results_are_text():
    both = native("c1", "Looking.")
    both["tool_calls"] = [*both["tool_calls"], *native("c2", None)["tool_calls"]]
    messages: list[Json] = [
        {"role": "system", "content": "Be good."},
        {"role": "user", "content": "Look."},
        both,
        result("c1", "one"),
        result("c2", "two"),
        {"role": "user", "content": "And?"},
    ]
    system, user, answer, results = in_text(messages, [TOOL])
    assert system["content"].startswith("Be good.\n\n# Tools\n")
    assert system["content"].endswith(json.dumps(TOOL["function"]))
    assert user == messages[1]
    made_call = call('{"at": "a"}')
    assert answer == {"role": "assistant", "content": f"Looking.\n{made_call}\n{made_call}"}
    actual_results = [f'<tool_result of="look">\n{text}\n</tool_result>' for text in ("one", "two")]
    assert results == {"role": "user", "content": "\n\n".join([*actual_results, "And?"])}


def test_what_a_model_was_told_is_read_back_as_it_was():
    [text] = in_text([native("c1", "Looking.")], ())
    answer = read(text["content"])
    assert (answer.text, answer.tool_calls) == (
        "Looking.",
        (ToolCall("", "look", '{"at": "a"}'),),
    )


def test_an_image_of_a_result_stays_one():
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,eA=="}}
    text = {"type": "text", "text": "See."}
    _, message = in_text([native("c1", None), result("c1", [text, image])], ())
    assert image in message["content"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (call('{"x": 1}') + call('{"x": 2}'), [{"x": 1}, {"x": 2}]),
        ('<tool_call>{"name": "look"}\n<tool_call>{"name": "look"}</tool_call>', [{}, {}]),
        (call('{"x": "a\nb"}'), [{"x": "a\nb"}]),
        (call('{"x": "</tool_call> <tool_result>"}'), [{"x": "</tool_call> <tool_result>"}]),
        (f"<tool_call>\n```json\n{call('{}')[11:-12]}```\n</tool_call>", [{}]),
        (call("{}") + "\n<tool_result>made up</tool_result>" + call("{}"), [{}]),
        (f"<think>I could {call('{}')}</think>No.", []),
        ("No call, only a < b.", []),
    ],
)
def test_calls_are_found_in_an_answer(text: str, expected: list[Json]):
    assert arguments(text) == expected


@pytest.mark.parametrize("body", ['{"name": "look", "arguments": {"x": }}', '{"name": "look", "ar'])
def test_a_broken_call_keeps_its_name_and_is_no_json(body: str):
    answer = read(f"<tool_call>{body}</tool_call>\n{call('{}')}")
    broken_call, whole_call = answer.tool_calls
    assert (broken_call.name, whole_call) == ("look", ToolCall("", "look", "{}"))
    with pytest.raises(json.JSONDecodeError):
        json.loads(broken_call.arguments)


def test_an_answer_that_was_cut_off_says_so_and_text_alone_ends_it():
    assert read(call("{}"), "length").finish_reason == "length"
    assert read(call("{}")).finish_reason == "tool_calls"
    assert read("Done.").finish_reason == "stop"


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_users_see_the_text_and_the_thinking_without_calls(size: int):
    text = f"<think>Hm < {{}}</think>If a < b:\n{call('{}')}\n<tool_result>made up"
    deltas: list[ModelDelta] = []
    assembly = Assembly(ShownText(deltas.append).feed, [TOOL])
    for start in range(0, len(text), size):
        assembly.feed(delta_chunk(content=text[start : start + size]))
    by_channel = {
        channel: "".join(delta.text for delta in deltas if delta.channel == channel)
        for channel in ("text", "reasoning")
    }
    assert by_channel == {"text": "If a < b:\n", "reasoning": "Hm < {}"}
