"""What a program's agent is for a daemon elsewhere: settings, tools that run here, limits."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future

from msgspec import Struct

from oh_daemon.frontends.client.connection import DaemonClient
from oh_daemon.frontends.library.library_agent import Agent, Tool
from oh_daemon.frontends.library.program import config_of
from oh_daemon.frontends.library.remote_workspace import not_there
from oh_daemon.jsonrpc.serial import on_own_thread
from oh_daemon.kernel.function_tool import FunctionTool, to_result
from oh_daemon.kernel.ports import Json
from oh_daemon.protocol.branches import ChangesListResult, ReviewParams, ReviewResult
from oh_daemon.protocol.client_tools import ClientTool
from oh_daemon.protocol.messages import StartParams

_UNLIKE = (
    *("system_prompt", "risk_analyzer", "approval_policy"),
    *("mcp_servers", "mcp_tokens", "memory"),
)
"""Fields of an agent that have no effect elsewhere."""


def start_params(agent: Agent, metadata: Json, *, is_isolated: bool) -> StartParams:
    config = config_of(agent)
    return StartParams(
        options=dict(config.options),
        tools=config.tool_filter,
        client_tools=client_tools(agent),
        result_schema=agent.result_schema,
        instructions=agent.instructions or None,
        max_steps=agent.max_steps,
        max_cost_usd=agent.max_cost_usd,
        isolated=is_isolated,
        metadata=metadata,
    )


class ChangesThere(Struct, frozen=True):
    """The pending changes there, in the form that `IsolatedReview` needs."""

    daemon: DaemonClient
    conversation_id: str

    def list(self, *, with_patches: bool = False) -> ChangesListResult:
        params = {"conversationId": self.conversation_id}
        pending = ChangesListResult.model_validate(self.daemon.request("changes/list", params))
        if not with_patches:
            return pending
        texts = {each.uri for each in pending.files if each.raw is None}
        diffs = {
            uri: self.daemon.request("changes/diff", {**params, "uri": uri})["patch"]
            for uri in texts
        }
        files = (each.model_copy(update={"patch": diffs.get(each.uri)}) for each in pending.files)
        return pending.model_copy(update={"files": tuple(files)})

    def apply(self, params: ReviewParams) -> ReviewResult:
        return ReviewResult.model_validate(self.daemon.request("changes/apply", params))

    def discard(self, params: ReviewParams) -> ReviewResult:
        return ReviewResult.model_validate(self.daemon.request("changes/discard", params))


def require_possible(agent: Agent, *, is_moved: bool) -> None:
    """Raises `UserError` for what an agent cannot have on another machine."""
    wishes = [name for name in _UNLIKE if getattr(agent, name)]
    wishes += ["tool_choice"] if agent.tool_choice != "auto" else []
    wishes += ["moved"] if is_moved else []
    if wishes:
        raise not_there(wishes[0])


def block_of(agent: Agent, *, answers: bool) -> Json:
    has_approvals = agent.approval != "askNever"
    return {
        "client": {
            "name": "python",
            "kind": "script" if has_approvals or answers else "unattended",
        },
        "features": {"approvalRequests": has_approvals, "inputRequests": answers},
        "events": {"deltas": False},
        "settings": {"titles": False, "condenser": agent.condenser, **agent.settings},
    }


def client_tools(agent: Agent) -> tuple[ClientTool, ...]:
    specs = (tool.bound().spec for tool in agent.tools if isinstance(tool, Tool))
    return tuple(
        ClientTool(
            name=spec.name,
            description=spec.description,
            input_schema=spec.input_schema,
            annotations={"readOnlyHint": spec.read_only},
        )
        for spec in specs
    )


def call_function(tools: Mapping[str, FunctionTool], params: Json) -> Future[Json]:
    """Call a function of the program; what it raises is told to the model."""

    def call() -> Json:
        try:
            result = to_result(tools[params["name"]].call(**params["arguments"]))
        except Exception as exc:  # noqa: BLE001 - the program's function.
            message = f"{type(exc).__name__}: {exc}"
            return {"content": [{"type": "text", "text": message}], "isError": True}
        return {"content": result.content, "isError": result.is_error}

    return on_own_thread(f"tool-{params['name']}", call)
