"""One table finds a handler's arguments by name: in the request, the conversation or the daemon.

A handler such as `terminal_kill(shells, params)` takes parts by the names in `ARGUMENTS`. It knows
neither `Daemon` nor `OpenConversation`, so a test or another frontend can call it as well. A call
reads `Daemon.context` here only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct

from oh_daemon.conversations.following import Followed
from oh_daemon.conversations.handlers import find_skills
from oh_daemon.conversations.idempotency import Repeatable
from oh_daemon.conversations.open_conversation import OpenConversation
from oh_daemon.conversations.sub_agents import sub_agents_of
from oh_daemon.frontends.lsp.daemon import Daemon, changes_of
from oh_daemon.jsonrpc.dispatch import RequestContext
from oh_daemon.kernel.journal import History, Journal
from oh_daemon.protocol.content import Part


class Call(Struct):
    """One request on its way to its handler."""

    daemon: Daemon
    params: Any
    """An instance of the model of the method's params."""
    context: RequestContext
    request: Repeatable
    folders: list[Path]
    """Folders that the client had open when the request came."""
    conversation_id: str = ""
    subject: OpenConversation | Followed | None = None
    """The conversation with this id, if the row of the method requires it."""

    @property
    def open_conversation(self) -> OpenConversation | None:
        return self.subject if isinstance(self.subject, OpenConversation) else None


def _history(call: Call) -> History | None:
    subject = call.subject
    return subject.conversation.journal if isinstance(subject, OpenConversation) else subject


def _journals(call: Call) -> Sequence[Journal]:
    """Return the journals of the conversation and its sub-agents, or of all that are open."""
    conversations = call.daemon.conversations
    if call.open_conversation is None:
        return [each.conversation.journal for each in conversations.all_open()]
    return [
        call.open_conversation.conversation.journal,
        *sub_agents_of(conversations, call.open_conversation.id),
    ]


def _resolve(call: Call) -> Callable[..., Sequence[Part]] | None:
    """Return the function that resolves the parts of a message to the conversation."""
    return call.open_conversation and partial(
        call.daemon.resolver.for_open_conversation, call.open_conversation, folders=call.folders
    )


CONVERSATION_PARTS: Mapping[str, Callable[[OpenConversation], object]] = {
    "agent": lambda opened: opened.agent,
    "changes": changes_of,
    "conversation": lambda opened: opened.conversation,
    "network": lambda opened: opened.runtime.network,
    "shells": lambda opened: opened.runtime.shells,
    "runtime": lambda opened: opened.runtime,
}
"""Parts of the open conversation; None if the row of the method lets it be closed."""

CALL_PARTS: Mapping[str, Callable[[Call], object]] = {
    "cancel": lambda call: call.context.cancel,
    "context": lambda call: call.context,
    "conversation_id": lambda call: call.conversation_id,
    "folders": lambda call: call.folders,
    "history": _history,
    "journals": _journals,
    "params": lambda call: call.params,
    "request": lambda call: call.request,
    "resolve": _resolve,
    # The client and its connection.
    "attachments": lambda call: call.daemon.attachments,
    "client_tools": lambda call: call.daemon.client_tools,
    "conversations": lambda call: call.daemon.conversations,
    "file_names": lambda call: call.daemon.file_names,
    "find_skills": lambda call: partial(find_skills, call.daemon.conversations),
    "has_others": lambda call: call.daemon.has_others,
    "model_secrets": lambda call: call.daemon.context.user.models.secrets,
    "models": lambda call: call.daemon.context.user.models,
    "on_forked": lambda call: call.daemon.publisher.on_forked,
    "outbox": lambda call: call.daemon.outbox,
    "publisher": lambda call: call.daemon.publisher,
    "reconsider": lambda call: call.daemon.reconsider,
    "resolver": lambda call: call.daemon.resolver,
    "serial": lambda call: call.daemon.serial,
    "speaking": lambda call: call.daemon.speaking,
    "started_at": lambda call: call.daemon.started_at,
    "workers": lambda call: call.daemon.workers,
    # The records of the client's conversations.
    "command_secrets": lambda call: call.daemon.context.user.secrets,
    "editor": lambda call: call.daemon.context.client.editor,
    "is_sandbox_known": lambda call: call.daemon.context.user.sandbox.is_known,
    "language_servers": lambda call: call.daemon.context.client.servers,
    "masker": lambda call: call.daemon.context.services.masker,
    "sandbox": lambda call: call.daemon.context.user.sandbox.level,
    "servers": lambda call: call.daemon.context.services.mcp,
    "settings": lambda call: call.daemon.context.user.settings.of,
    "trust": lambda call: call.daemon.context.user.trust,
}


def _of(part: Callable[[OpenConversation], object]) -> Callable[[Call], object]:
    return lambda call: part(call.open_conversation) if call.open_conversation else None


ARGUMENTS: Mapping[str, Callable[[Call], object]] = {
    **CALL_PARTS,
    **{name: _of(part) for name, part in CONVERSATION_PARTS.items()},
}
"""Parameter name -> function that returns its value for one call, on the handler's thread."""
