"""The tools `skill` and `memory`: instructions and notes that outlive a conversation.

For a skill that runs commands or starts servers, the plan lists them: they are what is approved,
and approval is asked for again when the skill's files change them. A note is read in every later
conversation, so writing one needs approval as a file change does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path

from oh_daemon.contract.approvals import ToolSubject
from oh_daemon.contract.errors import DaemonError, ToolError
from oh_daemon.core.cancel import CancelToken
from oh_daemon.core.memory import MAX_NOTE_CHARS
from oh_daemon.core.memory import TOOL as MEMORY
from oh_daemon.core.ports import Footprint, Intent, Json, ToolContext, ToolResult, ToolSpec
from oh_daemon.core.skills import TOOL as SKILL
from oh_daemon.core.skills import Skill
from oh_daemon.tools.schemas import harmless, takes
from oh_daemon.workspace.excerpts import capped
from oh_daemon.workspace.files import Files
from oh_daemon.workspace.paths import Folders, shown


class MemoryTool:
    """`write` takes the scope, the topic, the text and the conversation's id; returns the place."""

    def __init__(
        self,
        scopes: tuple[str, ...],
        search: Callable[[str], str],
        write: Callable[[str, str, str, str], str],
        is_allowed: Callable[[], bool],
    ) -> None:
        self._search = search
        self._write = write
        self._is_allowed = is_allowed
        self._default = scopes[0]
        self.spec = ToolSpec(
            name=MEMORY,
            description=(
                "The notes that outlive a conversation. search: the notes with these words. write: "
                "one note, short and understood without this conversation. topic names its file."
            ),
            input_schema=takes(
                ["command", "text"],
                command={"enum": ["search", "write"]},
                text={"type": "string", "minLength": 1, "maxLength": MAX_NOTE_CHARS},
                scope={
                    "enum": [*scopes],
                    "description": f"of a note; user: for all projects; default {scopes[0]}",
                },
                topic={"type": "string", "pattern": "^[a-z0-9][a-z0-9-]{0,39}$"},
            ),
        )

    def plan(self, args: Json) -> Intent:
        if not self._is_allowed():
            raise ToolError("memory is turned off, or the user does not trust the folder")
        if args["command"] == "search":
            return harmless(MEMORY, args, f"Search memory: {args['text']}")
        place = "/".join(self._place(args))
        return Intent(f"Remember in {place}.md", ToolSubject(tool=MEMORY, args=args), "medium")

    def _place(self, args: Json) -> tuple[str, str]:
        """Return the scope and the topic."""
        # To Python, `$` in the pattern also matches before a last newline.
        return args.get("scope", self._default), args.get("topic", "notes").rstrip("\n")

    def run(self, args: Json, context: ToolContext) -> ToolResult:
        if args["command"] == "search":
            return ToolResult.of(self._search(args["text"]))
        scope, topic = self._place(args)
        try:
            written = self._write(scope, topic, args["text"], context.conversation_id)
        except DaemonError as exc:
            raise ToolError(f"not remembered: {exc}") from exc
        return ToolResult.of(f"Remembered in {written}.")


_MAX_FILES = 100
_MAX_LOOKED_AT = 2_000


class SkillTool:
    """`skills` returns those that can be used now; `use` renders the text of one."""

    spec = ToolSpec(
        name=SKILL,
        description=(
            "Load a skill by its name: instructions for one kind of work, and the names of the "
            "files that come with it. With `file`, read one of those files."
        ),
        input_schema=takes(
            ["name"],
            name={"type": "string"},
            file={"type": "string", "description": "as the skill lists it"},
        ),
        kind="read",
    )

    def __init__(
        self, skills: Callable[[], Sequence[Skill]], use: Callable[[Skill, CancelToken], str]
    ) -> None:
        self._skills = skills
        self._use = use

    def plan(self, args: Json) -> Intent:
        skill = self._named(args["name"])
        title = " ".join(filter(None, (f"Skill {skill.name}", args.get("file"))))
        starts = skill.starts if "file" not in args else ()
        if not starts:
            return harmless(SKILL, args, shown(title))
        return Intent(
            title,
            ToolSubject(tool=SKILL, args={**args, "starts": starts}),
            "medium",
            reasons=tuple(f"starts {shown(each)}" for each in starts),
            footprint=Footprint(writes=True),
            digest_material=tuple(s.model_dump_json() for s in skill.servers.values()),
        )

    def run(self, args: Json, context: ToolContext) -> ToolResult:
        skill = self._named(args["name"])
        if "file" in args:
            return ToolResult.of(_read(skill, args["file"]))
        return ToolResult.of(f"{self._use(skill, context.cancel)}{_files_beside(skill.path)}")

    def _named(self, name: str) -> Skill:
        skills = self._skills()
        for skill in skills:
            if skill.name == name:
                return skill
        known = ", ".join(skill.name for skill in skills) or "none"
        raise ToolError(f"there is no skill {shown(name)!r}; there are: {known}")


def _read(skill: Skill, name: str) -> str:
    """Read a file in the skill's own folder, which may lie outside the workspace."""
    folders = Folders((skill.path.parent,))
    path = folders.resolve(name, writing=False)
    if secret := folders.is_protected(name, writing=False):
        raise ToolError(f"{secret}; it is not shown")
    found = Files(folders, keep=lambda _raw: None).read(path)
    if found is None:
        raise ToolError(f"the skill {skill.name!r} has no file {shown(name)!r}; load it for a list")
    return capped(found.text, "the file")


def _files_beside(path: Path) -> str:
    """List the files of a skill's folder; a skill that is a single file has none."""
    if path.name != "SKILL.md":
        return ""
    folder = path.parent
    found = (file for file in islice(folder.rglob("*"), _MAX_LOOKED_AT) if file.is_file())
    names = sorted(str(file.relative_to(folder)) for file in found if file != path)
    if not names:
        return ""
    more = f"\n… and {len(names) - _MAX_FILES} more" if len(names) > _MAX_FILES else ""
    rows = "\n".join(f"- {shown(name)}" for name in names[:_MAX_FILES])
    return f"\nFiles in {shown(folder)}:\n{rows}{more}"
