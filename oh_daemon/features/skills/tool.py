"""The tool `skill`: loads the instructions of a skill."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path

from oh_daemon.common.cancel import CancelToken
from oh_daemon.common.instructions import ContextFile
from oh_daemon.features.skills.prompts import TOOL as SKILL
from oh_daemon.features.skills.prompts import Skill
from oh_daemon.kernel.ports import Footprint, Intent, Json, ToolContext, ToolResult, ToolSpec
from oh_daemon.kernel.tool_schemas import harmless, takes
from oh_daemon.protocol.approvals import ToolSubject
from oh_daemon.protocol.errors import ToolError
from oh_daemon.workspace.excerpts import cap_text
from oh_daemon.workspace.files import Files
from oh_daemon.workspace.paths import Folders, printable, quoted

_MAX_FILES = 100
_MAX_LOOKED_AT = 2_000


class SkillTool:
    """`skills` returns those that can be used now; `load` returns the text of one."""

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
        self,
        skills: Callable[[], Sequence[Skill]],
        load: Callable[[Skill, CancelToken], ContextFile],
    ) -> None:
        self._skills = skills
        self._load = load

    def plan(self, args: Json) -> Intent:
        skill = self._require_skill(args["name"])
        title = " ".join(filter(None, (f"Skill {skill.name}", args.get("file"))))
        starts = skill.starts if "file" not in args else ()
        if not starts:
            return harmless(SKILL, args, printable(title))
        return Intent(
            title,
            ToolSubject(tool=SKILL, args={**args, "starts": starts}),
            "medium",
            reasons=tuple(f"starts {printable(each)}" for each in starts),
            footprint=Footprint(writes=True),
            digest_material=tuple(s.model_dump_json() for s in skill.servers.values()),
        )

    def run(self, args: Json, context: ToolContext) -> ToolResult:
        skill = self._require_skill(args["name"])
        if "file" in args:
            return ToolResult(instructions=(_read(skill, args["file"]),))
        files = _files_beside(skill.path)
        content = ({"type": "text", "text": files},) if files else ()
        return ToolResult(content, instructions=(self._load(skill, context.cancel),))

    def _require_skill(self, name: str) -> Skill:
        skills = self._skills()
        for skill in skills:
            if skill.name == name:
                return skill
        names = ", ".join(skill.name for skill in skills) or "none"
        raise ToolError(f"there is no skill {quoted(name)}; there are: {names}")


def _read(skill: Skill, name: str) -> ContextFile:
    """Read a file in the skill's own folder, which may lie outside the workspace."""
    folders = Folders((skill.path.parent,))
    path = folders.resolve(name, writing=False)
    if secret := folders.is_protected(name, writing=False):
        raise ToolError(f"{secret}; it is not shown")
    file = Files(folders, persist=lambda _raw: None).read(path)
    if file is None:
        raise ToolError(f"the skill {skill.name!r} has no file {quoted(name)}; load it for a list")
    return ContextFile(str(path), cap_text(file.text, "the file"), skill.name)


def _files_beside(path: Path) -> str:
    """List the files of a skill's folder; a skill that is a single file has none."""
    if path.name != "SKILL.md":
        return ""
    folder = path.parent
    files = (file for file in islice(folder.rglob("*"), _MAX_LOOKED_AT) if file.is_file())
    names = sorted(str(file.relative_to(folder)) for file in files if file != path)
    if not names:
        return ""
    more = f"\n… and {len(names) - _MAX_FILES} more" if len(names) > _MAX_FILES else ""
    rows = "\n".join(f"- {printable(name)}" for name in names[:_MAX_FILES])
    return f"Files in {printable(folder)}:\n{rows}{more}"
