"""The commands that a user can give by name; their prompts are in `commands.md`.

The transcript keeps a command as the user gave it. The log also has the text that the model gets,
so a conversation reads the same after `commands.md` has changed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from oh_daemon.contract.base import problem_in
from oh_daemon.contract.content import CommandPart, Part, SkillPart, TextPart
from oh_daemon.contract.errors import InvalidParamsError
from oh_daemon.contract.skills import SkillKind


@dataclass(frozen=True, slots=True)
class Command:
    """A command. The model gets `prompt`, followed by what the user adds."""

    name: str
    description: str
    argument_hint: str
    prompt: str


_TEXT = Path(__file__).with_name("commands.md").read_text("utf-8")
_ENTRY = re.compile(r"^# /(\w+) \[(.+)\]\n(.+)\n\n(.+)$", re.MULTILINE)
COMMANDS = tuple(
    Command(name, description, hint, prompt)
    for name, hint, description, prompt in _ENTRY.findall(_TEXT)
)
_TYPED = re.compile(r"/([\w-]+)(?:\s+(.*))?", re.DOTALL)
_BY_NAME = {command.name: command for command in COMMANDS}


def typed(text: str) -> Part:
    """Return what the user typed as a part: a command, if it begins with the name of one.

    For fronts without completion. Skills are found in any text. Raises `InvalidParamsError` for a
    text that is too long.
    """
    found = _TYPED.fullmatch(text.strip())
    try:
        if found and found[1] in _BY_NAME:
            return CommandPart(name=found[1], args=found[2])
        return TextPart(text=text)
    except ValidationError as exc:
        raise InvalidParamsError(problem_in(exc)) from None


def written_out(content: Sequence[Part], skills: Mapping[str, SkillKind]) -> tuple[Part, ...]:
    """Return the parts with the prompts of commands and skills; a skill may replace a command.

    Raises `InvalidParamsError` for an unknown command or skill.
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
