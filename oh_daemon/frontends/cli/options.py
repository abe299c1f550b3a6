"""Arguments and options of the command line that several commands have, or that are long."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from oh_daemon.protocol.errors import InvalidParamsError


def _refuse_key(value: str | None) -> None:
    if value is not None:
        raise InvalidParamsError(
            "--api-key is refused: the key would show in the process list and in the shell's "
            "history; run `oh-daemon login`, or put it into the environment, as ANTHROPIC_API_KEY "
            "or OH_DAEMON_API_KEY"
        )


Folder = Annotated[
    Path,
    typer.Option(
        "--workspace",
        "-w",
        exists=True,
        file_okay=False,
        resolve_path=True,
        help="The project folder.",
    ),
]
Id = Annotated[str, typer.Argument(metavar="ID", help="Its id, or the start of it.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON lines and nothing else.")]
Images = Annotated[
    list[Path] | None,
    typer.Option("--image", "-i", exists=True, dir_okay=False, help="Show it; repeatable."),
]
ResultSchema = Annotated[
    Path | None, typer.Option(exists=True, dir_okay=False, help="JSON Schema of the final result.")
]
Secrets = Annotated[
    list[str] | None,
    typer.Option(metavar="VARIABLE", help="Lend it to commands that name it; repeatable."),
]
ModelName = Annotated[str | None, typer.Option("--model", help="The model, by its LiteLLM name.")]
SettingsFile = Annotated[
    Path | None,
    typer.Option("--settings", exists=True, dir_okay=False, help="A settings file (JSON)."),
]
Ask = Annotated[
    Literal["always", "risky", "never"] | None, typer.Option(help="When to ask for approval.")
]
MaxSteps = Annotated[int | None, typer.Option(min=1, help="Limit of model calls.")]
MaxCost = Annotated[float | None, typer.Option(min=0.001, help="Limit in US dollars.")]
Resume = Annotated[str | None, typer.Option(metavar="ID", help="Continue this conversation.")]
IsIsolated = Annotated[
    bool, typer.Option("--isolated", help="Change nothing here; `oh-daemon apply` does that.")
]
On = Annotated[str, typer.Option(metavar="TARGET", help="Work there, as `oh-daemon remote` does.")]
Program = Annotated[str, typer.Option(help="With --on: the daemon there.")]
Attach = Annotated[bool, typer.Option("--attach", help="In the daemon of `oh-daemon serve`.")]
IsAutoresumed = Annotated[
    bool, typer.Option("--autoresume", help="Continue the newest conversation.")
]
ApiKey = Annotated[str | None, typer.Option("--api-key", hidden=True, callback=_refuse_key)]
"""Always refused."""


def approval_of(ask: str | None) -> str | None:
    """Return the setting `approval` for a value of `--ask`, such as "askNever" for "never"."""
    return ask and f"ask{ask.capitalize()}"


def given_options(**options: object) -> dict[str, object]:
    """Return the settings that the command line names."""
    return {name: value for name, value in options.items() if value is not None}
