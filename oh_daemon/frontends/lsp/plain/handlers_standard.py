"""Requests of LSP itself, for clients without a plugin: code actions, commands, our documents.

Code actions go to a conversation through the same methods that a panel uses. Documents are made on
request: the log as text, a file before and after the changes, a long output.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from msgspec.structs import replace

from oh_daemon.conversations.description import describe
from oh_daemon.conversations.open_conversation import OpenConversation
from oh_daemon.frontends.lsp.client_facts import ClientFacts
from oh_daemon.frontends.lsp.daemon import Daemon, newest
from oh_daemon.frontends.lsp.plain.change_marks import SOURCE, diff_of, list_changes
from oh_daemon.frontends.lsp.plain.commands import Commands, Run
from oh_daemon.frontends.lsp.plain.handlers_chat import ChatHandlers
from oh_daemon.jsonrpc.client import Client
from oh_daemon.jsonrpc.dispatch import Method, RequestContext
from oh_daemon.kernel.ports import Json
from oh_daemon.protocol.daemon_messages import OutputReadParams
from oh_daemon.protocol.errors import InvalidParamsError, InvalidStateError
from oh_daemon.protocol.language_servers import ChangesShown, ChosenAction, CodeActionParams
from oh_daemon.protocol.to_client import OpenDiffParams
from oh_daemon.workspace.paths import path_from_uri, printable, quoted, uri_from_path

_ACTIONS = (("fix", "Fix with agent"), ("explain", "Explain"), ("test", "Write a test"))
_FIX_KIND = "quickfix"
_BY_ITSELF = 2
_MAX_BYTES = 4 << 20
_MAX_SELECTED_CHARS = 1 << 20
_MAX_DIFFS = 10


def standard_methods(
    daemon: Daemon, methods: Mapping[str, Method], client: Client, facts: ClientFacts
) -> dict[str, Method]:
    """Return the handlers, by method of LSP."""
    chat = ChatHandlers(daemon, client, facts)

    def off_thread(run: Callable[[object], Json]) -> Run:
        return lambda arguments, _context: daemon.workers.submit(run, arguments)

    own: dict[str, Run] = {
        "ohDaemon.codeAction": lambda arguments, context: _act(daemon, methods, arguments, context),
        "ohDaemon.showChanges": lambda arguments, _context: _show(
            daemon, client, facts, chat, arguments
        ),
        **{name: off_thread(run) for name, run in chat.commands().items()},
    }
    return {
        "textDocument/codeLens": lambda params, _context: chat.lenses(params),
        "textDocument/codeAction": lambda params, _context: code_actions(params, chat, facts),
        "workspace/textDocumentContent": lambda params, _context: daemon.workers.submit(
            lambda: {"text": _text(daemon, str(params.get("uri", "")))}
        ),
        "workspace/executeCommand": Commands(daemon, methods, chat, own).run,
    }


# Code actions


def code_actions(params: Json, chat: ChatHandlers, facts: ClientFacts) -> list[Json]:
    """Offer a fix where there are diagnostics; the rest only when the user asked for actions."""
    request = CodeActionParams.model_validate(params)
    problems = [each for each in request.context.diagnostics if each.get("source") != SOURCE]
    only = request.context.only
    wants_fix = bool(problems) and (only is None or _FIX_KIND in only)
    wants_all = not only and request.context.trigger_kind != _BY_ITSELF
    chat_actions, is_chat = chat.actions(request.text_document.uri, request.range)
    actions = chat_actions if wants_all else []
    if is_chat:
        return actions
    place = {"uri": request.text_document.uri, "range": request.range.model_dump(mode="json")}
    takes_literals = facts.offers("textDocument", "codeAction", "codeActionLiteralSupport")
    for name, title in _ACTIONS:
        if not (wants_fix if name == "fix" else wants_all):
            continue
        about = {"diagnostics": problems} if problems else {}
        argument: Json = {"command": name, **place, **about}
        command = {"title": title, "command": "ohDaemon.codeAction", "arguments": [argument]}
        if name == "fix" and takes_literals:
            more = {"kind": _FIX_KIND, "diagnostics": problems}
            actions.append({"title": title, "command": command, **more})
        else:
            actions.append(command)
    return actions


def _act(
    daemon: Daemon, methods: Mapping[str, Method], arguments: object, context: RequestContext
) -> Any:
    """Send the action to the newest conversation at rest in that folder, or else to a new one."""
    choice = ChosenAction.model_validate(arguments)
    path = path_from_uri(choice.uri)
    content: list[Json] = [{"type": "command", "name": choice.command}]
    content.append(_place_part(daemon, choice, path))
    if choice.diagnostics:
        content.append({"type": "diagnostics", "uri": choice.uri, "items": choice.diagnostics})
    resting = _resting(daemon, path)
    if resting is not None:
        method, params = "conversation/sendMessage", {"conversationId": resting}
    else:
        # The first folder is where the agent works.
        folders = sorted(daemon.folders(), key=lambda folder: not _is_within(folder, path))
        method, params = "conversation/start", {"folders": [uri_from_path(f) for f in folders]}
    return methods[method]({**params, "content": content}, replace(context, method=method))


def _place_part(daemon: Daemon, action: ChosenAction, path: Path | None) -> Json:
    """Return the selected text as the editor shows it, or a link to the place if it is unknown."""
    span = action.range.model_dump(mode="json")
    document = daemon.documents.document(path) if path else None
    servers = daemon.context.client.servers
    text = ""
    if document is not None and servers is not None:
        offsets = servers.offsets(document.text)
        start, end = (offsets.offset(side) for side in (action.range.start, action.range.end))
        text = document.text[start:end]
    if not 0 < len(text) <= _MAX_SELECTED_CHARS:
        return {"type": "resourceLink", "uri": action.uri, "range": span}
    return {"type": "selection", "uri": action.uri, "range": span, "text": text}


def _resting(daemon: Daemon, path: Path | None) -> str | None:
    def fits(open_conversation: OpenConversation) -> bool:
        state = open_conversation.conversation.state
        is_there = any(_is_within(path_from_uri(folder), path) for folder in state.folders)
        return is_there and describe(open_conversation.conversation.journal).status in {
            "idle",
            "finished",
        }

    conversation = newest(
        open_conversation
        for open_conversation in daemon.conversations.all_open()
        if fits(open_conversation)
    )
    return conversation.id if conversation else None


def _is_within(folder: Path | None, path: Path | None) -> bool:
    return folder is not None and path is not None and path.is_relative_to(folder)


# Our documents


def _text(daemon: Daemon, uri: str) -> str:
    """Make the text of one of our documents, on a worker thread.

    Raises `InvalidParamsError` and what the conversation raises.
    """
    parts = urlsplit(uri)
    conversation_id, _, rest = parts.path.strip("/").partition("/")
    match parts.scheme:
        case "oh-log":
            return _log_text(daemon, conversation_id)
        case "oh-output":
            output_params = {"conversationId": conversation_id, "outputRef": rest}
            ref = OutputReadParams.model_validate(output_params).output_ref
            log = daemon.conversations.require_open(conversation_id).conversation.journal.log
            return log.read_blob(ref, 0, _MAX_BYTES).decode("utf-8", "replace")
        case "oh-diff" if rest in {"old", "new", "patch"}:
            # Editors that rewrite URIs, such as VS Code, may escape the equals sign too.
            file = unquote(parts.query).removeprefix("uri=")
            diff = diff_of(daemon.conversations.require_open(conversation_id), file)
            texts = {"old": diff.old_text, "new": diff.new_text, "patch": diff.patch}
            return texts[rest] or ""
        case _:
            raise InvalidParamsError.at("uri", f"{quoted(uri)} is not a document of the daemon")


def _log_text(daemon: Daemon, conversation_id: str) -> str:
    # rich takes a tenth of a second to import.
    from oh_daemon.features.export.event_lines import render_record  # noqa: PLC0415

    _, records, _ = daemon.conversations.read(conversation_id, daemon.folders())
    text = "\n".join(text.plain for record in records for text in render_record(record))
    return text[-_MAX_BYTES:] + "\n"


def _show(
    daemon: Daemon, client: Client, facts: ClientFacts, chat: ChatHandlers, arguments: object
) -> Any:
    """Open the changes in the client, which fetches them with `workspace/textDocumentContent`."""
    target = ChangesShown.model_validate(arguments)
    has_own = "openDiff" in facts.features
    can_show = facts.offers("window", "showDocument", "support")
    if not (has_own or (can_show and facts.offers("workspace", "textDocumentContent"))):
        raise InvalidStateError("this client can show no changes; changes/diff has the texts")

    def work() -> None:
        open_conversation = chat.chats.named_or_current(target.conversation_id)
        pending = [
            file.uri for file in list_changes(open_conversation).files if file.state == "pending"
        ]
        for uri in [target.uri] if target.uri else pending[:_MAX_DIFFS]:
            _open_diff(client, open_conversation.id, uri, has_own=has_own)

    return daemon.workers.submit(work)


def _open_diff(client: Client, conversation_id: str, uri: str, *, has_own: bool) -> None:
    old, new, patch = (
        f"oh-diff:/{conversation_id}/{side}?uri={quote(uri, safe='')}"
        for side in ("old", "new", "patch")
    )
    if not has_own:
        client.request_async("window/showDocument", {"uri": patch})
        return
    title = f"{printable(unquote(uri.rpartition('/')[2]))}: changes of the agent"
    params = OpenDiffParams(
        conversation_id=conversation_id, uri=uri, old_uri=old, new_uri=new, title=title
    )
    client.request_async("editor/openDiff", params.model_dump(mode="json"))
