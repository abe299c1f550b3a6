"""The three records that a conversation works with, and their composition for the user's own files.

`DaemonServices` has what the process provides, `UserContext` what the user chose, and
`ClientConnection` what the client brings. The Python API composes its own: it reads neither the
user's files nor variables.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Collection, Mapping, MutableMapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from oh_daemon.common.masking import Masker, SecretSource
from oh_daemon.conversations.sandboxes import Sandboxes
from oh_daemon.features.mcp.connections import ServerEnvironment
from oh_daemon.features.mcp.servers import ServerPool
from oh_daemon.features.models.logins import Logins
from oh_daemon.features.models.models import ModelCatalog, Models
from oh_daemon.features.sandbox.levels import Sandbox
from oh_daemon.features.sandbox.self_test import SelfTest
from oh_daemon.features.settings.places import Places
from oh_daemon.features.settings.sources import SettingsSources, secret_values
from oh_daemon.features.terminal.login_shell import (
    CommandEnvironment,
    LoginShell,
    is_from_shell,
)
from oh_daemon.features.trust.trust import TrustBook
from oh_daemon.kernel.conversation import Conversation
from oh_daemon.kernel.editor_ports import Editor, LanguageServers
from oh_daemon.kernel.journal import Listener
from oh_daemon.kernel.ports import ApprovalPolicy, Json, Question, RiskAnalyzer, Tool
from oh_daemon.kernel.runtime import Slots
from oh_daemon.protocol.daemon_messages import OpenPort
from oh_daemon.protocol.messages import ToolFilter
from oh_daemon.protocol.settings import Merged
from oh_daemon.protocol.status import Isolation
from oh_daemon.storage.commit import CommitThread
from oh_daemon.storage.log_ownership import OwnLogs
from oh_daemon.storage.user_state import UserState
from oh_daemon.system.io_loop import run_on_loop
from oh_daemon.system.private_files import PrivateValues
from oh_daemon.system.spawner import Spawner
from oh_daemon.workspace.concurrent_edits import PathLocks
from oh_daemon.workspace.paths import Folders


class SystemClock:
    """The clock of the machine."""

    def now(self) -> str:
        return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def monotonic(self) -> float:
        return time.monotonic()


class DaemonServices(Struct, frozen=True):
    """Services of a process, the same for all its conversations."""

    spawner: Spawner
    masker: Masker
    mcp: ServerPool
    environment: Mapping[str, str]
    """The variables of the process."""
    commands: CommandEnvironment
    """Their completion for commands; variables with secret-looking names are removed there."""
    sandboxes: Sandboxes
    """Sandboxes in which commands change nothing outside."""
    user_folder: Path
    """Folder for the logs of conversations without a folder."""
    home: Path | None
    """The user's home folder, with agents and skills; None if it must not be used."""
    user_memory: Path | None
    """The folder with the user's notes; None if there is no long-term memory."""
    own_logs: OwnLogs = field(default_factory=OwnLogs)
    slots: Slots = field(default_factory=Slots)
    commit: CommitThread = field(default_factory=CommitThread)
    locks: PathLocks = field(default_factory=PathLocks)
    clock: SystemClock = field(default_factory=SystemClock)

    def close(self) -> None:
        """End every process that is left, and write what waits for the disk."""
        self.spawner.close()
        self.commit.close()


class FolderSettings(Protocol):
    """The settings in force, by folder."""

    def of(self, folder: Path | None) -> Merged: ...


class SandboxLevel(Protocol):
    """The sandbox for commands."""

    def level(self, folders: Sequence[Path]) -> Sandbox:
        """Return the sandbox of commands in these open folders; the first call may wait."""
        ...

    def is_known(self) -> bool:
        """Return whether `level` no longer waits for the self-test."""
        ...


class UserDecisions(Protocol):
    """Lasting decisions of the user, and their spending; see `UserState`."""

    def grants(self, folder: Path) -> Collection[str]: ...

    def add_grant(self, folder: Path, key: str) -> None: ...

    def spend(self, amount_usd: float) -> float: ...


class UserContext(Struct, frozen=True):
    """Choices of the user: their files, completed by what their client sends."""

    settings: FolderSettings
    trust: TrustBook
    models: ModelCatalog
    sandbox: SandboxLevel
    decisions: UserDecisions
    secrets: MutableMapping[str, SecretSource]
    """Secrets by variable; an agent's command gets those that it names."""


class ClientConnection:
    """A client of conversations. This base class stands for no client; each frontend has its own.

    Methods may be called on any thread.
    """

    def __init__(self, name: str = "", listeners: Sequence[Listener] = ()) -> None:
        """`name` is for people, such as "Neovim"; `listeners` hear of all its conversations."""
        self.name = name
        self.listeners = listeners
        self.editor: Editor | None = None
        self.servers: LanguageServers | None = None

    def seen_in_editor(self, folders: Folders) -> dict[str, str]:  # noqa: ARG002 - no editor.
        """Return what the user looks at in these folders, as text for the model by kind."""
        return {}

    def tools(self, conversation_id: str) -> Sequence[Tool]:  # noqa: ARG002 - no tools.
        """Return the tools that the client itself runs for a conversation."""
        return ()

    def report_ports(self, conversation_id: str, ports: Sequence[OpenPort]) -> None:
        """Report on which ports the sandboxed commands of a conversation listen."""

    def is_watched(self, conversation_id: str) -> bool:  # noqa: ARG002 - no subscriptions.
        """Return whether the client has opened this conversation by its id."""
        return False

    def has_editor(self) -> bool:
        """Return whether the user sees the workspace in an editor, which takes edits."""
        return self.editor is not None and self.editor.can_apply

    def is_attended(self) -> bool:
        """Return whether anybody may answer, if only by the next message."""
        return True

    def can_ask(self) -> bool:
        """Return whether the client can show approval requests."""
        return False

    def can_answer(self, question: Question) -> bool:  # noqa: ARG002 - no user.
        """Return whether the client can show this question."""
        return False


class ConversationContext(Struct):
    """The three records of a conversation and its sub-agents.

    When another sender's message begins a turn, `oh-daemon serve` replaces `user` as a whole, and
    the sender within `client`. So code that outlives one call keeps the context and reads
    `context.user` in a function, at each call.
    """

    services: DaemonServices
    user: UserContext
    client: ClientConnection


class AgentConfig(Struct, frozen=True):
    """What a conversation's agent is made of, beyond its log."""

    instructions: str = ""
    tool_filter: ToolFilter = field(default_factory=ToolFilter)
    more_tools: Sequence[Tool] = ()
    tool_choice: Literal["auto", "required"] = "auto"
    result_schema: Json | None = None
    risk_analyzer: RiskAnalyzer | None = None
    approval_policy: ApprovalPolicy | None = None
    options: Mapping[str, str] = field(default_factory=dict[str, str])
    """Options that override the logged ones when a conversation is reopened."""
    isolated: Isolation | None = None
    """What keeps it apart from the disk, for a new conversation; the log says it for others."""
    system_prompt: str = ""
    """A program's own text in place of the packaged one."""
    role: str = ""
    """What a sub-agent is told of its part."""
    parent: Conversation | None = None
    """For a sub-agent, the conversation that it works for and whose grants it inherits."""


class TrustedSettings(Struct, frozen=True):
    """Settings of the user and of trusted projects."""

    sources: SettingsSources
    trust: TrustBook

    def of(self, folder: Path | None) -> Merged:
        settings = self.sources.merged(folder, lambda folder: self.trust.of(folder) == "full")
        problem = self.trust.problem
        return replace(settings, problems=(*settings.problems, problem)) if problem else settings


class MachineSandbox(Struct, frozen=True):
    """The sandbox that settings choose among the levels that passed the self-test."""

    test: SelfTest
    settings: FolderSettings

    def level(self, folders: Sequence[Path]) -> Sandbox:
        setting = self.settings.of(folders[0] if folders else None).settings.sandbox
        return self.test.sandbox(setting, folders)

    def is_known(self) -> bool:
        return self.test.is_known()


def compose(
    places: Places,
    trusted: Mapping[Path, bool],
    sources: SettingsSources | None = None,
    self_test: SelfTest | None = None,
) -> tuple[DaemonServices, UserContext, Models]:
    """Return the services of a process, its user's context, and the models of this machine.

    `trusted` is the verdict of the editor or the command line by folder. By default, settings come
    from this process's environment and the user's file.
    """
    sources = sources or SettingsSources(os.environ, places.settings_file)
    environment = sources.environment
    test = self_test or SelfTest(environment)
    decisions, masker = UserState(places.decisions_file), Masker(secret_values(environment))
    trust = TrustBook(decisions, trust_by_folder=trusted)
    user, models = user_of(sources, test, trust, decisions, masker, places)
    # The package also raises what it logs; without a handler, its log would go to stderr.
    logging.getLogger("mcp").addHandler(logging.NullHandler())
    spawner, home, settings = Spawner(), Path.home(), user.settings
    commands = CommandEnvironment(environment)
    if settings.of(None).settings.login_shell and not is_from_shell(environment):
        login_shell = login_shell_of(places, environment, spawner, home)
        commands = CommandEnvironment(environment, login_shell.take)
        commands.begin()
    surroundings = ServerEnvironment(
        spawner,
        models.variables,
        masker,
        Path.cwd(),
        token_store=PrivateValues(places.state_folder / "mcp"),
        trusted_marks=PrivateValues(places.mcp_marks),
        own=commands.variables,
    )
    services = DaemonServices(
        spawner=spawner,
        masker=masker,
        mcp=ServerPool(run_on_loop, lambda: settings.of(None).settings.mcp_servers, surroundings),
        environment=environment,
        commands=commands,
        sandboxes=Sandboxes(
            spawner,
            home,
            environment,
            own=places.private,
            hosts=lambda: sources.merged().settings.sandbox_reads,
        ),
        user_folder=places.state_folder,
        home=home,
        user_memory=places.settings_file.parent / "memory",
        own_logs=places.own_logs,
        slots=Slots(settings.of(None).settings.max_running_turns),
    )
    return services, user, models


def login_shell_of(
    places: Places, environment: Mapping[str, str], spawner: Spawner, home: Path
) -> LoginShell:
    """Return the login shell of this user, with its cache."""
    cache = PrivateValues(places.state_folder / "login-shell")
    return LoginShell(spawner, environment, home, cache)


def user_of(
    sources: SettingsSources,
    test: SelfTest,
    trust: TrustBook,
    decisions: UserDecisions,
    masker: Masker,
    places: Places,
) -> tuple[UserContext, Models]:
    """Return the context of the user behind one client, and the models of this machine."""
    settings, logins = TrustedSettings(sources, trust), Logins(places.logins_file, masker.add)
    models = Models(
        lambda: settings.of(None).settings, sources.environment, masker.add, logins=logins
    )
    sandbox = MachineSandbox(test, settings)
    return UserContext(settings, trust, models, sandbox, decisions, secrets={}), models
