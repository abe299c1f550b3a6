"""The policy as a table: options, risk, grants and floors go in, one verdict comes out."""

from __future__ import annotations

from itertools import product
from typing import Any, get_args

import pytest

from oh_daemon.features.approval.policy import decide, option_pickers
from oh_daemon.features.conversation_tools.tools import FinishTool, ThinkTool, TodoTool
from oh_daemon.kernel.approval_requests import (
    Ruling,
    approval_options,
    grant_key,
    highest_risk,
    key_of,
)
from oh_daemon.kernel.ports import Footprint, Intent, Json, Tool, ToolSpec, digest_of
from oh_daemon.kernel.tool_schemas import NOTHING
from oh_daemon.protocol.approvals import (
    CommandSubject,
    FileChangeSubject,
    HostSubject,
    ProgramFile,
    ProjectProgram,
    Subject,
    ToolSubject,
    TrustSubject,
)
from oh_daemon.protocol.items import FileChange, Risk
from oh_daemon.protocol.settings import CHOICES

_COMMAND = CommandSubject(command="make", cwd="/p")
_TERMINAL = ToolSpec("terminal", "", {}, kind="execute")
_EDIT = ToolSpec("edit", "", {}, kind="edit")
_FETCH = ToolSpec("http_get", "", {}, kind="fetch")
_SEARCH = ToolSpec("grep", "", {}, kind="search", read_only=True)


def _verdict(
    spec: ToolSpec = _TERMINAL,
    risk: Risk = "medium",
    *,
    actual_risk: Risk | None = None,
    is_granted: bool = False,
    ruled: Ruling | None = None,
    floor: bool = False,
    footprint: Footprint | None = None,
    confinement: str | None = None,
    is_rated: bool = False,
    **options: str,
) -> tuple[str, str]:
    intent = Intent(
        "make",
        _COMMAND,
        risk,
        footprint=footprint or Footprint(),
        outside_floor=floor,
        confinement=confinement,
        is_rated_by_program=is_rated,
    )
    ruling = Ruling("allow", "granted before", covers_high=True) if is_granted else ruled
    verdict = decide(spec, intent, options, self_rating=actual_risk, ruling=ruling)
    return verdict.effect, verdict.rule


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        (_verdict(risk="low"), ("allow", "low risk")),
        (_verdict(risk="medium"), ("ask", "medium risk")),
        (_verdict(risk="high"), ("ask", "high risk")),
        (_verdict(risk="unknown"), ("ask", "unknown risk")),
        (_verdict(_SEARCH, "unknown"), ("allow", "low risk")),
        (_verdict(ruled=Ruling("allow", "r")), ("allow", "r")),
        (_verdict(ruled=Ruling("allow", "r"), approval="askAlways"), ("allow", "r")),
        (_verdict(ruled=Ruling("allow", "r"), risk="high"), ("ask", "high risk")),
        (_verdict(ruled=Ruling("allow", "r"), floor=True), ("ask", "protected place")),
        (_verdict(ruled=Ruling("ask", "r"), risk="low", mode="full"), ("ask", "r")),
        (_verdict(ruled=Ruling("reject", "r"), risk="low", mode="full"), ("reject", "r")),
        (_verdict(risk="low", actual_risk="high"), ("ask", "high risk")),
        (_verdict(risk="high", actual_risk="low"), ("ask", "high risk")),
        (_verdict(_SEARCH, "low", actual_risk="high"), ("allow", "low risk")),
        (_verdict(risk="low", approval="askAlways"), ("ask", "you are asked about every action")),
        (_verdict(risk="high", approval="askNever"), ("allow", "approval askNever")),
        (_verdict(risk="high", mode="full"), ("allow", "mode full")),
        (_verdict(_EDIT, "medium", mode="autoEdit"), ("allow", "mode autoEdit")),
        (_verdict(_TERMINAL, "medium", mode="autoEdit"), ("ask", "medium risk")),
        (_verdict(_EDIT, "high", mode="autoEdit"), ("ask", "high risk")),
        (_verdict(_EDIT, "low", mode="plan"), ("reject", "mode plan is read-only")),
        (_verdict(risk="high", is_granted=True), ("allow", "granted before")),
        (_verdict(risk="low", is_granted=True, floor=True), ("ask", "protected place")),
        (
            _verdict(risk="low", mode="full", floor=True),
            ("reject", "protected places and unsaved texts are never touched without asking"),
        ),
        (
            _verdict(risk="low", footprint=NOTHING, approval="askAlways"),
            ("allow", "touches nothing"),
        ),
        (_verdict(risk="low", footprint=NOTHING, actual_risk="high"), ("allow", "touches nothing")),
        (_verdict(risk="medium", footprint=NOTHING), ("ask", "medium risk")),
        (_verdict(_FETCH, "medium", footprint=NOTHING), ("ask", "medium risk")),
        (_verdict(risk="high", confinement="held"), ("allow", "held")),
        (_verdict(risk="low", confinement="held", is_rated=True), ("allow", "held")),
        (_verdict(risk="high", confinement="held", is_rated=True), ("ask", "high risk")),
    ],
)
def test_the_strictest_rule_that_applies_decides(
    verdict: tuple[str, str], expected: tuple[str, str]
) -> None:
    assert verdict == expected


def test_only_a_call_of_low_risk_on_this_machine_runs_because_it_touches_nothing() -> None:
    risks: tuple[Risk, ...] = get_args(Risk)
    footprints = [
        Footprint(writes=writes, paths=paths, comes_last=comes_last)
        for writes, paths, comes_last in product(
            (False, True), (None, frozenset[str](), frozenset({"/p/a"})), (False, True)
        )
    ]
    passed: set[tuple[str, Risk, Risk, bool, bool]] = set()
    for spec, footprint, risk, rated, leaves, mode, approval in product(
        (_TERMINAL, _EDIT, _FETCH, _SEARCH),
        footprints,
        risks,
        (None, *risks),
        (False, True),
        CHOICES["mode"],
        CHOICES["approval"],
    ):
        intent = Intent("x", _COMMAND, risk, footprint=footprint, leaves=leaves)
        options = {"mode": mode, "approval": approval}
        verdict = decide(spec, intent, options, self_rating=rated)
        if verdict.code == "touchesNothing":
            rating = "low" if spec.read_only and risk == "unknown" else risk
            passed.add((spec.name, rating, verdict.risk, leaves, footprint.is_empty))
    assert passed == {(name, "low", "low", False, True) for name in ("terminal", "edit", "grep")}


@pytest.mark.parametrize(
    ("tool", "args"),
    [
        (ThinkTool(), {"thought": "why"}),
        (TodoTool(), {"tasks": [{"text": "a", "status": "pending"}]}),
        (FinishTool(), {"message": "done"}),
    ],
)
def test_tool_that_only_talks_runs_without_approval_in_every_mode(tool: Tool, args: Json) -> None:
    intent = tool.plan(args)
    codes = {
        decide(tool.spec, intent, {"mode": mode, "approval": approval}, self_rating=None).code
        for mode, approval in product(CHOICES["mode"], CHOICES["approval"])
    }
    assert codes == {"touchesNothing"}


@pytest.mark.parametrize(
    ("risk", "actual_risk", "expected"),
    [("low", None, "low"), ("low", "medium", "medium"), ("high", "low", "high")],
)
def test_the_model_may_raise_a_rating_and_never_lower_it(
    risk: Risk, actual_risk: Risk | None, expected: Risk
) -> None:
    assert highest_risk(risk, actual_risk) == expected


def test_a_digest_covers_the_subject_and_all_that_must_not_change() -> None:
    digest = digest_of(_COMMAND, ["sha of the script"])
    other_digests = [
        digest_of(_COMMAND, ["sha of another script"]),
        digest_of(_COMMAND),
        digest_of(CommandSubject(command="make ", cwd="/p"), ["sha of the script"]),
        digest_of(CommandSubject(command="make", cwd="/q"), ["sha of the script"]),
    ]
    assert digest not in other_digests
    assert digest == digest_of(CommandSubject(command="make", cwd="/p"), ["sha of the script"])


def test_a_grant_covers_this_command_this_file_or_this_call_only() -> None:
    change = {"uri": "file:///p/a", "op": "modify", "added": 1, "removed": 0}
    subjects: list[Any] = [
        {"kind": "command", "command": "make", "cwd": "/p"},
        {"kind": "command", "command": "make", "cwd": "/q"},
        {"kind": "fileChange", "changes": [change]},
        {"kind": "tool", "tool": "hello", "args": {}},
        {"kind": "saveDocuments", "uris": ["file:///p/a"]},
    ]
    assert len({grant_key(subject) for subject in subjects}) == len(subjects)
    later: Any = {"kind": "fileChange", "changes": [{**change, "added": 9}]}
    assert grant_key(later) == grant_key(subjects[2])
    other_subject: Any = {"kind": "saveDocuments", "uris": ["file:///p/b"]}
    assert grant_key(other_subject) == grant_key(subjects[4])


def _command(files: str = "", **fields: Any) -> CommandSubject:
    """Return a command that runs files, given as in "a=1 b=2": names and hashes."""
    pairs = (pair.split("=") for pair in files.split())
    rows = tuple(ProgramFile(uri=f"file:///p/{name}", sha256=sha256) for name, sha256 in pairs)
    return CommandSubject(command="make", cwd="/p", files=rows or None, **fields)


@pytest.mark.parametrize(
    ("granted", "now", "is_covered"),
    [
        (_command(), _command(), True),
        (_command("a=1 b=2"), _command("a=1 b=2"), True),
        (_command("a=1 b=2"), _command("a=1 b=3"), False),
        (_command("a=1"), _command("a=1 b=2"), False),
        (_command("a=1"), _command(), False),
        (_command(), _command(runs_other_files=True), False),
        (_command("a=1"), _command("a=1", runs_other_files=True), False),
        (_command("a=1", runs_other_files=True), _command("a=2", runs_other_files=True), True),
        (_command(runs_other_files=True), _command(), False),
        (_command(), _command(outside="the network"), False),
        (_command(runs_other_files=True), _command(runs_other_files=True, outside="x"), False),
    ],
)
def test_grant_of_command_covers_the_files_that_it_runs(
    granted: CommandSubject, now: CommandSubject, is_covered: bool
) -> None:
    assert (key_of(granted) == key_of(now)) is is_covered


def _programs(**fields: Any) -> TrustSubject:
    run = ProjectProgram(kind="hook", command="make", uri="file:///p/h", sha256="1", **fields)
    return TrustSubject(folder="file:///p", runs=(run,), is_trusted=True)


@pytest.mark.parametrize(
    ("subject", "is_marked"),
    [
        (_command("a=1"), False),
        (_command(runs_other_files=True), True),
        (_programs(), False),
        (_programs(runs_other_files=True), True),
    ],
)
def test_option_that_outlasts_changes_of_programs_says_so(
    subject: Subject, is_marked: bool
) -> None:
    *allow_options, _ = approval_options(subject, "medium", floor=False)
    lasting = [option.label for option in allow_options if option.scope != "once"]
    suffix = ", also after the agent changes what it runs"
    assert len(lasting) == 2
    assert [label.endswith(suffix) for label in lasting] == [is_marked] * 2


_CHANGE = FileChange(uri="file:///p/a", op="modify", added=1, removed=0)
_ONE_FILE = FileChangeSubject(changes=(_CHANGE,))
_BY_COMMAND = FileChangeSubject(changes=(_CHANGE, _CHANGE), origin="command")


@pytest.mark.parametrize(
    ("subject", "risk", "floor", "expected"),
    [
        (_COMMAND, "medium", False, ["once", "conversation", "folder"]),
        (_COMMAND, "high", False, ["once", "conversation"]),
        (ToolSubject(tool="x", args={}), "unknown", False, ["once", "conversation"]),
        (_ONE_FILE, "medium", True, ["once"]),
        (_ONE_FILE, "medium", False, ["once", "conversation", "edits", "folder"]),
        (_ONE_FILE, "high", False, ["once", "conversation"]),
        (_BY_COMMAND, "medium", False, ["once", "conversation", "folder"]),
        (TrustSubject(folder="/p"), "medium", False, ["conversation", "folder"]),
    ],
)
def test_a_person_is_offered_no_wider_answer_than_is_safe(
    subject: Subject, risk: Risk, floor: bool, expected: list[str]
) -> None:
    *allow_options, reject = approval_options(subject, risk, floor=floor)
    assert [option.scope for option in allow_options] == expected
    assert (reject.id, reject.effect, reject.scope) == ("reject", "reject", "once")


@pytest.mark.parametrize(
    ("subject", "what"),
    [
        (_COMMAND, "this command"),
        (_ONE_FILE, "edits of this file"),
        (_BY_COMMAND, "changes of these 2 files"),
        (ToolSubject(tool="x", args={}), "exactly this"),
        (HostSubject(host="a.example", port=443), "this host"),
    ],
)
def test_what_lasts_says_what_it_covers(subject: Subject, what: str) -> None:
    labels = [option.label for option in approval_options(subject, "medium", floor=False)]
    assert f"Allow {what} in this conversation" in labels
    assert f"Always allow {what} in this folder" in labels


def test_the_pickers_show_each_model_once_and_the_current_one_first() -> None:
    values = {"mode": "ask", "approval": "askRisky", "model": "b"}
    mode, approval, model = option_pickers(values, ["a", "b"], ())
    assert (mode.value, approval.value, model.value) == ("ask", "askRisky", "b")
    assert [choice.value for choice in model.choices] == ["b", "a"]
    *_, effort = option_pickers(values, ["a", "b"], ("low", "high"))
    assert (effort.id, effort.value) == ("effort", "default")
    assert [choice.value for choice in effort.choices] == ["default", "low", "high"]
