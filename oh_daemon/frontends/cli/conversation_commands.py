"""`oh-daemon ask`, `rollback`, `apply`, `rename`, `archive` and `delete`.

They open a conversation and leave its agent at rest.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import typer
from pydantic import ValidationError
from rich.console import Console

from oh_daemon.common.cancel import CancelToken
from oh_daemon.common.plain_text import clip_line, display_escaped
from oh_daemon.conversations.conversations import Conversations
from oh_daemon.conversations.daemon_log import log_quietly_to
from oh_daemon.conversations.history import conversation_rollback
from oh_daemon.conversations.open_conversation import OpenConversation
from oh_daemon.conversations.services import ClientConnection, ConversationContext, compose
from oh_daemon.conversations.sub_agents import equip
from oh_daemon.features.export.transcript import message_text
from oh_daemon.features.settings.places import Places
from oh_daemon.frontends.cli.logs import find_id, top_summaries
from oh_daemon.frontends.cli.process import print_line
from oh_daemon.frontends.cli.status_line import status_line
from oh_daemon.kernel.delivery import MAX_TITLE
from oh_daemon.protocol import plain
from oh_daemon.protocol.base import problem_in
from oh_daemon.protocol.branches import (
    ChangesListResult,
    ReviewParams,
    ReviewResult,
    RollbackParams,
    RollbackResult,
)
from oh_daemon.protocol.errors import InvalidParamsError, InvalidStateError
from oh_daemon.protocol.messages import UpdateParams
from oh_daemon.workspace.paths import path_from_uri, uri_from_path

DONE, LEFT_SOME = 0, 1


@contextmanager
def conversations_in(folder: Path, command: str) -> Generator[Conversations]:
    """Yield the conversations of a folder for `command`; close at the end what it opened."""
    places = Places(os.environ)
    services, user, _models = compose(places, {folder: True})
    log_quietly_to(places.log_file, user.settings.of(folder).settings.log_level, services.masker)
    context = ConversationContext(services, user, ClientConnection(command))
    conversations = Conversations(context, equip)
    try:
        yield conversations
    finally:
        conversations.close_all(1.0)


@contextmanager
def at_rest(folder: Path, start_of_id: str, command: str) -> Generator[OpenConversation]:
    """Open the conversation as `command`, and close it at the end. Raises `UserError`."""
    with conversations_in(folder, command) as conversations:
        name = _find(conversations, folder, start_of_id)
        yield conversations.open(name, [folder], at_work=False)


def _find(conversations: Conversations, folder: Path, start_of_id: str) -> str:
    return find_id([each["id"] for each in conversations.summaries([folder])], start_of_id, folder)


def print_answer(folder: Path, start_of_id: str, question: str) -> None:
    """Ask the conversation's model and print its answer. Raises `ModelError`, `UserError`."""
    if not question.strip():
        raise InvalidParamsError('say what you want to know: oh-daemon ask ID "question"')
    with (
        at_rest(folder, start_of_id, "oh-daemon ask") as open_conversation,
        status_line("asking; Ctrl-C stops it", Console(stderr=True, highlight=False)),
    ):
        answer = open_conversation.agent.ask(question, CancelToken())
    sys.stdout.write(f"{display_escaped(answer.text)}\n")


def run_rollback(
    folder: Path, start_of_id: str | None, to_item: str | None, *, keep_files: bool, is_dry: bool
) -> int:
    """Take back the last message, or `to_item`, and all after it; return the exit code.

    Without an id, that is the newest conversation which is not archived.
    """
    name = _newest(folder) if start_of_id is None else start_of_id
    with at_rest(folder, name, "oh-daemon rollback") as open_conversation:
        message = _message(open_conversation, to_item)
        params = RollbackParams(
            conversation_id=open_conversation.id,
            to_item_id=message["id"],
            files="keep" if keep_files else "restore",
            dry_run=is_dry,
        )
        result = conversation_rollback(
            open_conversation.conversation, open_conversation.runtime, params
        )
    _print(_rollback_lines(result, message, folder, is_dry=is_dry))
    return LEFT_SOME if result.conflicts else DONE


def _newest(folder: Path) -> str:
    rows = top_summaries(folder)
    name: str = next((row["id"] for row in rows if not row["archived"]), "")
    print_line(f"conversation {name[:12]}, the newest one here")
    return name


def _message(open_conversation: OpenConversation, item_id: str | None) -> plain.UserMessageItem:
    """Return the message to go back to. Raises `InvalidParamsError`."""
    messages = [
        item for item in open_conversation.conversation.state.items if item["kind"] == "userMessage"
    ]
    matches = [item for item in messages if item_id in {None, item["id"]}]
    if not matches:
        what = "no message to go back to" if item_id is None else f"no message {item_id!r}"
        command = f"oh-daemon log {open_conversation.id[:12]} --json"
        raise InvalidParamsError(f"{what} in this conversation; `{command}` shows its items")
    return matches[-1]


def _rollback_lines(
    result: RollbackResult, message: plain.UserMessageItem, folder: Path, *, is_dry: bool
) -> Iterator[str]:
    folder_text = "the rest of the folder"
    first_words = clip_line(" ".join(message_text(message).split()), MAX_TITLE)
    yield f"{'Would go' if is_dry else 'Went'} back to before: {first_words}"
    for uri in result.restored:
        yield f"  {'would be' if is_dry else 'is'} as it was: {_path(uri, folder) or folder_text}"
    for conflict in result.conflicts:
        yield f"  stays as it is: {_path(conflict.uri, folder) or folder_text} ({conflict.reason})"


def update(
    folder: Path, start_of_id: str, *, title: str | None = None, archived: bool | None = None
) -> None:
    """Change what lists show of a conversation. Raises `UserError`."""
    with conversations_in(folder, "oh-daemon") as conversations:
        name = _find(conversations, folder, start_of_id)
        try:
            params = UpdateParams(conversation_id=name, title=title, archived=archived)
        except ValidationError as exc:
            raise InvalidParamsError(problem_in(exc)) from None
        conversations.update(params, [folder])


def run_delete(folder: Path, start_of_id: str, *, asks: bool, is_permanent: bool) -> int:
    """Delete a conversation, with `asks` only if the user agrees; return the exit code."""
    with conversations_in(folder, "oh-daemon delete") as conversations:
        name = _find(conversations, folder, start_of_id)
        if asks and not _wants_deletion(conversations, folder, name):
            return LEFT_SOME
        conversations.delete(name, [folder], permanent=is_permanent)
    return DONE


def _wants_deletion(conversations: Conversations, folder: Path, conversation_id: str) -> bool:
    """Ask at the terminal. Raises `InvalidParamsError` if there is none."""
    if not sys.stdin.isatty():
        raise InvalidParamsError("there is no terminal to ask in; pass --yes to delete it")
    open_conversation = conversations.open(conversation_id, [folder], at_work=False)
    changes = open_conversation.isolated_changes
    n_files = len(changes.list().files) if changes is not None else 0
    loss = f", with pending changes in {n_files} file{'s' if n_files > 1 else ''}"
    title = display_escaped(open_conversation.conversation.state.title)
    return typer.confirm(
        f"Delete conversation {conversation_id[:12]} ({title}){loss if n_files else ''}?"
    )


def run_apply(
    folder: Path, start_of_id: str, files: Sequence[Path], *, discards: bool, is_dry: bool
) -> int:
    """Land or discard these files, or all; return the exit code."""
    with at_rest(folder, start_of_id, "oh-daemon apply") as open_conversation:
        if open_conversation.isolated_changes is None:
            raise InvalidStateError("that conversation is not isolated: nothing of it waits")
        if is_dry:
            _print(waiting_lines(open_conversation.isolated_changes.list(), folder))
            return DONE
        uris = tuple(uri_from_path(folder / file) for file in files)
        params = ReviewParams(conversation_id=open_conversation.id, uris=uris)
        act = (
            open_conversation.isolated_changes.discard
            if discards
            else open_conversation.isolated_changes.apply
        )
        result = act(params)
    _print(review_lines(result, folder, "discarded" if discards else "applied"))
    return LEFT_SOME if result.conflicts else DONE


def lines_at_end(changes: ChangesListResult, folder: Path, how: str) -> Iterator[str]:
    """Yield what a run says of what waits when it ends, and `how` it lands."""
    lines = [*waiting_lines(changes, folder)]
    yield from lines
    if lines:
        yield f"nothing of this is in the folder yet; {how}"


def waiting_lines(changes: ChangesListResult, folder: Path) -> Iterator[str]:
    """Yield a line for each file that waits."""
    for file in changes.files:
        counts = "" if file.raw else f" (+{file.added} -{file.removed})"
        clash = ", also changed outside" if file.state == "conflict" else ""
        yield f"{file.op} {_name(file.uri, folder)}{counts}{clash}"
    for change in changes.git or ():
        yield change.title
    for uri, why in (changes.omitted or {}).items():
        yield f"cannot apply: {_name(uri, folder)}: {why}"


def review_lines(result: ReviewResult, folder: Path, verb: str) -> Iterator[str]:
    for uri in result.done:
        yield f"{verb}: {_name(uri, folder)}"
    for conflict in result.conflicts:
        yield f"still waits: {_name(conflict.uri, folder)}: {conflict.reason}"


def _print(lines: Iterator[str]) -> None:
    for line in lines:
        sys.stdout.write(f"{display_escaped(line)}\n")


def _name(uri: str, folder: Path) -> str:
    return _path(uri, folder) or "what git did"


def _path(uri: str, folder: Path) -> str:
    """Return the path as people write it from the folder; nothing for the folder itself."""
    path = path_from_uri(uri) or Path(uri)
    if path == folder:
        return ""
    return str(path.relative_to(folder)) if path.is_relative_to(folder) else str(path)
