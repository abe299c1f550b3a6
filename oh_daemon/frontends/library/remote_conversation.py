"""A program's conversation in a `RemoteWorkspace`, with the methods of `Conversation`.

The daemon there has the log; its events are folded here, so that state, history, callbacks and
waits are as of a conversation of this process. Models and the program's functions run here.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NoReturn

import orjson

from oh_daemon.features.attachments.images import inline_images, read_images
from oh_daemon.features.export.export import Format
from oh_daemon.features.sandbox.levels import Level
from oh_daemon.frontends.client.peer import hello
from oh_daemon.frontends.library.callbacks import part_of, waited
from oh_daemon.frontends.library.library_agent import Agent, Tool
from oh_daemon.frontends.library.program import config_of, models_of, settings_of
from oh_daemon.frontends.library.program_conversation import ProgramConversation, QuestionCallback
from oh_daemon.frontends.library.remote_agent import (
    ChangesThere,
    block_of,
    call_function,
    client_tools,
    require_possible,
    start_params,
)
from oh_daemon.frontends.library.remote_workspace import RemoteWorkspace, not_there
from oh_daemon.frontends.library.snapshot import ConversationStatus, IsolatedReview, Snapshot
from oh_daemon.frontends.remote.carrier import Carrier
from oh_daemon.frontends.remote.connect import connect
from oh_daemon.kernel.journal import History
from oh_daemon.kernel.ports import Json
from oh_daemon.kernel.state import State
from oh_daemon.kernel.turns import turn_end
from oh_daemon.protocol import branches
from oh_daemon.protocol.approvals import Approval, InputRequest, Subject
from oh_daemon.protocol.content import Part
from oh_daemon.protocol.errors import (
    ConversationNotFoundError,
    DaemonError,
    InvalidStateError,
    StorageError,
)
from oh_daemon.protocol.forms import model_of
from oh_daemon.protocol.items import Delivery, Turn
from oh_daemon.protocol.messages import OpenParams
from oh_daemon.protocol.status import Usage
from oh_daemon.storage.memory_log import MemoryLog


class RemoteConversation(ProgramConversation):
    """See `Conversation`; what cannot be had raises a `UserError` that says what to do."""

    def __init__(  # noqa: PLR0913 - as of `Conversation`.
        self,
        agent: Agent,
        workspace: RemoteWorkspace,
        *,
        conversation_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        on_question: QuestionCallback | None = None,
        is_isolated: bool = False,
        is_moved: bool = False,
    ) -> None:
        require_possible(agent, is_moved=is_moved)
        self._folder = workspace.path
        super().__init__(on_question)
        self._is_closed = False
        tools = {tool.name: tool.bound() for tool in agent.tools if isinstance(tool, Tool)}
        settings = settings_of(agent)
        self._models = models_of(agent, settings, lambda _key: None)
        self._daemon = connect(
            Carrier(workspace.target, workspace.program, os.environ),
            self._models,
            settings,
            hello([self._folder], block_of(agent, answers=on_question is not None)),
            {
                # They are answered when their events come.
                "approval/request": lambda _params, _context: {},
                "input/request": lambda _params, _context: {},
                "tool/call": lambda params, _context: call_function(tools, params),
            },
        )
        self._arriving = threading.Lock()
        """Held while something that the daemon told is taken; who holds it keeps that back."""
        try:
            self._level: Level = self._daemon.request("daemon/status")["sandbox"]["level"]
            self._begin(agent, conversation_id, dict(metadata or {}), is_isolated=is_isolated)
        except BaseException:
            self._daemon.close()
            self._calls.close()
            raise
        self._begin_to_answer()
        self._delivery = self._daemon.deliver(self._on_notification, self._give_up)

    def _begin(
        self, agent: Agent, conversation_id: str | None, metadata: Json, *, is_isolated: bool
    ) -> None:
        if conversation_id is None:
            params = start_params(agent, metadata, is_isolated=is_isolated)
            info = self._daemon.request("conversation/start", params)["conversation"]
            self._read(info, 0)
            return
        own = client_tools(agent)
        opening = OpenParams(conversation_id=conversation_id, replay="none", client_tools=own)
        try:
            state = self._daemon.request("conversation/open", opening)
        except ConversationNotFoundError:
            raise not_there("conversation_id") from None
        self._read(state["conversation"], state["lastSeq"])
        for name, value in config_of(agent).options.items():
            self._ask("conversation/setOption", optionId=name, value=value)

    def _read(self, info: Json, last_seq: int) -> None:
        """Fold what is there already; only what comes later is for callbacks."""
        self.id = info["id"]
        self._log = MemoryLog()
        self._history = History(State(self.id), self._log, epoch=info["epoch"])
        self._histories = {self.id: self._history}
        for params in self._daemon.read(self.id, 1, last_seq):
            self._on_notification("conversation/event", params)
        self._history.listeners.append(self._calls)

    def _give_up(self, reason: DaemonError) -> None:
        with self._arriving:
            self._history.abandon_waiters(reason)

    def _on_notification(self, method: str, params: Any) -> None:
        with self._arriving:
            self._fold(method, params)

    def _fold(self, method: str, params: Any) -> None:
        if method == "daemon/statusChanged" and params["kind"] == "error":
            self._history.abandon_waiters(StorageError(params["message"]))
        if method != "conversation/event":
            return
        head = {"conversationId", "epoch"}
        line = orjson.dumps({name: v for name, v in params.items() if name not in head})
        history = self._histories.get(params["conversationId"]) or self._sub_agent(params)
        if history is self._history:
            self._log.append(line + b"\n")
        history.take_in([line])

    def _sub_agent(self, params: Json) -> History:
        state = State(params["conversationId"])
        state.parent_id = self.id
        history = History(state, MemoryLog(), epoch=params["epoch"])
        history.listeners.append(self._calls)
        return self._histories.setdefault(history.id, history)

    def _ask(self, method: str, *, within_s: float | None = None, **params: Any) -> Any:
        params_with_id = {"conversationId": self.id, **params}
        return self._daemon.request(method, params_with_id, within_s=within_s)

    def start_thread(self) -> None:
        """Do nothing: the daemon there starts its own."""

    def send_message(
        self,
        text: str,
        delivery: Delivery = "auto",
        *,
        images: Sequence[str | Path] = (),
        sender: object = None,
        model: str | None = None,
    ) -> str:
        if sender is not None:
            raise not_there("sender")
        return self._send(part_of(text), images, model, delivery)["messageId"]

    def _send(
        self,
        part: Part,
        images: Sequence[str | Path],
        model: str | None,
        delivery: Delivery = "auto",
    ) -> Json:
        content = [part, *inline_images(read_images(images))]
        own: Json = (
            {} if model is None else {"overrides": {"options": {"model": self._check(model)}}}
        )
        return self._ask("conversation/sendMessage", content=content, delivery=delivery, **own)

    def _check(self, model: str) -> str:
        self._models.model_for(model)
        return model

    def _until_rest(self, begin: Callable[[], Json], timeout_s: float | None) -> Turn:
        # The lock keeps back the events, not the answer: none may be missed.
        with self._arriving:
            start_event = begin()
            turn_result = turn_end(
                self._history, start_event.get("messageId", ""), start_event.get("turnId")
            )
        turn = model_of(Turn, waited(turn_result, timeout_s))
        self._calls.drain(timeout_s)
        return turn

    def _resume(self) -> Json:
        return self._ask("conversation/resume")

    def set_option(
        self, option: Literal["model", "mode", "approval", "effort"], value: str
    ) -> None:
        checked_value = self._check(value) if option == "model" else value
        self._ask("conversation/setOption", optionId=option, value=checked_value)

    def condense(self, instructions: str | None = None) -> Turn:
        more: Json = {} if instructions is None else {"instructions": instructions}
        return self._until_rest(lambda: self._ask("conversation/condense", **more), None)

    def ask(self, question: str) -> str:
        return self._ask("conversation/ask", question=question)["text"]

    def pause(self) -> None:
        self._ask("conversation/pause")

    def resume(self) -> None:
        self._resume()

    def interrupt(self, timeout_s: float | None = 10.0) -> None:
        self._ask("conversation/interrupt", within_s=timeout_s)

    def respond(
        self,
        approval: Approval,
        *,
        allow: bool,
        feedback: str | None = None,
        subject: Subject | None = None,
    ) -> None:
        """Answer a pending approval by the narrowest option; trust in the folder is for now."""
        effect = "allow" if allow else "reject"
        option = next(each.id for each in approval.options if each.effect == effect)
        more = {"feedback": feedback, "editedSubject": subject}
        params = {"approvalId": approval.id, "digest": approval.digest, "optionId": option}
        fields = {name: value for name, value in more.items() if value is not None}
        self._daemon.request("approval/respond", {**params, **fields})

    def _reply(self, question: InputRequest, text: str | None) -> None:
        answer = {"action": "decline"} if text is None else {"action": "accept", "content": text}
        self._daemon.request("input/respond", {"inputId": question.id, **answer})

    @property
    def _events(self) -> History:
        return self._history

    @property
    def state(self) -> Snapshot:
        with self._history.condition:
            state = self._history.state
            status = "closed" if self._is_closed else state.status
            usage = model_of(Usage, state.usage) if state.usage else Usage()
        states = [each.state for each in tuple(self._histories.values())]
        pending_approvals = [each for own in states for each in tuple(own.approvals.values())]
        pending = tuple(model_of(Approval, approval) for approval in pending_approvals)
        return Snapshot(ConversationStatus(status), state.title, usage, pending, self._level)

    def fork(self, at_item: str | None = None, title: str | None = None) -> str:
        params = branches.ForkParams(conversation_id=self.id, at_item_id=at_item, title=title)
        fork_id = self._daemon.request("conversation/fork", params)["conversation"]["id"]
        self._daemon.request("conversation/close", {"conversationId": fork_id})
        return fork_id

    def rollback(
        self, to_item: str, *, restore_files: bool = False, dry_run: bool = False
    ) -> branches.RollbackResult:
        params: Json = {"toItemId": to_item, "files": "restore" if restore_files else "keep"}
        result = self._ask("conversation/rollback", dryRun=dry_run, **params)
        return branches.RollbackResult.model_validate(result)

    @property
    def isolated_changes(self) -> IsolatedReview:
        if self._history.state.isolation is None:
            raise InvalidStateError("the conversation is not isolated; start it with isolated=True")
        return IsolatedReview(ChangesThere(self._daemon, self.id), self.id, self._folder)

    @property
    def checkpoints(self) -> tuple[branches.Checkpoint, ...]:
        result = self._ask("checkpoint/list")
        return branches.CheckpointListResult.model_validate(result).checkpoints

    def restore(self, checkpoint_id: str, *, dry_run: bool = False) -> branches.RestoreResult:
        result = self._ask("checkpoint/restore", checkpointId=checkpoint_id, dryRun=dry_run)
        return branches.RestoreResult.model_validate(result)

    def export(self, form: Format = "markdown") -> str:
        return self._ask("conversation/export", format=form)["text"]

    def run_command(self, *_command: object) -> NoReturn:
        raise not_there("run_command")

    def sign_in(self, *_server: object) -> NoReturn:
        raise not_there("sign_in")

    def close(self) -> None:
        """Interrupt a running turn, end the daemon there, deliver all events."""
        self._is_closed = True
        self._daemon.close()
        self._delivery.join()
        self._calls.close()

    def __repr__(self) -> str:
        return f"<RemoteConversation {self.id} {self._history.state.status}>"
