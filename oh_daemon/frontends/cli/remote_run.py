"""`oh-daemon run --on TARGET`, or `--attach`: one turn of another daemon, shown and asked about.

With a target, the models are those of here. What the command line and its settings file say goes
along as the settings of an editor would; trust in the folder is asked for and kept there.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from rich.console import Console

from oh_daemon.features.attachments.images import inline_images, read_images
from oh_daemon.features.models.logins import Logins
from oh_daemon.features.models.models import Models
from oh_daemon.features.settings.places import Places
from oh_daemon.features.skills.prompts import typed_part
from oh_daemon.frontends.cli.attached import attach_to, ids_of
from oh_daemon.frontends.cli.conversation_commands import lines_at_end
from oh_daemon.frontends.cli.headless import (
    RunRequest,
    announce_cost,
    can_ask,
    changed_options,
    report_problems,
    require_task,
    resumed_id,
    secrets_of,
    sources_of,
    unanswered_error,
)
from oh_daemon.frontends.cli.process import print_line
from oh_daemon.frontends.cli.remote_control import RemoteControl
from oh_daemon.frontends.cli.signals import Signals, interrupt
from oh_daemon.frontends.cli.status_line import status_line
from oh_daemon.frontends.cli.terminal_user import TerminalUser
from oh_daemon.frontends.cli.turn_watch import INTERRUPTED, TurnWatch
from oh_daemon.frontends.client.connection import DaemonClient
from oh_daemon.frontends.client.peer import hello
from oh_daemon.frontends.remote.carrier import Carrier
from oh_daemon.frontends.remote.connect import connect
from oh_daemon.frontends.remote.target import Target, parse_target
from oh_daemon.kernel.ports import Json
from oh_daemon.protocol.branches import ChangesListResult
from oh_daemon.protocol.errors import InvalidParamsError
from oh_daemon.storage.user_state import UserState


def run_elsewhere(
    request: RunRequest, target: str, program: str, signals: Signals, *, attaches: bool
) -> int:
    """Work at a target, or in the daemon for several clients; return the exit code."""
    if target and attaches:
        raise InvalidParamsError("--attach and --on exclude each other")
    if attaches:
        return run_attached(request, signals)
    return run_on(request, target, program, signals)


def run_on(request: RunRequest, text: str, program: str, signals: Signals) -> int:
    """Work at a target until the turn ends; return the exit code."""
    target, folder = _place(request, text)
    again = f"--on {shlex.quote(text)}{f' --program {shlex.quote(program)}' if program else ''}"
    start = partial(_daemon_at, target, program, folder, request)
    where = f"at {target.text}, with your permissions there"
    return _run(request, folder, start, (where, again), signals)


def run_attached(request: RunRequest, signals: Signals) -> int:
    """Work in the daemon for several clients until the turn ends; return the exit code."""
    _require_no_choice(request, "--attach")
    sources = sources_of(request, Places(os.environ))
    report_problems(sources.merged())
    block = {**_block(request), "settings": sources.of_command()}
    kind = block.pop("client")["kind"]
    start = partial(attach_to, request.workspace, "oh-daemon run", kind, **block)
    where = "in the daemon of `oh-daemon serve`, with your permissions"
    return _run(request, request.workspace, start, (where, "--attach"), signals)


def _run(
    request: RunRequest,
    folder: Path,
    start: Callable[[], DaemonClient],
    words: tuple[str, str],
    signals: Signals,
) -> int:
    """Work there; `words` say where that is, and by which options it is named."""
    watch = TurnWatch()
    where, options = words
    console = Console(highlight=False, force_terminal=False if request.as_json else None)
    with ExitStack() as last_words, ExitStack() as ending:
        with status_line("starting", console):
            images = inline_images(read_images(request.images))
            secrets = secrets_of(request, os.environ)
            daemon = ending.enter_context(start())
            for name, value in secrets.items():
                secret = {"name": name, "value": value, "forCommands": True}
                daemon.request("secret/set", secret)
            control = RemoteControl(daemon, watch)
            pending = _open(request, daemon, control, folder)
        print_line(f"works in {folder} {where}")
        announce_cost(control.model)
        again = f"oh-daemon run {options} --resume {control.id[:12]}"
        last_words.callback(print_line, f"this was conversation {control.id[:12]}, for `{again}`")
        signals.control = control
        user = TerminalUser(control, console, is_there=can_ask(request))
        if signals.has_come:
            return INTERRUPTED
        if request.task.strip():
            control.ask("conversation/sendMessage", content=[typed_part(request.task), *images])
        else:
            control.ask("conversation/resume")
        if signals.has_come:
            interrupt(control)
        user.ask_again(pending)
        code = watch.show(user, as_json=request.as_json)
        if watch.turn is not None:
            control.answer_apply_prompts()
            _say_what_waits(request, control, folder)
        return code


def _say_what_waits(request: RunRequest, control: RemoteControl, folder: Path) -> None:
    if request.isolated:
        changes = ChangesListResult.model_validate(control.ask("changes/list"))
        for words in lines_at_end(changes, folder, f"there: oh-daemon apply {control.id[:12]}"):
            print_line(words)


def _place(request: RunRequest, text: str) -> tuple[Target, Path]:
    """Return the target and the folder there. Raises `InvalidParamsError`."""
    target = parse_target(text)
    _require_no_choice(request, "--on")
    if target.folder and request.workspace != Path.cwd().resolve():
        raise InvalidParamsError(f"--workspace: {text} already names the folder")
    return target, Path(target.folder) if target.folder else request.workspace


def _require_no_choice(request: RunRequest, option: str) -> None:
    if request.tool_choice != "auto":
        raise InvalidParamsError(f"--tool-choice is for runs here: leave it out with {option}")


def _block(request: RunRequest) -> Json:
    kind = "panel" if can_ask(request) else "unattended"
    return {"client": {"name": "oh-daemon run", "kind": kind}, "events": {"deltas": False}}


def _daemon_at(target: Target, program: str, folder: Path, request: RunRequest) -> DaemonClient:
    places = Places(os.environ)
    sources = sources_of(request, places)
    settings = sources.merged()
    report_problems(settings)
    models = Models(
        lambda: sources.merged().settings, os.environ, logins=Logins(places.logins_file)
    )
    is_new = request.resume is None and not request.autoresume
    if is_new or "model" in request.options:
        models.check(settings.settings.model or models.require_default())
    block = {**_block(request), "settings": sources.of_command()}
    carrier = Carrier(target, program, os.environ)
    spend = UserState(places.decisions_file).spend
    return connect(carrier, models, settings.settings, hello([folder], block), spend=spend)


def _open(
    request: RunRequest, daemon: DaemonClient, control: RemoteControl, folder: Path
) -> list[str]:
    """Start or open the conversation to work in; return the ids of what waits in it already."""
    if (conversation_id := resumed_id(request, ids_of(daemon, folder))) is None:
        require_task(request)
        more = {} if request.result_schema is None else {"resultSchema": request.result_schema}
        params = {"isolated": request.isolated, **more}
        control.take(daemon.request("conversation/start", params)["conversation"])
        return []
    options = changed_options(request)
    state = daemon.request(
        "conversation/open", {"conversationId": conversation_id, "replay": "none"}
    )
    control.take(state["conversation"])
    for question in state["pending"]:
        if "prompt" in question and not (request.task.strip() or can_ask(request)):
            raise unanswered_error(question["prompt"], conversation_id)
    for name, value in options.items():
        control.ask("conversation/setOption", optionId=name, value=value)
    return [each["id"] for each in state["pending"]]
