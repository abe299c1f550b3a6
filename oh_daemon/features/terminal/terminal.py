"""The `terminal` tool: commands in persistent shells, which can be polled, typed into, interrupted.

Turns arguments into calls on `shell`, and outcomes into text. A long output is kept whole
in a blob, with secrets masked. An exit code is a fact for the model, not an error of the tool.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

from msgspec.structs import replace

from oh_daemon.common.hosts import PLACE, Host, parse_host
from oh_daemon.common.masking import ExposedSecrets
from oh_daemon.common.plain_text import clip_line
from oh_daemon.features.risk.binding import bind
from oh_daemon.features.risk.rating import Rating
from oh_daemon.features.terminal.bash import Bash
from oh_daemon.features.terminal.command_output import (
    MAX_TOKENS,
    POLL_TOKENS,
    Excerpt,
    OutputText,
    collapse_lines,
)
from oh_daemon.features.terminal.hints import HostFacts, find_hints, find_hints_outside, kind_of
from oh_daemon.features.terminal.shell import Shells
from oh_daemon.features.terminal.shell_command import CommandOutcome
from oh_daemon.kernel.ports import (
    Footprint,
    Intent,
    Json,
    ToolContext,
    ToolResult,
    ToolSpec,
    for_model,
)
from oh_daemon.kernel.prompt import true_rows
from oh_daemon.kernel.tool_schemas import takes
from oh_daemon.protocol.approvals import CommandSubject
from oh_daemon.protocol.forms import ToolFields
from oh_daemon.system.proc import listening_ports
from oh_daemon.system.pty import KEYS
from oh_daemon.workspace.paths import printable

DEFAULT_TIMEOUT_S = 30.0
_BACKGROUND_WAIT_S = 1.0
_NOT_TYPED = "The command had ended before, so nothing was typed. This came of it:"
_MAX_TITLE_CHARS = 200
_STOPPED = frozenset({128 + signal.SIGINT, 128 + signal.SIGTERM, 128 + signal.SIGTSTP})
"""Exit codes of a command that a key ended; what it still wrote is of little use."""
_EXACT_KEYS = ", ".join(sorted(key for key in KEYS if not key.startswith("C-")))

_DESCRIPTION = f"""Run a bash command, of several lines if you like, in a shell that keeps its \
folder, variables and functions.
Long output is cut in the middle, where the file that has all of it is named.
timeout_s (default {DEFAULT_TIMEOUT_S:g}) is how long this call waits. Nothing is killed by time: \
a command that takes longer stays alive. To go on with it set is_input and give as command: \
"" to wait for more output; text, typed with Enter at its end (a last \\n is that Enter); or one \
key, C-c (stop it), C-d (end of input), C-z and so on, {_EXACT_KEYS}.
background starts a server or a watcher in a terminal of its own and returns after a second.
terminal_id names a shell, "main" by default; each runs one command at a time.
A secret that the user exposed is a variable of each command that names it, and of no other; \
naming it needs approval. There is no pager, editor or password prompt: use options like --yes and \
-m.
Examples: {{"command": "npm run dev", "background": true}}
{{"command": "C-c", "is_input": true, "terminal_id": "job-1"}}
?overlay ?buffers Commands run in a sandbox, which sees the workspace with the editor's unsaved \
texts.
?overlay ?!buffers Commands run in a sandbox.
?overlay HTTP goes through the proxy in the environment, to hosts that the user allows: try it, \
the result says which were refused.
?overlay ?isolated What commands change stays there with your edits, where all your tools see it, \
until the user applies it, with what you commit.
?overlay ?!isolated What commands change in the workspace needs the approval that an edit needs; \
the result says what was kept. Changes elsewhere are lost; what git ignores stays in the sandbox.
?overlay Files with secrets that git does not track, such as .env, keys and credentials, are empty \
there. Only the user can change that: by exposing a secret, or by the setting sandboxReads.
?overlay ?!isolated git: commits, branches, stashes and what is staged are kept with all files of \
a command, or not at all.
?overlay Only outside: git push, git by ssh, git config, new submodules. Commits are signed, with \
new names, when they are kept.
?landlock Commands that only read run where they can neither write nor use the network.
?!overlay ?buffers Commands read the disk. A file with unsaved changes is older there; the result \
says so."""

_SCHEMA = takes(
    ["command"],
    command={"type": "string"},
    timeout_s={"type": "number", "minimum": 0, "maximum": 3600},
    background={"type": "boolean"},
    is_input={"type": "boolean"},
    terminal_id={"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,39}$"},
)

_SERVICES = {
    "type": "array",
    "items": {"type": "string", "pattern": f"^{PLACE.pattern}$"},
    "minItems": 1,
    "maxItems": 8,
    "description": "Services of this machine that the command needs, such as a database, each as"
    " 127.0.0.1:PORT: its address in the sandbox too, from then on. This needs approval.",
}
_OUTSIDE = {
    "type": "string",
    "minLength": 1,
    "maxLength": 300,
    "description": "Why it must run outside the sandbox: more network than HTTP, Docker, a device,"
    " a place outside the workspace. This needs approval each time.",
}
_IN_SANDBOX = {"outside": _OUTSIDE, "services": _SERVICES}
_KILLED = -signal.SIGKILL

_SCHEMA_IN_SANDBOX = {**_SCHEMA, "properties": {**_SCHEMA["properties"], **_IN_SANDBOX}}


def terminal_spec(facts: Collection[str]) -> ToolSpec:
    """Return the spec of the tool where these facts are true; see `true_rows`."""
    schema = _SCHEMA_IN_SANDBOX if "overlay" in facts else _SCHEMA
    return ToolSpec("terminal", true_rows(_DESCRIPTION, facts), schema, kind="execute")


HELD = "it runs in the sandbox, where it changes nothing outside"
READS = "it runs where it can only read, without network"

Rate = Callable[[str, Path | None], Rating]


class CommandNetwork(Protocol):
    """What connects commands in a sandbox with hosts, services and the user."""

    def offer(self, services: Sequence[Host]) -> None:
        """Let commands reach these services of this machine. Raises `ToolError`."""
        ...

    def look(self) -> None:
        """See what commands listen on."""
        ...

    def listening_ports(self) -> Collection[int]:
        """Return the ports on which commands listen now."""
        ...

    def take_refused(self, shells: Shells, terminal_id: str, *, has_ended: bool) -> str | None:
        """Return a line about the hosts that were refused to the command of a terminal."""
        ...

    def take_waited(self, shells: Shells, terminal_id: str) -> Mapping[str, float]:
        """Return the seconds that the user took for each answer about a terminal's command."""
        ...

    def take_news(self, shells: Shells, terminal_id: str) -> str:
        """Return lines about hosts and the jobs in all terminals but this one."""
        ...


class BeforeRun(Protocol):
    """Called before each command; returns a note for the model."""

    def __call__(self, command: str, *, is_outside: bool) -> str | None:
        """`is_outside` is whether the command runs outside an existing sandbox."""
        ...


class TerminalTool:
    """Implements `kernel.ports.Tool`."""

    def __init__(
        self,
        shells: Shells,
        *,
        rate: Rate,
        output: OutputText,
        secrets: ExposedSecrets,
        before_run: BeforeRun | None = None,
        network: CommandNetwork | None = None,
    ) -> None:
        """`network` is set where commands run in a sandbox."""
        self.spec = terminal_spec({"overlay"} if shells.are_sandboxed else ())
        self._shells = shells
        self._rate = rate
        self._output = output
        self._secrets = secrets
        self._masker = secrets.masker
        self._before_run = before_run
        self._network = network

    def plan(self, args: Json) -> Intent:
        command, terminal_id = args["command"], self._terminal_id(args)
        cwd = self._shells.cwd(terminal_id)
        rating, touched_paths = self._rate_command(args, cwd)
        footprint = replace(touched_paths, terminal=terminal_id)
        outside, files = args.get("outside"), bind(rating)
        # The running program decides what becomes of a text that is typed into it.
        runs_other_files = bool(args.get("is_input")) or not files.is_whole
        return Intent(
            title=_title(args, terminal_id),
            subject=CommandSubject(
                command=command,
                cwd=str(cwd),
                outside=outside,
                files=files.files or None,
                runs_other_files=runs_other_files or None,
            ),
            risk=rating.risk,
            reasons=(f"outside the sandbox: {outside}",) if outside else rating.reasons,
            confinement=self._confinement(args, rating),
            services=self._services_in(args),
            leaves=outside is not None,
            footprint=footprint,
            segments=rating.segments,
            digest_material=(
                args.get("terminal_id", ""),
                str(bool(args.get("is_input"))),
                *self._secret_names(args),
            ),
            editable=True,
            item_fields={
                "kind": "command",
                "toolKind": "execute",
                "command": command,
                "cwd": str(cwd),
                "terminalId": terminal_id,
            },
        )

    def run(self, args: Json, context: ToolContext) -> ToolResult:
        terminal_id, command = self._terminal_id(args), args["command"]
        # A question about a host knows its command by the terminal in the log.
        logged_id = terminal_id
        is_background, is_input = bool(args.get("background")), bool(args.get("is_input"))
        timeout_s = args.get(
            "timeout_s", _BACKGROUND_WAIT_S if is_background else DEFAULT_TIMEOUT_S
        )
        unsaved_note, note = None, None
        if context.confinement == READS:
            terminal_id, shell = self._shells.open_reader(terminal_id)
            command_outcome = None
        elif self._is_apart(args):
            terminal_id, shell = self._shells.open_apart(terminal_id)
            command_outcome = None
        else:
            command_outcome = self._take_ended(terminal_id)
            shell = self._shell(args, terminal_id)
        if is_input and command_outcome is not None:
            return self._result(command_outcome, terminal_id, _NOT_TYPED if command else None)
        if is_input:
            shell.listen(context.on_output)
            if command:
                shell.type(command)
        else:
            unsaved_note, note = self._notes(terminal_id, command_outcome, args)
            secrets = self._secrets.values_of(self._secret_names(args))
            shell.begin(command, context.on_output, is_background=is_background, variables=secrets)
        outcome = shell.wait(
            timeout_s=timeout_s, cancel=context.cancel, needs_output=is_input and not command
        )
        outcome = self._with_hosts(outcome, logged_id)
        result = self._result(outcome, terminal_id, note, is_look=is_input)
        if unsaved_note is None:
            return result
        return replace(
            result, content=(for_model(self._masker.mask(unsaved_note)), *result.content)
        )

    def _take_ended(self, terminal_id: str) -> CommandOutcome | None:
        outcome = self._shells.take_ended(terminal_id)
        return outcome and self._with_hosts(outcome, terminal_id)

    def _with_hosts(self, outcome: CommandOutcome, terminal_id: str) -> CommandOutcome:
        """Return the outcome with the hosts that were refused to it, or for which it waited."""
        if self._network is None:
            return outcome
        self._network.look()
        has_ended = outcome.state == "done"
        refusals = self._network.take_refused(self._shells, terminal_id, has_ended=has_ended)
        note = "\n".join(filter(None, (outcome.note, refusals)))
        waited_s = self._network.take_waited(self._shells, terminal_id)
        return replace(outcome, note=note, waited_s=waited_s)

    def _is_apart(self, args: Json) -> bool:
        """Whether the command gets a secret, where commands run that nobody approved."""
        is_inside = self._shells.are_sandboxed and args.get("outside") is None
        return is_inside and bool(self._secret_names(args))

    def _shell(self, args: Json, terminal_id: str) -> Bash:
        if args.get("is_input"):
            return self._shells.existing(terminal_id)
        return self._shells.open(terminal_id, outside=args.get("outside") is not None)

    def _confinement(self, args: Json, rating: Rating) -> str | None:
        """Return why a command can do no harm, if something keeps it from that."""
        if args.get("outside") is not None or self._secret_names(args):
            return None
        if self._shells.are_sandboxed:
            return HELD
        stays = not args.get("is_input") and not args.get("background") and not _moves(rating)
        return READS if self._shells.have_readers and stays and rating.only_reads else None

    def _services_in(self, args: Json) -> tuple[Host, ...]:
        is_inside = self._shells.are_sandboxed and args.get("outside") is None
        return tuple(map(parse_host, args.get("services", ()))) if is_inside else ()

    def _notes(
        self, terminal_id: str, outcome: CommandOutcome | None, args: Json
    ) -> tuple[str | None, str | None]:
        """Return what to tell the model alone, and the end of the previous command, if any."""
        is_outside = args.get("outside") is not None
        unsaved_note = (
            self._before_run(args["command"], is_outside=is_outside) if self._before_run else None
        )
        if self._network is not None:
            self._network.offer(self._services_in(args))
        if outcome is None:
            return unsaved_note, None
        *before, _ = self._texts(outcome, terminal_id, None, MAX_TOKENS)
        return unsaved_note, "\n".join(("[the command before]", *filter(None, before), "[now]"))

    def _secret_names(self, args: Json) -> tuple[str, ...]:
        """Return the exposed secrets that a command gets; text typed into a program gets none."""
        return () if args.get("is_input") else self._secrets.named_in(args["command"])

    def _terminal_id(self, args: Json) -> str:
        """Return the id in the arguments; without one, a background job gets a new terminal."""
        usual = "main" if args.get("outside") is None else "outside"
        default = self._shells.free_name() if args.get("background") else usual
        return str(args.get("terminal_id", default))

    def _rate_command(self, args: Json, cwd: Path) -> tuple[Rating, Footprint]:
        command, is_input = args["command"], args.get("is_input")
        if is_input and not command:
            return Rating("low", (), segments=()), Footprint(writes=False, paths=frozenset())
        if is_input and command in KEYS:
            return Rating("low", (), segments=()), Footprint()
        rating = self._rate(command, cwd)
        if secret_names := self._secret_names(args):
            # Whatever the command does with the secrets cannot be undone.
            gets = (
                f"it gets the secret {', '.join(secret_names)}, which it can store or send itself"
            )
            reasons = (gets, *rating.reasons)
            rating = rating._replace(risk="high", reasons=reasons)
        if is_input and rating.risk == "low":
            typing_reasons = ("it is typed into a running program",)
            return rating._replace(risk="medium", reasons=typing_reasons), Footprint()
        return rating, Footprint(writes=rating.risk != "low")

    def _result(
        self, outcome: CommandOutcome, terminal_id: str, note: str | None, *, is_look: bool = False
    ) -> ToolResult:
        """`is_look` is whether the call began no command."""
        was_stopped = outcome.exit_code in _STOPPED
        max_tokens = (
            POLL_TOKENS if is_look and (outcome.state != "done" or was_stopped) else MAX_TOKENS
        )
        shown_text, for_model_only, excerpt = self._texts(outcome, terminal_id, note, max_tokens)
        code = outcome.exit_code
        facts: ToolFields = {
            "exitCode": code,
            "signal": -code if code is not None and code < 0 else None,
            "terminalId": terminal_id,
            "truncated": excerpt.is_cut or None,
            "outputRef": excerpt.blob,
        }
        parts = ({"type": "text", "text": shown_text},) if shown_text else ()
        return ToolResult((*parts, for_model(for_model_only)), item_fields=facts)

    def _texts(
        self, outcome: CommandOutcome, terminal_id: str, note: str | None, max_tokens: int
    ) -> tuple[str, str, Excerpt]:
        """Return what all read, what only the model reads then, and what of it is the output."""
        excerpt, late = self._output.render(outcome.output, max_tokens), outcome.late
        for_all = (
            note,
            f"[from jobs in the background]\n{collapse_lines(late)}\n[now]" if late.strip() else "",
            excerpt.text,
            outcome.note,
            _state(outcome),
        )
        for_model_only = (
            self._hints(outcome, terminal_id),
            self._shells.take_news(),
            self._network.take_news(self._shells, terminal_id) if self._network else "",
            _next(outcome, terminal_id),
        )
        shown_text, texts = (
            "\n".join(part.rstrip("\n") for part in parts if part)
            for parts in (for_all, for_model_only)
        )
        return self._masker.mask(shown_text), self._masker.mask(texts), excerpt

    def _hints(self, outcome: CommandOutcome, terminal_id: str) -> str:
        """Return why the sandbox kept commands from something, also if the last one succeeded."""
        if not self._shells.are_sandboxed:
            return ""
        if outcome.exit_code == _KILLED:
            return self._shells.take_why_ended()
        is_outside = self._shells.is_outside(terminal_id)
        is_shown = is_outside or outcome.state == "running"
        host = HostFacts(
            kind_of,
            partial(listening_ports, os.getpid()),
            self._network.listening_ports if self._network and is_shown else tuple,
        )
        output_text = f"{outcome.output.head}\n{outcome.output.tail}"
        last = self._shells.existing(terminal_id).last
        command = last.text if last else ""
        find = find_hints_outside if is_outside else find_hints
        return "\n".join(f"[{hint}]" for hint in find(output_text, command, host))


def _moves(rating: Rating) -> bool:
    """Return whether the command is there for what it does to its shell."""
    return any(words[:1] in (("cd",), ("pushd",), ("popd",)) for words in rating.segments)


def _title(args: Json, terminal_id: str) -> str:
    command = clip_line(printable(args["command"].strip()), _MAX_TITLE_CHARS)
    if not args.get("is_input"):
        return f"Run {command}"
    return f"Type {command} in {terminal_id}" if command else f"Wait for {terminal_id}"


def _state(outcome: CommandOutcome) -> str:
    """Return what people need to be told of a command that goes on."""
    time = f"{outcome.duration_s:.1f} s"
    match outcome.state:
        case "done":
            return ""
        case "waitingForInput":
            return f"[waiting for input after {time}]"
        case "running" if outcome.waited_s:
            waits = "; ".join(
                f"it waited {seconds:.1f} s of them for the user's answer about {host}"
                for host, seconds in outcome.waited_s.items()
            )
            return f"[still running after {time}; {waits}]"
        case "running":
            return f"[still running after {time}]"


def _next(outcome: CommandOutcome, terminal_id: str) -> str:
    """Return how the command ended, or what can be done with it now."""
    again = f'with is_input and terminal_id "{terminal_id}"'
    match outcome.state:
        case "done":
            time = f"{outcome.duration_s:.1f} s"
            return f"[exit code {outcome.exit_code}, {time}, in {printable(outcome.cwd)}]"
        case "waitingForInput":
            return f"[type {again}, or press C-c or C-d]"
        case "running":
            return f'[wait {again} and command "", or press C-c]'
