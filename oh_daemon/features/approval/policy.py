"""May an action run now? Pure decisions: mode, risk, grants and trust go in, a verdict comes out.

Every verdict names its rule, so that the log can explain it. Nothing here waits or asks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Literal

from msgspec import Struct

from oh_daemon.kernel.approval_requests import RISK_ORDER, Effect, Ruling, highest_risk, never_asks
from oh_daemon.kernel.ports import Intent, ToolSpec
from oh_daemon.protocol.approvals import RuleCode
from oh_daemon.protocol.errors import InvalidParamsError
from oh_daemon.protocol.items import Risk
from oh_daemon.protocol.llm import EFFORTS
from oh_daemon.protocol.messages import Choice, Option
from oh_daemon.protocol.settings import CHOICES

_CHOICES: Mapping[str, Collection[str]] = {**CHOICES, "effort": ("default", *EFFORTS)}
"""The values of each option that has a fixed list of them."""
_NEVER_TOUCHED = "protected places and unsaved texts are never touched without asking"
_IN_PLAN = (
    " Tools that only read may run, and commands like `ls src`, `grep -n NAME FILE` and `git diff`,"
    " in plain words; what you would change, say in your answer."
)
_MAY_LEAVE = " The user may leave this mode."
_BY_NAME = (
    " Say what you would change there; or the user starts you again in an isolated conversation"
    " (`--isolated`), where you may change it, and applies the file by its name."
)


class Verdict(Struct, frozen=True):
    """`code` names the line of the policy that decided, and `rule` says it to people."""

    effect: Effect
    code: RuleCode
    rule: str
    risk: Risk
    reasons: tuple[str, ...] = ()


def decide(
    spec: ToolSpec,
    intent: Intent,
    options: dict[str, str],
    *,
    self_rating: Risk | None,
    ruling: Ruling | None = None,
) -> Verdict:
    """Settle one action by rules, mode and approval option, strictest first.

    `ruling` is what the user's rules or an earlier answer say.
    """
    rating = "low" if spec.read_only and intent.risk == "unknown" else intent.risk
    # A footprint lists files only: a request to another machine touches none and is no less risky.
    stays_here = spec.kind != "fetch" and not intent.leaves
    touches_nothing = rating == "low" and stays_here and intent.footprint.is_empty
    has_fixed_risk = spec.read_only or touches_nothing
    risk = highest_risk(rating, None if has_fixed_risk else self_rating)
    mode, approval = options.get("mode", "ask"), options.get("approval", "askRisky")
    is_silent = never_asks(options)
    is_low = RISK_ORDER[risk] < RISK_ORDER["medium"]
    edits_freely = mode == "autoEdit" and spec.kind == "edit" and risk == "medium"
    is_raised = RISK_ORDER[risk] > RISK_ORDER[intent.risk]
    reasons = (f"the model rates it {risk}", *intent.reasons) if is_raised else intent.reasons
    floor, confinement = intent.outside_floor, intent.confinement
    is_planning = mode == "plan" and intent.footprint.writes
    may_try = confinement is not None and spec.kind != "edit"
    is_confined = confinement is not None and (is_low or not intent.is_rated_by_program)
    leaves = intent.leaves and mode != "full"
    ruled = ruling or Ruling("ask", "")
    may_pass = ruled.effect == "allow" and (ruled.covers_high or risk in {"low", "medium"})
    silently = "mode full" if mode == "full" else "approval askNever"
    rules: tuple[tuple[bool, Effect, RuleCode, str], ...] = (
        (ruled.effect == "reject", "reject", "ruling", ruled.rule),
        (is_planning and not may_try, "reject", "planMode", "mode plan is read-only"),
        (floor and is_silent, "reject", "protectedPlace", _NEVER_TOUCHED),
        (floor, "ask", "protectedPlace", "protected place"),
        (ruling is not None and ruled.effect == "ask", "ask", "ruling", ruled.rule),
        (touches_nothing, "allow", "touchesNothing", "touches nothing"),
        (leaves and not may_pass, "ask", "outsideSandbox", "outside the sandbox"),
        (is_silent, "allow", "neverAsks", silently),
        (may_pass, "allow", "ruling", ruled.rule),
        (approval == "askAlways", "ask", "askAlways", "you are asked about every action"),
        (is_confined, "allow", "sandbox", confinement or ""),
        (is_low, "allow", "lowRisk", "low risk"),
        (edits_freely, "allow", "autoEdit", "mode autoEdit"),
        (True, "ask", "risk", f"{risk} risk"),
    )
    effect, code, rule = next(row[1:] for row in rules if row[0])
    # Of these rules, an approval would not say otherwise that they ask.
    all_reasons = (rule, *reasons) if code in {"ruling", "askAlways"} else reasons
    return Verdict(effect, code, rule, risk, all_reasons)


def advice(verdict: Verdict, intent: Intent, *, is_main: bool) -> str:
    """Return what in the action mode plan refuses, and what it does not; or another way."""
    reasons = "; ".join(intent.reasons)
    if verdict.code != "planMode":
        return f" Reason: {reasons}.{_BY_NAME}" if verdict.code == "protectedPlace" else ""
    what = f" This is not: {reasons}." if reasons else ""
    return f"{what}{_IN_PLAN}{_MAY_LEAVE if is_main else ''}"


def option_pickers(
    values: dict[str, str], models: Iterable[str], efforts: Collection[str]
) -> tuple[Option, ...]:
    """Return the conversation's options in a form that a client can show.

    `efforts` are those that the model knows.
    """
    effort = next((each for each in efforts if each == values.get("effort")), "default")
    thinks = {each: f"{each.capitalize()} effort" for each in ("default", *efforts)}
    return (
        _picker("mode", values, CHOICES["mode"]),
        _picker("approval", values, CHOICES["approval"]),
        _picker("model", values, {name: name for name in (values["model"], *models)}),
        *((_picker("effort", {"effort": effort}, thinks),) if efforts else ()),
    )


def _picker(
    name: Literal["mode", "approval", "model", "effort"],
    values: dict[str, str],
    choices: dict[str, str],
) -> Option:
    picker_choices = tuple(Choice(value=value, label=label) for value, label in choices.items())
    return Option(
        id=name, name=name.capitalize(), category=name, value=values[name], choices=picker_choices
    )


def check_options(values: dict[str, str]) -> dict[str, str]:
    """Return the options unchanged. Raises `InvalidParamsError`, which names the wrong one."""
    for option_id, value in values.items():
        choices = _CHOICES.get(option_id, ())
        if option_id != "model" and value not in choices:
            names = ", ".join((*_CHOICES, "model"))
            allowed_values = ", ".join(choices) or f"no option of this name; known are {names}"
            what = f"cannot be {value!r}: {allowed_values}"
            raise InvalidParamsError.at(f"options.{option_id}", what, "unknown")
    return values
