"""The methods about approvals, questions, tools, attachments, settings, secrets and the daemon."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from oh_daemon.conversations.conversation_runtime import Workbench, render_tool_info
from oh_daemon.conversations.description import status_of
from oh_daemon.conversations.open_conversation import Live
from oh_daemon.conversations.services import Recipe, Shared
from oh_daemon.conversations.sub_agents import agents_in, sub_agents_of
from oh_daemon.features.approval.rules import check_rules
from oh_daemon.features.subagents.delegate import DelegateTool
from oh_daemon.frontends.lsp.approval_prompts import chosen_option
from oh_daemon.frontends.lsp.daemon import Daemon
from oh_daemon.kernel.ports import Json
from oh_daemon.protocol import daemon_messages as m
from oh_daemon.protocol import plain
from oh_daemon.protocol.approvals import Approval, Decision, InputRespondParams
from oh_daemon.protocol.composing import AttachmentPutParams, AttachmentPutResult
from oh_daemon.protocol.errors import InvalidParamsError
from oh_daemon.protocol.forms import model_of
from oh_daemon.protocol.problems import render_problem
from oh_daemon.protocol.settings import Layer, merge_settings
from oh_daemon.storage.memory_log import MemoryLog
from oh_daemon.workspace.paths import parse_folder

_HIDDEN = "***"


def approval_list(daemon: Daemon, live: Live | None) -> m.ApprovalListResult:
    conversations, pending = daemon.conversations, list[Approval]()
    if live is None:
        asking = [each.conversation.journal for each in conversations.all_live()]
    else:
        asking = [live.conversation.journal, *sub_agents_of(conversations, live.id)]
    for each in asking:
        with each.changed:
            waiting = each.state.approvals.values()
            pending.extend(model_of(Approval, approval) for approval in waiting)
    return m.ApprovalListResult(pending=tuple(pending))


def approval_respond(live: Live, params: m.ApprovalRespondParams) -> Json:
    with live.conversation.journal.changed:
        approval = live.conversation.state.approvals.get(params.approval_id)
        # If it is resolved already, this decision is not used: the answer holds the first one.
        decision = _decision(approval, params) if approval else Decision(effect="reject")
        return live.conversation.decisions.respond(
            params.approval_id,
            params.digest,
            decision,
            feedback=params.feedback,
            edited_subject=params.edited_subject,
        )


def input_respond(live: Live, params: InputRespondParams) -> Json:
    return live.conversation.decisions.answer(params.input_id, params.action, params.content)


def _decision(approval: plain.Approval, params: m.ApprovalRespondParams) -> Decision:
    """Return the chosen decision. Raises `InvalidParamsError` for one that was not offered."""
    options = approval["options"]
    wanted = params.decision
    offered = {(option["effect"], option["scope"]) for option in options}
    if wanted and (wanted.effect == "reject" or (wanted.effect, wanted.scope) in offered):
        return wanted
    chosen = chosen_option(approval, by="id", value=params.option_id)
    if chosen is None:
        names = ", ".join(option["id"] for option in options)
        what = f"the approval does not offer that; it is one of {names}"
        raise InvalidParamsError.at("optionId", what, "unknown")
    return chosen


def tool_list(daemon: Daemon, live: Live | None, folders: list[Path]) -> Any:
    if live is not None:
        return _tools_of(live.workbench)
    return daemon.workers.submit(lambda: _tools_of(_workbench_of_new(daemon.shared, folders)))


def _tools_of(bench: Workbench) -> m.ToolListResult:
    tools = tuple(render_tool_info(tool.spec) for tool in bench.tools.values())
    return m.ToolListResult.model_validate({"tools": tools})


def _workbench_of_new(shared: Shared, folders: list[Path]) -> Workbench:
    """Make the workbench of a conversation that would start now. Reads the disk."""
    delegate = DelegateTool(lambda: agents_in(shared, folders), lambda _tasks, _context: ())
    recipe = Recipe(more_tools=(delegate,) if folders else ())
    return Workbench(shared, MemoryLog(), folders, recipe)


def config_read(
    daemon: Daemon, params: m.ConfigReadParams, folders: list[Path]
) -> m.ConfigReadResult:
    merged = daemon.shared.settings(next(iter(folders), None))
    value = merged.settings.model_dump(mode="json")
    for settings in (value, *value["profiles"].values()):
        settings["llm"] = {k: _HIDDEN if _is_secret(k) else v for k, v in settings["llm"].items()}
    for server in value["mcpServers"].values():
        server |= {key: dict.fromkeys(server[key], _HIDDEN) for key in ("env", "headers")}
    if params.section is not None:
        if params.section not in value:
            what = f"no setting {params.section!r}; it is one of {', '.join(value)}"
            raise InvalidParamsError.at("section", what, "unknown")
        value = {params.section: value[params.section]}
    problems = tuple(map(render_problem, merged.problems))
    return m.ConfigReadResult(value=value, sources=merged.sources, problems=problems)


def _is_secret(name: str) -> bool:
    return any(word in name.lower() for word in ("key", "headers"))


def config_validate(params: m.ConfigValidateParams) -> m.ConfigValidateResult:
    merged = merge_settings([Layer(params.source, params.settings)])
    wrong_rules = check_rules(merged.settings.rules)[1]
    problems = tuple(map(render_problem, (*merged.problems, *wrong_rules)))
    return m.ConfigValidateResult(problems=problems)


def secret_set(daemon: Daemon, params: m.SecretSetParams) -> m.SecretNames:
    value = params.value.get_secret_value()
    daemon.shared.masker.add(value)
    lent = daemon.shared.secrets if params.for_commands else daemon.models.secrets
    lent[params.name] = value
    return secret_list(daemon)


def secret_remove(daemon: Daemon, params: m.SecretRemoveParams) -> m.SecretNames:
    daemon.models.secrets.pop(params.name, None)
    daemon.shared.secrets.pop(params.name, None)
    return secret_list(daemon)


def secret_list(daemon: Daemon) -> m.SecretNames:
    return m.SecretNames(
        names=tuple(sorted(daemon.models.secrets)),
        for_commands=tuple(sorted(daemon.shared.secrets)),
    )


def daemon_status(daemon: Daemon, folders: list[Path]) -> Any:
    """Answer at once: on a worker, it would wait for all conversations that are being opened."""
    if daemon.shared.is_sandbox_known():
        return _status(daemon, folders)
    return daemon.workers.submit(_status, daemon, folders)


def _status(daemon: Daemon, folders: Sequence[Path]) -> m.DaemonStatusResult:
    problems = daemon.shared.settings(next(iter(folders), None)).problems
    live = (live.conversation.journal for live in daemon.conversations.all_live())
    return m.DaemonStatusResult(
        version=daemon.version,
        pid=os.getpid(),
        uptime_s=round(time.monotonic() - daemon.started_at, 3),
        rss_bytes=_rss_bytes(),
        conversations=tuple(
            m.ConversationLoad.model_validate({"id": each.id, "status": status_of(each)})
            for each in live
        ),
        writer_queue_bytes=daemon.outbox.queued_bytes,
        sandbox=m.SandboxInfo.model_validate(daemon.shared.sandbox(folders).report),
        warnings=tuple(map(render_problem, problems)),
    )


def _rss_bytes() -> int:
    """Return the memory in use now; 0 where the system does not say."""
    try:
        pages = int(os.pread(_statm(), 256, 0).split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


@cache
def _statm() -> int:
    """Open it once: under load, each system call is a wait for the interpreter."""
    return os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)


def workspace_set_trust(daemon: Daemon, params: m.SetTrustParams) -> m.SetTrustResult:
    trust = daemon.shared.trust
    trust.decide(parse_folder(params.folder, "folder"), params.trusted)
    daemon.reconsider()
    return m.SetTrustResult(folders=trust.listed())


def attachment_put(daemon: Daemon, params: AttachmentPutParams) -> AttachmentPutResult:
    return daemon.attachments.put(params)


def model_list(daemon: Daemon) -> m.ModelListResult:
    efforts_of = daemon.shared.efforts_of
    models = (
        info.model_copy(update={"efforts": tuple(efforts_of(info.id)) or None})
        for info in daemon.models.listed()
    )
    return m.ModelListResult(models=tuple(models), default=daemon.models.default_name())
