"""An action held for approval: who is asked, what an answer covers, and when to ask again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import pytest
from core_world import ATTENDED, NoContext
from msgspec.structs import replace

from oh_daemon.common.masking import Masker
from oh_daemon.features.approval.consent import Consent
from oh_daemon.features.approval.judgement import NO_POLICY, Policy
from oh_daemon.features.hooks.hooks import NO_HOOKS, HookPoints, HookRun, HookRunner
from oh_daemon.kernel.approval_requests import approval_options, new_approval
from oh_daemon.kernel.conversation import Conversation
from oh_daemon.kernel.extension_points import Gate, Rejection
from oh_daemon.kernel.ports import Intent, Json, ToolContext, ToolResult, ToolSpec
from oh_daemon.kernel.state import State
from oh_daemon.protocol import events as e
from oh_daemon.protocol import plain
from oh_daemon.protocol.approvals import CommandSubject, Decision, HostSubject, TrustSubject
from oh_daemon.protocol.checkpoints import ChangesPlanned
from oh_daemon.protocol.errors import ApprovalNotFoundError, ApprovalStaleError
from oh_daemon.protocol.items import CommandItem, ModelCall, Risk
from oh_daemon.protocol.rules_and_hooks import HookCommand, HookGroup
from oh_daemon.storage.memory_log import MemoryLog


class FixedClock:
    """A clock that stands still."""

    def now(self) -> str:
        return "2026-01-01T00:00:00.000Z"

    def monotonic(self) -> float:
        return 0.0


class Terminal:
    """A tool that only plans; `risks` rates commands, and all others are of medium risk."""

    spec = ToolSpec("terminal", "", {"properties": {"command": {"type": "string"}}}, kind="execute")

    def __init__(self, **risks: Risk) -> None:
        self.risks = risks

    def plan(self, args: Json) -> Intent:
        subject = CommandSubject(command=args["command"], cwd="/p")
        risk = self.risks.get(args["command"], "medium")
        return Intent(args["command"], subject, risk, ("a reason",), editable=True)

    def run(self, args: Json, context: ToolContext) -> ToolResult:
        raise NotImplementedError


class World:
    """A conversation in which the model asked for the command `make`."""

    def __init__(
        self, policy: Policy = ATTENDED, hooks: HookRunner = NO_HOOKS, **risks: Risk
    ) -> None:
        options = {"mode": "ask", "approval": "askRisky", "model": "m"}
        state = State("c1", options=options, created_at="2026-01-01T00:00:00Z")
        self.conversation = Conversation(
            state, MemoryLog(), NoContext(), epoch="1", clock=FixedClock(), masker=Masker()
        )
        self.tool = Terminal(**risks)
        points = HookPoints(self.conversation.journal, hooks)
        self.consent = Consent(self.conversation, policy, points)
        self.conversation.journal.append(e.TurnStarted(cause="message"), turn_id="t1")
        self.open_action("i1", "make")

    def open_action(self, item_id: str, command: str) -> None:
        call = ModelCall(id=item_id, name="terminal", arguments="{}", batch="b1")
        item = CommandItem(
            id=item_id,
            status="pending",
            tool="terminal",
            args={"command": command},
            call=call,
            command=command,
            cwd="/p",
            terminal_id="main",
        )
        self.conversation.journal.append(e.ItemStarted(item=item))

    def settle(
        self, item_id: str = "i1", *changes: str, again: bool = False
    ) -> Intent | Rejection | None:
        item: Any = self.conversation.state.item(item_id)
        intent = replace(self.tool.plan(item["args"]), digest_material=changes)
        return self.consent.settle(item, self.tool, intent, again=again)

    @property
    def item(self) -> Any:
        return self.conversation.state.item("i1")

    @property
    def log(self) -> list[bytes]:
        return self.conversation.journal.lines()

    @property
    def pending(self) -> list[plain.Approval]:
        return list(self.conversation.state.approvals.values())

    def answer(self, effect: str = "allow", scope: str = "once", **more: object) -> Json:
        approval = self.pending[0]
        decision = Decision.model_validate({"effect": effect, "scope": scope})
        respond = self.conversation.decisions.respond
        return respond(approval["id"], approval["digest"], decision, **more)  # type: ignore[arg-type]


def test_a_risky_action_waits_until_it_is_allowed() -> None:
    world = World()
    assert world.settle() is None
    assert world.settle() is None
    assert [(a["title"], a["risk"], a.get("reason")) for a in world.pending] == [
        ("make", "medium", "a reason")
    ]
    assert world.answer() == {"resolved": True}
    assert isinstance(world.settle(), Intent)


def test_a_harmless_action_runs_and_the_log_says_by_which_rule() -> None:
    world = World(make="low")
    assert isinstance(world.settle(), Intent)
    *_, last_line = world.conversation.journal.log.read_range(1, world.conversation.state.seq)
    decision = orjson.loads(last_line)["event"]
    assert (decision["effect"], decision["rule"]) == ("allow", "low risk")
    assert isinstance(world.settle(), Intent)


def test_an_answer_that_comes_while_the_action_is_looked_at_is_not_asked_for_again() -> None:
    def gates(_spec: ToolSpec, _intent: Intent) -> list[Gate]:
        if world.pending:
            world.answer()
        return []

    world = World(replace(ATTENDED, gates=gates))
    assert world.settle() is None
    assert world.settle() is None
    assert world.pending == []
    assert isinstance(world.settle(), Intent)


def test_what_waits_runs_under_looser_options_exactly_as_it_was_shown() -> None:
    world = World()
    world.settle()
    assert world.settle(again=True) is None
    world.conversation.state.options["approval"] = "askNever"
    assert world.settle("i1", "it has changed", again=True) is None
    assert len(world.pending) == 1
    assert isinstance(world.settle(again=True), Intent)
    assert not world.pending
    decision_event, resolution_event = (orjson.loads(line)["event"] for line in world.log[-2:])
    assert (decision_event["code"], decision_event["rule"]) == ("neverAsks", "approval askNever")
    assert (resolution_event["by"], resolution_event["decision"]["effect"]) == ("policy", "allow")


def _hook_outcome(
    answer: Json, on_run: Callable[[], object] = lambda: None
) -> tuple[World, list[HookCommand]]:
    """Return a world in which the action waits, and its hooks, as after a restart none has run."""
    hooks: list[HookCommand] = []
    output = orjson.dumps({"hookSpecificOutput": answer}).decode()

    def run(*_request: object) -> list[HookRun]:
        on_run()
        return [HookRun("check", 0, output, "")]

    all_hooks = replace(
        NO_HOOKS,
        table=lambda: {"PreToolUse": (HookGroup(hooks=tuple(hooks)),)},
        run=run,
        may_run=lambda _command: True,
    )
    world = World(hooks=all_hooks)
    world.settle()
    return world, hooks


@pytest.mark.parametrize("decision", ["ask", "deny"])
def test_what_a_hook_asks_about_or_denies_runs_under_no_options(decision: str) -> None:
    world, hooks = _hook_outcome({"permissionDecision": decision})
    hooks.append(HookCommand(type="command", command="check"))
    world.conversation.state.options["mode"] = "full"
    actual_decision = world.settle(again=True)
    assert isinstance(actual_decision, Rejection) == (decision == "deny")
    assert len(world.pending) == 1


def test_what_the_user_rejects_while_a_hook_rewrites_it_does_not_run() -> None:
    world, hooks = _hook_outcome(
        {"updatedInput": {"command": "make -n"}}, lambda: world.answer("reject")
    )
    hooks.append(HookCommand(type="command", command="check"))
    world.conversation.state.options["approval"] = "askNever"
    assert isinstance(world.settle(again=True), Rejection)


def test_what_a_hook_rewrites_while_it_waits_is_decided_as_what_it_became() -> None:
    world, hooks = _hook_outcome({"updatedInput": {"command": "make -n"}})
    hooks.append(HookCommand(type="command", command="check"))
    world.conversation.state.options["approval"] = "askNever"
    assert world.settle(again=True) is None
    [resolution] = world.conversation.state.resolutions.values()
    assert (resolution["by"], world.pending) == ("changed", [])
    intent = world.settle()
    assert isinstance(intent, Intent)
    assert intent.title == "make -n"


def test_a_question_of_a_program_about_a_host_waits_for_its_own_answer() -> None:
    world = World()
    journal = world.conversation.journal
    event = ChangesPlanned(changes=(), item_fields={})
    journal.append(e.ItemUpdated(status="running"), event, item_id="i1")
    intent = Intent("Connect?", HostSubject(host="a.example", port=443), "medium")
    options = approval_options(intent.subject, "medium", floor=False)
    approval = new_approval(journal.state, journal.clock.now(), "i1", intent, options)
    journal.append(e.ApprovalRequested(approval=approval))
    assert world.settle() is None
    assert world.settle(again=True) is None
    kinds = [each["subject"]["kind"] for each in world.pending]
    assert (kinds, world.item["status"]) == (["host", "command"], "awaitingApproval")
    world.answer()
    assert world.settle() is None
    assert len(world.pending) == 1
    assert world.conversation.state.decisions == {}


def test_the_mode_plan_rejects_without_asking() -> None:
    world = World()
    world.conversation.state.options["mode"] = "plan"
    message = "Not allowed: mode plan is read-only. This is not: a reason. Tools that only read may"
    answer = world.settle()
    assert isinstance(answer, Rejection)
    assert answer.text.startswith(message)
    assert world.pending == []


@pytest.mark.parametrize(
    ("feedback", "expected"),
    [
        ("use tox", Rejection("The user rejected this: use tox")),
        (
            None,
            Rejection(
                "The user rejected this. Ask what to do, or try another way.", is_for_model=True
            ),
        ),
    ],
)
def test_a_rejection_tells_the_model_what_the_user_said(feedback: str, expected: Rejection) -> None:
    world = World()
    world.settle()
    world.answer("reject", feedback=feedback)
    assert world.settle() == expected


def test_without_anybody_to_ask_the_action_is_rejected_at_once() -> None:
    world = World(NO_POLICY)
    assert world.settle() is None
    answer = world.settle()
    assert isinstance(answer, Rejection)
    assert answer.text.startswith("This was not run: the user cannot be asked")


def test_the_first_answer_wins_and_a_wrong_one_changes_nothing() -> None:
    world = World()
    world.settle()
    (approval,) = world.pending
    decisions = world.conversation.decisions
    with pytest.raises(ApprovalStaleError):
        decisions.respond(approval["id"], "0" * 64, Decision(effect="allow"))
    with pytest.raises(ApprovalNotFoundError):
        decisions.respond("other", approval["digest"], Decision(effect="allow"))
    assert world.settle() is None
    world.answer("reject")
    again = decisions.respond(approval["id"], approval["digest"], Decision(effect="allow"))
    assert again["resolved"] is False
    assert isinstance(world.settle(), Rejection)


def test_what_changed_after_it_was_allowed_is_asked_again() -> None:
    world = World()
    world.settle("i1", "hash of the script")
    world.answer()
    assert world.settle("i1", "hash of another script") is None
    assert world.pending[0].get("reason") == "it changed after you allowed it; a reason"
    assert isinstance(world.settle("i1", "hash of the script"), Intent)


def test_an_answer_for_the_conversation_covers_the_same_command_only() -> None:
    world = World()
    world.settle()
    world.answer(scope="conversation")
    world.open_action("i2", "make")
    world.open_action("i3", "make clean")
    assert isinstance(world.settle("i2"), Intent)
    assert world.settle("i3") is None


def test_an_answer_for_the_folder_is_kept_and_honored_later() -> None:
    keys_covered: set[str] = set()
    policy = replace(
        NO_POLICY,
        grants=lambda: keys_covered,
        save_grant=keys_covered.add,
        can_ask=lambda: True,
    )
    world = World(policy)
    world.settle()
    world.answer(scope="folder")
    assert isinstance(world.settle(), Intent)
    assert isinstance(World(policy).settle(), Intent)


def test_several_actions_wait_in_the_order_they_were_asked() -> None:
    world = World()
    world.open_action("i2", "make test")
    world.settle("i1")
    world.settle("i2")
    assert [approval["itemId"] for approval in world.pending] == ["i1", "i2"]


def test_the_users_own_version_runs_instead() -> None:
    world = World()
    world.settle()
    world.answer(edited_subject=CommandSubject(command="make -n", cwd="/p"))
    intent = world.settle()
    assert isinstance(intent, Intent)
    assert intent.title == "make -n"
    assert world.item["args"] == {"command": "make -n"}
    assert isinstance(world.settle(), Intent)


def test_an_edited_action_is_described_as_what_it_became() -> None:
    world = World()
    world.tool.risks["make -n"] = "low"
    world.settle()
    world.answer(edited_subject=CommandSubject(command="make -n", cwd="/p"))
    world.settle()
    item_fields = {key: world.item[key] for key in ("title", "command", "risk", "summary")}
    assert item_fields == {
        "title": "make -n",
        "command": "make -n",
        "risk": "low",
        "summary": "edited by the user",
    }


def test_an_edit_that_is_riskier_than_what_was_shown_is_asked_again() -> None:
    world = World(sudo="high")
    world.settle()
    world.answer(edited_subject=CommandSubject(command="sudo", cwd="/p"))
    assert world.settle() is None
    (approval,) = world.pending
    assert approval["risk"] == "high"
    assert approval.get("reason") == "your version is riskier than what you were shown; a reason"
    world.answer()
    intent = world.settle()
    assert isinstance(intent, Intent)
    assert intent.title == "sudo"


def _trusting(*, is_required: bool = True, refusal: str | None = None) -> tuple[Policy, list[str]]:
    scopes: list[str] = []
    gate = Gate(TrustSubject(folder="/p"), "Trust /p?", is_required, scopes.append, refusal)
    return replace(ATTENDED, gates=lambda _spec, _intent: [gate]), scopes


def test_a_gate_is_passed_once_and_then_the_action_is_settled() -> None:
    policy, scopes = _trusting()
    world = World(policy, make="low")
    assert world.settle() is None
    assert world.settle() is None
    assert world.pending[0]["title"] == "Trust /p?"
    world.answer(scope="conversation")
    assert isinstance(world.settle(), Intent)
    world.open_action("i2", "make")
    assert isinstance(world.settle("i2"), Intent)
    assert scopes == ["conversation", "conversation"]


def test_an_action_behind_an_allowed_gate_is_asked_about_as_it_is() -> None:
    world = World(_trusting()[0])
    world.settle()
    world.answer()
    assert world.settle() is None
    assert world.pending[0].get("reason") == "a reason"


@pytest.mark.parametrize(("is_required", "outcome"), [(True, Rejection), (False, Intent)])
def test_only_a_required_gate_that_is_rejected_stops_the_action(
    is_required: bool, outcome: type
) -> None:
    policy, scopes = _trusting(is_required=is_required)
    world = World(policy, make="low")
    world.settle()
    world.answer("reject")
    assert isinstance(world.settle(), outcome)
    assert scopes == []


def test_a_gate_that_may_not_ask_gives_its_own_reason() -> None:
    policy, _ = _trusting(refusal="not a trusted folder")
    assert World(policy).settle() == Rejection("not a trusted folder")
