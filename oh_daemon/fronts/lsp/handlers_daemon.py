"""The methods about approvals, outputs, tools, models, settings and the daemon itself.

Also `workspace/executeCommand`: the same methods for an editor that has no plugin.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

from oh_daemon.contract import daemon_messages as m
from oh_daemon.contract.errors import ApprovalNotFoundError, InvalidParamsError
from oh_daemon.contract.events import Decision
from oh_daemon.contract.items import Approval
from oh_daemon.contract.protocol import COMMANDS
from oh_daemon.core.conversation import Conversation
from oh_daemon.core.ports import Json
from oh_daemon.fronts.conversations import describe
from oh_daemon.fronts.lsp.daemon import Daemon, once_durable, parse_folder
from oh_daemon.fronts.lsp.rpc import Method, RequestContext
from oh_daemon.fronts.wiring import Live, Recipe, Workbench, render_tool_info
from oh_daemon.store.memory_log import MemoryLog

_HIDDEN = "***"


def approval_list(daemon: Daemon, params: m.ApprovalListParams, _context: RequestContext) -> Any:
    if params.conversation_id is not None:
        return daemon.with_live(params.conversation_id, lambda live: _waiting([live]))
    return _waiting(daemon.conversations.all_live())


def _waiting(asking: Sequence[Live]) -> m.ApprovalListResult:
    found: list[Approval] = []
    for live in asking:
        with live.conversation.changed:
            waiting = live.conversation.state.approvals.values()
            found.extend(Approval.model_validate(approval) for approval in waiting)
    return m.ApprovalListResult(pending=tuple(found))


def approval_respond(
    daemon: Daemon, params: m.ApprovalRespondParams, context: RequestContext
) -> Any:
    live = _asked_by(daemon, params.approval_id)
    conversation = live.conversation
    context.hold(live.id)
    with conversation.changed:
        decision = _decision(conversation, params)
        result = conversation.respond(
            params.approval_id,
            params.digest,
            decision,
            feedback=params.feedback,
            edited_subject=params.edited_subject,
        )
    return once_durable(live, result)


def _asked_by(daemon: Daemon, approval_id: str) -> Live:
    for live in daemon.conversations.all_live():
        state = live.conversation.state
        if approval_id in state.approvals or approval_id in state.resolutions:
            return live
    raise ApprovalNotFoundError(
        f"no approval {approval_id!r} in an open conversation; approval/list has those that wait"
    )


def _decision(conversation: Conversation, params: m.ApprovalRespondParams) -> Decision:
    """What the answer means. Raises `InvalidParamsError` for an option that was not offered."""
    approval = conversation.state.approvals.get(params.approval_id)
    options: list[Json] = approval["options"] if approval else []
    if params.decision is not None:
        offered = {(option["effect"], option["scope"]) for option in options}
        wanted = (params.decision.effect, params.decision.scope)
        if approval is None or params.decision.effect == "reject" or wanted in offered:
            return params.decision
    for option in options:
        if option["id"] == params.option_id:
            return Decision(effect=option["effect"], scope=option["scope"])
    if approval is None:
        return Decision(effect="reject")  # Already resolved: the answer says by whom.
    names = ", ".join(option["id"] for option in options)
    problem = {"path": "optionId", "code": "unknown", "message": f"one of {names}"}
    raise InvalidParamsError(
        f"the approval does not offer that; optionId is one of {names}", (problem,)
    )


def output_read(daemon: Daemon, params: m.OutputReadParams, _context: RequestContext) -> Any:
    def act(live: Live) -> Any:
        log = live.conversation.log

        def work() -> m.OutputReadResult:
            whole = log.read_blob(params.output_ref)
            data = whole[params.offset : params.offset + params.limit]
            # A character that the limit cuts in two comes with the next piece.
            while data and params.offset + len(data) < len(whole) and _is_cut(data):
                data = data[:-1]
            return m.OutputReadResult(
                text=data.decode("utf-8", "replace"),
                next_offset=params.offset + len(data),
                total=len(whole),
            )

        return daemon.workers.submit(work)

    return daemon.with_live(params.conversation_id, act)


def _is_cut(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as exc:
        return exc.end == len(data) and exc.reason == "unexpected end of data"
    return False


def tool_list(daemon: Daemon, params: m.ToolListParams, _context: RequestContext) -> Any:
    def infos(workbench: Workbench) -> m.ToolListResult:
        tools = (render_tool_info(tool.spec) for tool in workbench.tools.values())
        return m.ToolListResult.model_validate({"tools": tuple(tools)})

    if params.conversation_id is not None:
        return daemon.with_live(params.conversation_id, lambda live: infos(live.workbench))
    recipe = Recipe(daemon.models.model_for)
    return infos(Workbench(daemon.shared, MemoryLog(), daemon.folders(), recipe))


def model_list(
    daemon: Daemon, _params: m.ModelListParams, _context: RequestContext
) -> m.ModelListResult:
    return m.ModelListResult(models=daemon.models.listed(), default=daemon.models.default_name())


def config_read(
    daemon: Daemon, params: m.ConfigReadParams, _context: RequestContext
) -> m.ConfigReadResult:
    merged = daemon.settings(next(iter(daemon.folders()), None))
    value = merged.settings.model_dump(mode="json")
    value["llm"] = {k: _HIDDEN if "key" in k.lower() else v for k, v in value["llm"].items()}
    if params.section is not None:
        if params.section not in value:
            known = ", ".join(value)
            problem = {"path": "section", "code": "unknown", "message": f"one of {known}"}
            raise InvalidParamsError(
                f"section: no setting {params.section!r}; known are {known}", (problem,)
            )
        value = {params.section: value[params.section]}
    return m.ConfigReadResult(value=value, sources=merged.sources, problems=merged.problems)


def daemon_status(
    daemon: Daemon, _params: m.DaemonStatusParams, _context: RequestContext
) -> m.DaemonStatusResult:
    loads = [describe(live.conversation) for live in daemon.conversations.all_live()]
    return m.DaemonStatusResult(
        version=version("oh-daemon"),
        pid=os.getpid(),
        uptime_s=round(time.monotonic() - daemon.started_at, 3),
        rss_bytes=_rss_bytes(),
        conversations=tuple(m.ConversationLoad(id=info.id, status=info.status) for info in loads),
        writer_queue_bytes=daemon.outbox.queued_bytes,
        warnings=daemon.settings(next(iter(daemon.folders()), None)).problems,
    )


def _rss_bytes() -> int:
    """Memory in use now; 0 where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def set_trust(
    daemon: Daemon, params: m.SetTrustParams, _context: RequestContext
) -> m.SetTrustResult:
    daemon.trust.decide(parse_folder(params.folder, "folder"), params.trusted)
    return m.SetTrustResult(folders=daemon.trust.listed())


HANDLERS: dict[str, Callable[[Daemon, Any, RequestContext], Any]] = {
    "approval/list": approval_list,
    "approval/respond": approval_respond,
    "output/read": output_read,
    "tool/list": tool_list,
    "model/list": model_list,
    "config/read": config_read,
    "daemon/status": daemon_status,
    "workspace/setTrust": set_trust,
}


def execute_command(daemon: Daemon, methods: Mapping[str, Method]) -> Method:
    """The mirrors of our methods: the first argument is the params, or just the user's text.

    Without `conversationId` the conversation that changed last is meant.
    """

    def run(params: Json, context: RequestContext) -> Any:
        name = COMMANDS.get(params.get("command", ""))
        if name is None:
            known = ", ".join(COMMANDS)
            problem = {"path": "command", "code": "unknown", "message": f"one of {known}"}
            raise InvalidParamsError(f"no command {params.get('command')!r}", (problem,))
        arguments: list[object] = params.get("arguments") or [{}]
        given = arguments[0]
        return methods[name](_command_params(daemon, name, given), context)

    return run


def _command_params(daemon: Daemon, method: str, given: object) -> Json:
    if isinstance(given, str):
        given = {"content": [{"type": "text", "text": given}]}
    if not isinstance(given, dict):
        problem = {"path": "arguments.0", "code": "dict_type", "message": "an object or a text"}
        raise InvalidParamsError("the argument must be an object or a text", (problem,))
    params = cast("Json", given)
    needs_one = method.startswith("conversation/") and method != "conversation/start"
    if needs_one and "conversationId" not in params:
        return {**params, **_newest(daemon)}
    return params


def _newest(daemon: Daemon) -> Json:
    """The conversation that changed last; one that is just being opened did."""
    if daemon.opening:
        return {"conversationId": list(daemon.opening)[-1]}
    infos = [describe(live.conversation) for live in daemon.conversations.all_live()]
    newest = max(infos, key=lambda info: info.updated_at, default=None)
    return {} if newest is None else {"conversationId": newest.id}
