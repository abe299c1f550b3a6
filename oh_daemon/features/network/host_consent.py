"""Whether programs in the sandbox may connect to a host: by settings, earlier answers or the user.

A question belongs to the command that runs, and is withdrawn with it or with the turn. It does not
hold up the worker: only the connection waits, and the command with it. Safe from any thread.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from typing import TypeGuard

from msgspec import Struct

from oh_daemon.common.hosts import PLACE, REGISTRIES, Host, Reach, is_named, parse_host
from oh_daemon.common.plain_text import clip_line, first_line
from oh_daemon.features.approval.judgement import Policy
from oh_daemon.features.approval.open_ends import HOST_REFUSED
from oh_daemon.kernel.approval_requests import approval_options, key_of, never_asks, new_approval
from oh_daemon.kernel.journal import Journal, new_id
from oh_daemon.kernel.ports import Intent
from oh_daemon.kernel.state import State
from oh_daemon.protocol import events as e
from oh_daemon.protocol import plain
from oh_daemon.protocol.approvals import Approval, HostSubject
from oh_daemon.protocol.items import NoticeItem

GROUP = "package registries (pip, npm, cargo, go)"
_LOCAL = "it is this machine or as near; services of this machine are asked for with `services`"
UNASKED = "the user is not asked, but can name it in the setting `hosts`"
_MAX_REPORTED = 20
BROWSER = "playwright"
"""The MCP server whose calls reach hosts as commands do."""
_NO_TURN = "no turn is under way in which the user could be asked"
_REJECTED = "the user does not allow it"
_UNANSWERED = "the user was asked and did not answer"


class HostQuestion(Struct, frozen=True, eq=False):
    """A question that the user has not answered yet."""

    subject: HostSubject
    answer: Future[plain.ApprovalResolved]
    terminal_id: str
    """The terminal of the command that connects; "" for the browser."""
    start_s: float
    """When it was asked, on the clock of the journal."""

    @property
    def host(self) -> str:
        return str(Host(self.subject.host, self.subject.port))

    @property
    def is_allowed(self) -> bool:
        """Whether the user has allowed it."""
        answer = self.answer
        is_there = answer.done() and not answer.cancelled() and answer.exception() is None
        return is_there and answer.result()["decision"]["effect"] == "allow"


class HostConsent:
    """Decides for the programs of one conversation."""

    def __init__(
        self,
        journal: Journal,
        policy: Policy,
        hosts: Callable[[], Sequence[str]],
        registries: Callable[[], Sequence[str]],
    ) -> None:
        """`allowed` are the patterns of the setting, `registries` those of the user's tools."""
        self._journal = journal
        self._policy = policy
        self._hosts = hosts
        self._registries = registries
        self._questions: dict[str, HostQuestion] = {}
        self._rejections: set[tuple[str, str | None]] = set()
        """What the user did not allow, each with the turn."""
        self._refusals: dict[str, dict[str, str]] = {}
        """Why hosts were refused since they were reported, by terminal and host."""
        self._waited_s: dict[str, dict[str, float]] = {}
        """The seconds that answers took since they were reported, by terminal and host."""
        self._reported_hosts: dict[str | None, set[Host]] = {}
        """Hosts that a notice is about, by turn."""
        self._ended_questions: set[HostQuestion] = set()
        """Questions whose command ended and was reported before the user answered."""

    @property
    def is_asking(self) -> bool:
        return bool(self._questions)

    @property
    def questions(self) -> Sequence[HostQuestion]:
        """Those that the user has not answered yet."""
        return [*self._questions.values()]

    @property
    def has_call(self) -> bool:
        """Whether a command or a call of the browser runs."""
        cause = _cause_in(self._journal.state)
        return cause is not None and cause["status"] == "running"

    @property
    def conversation_id(self) -> str:
        return self._journal.id

    def services(self) -> list[Host]:
        """Return the services of this machine that the setting names, by their addresses."""
        hosts = (parse_host(each) for each in self._hosts() if PLACE.fullmatch(each))
        return [host for host in hosts if host.is_service]

    def take_waited(self, terminal_id: str) -> Mapping[str, float]:
        """Return the seconds that the user took for each answer about a terminal's command."""
        return self._waited_s.pop(terminal_id, {})

    def take_refused(self, terminal_id: str = "", *, has_ended: bool = False) -> str | None:
        """Return a line for the model about hosts that were refused to a terminal's command.

        `has_ended` is whether that command has ended, so that an answer comes too late for it.
        """
        refusals = self._refusals.pop(terminal_id, {})
        for question in self.questions if has_ended else ():
            if question.terminal_id == terminal_id:
                self._ended_questions.add(question)
                refusals[question.host] = _UNANSWERED
        return f"[{_refusal_text(refusals)}]" if refusals else None

    def take_news(self, terminal_id: str) -> str:
        """Return lines about questions and refusals of jobs in all terminals but this one."""
        state = self._journal.state
        open_items = map(state.item, state.open_items)
        # A command in front gets its lines with its own result.
        others = {"", terminal_id, *(_terminal_of(item) for item in open_items if _is_cause(item))}
        rows = [
            f"[{question.terminal_id} waits for the user's answer about {question.host}]"
            for question in self.questions
            if question.terminal_id not in others
        ]
        rows += [
            f"[{name}: {_refusal_text(self._refusals.pop(name))}]"
            for name in self._refusals.keys() - others
        ]
        return "\n".join(rows)

    def settle(
        self, host: Host, reach: Reach, jobs: Collection[str] = ()
    ) -> str | HostQuestion | None:
        """Return None if programs may connect, why not, or what the user is being asked.

        `jobs` are the terminals in which commands run in the background.
        """
        cause = _cause_in(self._journal.state, jobs)
        verdict = self._settled_verdict(host, reach, cause)
        if isinstance(verdict, str):
            self._refuse(_terminal_of(cause), host, verdict)
        return verdict

    def _refuse(self, terminal_id: str, host: Host, why: str) -> None:
        self._refusals.setdefault(terminal_id, {})[str(host)] = why

    def take(
        self, host: Host, question: HostQuestion, answer: plain.ApprovalResolved | None
    ) -> str | None:
        """Keep an answer, None if there will be none; return why programs may not connect."""
        was_reported = question in self._ended_questions
        self._ended_questions.discard(question)
        waited_s = self._waited_s.setdefault(question.terminal_id, {})
        waited_s[str(host)] = self._journal.clock.monotonic() - question.start_s
        decision = answer["decision"] if answer else None
        if decision is not None and decision["effect"] == "allow":
            if decision["scope"] in {"folder", "user"}:
                self._policy.save_grant(key_of(question.subject))
            return None
        is_rejected = answer is not None and answer["by"] == "user"
        if is_rejected:
            self._rejections.add((key_of(question.subject), self._journal.state.turn_id))
        feedback = answer.get("feedback") if answer else None
        why = (_REJECTED if is_rejected else _UNANSWERED) + (f": {feedback}" if feedback else "")
        if not was_reported:
            self._refuse(question.terminal_id, host, why)
        return why

    def _settled_verdict(
        self, host: Host, reach: Reach, cause: plain.ToolItem | None
    ) -> str | HostQuestion | None:
        subject = self._subject(host, reach)
        if reach == "local" and not host.is_address:
            return _LOCAL
        if self._is_allowed(host, reach, subject):
            return None
        if reach == "local":
            return _LOCAL
        if never_asks(self._journal.state.options_now) or not self._policy.can_ask():
            self._report_refusal(host)
            return UNASKED
        return self._ask(subject, host, cause)

    def _report_refusal(self, host: Host) -> None:
        """Put a notice about the host into the log, once a turn, if no client can ask."""
        state = self._journal.state
        with self._journal.condition:
            hosts = self._reported_hosts.setdefault(state.turn_id, set())
            if self._policy.can_ask() or state.turn is None or self._journal.is_closing:
                return
            if host in hosts or len(hosts) == _MAX_REPORTED:
                return
            hosts.add(host)
            notice = NoticeItem(
                id=new_id(),
                status="rejected",
                reason="policy" if never_asks(state.options_now) else "noClient",
                severity="warning",
                code=HOST_REFUSED,
                about=str(host),
                title=f"no connection to {host}",
                description="the user was not asked; the setting `hosts` can allow it",
            )
            self._journal.append(e.ItemCompleted(item=notice))

    def _is_allowed(self, host: Host, reach: Reach, subject: HostSubject) -> bool:
        hosts, state = self._hosts(), self._journal.state
        if is_named(host, hosts) or (subject.group and REGISTRIES in hosts):
            return True
        if state.options_now["mode"] == "full" and (reach == "public" or subject.group):
            return True
        key = key_of(subject)
        return key in {*state.grants, *state.turn_grants, *self._policy.grants()}

    def _subject(self, host: Host, reach: Reach) -> HostSubject:
        registries = self._registries()
        if reach != "local" and is_named(host, registries):
            return HostSubject(
                host=host.name, port=host.port, group=GROUP, hosts=tuple(sorted(registries))
            )
        is_private = True if reach == "private" else None
        return HostSubject(host=host.name, port=host.port, is_private=is_private)

    def _ask(
        self, subject: HostSubject, host: Host, cause: plain.ToolItem | None
    ) -> HostQuestion | str:
        journal = self._journal
        key = key_of(subject)
        with journal.condition:
            if key in self._questions:
                return self._questions[key]
            state = journal.state
            if state.turn is None or cause is None or journal.is_closing:
                return _NO_TURN
            if (key, state.turn_id) in self._rejections:
                return _REJECTED
            approval = self._approval(subject, host, cause)
            journal.append(e.ApprovalRequested(approval=approval))
            answer = journal.await_record(_answer_to(approval.id))
            question = self._questions[key] = HostQuestion(
                subject, answer, _terminal_of(cause), journal.clock.monotonic()
            )
            answer.add_done_callback(lambda _: self._questions.pop(key))
        journal.log.sync()
        return question

    def _approval(self, subject: HostSubject, host: Host, cause: plain.ToolItem) -> Approval:
        what = f"the {subject.group}" if subject.group else str(host)
        where = ", whose address is not public" if subject.is_private else ""
        risk = "high" if subject.is_private else "medium"
        text = cause["command"] if cause["kind"] == "command" else cause["title"]
        why = f"`{clip_line(first_line(text), 80)}` connects to {host}{where}"
        who = "commands" if cause["kind"] == "command" else "the browser and commands"
        intent = Intent(f"Let {who} connect to {what}?", subject, risk, (why,))
        options = approval_options(subject, risk, floor=False)
        state, now = self._journal.state, self._journal.clock.now()
        return new_approval(state, now, cause["id"], intent, options)


def _cause_in(state: State, jobs: Collection[str] = ()) -> plain.ToolItem | None:
    """Return the command or browser call that runs; else the last of the jobs, else the last."""
    calls = [item for item in reversed(state.items) if _is_cause(item)]
    running_calls = [call for call in calls if call["status"] == "running"]
    in_background = [call for call in calls if _terminal_of(call) in jobs]
    return next(iter((*running_calls, *in_background, *calls)), None)


def _refusal_text(refusals: Mapping[str, str]) -> str:
    return f"no connection to {'; '.join(f'{host}: {why}' for host, why in refusals.items())}"


def _terminal_of(item: plain.ToolItem | None) -> str:
    return item.get("terminalId", "") if item is not None else ""


def _is_cause(item: plain.Item) -> TypeGuard[plain.CommandItem | plain.ToolCallItem]:
    is_browser = item["kind"] == "toolCall" and item["tool"].startswith(f"{BROWSER}__")
    return is_browser or item["kind"] == "command"


def _answer_to(approval_id: str) -> Callable[[plain.Record], plain.ApprovalResolved | None]:
    def read(record: plain.Record) -> plain.ApprovalResolved | None:
        event = record["event"]
        if event["type"] == "approval.resolved" and event["approvalId"] == approval_id:
            return event
        return None

    return read
