"""What a program's conversations are composed of: its agent and workspace, as `app` takes them."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from threading import TIMEOUT_MAX
from typing import cast

from msgspec import Struct
from msgspec.structs import replace

from oh_daemon.common.masking import Masker
from oh_daemon.conversations.open_conversation import OpenConversation
from oh_daemon.conversations.sandboxes import Sandboxes
from oh_daemon.conversations.services import (
    AgentConfig,
    ClientConnection,
    ConversationContext,
    DaemonServices,
    UserContext,
)
from oh_daemon.features.mcp.connections import ServerEnvironment
from oh_daemon.features.mcp.offer import tool_name
from oh_daemon.features.mcp.servers import ServerPool
from oh_daemon.features.models.models import Models
from oh_daemon.features.terminal.login_shell import CommandEnvironment
from oh_daemon.features.trust.trust import TrustBook
from oh_daemon.frontends.library.library_agent import LLM, Agent, Tool
from oh_daemon.frontends.library.workspace import CommandResult, Workspace, WorkspaceSandbox, run_in
from oh_daemon.kernel.journal import Listener
from oh_daemon.kernel.ports import ApprovalPolicy, Question, RiskAnalyzer
from oh_daemon.protocol.messages import ToolFilter
from oh_daemon.protocol.profiles import Profile, Router
from oh_daemon.protocol.settings import Layer, Merged, Settings, merge_settings
from oh_daemon.system.io_loop import run_on_loop
from oh_daemon.system.private_files import PrivateValues
from oh_daemon.system.spawner import Spawner

_OWN = {"approval", "max_steps", "max_cost_usd", "condenser", "instructions", "mcp_servers"}
"""Fields of an agent that are settings."""


def config_of(agent: Agent) -> AgentConfig:
    """Return the agent in the form that `conversations/open_conversation` uses."""
    own = [tool.bound() for tool in agent.tools if isinstance(tool, Tool)]
    builtin = [name for name in agent.tools if isinstance(name, str)]
    of_servers = [f"{tool_name(server, '')}*" for server in agent.mcp_servers]
    names = (*builtin, *(tool.spec.name for tool in own), *of_servers)
    return AgentConfig(
        risk_analyzer=cast("RiskAnalyzer | None", agent.risk_analyzer),
        approval_policy=cast("ApprovalPolicy | None", agent.approval_policy),
        system_prompt=agent.system_prompt,
        instructions=agent.instructions,
        tool_filter=ToolFilter(allow=names if builtin else None),
        more_tools=own,
        tool_choice=agent.tool_choice,
        result_schema=agent.result_schema,
        options={"model": agent.main_model, "approval": agent.approval},
    )


class AgentSettings(Struct, frozen=True):
    """The settings of an agent, the same in every folder."""

    settings: Settings

    def of(self, folder: Path | None) -> Merged:  # noqa: ARG002 - see `FolderSettings`.
        return Merged(self.settings, {}, ())


class NoDecisions:
    """Implements `UserDecisions` for a program, which stores none."""

    def grants(self, folder: Path) -> Collection[str]:  # noqa: ARG002 - see `UserDecisions`.
        return ()

    def add_grant(self, folder: Path, key: str) -> None:
        """Store nothing."""

    def spend(self, amount_usd: float) -> float:  # noqa: ARG002 - see `UserDecisions`.
        return 0.0


class LibraryProgram(ClientConnection):
    """The program that uses the library."""

    def __init__(self, agent: Agent, listener: Listener, *, answers: bool) -> None:
        super().__init__("python", (listener,))
        self._agent = agent
        self._answers = answers

    def can_ask(self) -> bool:
        return self._agent.approval != "askNever"

    def can_answer(self, question: Question) -> bool:  # noqa: ARG002 - its callback takes all.
        return self._answers


def context_of(
    agent: Agent,
    workspace: object,
    folders: Sequence[Path],
    listener: Listener,
    *,
    answers: bool,
) -> ConversationContext:
    """Return the context of a program's conversation; `answers`: it answers questions."""
    settings = settings_of(agent)
    own = workspace if isinstance(workspace, Workspace) else None
    environment = own.environment if own else os.environ
    secrets = own.secrets if own else {}
    masker, spawner = Masker([v for v in secrets.values() if isinstance(v, str)]), Spawner()
    surroundings = ServerEnvironment(spawner, environment, masker, [*folders, Path.cwd()][0])
    services = DaemonServices(
        spawner=spawner,
        masker=masker,
        mcp=_servers_of(agent, surroundings, folders),
        environment=environment,
        commands=CommandEnvironment(environment),
        sandboxes=Sandboxes(
            spawner, Path.home(), environment, hosts=lambda: settings.sandbox_reads
        ),
        user_folder=Path(os.devnull),
        home=None,
        user_memory=agent.memory,
    )
    user = UserContext(
        settings=AgentSettings(settings),
        trust=TrustBook(trust_by_folder=dict.fromkeys(folders, True)),
        models=models_of(agent, settings, masker.add),
        sandbox=WorkspaceSandbox(own.sandbox if own else "auto", environment),
        decisions=NoDecisions(),
        secrets=secrets,
    )
    return ConversationContext(services, user, LibraryProgram(agent, listener, answers=answers))


def settings_of(agent: Agent) -> Settings:
    """Return the agent as the settings of a process that has no other sources of settings."""
    more = merge_settings([Layer("user", {"titles": False, **agent.settings})]).settings
    own = {name: value for name, value in agent if name in _OWN}
    main = agent.main_model
    profiles = {main: Profile(model=main, fallbacks=agent.fallbacks)} if agent.fallbacks else {}
    routers = {name: model for name, model in agent.models.items() if isinstance(model, Router)}
    values = {"model": main, "profiles": profiles, "routers": routers}
    return more.model_copy(update={**values, **own})


def _servers_of(agent: Agent, around: ServerEnvironment, folders: Sequence[Path]) -> ServerPool:
    """Return the agent's MCP servers, for which a step waits, since a program relies on them."""
    if agent.mcp_tokens is not None:
        around = replace(around, token_store=PrivateValues(agent.mcp_tokens))
    servers = ServerPool(run_on_loop, lambda: agent.mcp_servers, around)
    servers.wait_s = TIMEOUT_MAX
    servers.open_folders = lambda: folders
    return servers


def models_of(agent: Agent, settings: Settings, on_key: Callable[[str], None]) -> Models:
    """Return the agent's models, joined by its `settings`; see `Models` for `on_key`."""
    more = {name: model for name, model in agent.models.items() if isinstance(model, LLM)}
    return Models(lambda: settings, {}, on_key, {agent.main_model: agent.llm, **more})


def run_held(
    open_conversation: OpenConversation, command: str, timeout_s: float | None
) -> CommandResult:
    """See `Conversation.run_command`."""
    open_conversation.conversation.require_rest()
    command_changes = open_conversation.runtime.command_changes
    if command_changes is None:
        return run_in(open_conversation.runtime.shells, command, timeout_s)
    command_changes.begin()
    try:
        return run_in(open_conversation.runtime.shells, command, timeout_s)
    finally:
        command_changes.drop()
