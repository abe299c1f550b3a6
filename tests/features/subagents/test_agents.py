"""Named agents: how their files are read, and which file counts when several give one name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from oh_daemon.common.front_matter import parse_front_matter
from oh_daemon.features.instructions.agent_files import find_agents
from oh_daemon.features.subagents.agents import (
    BUILTIN,
    NamedAgent,
    SubAgentTask,
    TaskOutcome,
    choose_agents,
    inherited_options,
    outcome_of,
    parse_agent,
    render_outcome,
)
from oh_daemon.features.subagents.delegate import DelegateTool
from oh_daemon.kernel.state import State
from oh_daemon.protocol.errors import ToolError


@pytest.mark.parametrize(
    ("text", "values", "body"),
    [
        ("no head", {}, "no head"),
        ("---\nname: a\nlist: [x, y]\n---\n\nBody.\n", {"name": "a", "list": ["x", "y"]}, "Body."),
        ("\ufeff---\r\nname: a\r\n---\r\nBody.", {"name": "a"}, "Body."),
        ("---\ndescription: Use it: often\n---\nB", {"description": "Use it: often"}, "B"),
        ("---\n- a\n- b\n---\nB", {}, "B"),
        ("---\nname: never closed\n", {}, "---\nname: never closed\n"),
        ("---\n---\n", {}, ""),
    ],
)
def test_the_head_of_a_file_is_read_and_what_follows_is_its_text(
    text: str, values: dict[str, Any], body: str
) -> None:
    assert parse_front_matter(text) == (values, body)


def agent(head: str, body: str = "You help.") -> NamedAgent | None:
    return parse_agent(f"---\n{head}\n---\n{body}\n", "helper", "project", "/a/helper.md")


def test_a_file_in_the_usual_form_is_an_agent() -> None:
    assert agent(
        "name: reviewer\ndescription: Reviews\ntools: Read, Bash(git diff:*)\nmodel: opus"
    ) == (
        NamedAgent(
            "reviewer",
            "Reviews",
            "You help.",
            tools=("edit", "terminal"),
            model="opus",
            source="project",
            path="/a/helper.md",
        )
    )


@pytest.mark.parametrize(
    ("tools", "names", "only_reads"),
    [
        ("tools: Read, Grep, LS", ("edit", "grep", "list"), True),
        ("tools: [Read, Edit]", ("edit",), False),
        ("tools: github__search", ("github__search",), False),
        ("tools:", None, False),
        ("tools: '*'", None, False),
    ],
)
def test_one_that_has_nothing_to_change_with_only_reads(
    tools: str, names: tuple[str, ...] | None, *, only_reads: bool
) -> None:
    agent_made = agent(f"description: d\n{tools}")
    assert agent_made is not None
    assert (agent_made.name, agent_made.tools, agent_made.only_reads) == (
        "helper",
        names,
        only_reads,
    )


def test_without_a_description_or_a_prompt_it_is_none() -> None:
    assert agent("name: a") is None
    assert agent("description: d", body=" ") is None


def test_the_project_counts_before_the_user_and_both_before_what_is_built_in(
    tmp_path: Path,
) -> None:
    project, home, outside = tmp_path / "project", tmp_path / "home", tmp_path / "secret.md"
    text = "---\nname: {name}\ndescription: {where}\n---\nBody."
    for folder, where in (
        (project / ".agents/agents", "ours"),
        (home / ".openhands/agents", "mine"),
    ):
        folder.mkdir(parents=True)
        (folder / "a.md").write_text(text.format(name="explore", where=where))
    outside.write_text(text.format(name="leak", where="outside"))
    (project / ".agents/agents/link.md").symlink_to(outside)
    (home / ".openhands/agents/big.md").write_text("x" * (65 << 10))
    os.mkfifo(project / ".agents/agents/pipe.md")
    agents = choose_agents(find_agents([project], home))
    assert [(each.name, each.description) for each in agents.values()] == [
        ("explore", "ours"),
        ("general", BUILTIN[1].description),
    ]


def test_a_sub_agent_is_never_less_strict_than_its_parent() -> None:
    parent = {"mode": "ask", "approval": "askAlways", "model": "m"}
    assert inherited_options(None, parent) == {"mode": "ask", "approval": "askAlways"}
    assert inherited_options("plan", {**parent, "mode": "full"})["mode"] == "plan"
    assert inherited_options("ask", {**parent, "mode": "plan"})["mode"] == "plan"


def test_what_a_turn_came_to_is_said_with_the_last_words() -> None:
    agent_message: Any = {"kind": "agentMessage", "text": "So far."}
    state = State("c1", items=[agent_message])
    error = {"message": "no model"}
    for turn, outcome in [
        ({"stopReason": "finished", "finalText": "Done."}, TaskOutcome("completed", None, "Done.")),
        ({"stopReason": "maxSteps"}, TaskOutcome("failed", "maxSteps", "So far.")),
        ({"stopReason": "cancelled"}, TaskOutcome("cancelled", "cancelled", "So far.")),
        ({"reason": "network"}, TaskOutcome("failed", "network", "So far.")),
        (
            {"stopReason": "error", "error": error},
            TaskOutcome("failed", "error", "no model\nSo far."),
        ),
    ]:
        assert outcome_of(turn, state) == outcome
    actual_state = State("c1", result_schema={"type": "integer"})
    finished_turn = {"stopReason": "finished", "finalText": "Three.", "result": 3}
    assert outcome_of(finished_turn, actual_state) == TaskOutcome("completed", None, "Three.", 3)
    talking_turn = {"stopReason": "endTurn", "finalText": "Three."}
    assert outcome_of(talking_turn, actual_state) == TaskOutcome("failed", "noResult", "Three.")


def test_a_long_result_keeps_its_head_and_tail() -> None:
    text = render_outcome(
        SubAgentTask("t", "T", "general"), "c1", TaskOutcome("completed", None, "x" * 99_999)
    )
    assert len(text) < 17_000
    assert "characters cut]" in text


def test_a_refusal_says_that_no_task_was_started_and_which_agents_there_are() -> None:
    tool = DelegateTool(lambda: {agent.name: agent for agent in BUILTIN}, lambda *_: ())
    tasks = [{"task": "t", "agent": name} for name in ("explore", "tester", "writer", "tester")]
    for args, why in (
        (tasks, "there is no agent 'tester', 'writer'; there are explore, general"),
        ([{"task": "t", "resume": "c1"}] * 2, "two tasks resume the same conversation"),
    ):
        with pytest.raises(ToolError, match=f"^No task was started: {why}"):
            tool.plan({"tasks": args})
