"""The messages that a model gets for the items of a conversation."""

from __future__ import annotations

from typing import Any

import pytest

from oh_daemon.common.masking import Masker
from oh_daemon.kernel.context import (
    HistoryCut,
    ModelContext,
    last_reported,
    render_batch,
    with_images,
)
from oh_daemon.kernel.ports import ToolResult
from oh_daemon.kernel.tool_calls import presentable
from oh_daemon.storage.memory_log import MemoryLog

SYSTEM = {"role": "system", "content": "Be good."}


def user(*parts: Any) -> Any:
    return {"kind": "userMessage", "id": "u", "status": "completed", "content": list(parts)}


def agent_message(words: str, batch: str = "b1", **fields: Any) -> Any:
    item = {"kind": "agentMessage", "id": "m", "status": "completed", "batch": batch}
    return {**item, "text": words, **fields}


def tool_call_item(call_id: str, result: str | None, batch: str = "b1", **fields: Any) -> Any:
    call = {"id": call_id, "name": "look", "arguments": "{}", "batch": batch}
    content = [] if result is None else [{"type": "text", "text": result}]
    item = {"kind": "toolCall", "id": call_id, "status": "completed", "call": call}
    return {**item, "content": content, **fields}


def text(words: str) -> Any:
    return {"type": "text", "text": words}


def test_an_answer_is_followed_by_one_result_for_each_of_its_calls():
    items = [
        user(text("go")),
        agent_message("Looking."),
        tool_call_item("c1", "one"),
        tool_call_item("c2", None),
    ]
    assert ModelContext("Be good.").messages(items) == [
        SYSTEM,
        {"role": "user", "content": "go"},
        {
            "role": "assistant",
            "content": "Looking.",
            "tool_calls": [
                {"id": n, "type": "function", "function": {"name": "look", "arguments": "{}"}}
                for n in ("c1", "c2")
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "one"},
        {"role": "tool", "tool_call_id": "c2", "content": "(no output)"},
    ]


def test_a_batch_enters_whole_or_not_at_all():
    view, items = ModelContext("Be good."), [user(text("go")), tool_call_item("c1", "one")]
    running_call = tool_call_item("c2", None, status="running")
    assert len(view.messages([*items, running_call])) == 2
    assert len(view.messages([*items, tool_call_item("c2", "two")])) == 5


def test_what_a_view_has_given_is_not_changed_by_what_comes():
    view, items = ModelContext("Be good."), [user(text("go"))]
    first = view.messages(items)
    second = view.messages([*items, agent_message("Hi.")])
    assert (len(first), len(second)) == (2, 3)
    assert second[:2] == first


def condensation(keep_from: str | None, status: str = "completed") -> Any:
    item = {"kind": "condensation", "id": "k", "status": status, "pruned": []}
    return item if keep_from is None else {**item, "keepFrom": keep_from}


@pytest.mark.parametrize(
    ("condensation", "texts_by_kind"),
    [
        (condensation(None, "failed"), {"file": "c", "selection": "b", "problems": "a"}),
        (condensation("u4"), {"file": "c", "problems": "a"}),
        (condensation("u2"), {"file": "c", "selection": "b", "problems": "a"}),
    ],
)
def test_what_is_in_view_of_the_editor_counts_as_told(
    condensation: Any, texts_by_kind: dict[str, str]
):
    contexts = ({"file": "a", "problems": "a"}, {"selection": "b"}, {"file": "c"}, {})
    items: list[Any] = [
        {**user(text("hi")), "id": f"u{n}", "editor": e} for n, e in enumerate(contexts, 1)
    ]
    assert last_reported([*items, condensation]) == texts_by_kind


def test_thinking_goes_back_unchanged_and_only_when_it_is_whole():
    block = {"type": "thinking", "thinking": "Hm.", "signature": "S"}
    reasoning_item: Any = {"kind": "reasoning", "id": "r", "status": "completed", "batch": "b1"}
    reasoning_item |= {"blocks": [block], "model": "claude", "text": "Hm."}
    [message] = render_batch([reasoning_item, agent_message("Yes.")])
    assert message["thinking"] == {"model": "claude", "text": "Hm.", "blocks": [block]}
    reasoning_item["status"] = "cancelled"
    assert "thinking" not in render_batch([reasoning_item, agent_message("Yes.")])[0]


def test_what_was_tried_again_or_said_nothing_is_left_out():
    assert render_batch([agent_message("Lost.", reason="retried")]) == []
    assert render_batch([agent_message("")]) == []
    assert render_batch([agent_message("Par", status="cancelled", reason="interrupted")]) != []


def test_a_notice_is_for_the_model_only_with_a_note():
    notice: Any = {"kind": "notice", "id": "n", "status": "completed", "title": "Nudged"}
    assert render_batch([notice]) == []
    notice["note"] = "Go on."
    assert render_batch([notice]) == [{"role": "user", "content": "<note>Go on.</note>"}]


SPAN = {"start": {"line": 2, "character": 0}, "end": {"line": 4, "character": 1}}


@pytest.mark.parametrize(
    ("part", "expected_text"),
    [
        (
            {"type": "resource", "uri": "file:///a", "text": "A"},
            "<resource uri='file:///a'>\nA\n</resource>",
        ),
        ({"type": "resourceLink", "uri": "file:///a"}, "<file uri='file:///a'/>"),
        (
            {"type": "resourceLink", "uri": "file:///a", "range": SPAN},
            "<file uri='file:///a' lines=3-5/>",
        ),
        (
            {"type": "selection", "uri": "file:///a", "range": SPAN, "text": "x"},
            "<selection uri='file:///a' lines=3-5>\nx\n</selection>",
        ),
        (
            {
                "type": "diagnostics",
                "uri": "file:///a",
                "items": [{"range": SPAN, "message": "wrong"}, {}],
            },
            "<diagnostics uri='file:///a'>\nline 3: wrong\nline 1: \n</diagnostics>",
        ),
        ({"type": "hologram"}, "(hologram: this version cannot show it)"),
    ],
)
def test_parts_of_a_message_become_text(part: Any, expected_text: str):
    assert render_batch([user(text("See"), part)]) == [
        {"role": "user", "content": f"See\n\n{expected_text}"}
    ]


def test_an_image_that_is_no_longer_stored_is_said_to_be_lost():
    image = {"type": "image", "mimeType": "image/png", "outputRef": "0" * 64}
    [message] = render_batch([user(text("See"), image)])
    message = with_images(message, MemoryLog().read_blob)
    missing_image = {"type": "text", "text": "(a file that is no longer stored)"}
    assert message["content"] == [{"type": "text", "text": "See"}, missing_image]


@pytest.mark.parametrize(
    ("fields", "ending"),
    [({}, "completed"), ({"status": "failed", "exitCode": 3}, "failed, exit code 3")],
)
def test_of_a_result_that_is_pruned_its_end_and_some_lines_are_left(fields: Any, ending: str):
    item = tool_call_item(
        "c1", "\n".join(f"line {n} {'x' * 300 * (n == 2)}" for n in range(1, 100)), **fields
    )
    excerpt: Any = HistoryCut(0, frozenset({"c1"})).excerpt(item)
    head, *rows = excerpt["content"][0]["text"].split("\n")
    assert head == f"[{ending}; to save room, only the first and last lines of 99 are left]"
    assert [row[:7].rstrip() for row in rows] == [
        *("line 1", "line 2", "line 3"),
        *("[…]", "line 97", "line 98", "line 99"),
    ]
    assert max(map(len, rows)) == 200


def test_an_image_makes_the_message_a_list():
    image = {"type": "image", "mimeType": "image/png", "data": "QUJD"}
    [message] = render_batch([user(text("See"), image)])
    assert message["content"] == [
        text("See"),
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}},
    ]


@pytest.mark.parametrize(
    ("part", "expected_text"),
    [
        ({"type": "resource", "resource": {"text": "A"}}, "A"),
        ({"type": "resource"}, "(a file of unknown type, None)"),
        (
            {"type": "resource_link", "uri": "shop://a", "name": "A"},
            "<resource uri='shop://a' name='A'/>",
        ),
        ({"type": "image"}, "(image content, not shown to the model)"),
    ],
)
def test_results_in_mcps_other_shapes_are_told_in_words(part: Any, expected_text: str):
    [_, result] = render_batch([tool_call_item("c1", None, content=[part])])
    assert result["content"] == expected_text


def test_an_image_of_a_result_is_seen_unless_models_would_refuse_it():
    image = {"type": "image", "mimeType": "image/png", "outputRef": "ab"}
    drawing = {"type": "image", "mimeType": "image/svg+xml", "data": "eA=="}
    private = {**image, "annotations": {"audience": ["user"]}}
    item = tool_call_item("c1", "See:")
    item["content"] += [image, drawing, private]
    _, full_text = render_batch([item])
    kinds = [part["type"] for part in full_text["content"]]
    assert kinds == ["text", "image_url", "text", "text"]
    assert full_text["content"][1]["image_url"]["url"] == "data:image/png;blob:ab"
    assert full_text["content"][2]["text"] == "(image content, not shown to the model)"
    item["content"] = [drawing]
    assert isinstance(render_batch([item])[1]["content"], str)


def test_an_image_of_a_tool_is_called_what_it_is():
    lying = {"type": "image", "mimeType": "image/png", "data": "/9j/4AAQ"}
    unknown = {"type": "image", "mimeType": "image/png", "data": "eHh4"}
    content = presentable(ToolResult((lying, unknown)), Masker()).content
    assert content[0]["mimeType"] == "image/jpeg"
    assert content[1]["annotations"] == {"audience": ["user"]}
