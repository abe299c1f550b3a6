"""Notices with codes, and what those of older logs say in words only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from core_world import new_conversation

from oh_daemon.features.skills.prompts import (
    Skill,
    has_text_of,
    in_prompt,
    prompt_sections,
    unlisted_skills,
)
from oh_daemon.kernel.notices import caveat_of, code_of, nudge_to_answer, warn
from oh_daemon.kernel.ports import Caveat, ModelAnswer
from oh_daemon.protocol import events as e
from oh_daemon.protocol.items import NoticeItem


def test_a_caveat_is_logged_once_whatever_its_words() -> None:
    conversation = new_conversation()
    caveat = Caveat("mcpServerFailed", "The MCP server 'shop' failed", "no program", "shop")
    for each in (caveat, Caveat("mcpServerFailed", "Other words", about="shop")):
        warn(conversation.journal, each)
    warn(conversation.journal, Caveat("mcpServerFailed", "The same words", about="other"))
    titles = [item["title"] for item in conversation.state.items if item["kind"] == "notice"]
    assert titles == ["The MCP server 'shop' failed", "The same words"]


@pytest.mark.parametrize(
    ("title", "code", "about"),
    [
        ("This is the demo model: a script, no AI. Set a key.", "demoModel", None),
        ("The MCP server 'shop' failed", "mcpServerFailed", "shop"),
        ("The MCP server 'shop' is left out", "mcpServerLeftOut", "shop"),
        ("Commands leave no checkpoints here", "noCheckpoints", None),
        ("a/b is not known to call functions: it is told", "noFunctionCalls", "a/b"),
        ("The limit of cost counts only calls with a known price", "unknownPrice", None),
        ("The skill ~/x/SKILL.md is not used", "unusedSkill", "~/x/SKILL.md"),
    ],
)
def test_a_caveat_of_an_older_log_is_known_by_its_title(
    title: str, code: Any, about: str | None
) -> None:
    conversation = new_conversation()
    old = NoticeItem(id="n1", severity="warning", title=title)
    conversation.journal.append(e.ItemCompleted(item=old))
    assert caveat_of(conversation.state.item("n1")) == (code, about)
    warn(conversation.journal, Caveat(code, "Today's words", about=about))
    assert len(conversation.state.items) == 1


def test_a_nudge_has_a_code_and_other_items_have_none() -> None:
    conversation = new_conversation()
    nudge_to_answer(conversation.journal, ModelAnswer())
    plain = NoticeItem(id="n1", title="Something else")
    conversation.journal.append(e.ItemCompleted(item=plain))
    nudge, other_item = conversation.state.items
    assert (code_of(nudge), code_of(other_item), caveat_of(other_item)) == (
        "emptyAnswer",
        None,
        None,
    )


ALWAYS = Skill("style", "always", "user", Path("/s/style.md"), "Write short lines.")
LISTED = Skill("deploy", "task", "user", Path("/s/deploy.md"), "Push.", "How to deploy")
NEW = Skill("test", "task", "user", Path("/s/test.md"), "Run.", "How to test")


def agent_of(prompt: str, **fields: Any) -> Any:
    return {"model": "m", "label": "m", "systemPrompt": prompt, "tools": [], **fields}


def test_skills_of_a_prompt_are_known_by_a_digest_and_in_older_logs_by_their_text() -> None:
    prompt = "\n".join(prompt_sections([ALWAYS, LISTED], can_load=True))
    today = agent_of("any words", skills=in_prompt([ALWAYS, LISTED], can_load=True))
    for agent in (today, agent_of(prompt)):
        assert has_text_of(ALWAYS, agent)
        assert unlisted_skills([ALWAYS, LISTED, NEW], agent, []) == [NEW]
    changed_skill = Skill("style", "always", "user", Path("/s/style.md"), "Write long lines.")
    assert not any(has_text_of(changed_skill, agent) for agent in (today, agent_of(prompt)))


@pytest.mark.parametrize("fields", [{"skills": ["test"]}, {"note": "- test: How to test"}])
def test_a_skill_that_a_notice_lists_is_not_new(fields: Any) -> None:
    notice: Any = {"kind": "notice", "id": "n1", "status": "completed", "title": "t", **fields}
    assert unlisted_skills([NEW], agent_of("", skills={}), [notice]) == []
    assert unlisted_skills([NEW], agent_of("", skills={}), []) == [NEW]
