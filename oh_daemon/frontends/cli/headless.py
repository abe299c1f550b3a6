"""`oh-daemon run` and `condense`: one turn without an editor, until it ends.

They show progress to people, or the log's own lines to programs.

stdout carries what happens in the conversation, as pure JSONL with `--json`. What the command has
to say about itself goes to stderr.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal, cast

import orjson
from msgspec import Struct
from msgspec.structs import replace
from rich.console import Console

from oh_daemon.common.masking import MIN_LENGTH, Masker
from oh_daemon.conversations.conversations import Conversations
from oh_daemon.conversations.daemon_log import log_quietly_to
from oh_daemon.conversations.open_conversation import OpenConversation
from oh_daemon.conversations.services import (
    AgentConfig,
    ClientConnection,
    ConversationContext,
    compose,
)
from oh_daemon.conversations.sub_agents import equip
from oh_daemon.features.attachments.images import read_images, with_images
from oh_daemon.features.models.models import Models, is_free
from oh_daemon.features.models.warm_up import warm_up
from oh_daemon.features.settings.places import Places
from oh_daemon.features.settings.sources import SettingsSources
from oh_daemon.features.skills.prompts import typed_part
from oh_daemon.frontends.cli.conversation_commands import lines_at_end
from oh_daemon.frontends.cli.conversation_control import LocalControl
from oh_daemon.frontends.cli.logs import find_id
from oh_daemon.frontends.cli.process import print_line
from oh_daemon.frontends.cli.signals import Signals, interrupt
from oh_daemon.frontends.cli.status_line import status_line
from oh_daemon.frontends.cli.terminal_user import TerminalUser
from oh_daemon.frontends.cli.turn_watch import INTERRUPTED, TurnWatch
from oh_daemon.kernel.ports import Json, Model, Question
from oh_daemon.kernel.turns import may_resume
from oh_daemon.protocol import messages as m
from oh_daemon.protocol import plain
from oh_daemon.protocol.errors import InvalidParamsError, InvalidStateError
from oh_daemon.protocol.problems import render_problem
from oh_daemon.protocol.settings import Merged
from oh_daemon.system.git import refusal_of


class RunRequest(Struct, frozen=True):
    """The command line of `run` or `condense`."""

    task: str
    workspace: Path
    options: Mapping[str, Any]
    settings_file: Path | None = None
    resume: str | None = None
    autoresume: bool = False
    condenses: bool = False
    """Condense the conversation that is resumed; the task says what to keep."""
    tool_choice: Literal["auto", "required"] = "auto"
    result_schema: Json | None = None
    images: Sequence[Path] = ()
    as_json: bool = False
    secrets: tuple[str, ...] = ()
    """Environment variables of this process that a command gets when it names them."""
    isolated: bool = False
    is_alone: bool = False
    """Nobody looks on: nothing is asked, and a limit of cost that could not hold is refused."""


class Terminal(ClientConnection):
    """The terminal of `oh-daemon run`, whose user answers if there is one."""

    def __init__(self, request: RunRequest, watch: TurnWatch) -> None:
        super().__init__("oh-daemon run", (watch,))
        self._request = request

    def is_attended(self) -> bool:
        return can_ask(self._request)

    def can_ask(self) -> bool:
        return can_ask(self._request)

    def can_answer(self, question: Question) -> bool:  # noqa: ARG002 - text can answer any.
        return can_ask(self._request)


class Ended(Struct, frozen=True):
    """What is there when the turn has ended, and the conversation is still open."""

    open_conversation: OpenConversation
    masker: Masker
    turn: plain.Turn | None
    """None when it only paused."""
    code: int
    """The exit code that the turn's end stands for."""


def run_headless(
    request: RunRequest, signals: Signals, at_end: Callable[[Ended], int] = lambda end: end.code
) -> int:
    """Work until the turn ends; return the exit code, which `at_end` may change."""
    watch = TurnWatch()
    conversations, config, models = _compose(request, os.environ, watch)
    # Programs get the log's lines and nothing else, also on a terminal.
    console = Console(highlight=False, force_terminal=False if request.as_json else None)
    with ExitStack() as last_words, ExitStack() as ending:
        ending.callback(conversations.close_all, 1.0)
        with status_line("starting", console):
            images = read_images(request.images)
            open_conversation = _open(request, conversations, config, models, watch)
        _announce(request, open_conversation, models)
        if refusal := refusal_of(conversations.context.services.spawner, request.workspace):
            print_line(refusal)
        where = f"conversation {open_conversation.id[:12]}, for `oh-daemon log` and `run --resume`"
        last_words.callback(print_line, f"this was {where}")
        control = signals.control = LocalControl(open_conversation, conversations)
        user = TerminalUser(control, console, is_there=can_ask(request))
        pending = [*open_conversation.conversation.state.pending]
        if signals.has_come:
            return INTERRUPTED
        _begin(request, open_conversation, images, models)
        if signals.has_come:
            interrupt(control)
        user.ask_again(pending)
        code = watch.show(user, as_json=request.as_json)
        control.answer_apply_prompts()
        if open_conversation.isolated_changes is not None:
            how = f"oh-daemon apply {open_conversation.id[:12]}"
            for words in lines_at_end(
                open_conversation.isolated_changes.list(), request.workspace, how
            ):
                print_line(words)
        return at_end(
            Ended(open_conversation, conversations.context.services.masker, watch.turn, code)
        )


def _compose(
    request: RunRequest, environment: Mapping[str, str], watch: TurnWatch
) -> tuple[Conversations, AgentConfig, Models]:
    """Compose the same parts as the editor's daemon, for one folder that the caller trusts."""
    places = Places(environment)
    sources = sources_of(request, places)

    secrets = secrets_of(request, environment)
    services, user, models = compose(places, {request.workspace: True}, sources)
    # Nobody is watching: better to start late than without a tool that the task may need.
    services.mcp.wait_s = threading.TIMEOUT_MAX
    services.mcp.open_folders = lambda: (request.workspace,)
    services.mcp.on_change = lambda: watch.on_servers(services.mcp.infos())
    for value in secrets.values():
        services.masker.add(value)
    user.secrets.update(secrets)
    settings = user.settings.of(request.workspace)
    log_quietly_to(places.log_file, settings.settings.log_level, services.masker)
    report_problems(settings)
    config = AgentConfig(
        settings.settings.instructions,
        tool_choice=request.tool_choice,
        result_schema=request.result_schema,
    )
    context = ConversationContext(services, user, Terminal(request, watch))
    return Conversations(context, equip), config, models


def sources_of(request: RunRequest, places: Places) -> SettingsSources:
    own_file, options = request.settings_file, request.options
    return SettingsSources(os.environ, places.settings_file, own_file, command_line=options)


def report_problems(settings: Merged) -> None:
    """Say what is wrong with settings. Raises `InvalidParamsError` for those of this command."""
    for problem in settings.problems:
        if problem.source in {"command line", "environment"}:
            raise InvalidParamsError(render_problem(problem, with_outcome=False))
        print_line(f"settings: {render_problem(problem)}")


def secrets_of(request: RunRequest, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the named variables. Raises `InvalidParamsError` for one missing or too short."""
    for name in request.secrets:
        if len(environment.get(name, "")) < MIN_LENGTH:
            raise InvalidParamsError(
                f"--secret {name}: set this variable, to {MIN_LENGTH} characters or more"
            )
    return {name: environment[name] for name in request.secrets}


def read_schema(file: Path | None) -> Json | None:
    """Return the schema, if a file is named. Raises `InvalidParamsError`."""
    if file is None:
        return None
    try:
        schema: object = orjson.loads(file.read_bytes())
    except (OSError, ValueError) as exc:
        raise InvalidParamsError(f"--result-schema: {exc}") from exc
    if not isinstance(schema, dict):
        raise InvalidParamsError("--result-schema: a JSON Schema must be an object")
    return cast("Json", schema)


def _open(
    request: RunRequest,
    conversations: Conversations,
    config: AgentConfig,
    models: Models,
    watch: TurnWatch,
) -> OpenConversation:
    """Start or open the conversation to work in; its model's name is checked before that."""
    if request.images and not request.task.strip():
        raise InvalidParamsError("--image needs a task that says what to do with it")
    folders = [request.workspace]
    ids = (summary["id"] for summary in conversations.summaries(folders))
    conversation_id = resumed_id(request, ids)
    if conversation_id is not None:
        config = replace(config, options=changed_options(request))
    else:
        require_task(request)
    if conversation_id is None or "model" in request.options:
        settings = conversations.context.user.settings.of(request.workspace).settings
        name = settings.model or models.require_default()
        models.check(name)
        if request.is_alone and "maxCostUsd" in request.options:
            models.require_price(name)
    if conversation_id is None:
        params = m.StartParams(isolated=request.isolated)
        return conversations.start(params, folders, config=config)
    open_conversation = conversations.open(conversation_id, folders, config=config)
    _require_work(request, open_conversation)
    watch.skip()
    if not is_free(open_conversation.conversation.state.options_now["model"]):
        warm_up()
    return open_conversation


def resumed_id(request: RunRequest, ids: Iterable[str]) -> str | None:
    """Return the id of the conversation to go on with, if any. Raises `InvalidParamsError`."""
    if request.autoresume and request.resume is not None:
        raise InvalidParamsError("--resume and --autoresume exclude each other")
    if request.resume is not None:
        return find_id([*ids], request.resume, request.workspace)
    return next(iter(ids), None) if request.autoresume else None


def require_task(request: RunRequest) -> None:
    """Raises `InvalidParamsError` when a new conversation has nothing to begin with."""
    if not request.task.strip():
        raise InvalidParamsError('say what to do: oh-daemon run "task"')


def _require_work(request: RunRequest, open_conversation: OpenConversation) -> None:
    """Raises `InvalidStateError` when a resumed conversation has nothing to go on with."""
    state = open_conversation.conversation.state
    if request.condenses and (state.turn is not None or state.pending):
        raise InvalidStateError("its turn is paused; `oh-daemon run --resume` continues that")
    if request.condenses or request.task.strip():
        return
    if state.questions and not can_ask(request):
        [question, *_] = state.questions.values()
        raise unanswered_error(question["prompt"], open_conversation.id)
    if not may_resume(state):
        how = f'oh-daemon run "task" --resume {open_conversation.id[:12]}'
        raise InvalidStateError(f"its last turn is complete; say what to do next: {how}")


def unanswered_error(prompt: str, conversation_id: str) -> InvalidStateError:
    """Return why a conversation with a question cannot go on where nobody is there."""
    how = f'oh-daemon run "task" --resume {conversation_id[:12]}'
    return InvalidStateError(f"it asks {prompt!r}; give the answer as the task: {how}")


def _announce(request: RunRequest, open_conversation: OpenConversation, models: Models) -> None:
    """Say where it works and whether it costs money."""
    print_line(f"works in {request.workspace}, on this machine and with your permissions")
    model = open_conversation.conversation.state.options["model"]
    announce_cost(model, is_paid=not models.costs_nothing(model))


def announce_cost(model: str, *, is_paid: bool = True) -> None:
    if is_free(model):
        return
    cost = "costs money, and the sum is shown at the end" if is_paid else "costs nothing"
    print_line(f"model {model}; this run {cost}")


def changed_options(request: RunRequest) -> dict[str, str]:
    """Return the options that the command line changes in a resumed conversation.

    Raises `InvalidParamsError` for a limit, which only a new conversation takes.
    """
    option_flags = {"maxSteps": "--max-steps", "maxCostUsd": "--max-cost"}
    if fixed_options := [name for key, name in option_flags.items() if key in request.options]:
        raise InvalidParamsError(
            f"{fixed_options[0]} is for new conversations; this one keeps its limits"
        )
    return dict(request.options)


def _begin(
    request: RunRequest,
    open_conversation: OpenConversation,
    images: Sequence[bytes],
    models: Models,
) -> None:
    conversation = open_conversation.conversation

    def seeing() -> Model:
        return models.model_for(conversation.state.options_now["model"])

    if request.condenses:
        conversation.condense(request.task or None)
    elif request.task.strip():
        task = (typed_part(request.task),)
        conversation.send(with_images(task, images, seeing, conversation.journal.log))
    else:
        conversation.resume()


def can_ask(request: RunRequest) -> bool:
    return sys.stdin.isatty() and not (request.as_json or request.is_alone)
