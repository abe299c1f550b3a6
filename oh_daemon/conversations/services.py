"""What all conversations of a process share, and what one of them is made of.

The editor's daemon and `oh-daemon run` begin with the user's own files and variables, and add what
their client brings. The Python API does not: it reads neither files nor variables.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from oh_daemon.common.masking import Masker, SecretSource
from oh_daemon.conversations.sandboxes import Views
from oh_daemon.features.mcp.connections import Surroundings
from oh_daemon.features.mcp.servers import McpServers
from oh_daemon.features.models.logins import Logins
from oh_daemon.features.models.models import Models
from oh_daemon.features.sandbox.levels import Sandbox
from oh_daemon.features.sandbox.self_test import SelfTest
from oh_daemon.features.settings.places import Places
from oh_daemon.features.settings.sources import SettingsSources, secret_values
from oh_daemon.features.trust.trust import TrustBook, by_real_path
from oh_daemon.kernel.conversation import Conversation
from oh_daemon.kernel.editor_ports import Editor, LanguageServers
from oh_daemon.kernel.journal import Listener
from oh_daemon.kernel.ports import ApprovalPolicy, Json, Model, Question, RiskAnalyzer, Tool
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


@dataclass(frozen=True, slots=True)
class Shared:
    """What all conversations of a process have in common."""

    settings: Callable[[Path | None], Merged]
    """The settings in force in a folder."""
    model_for: Callable[[str], Model]
    default_model: Callable[[], str]
    trust: TrustBook
    user_folder: Path
    """Where conversations without a folder are stored."""
    mcp: McpServers
    efforts_of: Callable[[str], Sequence[str]] = lambda _model: ()
    """How much a model can be told to think."""
    home: Path | None = None
    """The user's home folder, with agents and skills; None if it must not be used."""
    user_memory: Path | None = None
    """The folder with the user's notes; None if there is no long-term memory."""
    sandbox: Callable[[Sequence[Path]], Sandbox] = lambda _folders: Sandbox("off", "none")
    """What holds the commands in open folders; the first call waits for the self-test."""
    is_sandbox_known: Callable[[], bool] = lambda: True
    """Whether `sandbox` no longer waits for the self-test."""
    client_name: str = ""
    own_logs: OwnLogs = field(default_factory=OwnLogs)
    commit: CommitThread = field(default_factory=CommitThread)
    spawner: Spawner = field(default_factory=Spawner)
    masker: Masker = field(default_factory=Masker)
    locks: PathLocks = field(default_factory=PathLocks)
    slots: Slots = field(default_factory=Slots)
    clock: SystemClock = field(default_factory=SystemClock)
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    """The environment of the agent's shells; variables with secret-looking names are removed."""
    editor: Editor | None = None
    servers: LanguageServers | None = None
    seen_in_editor: Callable[[Folders], dict[str, str]] = lambda _folders: {}
    """What the user is looking at in these folders, in the words for the model."""
    client_tools: Callable[[str], Sequence[Tool]] = lambda _conversation_id: ()
    """The tools that the client itself runs for a conversation."""
    secrets: MutableMapping[str, SecretSource] = field(default_factory=dict[str, SecretSource])
    """Secrets by variable; an agent's command gets those that it names."""
    views: Views | None = None
    """Where commands run so that they change nothing outside; None if that is not possible here."""
    tell_ports: Callable[[str, Sequence[OpenPort]], None] = lambda _conversation_id, _ports: None
    """Tells clients on which ports the commands of a conversation listen in their view."""
    is_watched: Callable[[str], bool] = lambda _conversation_id: False
    """Whether a client has opened this conversation by its id."""
    is_attended: Callable[[], bool] = lambda: True
    """Whether anybody is there who may answer, if only by the next message."""
    can_ask: Callable[[], bool] = lambda: False
    can_answer: Callable[[Question], bool] = lambda _question: False
    is_granted: Callable[[Path, str], bool] = lambda _folder, _key: False
    save_grant: Callable[[Path, str], None] = lambda _folder, _key: None
    spend: Callable[[float], float] = lambda _usd: 0.0
    """Adds to what the user spent today, and returns the sum."""
    listeners: Sequence[Listener] = ()

    def close(self) -> None:
        """End every process that is left, and write what waits for the disk."""
        self.spawner.close()
        self.commit.close()


@dataclass(frozen=True, slots=True)
class Recipe:
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


def share_for_user(
    places: Places,
    trusted: Mapping[Path, bool],
    sources: SettingsSources | None = None,
    self_test: SelfTest | None = None,
) -> tuple[Shared, Models]:
    """Return what is shared, and the models; `trusted` is what editor or command line says.

    By default, settings come from this process's environment and the user's file.
    """
    sources = sources or SettingsSources(os.environ, places.settings_file)
    test = self_test or SelfTest(sources.environment)
    user_state = UserState(places.decisions_file)
    trust = TrustBook(user_state, trusted=trusted)
    settings = _settings_of(sources, trust)
    masker = Masker(secret_values(sources.environment))
    models = _models_of(places, sources, settings, masker)
    spawner = Spawner()
    tokens = PrivateValues(places.state_folder / "mcp")
    surroundings = Surroundings(spawner, models.variables, masker, Path.cwd(), tokens)
    shared = Shared(
        spawner=spawner,
        views=_views(places, spawner, sources),
        mcp=_mcp_servers(settings, surroundings),
        settings=settings,
        model_for=models.model_for,
        default_model=models.require_default,
        efforts_of=models.efforts_of,
        trust=trust,
        user_folder=places.state_folder,
        own_logs=places.own_logs,
        sandbox=_sandbox_of(test, settings),
        home=Path.home(),
        user_memory=places.settings_file.parent / "memory",
        masker=masker,
        slots=Slots(settings(None).settings.max_running_turns),
        environment=sources.environment,
        is_granted=user_state.is_granted,
        save_grant=user_state.add_grant,
        spend=user_state.spend,
    )
    return shared, models


def share_beside(
    base: Shared,
    places: Places,
    trusted: Mapping[Path, bool],
    sources: SettingsSources,
    self_test: SelfTest,
) -> tuple[Shared, Models]:
    """Return what the conversations of another client share: all of `base` but what clients say.

    That is trust, settings, models, and secrets.
    """
    trust = base.trust.beside(by_real_path(trusted))
    settings = _settings_of(sources, trust)
    models = _models_of(places, sources, settings, base.masker)
    shared = replace(
        base,
        trust=trust,
        settings=settings,
        sandbox=_sandbox_of(self_test, settings),
        model_for=models.model_for,
        default_model=models.require_default,
        efforts_of=models.efforts_of,
        secrets={},
    )
    return shared, models


def _settings_of(sources: SettingsSources, trust: TrustBook) -> Callable[[Path | None], Merged]:
    def settings(folder: Path | None) -> Merged:
        merged = sources.merged(folder, lambda folder: trust.of(folder) == "full")
        problem = trust.problem
        return replace(merged, problems=(*merged.problems, problem)) if problem else merged

    return settings


def _models_of(
    places: Places,
    sources: SettingsSources,
    settings: Callable[[Path | None], Merged],
    masker: Masker,
) -> Models:
    logins = Logins(places.logins_file, masker.add)
    return Models(lambda: settings(None).settings, sources.environment, masker.add, logins=logins)


def _sandbox_of(
    test: SelfTest, settings: Callable[[Path | None], Merged]
) -> Callable[[Sequence[Path]], Sandbox]:
    return lambda folders: test.sandbox(
        settings(folders[0] if folders else None).settings.sandbox, folders
    )


def _views(places: Places, spawner: Spawner, sources: SettingsSources) -> Views:
    return Views(
        spawner,
        Path.home(),
        sources.environment,
        own=places.private,
        allowed=lambda: sources.merged().settings.sandbox_reads,
    )


def _mcp_servers(
    settings: Callable[[Path | None], Merged], surroundings: Surroundings
) -> McpServers:
    # The package also raises what it logs; without a handler, its log would go to stderr.
    logging.getLogger("mcp").addHandler(logging.NullHandler())
    return McpServers(run_on_loop, lambda: settings(None).settings.mcp_servers, surroundings)
