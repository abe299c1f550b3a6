"""`oh-daemon run`: one task, no editor; progress for people, or the log's own lines for programs.

stdout carries the result only: pure JSONL under `--json`. Everything else goes to stderr.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Literal

import orjson
from rich.console import Console
from rich.prompt import Prompt

from oh_daemon.contract import messages as m
from oh_daemon.contract.errors import InvalidParamsError, StorageError
from oh_daemon.contract.events import Decision
from oh_daemon.contract.items import TextPart
from oh_daemon.contract.settings import Merged
from oh_daemon.core.journal import Journal
from oh_daemon.core.ports import Json
from oh_daemon.core.secrets import Masker
from oh_daemon.fronts.cli.render import render_record
from oh_daemon.fronts.conversations import Conversations, House
from oh_daemon.fronts.models import Models
from oh_daemon.fronts.places import Places
from oh_daemon.fronts.sources import SettingsSources, secret_values
from oh_daemon.fronts.trust import TrustBook
from oh_daemon.fronts.wiring import Live, Recipe, Shared
from oh_daemon.store.user_state import UserState

DONE, TURN_FAILED, BAD_USAGE, NEEDS_A_PERSON, LIMIT, NO_MODEL, INTERRUPTED = 0, 1, 2, 3, 4, 5, 130
_MODEL_ERRORS = frozenset({"authRequired", "modelUnavailable", "network", "rateLimit"})
_LIMITS = frozenset({"maxSteps", "maxCostUsd"})


@dataclass(frozen=True, slots=True)
class Request:
    """The command line of `run`."""

    task: str
    workspace: Path
    options: Mapping[str, Any]
    settings_file: Path | None = None
    resume: str | None = None
    autoresume: bool = False
    tool_choice: Literal["auto", "required"] = "auto"
    as_json: bool = False


class Watcher:
    """Hears everything in order; the main thread prints it."""

    def __init__(self) -> None:
        self.heard: SimpleQueue[tuple[str, bytes, Json]] = SimpleQueue()

    def on_record(self, journal: Journal, line: bytes, record: Json) -> None:
        self.heard.put((journal.id, line, record))

    def on_delta(self, *_delta: object) -> None:
        """Whole messages are enough here."""

    def on_halted(self, journal: Journal, error: StorageError) -> None:
        self.heard.put((journal.id, b"", {"halted": error.message}))


def run_headless(request: Request) -> int:
    """Work until the turn ends; the result is the exit code."""
    watcher = Watcher()
    environment = dict(os.environ)
    conversations, models = compose(request, environment, watcher)
    folders = [request.workspace]
    live = _begin(request, conversations, models, folders)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda _number, _frame: _interrupt(live))
    try:
        return _watch(live, watcher, request)
    finally:
        conversations.close_all(1.0)


def _interrupt(live: Live) -> None:
    # On a thread of its own: the signal may have come while this one held the conversation's lock.
    threading.Thread(target=live.conversation.interrupt, daemon=True).start()


def compose(
    request: Request, environment: Mapping[str, str], watcher: Watcher
) -> tuple[Conversations, Models]:
    """The same composition as the editor's daemon, for one folder that the caller trusts."""
    places = Places.of_user(environment)
    user_state = UserState(places.decisions_file)
    trust = TrustBook(user_state, trusted={request.workspace: True})
    sources = SettingsSources(
        environment, request.settings_file or places.settings_file, command_line=request.options
    )

    def settings(folder: Path | None) -> Merged:
        return sources.merged(folder)

    models = Models(lambda: settings(None).settings, environment)
    shared = Shared(
        trust=trust,
        masker=Masker(secret_values(environment)),
        environment=environment,
        can_ask=lambda: _can_ask(request),
        is_granted=user_state.is_granted,
        save_grant=user_state.add_grant,
        listeners=(watcher,),
    )
    house = House(
        shared=shared,
        model_for=models.model_for,
        default_model=models.require_default,
        settings=settings,
        user_folder=places.state_folder,
        client_name="oh-daemon run",
    )
    problems = settings(request.workspace).problems
    if request.settings_file is not None and problems:
        raise InvalidParamsError("; ".join(problems))
    for problem in problems:
        _say(f"settings: {problem}")
    return Conversations(house), models


def _begin(
    request: Request, conversations: Conversations, models: Models, folders: list[Path]
) -> Live:
    recipe = Recipe(models.model_for, tool_choice=request.tool_choice)
    resumed = request.resume or (_newest(conversations, folders) if request.autoresume else None)
    if resumed is None and not request.task.strip():
        raise InvalidParamsError('say what to do: oh-daemon run "task"')
    _say(f"Works in {request.workspace}, on this machine and with your rights.")
    content = (TextPart(text=request.task),) if request.task.strip() else None
    if resumed is None:
        params = m.StartParams(content=content)
        live = conversations.start(params, folders, recipe=recipe)
        _warn_of_cost(live, models)
        live.conversation.send(params.content or ())
        return live
    live = conversations.open(_full_id(conversations, resumed, folders), folders, recipe=recipe)
    _warn_of_cost(live, models)
    if content is not None:
        live.conversation.send(content)
    else:
        live.conversation.resume()
    return live


def _full_id(conversations: Conversations, start: str, folders: list[Path]) -> str:
    """The id that begins like this, when there is just one."""
    found = [info.id for info in conversations.listed(folders) if info.id.startswith(start)]
    return found[0] if len(found) == 1 else start


def _newest(conversations: Conversations, folders: list[Path]) -> str | None:
    return next((info.id for info in conversations.listed(folders)), None)


def _warn_of_cost(live: Live, models: Models) -> None:
    name = live.conversation.state.options["model"]
    model = models.model_for(name)
    for warning in model.warnings:
        _say(warning)
    if name != "demo":
        _say(f"Model: {name}. This run costs money; the sum is shown at the end.")


def _watch(live: Live, watcher: Watcher, request: Request) -> int:
    """Show what happens until the turn rests; the result is the exit code."""
    console = Console(highlight=False, soft_wrap=True)
    last_refused = False
    while True:
        conversation_id, line, record = watcher.heard.get()
        if "halted" in record:
            _say(record["halted"])
            return TURN_FAILED
        if request.as_json:
            head = {"conversationId": conversation_id, "epoch": live.conversation.epoch}
            _write_line(orjson.dumps(head)[:-1] + b"," + line[1:])
        else:
            _print(console, record)
        event = record["event"]
        last_refused = _refused_last(event, before=last_refused)
        if event["type"] == "approval.requested" and _can_ask(request):
            _ask(live, event["approval"], console)
        if event["type"] == "turn.completed":
            return _exit_code(event["turn"], refused=last_refused)
        if event["type"] == "turn.paused":
            return NO_MODEL


def _write_line(line: bytes) -> None:
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()


def _print(console: Console, record: Json) -> None:
    for text in render_record(record):
        console.print(text)


def _refused_last(event: Json, *, before: bool) -> bool:
    """Whether the last action was refused because there was nobody to ask."""
    if event["type"] == "approval.resolved":
        return event["by"] == "noClient"
    if event["type"] == "item.completed" and event["item"].get("call"):
        ends_turn = event["item"]["tool"] == "finish"
        return before and (ends_turn or event["item"]["status"] == "rejected")
    return before


def _exit_code(turn: Json, *, refused: bool) -> int:
    stop = turn["stopReason"]
    if stop in _LIMITS:
        return LIMIT
    if turn["status"] == "interrupted":
        return INTERRUPTED
    if turn["status"] == "failed":
        return NO_MODEL if turn["error"]["kind"] in _MODEL_ERRORS else TURN_FAILED
    if stop not in {"finished", "endTurn"}:
        return TURN_FAILED
    return NEEDS_A_PERSON if refused else DONE


def _can_ask(request: Request) -> bool:
    return sys.stdin.isatty() and not request.as_json


def _ask(live: Live, approval: Json, console: Console) -> None:
    options = {str(n): option for n, option in enumerate(approval["options"], 1)}
    for number, option in options.items():
        console.print(f"  {number}  {option['label']}", markup=False)
    decision = Decision(effect="reject")
    with contextlib.suppress(EOFError):
        chosen = options[Prompt.ask("  Your answer", choices=list(options), console=console)]
        decision = Decision(effect=chosen["effect"], scope=chosen["scope"])
    live.conversation.respond(approval["id"], approval["digest"], decision)


def _say(text: str) -> None:
    sys.stderr.write(f"oh-daemon: {text}\n")
