"""Tool calls that a model writes into its text, in the forms of its training."""

from __future__ import annotations

import json
import re

import pytest
from core_world import at_work, tool
from fake_llm import FakeLLM, Json, call, say
from model_calls import ask
from model_corpus import GO_ON

from oh_daemon.kernel.ports import ModelRequest, ToolCall
from oh_daemon.kernel.tool_calls import parse_call

SCHEMA: Json = {
    "type": "object",
    "properties": {"words": {"type": "string"}, "times": {"type": "integer"}},
    "required": ["words"],
}
TOOLS: list[Json] = [{"type": "function", "function": {"name": "echo", "parameters": SCHEMA}}]
ECHO = tool("echo", lambda words: words, words={"type": "string"})
LESS = "\\u003c"
ARGS = '{"words": "a </tool_call> b"}'
VALUE = "a </tool_call> b"
PARAMETER = f'<parameter name="words">{VALUE}</parameter>'
INVOKE = f'<invoke name="echo">{PARAMETER}</invoke>'
QWEN = f"<function=echo>\n<parameter=words>\n{VALUE}\n</parameter>\n</function>"
NAMED = f'{{"name": "echo", "arguments": {ARGS}}}'
OPENAI = {"type": "function", "function": {"name": "echo", "arguments": ARGS}}
HARMONY = "<|channel|>commentary to=functions.echo"
GLM = f"<arg_key>words</arg_key>\n<arg_value>{VALUE}</arg_value>"
PYTHON = f"{{'name': 'echo', 'arguments': {{'words': '{VALUE}',}}}}"
KIMI = "functions.echo:0<|tool_call_argument_begin|>"


def deepseek(call_text: str) -> str:
    """Put the marks around it, whose bars and blanks are characters of their own."""
    marks = "<|tool_calls_begin|><|tool_call_begin|>{}<|tool_call_end|><|tool_calls_end|>"
    return re.sub("<[^>]*>", _with_odd_characters, marks.format(call_text))


def _with_odd_characters(mark: re.Match[str]) -> str:
    return mark[0].replace("|", "\uff5c").replace("_", "\u2581")


FORMS: dict[str, str] = {
    "hermes": f"<tool_call>\n{NAMED}\n</tool_call>",
    "hermes without its end": f"<tool_call>{NAMED}",
    "qwen": f"<tool_call>\n{QWEN}\n</tool_call>",
    "qwen without a wrapper": QWEN,
    "invoke": f"<function_calls>\n{INVOKE}\n</function_calls>",
    "invoke alone": INVOKE,
    "minimax": f"<minimax:tool_call>{INVOKE}</minimax:tool_call>",
    "llama 3.1": f"<function=echo>{ARGS}</function>",
    "python tag": f'<|python_tag|>{{"name": "echo", "parameters": {ARGS}}}',
    "bare": NAMED.replace("arguments", "parameters"),
    "bare list": f"[{NAMED}]",
    "of OpenAI": json.dumps({"tool_calls": [OPENAI]}),
    "mistral": f"[TOOL_CALLS][{NAMED}]",
    "mistral with args": f"[TOOL_CALLS]echo[ARGS]{ARGS}",
    "deepseek": deepseek(f"function<|tool_sep|>echo\n```json\n{ARGS.replace('<', LESS)}\n```"),
    "deepseek 3.1": deepseek(f"echo<|tool_sep|>{ARGS.replace('<', LESS)}"),
    "gpt-oss": f"{HARMONY} <|constrain|>json<|message|>{ARGS}<|call|>",
    "kimi": f"<|tool_calls_section_begin|><|tool_call_begin|>{KIMI}{ARGS}<|tool_call_end|>",
    "glm": f"<tool_call>echo\n{GLM}\n</tool_call>",
    "python quotes": f"<tool_call>{PYTHON}</tool_call>",
}


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("form", FORMS)
def test_text_that_ends_in_a_call_of_a_known_tool_is_that_call(form: str, *, native: bool) -> None:
    text = f"I look.\n\n{FORMS[form]}\n"
    with FakeLLM([say(text, n_chunks=3)]) as fake:
        request = ModelRequest([{"role": "user", "content": "Go."}], TOOLS)
        answer = ask(fake, request, native_tool_calling=native)
    [made] = answer.tool_calls
    assert (answer.text, answer.finish_reason) == ("I look.", "tool_calls")
    assert (made.name, json.loads(made.arguments)) == ("echo", {"words": "a </tool_call> b"})
    assert [caveat.code for caveat in answer.caveats] == ["callsInText"] * native
    assert all("llm.nativeToolCalling" in caveat.title for caveat in answer.caveats)


def test_two_written_calls_are_two_calls() -> None:
    with FakeLLM([say(f"{FORMS['qwen']}\n{FORMS['qwen']}")]) as fake:
        answer = ask(fake, ModelRequest([{"role": "user", "content": "Go."}], TOOLS))
    assert [made.id for made in answer.tool_calls] == ["written_1", "written_2"]


NOT_RUN: dict[str, str] = {
    "in a fence": f"Call it:\n```json\n{FORMS['bare']}\n```",
    "before more text": f"{FORMS['hermes']}\nThat is how.",
    "arguments alone": '{"words": "a"}',
    "arguments alone in a fence": '```json\n{"words": "a"}\n```',
}
PLAIN: dict[str, str] = {
    "of an unknown tool": '<tool_call>{"name": "rm", "arguments": {}}</tool_call>',
    "other JSON": '{"result": 5}',
    "prose": "The tool echo takes {words}. Done <b>now</b>.",
    "a list": "- echo: a\n- [x] {done}",
}


@pytest.mark.parametrize("form", [*NOT_RUN, *PLAIN])
def test_other_text_is_no_call(form: str) -> None:
    with FakeLLM([say((NOT_RUN | PLAIN)[form])]) as fake:
        answer = ask(fake, ModelRequest([{"role": "user", "content": "Go."}], TOOLS))
    assert (answer.tool_calls, answer.has_written_call) == ((), form in NOT_RUN)


def test_model_that_makes_native_calls_means_text_when_it_writes_one() -> None:
    with FakeLLM([say(FORMS["hermes"])]) as fake:
        answer = ask(fake, ModelRequest(GO_ON, TOOLS))
    assert (answer.tool_calls, answer.has_written_call) == ((), True)


def test_written_calls_run_one_after_the_other_and_the_user_is_told_once() -> None:
    with at_work([say(FORMS["qwen"]), say(FORMS["llama 3.1"]), say("Done.")], ECHO) as work:
        assert work.run()["finalText"] == "Done."
        results = [item["content"][0]["text"] for item in work.items("toolCall")]
        notices = [item["code"] for item in work.items("notice")]
    assert (results, notices) == (["a </tool_call> b"] * 2, ["callsInText"])


def test_call_that_cannot_be_run_is_answered_once() -> None:
    fenced = say(NOT_RUN["in a fence"])
    with at_work([fenced, call("echo", words="a"), fenced], ECHO) as work:
        turn = work.run()
        [notice] = work.items("notice")
    assert (turn["stopReason"], turn["finalText"]) == ("endTurn", NOT_RUN["in a fence"])
    assert notice["code"] == "writtenCall"
    assert "llm.nativeToolCalling" in notice["title"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("{'words': 'x'}", "x"),
        ("{'words': 'it\\'s \"x\"'}", 'it\'s "x"'),
        ('{"words": "x",}', "x"),
        ('{"words": "a, }",}', "a, }"),
        ("```json\n{'words': 'x',}\n```", "x"),
        ("""{"words": "it's", 'times': None, }""", "it's"),
    ],
)
def test_quotes_of_python_and_last_commas_are_repaired(arguments: str, words: str) -> None:
    parsed = parse_call(ToolCall("1", "echo", arguments), {"echo": ECHO})
    assert parsed.args["words"] == words


@pytest.mark.parametrize("arguments", ["{'words': 'it's'}", "{'words': x}", "{words: 'x'}", "{'a"])
def test_what_would_need_guessing_is_not_repaired(arguments: str) -> None:
    assert parse_call(ToolCall("1", "echo", arguments), {"echo": ECHO}).error is not None
