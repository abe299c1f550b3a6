"""The folders, documents, shells and tools of one conversation."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Literal, get_args

from oh_daemon.common.cancel import CancelToken
from oh_daemon.common.masking import ExposedSecrets
from oh_daemon.conversations.isolation import files_of
from oh_daemon.conversations.sandboxes import SharedSandbox
from oh_daemon.conversations.services import AgentConfig, ConversationContext
from oh_daemon.features.browser.browser import Browser
from oh_daemon.features.budget.budget import Budget
from oh_daemon.features.checkpoints.checkpoints import Checkpoints
from oh_daemon.features.conversation_tools.tools import AskTool, FinishTool, ThinkTool, TodoTool
from oh_daemon.features.edit import apply_patch
from oh_daemon.features.edit.edit import LOOK_SPEC, SEEN, VIEW_SPEC, EditTool
from oh_daemon.features.edit.rename import RenameTool
from oh_daemon.features.instructions.context_files import ContextFiles
from oh_daemon.features.instructions.machine import Machine
from oh_daemon.features.isolation.isolated_tools import IsolatedCommandChanges, IsolatedTool
from oh_daemon.features.language.language import Problems, Watch, language_tools, unwatched
from oh_daemon.features.mcp.on_demand import ToolsOnDemand
from oh_daemon.features.mcp.servers import ServerTools
from oh_daemon.features.memory.memory import PROJECT_FOLDER, Memory
from oh_daemon.features.memory.notes import Notes
from oh_daemon.features.pending_changes.pending_changes import PendingChanges
from oh_daemon.features.review.file_history import with_texts
from oh_daemon.features.risk.rating import Rating, rate_command
from oh_daemon.features.sandbox import landlock
from oh_daemon.features.sandbox.levels import Sandbox
from oh_daemon.features.search.search import WordSearch, search_tools
from oh_daemon.features.skills.skills import SkillFolders, Skills
from oh_daemon.features.terminal.command_output import OutputText
from oh_daemon.features.terminal.ended_jobs import EndedJobs
from oh_daemon.features.terminal.shell import Shells
from oh_daemon.features.terminal.terminal import TerminalTool, terminal_spec
from oh_daemon.kernel.conversation import Conversation
from oh_daemon.kernel.extension_points import Feature, WatchFiles
from oh_daemon.kernel.ports import EventLog, Json, Tool, ToolSpec
from oh_daemon.kernel.state import State, is_tool_item
from oh_daemon.protocol import events as e
from oh_daemon.protocol import plain
from oh_daemon.protocol.errors import ToolError
from oh_daemon.protocol.forms import model_of
from oh_daemon.protocol.items import FileChange
from oh_daemon.protocol.messages import ToolFilter
from oh_daemon.protocol.settings import Settings
from oh_daemon.storage.event_log import LogFile
from oh_daemon.system.spawner import Spawners
from oh_daemon.workspace.arbiter import REBASED
from oh_daemon.workspace.path_classes import Disk
from oh_daemon.workspace.paths import (
    ProgramFinder,
    in_bare_repository,
    paths_from_uris,
    printable,
    real_path,
)

BuiltinName = Literal[
    "terminal", "edit", "grep", "glob", "list", "ask", "todo", "think", "finish", "delegate"
]
BUILTIN: tuple[BuiltinName, ...] = get_args(BuiltinName)


_EDITS_UNSAVED = "Your edits of {} are not saved: commands still see the older text on disk."
_TEXT_UNSAVED = (
    "The user has unsaved changes of {} in the editor: commands see the older text on disk."
)


class ConversationRuntime:
    """The folders, documents, shells and tools of one conversation."""

    def __init__(
        self,
        context: ConversationContext,
        log: EventLog,
        folders: Sequence[Path],
        config: AgentConfig,
        conversation: Conversation | None = None,
    ) -> None:
        """Compose the runtime; a list of the tools needs no `conversation`, and then no sandbox."""
        self._conversation = conversation
        owner_id = root_conversation_id(conversation, config) if conversation else ""
        services, client = context.services, context.client
        is_own_log = not isinstance(log, LogFile) or services.own_logs.has(log.folder)
        sandbox = context.user.sandbox.level(folders) if folders and owner_id else None
        files = files_of(context, log, tuple(folders), owner_id, sandbox, config.isolated)
        shared_sandbox = files.shared_sandbox
        self.isolated_files, self.disk = files.isolated_files, files.disk
        """Where an isolated conversation has its changes; the documents of the disk."""
        self.folders = files.own.folders
        """If there are none, there are no tools for files and commands either."""
        self.documents = files.own
        self.refusal = files.refusal
        self.shells = Shells(
            services.spawner,
            self.folders.for_programs(folders[0]) if folders else Path.home(),
            services.commands.variables,
            services.masker,
            sandbox=shared_sandbox and shared_sandbox.overlay.sandbox,
            reader=landlock.words() if sandbox and sandbox.level == "landlock" else (),
            on_job_end=conversation.journal.wake if conversation else bool,
        )
        blobs = log.folder / "blobs" if isinstance(log, LogFile) else None
        self.output = OutputText(services.masker, log.put_blob_file, blobs)
        self.network = shared_sandbox.network if shared_sandbox else None
        self.spawners = Spawners(
            services.spawner, shared_sandbox.spawner if shared_sandbox else None
        )
        self._at_the_end = ExitStack()
        self.command_changes = self._command_changes(context, log, shared_sandbox)
        self._finder = (
            shared_sandbox.overlay.sandbox.spawner
            if shared_sandbox and self.isolated_files
            else services.spawner
        )
        if shared_sandbox is not None:
            self._at_the_end.callback(services.sandboxes.leave, owner_id, self.shells)
        self.checkpoints = None
        # In a store that came with the folder, git would obey the settings of whoever made it.
        if folders and isinstance(log, LogFile) and is_own_log and self.isolated_files is None:
            note_saves = client.editor.note_saves if client.editor else None
            store = log.folder / "checkpoints"
            self.checkpoints = Checkpoints(store, self.folders, services.spawner, note_saves)
        self._client = client
        self._facts = self._find_facts(context, sandbox, conversation, config)
        self._patching: Sequence[Tool] = ()
        self._looking: Sequence[Tool] = ()
        ask_tools: list[Tool] = [AskTool()] if client.is_attended() else []
        finish = FinishTool(config.result_schema, self._facts)
        tools: list[Tool] = [*ask_tools, TodoTool(), ThinkTool(), finish]
        if folders:
            tools = [*self._workspace_tools(context), *tools]
        self._filter = config.tool_filter
        self._on_demand = ToolsOnDemand()
        self._own_tools, self._more_tools = tools, config.more_tools
        self.tools: Mapping[str, Tool] = {}
        self.features = self._make_features(context, folders, is_own_log=is_own_log)
        """In the order of their tools, texts and notices."""
        self.offer_tools((), by_patch=False, looks=False)

    def _find_facts(
        self,
        context: ConversationContext,
        sandbox: Sandbox | None,
        conversation: Conversation | None,
        config: AgentConfig,
    ) -> frozenset[str]:
        parent = config.parent or (conversation and conversation.state.parent_id)
        is_isolated, has_editor = config.isolated is not None, context.client.has_editor()
        facts = {
            "editor": has_editor,
            "buffers": has_editor and not is_isolated,
            "isolated": is_isolated,
            "overlay": self.shells.are_sandboxed,
            "landlock": sandbox is not None and sandbox.level == "landlock",
            "subagent": bool(parent),
        }
        return frozenset(name for name, holds in facts.items() if holds)

    @property
    def facts(self) -> frozenset[str]:
        """The facts of this agent as it is now, for `true_rows`: its surroundings and its tools."""
        now = {
            "attended": self._client.is_attended(),
            "changes": any(map(changes_files, self.tools.values())),
        }
        return self._facts.union(self.tools, (name for name, holds in now.items() if holds))

    def _make_features(
        self, context: ConversationContext, folders: Sequence[Path], *, is_own_log: bool
    ) -> Sequence[Feature]:
        services, home = context.services, folders[0] if folders else None

        def settings() -> Settings:
            return context.user.settings.of(home).settings

        def spend(amount_usd: float) -> float:
            return context.user.decisions.spend(amount_usd)

        self.context_files = ContextFiles(
            self.documents,
            services.home,
            lambda: all(context.user.trust.of(folder) == "full" for folder in folders),
        )
        self.skills = Skills(
            SkillFolders(self.folders.roots, services.home, lambda: context.user.trust),
            services.mcp,
            self.spawners,
            services.masker,
            is_own_log=is_own_log,
        )
        self.budget = Budget(settings, spend, services.clock)
        browser = Browser(
            services.mcp,
            settings,
            lambda: context.user.sandbox.level(folders).refusal if folders else None,
            home or Path.home(),
            self.spawners,
            self._settle_hosts,
        )
        # The user's own servers come last, so that no skill's tool can replace one of theirs.
        self.servers = ServerTools((self.skills.servers, browser.servers, services.mcp))
        self.machine = Machine(
            home,
            services.commands.current,
            services.spawner,
            lambda: home is not None and context.user.trust.of(home) == "full",
        )
        return (
            self.context_files,
            self.skills,
            _memory(context, folders),
            self.budget,
            browser,
            # Skills and the browser have asked for their servers by now.
            self.servers,
            self.machine,
            EndedJobs(self.shells),
            *((self.checkpoints,) if self.checkpoints else ()),
        )

    def _settle_hosts(self, cancel: CancelToken) -> str | None:
        return self.network.settle(self.shells, cancel) if self.network else None

    def _cancel(self) -> CancelToken:
        return self._conversation.cancel if self._conversation else CancelToken()

    def _command_changes(
        self, context: ConversationContext, log: EventLog, shared_sandbox: SharedSandbox | None
    ) -> PendingChanges | IsolatedCommandChanges | None:
        """Join the sandbox, and return what brings changes in it further, if anything does."""
        watch = self._watch(context)
        if self.isolated_files is not None:
            if shared_sandbox is not None:
                shared_sandbox.overlay.shells.append(self.shells)
            return IsolatedCommandChanges(self.isolated_files, self.disk, watch)
        if shared_sandbox is None:
            return None
        folder = log.folder if isinstance(log, LogFile) else Path(tempfile.gettempdir())
        documents, host = self.documents, context.services.spawner
        documents.commands_see_buffers = True
        pending = PendingChanges(
            shared_sandbox.overlay, self.shells, documents, watch, host, folder / "replaced"
        )
        documents.history.listen(pending.text_written)
        if context.client.editor is not None:
            self._at_the_end.callback(context.client.editor.listen(pending.text_changed))
        return pending

    def offer_tools(
        self,
        other_tools: Sequence[Tool],
        *,
        by_patch: bool,
        looks: bool,
        earlier: Iterable[Json] = (),
    ) -> bool:
        """Offer these tools, our own and those of features; return whether any changed.

        `looks` leaves out what edits files; `earlier` has the tools of before from the log.
        """
        of_features = [tool for feature in self.features for tool in feature.tools()]
        own: Sequence[Tool] = self._own_tools
        if looks:
            own = [*(tool for tool in own if not changes_files(tool)), *self._looking]
        tools = (*other_tools, *own, *of_features, *self._more_tools)
        chosen_tools = choose_tools(
            tools, self._patching if by_patch and not looks else (), self._filter
        )
        chosen_tools = self._on_demand.arrange(chosen_tools, earlier)
        if chosen_tools == self.tools:
            return False
        self.tools = chosen_tools
        return True

    def _workspace_tools(self, context: ConversationContext) -> list[Tool]:
        folders, documents = self.folders, self.documents
        self._unsaved_paths: frozenset[Path] = frozenset()
        commands = context.services.commands

        @cache
        def disk() -> Disk:
            path = commands.variables().get("PATH", os.defpath)
            finder = ProgramFinder(folders.roots, path)
            return Disk(
                in_bare_repository, folders.leads_away, os.path.isdir, os.path.isfile, finder
            )

        def rate(command: str, cwd: Path | None) -> Rating:
            if refusal := self.refusal or context.user.sandbox.level(folders.folders).refusal:
                raise ToolError(refusal)
            return rate_command(command, folders.roots, cwd, disk())

        terminal = TerminalTool(
            self.shells,
            rate=rate,
            output=self.output,
            secrets=ExposedSecrets(context.services.masker, lambda: context.user.secrets),
            before_run=self._before_command,
            network=self.network,
        )
        terminal.spec = terminal_spec(self._facts)
        servers, watch, facts = context.client.servers, self._watch(context), self._facts
        editing: Sequence[Tool] = (
            EditTool(documents, watch, facts=facts),
            apply_patch.PatchTool(documents, watch, facts),
            EditTool(documents, watch, VIEW_SPEC, facts),
        )
        if isinstance(self.command_changes, IsolatedCommandChanges):
            # Language servers know the disk only.
            servers, command_changes = None, self.command_changes
            editing = [IsolatedTool(tool, command_changes) for tool in editing]
        # Replaces the tools that edit files for an agent that only looks.
        self._looking = [EditTool(documents, watch, LOOK_SPEC, facts)]
        tools: list[Tool] = [terminal, editing[0]]
        self._patching = editing[1:]
        tools += search_tools(documents, folders, self._finder, facts)
        if servers is not None:
            tools += language_tools(documents, servers)
        if servers is not None and servers.can_look_up:
            find_word = WordSearch(documents, folders, self._finder)
            tools.append(RenameTool(documents, servers, self._cancel, find_word, watch))
        return tools

    def _watch(self, context: ConversationContext) -> Watch:
        servers = context.client.servers
        if servers is None or not servers.can_report or self.isolated_files is not None:
            return unwatched
        return Problems(self.documents, servers).watch

    def close(self) -> None:
        """End the shells, and the sandbox with what is not applied."""
        self.shells.close()
        self._at_the_end.close()

    def _before_command(self, command: str, *, is_outside: bool) -> str | None:
        if self.command_changes is not None and not is_outside:
            self.command_changes.begin()
            return None
        own = self.documents.unsaved_agent_edits()
        unsaved_paths = frozenset(self.documents.unsaved_texts()) - {*own}
        # What a command reads is known only of what it names: all is said once.
        news, self._unsaved_paths = unsaved_paths - self._unsaved_paths, unsaved_paths
        paths = {path for path in unsaved_paths if path.name in command}
        rows = [_EDITS_UNSAVED.format(_names(own))] if own else []
        rows += [_TEXT_UNSAVED.format(_names(sorted(paths | news)))] if paths | news else []
        return "\n".join(rows) or None

    @property
    def watch_files(self) -> WatchFiles | None:
        """See `kernel.runtime.Runtime`."""
        store, documents = self.checkpoints, self.documents
        if store is None:
            return None

        def watch(cancel: CancelToken) -> Callable[[], e.CheckpointCreated | None]:
            look_again = store.watch(cancel)

            def ended() -> e.CheckpointCreated | None:
                checkpoint = look_again()
                return checkpoint and with_texts(checkpoint, documents, store)

            return ended

        return watch

    def learn_again(self, state: State) -> None:
        """Forget what was rolled back: it counts as unseen, and the agent cannot undo it."""
        self.documents.forget()
        self.learn(state)

    def learn(self, state: State) -> None:
        """Learn what an earlier run saw and changed, so that it can be edited and undone."""
        for feature in self.features:
            feature.restore(state)
        for item in state.items:
            if not is_tool_item(item) or item["tool"] not in {"edit", "apply_patch", "rename"}:
                continue
            if item["status"] == "completed":
                self._learn_edit(item)
            elif item["status"] == "running":
                for path in _paths_of(item):
                    self.documents.files.sweep(real_path(path))

    def _learn_edit(self, item: plain.ToolItem) -> None:
        for path in _paths_of(item):
            self.documents.remember(path, (item.get("meta") or {}).get(SEEN, ""))
        is_known = REBASED not in json.dumps(item["content"])
        for each in item.get("changes", ()):
            change = model_of(FileChange, each)
            self.documents.history.remember(change)
            for path in paths_from_uris([change.uri]):
                self.documents.remember(path, (is_known and change.sha256_after) or "")


def _memory(context: ConversationContext, folders: Sequence[Path]) -> Memory:
    """Return the notes of the first open folder's project, then those of the user.

    There are none when the setting is off, when there is no user, or when a folder is not trusted:
    anybody may have written its notes, or may have planted what the agent would note down.
    """
    project = {"project": folders[0] / PROJECT_FOLDER} if folders else {}

    user_memory = context.services.user_memory

    def is_allowed() -> bool:
        user = context.user
        is_on = user.settings.of(folders[0] if folders else None).settings.memory
        is_trusted = all(user.trust.of(folder) == "full" for folder in folders)
        return is_on and user_memory is not None and is_trusted

    notes = Notes({**project, "user": user_memory or Path(os.devnull)})
    return Memory(notes, is_allowed, lambda: context.services.clock.now()[:10])


def root_conversation_id(conversation: Conversation, config: AgentConfig) -> str:
    """Return the id of the conversation whose sandbox and client tools this one uses."""
    # The log of a new sub-agent does not name its parent yet.
    parent_id = config.parent.id if config.parent else conversation.state.parent_id
    return parent_id or conversation.id


def _names(paths: Iterable[Path]) -> str:
    return ", ".join(printable(path.name) for path in paths)


def _paths_of(item: plain.ToolItem) -> list[Path]:
    return paths_from_uris(location["uri"] for location in item["locations"])


def choose_tools(
    tools: Iterable[Tool], patching: Sequence[Tool], tool_filter: ToolFilter
) -> dict[str, Tool]:
    """Return the tools to offer, by name; of two with the same name, the later one.

    `patching` is empty, or holds `apply_patch` and then the tools that replace others beside it.
    """
    tools_by_name = {tool.spec.name: tool for tool in tools}
    if patching and _passes(patching[0].spec, tool_filter):
        tools_by_name |= {tool.spec.name: tool for tool in patching}
    return {name: tool for name, tool in tools_by_name.items() if _passes(tool.spec, tool_filter)}


def _passes(spec: ToolSpec, tool_filter: ToolFilter) -> bool:
    is_allowed = tool_filter.allow is None or _is_named(spec, tool_filter.allow)
    return is_allowed and not _is_named(spec, tool_filter.deny)


def _is_named(spec: ToolSpec, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for name in spec.names for pattern in patterns)


def changes_files(tool: Tool) -> bool:
    return tool.spec.kind == "edit" and not tool.spec.read_only


def did_change_files(info: Json) -> bool:
    """Return whether a tool in the log is one of ours that edits files."""
    reads = info.get("annotations", {}).get("readOnlyHint")
    return info["name"] in {"edit", apply_patch.NAME} and not reads


def render_tool_info(spec: ToolSpec) -> Json:
    """Describe a tool in MCP's form; `_meta.access` is there unless each request has it."""
    return {
        "name": spec.name,
        "description": spec.description,
        "inputSchema": spec.input_schema,
        "annotations": {"readOnlyHint": spec.read_only},
        **({} if spec.access == "direct" else {"_meta": {"access": spec.access}}),
    }
