"""One task from its clone to its result, in whatever process an engine calls it.

What was done before a kill is found in the task's folder, and not done again.
"""

from __future__ import annotations

import time
from importlib.metadata import version
from pathlib import Path
from shlex import quote
from typing import Literal

from msgspec import Struct

from oh_daemon.frontends.fleet.task_folder import Status, TaskFolder, TaskResult, write_whole
from oh_daemon.frontends.fleet.tasks import FleetTask
from oh_daemon.frontends.library.library_agent import Agent
from oh_daemon.frontends.library.library_conversation import Conversation
from oh_daemon.frontends.library.workspace import Workspace
from oh_daemon.protocol.errors import DaemonError, InvalidParamsError, InvalidStateError, ToolError
from oh_daemon.protocol.items import Turn

TIMED_OUT = 124
"""The exit code of a check that took too long, as timeout(1) has it."""
_DONE = frozenset({"finished", "endTurn"})
_CLONE = """
if [ -d {repo} ] && ! [ -e {repo}/.git ] && ! [ -e {repo}/HEAD ]; then
  cp -a -- {repo} tree.new && git -C tree.new init --quiet && git -C tree.new add --all &&
    git -C tree.new -c user.name=fleet -c user.email= commit --quiet --allow-empty --message=base \\
      --no-gpg-sign
else
  git clone --quiet -- {repo} tree.new
fi && cd tree.new && if [ {base} ]; then
  git checkout --quiet --detach {base} 2>/dev/null ||
    {{ git fetch --quiet origin {base} && git checkout --quiet --detach FETCH_HEAD; }}
fi && git rev-parse HEAD > ../base && cd .. && mv tree.new tree
"""


class FleetPlan(Struct, frozen=True):
    """How all tasks of a fleet are done. It has no key: each process finds its own."""

    model: str = ""
    sandbox: Literal["overlay", "off"] = "overlay"
    boundary: Literal["container", "vm"] | None = None
    max_steps: int = 100
    max_cost_usd: float | None = None
    """Per task, over all times that it goes on."""
    check_timeout_s: float = 1800.0
    """Also that of the setup."""
    resumes: bool = False
    """Also go on with tasks that ended without passing."""
    version: str = version("oh-daemon")


def work(task: FleetTask, path: Path, plan: FleetPlan) -> TaskResult:
    """Bring the task to its end, or return the result that it has. Blocks for minutes or hours."""
    if plan.version != version("oh-daemon"):
        raise InvalidParamsError(f"oh-daemon {plan.version} began, here is {version('oh-daemon')}")
    folder, begin = TaskFolder(path), time.monotonic()
    with folder.hold():
        before = folder.result
        if before is not None and (before.status == "passed" or not plan.resumes):
            return before
        try:
            result = _run(task, folder, plan)
        except (DaemonError, OSError) as exc:
            result = TaskResult(id=task.id, status="error", reason=str(exc))
        ledger, open_ends = folder.ledger, folder.open_ends
        result = result.model_copy(
            update={
                "not_done": open_ends.lines,
                "needs_person": open_ends.needs_person,
                "steps": ledger.steps,
                "n_cut": ledger.n_cut,
                "conversation": folder.conversation_id,
                "boundary": plan.boundary,
                "seconds": round(time.monotonic() - begin, 1),
                "version": plan.version,
            }
        )
        folder.finish(result)
        return result


def _run(task: FleetTask, folder: TaskFolder, plan: FleetPlan) -> TaskResult:
    folder.take(task)
    require_hold(folder.path, plan)
    # Its shell and what starts that would weigh more than the conversation.
    with Workspace(folder.path) as host:
        _prepare(task, folder, host, plan)
    base = (folder.path / "base").read_text().strip()
    agent = agent_for(plan, folder.ledger.lost_usd)
    with (
        Workspace(folder.tree, sandbox=plan.sandbox) as place,
        Conversation(agent, place, conversation_id=folder.conversation_id) as conversation,
    ):
        turn = conversation.continue_or_run(task.prompt)
        if plan.resumes and conversation.state.status == "paused":
            turn = conversation.run()
        patch = place.patch_since(base)
        write_whole(folder.path / "patch.diff", patch.encode())
        check = None
        if task.check and _is_done(turn):
            outcome = conversation.run_command(f"(\n{task.check}\n)", plan.check_timeout_s)
            check = TIMED_OUT if outcome.exit_code is None else outcome.exit_code
            write_whole(folder.path / "check.log", outcome.output.encode())
        state = conversation.state
    status: Status = "passed" if _is_done(turn) and not check else "failed"
    return TaskResult(
        id=task.id,
        status=status,
        reason=_reason(turn),
        check=check,
        cost_usd=state.usage.cost.amount if state.usage.cost else None,
        patch=patch,
        base=base,
        model=agent.main_model,
        sandbox=state.sandbox,
    )


def _prepare(task: FleetTask, folder: TaskFolder, host: Workspace, plan: FleetPlan) -> None:
    """Make the clone and set it up, unless that was done. Raises `ToolError`."""
    if not folder.tree.exists():
        words = {"repo": quote(task.repo), "base": quote(task.base)}
        outcome = host.run_command(f"( rm -rf tree.new\n{_CLONE.format(**words)} )")
        if outcome.exit_code != 0:
            raise ToolError(f"the clone failed: {outcome.output.strip()[-500:]}")
    mark = folder.path / "setup.done"
    if not task.setup or mark.exists():
        return
    command = f"cd tree && bash -c {quote(task.setup)} > ../setup.log 2>&1 < /dev/null"
    code = host.run_command(f"( {command} )", plan.check_timeout_s).exit_code
    if code != 0:
        how = "took too long" if code is None else f"ended with exit code {code}"
        raise ToolError(f"the setup {how}; its output is in {str(folder.path / 'setup.log')!r}")
    mark.touch()


def require_hold(folder: Path, plan: FleetPlan) -> None:
    """Raise `InvalidStateError` unless something holds the commands of agents on this machine."""
    why = Workspace(folder, sandbox=plan.sandbox).refusal
    if why is not None:
        raise InvalidStateError(
            why, hint="in a container or machine made for this: --sandbox off --boundary container"
        )


def agent_for(plan: FleetPlan, lost_usd: float = 0.0) -> Agent:
    """Return the agent of a task, for which kills may have made calls cost so much twice.

    Raises `ModelError`, and `InvalidParamsError` when a limit would not hold.
    """
    limits: dict[str, float] = {}
    if plan.max_cost_usd is not None:
        limits["maxCostUsdPerConversation"] = max(plan.max_cost_usd - lost_usd, 1e-9)
    return Agent.from_user(plan.model, max_steps=plan.max_steps, settings=limits)


def _is_done(turn: Turn) -> bool:
    return turn.status == "completed" and turn.stop_reason in _DONE


def _reason(turn: Turn) -> str:
    return turn.error.message if turn.error else turn.stop_reason or turn.status
