"""One turn at the terminal: prints what happens until it ends, and returns an exit code."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

import orjson
from rich.console import Console

from oh_daemon.features.approval.open_ends import OpenEnds
from oh_daemon.frontends.cli.mcp_lines import omission_lines, state_line
from oh_daemon.frontends.cli.process import print_line
from oh_daemon.frontends.cli.signals import CHECK_S
from oh_daemon.frontends.cli.status_line import status_line
from oh_daemon.frontends.cli.terminal_user import TerminalUser
from oh_daemon.kernel.journal import History, Listener
from oh_daemon.protocol import plain
from oh_daemon.protocol.errors import DaemonError, StorageError
from oh_daemon.protocol.mcp import McpServerInfo
from oh_daemon.protocol.settings import LIMITS

DONE, TURN_FAILED, NEEDS_A_PERSON, LIMIT, NO_MODEL, INTERRUPTED = 0, 1, 3, 4, 5, 130
_MODEL_ERRORS = frozenset({"authRequired", "modelUnavailable", "network", "rateLimit"})
_OF_SUB_AGENTS = frozenset({"approval.requested", "approval.resolved"})
"""The events of sub-agents that people are shown; the parent's events say how they end."""
_LIMITS = frozenset({"maxSteps", *LIMITS})


class EventReport(NamedTuple):
    """An event, of whichever conversation."""

    conversation_id: str
    line: bytes
    """As it goes over the wire."""
    record: plain.Record


class TurnWatch(Listener):
    """Queues what the conversations report, in order, for the main thread to print."""

    def __init__(self) -> None:
        self._reports: SimpleQueue[EventReport | McpServerInfo | DaemonError] = SimpleQueue()
        self._servers: dict[str, McpServerInfo] = {}
        self.turn: plain.Turn | None = None
        """The turn that `show` has shown, once it is completed."""

    def on_record(self, history: History, line: bytes, record: plain.Record) -> None:
        head = orjson.dumps({"conversationId": history.id, "epoch": history.epoch})
        self._reports.put(EventReport(history.id, head[:-1] + b"," + line[1:], record))

    def on_halted(self, history: History, error: StorageError) -> None:
        if history.state.parent_id is None:
            self.fail(error)

    def on_servers(self, servers: Iterable[McpServerInfo]) -> None:
        """Queue each MCP server that runs, when it is new or has changed."""
        for server in servers:
            if server.status == "running" and self._servers.get(server.name) != server:
                self._servers[server.name] = server
                self._reports.put(server)

    def take(self, method: str, params: Any) -> None:
        """Take what a daemon elsewhere tells."""
        if method == "conversation/event":
            self._reports.put(EventReport(params["conversationId"], orjson.dumps(params), params))
        elif method == "daemon/statusChanged" and params["kind"] == "error":
            self.fail(StorageError(params["message"]))

    def fail(self, error: DaemonError) -> None:
        """Take why there will be no more."""
        self._reports.put(error)

    def skip(self) -> None:
        """Drop what opening an earlier conversation appended: after a crash, its turn's end.

        Who reads until a turn is completed, as programs do, means the turn of this run.
        """
        while not self._reports.empty():
            self._reports.get()

    def show(self, user: TerminalUser, *, as_json: bool) -> int:
        """Show what happens until the turn ends or pauses; return the exit code.

        On stderr it ends with what was refused, where programs and their logs keep it.
        """
        open_ends = OpenEnds()
        try:
            return self._show(user, open_ends, as_json=as_json)
        finally:
            for line in open_ends.lines:
                print_line(line)

    def _show(self, user: TerminalUser, open_ends: OpenEnds, *, as_json: bool) -> int:
        while True:
            report = self._next_while_asking(user)
            if isinstance(report, DaemonError):
                print_line(report.with_hint)
                return TURN_FAILED
            event, is_own = report.record["event"], report.conversation_id == user.control.id
            if as_json:
                sys.stdout.buffer.write(report.line + b"\n")
                sys.stdout.buffer.flush()
            else:
                user.take(report.record, is_shown=is_own or event["type"] in _OF_SUB_AGENTS)
            open_ends.take(report.record)
            if not is_own:
                continue
            if event["type"] == "turn.completed":
                self.turn = event["turn"]
                return _exit_code(event["turn"], needs_person=open_ends.needs_person)
            if event["type"] == "turn.paused":
                return NO_MODEL

    def _next_while_asking(self, user: TerminalUser) -> EventReport | DaemonError:
        """Put pending requests to the user, print news of servers; return the next report."""
        while True:
            while user.ask_next():
                pass
            report = self._next(user.console, wait_s=user.patience_s)
            if report is None:
                user.expect_no_effect()
            elif isinstance(report, McpServerInfo):
                for line in (state_line(report), *omission_lines(report)):
                    print_line(line)
            else:
                return report

    def _next(
        self, console: Console, *, wait_s: float
    ) -> EventReport | McpServerInfo | DaemonError | None:
        """Return the next report, None if none comes; a person sees that something is going on."""
        if not self._reports.empty():
            return self._reports.get()
        deadline = time.monotonic() + wait_s
        with status_line("working; Ctrl-C stops it", console):
            while time.monotonic() < deadline:
                try:
                    return self._reports.get(timeout=CHECK_S)
                except Empty:
                    continue
        return None


def _exit_code(turn: plain.Turn, *, needs_person: bool) -> int:
    stop, error = turn.get("stopReason"), turn.get("error")
    if stop in _LIMITS:
        return LIMIT
    if turn["status"] == "interrupted":
        return INTERRUPTED
    if turn["status"] == "failed":
        return NO_MODEL if error and error["kind"] in _MODEL_ERRORS else TURN_FAILED
    if stop not in {"finished", "endTurn", "needsInput"}:
        return TURN_FAILED
    return NEEDS_A_PERSON if needs_person or stop == "needsInput" else DONE
