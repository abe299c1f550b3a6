"""The Python API: conversations that a program runs without any editor.

Only what the program passes counts: no settings are read from files or environment variables, and
conversations share only what the program shares. Each calls its callbacks in order, on one thread.
"""

from __future__ import annotations

import webbrowser
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import orjson

from oh_daemon.common.cancel import Cancelled, CancelToken
from oh_daemon.conversations import history
from oh_daemon.conversations.conversations import Conversations
from oh_daemon.conversations.open_conversation import OpenConversation
from oh_daemon.conversations.services import AgentConfig
from oh_daemon.conversations.sub_agents import equip
from oh_daemon.features.approval.policy import check_options
from oh_daemon.features.attachments.images import read_images, with_images
from oh_daemon.features.export.export import Format, render_export
from oh_daemon.frontends.library.callbacks import part_of, waited
from oh_daemon.frontends.library.library_agent import Agent
from oh_daemon.frontends.library.program import config_of, context_of, run_held
from oh_daemon.frontends.library.program_conversation import ProgramConversation, QuestionCallback
from oh_daemon.frontends.library.remote_conversation import RemoteConversation
from oh_daemon.frontends.library.remote_workspace import RemoteWorkspace
from oh_daemon.frontends.library.snapshot import IsolatedReview, Snapshot, isolated_of, snapshot_of
from oh_daemon.frontends.library.workspace import CommandResult, Workspace
from oh_daemon.kernel.context import LOG_SCHEME
from oh_daemon.kernel.journal import Journal
from oh_daemon.kernel.ports import Json, Model
from oh_daemon.kernel.turns import turn_end
from oh_daemon.protocol import branches
from oh_daemon.protocol import messages as m
from oh_daemon.protocol.approvals import Approval, Decision, InputRequest, Subject
from oh_daemon.protocol.content import Part, ResourcePart
from oh_daemon.protocol.errors import (
    ConversationNotFoundError,
    InvalidParamsError,
    InvalidStateError,
)
from oh_daemon.protocol.events import OptionsChanged
from oh_daemon.protocol.forms import model_of
from oh_daemon.protocol.items import Delivery, Turn


class Conversation(ProgramConversation):
    """One agent that works in a thread of its own. A context manager that closes itself.

    Thread-safe. Methods that wait for a turn must not be called from a tool of that same turn.
    Pass `conversation_id` to reopen an earlier conversation, with the same or another agent, or to
    begin one under an id of your own, of letters, digits, `-` and `_`.
    """

    if not TYPE_CHECKING:

        def __new__(cls, agent: Agent, workspace: object = None, **options: Any) -> Any:
            if isinstance(workspace, RemoteWorkspace):
                return RemoteConversation(agent, workspace, **options)
            return super().__new__(cls)

    def __init__(  # noqa: PLR0913 - keywords, each with a default.
        self,
        agent: Agent,
        workspace: Workspace | RemoteWorkspace | str | Path | None = None,
        *,
        conversation_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        on_question: QuestionCallback | None = None,
        is_isolated: bool = False,
        is_moved: bool = False,
    ) -> None:
        """Start a conversation of `agent`, or reopen the one with `conversation_id`.

            with Conversation(agent, workspace=".") as conversation:
                turn = conversation.run("What is in this folder?")

        Without a `workspace` there are no file tools, and the log is kept in memory only.

        `on_question` returns the user's answer to the agent's question, or None; it runs on the
        callbacks' thread. Without it, a question ends the turn and becomes its final text. With
        `is_isolated`, edits and commands change nothing in the workspace until `isolated.apply()`.
        With `is_moved`, a conversation whose folder was moved works in `workspace`; otherwise it is
        refused. Raises `UserError`, `ModelUnavailableError` or `StorageError`.
        """
        path = workspace.path if isinstance(workspace, Workspace | RemoteWorkspace) else workspace
        folders = self._folders = [Path(path).absolute()] if path is not None else []
        all_metadata = dict(metadata or {})
        params = m.StartParams(ephemeral=not folders, metadata=all_metadata, isolated=is_isolated)
        super().__init__(on_question)
        self._context = context_of(
            agent, workspace, folders, self._calls, answers=on_question is not None
        )
        self._conversations = Conversations(self._context, equip)
        try:
            self._live = self._begin(conversation_id, params, config_of(agent), moves=is_moved)
        except BaseException:
            self._release()
            raise
        self.id = self._live.id
        self._begin_to_answer()

    @property
    def _events(self) -> Journal:
        return self._live.conversation.journal

    def _begin(
        self, own_id: str | None, params: m.StartParams, config: AgentConfig, *, moves: bool
    ) -> OpenConversation:
        all_here, folders = self._conversations, self._folders
        if own_id is not None:
            with suppress(ConversationNotFoundError):
                return all_here.open(own_id, folders, config=config, at_work=False, moves=moves)
        with InvalidParamsError.naming(folders="workspace", resultSchema="result_schema"):
            return all_here.start(
                params, folders, conversation_id=own_id, config=config, at_work=False
            )

    def start_thread(self) -> None:
        """Start the agent's thread now; otherwise the first call that needs it starts it."""
        if not self._live.conversation.journal.is_closing:
            self._live.start()

    def send_message(
        self,
        text: str,
        delivery: Delivery = "auto",
        *,
        images: Sequence[str | Path] = (),
        sender: Conversation | None = None,
        model: str | None = None,
    ) -> str:
        """Start a turn or steer the running one, and return the message's id without waiting.

        `images` are files: PNG, JPEG, GIF or WebP.
        With `sender`, the agent is told that this conversation wrote the message, not the user.
        With `model`, that model answers in a turn of its own. Raises `ModelUnavailableError`,
        `StorageError`, `OSError`, or a `UserError` when the message cannot be taken (now).
        """
        if delivery not in get_args(Delivery):
            names = ", ".join(get_args(Delivery))
            raise InvalidParamsError(f"delivery: {delivery!r} is none of {names}")
        part = part_of(text)
        if sender is not None:
            part = ResourcePart(uri=LOG_SCHEME + sender.id, text=text)
        self.start_thread()
        return self._send(part, images, model, delivery)["messageId"]

    def _send(
        self,
        part: Part,
        images: Sequence[str | Path],
        model: str | None,
        delivery: Delivery = "auto",
    ) -> Json:
        options = {"model": self._check(model)} if model is not None else None
        conversation = self._live.conversation

        def seeing() -> Model:
            name = model or conversation.state.options_now["model"]
            return self._context.user.models.model_for(name)

        content = with_images((part,), read_images(images), seeing, conversation.journal.log)
        return conversation.send(content, delivery=delivery, options=options)

    def _check(self, model: str) -> str:
        self._context.user.models.model_for(model)
        return model

    def _resume(self) -> Json:
        return self._live.conversation.resume()

    def set_option(
        self, option: Literal["model", "mode", "approval", "effort"], value: str
    ) -> None:
        """Set an option for later steps. Raises `InvalidParamsError`, `ModelUnavailableError`."""
        with InvalidParamsError.naming(**{f"options.{option}": option}):
            values = check_options({option: self._check(value) if option == "model" else value})
        self._live.conversation.journal.append(OptionsChanged(values=values))

    def condense(self, instructions: str | None = None) -> Turn:
        """Replace older steps with a summary, wait, and return the turn in which this happened."""
        return self._until_rest(lambda: self._live.conversation.condense(instructions), None)

    def _until_rest(self, begin: Callable[[], Json], timeout_s: float | None) -> Turn:
        conversation = self._live.conversation
        self.start_thread()
        with conversation.journal.condition:
            start_event = begin()
            turn_future = turn_end(
                conversation.journal, start_event.get("messageId", ""), start_event.get("turnId")
            )
        turn = model_of(Turn, waited(turn_future, timeout_s))
        self._calls.drain(timeout_s)
        return turn

    def ask(self, question: str) -> str:
        """Ask the model beside the agent's work, wait, and return its answer.

        No history keeps the answer; `state.usage` includes its cost. Raises `ModelError`, and
        `InvalidStateError` when the conversation is closed.
        """
        try:
            return self._live.agent.ask(question, CancelToken()).text
        except Cancelled:
            raise InvalidStateError("the conversation was closed before the answer came") from None

    def sign_in(self, server: str, show: Callable[[str], object] = webbrowser.open) -> None:
        """Let the user sign in to an MCP server on the page that `show` gets; wait for that.

        An earlier sign-in is forgotten. Raises `UserError` if the server does not run then.
        """
        self._live.conversation.journal.require_open()
        self._context.services.mcp.sign_in(server, show)

    def pause(self) -> None:
        """Pause the turn after its current step; does not wait. Raises `InvalidStateError`."""
        self._live.conversation.pause("step")

    def resume(self) -> None:
        """Continue the paused turn; does not wait. Raises `InvalidStateError`."""
        self.start_thread()
        self._live.conversation.resume()

    def interrupt(self, timeout_s: float | None = 10.0) -> None:
        """Stop the model and the tools now, and wait for the turn's end. Raises `TimeoutError`."""
        self.start_thread()
        waited(self._live.conversation.interrupt(), timeout_s)

    def respond(
        self,
        approval: Approval,
        *,
        allow: bool,
        feedback: str | None = None,
        subject: Subject | None = None,
    ) -> None:
        """Answer a pending approval, this once. The first answer counts. Raises `UserError`.

        `subject` is a copy of `approval.subject` with another command or fewer hunks; that is
        then done instead.
        """
        decision = Decision(effect="allow" if allow else "reject")
        asking = self._conversations.require_open(approval.conversation_id).conversation.decisions
        asking.respond(
            approval.id, approval.digest, decision, feedback=feedback, edited_subject=subject
        )

    def _reply(self, question: InputRequest, text: str | None) -> None:
        action = "decline" if text is None else "accept"
        self._live.conversation.decisions.answer(question.id, action, text)

    @property
    def state(self) -> Snapshot:
        """The status, title, usage and pending approvals as they are now."""
        return snapshot_of(self._live, self._conversations.all_open())

    def run_command(self, command: str, timeout_s: float | None = None) -> CommandResult:
        """Run a command of the program's as the agent's are run; in a sandbox, it changes nothing.

        The agent must be at rest. What runs on when the time is up ends with the conversation.
        """
        return run_held(self._live, command, timeout_s)

    def fork(self, at_item: str | None = None, title: str | None = None) -> str:
        """Copy this conversation, or its part up to an item, and return the copy's id.

        Open the copy by that id, with any agent. Raises `UserError` without a workspace.
        """
        self._live.conversation.journal.require_open()
        params = branches.ForkParams(conversation_id=self.id, at_item_id=at_item, title=title)
        with InvalidParamsError.naming(atItemId="at_item"):
            fork_log = history.fork(self._conversations, params, self._folders, at_work=False)
        self._conversations.close(fork_log.id)
        return fork_log.id

    def rollback(
        self, to_item: str, *, restore_files: bool = False, dry_run: bool = False
    ) -> branches.RollbackResult:
        """Go back to before a message of the user; the agent must be at rest.

        Return the files that were restored and those that could not be. Raises `UserError`.
        """
        files = "restore" if restore_files else "keep"
        params = branches.RollbackParams(
            conversation_id=self.id, to_item_id=to_item, files=files, dry_run=dry_run
        )
        with InvalidParamsError.naming(toItemId="to_item"):
            return history.conversation_rollback(
                self._live.conversation, self._live.runtime, params
            )

    @property
    def isolated_changes(self) -> IsolatedReview:
        """What waits to land, if the conversation is `isolated`. Raises `InvalidStateError`."""
        return isolated_of(self._live, self._folders)

    @property
    def checkpoints(self) -> tuple[branches.Checkpoint, ...]:
        """The moments before the agent changed files, oldest first."""
        return history.checkpoint_list(self._live.conversation, self._live.runtime).checkpoints

    def restore(self, checkpoint_id: str, *, dry_run: bool = False) -> branches.RestoreResult:
        """Undo the agent's file changes since the checkpoint; the conversation itself stays.

        Return the same lists of files as `rollback`. Raises `UserError`.
        """
        params = branches.CheckpointRestoreParams(
            conversation_id=self.id, checkpoint_id=checkpoint_id, dry_run=dry_run
        )
        with InvalidParamsError.naming(checkpointId="checkpoint_id"):
            return history.checkpoint_restore(self._live.conversation, self._live.runtime, params)

    def export(self, form: Format = "markdown") -> str:
        """Return the whole conversation as its log (`jsonl`), Markdown, or one HTML page."""
        if form not in get_args(Format):
            raise InvalidParamsError(f"form: {form!r} is none of {', '.join(get_args(Format))}")
        return render_export(
            self.id,
            map(orjson.loads, self._live.conversation.journal.lines()),
            form,
            masker=self._context.services.masker,
            read_blob=self._live.conversation.journal.log.read_blob,
        )

    def close(self) -> None:
        """Interrupt a running turn; end the thread, the shells and the log; deliver all events."""
        if self._conversations.find_open(self.id) is not None:
            self._conversations.close(self.id)
        self._release()

    def _release(self) -> None:
        self._context.services.mcp.close()
        self._context.services.close()
        self._calls.close()

    def __repr__(self) -> str:
        return f"<Conversation {self.id} {self.state.status}>"
