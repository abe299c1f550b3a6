"""Skills and commands: prompts that messages name or trigger. All of this is pure.

`files` finds the files; `skills` runs what they start. Invariant: a text is
filled in once; neither output nor arguments are read again as a template.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import Path

from msgspec import Struct, field
from pydantic import ValidationError

from oh_daemon.common.instructions import ContextFile, cap_text, render_context_file
from oh_daemon.kernel.context import in_context
from oh_daemon.kernel.notices import skills_listed_in
from oh_daemon.protocol import plain
from oh_daemon.protocol.base import problem_in
from oh_daemon.protocol.composing import SkillKind, SkillSource
from oh_daemon.protocol.content import CommandPart, Part, SkillPart, TextPart
from oh_daemon.protocol.errors import InvalidParamsError
from oh_daemon.protocol.mcp import McpServerSettings

TOOL = "skill"
COMMAND = "asked for by name"
MAX_LISTED_CHARS = 16 << 10
"""Limit of all descriptions in a prompt; skills beyond it are listed by name only."""
_COMMAND = re.compile(r"(`{2,}).*?\1|!`([^`\n]+)`", re.DOTALL)
"""`!` and a command in backticks, except within a fence or more backticks, which only quote it."""
_PLACEHOLDER = re.compile(r"\$ARGUMENTS\b|\$([1-9])\b")
_PIECE = re.compile(f"{_COMMAND.pattern}|{_PLACEHOLDER.pattern}", re.DOTALL)


class Skill(Struct, frozen=True):
    """One skill, as its file defines it."""

    name: str
    kind: SkillKind
    source: SkillSource
    path: Path
    text: str = ""
    description: str = ""
    triggers: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    argument_hint: str | None = None
    servers: Mapping[str, McpServerSettings] = field(default_factory=dict[str, McpServerSettings])
    problem: str | None = None
    """Why the skill is not used, if it is not."""
    is_broken: bool = False
    """Whether the problem lies in the file, so that its author should hear of it."""

    @property
    def commands(self) -> tuple[str, ...]:
        """The shell commands that run when the skill is used."""
        return tuple(match[2] for match in _COMMAND.finditer(self.text) if match[2])

    @property
    def starts(self) -> tuple[str, ...]:
        """The commands and the MCP servers that it starts, for people to read."""
        servers = (
            f"MCP server {name}: {' '.join([server.command or server.url or '', *server.args])}"
            for name, server in sorted(self.servers.items())
        )
        return (*self.commands, *servers)


class Use(Struct, frozen=True):
    """A skill that the user's words call for."""

    name: str
    why: str
    args: str = ""


def uses_in(items: Sequence[plain.Item], skills: Iterable[Skill]) -> list[Use]:
    """Return the skills that the latest messages call for and the model has not got yet.

    A keyword counts once, and again only after a condensation has removed the skill's text. A
    skill that the user asks for by name counts each time.
    """
    latest = list(takewhile(lambda i: i["kind"] in {"userMessage", "notice"}, reversed(items)))
    answered_skills = {item.get("skill") for item in latest}
    used_skills = {item["skill"] for item in in_context(items) if "skill" in item}
    messages = [item for item in reversed(latest) if item["kind"] == "userMessage"]
    uses: dict[str, Use] = {}
    for part in (part for message in messages for part in message["content"]):
        for use in _uses_of(part, skills):
            if use.name not in (answered_skills if use.why == COMMAND else used_skills):
                uses.setdefault(use.name, use)
    return list(uses.values())


def _uses_of(part: plain.Part, skills: Iterable[Skill]) -> Iterator[Use]:
    words = typed_words(part)
    first, *remaining = words.split(maxsplit=1) or [""]
    for skill in skills:
        is_command = skill.kind == "task" or part["type"] == "skill"
        names = {f"/{skill.name}", *(word for word in skill.triggers if word[:1] == "/")}
        heard = (word for word in skill.triggers if word not in names and has_word(words, word))
        word = next(heard, None)
        if is_command and first in names:
            yield Use(skill.name, COMMAND, "".join(remaining).strip())
        elif word is not None:
            yield Use(skill.name, f"for the word {word!r}")


def typed_words(part: plain.Part) -> str:
    """Return what the user typed: a command or skill as it is written, or text."""
    if part["type"] == "command" or part["type"] == "skill":
        return f"/{part['name']} {part.get('args') or ''}".rstrip()
    return part["text"] if part["type"] == "text" else ""


def has_word(text: str, word: str) -> bool:
    """Return whether the text has this word or phrase, whole and in upper or lower case."""
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text, re.IGNORECASE) is not None


def filled_in(text: str, args: str, run: Callable[[str], str]) -> str:
    """Return the text with what its commands print and with what the user wrote after its name."""
    words = args.split()

    def value(match: re.Match[str]) -> str:
        if match[1] is None:
            return args
        return words[int(match[1]) - 1] if int(match[1]) <= len(words) else ""

    def piece(match: re.Match[str]) -> str:
        return run(match[2]) if match[2] else _PLACEHOLDER.sub(value, match[0])

    return _PIECE.sub(piece, cap_text(text))


def prompt_sections(skills: Sequence[Skill], *, can_load: bool) -> list[str]:
    """Return sections of the system prompt: the skills that are always on, a list of the others.

    Without the tool `skill` (`can_load`) the model could not load the others, so none are listed.
    """
    texts = [always_text(skill) for skill in skills if _is_included(skill)]
    listing = [skill for skill in skills if _is_listed(skill)]
    sections = ["\n".join(["# Skills that always hold", *texts])] if texts else []
    if listing and can_load:
        intro = f"Before work that one of these is about, load it with the tool `{TOOL}`:"
        sections.append("\n".join(["# Skills", intro, *_rows(listing)]))
    return sections


def always_text(skill: Skill) -> str:
    """Return the text in a prompt of a skill that is always on."""
    return render_context_file(ContextFile(str(skill.path), cap_text(skill.text), skill.name))


def in_prompt(skills: Iterable[Skill], *, can_load: bool) -> dict[str, str]:
    """Return the names of the skills in `prompt_sections`, each with a digest of its text."""
    return {
        skill.name: _digest(skill)
        for skill in skills
        if _is_included(skill) or (can_load and _is_listed(skill))
    }


def has_text_of(skill: Skill, agent: plain.AgentInfo) -> bool:
    """Return whether the prompt of this agent includes the text of a skill as it is now."""
    skill_names = agent.get("skills")
    if skill_names is None:
        return always_text(skill) in agent["systemPrompt"]
    return skill_names.get(skill.name) == _digest(skill)


def unlisted_skills(
    skills: Iterable[Skill], agent: plain.AgentInfo, items: Sequence[plain.Item]
) -> list[Skill]:
    """Return the skills that a prompt would list, but neither this one nor a notice does."""
    skill_names = agent.get("skills")
    names = set(skills_listed_in(agent["systemPrompt"]) if skill_names is None else skill_names)
    for item in in_context(items):
        if item["kind"] == "notice":
            names.update(item.get("skills") or skills_listed_in(item.get("note") or ""))
    return [skill for skill in skills if _is_listed(skill) and skill.name not in names]


def _is_included(skill: Skill) -> bool:
    # A skill with commands comes with the first step: a new conversation starts no process.
    return skill.kind == "always" and not skill.commands


def _is_listed(skill: Skill) -> bool:
    return skill.kind != "always" and bool(skill.description)


def _digest(skill: Skill) -> str:
    return hashlib.sha256(always_text(skill).encode("utf-8", "surrogatepass")).hexdigest()


def _rows(skills: Iterable[Skill]) -> Iterator[str]:
    room = MAX_LISTED_CHARS
    for skill in skills:
        room -= len(skill.description)
        yield f"- {skill.name}: {skill.description}" if room >= 0 else f"- {skill.name}"


class Command(Struct, frozen=True):
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


def commands_with(skills: Iterable[Skill]) -> list[Command | Skill]:
    """Return our commands and the task skills; a skill replaces our command of the same name."""
    tasks = [skill for skill in skills if skill.kind == "task" and skill.problem is None]
    skill_names = {skill.name for skill in tasks}
    return [*(each for each in COMMANDS if each.name not in skill_names), *tasks]


def typed_part(text: str) -> Part:
    """Return what the user typed as a part: a command, if it begins with the name of one.

    For fronts without completion. Skills are found in any text. Raises `InvalidParamsError` for a
    text that is too long.
    """
    match = _TYPED.fullmatch(text.strip())
    try:
        if match and match[1] in _BY_NAME:
            return CommandPart(name=match[1], args=match[2])
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
    skill_names = {name for name, kind in skills.items() if kind == "task" or not is_command}
    args = (part.args or "").strip()
    addition = f"\n\nThe user adds:\n{args}" if args else ""
    if part.name in skill_names:
        prompt = f"Do what the skill {part.name!r} says; its text comes after this message."
    elif is_command and part.name in _BY_NAME:
        prompt = _BY_NAME[part.name].prompt
    else:
        names = ", ".join([*(_BY_NAME if is_command else ()), *sorted(skill_names)])
        hint = f"it is one of {names}" if names else "none can be used here; see skill/list"
        what = f"there is no {part.type} {part.name!r}; {hint}"
        raise InvalidParamsError.at(f"content.{position}.name", what, "unknown")
    return part.model_copy(update={"prompt": prompt + addition})
