"""A conversation at work: its log, its workbench and the agent that works there.

Nothing else connects features with the kernel.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from oh_daemon.common.cancel import CancelToken
from oh_daemon.conversations.conversation_runtime import (
    ConversationRuntime,
    did_change_files,
    render_tool_info,
    root_conversation_id,
)
from oh_daemon.conversations.following import Followed
from oh_daemon.conversations.host_policy import host_consent_of
from oh_daemon.conversations.policy import hooks_of, policy_of, questions_of
from oh_daemon.conversations.services import AgentConfig, ConversationContext
from oh_daemon.features.approval.consent import Consent
from oh_daemon.features.condensation.condensation import Condensation
from oh_daemon.features.hooks.hooks import HookPoints
from oh_daemon.features.isolation.isolated_changes import IsolatedChanges
from oh_daemon.features.language.language import unwatched
from oh_daemon.features.stuck.stuck import find_stuck
from oh_daemon.kernel.agent import AgentLoop
from oh_daemon.kernel.context import NOTHING
from oh_daemon.kernel.conversation import Conversation
from oh_daemon.kernel.journal import new_id
from oh_daemon.kernel.ports import EventLog, Json, Model, Tool
from oh_daemon.kernel.prompt import packaged_prompt, render_system_prompt, true_rows
from oh_daemon.kernel.recovery import cut_texts, restart_events
from oh_daemon.kernel.runtime import Runtime
from oh_daemon.kernel.state import State
from oh_daemon.protocol import events as e
from oh_daemon.protocol import plain
from oh_daemon.protocol.content import Part
from oh_daemon.protocol.errors import InvalidStateError, ToolError
from oh_daemon.protocol.forms import ItemFields, plain_form
from oh_daemon.protocol.items import NoticeItem
from oh_daemon.storage.completions import Completions
from oh_daemon.storage.event_log import LogFile
from oh_daemon.workspace.joint_edit import cut_short
from oh_daemon.workspace.paths import uri_from_path

_PLAN = """\
plan: look and think only, then say what you would change.
?terminal ?overlay ?!isolated Commands run in the sandbox, and what they change is dropped.
?terminal ?overlay ?isolated Commands run in the sandbox: let them change nothing.
?terminal ?!overlay Of commands, only those that read may run.
?changes Edits are refused."""
_USER = """\
?attended ?!subagent is here
?attended ?subagent is asked for approvals only
?!attended nobody is here to answer or to allow anything: decide, and say what you decided"""


class LogWithState(Struct, frozen=True):
    """The log of a conversation and the state that it folds to."""

    log: EventLog
    state: State
    epoch: str


class OpenConversation:
    """A conversation at work in this process: the kernel's `MessageContext` and `Toolbox`."""

    def __init__(
        self,
        context: ConversationContext,
        config: AgentConfig,
        log_with_state: LogWithState,
        folders: Sequence[Path],
        equip: Callable[[Conversation, Sequence[Path], AgentConfig], AgentConfig],
        on_idle: Callable[[OpenConversation], None],
    ) -> None:
        """`equip` adds tools to the recipe; `on_idle` is called when a turn has come to rest."""
        self._context, clock, masker = context, context.services.clock, context.services.masker
        self._on_idle = on_idle
        state = log_with_state.state
        self.conversation = conversation = Conversation(
            state, log_with_state.log, self, epoch=log_with_state.epoch, clock=clock, masker=masker
        )
        conversation.journal.listeners.extend(context.client.listeners)
        config = equip(conversation, folders, config)
        schema = state.result_schema if config.result_schema is None else config.result_schema
        self._config = config = replace(
            config, result_schema=schema, isolated=config.isolated or state.isolation
        )
        home = folders[0] if folders else None
        self._settings = context.user.settings.of(home).settings
        self.runtime = runtime = ConversationRuntime(
            context, log_with_state.log, folders, config, conversation
        )
        conversation.journal.listeners.append(runtime.budget)
        self.repairs: tuple[str, ...] = ()
        self._policy = policy_of(context, config, conversation, runtime)
        if runtime.network is not None:
            consent = host_consent_of(context, conversation, self._policy, home)
            runtime.network.members[runtime.shells] = consent

    @property
    def id(self) -> str:
        return self.conversation.id

    @cached_property
    def agent(self) -> AgentLoop:
        """The worker. Its prompt comes from the log, so the conversation must have begun."""
        conversation, bench = self.conversation, self.runtime
        journal = conversation.journal
        hooks = HookPoints(journal, hooks_of(self._context, conversation, bench))
        runtime = Runtime(
            model_for=self._model_finder(),
            toolbox=self,
            features=bench.features,
            approval=Consent(conversation, self._policy, hooks),
            hooks=hooks,
            questions=questions_of(self._context, conversation, bench),
            condenser=Condensation(journal, self._settings.condenser, hooks.before_condensing),
            find_stuck=find_stuck,
            command_changes=bench.command_changes,
            watch_files=bench.watch_files,
            slots=self._context.services.slots,
            tool_choice=self._config.tool_choice,
            titles=self._settings.titles and self._config.parent is None,
            on_idle=lambda: self._on_idle(self),
        )
        return AgentLoop(conversation, runtime)

    def start(self) -> None:
        """Start the worker and the user's MCP servers; see `AgentLoop.start`."""
        self._context.services.mcp.begin()
        self.agent.start()

    def _model_finder(self) -> Callable[[str], Model]:
        services, log = self._context.services, self.conversation.journal.log
        if not (self._settings.log_completions and isinstance(log, LogFile)):
            return self._model
        completions = Completions(log.folder, services.masker, services.clock)
        return lambda name: completions.of(self._model(name))

    def _model(self, name: str) -> Model:
        return self._context.user.models.model_for(name)

    def agent_info(
        self, options: Mapping[str, str], earlier: plain.AgentInfo | None = None
    ) -> e.AgentInfo:
        """Describe the agent for the log; the prompt of `earlier` is kept byte for byte."""
        model = options["model"]
        if earlier is None:
            self._offer_tools(options)
        prompt = earlier if earlier and earlier["systemPrompt"] else self._new_prompt(options)
        return e.AgentInfo(
            model=model,
            label=self._model(model).label,
            system_prompt=prompt["systemPrompt"],
            context_files=tuple(prompt.get("contextFiles") or ()) or None,
            skills=prompt.get("skills"),
            environment=prompt.get("environment"),
            tools=tuple(render_tool_info(tool.spec) for tool in self.runtime.tools.values()),
        )

    def environment(self, options: Mapping[str, str]) -> dict[str, str]:
        mode, facts = options["mode"], self.runtime.facts
        if mode == "plan":
            mode = " ".join(true_rows(_PLAN, facts).splitlines())
        own = {"mode": mode, "approval": options["approval"], "user": true_rows(_USER, facts)}
        return {**self.runtime.machine.facts(), **own}

    def seen_in_editor(self) -> dict[str, str]:
        folders, secrets = self.runtime.folders, self._context.user.secrets
        if not folders.folders:
            return {}
        names = ", ".join(f"${name}" for name in sorted(secrets)) or NOTHING
        return {**self._context.client.seen_in_editor(folders), "secrets": names}

    def written_out(self, content: Sequence[Part]) -> tuple[Part, ...]:
        return self.runtime.skills.written_out(content)

    def _new_prompt(self, options: Mapping[str, str]) -> Json:
        runtime = self.runtime
        runtime.machine.look()
        runtime.machine.wait()
        environment = self.environment(options)
        files = runtime.context_files.of_roots()
        sections = [text for each in runtime.features for text in each.sections(runtime.tools)]
        if self._config.role:
            sections.append(f"# Your part\n{self._config.role}")
        prompt = render_system_prompt(
            [str(folder) for folder in runtime.folders.folders],
            environment=environment,
            context_files=files,
            sections=sections,
            instructions=self._config.instructions,
            packaged=self._config.system_prompt or packaged_prompt(runtime.facts),
        )
        return {
            "systemPrompt": prompt,
            "environment": environment,
            "contextFiles": tuple(file.name for file in files) or None,
            "skills": runtime.skills.in_prompt(runtime.tools),
        }

    def take_up(self, moved_from: Path | None = None) -> None:
        """Close what a crash left open, and log what is new about the agent and its folder."""
        conversation = self.conversation
        state = conversation.state
        self.runtime.learn(state)
        if any(item["kind"] == "command" for item in state.items):
            self.runtime.shells.lose_earlier()
        # What is in the folder of before says nothing of this one.
        open_items = () if moved_from else state.open_tool_items()
        texts = {**self._cut_texts(), **cut_short(self.runtime.documents, open_items)}
        if closing := restart_events(state, conversation.journal.clock.now(), texts):
            conversation.journal.append(*closing)
        options = self._config.options.items()
        if changed_options := {
            key: value for key, value in options if value != state.options.get(key)
        }:
            conversation.journal.append(e.OptionsChanged(values=changed_options))
        if moved_from is not None:
            self._log_move(moved_from)
        self._offer_tools(state.options_now)
        self._log_agent()

    def _cut_texts(self) -> Mapping[str, ItemFields]:
        """Return what open items had streamed when the daemon before ended."""
        journal = self.conversation.journal
        if not isinstance(journal.log, LogFile):
            return {}
        open_items = map(journal.state.item, journal.state.open_items)
        return cut_texts(open_items, journal.log.partial.read(), self.runtime.output.of_partial)

    def _log_move(self, moved_from: Path) -> None:
        """Let the conversation work in its folders of now, with a prompt that names these."""
        journal, folders = self.conversation.journal, self.runtime.folders.folders
        title = f"Moved from {moved_from} to {folders[0]}"
        note = f"{title}. What was said of files there holds for those of the same name here."
        journal.append(
            e.ConversationUpdated(folders=tuple(map(uri_from_path, folders))),
            e.ItemCompleted(item=NoticeItem(id=new_id(), title=title, note=note)),
            e.AgentChanged(agent=self.agent_info(journal.state.options)),
        )

    @property
    def tools(self) -> Mapping[str, Tool]:
        return self.runtime.tools

    def refresh(self, cancel: CancelToken) -> None:
        """Offer the tools of now, and log a new model and what features have to say."""
        conversation = self.conversation
        if conversation.state.agent["model"] != conversation.state.options["model"]:
            self._log_agent()
        for feature in self.runtime.features:
            feature.before_step(conversation, cancel)
        if self._offer_tools(conversation.state.options_now):
            self._log_agent()
        for feature in self.runtime.features:
            feature.report(conversation, self.tools)

    def _offer_tools(self, options: Mapping[str, str]) -> bool:
        """Offer all tools under these options; return whether any changed."""
        owner_id = root_conversation_id(self.conversation, self._config)
        # Foreign tools come first, so that they replace none of ours.
        other_tools = (*self.runtime.servers.latest, *self._context.client.tools(owner_id))
        by_patch = self._model(options["model"]).edits_by_patch
        # Tools come first in a prompt: a change of the mode costs all that the provider cached. So
        # they stay, but who leaves the mode plan of the start must be able to make the change.
        had = self.conversation.state.agent.get("tools", ())
        looks = options["mode"] == "plan" and not any(map(did_change_files, had))
        return self.runtime.offer_tools(other_tools, by_patch=by_patch, looks=looks, earlier=had)

    def _log_agent(self) -> None:
        """Log what is new, but keep the prompt, which the provider may have cached."""
        conversation = self.conversation
        state = conversation.state
        agent = self.agent_info(state.options, state.agent)
        if plain_form(agent) != state.agent:
            conversation.journal.append(e.AgentChanged(agent=agent))

    @property
    def isolated_changes(self) -> IsolatedChanges | None:
        """What waits for the user to land it, if the conversation is isolated.

        Raises `InvalidStateError` if it cannot be reached.
        """
        runtime = self.runtime
        if runtime.refusal is not None:
            raise InvalidStateError(runtime.refusal)
        if runtime.isolated_files is None:
            return None
        own, host = runtime.documents, self._context.services.spawner
        return IsolatedChanges(
            runtime.isolated_files, self.conversation, runtime.disk, own, unwatched, host
        )

    def begin_isolation(self) -> None:
        """Log what an isolated conversation works in, if it has to be known."""
        runtime = self.runtime
        if runtime.isolated_files is None or self._config.parent is not None:
            return
        try:
            runtime.isolated_files.begin(runtime.disk)
        except OSError as exc:
            raise ToolError(f"the conversation cannot be isolated: {exc}") from exc
        if runtime.isolated_files.notice is not None:
            title, description, note = runtime.isolated_files.notice
            notice = NoticeItem(id=new_id(), title=title, description=description, note=note)
            self.conversation.journal.append(e.ItemCompleted(item=notice))

    def remove_isolation(self) -> None:
        """Remove what an isolated conversation kept, once it is closed; not for a sub-agent."""
        if self.runtime.isolated_files is not None and self.conversation.state.parent_id is None:
            self.runtime.isolated_files.remove()

    def close(self, deadline_s: float = 1.0) -> None:
        """End the worker, the shells and the log, in this order; log what was interrupted."""
        self.agent.close(deadline_s)
        self.runtime.close()
        self.conversation.journal.log.close()
        message = "the conversation was closed; open it again"
        self.conversation.journal.abandon_waiters(InvalidStateError(message))


class OpenConversations(Struct, frozen=True):
    """What is at work or followed in this process, by id; guarded by the lock."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    by_id: dict[str, OpenConversation] = field(default_factory=dict[str, OpenConversation])
    followed_logs: dict[str, Followed] = field(default_factory=dict[str, Followed])
