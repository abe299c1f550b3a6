"""What notices in older logs say, by their words; today's say it by their `code`."""

from __future__ import annotations

from collections.abc import Mapping

from oh_daemon.contract import plain

_CODES: Mapping[str, str] = {
    "Your last answer held neither text nor a tool call. Go on with the task, or call finish when "
    "it is done.": "emptyAnswer",
    "Your calls did not fit the tools. Look at the names and schemas of the tools again.": (
        "wrongCalls"
    ),
    "You made the same call four times and got the same result. Do not make it again: say what "
    "you are missing, or try another way.": "identicalCalls",
    "Your last three answers ended with the same error. Do not repeat them: read the error, "
    "look at how things stand now, and try another way, or ask the user.": "sameError",
    "You went back and forth between two calls and got the same results each time. Do neither "
    "again: say what you are missing, or try another way.": "alternatingCalls",
    "You talked three times in a row without a tool call. Act, or say what keeps you from it.": (
        "monologue"
    ),
}
"""The code by the note for the model."""


def code_of(item: plain.Item) -> str | None:
    """Return what a notice says; None for what is no notice, or for one that has no code."""
    if item["kind"] != "notice":
        return None
    return item.get("code") or _CODES.get(item.get("note") or "")
