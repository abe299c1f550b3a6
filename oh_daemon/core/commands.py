"""The commands that a user can give by name: prompts of ours, one table.

The transcript keeps a command as it was given; beside it the log has the text that the model gets,
so a conversation reads the same after the table has changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from oh_daemon.contract.content import CommandPart, Part, SkillPart
from oh_daemon.contract.errors import InvalidParamsError
from oh_daemon.contract.skills import SkillKind


@dataclass(frozen=True, slots=True)
class Command:
    """`prompt` is what the model is told; what the user adds comes after it."""

    name: str
    description: str
    argument_hint: str
    prompt: str


COMMANDS: tuple[Command, ...] = (
    Command(
        "fix",
        "Find the cause of a problem and fix it",
        "what is wrong",
        "Fix the problem given with this message: its diagnostics, selection, file or words. If "
        "nothing is given, run the project's tests and checks and fix what fails. Find the cause "
        "before you change anything, make the smallest change that removes it, and show that it "
        "is gone by running the test or check that showed it.",
    ),
    Command(
        "explain",
        "Explain code without changing it",
        "what to explain",
        "Explain the code given with this message, or else the project as a whole. Read what it "
        "calls and who calls it first. Say what it is for, how it works step by step, and what "
        "is surprising or easily broken, with the files and lines. Change nothing.",
    ),
    Command(
        "test",
        "Write tests and run them",
        "what to test",
        "Write tests for the code given with this message, or else for what changed last "
        "(`git diff`, then the last commit). Use the project's test framework, folders and style. "
        "Cover the normal case, the edges and the errors, one behavior per test. Run them; if one "
        "fails because the code is wrong, leave the code as it is and say so.",
    ),
    Command(
        "review",
        "Review changes for bugs, without changing anything",
        "files, a commit or a branch",
        "Review the changes named below, or else those that are not committed (`git status`, "
        "`git diff HEAD`), or else the last commit. Read the code around them. Report bugs, "
        "missing cases, security problems and missing tests, the worst first, each with file, "
        "line, what goes wrong, and how to fix it. Say nothing about taste. Change nothing.",
    ),
    Command(
        "commit",
        "Commit the work with a message in the project's style",
        "what to commit",
        "Commit the changes in the working tree with git. Look at `git status`, `git diff HEAD` "
        "and the style of `git log -10` first. Stage only what belongs together, never secrets or "
        "generated files; if there are several unrelated changes, make several commits. The "
        "message says what changed and why. Do not push, amend or skip hooks; if a hook fails, "
        "say why.",
    ),
    Command(
        "document",
        "Write the missing documentation",
        "what to document",
        "Document the code given with this message: docstrings or comments in the project's "
        "style, and the README or docs where they speak of it. Say what callers must know and "
        "why, not what the code already says. Do not change what the code does.",
    ),
    Command(
        "refactor",
        "Make code simpler without changing what it does",
        "what to simplify",
        "Simplify the code given with this message without changing what it does. Run its tests "
        "before and after; where there are none, write them first. Remove duplication and dead "
        "code, name things better, split what is too long, and leave public names as they are.",
    ),
    Command(
        "optimize",
        "Measure and make code faster",
        "what is slow",
        "Make the code given with this message faster. Measure first, say where the time or "
        "memory goes, change only that, and measure again. Keep a change only when the gain is "
        "clear and the tests still pass.",
    ),
    Command(
        "plan",
        "Plan a change without making it",
        "the change",
        "Plan the change named below without making it. Read the code it touches. Then give the "
        "steps in order with the files and functions, what could break, and how each step is "
        "tested. Ask what you cannot find out.",
    ),
    Command(
        "init",
        "Write AGENTS.md, the notes for agents",
        "what to stress",
        "Write AGENTS.md at the top of the project, or bring it up to date: what the project is, "
        "how to build, run, lint and test it (try the commands), where things are, and the rules "
        "that its code follows. At most a page, only what cannot be guessed from the files.",
    ),
)
_BY_NAME = {command.name: command for command in COMMANDS}


def written_out(content: Sequence[Part], skills: Mapping[str, SkillKind]) -> tuple[Part, ...]:
    """The parts with the prompt of each command or skill; a skill may take a command's place.

    Raises `InvalidParamsError` for unknown ones.
    """
    return tuple(
        _with_prompt(part, n, skills) if isinstance(part, CommandPart | SkillPart) else part
        for n, part in enumerate(content)
    )


def _with_prompt(
    part: CommandPart | SkillPart, position: int, skills: Mapping[str, SkillKind]
) -> Part:
    is_command = part.type == "command"
    known = {name for name, kind in skills.items() if kind == "task" or not is_command}
    args = (part.args or "").strip()
    added = f"\n\nThe user adds:\n{args}" if args else ""
    if part.name in known:
        prompt = f"Do what the skill {part.name!r} says; its text comes after this message."
    elif is_command and part.name in _BY_NAME:
        prompt = _BY_NAME[part.name].prompt
    else:
        names = ", ".join([*(_BY_NAME if is_command else ()), *sorted(known)])
        hint = f"it is one of {names}" if names else "none can be used here; see skill/list"
        what = f"there is no {part.type} {part.name!r}; {hint}"
        raise InvalidParamsError.at(f"content.{position}.name", what, "unknown")
    return part.model_copy(update={"prompt": prompt + added})
