"""One persistent bash on a terminal of its own, and the command that runs in it.

bash reads commands from a socket, so typed text only reaches the foreground program; each command
is a file to source. A command has ended when its status arrives on a second socket and a secret
mark on the terminal, which output cannot forge. One thread reads both.
"""

from __future__ import annotations

import os
import secrets
import select
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from pathlib import Path

from oh_daemon.common.cancel import CancelToken
from oh_daemon.features.terminal.output import Capture, CleanText, Scrollback
from oh_daemon.features.terminal.shell_command import (
    NO_COMMAND,
    SHELL_ENDED,
    SHELL_IS_GONE,
    CommandOutcome,
    OnOutput,
    ShellCommand,
    ShellPlace,
    State,
    error_prefix,
    ignore,
    prepare_bash,
    render_command,
    render_exposed,
    write_command,
)
from oh_daemon.protocol.errors import ToolError
from oh_daemon.system import reaper
from oh_daemon.system.pty import KEYS, LOST, Pty, channel, has_lost_command, is_unread_there
from oh_daemon.system.spawner import GRACE_S, Spawner, start_errors, start_thread

MAX_LIVE_CHARS = 1 << 20
"""Limit of live output per call, so that clients are not flooded; the result has the rest."""
_MAX_LATE_CHARS = 4096
_MAX_SHOWN = 200
_FIRST_LOOK_S, _LAST_LOOK_S, _LOST_LOOK_S = 0.1, 0.4, 0.5
_MARK_DEADLINE_S = 0.5
"""A program may flush the terminal, and with it the mark; then the status alone counts."""
_DRAIN_S, _FIRST_PAUSE_S = 0.05, 0.005
_INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
_ROUNDS_PER_INTERRUPT, _ROUND_S = 4, 0.0625
_LAST_CHANCE_S = 1.0
"""For a shell on a busy machine whose foreground program has already ended."""


class Bash:
    """Safe from any thread. Raises `ToolError` and `OSError` when it cannot start."""

    def __init__(
        self,
        spawner: Spawner,
        place: ShellPlace,
        cwd: Path,
        env: Mapping[str, str],
        screen: Scrollback,
        is_held: Callable[[], bool] = bool,
    ) -> None:
        """The state that an earlier shell left in `place` is restored.

        `screen` receives the output that people see. What `is_held` costs no time.
        """
        argv, self.cwd, self._scratch = prepare_bash(place), cwd, place.spool
        self.last: ShellCommand | None = None
        """The command that runs now, or else the last one that ran."""
        self._screen, self._is_held = screen, is_held
        self.on_job_end: Callable[[], object] = bool
        self._note = self._late = ""
        self._on_output, self._n_live_left = ignore, 0
        self.is_dead, self._error_prefix = False, error_prefix(place.spool)
        self._condition = threading.Condition()
        self._command: ShellCommand | None = None
        self._late_cleaner = CleanText()
        with ExitStack() as stack:
            self._pty = Pty()
            stack.callback(self._pty.close)
            self._control, commands = channel(stack)
            self._reports, report_end = channel(stack)
            terminal = self._pty.slave
            fds = [commands.fileno(), terminal, terminal, report_end.fileno()]
            self._process = spawner.spawn(argv, cwd=cwd, env=env, fds=fds)
            self._command_source = os.fstat(commands.fileno())
            # Only bash has the other ends, so that an idle shell costs three descriptors.
            commands.close()
            report_end.close()
            self._pty.close_slave()
            self._descriptors = stack.pop_all()
        with ExitStack() as on_failure:
            on_failure.callback(self._descriptors.close)
            on_failure.callback(self._process.kill_tree, 0)
            start_thread(f"shell-{self._process.pid}", self._read)
            on_failure.pop_all()
        self._process.exit_code.add_done_callback(self._end_reports)

    @property
    def is_idle(self) -> bool:
        """Whether no command runs and the outcome of the last one has been taken."""
        return self._command is None

    @property
    def is_running(self) -> bool:
        return self._command is not None and self._command.exit_code is None

    def listen(self, on_output: OnOutput) -> None:
        """Call `on_output` with what is written from now until the next `wait` returns."""
        with self._condition:
            self._on_output, self._n_live_left = on_output, MAX_LIVE_CHARS

    def run(self, text: str, *, timeout_s: float, cancel: CancelToken) -> CommandOutcome:
        """Begin a command and wait for it."""
        self.begin(text)
        return self.wait(timeout_s=timeout_s, cancel=cancel)

    def begin(
        self,
        text: str,
        on_output: OnOutput | None = None,
        *,
        is_background: bool = False,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        """Start a command; one in the background survives a cancel of those who wait for it.

        The `variables` are set for this command only. Raises `ToolError` when another command
        is running, or the shell has ended.
        """
        with self._condition:
            if self.is_dead:
                raise ToolError(SHELL_IS_GONE)
            current = self._command
            if current and current.exit_code is None:
                raise ToolError(
                    f"this terminal is busy with {current.text[:_MAX_SHOWN]!r}: wait for it or type"
                    " into it with is_input, or use another terminal_id"
                )
            if on_output is not None:
                self.listen(on_output)
            file = write_command(self._scratch, text)
            late, self._late = self._late, ""
            # The note of the previous command may not have been reported yet.
            note, self._note = (current.note if current else "") + self._note, ""
            self._screen.add_line(f"$ {text}\n")
            command = ShellCommand(text, self._capture(), is_background, note, late)
            with start_errors("bash"):
                self._pty.prepare()
            self._command = self.last = command
            with suppress(BrokenPipeError):  # The shell has just ended, which the reader reports.
                self._control.sendall(render_command(file, command.mark, exposes=bool(variables)))
                self._reports.sendall(render_exposed(variables) if variables else b"")

    def type(self, text: str) -> None:
        """Press a key of `KEYS`, or type `text` and Enter, in the running program."""
        self._press(KEYS.get(text) or text.removesuffix("\n").encode() + b"\n")

    def type_for_user(self, text: str) -> None:
        """Type exactly `text` and note it for the model. Raises `ToolError` as `type` does."""
        with self._condition:
            self._press(text.encode())
            self.write_note(f"The user typed {text[:_MAX_SHOWN]!r} into this terminal.\n")

    def _press(self, data: bytes) -> None:
        with self._condition:
            command = self._command
            if command is None or command.exit_code is not None:
                raise ToolError(NO_COMMAND)
            command.active = time.monotonic()
            self._pty.write(data)

    def write_note(self, note: str) -> None:
        """Add a note about this shell for the model; the next outcome carries it."""
        with self._condition:
            if self._command is None:
                self._note += note
            else:
                self._command.note += note

    def stop_for_user(self) -> None:
        """End all that runs in this shell, also in the background, but not the shell itself.

        Blocks for about a second.
        """
        self.write_note("The user ended what ran in this terminal.\n")
        command = self._command
        if command is not None and command.exit_code is None:
            self._interrupt(command)
        for number, patience_s in ((signal.SIGTERM, GRACE_S), (signal.SIGKILL, 0)):
            if processes := self._process.tree() - {self._process.pid}:
                reaper.send_signal(processes, number)
                self._process.wait(patience_s)

    def take_ended(self) -> CommandOutcome | None:
        """Return the outcome of a command that ended while nobody waited for it, if any."""
        command = self._command
        return self._outcome(command, "done") if command and command.exit_code is not None else None

    def wait(
        self, *, timeout_s: float, cancel: CancelToken, needs_output: bool = False
    ) -> CommandOutcome:
        """Wait until the command ends or waits for input, at most `timeout_s`; time kills nothing.

        A cancel ends the command unless it is in the background. The outcome has the output since
        the last call. With `needs_output`, a program counts as waiting for input only after it
        wrote something.
        """
        command = self._command
        if command is None:
            raise ToolError(NO_COMMAND)
        with cancel.notifying(self._condition):
            state = self._await(command, timeout_s, cancel, needs_output=needs_output)
        if cancel.is_cancelled and not command.is_background:
            self._interrupt(command)
        return self._outcome(command.let_go(), state)

    def hang_up(self) -> None:
        """Ask the shell, and everything started in it, to end."""
        # An interactive shell ignores SIGTERM (bash manual, 3.7.6 Signals).
        for number in (signal.SIGHUP, signal.SIGTERM):
            self._process.signal_tree(number)

    def kill(self, grace_s: float) -> None:
        """End what is left after `grace_s`."""
        self._process.kill_tree(grace_s)

    def _capture(self) -> Capture:
        return Capture(self._scratch / f"output-{secrets.token_hex(8)}")

    def _await(
        self, command: ShellCommand, timeout_s: float, cancel: CancelToken, *, needs_output: bool
    ) -> State:
        start_s = time.monotonic()
        deadline = start_s + timeout_s
        pause_s, n_waiting = _FIRST_LOOK_S, 0
        while True:
            with self._condition:
                runs = command.exit_code is None and not cancel.is_cancelled
                if runs and (left_s := deadline - time.monotonic()) > 0:
                    self._condition.wait(min(left_s, pause_s))
            deadline = time.monotonic() + timeout_s if self._is_held() else deadline
            if command.exit_code is not None:
                return "done"
            if cancel.is_cancelled or time.monotonic() >= deadline:
                return "running"
            self._end_if_lost()
            is_quiet = time.monotonic() - command.active >= _FIRST_LOOK_S
            may_wait = is_quiet and (command.active > start_s or not needs_output)
            # Required twice in a row, since input just typed may not have been read yet.
            waits = may_wait and self._is_waiting_for_input()
            n_waiting = n_waiting + 1 if waits else 0
            if n_waiting > 1:
                return "waitingForInput"
            is_calm = is_quiet and not n_waiting
            pause_s = min(2 * pause_s, _LAST_LOOK_S) if is_calm else _FIRST_LOOK_S

    def _is_waiting_for_input(self) -> bool:
        # It fails when there is no free descriptor.
        with self._condition, suppress(OSError):
            return not self.is_dead and self._pty.is_waiting_for_input(self._process.pid)
        return False

    def _outcome(self, command: ShellCommand, state: State) -> CommandOutcome:
        with self._condition:
            capture, note, late = command.report(self._capture())
            self._on_output = ignore
            exit_code = command.exit_code
            self._screen.settle()
            if exit_code is not None:
                state = "done"
                if self._command is command:  # Another command may have begun meanwhile.
                    self._command = None
        seconds = command.duration_s or time.monotonic() - command.start_s
        return CommandOutcome(state, capture.finish(), self.cwd, seconds, exit_code, note, late)

    def _interrupt(self, command: ShellCommand) -> None:
        """End the command, gently at first; end the shell itself only when nothing else helps."""
        for number in _INTERRUPTS:
            reached: set[int] = set()
            for _round in range(_ROUNDS_PER_INTERRUPT):
                # Bash may miss one while it forks, and what it forked just then gets the next.
                reaper.send_signal({self._process.pid}, signal.SIGUSR2)
                late = [pid for pid in self._pty.in_front(self._process.pid) if pid not in reached]
                reaper.send_signal(late, number)
                reached.update(late)
                if self._ends_within(command, _ROUND_S):
                    return
        if not self._ends_within(command, _LAST_CHANCE_S):
            self.kill(0)
            self._ends_within(command, _MARK_DEADLINE_S)

    def _ends_within(self, command: ShellCommand, timeout_s: float) -> bool:
        with self._condition:
            return self._condition.wait_for(lambda: command.exit_code is not None, timeout_s)

    def _end_reports(self, _exit_code: Future[int]) -> None:
        with suppress(OSError):  # The reader has seen the end already.
            self._reports.shutdown(socket.SHUT_RDWR)  # Wakes the reader.

    def _read(self) -> None:
        """The reader thread, until the shell has ended."""
        poll, reports = select.poll(), self._reports.fileno()
        sources = {self._pty.master: self._take_output, reports: self._take_reports}
        for source in sources:
            poll.register(source, select.POLLIN)
        next_check_s, pause_s = 0.0, _FIRST_PAUSE_S
        while reports in sources or not self._process.exit_code.done():
            wait_ms = _MARK_DEADLINE_S * 1000 if self.is_running else None
            if reports not in sources:
                # Its exit code comes at once, unless bash became another program.
                wait_ms, pause_s = pause_s * 1000, min(2 * pause_s, _MARK_DEADLINE_S)
            ready = [fd for fd, _ in poll.poll(wait_ms)]
            for source in [each for each in ready if not sources[each]()]:
                poll.unregister(source)
                del sources[source]
            if not ready:
                self._end_without_mark()
            if time.monotonic() >= next_check_s:
                self._end_if_lost()
                next_check_s = time.monotonic() + _LOST_LOOK_S
        # No mark ends the output of a dead shell, and its jobs may keep writing.
        until = time.monotonic() + 4 * _DRAIN_S
        while poll.poll(_DRAIN_S * 1000) and time.monotonic() < until and self._take_output():
            pass
        self._on_exit(self._process.exit_code.result())

    def _end_without_mark(self) -> None:
        command = self._command
        if command and command.exit_code is None and command.status is not None:
            self._end(command)

    def _end_if_lost(self) -> None:
        # `begin` holds the same lock while it sends a command, and `_take_reports` while it reads.
        with self._condition:
            command = self._command
            if self.is_dead or command is None or command.status is not None:
                return
            source = self._command_source
            if has_lost_command(self._process.pid, source, self._control, self._reports):
                command.note += LOST
                self._process.signal_tree(signal.SIGKILL)

    def _take_output(self) -> bool:
        """Take in what the terminal shows; return false once no program has it open any more."""
        data = self._pty.read()
        if data:
            self._on_bytes(data)
        return bool(data)

    def _on_bytes(self, data: bytes) -> None:
        # `begin` holds the same lock, so it hands on all late output to the command it begins.
        with self._condition:
            command = self._command
            if command is None or command.is_marked:
                self._keep_late(data)
                return
        text, after = command.split(data)
        self._emit(command, text)
        if after is not None:
            command.is_marked = True
            self._keep_late(after)
            if command.status is not None:
                self._end(command)

    def _take_reports(self) -> bool:
        """Take in what bash reports; return false once only other programs are left, or none."""
        with self._condition:
            try:
                data = self._reports.recv(1 << 16)
            except ConnectionResetError:  # It ended without reading all that was sent.
                data = b""
            command = self._command
            for report in data.split(b"\0")[:-1]:
                mark, _, rest = report.partition(b" ")
                status, _, cwd = rest.partition(b" ")
                # Any other report was written by a command that found the descriptor.
                if command is not None and mark == command.mark:
                    self.cwd, command.status = Path(os.fsdecode(cwd)), int(status)
            runs = command is not None and command.exit_code is None
        if command is not None and runs and command.is_marked and command.status is not None:
            self._end(command)
        return bool(data)

    def _end(self, command: ShellCommand) -> None:
        self._emit(command, command.take_rest())
        with self._condition:
            command.end()
            self._screen.settle()
            self._condition.notify_all()
            if not self.is_dead and is_unread_there(self._reports):
                # An interrupted command has left its secrets there, which the next one would get.
                self.is_dead = True
                reaper.send_signal({self._process.pid}, signal.SIGKILL)
        if command.is_job:
            self.on_job_end()

    def _on_exit(self, exit_code: int) -> None:
        # A thread that holds the condition and finds the shell alive may use its descriptors.
        with self._condition:
            command, self.is_dead = self._command, True
        if command and command.exit_code is None:
            command.status = exit_code
            command.note += SHELL_ENDED
            self._end(command)
        self._descriptors.close()

    def _emit(self, command: ShellCommand, text: str) -> None:
        if not text:
            return
        text = text.replace(self._error_prefix, "bash: ")  # The file is none of the model's.
        with self._condition:
            command.capture.add(text)
            self._screen.add(text)
            command.active = time.monotonic()
            output, on_output = text[: self._n_live_left], self._on_output
            self._n_live_left -= len(output)
        if output:
            on_output(output)

    def _keep_late(self, data: bytes) -> None:
        text = self._late_cleaner.feed(data)
        with self._condition:
            self._screen.add(text)
            self._late = (self._late + text)[-_MAX_LATE_CHARS:]
