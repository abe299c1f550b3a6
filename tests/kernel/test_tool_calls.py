"""How a model's tool calls are read: repairs of form, and errors that say what to write."""

from __future__ import annotations

import json
import select
import socket
from typing import Any

import pytest
from core_world import tool
from msgspec.structs import replace

from oh_daemon.features.conversation_tools.tools import FinishTool, TodoTool
from oh_daemon.features.edit.apply_patch import PATCH_SPEC
from oh_daemon.features.edit.edit import EDIT_SPEC, VIEW_SPEC
from oh_daemon.features.terminal.terminal import terminal_spec
from oh_daemon.kernel.function_tool import FunctionTool
from oh_daemon.kernel.ports import Json, ToolCall, ToolSpec
from oh_daemon.kernel.tool_calls import ParsedCall, parse_call, render_tool, schema_problem
from oh_daemon.kernel.tool_schemas import takes

TERMINAL = tool("terminal", lambda command: command, command={"type": "string"})
LOOK = tool("look", lambda path: path, read_only=True, path={"type": "string"})
TOOLS = {"terminal": TERMINAL, "look": LOOK}


def parse(name: str, arguments: str) -> ParsedCall:
    return parse_call(ToolCall("call_1", name, arguments), TOOLS)


@pytest.mark.parametrize(
    ("arguments", "args"),
    [
        ('{"command": "ls"}', {"command": "ls"}),
        ('  {"command": "ls"}\n', {"command": "ls"}),
        ('{"command": "a\nb\tc"}', {"command": "a\nb\tc"}),
        (json.dumps('{"command": "ls"}'), {"command": "ls"}),
        ('```json\n{"command": "ls"}\n```', {"command": "ls"}),
        (r'{"command": "grep \w+\.py \"a\\n\""}', {"command": r'grep \w+\.py "a\n"'}),
    ],
)
def test_arguments_are_repaired_in_form_only(arguments: str, args: Json):
    call = parse("terminal", arguments)
    assert (call.args, call.error) == (args, None)
    assert json.loads(call.arguments) == args


def test_what_the_model_wrote_stays_as_it_is_when_it_is_valid():
    assert parse("terminal", '{ "command":"ls" }').arguments == '{ "command":"ls" }'


@pytest.mark.parametrize("arguments", ["", "null", "{}"])
def test_missing_arguments_are_none_at_all(arguments: str):
    nothing = tool("nothing", lambda: "done")
    call = parse_call(ToolCall("c", "nothing", arguments), {"nothing": nothing})
    assert (call.args, call.error) == ({}, None)


OURS = {
    "edit": FunctionTool(EDIT_SPEC, lambda: None),
    "terminal": FunctionTool(terminal_spec(()), lambda: None),
    "grep": FunctionTool(
        ToolSpec(
            "grep",
            "Looks.",
            takes(["pattern"], **{key: {} for key in ("pattern", "mode", "context", "limit")}),
            read_only=True,
        ),
        lambda: None,
    ),
    "todo": TodoTool(),
}


@pytest.mark.parametrize(
    ("name", "actual_args", "args"),
    [
        ("Read", {"file_path": "a.py"}, {"command": "view", "path": "a.py"}),
        (
            "Edit",
            {"file_path": "a", "old_string": "x", "new_string": "y"},
            {"command": "replace", "path": "a", "old_text": "x", "new_text": "y"},
        ),
        (
            "str_replace_editor",
            {"command": "insert", "path": "a", "insert_line": "3", "new_str": "y"},
            {"command": "insert", "path": "a", "insert_line": 3, "text": "y"},
        ),
        (
            "edit",
            {"command": "view", "path": "a", "view_range": [5, -1]},
            {"command": "view", "path": "a", "start_line": 5},
        ),
        (
            "edit",
            {"command": "view", "path": "a", "start_line": 5, "end_line": -1},
            {"command": "view", "path": "a", "start_line": 5},
        ),
        (
            "Write",
            {"file_path": "a", "content": ""},
            {"command": "create", "path": "a", "text": ""},
        ),
        (
            "MultiEdit",
            {"file_path": "a", "edits": [{"old_string": "x", "new_string": "y"}]},
            {"command": "replace", "path": "a", "edits": [{"old_text": "x", "new_text": "y"}]},
        ),
        (
            "Grep",
            {"pattern": "\bx", "output_mode": "files_with_matches"},
            {"pattern": r"\bx", "mode": "files"},
        ),
        (
            "Grep",
            {"pattern": "x", "-n": True, "-C": 2, "head_limit": 9},
            {"pattern": "x", "context": 2, "limit": 9},
        ),
        (
            "Bash",
            {
                "command": "ls",
                "description": "Look",
                "run_in_background": True,
                "timeout": 5,
            },
            {"command": "ls", "background": True, "timeout_s": 5},
        ),
        (
            "TodoWrite",
            {"todos": [{"content": "a", "status": "pending", "activeForm": "b"}]},
            {"tasks": [{"text": "a", "status": "pending", "activeForm": "b"}]},
        ),
        (
            "edit",
            {"path": "a", "old_text": "x", "new_text": "y", "replace_all": "True"},
            {
                "command": "replace",
                "path": "a",
                "old_text": "x",
                "new_text": "y",
                "replace_all": True,
            },
        ),
    ],
)
def test_a_call_in_the_words_of_other_agents_means_the_same(
    name: str, actual_args: Json, args: Json
):
    call = parse_call(ToolCall("c", name, json.dumps(actual_args)), OURS)
    assert (call.args, call.error) == (args, None)
    assert json.loads(call.arguments) == actual_args


@pytest.mark.parametrize(
    ("input_text", "key"),
    [("Ctrl+C", "C-c"), ("ctrl-d", "C-d"), ("C-c", "C-c"), ("a ctrl+c", "a ctrl+c")],
)
def test_a_key_is_known_by_its_other_names(input_text: str, key: str):
    call = parse("bash", json.dumps({"cmd": input_text, "is_input": True}))
    assert (call.args, call.error) == ({"command": key, "is_input": True}, None)


@pytest.mark.parametrize("name", ["bash", "execute_bash", "shell", "Bash"])
def test_a_tool_is_known_by_its_other_names(name: str):
    assert parse(name, '{"command": "ls"}').tool is TERMINAL


@pytest.mark.parametrize(
    ("name", "arguments", "kind", "words"),
    [
        ("fly", "{}", "unknownTool", "no tool 'fly'. The tools are: look, terminal"),
        ("terminal", '{"command": "l', "invalidArguments", "not valid JSON"),
        ("terminal", "[1]", "invalidArguments", "a JSON list; send one JSON object"),
        ("terminal", "[" * 100_000, "invalidArguments", "nested too deeply"),
        ("terminal", f'{{"command": {"[" * 300}1{"]" * 300}}}', "invalidArguments", "flatter"),
        (
            "terminal",
            '{"command": "ls", "timeout_s": NaN}',
            "invalidArguments",
            "NaN is not a JSON",
        ),
        ("terminal", '"[1"', "invalidArguments", "not valid JSON"),
        ("terminal", "{}", "invalidArguments", "arguments: 'command' is a required property"),
        ("terminal", '{"command": 7}', "invalidArguments", "command: 7 is not of type 'string'"),
    ],
)
def test_an_error_names_the_place_and_the_way_out(name: str, arguments: str, kind: str, words: str):
    call = parse(name, arguments)
    assert call.error_kind == kind
    assert words in str(call.error)
    assert isinstance(json.loads(call.arguments), dict)


def test_an_edit_where_patches_change_files_names_them():
    other_tools = {
        "edit": FunctionTool(VIEW_SPEC, str),
        "apply_patch": FunctionTool(PATCH_SPEC, str),
    }
    args = {"command": "replace", "path": "a", "old_text": "x", "new_text": "y"}
    for tools, ending in ((other_tools, "Change files with apply_patch."), (OURS, None)):
        error = parse_call(ToolCall("c", "edit", json.dumps(args)), tools).error
        assert (error or "").endswith(ending or "")
        assert (error is None) == (ending is None)


BROKEN: list[Json] = [
    {"$ref": "#"},
    {"type": "object", "properties": {"a": {"$ref": "#/properties/a"}}},
    {"type": "object", "properties": {"a": {"$ref": "#/none"}}},
    {"type": "object", "properties": {"a": {"type": "wrong"}}},
    {"type": "object", "properties": {"a": {"pattern": "("}}},
]


@pytest.mark.parametrize("schema", BROKEN)
def test_a_broken_schema_of_a_foreign_tool_is_said(schema: Json):
    spec = ToolSpec("foreign", "Of some server.", schema)
    problem = schema_problem(spec, {"a": "x"})
    assert problem
    assert problem.startswith("The tool foreign cannot be used")


ENDLESS: list[Json] = [
    {"properties": {"a": {"pattern": "^(a+)+$"}}},
    {"patternProperties": {"^(a+)+$": True}, "additionalProperties": False},
    {"patternProperties": {"^(a+)+$": True}, "unevaluatedProperties": False},
    {
        "properties": {"a": {"$ref": "#/$defs/0"}},
        "$defs": {
            **{str(n): {"allOf": [{"$ref": f"#/$defs/{n + 1}"}] * 2} for n in range(14)},
            "14": {"type": "integer"},
        },
    },
]


@pytest.mark.parametrize("schema", ENDLESS)
def test_what_a_foreign_schema_can_make_take_for_ever_is_not_checked(schema: Json):
    """Longer by some letters or lines, each would stop the daemon, which cannot cut it short."""
    args = {"a" * 20 + "!": 1} if "patternProperties" in schema else {"a": "a" * 20 + "!"}
    spec = ToolSpec("foreign", "Of some server.", {"type": "object", **schema})
    assert "do not fit" in (schema_problem(spec, args) or "")
    assert schema_problem(replace(spec, is_foreign=True), args) is None
    closed_schema = {"type": "object", "properties": {"a": {}}, "additionalProperties": False}
    only_a = ToolSpec("foreign", "Of some server.", closed_schema, is_foreign=True)
    assert "It takes: a." in (schema_problem(only_a, {"b": 1}) or "")


def test_no_address_in_a_schema_is_fetched():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/schema"
        spec = ToolSpec("foreign", "Of some server.", {"$ref": url})
        assert "Unresolvable" in (schema_problem(spec, {}) or "")
        assert select.select([listening], [], [], 0)[0] == []


def test_the_models_own_rating_is_taken_from_the_arguments():
    args = {"command": "ls", "security_risk": "high", "summary": "Look around"}
    call = parse("terminal", json.dumps(args))
    assert (call.args, call.risk, call.summary) == ({"command": "ls"}, "high", "Look around")
    assert call.error is None


def test_what_a_call_is_for_may_be_said_in_other_words_and_to_tools_that_only_read():
    args = {"explanation": "Look around", "security_risk": "low"}
    run = parse_call(ToolCall("c", "terminal", json.dumps({"command": "ls", **args})), OURS)
    assert (run.args, run.risk, run.summary, run.error) == (
        {"command": "ls"},
        "low",
        "Look around",
        None,
    )
    parsed_call = parse_call(ToolCall("c", "grep", json.dumps({"pattern": "x", **args})), OURS)
    assert (parsed_call.args, parsed_call.error) == ({"pattern": "x"}, None)


def test_an_argument_of_a_foreign_tool_is_no_word_of_ours():
    """Issue trackers' tools have their own `summary`; mistaken for ours, it never reached them."""
    own: Json = {"type": "string", "description": "the title of the issue"}
    schema: Json = {"type": "object", "properties": {"summary": own}, "required": ["summary"]}
    for closing_fields in ({}, {"additionalProperties": False}):
        spec = ToolSpec("create_issue", "Of some server.", {**schema, **closing_fields})
        actual_schema = render_tool(spec)["function"]["parameters"]["properties"]
        assert list(actual_schema) == ["summary", "security_risk"]
        assert actual_schema["summary"] == own
        args = json.dumps({"summary": "It broke", "security_risk": "medium"})
        tools = {"create_issue": FunctionTool(spec, lambda: None)}
        call = parse_call(ToolCall("c", "create_issue", args), tools)
        assert (call.args, call.risk, call.summary) == ({"summary": "It broke"}, "medium", None)
        assert call.error is None


@pytest.mark.parametrize("rating", ["unheard of", None, 3])
def test_a_rating_that_is_none_is_no_rating(rating: Any):
    call = parse("terminal", json.dumps({"command": "ls", "security_risk": rating}))
    assert (call.risk, call.error) == (None, None)


def test_only_tools_that_may_change_something_are_asked_for_a_rating():
    with_rating = render_tool(TERMINAL.spec)["function"]["parameters"]["properties"]
    without = render_tool(LOOK.spec)["function"]["parameters"]["properties"]
    assert set(with_rating) == {"command", "security_risk", "summary"}
    assert set(without) == {"path"}
    assert "security_risk" not in TERMINAL.spec.input_schema["properties"]
    assert render_tool(FinishTool().spec)["type"] == "function"
