"""The method about agents that can be delegated to."""

from __future__ import annotations

from pathlib import Path

from oh_daemon.contract import agents as m
from oh_daemon.fronts.lsp.daemon import Daemon, Handler, on_worker, parse_folder
from oh_daemon.fronts.sub_agents import agents_in


def agent_list(daemon: Daemon, params: m.AgentListParams, folders: list[Path]) -> m.AgentListResult:
    if params.conversation_id is not None:
        own = daemon.conversations.live(params.conversation_id).workbench.folders
        folders = list(own.folders) if own else []
    elif params.folder is not None:
        folders = [parse_folder(params.folder, "folder")]
    agents = agents_in(daemon.shared, folders).values()
    return m.AgentListResult(
        agents=tuple(m.AgentSummary.model_validate(a, from_attributes=True) for a in agents)
    )


HANDLERS: dict[str, Handler] = {"agent/list": on_worker(agent_list)}
