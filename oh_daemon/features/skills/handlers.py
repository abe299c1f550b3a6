"""Handlers of `skill/list` and `command/list`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

from oh_daemon.features.skills.prompts import Skill, commands_with
from oh_daemon.protocol import composing as m
from oh_daemon.workspace.paths import parse_folder

FindSkills: TypeAlias = "Callable[[str | None, Sequence[Path]], Sequence[Skill]]"
"""Returns the skills of an open conversation by its id, otherwise those of the folders."""


def skill_list(
    find_skills: FindSkills, params: m.SkillListParams, folders: Sequence[Path]
) -> m.SkillListResult:
    skill_folders = folders if params.folder is None else [parse_folder(params.folder, "folder")]
    return m.SkillListResult(
        skills=tuple(
            m.SkillInfo(
                name=skill.name,
                description=skill.description,
                kind=skill.kind,
                source=skill.source,
                path=str(skill.path),
                argument_hint=skill.argument_hint,
                problem=skill.problem,
            )
            for skill in find_skills(params.conversation_id, skill_folders)
        )
    )


def command_list(
    find_skills: FindSkills, params: m.CommandListParams, folders: Sequence[Path]
) -> m.CommandListResult:
    """List our commands and the skills that a user starts as one."""
    commands = commands_with(find_skills(params.conversation_id, folders))
    return m.CommandListResult(
        commands=tuple(m.CommandInfo.model_validate(c, from_attributes=True) for c in commands)
    )
