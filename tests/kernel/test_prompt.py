"""The system prompt: it begins the same for all conversations, and differs only at the end."""

import ast
import re
from itertools import chain, combinations

import pytest
from places import REPO

from oh_daemon.kernel.prompt import FACTS, packaged_prompt, render_system_prompt

HERE = {"date": "2026-01-31", "mode": "ask"}
TOOLS = frozenset({"edit", "grep", "glob", "list", "terminal", "ask", "todo", "finish"})
PROGRAMS = {"cat", "rm"}
PACKAGED = packaged_prompt({*TOOLS, "changes", "editor", "buffers"})


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
    assert set(re.findall("`([a-z]+)`", PACKAGED)) == TOOLS - {"terminal"} | PROGRAMS
    everything = (*sorted(TOOLS), "apply_patch")
    for tools in chain.from_iterable(combinations(everything, n) for n in range(len(everything))):
        for facts in ((), ("changes",), ("changes", "buffers"), ("buffers",)):
            text = packaged_prompt({*tools, *facts})
            assert set(re.findall("`([a-z_]+)`", text)) <= PROGRAMS.union(tools)
            assert not re.search(r"\?!?\w+ ", text)
            assert ("user's editor" in text) == ("buffers" in facts)


def test_an_agent_that_only_looks_is_not_told_to_change_files():
    looking = packaged_prompt({"edit", "grep", "glob", "list", "terminal"})
    assert not re.search(r"Implement|Verify|change files|your edits", looking, re.IGNORECASE)


def test_an_agent_with_patches_is_told_of_one_way_to_change_files():
    text = packaged_prompt({*TOOLS, "apply_patch", "changes"})
    assert "View files with `edit`, and change them with `apply_patch`" in text
    assert "change files with `edit`" not in text


def test_each_condition_is_a_fact_or_a_tool():
    texts = [path.read_text() for path in (REPO / "oh_daemon").rglob("*.[mp][dy]")]
    rows = [row for text in texts for row in re.findall(r"^(?:\\n)?((?:\?!?\w+ )+)", text, re.M)]
    conditions = {each.lstrip("?!") for row in rows for each in row.split()}
    assert {"overlay", "subagent", "edit"} < conditions <= {*FACTS, *TOOLS, "apply_patch"}


def test_only_the_tool_ask_tells_the_model_to_ask_the_user():
    """There may be no user, or no way to ask: an error says then what only the user can do."""
    modules: set[str] = set()
    sources = {path: path.read_text() for path in (REPO / "oh_daemon").rglob("*.py")}
    for path in (path for path, source in sources.items() if "sk the user " in source):
        nodes = [*ast.walk(ast.parse(sources[path]))]
        docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        texts = (n for n in nodes if isinstance(n, ast.Constant) and id(n) not in docstrings)
        modules |= {path.stem for text in texts if "sk the user " in str(text.value)}
    # The tool itself, and the error for a call of it where there is none.
    assert modules == {"tools", "tool_calls"}


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
        # Points 1, 2, 4, 6, 7 and 10 that prompts of other agents have.
        "name places as `path:line`",
        "Your last message says what changed and where, how you verified it, and what is left",
        "Changes that appear while you work are the user's or another agent's",
        "Remove no obstacle by force",
        "When the context is full, earlier steps are summarized",
        "`<note>`, `<environment>` and `<summary>` come from the program",
        # Bulk changes by a command were right, and forbidden.
        "but formatters, and one replacement in many files, are for a command",
        # An answer may hold many calls, and each step saved is a whole prompt.
        "Put independent calls into one answer.",
    ],
)
def test_the_prompt_says_what_was_missing(sentence: str):
    assert sentence in PACKAGED
