"""Detects an agent that goes in circles, by patterns in the items since the user's last message.

Pure. A condensation keeps all items, so it hides no circle. A stop leaves a notice, and later
searches end at it, so that `resume` gives the agent another chance. A window that overflows again
and again is no circle here: `agent` makes room three times at most, then the turn fails.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, islice

from msgspec import Struct

from oh_daemon.kernel.extension_points import Stuck
from oh_daemon.kernel.journal import new_id
from oh_daemon.kernel.notices import code_of
from oh_daemon.kernel.ports import Json
from oh_daemon.kernel.state import is_tool_item
from oh_daemon.protocol import plain
from oh_daemon.protocol.events import StuckPattern
from oh_daemon.protocol.items import NoticeItem, StopReason

STOPPED = "stuck"
"""The `reason` of a notice that ended a turn."""
_TIME = re.compile(r"\d+(\.\d+)? s\b")
"""Durations in results; two results that differ only in them count as equal."""


class StuckCheck(Struct, frozen=True):
    """One pattern: `is_match` looks at the last `length` answers, newest first, with their calls.

    A monologue is sought among messages, too, each of which counts as an answer.
    """

    pattern: StuckPattern
    length: int
    """Counted in answers: the model makes the calls of one answer before it knows any result."""
    is_match: Callable[..., bool]
    title: str
    advice: str
    stop_reason: StopReason = "stuck"
    is_nudged_first: bool = False

    def found(self, *, stops: bool) -> Stuck:
        """Return it with the notice, which the user reads, and the model too when it goes on."""
        end = "; it was stopped" if stops else " and was told to try another way"
        notice = NoticeItem(
            id=new_id(),
            severity="warning",
            reason=STOPPED if stops else None,
            code=self.pattern,
            title=self.title + end,
            note=self.advice,
        )
        return Stuck(self.pattern, notice, self.stop_reason if stops else None)


def find_stuck(items: Sequence[plain.Item]) -> Stuck | None:
    """Return the circle that the agent is in after its last step, or None."""
    latest = list(islice(_since_last_word(items), _MAX_LOOK))
    calls = [item for item in latest if is_tool_item(item) and not _is_poll(item)]
    entries = [item for item in latest if is_tool_item(item) or item["kind"] == "agentMessage"]
    answers = [list(answer) for _, answer in groupby(calls, lambda item: item["call"]["batch"])]
    for circle in _CIRCLES:
        candidates = [[item] for item in entries] if circle.pattern == "monologue" else answers
        recent: list[list[plain.Item]] = [[*answer] for answer in candidates[: circle.length]]
        if len(recent) == circle.length and circle.is_match(recent):
            return _what_to_do(circle, latest, recent)
    return None


def _what_to_do(
    circle: StuckCheck, latest: Sequence[plain.Item], recent: Sequence[Sequence[plain.Item]]
) -> Stuck | None:
    """Decide to nudge or to stop; return None when the model has not answered the nudge yet."""
    if not circle.is_nudged_first:
        return circle.found(stops=True)
    newest, oldest = latest.index(recent[0][0]), latest.index(recent[-1][-1])
    nudge = next((n for n, item in enumerate(latest) if code_of(item) == circle.pattern), oldest)
    if nudge >= oldest:
        return circle.found(stops=False)
    return circle.found(stops=True) if nudge > newest else None


_MAX_LOOK = 256
"""Items to look at: enough for the longest pattern of answers with a dozen calls, and some text,
reasoning and polls in between."""


def _since_last_word(items: Sequence[plain.Item]) -> Iterator[plain.Item]:
    """Yield the items since the user's last message or the last stop, newest first."""
    for item in reversed(items):
        is_stop = item["kind"] == "notice" and item.get("reason") == STOPPED
        if item["kind"] == "userMessage" or is_stop:
            return
        yield item


def _is_poll(item: plain.ToolItem) -> bool:
    """Return whether a call only waits for a running command, which is never a repetition."""
    args = item["args"]
    is_wait = bool(args.get("is_input")) and not args.get("command")
    return is_wait and item["kind"] == "command" and item["status"] == "completed"


Calls = Sequence["plain.ToolItem"]


def _all_wrong(answers: Sequence[Calls]) -> bool:
    reasons = {call.get("reason") for calls in answers for call in calls}
    return reasons <= {"unknownTool", "invalidArguments"}


def _all_equal(answers: Sequence[Calls]) -> bool:
    first, *other_answers = answers
    question = _call_keys(first)
    if any(_call_keys(calls) != question for calls in other_answers):
        return False
    return all(_result_texts(calls) == _result_texts(first) for calls in other_answers)


def _same_error(answers: Sequence[Calls]) -> bool:
    if any(call["status"] != "failed" for calls in answers for call in calls):
        return False
    errors = [{(call["tool"], *_result_texts([call])) for call in calls} for calls in answers]
    return all(each == errors[0] for each in errors)


def _alternates(answers: Sequence[Calls]) -> bool:
    return (
        _call_keys(answers[0]) != _call_keys(answers[1])
        and _all_equal(answers[::2])
        and _all_equal(answers[1::2])
    )


def _call_keys(calls: Calls) -> list[tuple[str, Json]]:
    return [(call["tool"], call["args"]) for call in calls]


def _result_texts(calls: Calls) -> list[str]:
    contents = (json.dumps(call["content"], sort_keys=True) for call in calls)
    return [
        call["status"] + _TIME.sub("", content)
        for call, content in zip(calls, contents, strict=True)
    ]


def _only_talk(answers: Sequence[Sequence[plain.Item]]) -> bool:
    return all(entry["kind"] == "agentMessage" for entries in answers for entry in entries)


_CIRCLES = (
    StuckCheck(
        "wrongCalls",
        3,
        _all_wrong,
        "The model called no tool or gave wrong arguments three times in a row",
        "Your calls did not fit the tools. Look at the names and schemas of the tools again.",
        stop_reason="toolErrors",
        is_nudged_first=True,
    ),
    StuckCheck(
        "identicalCalls",
        3,
        _all_equal,
        "The agent made the same calls three times with the same results",
        "You made the same calls three times and got the same results. Do not make them again: say "
        "what you are missing, or try another way.",
        is_nudged_first=True,
    ),
    StuckCheck(
        "sameError",
        3,
        _same_error,
        "The agent got the same error three times in a row",
        "Your last three answers ended with the same error. Do not repeat them: read the error, "
        "look at how things stand now, and try another way.",
        is_nudged_first=True,
    ),
    StuckCheck(
        "alternatingCalls",
        6,
        _alternates,
        "The agent went back and forth between two answers with the same results",
        "You went back and forth between the same calls and got the same results each time. Make "
        "none of them again: say what you are missing, or try another way.",
        is_nudged_first=True,
    ),
    StuckCheck(
        "monologue",
        3,
        _only_talk,
        "The agent talked three times in a row without doing anything",
        "You talked three times in a row without a tool call. Act, or say what keeps you from it.",
    ),
)
"""In order of precedence: the first one that holds counts."""
