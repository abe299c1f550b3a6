"""A conversation at work: its log, its workbench and the agent that works there.

Nothing else connects features with the kernel.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from oh_daemon.common.cancel import CancelToken
from oh_daemon.conversations.conversation_runtime import (
    Workbench,
    changes_files,
    did_change_files,
    render_tool_info,
)
from oh_daemon.conversations.following import Followed
from oh_daemon.conversations.host_policy import host_consent_of
from oh_daemon.conversations.policy import policy_of
from oh_daemon.conversations.services import Recipe, Shared
from oh_daemon.features.browser.browser import Browser
from oh_daemon.features.budget.budget import Budget
from oh_daemon.features.checkpoints.checkpoints import NO_CHECKPOINTS
from oh_daemon.features.edit import apply_patch
from oh_daemon.features.instructions.machine import Machine
from oh_daemon.features.isolation.isolated_changes import IsolatedChanges
from oh_daemon.features.language.language import unwatched
from oh_daemon.features.mcp.servers import caveats_of, tools_of
from oh_daemon.features.pending_changes.apply_git import GitLanding
from oh_daemon.features.terminal.command_output import OutputText
from oh_daemon.kernel.agent import AgentLoop
from oh_daemon.kernel.context import NOTHING
from oh_daemon.kernel.conversation import Conversation
from oh_daemon.kernel.journal import new_id
from oh_daemon.kernel.notices import warn
from oh_daemon.kernel.ports import Caveat, Json, Model, Tool
from oh_daemon.kernel.prompt import packaged_prompt, render_system_prompt
from oh_daemon.kernel.recovery import cut_texts, restart_events
from oh_daemon.kernel.runtime import Runtime
from oh_daemon.protocol import events as e
from oh_daemon.protocol import plain
from oh_daemon.protocol.errors import InvalidStateError, ToolError
from oh_daemon.protocol.forms import ItemFields, plain_form
from oh_daemon.protocol.items import NoticeItem
from oh_daemon.storage.completions import Completions
from oh_daemon.storage.event_log import LogFile
from oh_daemon.workspace.joint_edit import cut_short
from oh_daemon.workspace.paths import uri_from_path

_PLAN = "plan: look and think only, then say what you would change. {}"
_DROPPED = "Commands run in the sandbox, and what they change is dropped; edits are refused."
_READ_ONLY = "Only what reads may run, commands too."
_NOBODY = "nobody is here to answer or to allow anything: decide, and say what you decided"


class Live:
    """A conversation at work in this process."""

    def __init__(
        self, shared: Shared, recipe: Recipe, conversation: Conversation, folders: Sequence[Path]
    ) -> None:
        state = conversation.state
        schema = state.result_schema if recipe.result_schema is None else recipe.result_schema
        self._shared = shared
        self._recipe = recipe = replace(
            recipe, result_schema=schema, isolated=recipe.isolated or state.isolated
        )
        home = folders[0] if folders else None
        self._settings = shared.settings(home).settings
        self.conversation = conversation
        # The log of a new sub-agent does not name its parent yet.
        parent_id = recipe.parent.id if recipe.parent else state.parent_id
        self.workbench = Workbench(
            shared,
            conversation.journal.log,
            folders,
            recipe,
            cancel=lambda: conversation.cancel,
            owner_id=parent_id or conversation.id,
        )
        self.budget = Budget(
            lambda: shared.settings(home).settings, shared.spend, conversation.journal.clock
        )
        conversation.journal.listeners.append(self.budget)
        self.repaired: tuple[str, ...] = ()
        self._policy = policy_of(shared, recipe, conversation, self.workbench)
        if self.workbench.network is not None:
            consent = host_consent_of(shared, conversation, self._policy, home)
            self.workbench.network.members[self.workbench.shells] = consent
        self.browser = Browser(shared, folders, self.workbench.for_project, self._settle_hosts)
        self.workbench.shells.on_job_end = conversation.journal.wake
        conversation.delivery.skill_kinds = self.workbench.skills.kinds
        self._machine = Machine(
            home,
            shared.environment,
            shared.spawner,
            lambda: home is not None and shared.trust.of(home) == "full",
        )
        self._told_last: Mapping[str, str] = {}
        conversation.delivery.environment = self._environment
        if folders:
            conversation.delivery.seen_in_editor = lambda: {
                **shared.seen_in_editor(self.workbench.folders),
                "secrets": ", ".join(f"${name}" for name in sorted(shared.secrets)) or NOTHING,
            }

    @property
    def id(self) -> str:
        return self.conversation.id

    @cached_property
    def agent(self) -> AgentLoop:
        """The worker. Its prompt comes from the log, so the conversation must have begun."""
        runtime = Runtime(
            model_for=self._model_finder(),
            tools=lambda: self.workbench.tools,
            policy=self._policy,
            slots=self._shared.slots,
            tool_choice=self._recipe.tool_choice,
            condenser=self._settings.condenser,
            titles=self._settings.titles and self._recipe.parent is None,
            context_for=self.workbench.context_for,
            over_budget=self.budget.rest_before_step,
            before_step=self.refresh_tools,
            watch_files=self.workbench.watch_files,
            landings=self.workbench.landings,
        )
        return AgentLoop(self.conversation, runtime)

    def _settle_hosts(self, cancel: CancelToken) -> str | None:
        network = self.workbench.network
        return network.settle(self.workbench.shells, cancel) if network else None

    def start(self) -> None:
        """Start the worker and the user's MCP servers; see `AgentLoop.start`."""
        self._shared.mcp.begin()
        self.agent.start()

    def _model_finder(self) -> Callable[[str], Model]:
        find, log = self._shared.model_for, self.conversation.journal.log
        if not (self._settings.log_completions and isinstance(log, LogFile)):
            return find
        kept = Completions(log.folder, self._shared.masker, self._shared.clock)
        return lambda name: kept.of(find(name))

    def agent_info(
        self, options: Mapping[str, str], earlier: plain.AgentInfo | None = None
    ) -> e.AgentInfo:
        """Describe the agent for the log; the prompt of `earlier` is kept byte for byte."""
        model = options["model"]
        if earlier is None:
            self._offer(options)
        prompt = earlier if earlier and earlier["systemPrompt"] else self._new_prompt(options)
        return e.AgentInfo(
            model=model,
            label=self._shared.model_for(model).label,
            system_prompt=prompt["systemPrompt"],
            context_files=tuple(prompt.get("contextFiles") or ()) or None,
            skills=prompt.get("skills"),
            environment=prompt.get("environment"),
            tools=tuple(render_tool_info(tool.spec) for tool in self.workbench.tools.values()),
        )

    def _environment(self, options: Mapping[str, str]) -> dict[str, str]:
        """Return what is true of where the agent works, under these options."""
        mode = options["mode"]
        if mode == "plan":
            mode = _PLAN.format(_DROPPED if self.workbench.shells.are_held else _READ_ONLY)
        user = "is here" if self._shared.is_attended() else _NOBODY
        own = {"mode": mode, "approval": options["approval"], "user": user}
        return {**self._machine.facts(), **own}

    def _tell_news(self) -> None:
        """Tell the model what has changed since its last step, and look again in a new turn."""
        state = self.conversation.state
        if state.open_turn.n_steps == 0:
            self._machine.look(self.conversation.delivery.told().get("git", ""))
        facts = self._environment(state.options_now)
        if facts != self._told_last:
            self._told_last = facts
            self.conversation.delivery.tell_news()
        if ended := self.workbench.shells.take_ended_jobs():
            title = "What ran in the background has ended"
            notice = NoticeItem(id=new_id(), title=title, description=ended, note=ended)
            self.conversation.journal.append(e.ItemCompleted(item=notice))

    def _new_prompt(self, options: Mapping[str, str]) -> Json:
        self._machine.look()
        self._machine.wait()
        environment = self._environment(options)
        bench = self.workbench
        files = bench.context_files.of_roots()
        sections = [*bench.skills.sections(bench.tools), *bench.memory.sections(bench.tools)]
        if apply_patch.NAME in bench.tools:
            sections.append(apply_patch.PROMPT_SECTION)
        if self._recipe.role:
            sections.append(f"# Your part\n{self._recipe.role}")
        prompt = render_system_prompt(
            [str(folder) for folder in bench.folders.folders],
            environment=environment,
            context_files=files,
            sections=sections,
            instructions=self._recipe.instructions,
            packaged=self._recipe.system_prompt
            or packaged_prompt(bench.tools, changes=any(map(changes_files, bench.tools.values()))),
        )
        return {
            "systemPrompt": prompt,
            "environment": environment,
            "contextFiles": tuple(file.name for file in files) or None,
            "skills": bench.skills.in_prompt(bench.tools),
        }

    def take_up(self, moved_from: Path | None = None) -> None:
        """Close what a crash left open, and log what is new about the agent and its folder."""
        conversation = self.conversation
        state = conversation.state
        self.workbench.learn(state)
        if any(item["kind"] == "command" for item in state.items):
            self.workbench.shells.lose_earlier()
        # What is in the folder of before says nothing of this one.
        open_items = () if moved_from else state.open_tool_items()
        found = {**self._cut_texts(), **cut_short(self.workbench.documents, open_items)}
        if closing := restart_events(state, conversation.journal.clock.now(), found):
            conversation.journal.append(*closing)
        wanted = self._recipe.options.items()
        if changed := {key: value for key, value in wanted if value != state.options.get(key)}:
            conversation.journal.append(e.OptionsChanged(values=changed))
        if moved_from is not None:
            self._log_move(moved_from)
        self._offer(state.options_now)
        self._log_agent()

    def _cut_texts(self) -> Mapping[str, ItemFields]:
        """Return what open items had streamed when the daemon before ended."""
        journal = self.conversation.journal
        if not isinstance(journal.log, LogFile):
            return {}
        blobs = journal.log.folder / "blobs"
        output = OutputText(journal.masker, journal.log.put_blob_file, blobs)
        open_items = map(journal.state.item, journal.state.open_items)
        return cut_texts(open_items, journal.log.partial.read(), output.of_partial)

    def _log_move(self, moved_from: Path) -> None:
        """Let the conversation work in its folders of now, with a prompt that names these."""
        journal, folders = self.conversation.journal, self.workbench.folders.folders
        title = f"Moved from {moved_from} to {folders[0]}"
        note = f"{title}. What was said of files there holds for those of the same name here."
        journal.append(
            e.ConversationUpdated(folders=tuple(map(uri_from_path, folders))),
            e.ItemCompleted(item=NoticeItem(id=new_id(), title=title, note=note)),
            e.AgentChanged(agent=self.agent_info(journal.state.options)),
        )

    def refresh_tools(self, cancel: CancelToken) -> None:
        """Offer what MCP servers have now, log a new model, and warn of whatever is unusable."""
        state = self.conversation.state
        if state.agent["model"] != state.options["model"]:
            self._log_agent()
        skills = self.workbench.skills
        skills.use_asked_for(self.conversation, cancel)
        skills.warn_of_broken(self._warn)
        self.budget.warn_of_unknown(state, self._warn)
        skills.servers.begin()
        self.browser.servers.begin()
        # The user's own servers come last, so that no skill's tool can replace one of theirs.
        sources = (skills.servers, self.browser.servers, self._shared.mcp)
        if self._offer(state.options_now, tools_of(sources, cancel)):
            self._log_agent()
        skills.tell_of_new(self.conversation, self.workbench.tools)
        for caveat in caveats_of(sources):
            self._warn(caveat)
        self._tell_news()
        store = self.workbench.checkpoints
        if store is not None and store.is_off:
            self._warn(Caveat("noCheckpoints", NO_CHECKPOINTS, store.problem))

    def _warn(self, caveat: Caveat) -> None:
        warn(self.conversation.journal, caveat)

    def _offer(self, options: Mapping[str, str], others: Sequence[Tool] = ()) -> bool:
        """Offer these tools, the client's and our own under these options; whether any changed."""
        parent = self._recipe.parent
        parent_id = parent.id if parent else self.conversation.state.parent_id
        others = (*others, *self._shared.client_tools(parent_id or self.id))
        by_patch = self._shared.model_for(options["model"]).edits_by_patch
        # Tools come first in a prompt: a change of the mode costs all that the provider cached. So
        # they stay, but who leaves the mode plan of the start must be able to make the change.
        had = self.conversation.state.agent.get("tools", ())
        looks = options["mode"] == "plan" and not any(map(did_change_files, had))
        return self.workbench.offer_tools(others, by_patch=by_patch, looks=looks)

    def _log_agent(self) -> None:
        """Log what is new, but keep the prompt, which the provider may have cached."""
        conversation = self.conversation
        state = conversation.state
        agent = self.agent_info(state.options, state.agent)
        if plain_form(agent) != state.agent:
            conversation.journal.append(e.AgentChanged(agent=agent))

    @property
    def isolated(self) -> IsolatedChanges | None:
        """What waits for the user to land it, if the conversation is isolated.

        Raises `InvalidStateError` if it cannot be reached.
        """
        bench = self.workbench
        if bench.refusal is not None:
            raise InvalidStateError(bench.refusal)
        if bench.keep is None:
            return None
        own, watch = bench.documents, unwatched
        git = GitLanding(self._shared.spawner, bench.disk.history.blobs.read_blob)
        return IsolatedChanges(bench.keep, self.conversation, bench.disk, own, watch, git.land)

    def begin_isolation(self) -> None:
        """Log what an isolated conversation works in, if it has to be known."""
        bench = self.workbench
        if bench.keep is None or self._recipe.parent is not None:
            return
        try:
            bench.keep.begin(bench.disk)
        except OSError as exc:
            raise ToolError(f"the conversation cannot be isolated: {exc}") from exc
        if bench.keep.notice is not None:
            title, description, note = bench.keep.notice
            notice = NoticeItem(id=new_id(), title=title, description=description, note=note)
            self.conversation.journal.append(e.ItemCompleted(item=notice))

    def remove_isolation(self) -> None:
        """Remove what an isolated conversation kept, once it is closed; not for a sub-agent."""
        if self.workbench.keep is not None and self.conversation.state.parent_id is None:
            self.workbench.keep.remove()

    def close(self, deadline_s: float = 1.0) -> None:
        """End the worker, the shells and the log, in this order; log what was interrupted."""
        self.agent.close(deadline_s)
        self.workbench.close()
        self.conversation.journal.log.close()
        closed = "the conversation was closed; open it again"
        self.conversation.journal.abandon_waiters(InvalidStateError(closed))


@dataclass(frozen=True, slots=True)
class Here:
    """What is at work or followed in this process, by id; guarded by the lock."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    live: dict[str, Live] = field(default_factory=dict[str, Live])
    followed: dict[str, Followed] = field(default_factory=dict[str, Followed])
