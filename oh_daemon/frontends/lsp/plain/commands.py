"""Commands of `workspace/executeCommand` that mirror our methods; none needs an id.

What is not named is the conversation that changed last; if none is open, the last one of the folder
is opened, which asks its user again. What has to be chosen is asked for with a message.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any, cast

from msgspec.structs import replace

from oh_daemon.common.plain_text import clip_line, first_line
from oh_daemon.features.export import transcript
from oh_daemon.frontends.lsp.daemon import Daemon, newest
from oh_daemon.frontends.lsp.plain.handlers_chat import ChatHandlers
from oh_daemon.jsonrpc.dispatch import Method, RequestContext
from oh_daemon.jsonrpc.serial import chain, is_future
from oh_daemon.kernel.ports import Json
from oh_daemon.protocol.branches import ReviewResult
from oh_daemon.protocol.errors import InvalidParamsError, InvalidStateError
from oh_daemon.protocol.methods import COMMANDS, OWN_COMMANDS
from oh_daemon.protocol.summaries import ListResult
from oh_daemon.workspace.paths import path_from_uri, printable

Run = Callable[[object, RequestContext], Any]
_OF_NONE = frozenset({"conversation/start", "conversation/list"})
"""Methods that are about no conversation."""
_REVIEWED = {
    "changes/keep": "Kept",
    "changes/undo": "Undone",
    "changes/apply": "Applied",
    "changes/discard": "Discarded",
}
_MAX_LISTED = 9
_MAX_TITLE = 60


class Commands:
    """What a client without a plugin asks for."""

    def __init__(
        self,
        daemon: Daemon,
        methods: Mapping[str, Method],
        chat: ChatHandlers,
        own: Mapping[str, Run],
    ) -> None:
        self._daemon = daemon
        self._methods = methods
        self._chat = chat
        self._own = own

    def run(self, params: Json, context: RequestContext) -> Any:
        """Handle the request. The first argument is the params of the method, or just a text."""
        if not isinstance(command := params.get("command"), str):
            raise InvalidParamsError.at("command", "is missing", "missing")
        arguments: list[object] = params.get("arguments") or [{}]
        argument = arguments[0]
        if command in self._own:
            return self._own[command](argument, context)
        name = COMMANDS.get(command)
        if name is None:
            names = ", ".join((*COMMANDS, *OWN_COMMANDS))
            what = f"no command {command!r}; it is one of {names}"
            raise InvalidParamsError.at("command", what, "unknown")
        own_params = _params(name, argument)
        conversation_id = _under_way(self._daemon)
        if name in _OF_NONE or "conversationId" in own_params:
            return self._act(name, own_params, context)
        if conversation_id is not None:
            return self._act(name, {"conversationId": conversation_id, **own_params}, context)
        return chain(
            self._daemon.workers.submit(self._chat.chats.open_last),
            lambda opened: self._act(name, {"conversationId": opened.id, **own_params}, context),
        )

    def _act(self, name: str, params: Json, context: RequestContext) -> Any:
        """Call the method, or ask for what it lacks, and show what came of it."""
        match name:
            case "approval/respond" if "approvalId" not in params:
                self._ask_again()
                name, params = "approval/list", {}
            case "conversation/setOption" if "optionId" not in params:
                return self._set_option(params, context)
            case "conversation/rollback" if "toItemId" not in params:
                return self._offer_rollback(params["conversationId"])
            case _:
                pass
        result = self._methods[name](params, replace(context, method=name))
        if is_future(result):
            return chain(result, partial(self._show_result, name, params))
        return self._show_result(name, params, result)

    def _show_result(self, name: str, params: Json, result: Any) -> Any:
        """Show a result to a user whose editor shows none; return it."""
        match result:
            case {"needsResume": True, **answer} if self._daemon.carry_on(params["conversationId"]):
                return answer
            case ReviewResult():
                lines = [f"{_REVIEWED[name]}: {_file(uri)}" for uri in result.done]
                lines += [f"Not done: {_file(c.uri)}, {c.reason}" for c in result.conflicts]
                self._chat.notify("\n".join(lines) or "Nothing waits for review.")
            case ListResult():
                summaries = result.conversations[:_MAX_LISTED]
                titles = {
                    f"{clip_line(each.title, _MAX_TITLE)} ({each.id[:6]})": each.id
                    for each in summaries
                }
                self._chat.choose(
                    "Which conversation?" if titles else "There is no conversation here.",
                    {title: partial(self._chat.show_history, id_) for title, id_ in titles.items()},
                )
            case _:
                pass
        return result

    def _call(self, name: str, params: Json) -> None:
        """Call a method for a button that was chosen; nobody else waits for its result."""
        context = RequestContext(0, name, self._daemon.outbox)
        try:
            result = self._act(name, params, context)
        except BaseException:
            context.mark_answered()
            raise

        def on_done(future: Future[Any]) -> None:
            context.mark_answered()
            self._chat.notify_failure(future)

        if is_future(result):
            result.add_done_callback(on_done)
        else:
            context.mark_answered()

    def _ask_again(self) -> None:
        """Show what waits for the user, who may have closed the message."""
        for open_conversation in self._daemon.conversations.all_open():
            journal = open_conversation.conversation.journal
            with journal.condition:
                self._daemon.publisher.ask_again(journal)

    def _set_option(self, params: Json, context: RequestContext) -> Any:
        """Set the option that has this value, or offer all that are not set."""
        conversations, conversation_id = self._daemon.conversations, params["conversationId"]
        options = conversations.options_of(
            conversations.require_open(conversation_id).conversation.journal
        )
        value = params.get("value")
        for option in options:
            if value in {choice.value for choice in option.choices}:
                return self._act(
                    "conversation/setOption", {**params, "optionId": option.id}, context
                )
        if value is not None:
            raise InvalidParamsError.at("value", f"no option has a value {value!r}", "unknown")
        self._chat.choose(
            "\n".join(f"{option.name}: {option.value}" for option in options),
            {
                f"{option.name}: {choice.label}": partial(
                    self._call,
                    "conversation/setOption",
                    {**params, "optionId": option.id, "value": choice.value},
                )
                for option in options
                for choice in option.choices
                if choice.value != option.value
            },
        )
        return {"options": options}

    def _offer_rollback(self, conversation_id: str) -> Json:
        journal = self._daemon.conversations.require_open(conversation_id).conversation.journal
        with journal.condition:
            messages = [item for item in journal.state.items if item["kind"] == "userMessage"]
        if not messages:
            raise InvalidStateError("there is no message to take back")
        last = messages[-1]
        words = clip_line(first_line(transcript.message_text(last)), _MAX_TITLE)
        params = {"conversationId": conversation_id, "toItemId": last["id"]}
        ways = {"Take back": "keep", "Take back, files too": "restore"}
        self._chat.choose(
            f"Take back “{words}” and all that came of it?",
            {
                title: partial(self._call, "conversation/rollback", {**params, "files": files})
                for title, files in ways.items()
            },
        )
        return params


def _params(name: str, argument: object) -> Json:
    """Return the params of a method that the argument stands for. Raises `InvalidParamsError`."""
    if isinstance(argument, str):
        match name:
            case "conversation/setOption":
                return {"value": argument}
            case "conversation/list":
                return {"query": argument}
            case "changes/keep" | "changes/undo" | "changes/apply" | "changes/discard":
                return {"uris": [argument]}
            case _:
                return {"content": [{"type": "text", "text": argument}]}
    if not isinstance(argument, dict):
        raise InvalidParamsError.at("arguments.0", "the argument must be an object or a text")
    return cast("Json", argument)


def _under_way(daemon: Daemon) -> str | None:
    """Return the conversation that changed last; one that is being opened counts as that."""
    if opening := daemon.serial.ids():
        return opening[-1]
    open_conversation = newest(daemon.conversations.all_open())
    return open_conversation.id if open_conversation else None


def _file(uri: str) -> str:
    path = path_from_uri(uri)
    return printable(path.name if path else uri)
