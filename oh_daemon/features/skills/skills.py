"""The skills of one conversation; what they start runs only while every open folder is trusted."""

from __future__ import annotations

import threading
from collections.abc import Callable, Container, Sequence
from functools import partial
from pathlib import Path

from msgspec import Struct

from oh_daemon.common.cancel import CancelToken
from oh_daemon.common.instructions import ContextFile, render_context_file
from oh_daemon.common.masking import Masker
from oh_daemon.features.mcp.servers import ServerPool
from oh_daemon.features.skills.files import find_skills, output_of
from oh_daemon.features.skills.prompts import (
    TOOL,
    Skill,
    filled_in,
    has_text_of,
    in_prompt,
    prompt_sections,
    unlisted_skills,
    uses_in,
    written_out,
)
from oh_daemon.features.skills.tool import SkillTool
from oh_daemon.features.trust.trust import (
    ProgramIdentity,
    TrustBook,
    command_identity,
    may_run,
    server_identity,
)
from oh_daemon.kernel.context import in_context
from oh_daemon.kernel.conversation import Conversation
from oh_daemon.kernel.extension_points import Feature
from oh_daemon.kernel.journal import new_id
from oh_daemon.kernel.notices import warn
from oh_daemon.kernel.ports import Caveat, Tool
from oh_daemon.kernel.state import State, is_tool_item
from oh_daemon.protocol import events as e
from oh_daemon.protocol.content import Part
from oh_daemon.protocol.errors import ToolError
from oh_daemon.protocol.items import Location, NoticeItem
from oh_daemon.protocol.mcp import McpServerSettings
from oh_daemon.system.spawner import Spawner, Spawners
from oh_daemon.workspace.file_names import fits, parse_glob
from oh_daemon.workspace.paths import printable, real_paths

_NOT_TRUSTED = "not run, because the folder is not trusted"
_NOT_DECIDED = "not run, because the user has not allowed it since it was new or changed"


class SkillFolders(Struct, frozen=True):
    """The folders with the skills of one conversation."""

    workspace: Sequence[Path]
    home: Path | None
    """The user's home folder; None if it must not be used."""
    trust: Callable[[], TrustBook]
    """Returns the current trust, which changes with the sender of a turn's message."""

    def find(self) -> tuple[Skill, ...]:
        """Return all skills, even unusable ones. Reads the disk."""
        return find_skills(self.workspace, self.home, lambda each: self.trust().of(each) == "full")


class Skills(Feature):
    """The skills of one conversation. Thread-safe."""

    def __init__(
        self,
        folders: SkillFolders,
        mcp: ServerPool,
        spawners: Spawners,
        masker: Masker,
        *,
        is_own_log: bool,
    ) -> None:
        """`is_own_log` is whether the log was written by this user's daemons."""
        self._find = folders.find
        self._trust = folders.trust
        self._folders = folders.workspace
        self._mcp = mcp
        self._spawners = spawners
        self._masker = masker
        self._is_own_log = is_own_log
        self._cwd = next(iter(self._folders), Path.home())
        self._lock = threading.Lock()
        self._in_context: set[str] = set()
        self._requested_skills: dict[str, Skill] = {}
        self.servers = mcp.beside(self._servers_to_run, self._cwd, self._prepare)
        self.all: tuple[Skill, ...] = ()
        self._announced_skills: tuple[Skill, ...] = ()
        self._tool = SkillTool(self.usable, self.load)
        self.refresh()

    def refresh(self) -> None:
        """Read the files and the trust in the folders again."""
        self.all = self._find()

    def tools(self) -> list[Tool]:
        """The tool that loads a skill, if there is any skill to load."""
        if all(skill.kind == "always" for skill in self.usable()):
            return []
        return [self._tool]

    def sections(self, offered_names: Container[str]) -> list[str]:
        return prompt_sections(self.usable(), can_load=TOOL in offered_names)

    def in_prompt(self, offered_names: Container[str]) -> dict[str, str]:
        """Return the names of the skills in `sections`, each with a digest of its text."""
        return in_prompt(self.usable(), can_load=TOOL in offered_names)

    def usable(self) -> tuple[Skill, ...]:
        return tuple(skill for skill in self.all if skill.problem is None)

    def written_out(self, content: Sequence[Part]) -> tuple[Part, ...]:
        """Return the content with the prompts of the commands and skills that it names."""
        return written_out(content, {skill.name: skill.kind for skill in self.usable()})

    def before_step(self, conversation: Conversation, cancel: CancelToken) -> None:
        self._use_asked_for(conversation, cancel)
        for skill in self.all:
            if skill.is_broken:
                path = printable(skill.path)
                title = f"The skill {path} is not used"
                warn(conversation.journal, Caveat("unusedSkill", title, skill.problem, path))
        self.servers.begin()

    def _use_asked_for(self, conversation: Conversation, cancel: CancelToken) -> None:
        """Add the skills that the latest message calls for, visible to the user and the model."""
        items = conversation.state.items
        if not items or items[-1]["kind"] not in {"userMessage", "notice"}:
            return
        self.refresh()
        skills_by_name = {skill.name: skill for skill in self.usable()}
        for use in uses_in(items, skills_by_name.values()):
            skill = skills_by_name[use.name]
            text = self.load(skill, cancel, use.args)
            self._show(conversation, skill, use.why, render_context_file(text))
        self._use_always_on(conversation, cancel)

    def _use_always_on(self, conversation: Conversation, cancel: CancelToken) -> None:
        """Start servers of skills that are always on; add the text of those not in the prompt."""
        items = conversation.state.items
        shown_before = {item.get("skill") for item in items}
        in_view_now = {item.get("skill") for item in in_context(items)}
        for skill in (each for each in self.usable() if each.kind == "always"):
            if not has_text_of(skill, conversation.state.agent):
                if skill.name not in in_view_now:
                    text = render_context_file(self.load(skill, cancel))
                    self._show(conversation, skill, "always on", text)
            elif skill.servers and skill.name not in shown_before:
                self._request(skill)
                self._show(conversation, skill, "always on", None)

    def report(self, conversation: Conversation, offered: Container[str]) -> None:
        """Announce skills that the prompt lacks, for instance because a folder is trusted now."""
        if self.all == self._announced_skills or TOOL not in offered:
            return
        self._announced_skills = self.all
        state = conversation.state
        new = unlisted_skills(self.usable(), state.agent, state.items)
        for section in prompt_sections(new, can_load=True):
            names = tuple(skill.name for skill in new)
            title = f"Skills found: {', '.join(names)}"
            notice = NoticeItem(id=new_id(), title=title, note=section, skills=names)
            conversation.journal.append(e.ItemCompleted(item=notice))

    def _show(self, conversation: Conversation, skill: Skill, why: str, note: str | None) -> None:
        notice = NoticeItem(
            id=new_id(),
            title=f"Skill used: {skill.name}",
            description="; ".join([why, *(f"starts {printable(each)}" for each in skill.starts)]),
            note=note,
            skill=skill.name,
        )
        conversation.journal.append(e.ItemCompleted(item=notice))

    def load(self, skill: Skill, cancel: CancelToken, args: str = "") -> ContextFile:
        """Run the skill's commands, return its text for the model, and request its servers."""

        def output(command: str) -> str:
            if why_not := self._why_not(skill, partial(command_identity, command)):
                return f"[{printable(command)}: {why_not}]"
            try:
                is_mine = skill.source == "user"
                spawner = self._spawners.host if is_mine else self._spawners.for_project_programs()
            except ToolError as exc:
                return f"[{printable(command)}: {exc}]"
            return output_of(command, spawner, self._masker, self._cwd, cancel)

        text = filled_in(skill.text, args, output)
        self._request(skill)
        for name, server in skill.servers.items():
            if why_not := self._why_not(skill, partial(server_identity, name, server)):
                text += f"\n[its MCP server {name}: {why_not}]"
        return ContextFile(str(skill.path), text, skill.name)

    def texts_for(self, locations: Sequence[Location], cancel: CancelToken) -> list[ContextFile]:
        """Return texts of skills for the files that a call was about, each skill only once."""
        own = [skill for skill in self.usable() if skill.kind == "path"]
        paths = real_paths(locations) if own else []
        names = [name for path in paths for name in self._names(path)]
        texts: list[ContextFile] = []
        for skill in own:
            patterns = [parse_glob(pattern) for pattern in skill.paths]
            if any(fits(name, pattern) for name in names for pattern in patterns):
                with self._lock:
                    is_new = str(skill.path) not in self._in_context
                    self._in_context.add(str(skill.path))
                if is_new:
                    texts.append(self.load(skill, cancel))
        return texts

    def _names(self, path: Path) -> list[Path]:
        return [path.relative_to(f) for f in self._folders if path.is_relative_to(f)]

    def restore(self, state: State) -> None:
        """Remember exactly the skills that were used, and request their servers again."""
        # Servers start for skills that the user or the agent used here, not for what a log says.
        items = state.items if self._is_own_log else ()
        names: set[str] = set()
        self._in_context.clear()
        self._requested_skills.clear()
        for item in items:
            if is_tool_item(item):
                self._in_context.update((item.get("meta") or {}).get("contextFiles", ()))
                if item["tool"] == TOOL and item["status"] == "completed":
                    names.add(item["args"]["name"])
            elif item["kind"] == "notice" and "skill" in item:
                names.add(item["skill"])
        for skill in self.usable():
            is_used = skill.name in names or str(skill.path) in self._in_context
            if is_used:
                self._request(skill)

    def _why_not(self, skill: Skill, identity_in: Callable[..., ProgramIdentity]) -> str | None:
        """Return why something that the skill starts may not run now, or None."""
        trust, folders = self._trust(), self._folders
        is_sandboxed = self._spawners.are_sandboxed
        if any(trust.of(folder) != "full" for folder in folders):
            return _NOT_TRUSTED
        is_mine = skill.source == "user"
        is_allowed = is_mine or any(
            may_run(trust, each, identity_in(each, is_sandboxed=is_sandboxed)) for each in folders
        )
        return None if is_allowed else _NOT_DECIDED

    def _request(self, skill: Skill) -> None:
        """Let its servers start with the next step, unless the user's settings use their names."""
        server_names = {info.name for info in self._mcp.infos()} if skill.servers else set[str]()
        with self._lock:
            for name in skill.servers.keys() - server_names:
                self._requested_skills.setdefault(name, skill)

    def _servers_to_run(self) -> dict[str, McpServerSettings]:
        with self._lock:
            servers = [
                (name, each, each.servers[name]) for name, each in self._requested_skills.items()
            ]
        return {
            name: server
            for name, skill, server in servers
            if self._why_not(skill, partial(server_identity, name, server)) is None
        }

    def _prepare(self, server: McpServerSettings) -> tuple[Spawner, McpServerSettings]:
        with self._lock:
            is_of_project = any(
                skill.source != "user" and server in skill.servers.values()
                for skill in self._requested_skills.values()
            )
        return (
            self._spawners.for_project_programs() if is_of_project else self._spawners.host,
            server,
        )

    def close(self) -> None:
        self.servers.close()
