"""The commands that let an agent work while nobody watches, with their options."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal

import typer

from oh_daemon.frontends.cli.options import (
    ApiKey,
    AsJson,
    Ask,
    Folder,
    MaxCost,
    MaxSteps,
    ModelName,
    SettingsFile,
    approval_of,
    given_options,
)
from oh_daemon.protocol.errors import InvalidParamsError

Sandbox = Annotated[
    Literal["overlay", "off"], typer.Option(help="`off` needs a boundary of your own.")
]
Boundary = Annotated[
    Literal["container", "vm"] | None, typer.Option(help="What holds commands instead.")
]
unattended = typer.Typer(rich_markup_mode=None)
_SHARD = re.compile(r"(\d+)/(\d+)")


def _check_shard(shard: str) -> str:
    match = _SHARD.fullmatch(shard)
    if shard and not (match and int(match[1]) < int(match[2])):
        raise InvalidParamsError(f"--shard {shard}: the first of 16 shards is 0/16, the last 15/16")
    return shard


def _require_boundary(sandbox: str, boundary: str | None) -> None:
    if (sandbox == "off") != (boundary is not None):
        raise InvalidParamsError("--sandbox off and --boundary go together: what holds commands?")


@unattended.command("resolve")
def resolve_issue(  # noqa: PLR0913, PLR0917 - one parameter per option of the command line.
    issue: Annotated[
        str, typer.Argument(help="A JSON or Markdown file, `-`, or an issue's page on GitHub.")
    ],
    repo: Annotated[
        Path, typer.Option(exists=True, file_okay=False, resolve_path=True, help="The repository.")
    ] = Path(),
    check: Annotated[str, typer.Option(help="A command that must succeed at the end.")] = "",
    check_minutes: Annotated[float, typer.Option(min=0.01, help="Its limit of time.")] = 30.0,
    branch: Annotated[str, typer.Option(help="Its name; default: `oh-daemon/issue-N`.")] = "",
    out: Annotated[
        Path | None, typer.Option(resolve_path=True, help="Default: a folder beside REPO.")
    ] = None,
    push: Annotated[bool, typer.Option("--push", help="Push the branch to `origin`.")] = False,
    pr: Annotated[bool, typer.Option("--pr", help="Push and open a pull request.")] = False,
    model: ModelName = None,
    settings: SettingsFile = None,
    max_steps: MaxSteps = None,
    max_cost: MaxCost = None,
    sandbox: Sandbox = "overlay",
    boundary: Boundary = None,
) -> int:
    """Solve an issue without questions, on a branch of its own."""
    from oh_daemon.frontends.cli.resolve import ResolveRequest, run_resolve  # noqa: PLC0415 - slow.

    _require_boundary(sandbox, boundary)
    request = ResolveRequest(
        issue=issue,
        repository=repo,
        options=given_options(model=model, maxSteps=max_steps, maxCostUsd=max_cost),
        settings_file=settings,
        check=check,
        check_minutes=check_minutes,
        branch=branch,
        out=out,
        boundary=boundary,
        pushes=push or pr,
        opens=pr,
    )
    return run_resolve(request)


@unattended.command("replay")
def replay_conversation(
    recording: Annotated[
        str, typer.Argument(metavar="ID", help="Its id, the start of it, or a folder with its log.")
    ],
    workspace: Folder = Path(),
    execute: Annotated[
        bool,
        typer.Option(
            "--execute/--results", help="Run tools again, in a clone; or take what they returned."
        ),
    ] = False,
    ask: Ask = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Do not overlook folders, ids, dates and durations.")
    ] = False,
) -> int:
    """Run a conversation again from its log, and compare.

    It shows the first difference, and then its exit code is 6. The model's answers are those of the
    log. So are the results of tools, unless they run again in a clone of your repository, at the
    last commit before the conversation: by default nothing runs and nothing changes.
    """
    from oh_daemon.frontends.cli.replay import run_replay  # noqa: PLC0415

    if ask and not execute:
        raise InvalidParamsError("--ask goes with --execute: otherwise no tool runs")
    options = given_options(approval=approval_of(ask))
    return run_replay(workspace, recording, options if execute else None, is_strict=strict)


@unattended.command("fleet")
def run_fleet(  # noqa: PLR0913, PLR0917 - one parameter per option of the command line.
    tasks: Annotated[str, typer.Argument(help="A file of tasks (JSON); or `status`, `merge`.")],
    folder: Annotated[
        Path | None, typer.Argument(help="For `status` and `merge`: what was --out.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(file_okay=False, help="Where everything is kept.")
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Tasks at a time.")] = 4,
    executor: Annotated[
        Literal["threads", "processes", "ray"], typer.Option(help="What runs the tasks.")
    ] = "threads",
    address: Annotated[str, typer.Option(help="Of a Ray cluster; default: one here.")] = "",
    shard: Annotated[
        str, typer.Option(metavar="I/N", callback=_check_shard, help="Only every Nth task.")
    ] = "",
    model: ModelName = None,
    repo: Annotated[str, typer.Option(help="The repository of tasks that name none.")] = "",
    max_steps: MaxSteps = None,
    max_cost: MaxCost = None,
    max_total: Annotated[
        float | None, typer.Option(min=0.001, help="US dollars for all tasks, over all runs.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Also go on with tasks that did not pass.")
    ] = False,
    sandbox: Sandbox = "overlay",
    boundary: Boundary = None,
    as_json: AsJson = False,
    api_key: ApiKey = None,  # noqa: ARG001 - always refused.
) -> int:
    """Work on many tasks, each in a clone of its own.

    The same command goes on after a kill.
    """
    from oh_daemon.frontends.cli import fleet as fleets  # noqa: PLC0415 - slow.
    from oh_daemon.frontends.fleet.engines import engine  # noqa: PLC0415
    from oh_daemon.frontends.fleet.fleet import FleetRequest  # noqa: PLC0415
    from oh_daemon.frontends.fleet.tasks import read_tasks  # noqa: PLC0415
    from oh_daemon.frontends.fleet.work import FleetPlan  # noqa: PLC0415

    if tasks in {"status", "merge"}:
        return fleets.report(tasks, folder or out, as_json=as_json)
    if out is None or folder is not None:
        raise InvalidParamsError("say where everything is kept: --out DIR")
    _require_boundary(sandbox, boundary)
    plan = FleetPlan(model or "", sandbox, boundary, max_steps or 100, max_cost, resumes=resume)
    request = FleetRequest(read_tasks(Path(tasks), repo), out.absolute(), plan, jobs, max_total)
    if shard:
        request = fleets.shard_of(request, shard)
    return fleets.run(request, engine(executor, jobs, address))
