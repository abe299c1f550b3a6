"""The command line: `run`, `demo`, `log`, `list`, `doctor`, `schema`. Parses, then calls."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from oh_daemon.contract.errors import DaemonError, ModelError

app = typer.Typer(
    help="A software agent inside your own editor. Without a command: serve an editor on stdio.",
    add_completion=False,
    no_args_is_help=False,
    pretty_exceptions_enable=False,
)
Folder = Annotated[Path, typer.Option("--workspace", "-w", help="The folder to work in.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON lines and nothing else.")]
_USAGE, _NO_MODEL = 2, 5


class Ask(StrEnum):
    """When to ask before an action."""

    always = "always"
    risky = "risky"
    never = "never"


class ToolChoice(StrEnum):
    """Whether the first answer must be a tool call."""

    auto = "auto"
    required = "required"


def run() -> None:
    """Parse argv and end the process with the command's exit code."""
    try:
        app()
    except DaemonError as exc:
        hint = f" ({exc.hint})" if exc.hint else ""
        sys.stderr.write(f"oh-daemon: {exc.message}{hint}\n")
        raise SystemExit(_NO_MODEL if isinstance(exc, ModelError) else _USAGE) from None


def _refuse_key(value: str | None) -> str | None:
    if value is not None:
        raise typer.BadParameter(
            "a key on the command line shows in the process list and the shell's history; put it "
            "into the environment, for instance ANTHROPIC_API_KEY or OH_DAEMON_API_KEY"
        )
    return value


@app.command("run")
def run_task(  # noqa: PLR0913, PLR0917 - one parameter per option of the command line.
    task: Annotated[str, typer.Argument(help="What to do; `-` reads it from stdin.")] = "",
    workspace: Folder = Path(),
    model: Annotated[str | None, typer.Option(help="The model by its litellm name.")] = None,
    settings: Annotated[Path | None, typer.Option(help="A settings file (JSON).")] = None,
    as_json: AsJson = False,
    resume: Annotated[str | None, typer.Option(help="Go on with this conversation.")] = None,
    autoresume: Annotated[bool, typer.Option(help="Go on with the newest one here.")] = False,
    ask: Annotated[Ask | None, typer.Option(help="When to ask before an action.")] = None,
    tool_choice: Annotated[ToolChoice, typer.Option()] = ToolChoice.auto,
    max_steps: Annotated[int | None, typer.Option(help="Model calls at most.")] = None,
    max_cost: Annotated[float | None, typer.Option(help="US dollars at most.")] = None,
    api_key: Annotated[str | None, typer.Option(hidden=True, callback=_refuse_key)] = None,  # noqa: ARG001 - always refused.
) -> None:
    """Work on a task without an editor, on this machine and with your rights."""
    from oh_daemon.fronts.cli.headless import Request, run_headless  # noqa: PLC0415 - slow.

    options = {
        "model": model,
        "approval": None if ask is None else f"ask{ask.value.capitalize()}",
        "maxSteps": max_steps,
        "maxCostUsd": max_cost,
    }
    request = Request(
        task=sys.stdin.read() if task == "-" else task,
        workspace=workspace.absolute(),
        options={name: value for name, value in options.items() if value is not None},
        settings_file=settings,
        resume=resume,
        autoresume=autoresume,
        tool_choice=tool_choice.value,
        as_json=as_json,
    )
    raise typer.Exit(run_headless(request))


@app.command()
def demo(
    keep: Annotated[Path | None, typer.Option(help="Work in this new folder and keep it.")] = None,
) -> None:
    """Watch the daemon fix a failing test in a small project, acting as its editor."""
    from oh_daemon.fronts.cli.demo import run_demo  # noqa: PLC0415

    raise typer.Exit(run_demo(keep))


@app.command("log")
def show_log(
    conversation_id: str,
    workspace: Folder = Path(),
    as_json: AsJson = False,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for more.")] = False,
) -> None:
    """Show a conversation from its log, also while it runs; the start of the id is enough."""
    from oh_daemon.fronts.cli.logs import print_log  # noqa: PLC0415

    print_log(workspace.absolute(), conversation_id, as_json=as_json, follow=follow)


@app.command("list")
def list_conversations(workspace: Folder = Path(), as_json: AsJson = False) -> None:
    """List the conversations of a folder, newest first."""
    from oh_daemon.fronts.cli.logs import print_list  # noqa: PLC0415

    print_list(workspace.absolute(), as_json=as_json)


@app.command()
def doctor(workspace: Folder = Path()) -> None:
    """Check the installation: what works, what does not, and what to do about it."""
    from oh_daemon.fronts.cli.doctor import run_doctor  # noqa: PLC0415

    raise typer.Exit(run_doctor(workspace.absolute()))


@app.command()
def schema(
    check: Annotated[
        bool, typer.Option("--check", help="Only say whether they are right.")
    ] = False,
    root: Annotated[Path, typer.Option(help="The source tree.")] = Path(),
) -> None:
    """Write docs/schema.json and the tables of the documents, from the registry of methods."""
    from oh_daemon.fronts.cli.schema import write_schema  # noqa: PLC0415

    raise typer.Exit(write_schema(root.absolute(), check=check))
