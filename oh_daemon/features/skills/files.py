"""Finds skills and reads their files: a folder with SKILL.md, or a single Markdown file.

The nearest come first, sorted by name, so the same files give the same prompt. An unusable file
becomes a skill with a problem; `find_skills` does not raise. Commands in a text run later.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Annotated, Literal, Self

import yaml
from msgspec.structs import replace
from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    Field,
    ValidationError,
    model_validator,
)

from oh_daemon.common.cancel import Cancelled, CancelToken
from oh_daemon.common.front_matter import load_head, split_front_matter
from oh_daemon.common.masking import Masker
from oh_daemon.features.skills.prompts import Skill
from oh_daemon.features.terminal.output import CleanText
from oh_daemon.protocol.base import problem_in
from oh_daemon.protocol.composing import SkillKind, SkillSource
from oh_daemon.protocol.errors import ToolError
from oh_daemon.protocol.mcp import McpServerSettings
from oh_daemon.system.spawner import Spawner
from oh_daemon.workspace.agent_files import SKILL_FOLDERS
from oh_daemon.workspace.file_names import parse_glob
from oh_daemon.workspace.files import read_plain
from oh_daemon.workspace.paths import printable
from oh_daemon.workspace.repository import up_to_repository

MAX_SKILLS = 200
MAX_FILE_BYTES = 256 << 10
_MAX_FRONT_CHARS = 16 << 10
_MAX_DESCRIPTION = 1_024
_MAX_DEPTH = 3
_OWN_FILE = "SKILL.md"
_SERVER_FILES = (".mcp.json", "mcp.json")
_NOT_SKILLS = {"README.md", "repo.md"}
"""`repo.md` is a context file."""
_NAME = re.compile(r"\w[\w.-]{0,63}")
UNTRUSTED = "its folder is not trusted, so it is only listed"


def _as_list(value: object) -> object:
    return [word.strip() for word in value.split(",")] if isinstance(value, str) else value


Words = Annotated[tuple[str, ...], BeforeValidator(_as_list)]


class _Input(BaseModel):
    name: str


class _Servers(BaseModel):
    """The MCP servers, in the form of other agents' `mcp.json`."""

    servers: dict[str, McpServerSettings] = Field(
        default={}, validation_alias=AliasChoices("mcpServers", "mcp_servers")
    )


class _McpTools(_Servers, extra="forbid"):
    """The same nested, where any other form would be left out without a word."""


class _Trigger(BaseModel, extra="forbid"):
    """What sets a skill off, in the nested form of other agents."""

    type: Literal["keyword", "task", "always"]
    keywords: Words = ()

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.type == "keyword" and not any(self.keywords):
            raise ValueError("a keyword needs `keywords`")
        if self.type == "always" and self.keywords:
            raise ValueError("what is always on needs no `keywords`")
        return self


class _Front(_Servers):
    """What a front matter may say; other keys belong to other agents."""

    name: str | None = None
    description: str = ""
    triggers: Words = ()
    paths: Words = ()
    inputs: tuple[_Input, ...] = ()
    type: str | None = None
    hint: str | None = Field(
        default=None, validation_alias=AliasChoices("argument-hint", "argument_hint")
    )
    trigger: _Trigger | None = None
    mcp_tools: _McpTools = _McpTools()

    @property
    def words(self) -> tuple[str, ...]:
        keywords = self.trigger.keywords if self.trigger else ()
        return tuple(filter(None, (*self.triggers, *keywords)))


def find_skills(
    folders: Sequence[Path], home: Path | None, is_trusted: Callable[[Path], bool]
) -> tuple[Skill, ...]:
    """Return the skills of the open folders, up to the top of their repositories, and of the user.

    Of skills with the same name, only the nearest usable one is returned.
    """
    skills: dict[str, Skill] = {}
    for skill in islice(_all(folders, home, is_trusted), MAX_SKILLS):
        earlier_skill = skills.get(skill.name)
        if earlier_skill is None or (earlier_skill.problem and not skill.problem):
            skills[skill.name] = skill
    return tuple(skills.values())


def _all(
    folders: Sequence[Path], home: Path | None, is_trusted: Callable[[Path], bool]
) -> Iterator[Skill]:
    for folder in folders:
        problem = None if is_trusted(folder) else UNTRUSTED
        for base in up_to_repository(folder):
            yield from _of_base(base, "project", problem)
    if home is not None:
        yield from _of_base(home, "user", None)


def _of_base(base: Path, source: SkillSource, problem: str | None) -> Iterator[Skill]:
    places = [place for place in SKILL_FOLDERS if os.access(f"{base}/{place}", os.F_OK)]
    inside = f"{os.path.realpath(base)}/" if places else ""
    for path in (path for place in places for path in _files(base / place, SKILL_FOLDERS[place])):
        name = path.parent.name if path.name == _OWN_FILE else path.stem
        skill = Skill(printable(name)[:64], "agent", source, path)
        # A link in a repository must not bring in files from elsewhere on this machine.
        if source == "project" and not os.path.realpath(path).startswith(inside):
            yield replace(skill, problem="it is a link to outside the project", is_broken=True)
            continue
        try:
            read = _read(skill)
        except (OSError, ValueError, ToolError) as exc:
            read = replace(skill, problem=str(exc), is_broken=True)
        yield replace(read, problem=problem, is_broken=False) if problem else read


def _files(place: Path, takes_plain: bool, depth: int = 1) -> Iterator[Path]:
    try:
        entries = sorted(place.iterdir())
    except OSError:
        return
    for entry in entries:
        if (entry / _OWN_FILE).is_file():
            yield entry / _OWN_FILE
        elif entry.is_dir():
            yield from _files(entry, takes_plain, depth + 1) if depth < _MAX_DEPTH else ()
        elif takes_plain and entry.suffix == ".md" and entry.name not in _NOT_SKILLS:
            yield from (entry,) if entry.is_file() else ()


def _read(skill: Skill) -> Skill:
    """Read a skill. Raises `OSError`, `ValueError` or `ToolError` that says what is wrong."""
    path = skill.path
    frontend, body = _parse(_text(path))
    name = frontend.name or skill.name
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"the name {printable(name)[:64]!r} must be letters, digits, '-', '_' and '.'"
        )
    for pattern in frontend.paths:
        parse_glob(pattern)
    kind = _kind(frontend, is_own=path.name == _OWN_FILE)
    # Without a description the model would never load the skill.
    first_line = body.strip().partition("\n")[0].lstrip("# ") if kind == "agent" else ""
    description = " ".join((frontend.description or first_line).split())
    return replace(
        skill,
        name=name,
        kind=kind,
        text=body,
        description=printable(description)[:_MAX_DESCRIPTION],
        triggers=frontend.words,
        paths=frontend.paths,
        argument_hint=frontend.hint or ", ".join(each.name for each in frontend.inputs) or None,
        servers=_servers(frontend, path),
    )


def _text(path: Path) -> str:
    raw = read_plain(path, MAX_FILE_BYTES)
    if b"\0" in raw:
        raise ValueError(f"{path.name} is not a text file")
    return raw.decode("utf-8-sig").replace("\r\n", "\n")


@lru_cache(maxsize=512)
def _parse(text: str) -> tuple[_Front, str]:
    """Parse a file. Raises `ValueError`. Cached, as the same texts come again at each step."""
    head, body = split_front_matter(text)
    if (head is None and text.startswith("---")) or len(head or "") > _MAX_FRONT_CHARS:
        raise ValueError("its front matter has no end: a line of '---' after at most 16 KiB")
    try:
        return _Front.model_validate(load_head(head or "") or {}), body
    except yaml.MarkedYAMLError as exc:
        line = exc.problem_mark.line + 2 if exc.problem_mark else 1
        raise ValueError(f"line {line}: {exc.problem}; quote texts that have ': ' in them") from exc
    except (yaml.YAMLError, RecursionError) as exc:
        raise ValueError(f"its front matter is not valid YAML: {exc}") from exc
    except ValidationError as exc:
        raise ValueError(problem_in(exc, label="front matter")) from exc


def _kind(frontend: _Front, *, is_own: bool) -> SkillKind:
    """Return the kind by what sets the skill off first; trigger words work for every kind."""
    trigger_type = frontend.trigger.type if frontend.trigger else None
    is_task = "task" in {frontend.type, trigger_type} or frontend.inputs
    if is_task or any(word[:1] == "/" for word in frontend.words):
        return "task"
    if trigger_type is not None:
        return trigger_type
    if frontend.paths:
        return "path"
    if frontend.words:
        return "keyword"
    return "agent" if is_own else "always"


def _servers(frontend: _Front, path: Path) -> dict[str, McpServerSettings]:
    servers: Mapping[str, McpServerSettings] = {**frontend.mcp_tools.servers, **frontend.servers}
    if path.name == _OWN_FILE:
        with os.scandir(path.parent) as entries:
            present = {entry.name for entry in entries if entry.is_file()}
        for file in (path.parent / name for name in _SERVER_FILES if name in present):
            try:
                servers = {**_Servers.model_validate_json(_text(file)).servers, **servers}
            except ValidationError as exc:
                raise ValueError(f"{file.name}: {problem_in(exc)}") from exc
    return {name: _at(server, path.parent) for name, server in servers.items()}


def _at(server: McpServerSettings, folder: Path) -> McpServerSettings:
    """Return `server` with `${SKILL_ROOT}` replaced by the skill's folder."""

    def at_placeholder(text: str) -> str:
        return text.replace("${SKILL_ROOT}", str(folder))

    env = {name: at_placeholder(value) for name, value in server.env.items()}
    command = server.command and at_placeholder(server.command)
    return server.model_copy(
        update={"command": command, "args": tuple(map(at_placeholder, server.args)), "env": env}
    )


TIMEOUT_S = 10.0
MAX_BYTES = 50_000


def output_of(
    command: str, spawner: Spawner, masker: Masker, cwd: Path, cancel: CancelToken
) -> str:
    """Return what the command prints to both streams, or what went wrong.

    Never raises, since a reader needs the rest of the skill as well.
    """
    try:
        argv = ["bash", "-c", f"exec 2>&1\n{command}"]
        result = spawner.run(argv, cwd=cwd, timeout_s=TIMEOUT_S, cancel=cancel)
    except ToolError as exc:
        return f"[{printable(command)}: {exc}]"
    except Cancelled:
        return f"[{printable(command)}: interrupted]"
    clean = CleanText()
    text = (clean.feed(result.stdout[:MAX_BYTES]) + clean.flush()).rstrip()
    if len(result.stdout) > MAX_BYTES:
        text = masker.mask_start(text)
        text += f"\n[cut after {MAX_BYTES:,} of {len(result.stdout):,} bytes]"
    if result.exit_code:
        return f"[{printable(command)}: exit code {result.exit_code}] {text}".rstrip()
    return text
