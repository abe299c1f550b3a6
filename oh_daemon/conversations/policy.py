"""Composes the policy for a conversation's actions from settings, hooks, grants and who can answer.

Before the policy decides, an action passes gates: trust in the folders, saved buffers.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from oh_daemon.conversations.host_policy import service_gates
from oh_daemon.features.approval.judgement import NO_POLICY, Policy
from oh_daemon.features.hooks.hooks import NO_HOOKS, HookRunner
from oh_daemon.features.hooks.process import HookProcesses
from oh_daemon.features.pending_changes.offers import ApplyPrompts
from oh_daemon.features.pending_changes.pending_changes import PendingChanges
from oh_daemon.features.project_programs.listing import (
    hashes,
    project_programs_in,
    runs_in,
    subject_of,
)
from oh_daemon.features.project_programs.question import UnapprovedPrograms, count_text
from oh_daemon.features.trust.trust import hook_identity, may_run
from oh_daemon.kernel.approval_requests import never_asks
from oh_daemon.kernel.conversation import Conversation
from oh_daemon.kernel.extension_points import Gate, OpenQuestions
from oh_daemon.kernel.ports import Intent, ToolSpec
from oh_daemon.protocol import events as e
from oh_daemon.protocol.approvals import SaveDocumentsSubject
from oh_daemon.protocol.items import Scope
from oh_daemon.workspace.documents import Documents
from oh_daemon.workspace.paths import printable, uri_from_path

if TYPE_CHECKING:
    from oh_daemon.conversations.conversation_runtime import ConversationRuntime
    from oh_daemon.conversations.services import AgentConfig, ConversationContext


def policy_of(
    context: ConversationContext,
    config: AgentConfig,
    conversation: Conversation,
    runtime: ConversationRuntime,
) -> Policy:
    """Return the policy, which rereads rules, hooks and grants for every action."""
    documents = runtime.documents
    home = next(iter(documents.folders.folders), None)
    policy = replace(
        NO_POLICY,
        analyzer=config.risk_analyzer,
        decides=config.approval_policy,
        rules=lambda: context.user.settings.of(home).settings.rules,
        can_ask=context.client.can_ask,
        can_answer=context.client.can_answer,
    )
    if home is None:
        return policy
    parent = config.parent

    def grants() -> Collection[str]:
        of_parent = parent.state.grants | parent.state.turn_grants if parent is not None else ()
        return {*context.user.decisions.grants(home), *of_parent}

    def save_grant(key: str) -> None:
        context.user.decisions.add_grant(home, key)

    def gates(spec: ToolSpec, intent: Intent) -> Sequence[Gate]:
        hosts = context.user.settings.of(home).settings.hosts
        return [
            *_gates(context, conversation, runtime, spec, intent),
            *service_gates(hosts, conversation, grants(), save_grant, intent),
        ]

    return replace(policy, gates=gates, grants=grants, save_grant=save_grant)


def hooks_of(
    context: ConversationContext, conversation: Conversation, runtime: ConversationRuntime
) -> HookRunner:
    """Return the hooks of the user and the project; without a folder, there are none."""
    home = next(iter(runtime.folders.folders), None)
    if home is None:
        return NO_HOOKS
    services, is_sandboxed = context.services, runtime.spawners.are_sandboxed

    def may_run_hook(command: str) -> bool | None:
        identity = hook_identity(command, home, is_sandboxed=is_sandboxed)
        return may_run(context.user.trust, home, identity)

    log = home / ".openhands" / "conversations" / conversation.id / "events.jsonl"
    return HookRunner(
        table=lambda: context.user.settings.of(home).settings.hooks,
        may_run=may_run_hook,
        run=HookProcesses(
            services.spawner, home, services.commands.variables, runtime.spawners.inside
        ).run,
        transcript=str(log),
        cwd=str(home),
    )


def questions_of(
    context: ConversationContext, conversation: Conversation, runtime: ConversationRuntime
) -> Sequence[OpenQuestions]:
    """Return what the user is asked about beside the agent's actions."""
    journal = conversation.journal
    programs = project_programs_in(
        runtime.folders.folders,
        lambda: context.user.trust,
        notify=lambda notice: journal.append(e.ItemCompleted(item=notice)),
        are_sandboxed=runtime.spawners.are_sandboxed,
    )
    pending = (
        runtime.command_changes if isinstance(runtime.command_changes, PendingChanges) else None
    )
    return (
        UnapprovedPrograms(journal, programs, context.client.can_ask),
        ApplyPrompts(journal, pending, context.client.can_ask),
    )


def _gates(
    context: ConversationContext,
    conversation: Conversation,
    runtime: ConversationRuntime,
    spec: ToolSpec,
    intent: Intent,
) -> list[Gate]:
    """Return the gates: trust in each folder before a change, saved buffers before a command."""
    acts = intent.footprint.writes or spec.kind == "execute"
    if not acts or spec.read_only:
        return []
    documents = runtime.documents
    trust, editor = context.user.trust, context.client.editor
    doubtful = [folder for folder in documents.folders.folders if trust.of(folder) != "full"]
    is_sandboxed = runtime.spawners.are_sandboxed
    gates = [_trust_gate(context, folder, is_sandboxed=is_sandboxed) for folder in doubtful]
    can_save = editor is not None and editor.saves_when_asked
    is_held = intent.confinement is not None or (
        runtime.command_changes is not None and not intent.leaves
    )
    sees_the_disk = spec.name == "terminal" and not is_held
    asks_to_save = sees_the_disk and can_save and not never_asks(conversation.state.options_now)
    if asks_to_save and (paths := documents.unsaved_agent_edits()):
        gates.append(_save_gate(documents, paths, conversation))
    return gates


def _trust_gate(context: ConversationContext, folder: Path, *, is_sandboxed: bool) -> Gate:
    subject = subject_of(folder, runs_in(folder, is_sandboxed=is_sandboxed))

    def allow(scope: Scope) -> None:
        trust = context.user.trust
        if trust.of(folder) != "full":
            for_now = scope not in {"folder", "user"}
            trust.decide(folder, "full", for_now=for_now)
            trust.decide_runs(folder, hashes(subject), may_run=True, for_now=for_now)

    refusal = (
        f"Not run: the editor does not trust {printable(folder)}. Until the user trusts it there,"
        " the agent can only read in it."
    )
    title = f"Trust {printable(folder)}? The agent may then run commands and change files there."
    if subject.runs:
        title += f" {count_text(subject)} there will run without asking."
    return Gate(
        subject,
        title,
        is_required=True,
        on_allow=allow,
        refusal=None if context.user.trust.may_ask(folder) else refusal,
    )


def _save_gate(documents: Documents, paths: Sequence[Path], conversation: Conversation) -> Gate:
    return Gate(
        SaveDocumentsSubject(uris=tuple(uri_from_path(path) for path in paths)),
        f"Save {', '.join(printable(path.name) for path in paths)} before the command runs?",
        is_required=False,
        on_allow=lambda _scope: documents.save(paths, cancel=conversation.cancel),
    )
