"""The methods that list commands, skills and agents. Each reads the disk on a worker thread."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from oh_daemon.app.knowledge import skills_in
from oh_daemon.app.sub_agents import agents_in
from oh_daemon.contract import skills as m
from oh_daemon.contract.agents import AgentListParams, AgentListResult, AgentSummary
from oh_daemon.contract.composing import CommandInfo, CommandListParams, CommandListResult
from oh_daemon.core.skills import COMMANDS, Skill
from oh_daemon.fronts.lsp.daemon import Daemon, Handler, on_worker
from oh_daemon.fronts.lsp.folder_names import parse_folder


def skills_for(
    daemon: Daemon, conversation_id: str | None, folders: Sequence[Path]
) -> tuple[Skill, ...]:
    """Return the current skills of an open conversation, or else those of the folders."""
    live = daemon.conversations.find_live(conversation_id or "")
    if live is None:
        return skills_in(daemon.shared, folders)
    live.workbench.skills.refresh()
    return live.workbench.skills.all


@on_worker
def skill_list(daemon: Daemon, params: m.SkillListParams, folders: list[Path]) -> m.SkillListResult:
    wanted = folders if params.folder is None else [parse_folder(params.folder, "folder")]
    found = skills_for(daemon, params.conversation_id, wanted)
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
            for skill in found
        )
    )


@on_worker
def command_list(
    daemon: Daemon, params: CommandListParams, folders: list[Path]
) -> CommandListResult:
    """List our commands and the task skills; a skill replaces our command of the same name."""
    found = skills_for(daemon, params.conversation_id, folders)
    tasks = [skill for skill in found if skill.kind == "task" and skill.problem is None]
    taken = {skill.name for skill in tasks}
    return CommandListResult(
        commands=tuple(
            CommandInfo.model_validate(each, from_attributes=True)
            for each in (*(each for each in COMMANDS if each.name not in taken), *tasks)
        )
    )


@on_worker
def agent_list(daemon: Daemon, params: AgentListParams, folders: list[Path]) -> AgentListResult:
    if params.conversation_id is not None:
        folders = [*daemon.conversations.live(params.conversation_id).workbench.folders.folders]
    elif params.folder is not None:
        folders = [parse_folder(params.folder, "folder")]
    agents = agents_in(daemon.shared, folders).values()
    return AgentListResult(
        agents=tuple(AgentSummary.model_validate(a, from_attributes=True) for a in agents)
    )


HANDLERS: dict[str, Handler] = {
    "agent/list": agent_list,
    "command/list": command_list,
    "skill/list": skill_list,
}
