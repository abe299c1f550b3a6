"""Composes one conversation from its log: state, workspace, tools, policy, agent.

Every front uses this, and nothing else connects adapters with the core. `Shared` is what all
conversations of a process have in common; a `Recipe` is what one of them is made of.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

from oh_daemon.contract import events as e
from oh_daemon.contract.errors import InvalidStateError
from oh_daemon.contract.items import FileChange, Location
from oh_daemon.contract.messages import ToolFilter
from oh_daemon.contract.settings import Merged
from oh_daemon.core.actions import no_watch
from oh_daemon.core.agent import Agent, Runtime
from oh_daemon.core.cancel import CancelToken
from oh_daemon.core.context import NOTHING
from oh_daemon.core.conversation import Conversation
from oh_daemon.core.editor_ports import Editor, LanguageServers
from oh_daemon.core.journal import Listener
from oh_daemon.core.lent_secrets import LentSecrets, SecretSource
from oh_daemon.core.ports import (
    ApprovalPolicy,
    EventLog,
    Json,
    Model,
    Question,
    RiskAnalyzer,
    Tool,
    ToolContext,
)
from oh_daemon.core.prompt import ContextFile, render_system_prompt
from oh_daemon.core.recovery import restart_events
from oh_daemon.core.risk import rate_command
from oh_daemon.core.secrets import Masker
from oh_daemon.core.slots import Slots
from oh_daemon.core.state import State
from oh_daemon.fronts.budget import Budget
from oh_daemon.fronts.clock import SystemClock
from oh_daemon.fronts.memory import Memory
from oh_daemon.fronts.policy import policy_of
from oh_daemon.fronts.skills import Skills
from oh_daemon.fronts.toolbox import choose_tools, render_tool_info
from oh_daemon.fronts.trust import TrustBook
from oh_daemon.mcp_servers.servers import McpServers, tools_of, unusable_of
from oh_daemon.store.commit import CommitThread
from oh_daemon.store.completions import Completions
from oh_daemon.store.event_log import LogFile
from oh_daemon.store.own_logs import OwnLogs
from oh_daemon.tools import patch
from oh_daemon.tools.ask import AskTool
from oh_daemon.tools.edit import VIEW_SPEC, EditTool
from oh_daemon.tools.finish import FinishTool
from oh_daemon.tools.language import Problems, language_tools, unwatched
from oh_daemon.tools.rename import RenameTool
from oh_daemon.tools.search import search_tools
from oh_daemon.tools.terminal import TerminalTool
from oh_daemon.tools.think import ThinkTool
from oh_daemon.tools.todo import TodoTool
from oh_daemon.workspace.checkpoints import NO_CHECKPOINTS, Checkpoints
from oh_daemon.workspace.context_files import ContextFiles
from oh_daemon.workspace.documents import Documents
from oh_daemon.workspace.edit_history import EditHistory
from oh_daemon.workspace.joint_edit import cut_short
from oh_daemon.workspace.path_locks import PathLocks
from oh_daemon.workspace.paths import Folders, paths_from_uris, real_path, shown
from oh_daemon.workspace.shell import Shells
from oh_daemon.workspace.spawner import Spawner


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
    home: Path | None = None
    """The user's home folder, with agents and skills; None if it must not be used."""
    user_memory: Path | None = None
    """The folder with the user's notes; None if there is no long-term memory."""
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
    lent: dict[str, SecretSource] = field(default_factory=dict[str, SecretSource])
    """Secrets by variable; an agent's command gets those that it names."""
    is_watched: Callable[[str], bool] = lambda _conversation_id: False
    """Whether a client has opened this conversation by its id."""
    can_ask: Callable[[], bool] = lambda: False
    can_answer: Callable[[Question], bool] = lambda _question: False
    is_granted: Callable[[Path, str], bool] = lambda _folder, _key: False
    save_grant: Callable[[Path, str], None] = lambda _folder, _key: None
    spend: Callable[[float], float] = lambda _usd: 0.0
    """Adds to what the user spent today, and returns the sum."""
    listeners: Sequence[Listener] = ()


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
    parent: Conversation | None = None
    """For a sub-agent, the conversation that it works for and whose grants it inherits."""


class Workbench:
    """The folders, documents, shells and tools of one conversation."""

    def __init__(
        self,
        shared: Shared,
        log: EventLog,
        folders: Sequence[Path],
        recipe: Recipe,
        cancel: Callable[[], CancelToken] = CancelToken,
    ) -> None:
        self._cancel = cancel
        self.folders = Folders(tuple(folders))
        """If there are none, there are no tools for files and commands either."""
        history = EditHistory(self.folders, log)
        self.documents = Documents(self.folders, shared.editor, history, shared.locks)
        self.context_files = ContextFiles(self.documents)
        cwd = folders[0] if folders else Path.home()
        self.shells = Shells(shared.spawner, cwd, shared.environment, shared.masker)
        self.checkpoints: Checkpoints | None = None
        self._patching: Sequence[Tool] = ()
        tools: list[Tool] = [AskTool(), TodoTool(), ThinkTool()]
        tools.append(FinishTool(recipe.result_schema))
        if folders:
            tools = [*self._workspace_tools(shared, log), *tools]
        self.skills = Skills(shared, self.folders.roots)
        self.memory = Memory(shared, folders)
        self._wanted = recipe.tool_filter
        self._own_tools, self._more_tools = tools, recipe.more_tools
        self.tools: Mapping[str, Tool] = {}
        self.offer_tools((), by_patch=False)

    def offer_tools(self, others: Sequence[Tool], *, by_patch: bool) -> bool:
        """Offer these tools and our own, some of which need trust; return whether any changed."""
        noted = [*self.skills.tools(), *self.memory.tools()]
        tools = (*others, *self._own_tools, *noted, *self._more_tools)
        found = choose_tools(tools, self._patching if by_patch else (), self._wanted)
        if found == self.tools:
            return False
        self.tools = found
        return True

    def _workspace_tools(self, shared: Shared, log: EventLog) -> list[Tool]:
        folders, documents = self.folders, self.documents
        # In a store that came with the folder, git would obey the settings of whoever made it.
        if isinstance(log, LogFile) and shared.own_logs.has(log.folder):
            store = log.folder / "checkpoints"
            note_saves = shared.editor.note_saves if shared.editor else None
            self.checkpoints = Checkpoints(store, folders, shared.spawner, note_saves)
        terminal = TerminalTool(
            self.shells,
            rate=lambda command, cwd: rate_command(command, folders.roots, cwd),
            put_blob_file=log.put_blob_file,
            secrets=LentSecrets(shared.masker, shared.lent),
            before_run=self._unsaved_note,
            blobs=log.folder / "blobs" if isinstance(log, LogFile) else None,
        )
        servers = shared.servers
        watch = Problems(documents, servers).watch if servers and servers.can_report else unwatched
        tools: list[Tool] = [terminal, EditTool(documents, watch)]
        self._patching = (patch.PatchTool(documents, watch), EditTool(documents, watch, VIEW_SPEC))
        tools += search_tools(documents, folders, shared.spawner)
        if servers is not None:
            tools += language_tools(documents, servers)
        if servers is not None and servers.can_look_up:
            tools.append(RenameTool(documents, servers, self._cancel, watch))
        return tools

    def _unsaved_note(self, _context: ToolContext) -> str | None:
        paths = self.documents.unsaved_agent_edits()
        if not paths:
            return None
        names = ", ".join(shown(path.name) for path in paths)
        return f"Your edits of {names} are not saved: commands still see the older text on disk."

    def context_for(self, locations: Sequence[Location]) -> Sequence[ContextFile]:
        """Return the project's texts about these places that the agent has not been given yet."""
        paths = paths_from_uris(location.uri for location in locations)
        skills = self.skills.on_the_way(map(real_path, paths), self._cancel())
        return (*self.context_files.on_the_way(paths), *skills)

    def watch_files(self, cancel: CancelToken) -> Callable[[], e.CheckpointCreated | None]:
        """See `core.actions.WatchFiles`."""
        return (self.checkpoints.watch if self.checkpoints else no_watch)(cancel)

    def learn_again(self, state: State) -> None:
        """Forget what was rolled back: it counts as unseen, and the agent cannot undo it."""
        self.documents.forget()
        self.context_files.forget()
        self.learn(state)

    def learn(self, state: State) -> None:
        """Learn what an earlier run saw and changed, so that it can be edited and undone."""
        self.skills.remember(state.items)
        self.context_files.remember(state.agent.get("contextFiles", ()))
        for item in state.items:
            meta: Json = item.get("meta") or {}
            if names := meta.get("contextFiles"):
                self.context_files.remember(names)
            is_edit = item.get("tool") in {"edit", "apply_patch", "rename"}
            if is_edit and item["status"] == "completed":
                self._learn_edit(item)
            elif is_edit and item["status"] == "running":
                for path in _paths_of(item):
                    self.documents.sweep(path)

    def _learn_edit(self, item: Json) -> None:
        for path in _paths_of(item):
            self.documents.remember(path)
        for change in item.get("changes", ()):
            self.documents.history.remember(FileChange.model_validate(change))


def _paths_of(item: Json) -> list[Path]:
    return paths_from_uris(location["uri"] for location in item["locations"])


class Live:
    """A conversation at work in this process."""

    def __init__(
        self, shared: Shared, recipe: Recipe, conversation: Conversation, folders: Sequence[Path]
    ) -> None:
        if recipe.result_schema is None:
            recipe = replace(recipe, result_schema=conversation.state.result_schema)
        self._shared = shared
        self._recipe = recipe
        home = folders[0] if folders else None
        self._settings = shared.settings(home).settings
        self.conversation = conversation
        self.workbench = Workbench(
            shared, conversation.log, folders, recipe, cancel=lambda: conversation.cancel
        )
        self.budget = Budget(lambda: shared.settings(home).settings, shared.spend)
        conversation.listeners.append(self.budget)
        self.repaired: tuple[str, ...] = ()
        conversation.skill_kinds = self.workbench.skills.kinds
        if folders:
            conversation.seen_in_editor = lambda: {
                **shared.seen_in_editor(self.workbench.folders),
                "secrets": ", ".join(f"${name}" for name in sorted(shared.lent)) or NOTHING,
            }

    @property
    def id(self) -> str:
        return self.conversation.id

    @cached_property
    def agent(self) -> Agent:
        """The worker. Its prompt comes from the log, so the conversation must have begun."""
        runtime = Runtime(
            model_for=self._model_finder(),
            tools=lambda: self.workbench.tools,
            policy=policy_of(
                self._shared, self._recipe, self.conversation, self.workbench.documents
            ),
            slots=self._shared.slots,
            tool_choice=self._recipe.tool_choice,
            condenser=self._settings.condenser,
            titles=self._settings.titles and self._recipe.parent is None,
            context_for=self.workbench.context_for,
            over_budget=self.budget.rest_before_step,
            before_step=self.refresh_tools,
            watch_files=self.workbench.watch_files,
        )
        return Agent(self.conversation, runtime)

    def _model_finder(self) -> Callable[[str], Model]:
        find, log = self._shared.model_for, self.conversation.log
        if not (self._settings.log_completions and isinstance(log, LogFile)):
            return find
        kept = Completions(log.folder, self._shared.masker, self._shared.clock)
        return lambda name: kept.of(find(name))

    def agent_info(self, model: str, earlier: Json | None = None) -> e.AgentInfo:
        """Describe the agent for the log; the prompt of `earlier` is kept byte for byte."""
        if earlier is None:
            self._offer(model)
        told = earlier if earlier and earlier["systemPrompt"] else self._new_prompt()
        return e.AgentInfo(
            model=model,
            label=self._shared.model_for(model).label,
            system_prompt=told["systemPrompt"],
            context_files=told.get("contextFiles"),
            tools=tuple(render_tool_info(tool.spec) for tool in self.workbench.tools.values()),
        )

    def _new_prompt(self) -> Json:
        bench = self.workbench
        files = bench.context_files.of_roots()
        sections = [*bench.skills.sections(bench.tools), *bench.memory.sections(bench.tools)]
        if patch.NAME in bench.tools:
            sections.append(patch.PROMPT_SECTION)
        prompt = render_system_prompt(
            [str(folder) for folder in bench.folders.folders],
            platform=sys.platform,
            context_files=files,
            sections=sections,
            instructions=self._recipe.instructions,
        )
        return {"systemPrompt": prompt, "contextFiles": tuple(file.name for file in files) or None}

    def take_up(self) -> None:
        """Close what a crash left open, and log what is new about the agent."""
        conversation = self.conversation
        state = conversation.state
        self.workbench.learn(state)
        found = cut_short(self.workbench.documents, state.items)
        if closing := restart_events(state, conversation.clock.now(), found):
            conversation.append(*closing)
        wanted = self._recipe.options.items()
        if changed := {key: value for key, value in wanted if value != state.options.get(key)}:
            conversation.append(e.OptionsChanged(values=changed))
        self._offer(state.options_now["model"])
        self._log_agent()

    def refresh_tools(self, cancel: CancelToken) -> None:
        """Offer what MCP servers have now, log a new model, and warn of whatever is unusable."""
        state = self.conversation.state
        if state.agent["model"] != state.options["model"]:
            self._log_agent()
        skills = self.workbench.skills
        skills.use_asked_for(self.conversation, cancel)
        skills.warn_of_broken(self.agent.warn)
        self.budget.warn_of_unknown(state, self.agent.warn)
        skills.servers.begin()
        # The user's own servers come last, so that no skill's tool can replace one of theirs.
        sources = (skills.servers, self._shared.mcp)
        if self._offer(state.options_now["model"], tools_of(sources, cancel)):
            self._log_agent()
        skills.tell_of_new(self.conversation, self.workbench.tools)
        for title, reason in unusable_of(sources):
            self.agent.warn(title, reason)
        store = self.workbench.checkpoints
        if store is not None and store.is_off:
            self.agent.warn(NO_CHECKPOINTS, store.problem)

    def _offer(self, model: str, others: Sequence[Tool] = ()) -> bool:
        """Offer these tools, the client's and our own to this model; return whether any changed."""
        parent = self._recipe.parent
        parent_id = parent.id if parent else self.conversation.state.parent_id
        others = (*others, *self._shared.client_tools(parent_id or self.id))
        by_patch = self._shared.model_for(model).edits_by_patch
        return self.workbench.offer_tools(others, by_patch=by_patch)

    def _log_agent(self) -> None:
        """Log what is new, but keep the prompt, which the provider may have cached."""
        conversation = self.conversation
        state = conversation.state
        agent = self.agent_info(state.options["model"], state.agent)
        if agent.model_dump(mode="json", exclude_none=True) != state.agent:
            conversation.append(e.AgentChanged(agent=agent))

    def close(self, deadline_s: float = 1.0) -> None:
        """End the worker, the shells and the log, in this order; log what was interrupted."""
        self.agent.close(deadline_s)
        self.workbench.shells.close()
        self.conversation.log.close()
        closed = "the conversation was closed; open it again"
        self.conversation.abandon_waiters(InvalidStateError(closed))
