"""The commands that let an agent work while nobody watches, with their options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from oh_daemon.contract.errors import InvalidParamsError
from oh_daemon.fronts.cli.options import (
    Folder,
    MaxCost,
    MaxSteps,
    ModelName,
    SettingsFile,
    chosen,
)

unattended = typer.Typer(rich_markup_mode=None)


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
    sandbox: Annotated[
        Literal["view", "off"], typer.Option(help="`off` needs a boundary of your own.")
    ] = "view",
    boundary: Annotated[
        Literal["container", "vm"] | None, typer.Option(help="What holds commands instead.")
    ] = None,
) -> int:
    """Solve an issue without questions, on a branch of its own."""
    from oh_daemon.fronts.cli.resolve import Request, run_resolve  # noqa: PLC0415 - slow.

    if (sandbox == "off") != (boundary is not None):
        raise InvalidParamsError("--sandbox off and --boundary go together: what holds commands?")
    request = Request(
        issue=issue,
        repository=repo,
        options=chosen(model=model, maxSteps=max_steps, maxCostUsd=max_cost),
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
    strict: Annotated[
        bool, typer.Option("--strict", help="Do not overlook folders, ids, dates and durations.")
    ] = False,
) -> int:
    """Run a conversation again from its log, and compare.

    It shows the first difference. The model's answers and the results of tools are those of the
    log: nothing runs, no file changes, nothing is sent. The exit code is 6 if something differs.
    """
    from oh_daemon.fronts.cli.replay import run_replay  # noqa: PLC0415

    return run_replay(workspace, recording, is_strict=strict)
