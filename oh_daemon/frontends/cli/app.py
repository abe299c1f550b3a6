"""The command line: every command with its options, parsed here and run elsewhere.

A command returns the exit code of the process.
"""

from __future__ import annotations

import sys
from datetime import date
from pathlib import Path
from typing import Annotated, Literal

import typer

from oh_daemon.common.collector import paused_collector
from oh_daemon.frontends.cli.conformance import conformance
from oh_daemon.frontends.cli.log_and_ask import looking
from oh_daemon.frontends.cli.managing import managing
from oh_daemon.frontends.cli.options import (
    ApiKey,
    AsJson,
    Ask,
    Attach,
    Folder,
    Id,
    Images,
    IsAutoresumed,
    IsIsolated,
    MaxCost,
    MaxSteps,
    ModelName,
    On,
    Program,
    ResultSchema,
    Resume,
    Secrets,
    SettingsFile,
    approval_of,
    given_options,
)
from oh_daemon.frontends.cli.process import exit_code_of, read_all
from oh_daemon.frontends.cli.remote import remote
from oh_daemon.frontends.cli.serve import serving
from oh_daemon.frontends.cli.signals import Signals
from oh_daemon.frontends.cli.unattended import unattended
from oh_daemon.protocol.errors import InvalidParamsError

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
mcp = typer.Typer(rich_markup_mode=None)
app.add_typer(mcp, name="mcp")
app.add_typer(unattended)
app.add_typer(remote)
app.add_typer(conformance)
app.add_typer(serving)
app.add_typer(looking)
app.add_typer(managing)


def run() -> None:
    """Parse argv and end the process with the command's exit code."""
    raise SystemExit(exit_code_of(lambda words: app(words, "oh-daemon", standalone_mode=False)))


def _show_version(is_wanted: bool) -> None:
    if is_wanted:
        from importlib.metadata import version  # noqa: PLC0415 - slow.

        sys.stdout.write(f"oh-daemon {version('oh-daemon')}\n")
        raise typer.Exit


def _check_day(day: str) -> str:
    if day:
        try:
            date.fromisoformat(day)
        except ValueError:
            raise InvalidParamsError(f"--since {day}: a day is written as 2026-11-21") from None
    return day


@app.callback()
def serve(
    stdio: Annotated[bool, typer.Option("--stdio", help="Serve an editor; the default.")] = False,
    record: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Also write every message to FILE, as JSON lines."),
    ] = None,
    version: Annotated[  # noqa: ARG001 - see its callback.
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """A software agent inside your own editor. Without a command: serve an editor on stdio."""
    # `__main__` handles a plain `--stdio` or `--record`; here they came before a command.
    if stdio or record is not None:
        raise InvalidParamsError("--stdio and --record FILE serve an editor, so no command follows")


@app.command("run")
def run_task(  # noqa: PLR0913, PLR0917 - one parameter per option of the command line.
    task: Annotated[str, typer.Argument(help="What to do; `-` reads it from stdin.")] = "",
    workspace: Folder = Path(),
    model: ModelName = None,
    settings: SettingsFile = None,
    as_json: AsJson = False,
    resume: Resume = None,
    autoresume: IsAutoresumed = False,
    ask: Ask = None,
    image: Images = None,
    tool_choice: Annotated[
        Literal["auto", "required"], typer.Option(help="`required`: start with a tool call.")
    ] = "auto",
    result_schema: ResultSchema = None,
    secret: Secrets = None,
    is_isolated: IsIsolated = False,
    max_steps: MaxSteps = None,
    max_cost: MaxCost = None,
    on: On = "",
    program: Program = "",
    attach: Attach = False,
    api_key: ApiKey = None,  # noqa: ARG001 - always refused.
) -> int:
    """Work on a task without an editor. It runs on this machine and with your permissions."""
    signals = Signals()
    with paused_collector():
        from oh_daemon.frontends.cli.headless import RunRequest, read_schema, run_headless  # noqa: PLC0415

    request = RunRequest(
        task=read_all() if task == "-" else task,
        workspace=workspace,
        options=given_options(
            model=model, approval=approval_of(ask), maxSteps=max_steps, maxCostUsd=max_cost
        ),
        settings_file=settings,
        resume=resume,
        autoresume=autoresume,
        tool_choice=tool_choice,
        result_schema=read_schema(result_schema),
        images=image or (),
        as_json=as_json,
        secrets=tuple(secret or ()),
        isolated=is_isolated,
    )
    if on or attach:
        from oh_daemon.frontends.cli.remote_run import run_elsewhere  # noqa: PLC0415 - for few.

        return run_elsewhere(request, on, program, signals, attaches=attach)
    return run_headless(request, signals)


@app.command("acp")
def serve_acp(
    login: Annotated[
        Literal["login"] | None, typer.Argument(help="Log in, as `oh-daemon login` does.")
    ] = None,
) -> int:
    """Serve an editor that speaks the Agent Client Protocol (ACP)."""
    if login:
        from oh_daemon.frontends.cli.login import LoginRequest, run_login  # noqa: PLC0415

        run_login(LoginRequest())
        return 0
    from oh_daemon.frontends.acp.main import serve  # noqa: PLC0415 - `__main__` handles the plain word.

    return serve()


@app.command("login")
def log_in(
    provider: Annotated[
        str, typer.Option(help="By its LiteLLM name, such as `openai`; default: ask.")
    ] = "",
    url: Annotated[str, typer.Option(help="Another address, such as a local server's.")] = "",
    model: Annotated[str, typer.Option(help="The model to use when none is chosen.")] = "",
    key_stdin: Annotated[
        bool, typer.Option("--key-stdin", help="Read the key from stdin.")
    ] = False,
    api_key: ApiKey = None,  # noqa: ARG001 - always refused.
) -> None:
    """Store the key of a provider, after a small request to it."""
    from oh_daemon.frontends.cli.login import LoginRequest, run_login  # noqa: PLC0415

    run_login(LoginRequest(provider, url, model, key_stdin))


@app.command("logout")
def log_out(
    provider: Annotated[str, typer.Argument(help="Only this one; default: all.")] = "",
) -> None:
    """Remove what `oh-daemon login` has stored."""
    from oh_daemon.frontends.cli.login import run_logout  # noqa: PLC0415

    run_logout(provider)


@app.command()
def demo(
    folder: Annotated[
        Path | None, typer.Option(help="Keep the project, in this new folder.")
    ] = None,
) -> int:
    """Watch the daemon fix a failing test. This command acts as the editor of a small project."""
    from oh_daemon.frontends.cli.demo import run_demo  # noqa: PLC0415

    return run_demo(folder)


@app.command("list")
def list_conversations(
    workspace: Folder = Path(),
    archived: Annotated[bool, typer.Option("--archived", help="List the archived ones.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the conversations of a project, newest first."""
    from oh_daemon.frontends.cli.logs import print_list  # noqa: PLC0415

    print_list(workspace, as_json=as_json, is_archived=archived)


@app.command("usage")
def show_usage(
    workspace: Folder = Path(),
    since: Annotated[
        str,
        typer.Option(
            metavar="DAY", callback=_check_day, help="First day to count (UTC), such as 2026-11-21."
        ),
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Show the tokens and the cost of a project, by model and by day."""
    from oh_daemon.frontends.cli.logs import print_usage  # noqa: PLC0415

    print_usage(workspace, since, as_json=as_json)


@app.command("condense")
def condense_conversation(
    conversation: Id,
    instructions: Annotated[str, typer.Argument(help="What the summary must keep.")] = "",
    workspace: Folder = Path(),
    as_json: AsJson = False,
) -> int:
    """Replace older steps of a long conversation with a summary."""
    signals = Signals()
    from oh_daemon.frontends.cli.headless import RunRequest, run_headless  # noqa: PLC0415 - slow.

    request = RunRequest(
        instructions, workspace, {}, resume=conversation, condenses=True, as_json=as_json
    )
    return run_headless(request, signals)


@app.command("export")
def export_conversation(
    conversation: Id,
    workspace: Folder = Path(),
    form: Annotated[
        Literal["jsonl", "markdown", "html", "atif"],
        typer.Option("--format", help="Output format."),
    ] = "markdown",
) -> None:
    """Print a conversation as Markdown, a web page, or its log."""
    from oh_daemon.frontends.cli.logs import print_export  # noqa: PLC0415

    print_export(workspace, conversation, form)


@app.command("fork")
def fork_conversation(
    conversation: Id,
    workspace: Folder = Path(),
    at: Annotated[
        str | None, typer.Option(metavar="ITEM", help="Copy up to this item; default: all.")
    ] = None,
    title: Annotated[str | None, typer.Option(help="Title of the copy.")] = None,
    model: ModelName = None,
) -> None:
    """Copy a conversation, or its first part; print the copy's id."""
    from oh_daemon.frontends.cli.logs import print_fork  # noqa: PLC0415

    print_fork(workspace, conversation, at, title, model)


@app.command("rollback")
def roll_back(
    conversation: Annotated[
        str | None,
        typer.Argument(metavar="ID", help="Its id, or the start of it; default: the newest."),
    ] = None,
    workspace: Folder = Path(),
    to: Annotated[
        str | None, typer.Option(metavar="ITEM", help="Go back to this message instead.")
    ] = None,
    keep_files: Annotated[
        bool, typer.Option("--keep-files", help="Roll back the conversation only.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would happen.")
    ] = False,
) -> int:
    """Undo your last message and what was done to files since."""
    from oh_daemon.frontends.cli.conversation_commands import run_rollback  # noqa: PLC0415

    return run_rollback(workspace, conversation, to, keep_files=keep_files, is_dry=dry_run)


@app.command("apply")
def apply_changes(
    conversation: Id,
    files: Annotated[
        list[Path] | None, typer.Argument(help="These files only; default: all.")
    ] = None,
    workspace: Folder = Path(),
    discard: Annotated[
        bool, typer.Option("--discard", help="Discard the changes instead.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what waits.")] = False,
) -> int:
    """Bring what an isolated conversation changed into the folder."""
    from oh_daemon.frontends.cli.conversation_commands import run_apply  # noqa: PLC0415

    return run_apply(workspace, conversation, files or (), discards=discard, is_dry=dry_run)


@mcp.callback(invoke_without_command=True)
def serve_tools(context: typer.Context, workspace: Folder = Path()) -> int:
    """Serve file tools over MCP, or sign in to an MCP server.

    Without a command: serve other agents. If shared, with the editor's buffers.
    """
    if context.invoked_subcommand is not None:
        return 0
    from oh_daemon.frontends.cli.mcp_commands import serve_mcp  # noqa: PLC0415

    return serve_mcp(workspace)


@mcp.command("login")
def sign_in(
    server: Annotated[str, typer.Argument(help="Its name in the setting `mcpServers`.")],
) -> None:
    """Sign in to an MCP server of your settings with the browser."""
    from oh_daemon.frontends.cli import mcp_commands as servers  # noqa: PLC0415

    servers.sign_in(server)


@mcp.command("marks")
def marks(
    withdraw: Annotated[
        str | None, typer.Option(metavar="SERVER", help="Trust this server's marks no longer.")
    ] = None,
) -> None:
    """List MCP servers whose read-only marks you trust: such tools run without approval."""
    from oh_daemon.frontends.cli import mcp_commands as servers  # noqa: PLC0415

    servers.show_marks(withdraw)


@app.command(context_settings={"ignore_unknown_options": True})
def sandbox(
    command: Annotated[
        list[str] | None, typer.Argument(help="The command and its arguments, after `--`.")
    ] = None,
    level: Annotated[
        Literal["overlay", "landlock", "off"] | None,
        typer.Option(help="What must hold it; default: the best level that this machine has."),
    ] = None,
    folder: Annotated[
        Path, typer.Option(exists=True, file_okay=False, resolve_path=True, help="Run it there.")
    ] = Path(),
    join: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Your shell, or the command, in that isolated one."),
    ] = None,
) -> int:
    """Run a command as the agent runs its own, or show the levels."""
    from oh_daemon.frontends.cli.sandbox import join_overlay, print_levels, run_at  # noqa: PLC0415

    if join is not None:
        return join_overlay(folder, join, command or ())
    if command:
        return run_at(level, folder, command)
    print_levels(folder)
    return 0


@app.command()
def doctor(
    workspace: Folder = Path(),
    try_model: Annotated[
        bool, typer.Option("--try-model", help="Also send the model a short request.")
    ] = False,
) -> int:
    """Check the installation and say how to fix what does not work."""
    from oh_daemon.frontends.cli.doctor import run_doctor  # noqa: PLC0415

    return run_doctor(workspace, tries_model=try_model)
