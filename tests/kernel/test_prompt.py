"""The system prompt: it begins the same for all conversations, and differs only at the end."""

import re
from itertools import chain, combinations

import pytest

from oh_daemon.kernel.prompt import packaged_prompt, render_system_prompt

HERE = {"date": "2026-01-31", "mode": "ask"}
TOOLS = frozenset({"edit", "grep", "glob", "list", "terminal", "ask", "todo", "finish"})
PACKAGED = packaged_prompt({*TOOLS, "changes", "editor"})


def test_conversations_share_all_that_comes_before_their_folders():
    one = render_system_prompt(["/a"], environment=HERE, packaged=PACKAGED)
    two = render_system_prompt(["/b"], environment=HERE, packaged=PACKAGED)
    end = next(n for n, (a, b) in enumerate(zip(one, two, strict=True)) if a != b)
    shared_records = one[:end]
    assert shared_records.endswith("- /")
    assert "Explore" in shared_records
    assert "Verify" in shared_records
    assert one == f"{shared_records}a\n# Environment\ndate: 2026-01-31\nmode: ask\n"


def test_the_users_instructions_come_last():
    prompt = render_system_prompt(
        [], environment=HERE, packaged=PACKAGED, instructions=" Speak French.\n"
    )
    assert prompt.endswith("mode: ask\n# From the user\nSpeak French.\n")
    assert "there is no workspace\n# Environment" in prompt


def test_the_packaged_prompt_names_only_tools_that_are_there():
    assert set(re.findall("`([a-z]+)`", PACKAGED)) == TOOLS | {"cat"}
    everything = (*sorted(TOOLS), "apply_patch")
    for tools in chain.from_iterable(combinations(everything, n) for n in range(len(everything))):
        for facts in ((), ("changes",), ("changes", "editor"), ("editor",)):
            text = packaged_prompt({*tools, *facts})
            assert set(re.findall("`([a-z_]+)`", text)) <= {*tools, "cat"}
            assert not re.search(r"\?!?\w+ ", text)
            assert ("user's editor" in text) == ("editor" in facts)


def test_an_agent_that_only_looks_is_not_told_to_change_files():
    looking = packaged_prompt({"edit", "grep", "glob", "list", "terminal"})
    assert not re.search(r"Implement|Verify|change files|your edits", looking, re.IGNORECASE)


def test_an_agent_with_patches_is_told_of_one_way_to_change_files():
    text = packaged_prompt({*TOOLS, "apply_patch", "changes"})
    assert "`edit` to view files, and `apply_patch` to change them" in text
    assert "`edit` replaces text" not in text


@pytest.mark.parametrize(
    "sentence",
    [
        # Section 5, persistence: one line named `finish`, and nothing kept a model from stopping.
        "Do the whole task: a plan, or a part of it, is not the end.",
        # Section 5, question and change: a question could be acted on.
        "A question gets an answer, not a change.",
        # Section 5, dirty worktree: nothing kept it from resetting what the user had changed.
        "Never undo what you did not do",
        # Section 5, regression test: the prompt told to run tests, not to add one.
        "Where there are tests, a fix gets one that fails without it.",
        # Section 5, temporary files: only backups were named.
        "remove the temporary files that you made",
    ],
)
def test_the_prompt_says_what_was_missing(sentence: str):
    assert sentence in PACKAGED
