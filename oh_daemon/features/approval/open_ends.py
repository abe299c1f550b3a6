"""Reports what a run without a user left undone: refusals, and changes that were not applied.

It reads records only, so that it works on the events of a daemon elsewhere and on a log.
"""

from __future__ import annotations

from typing import Any

from oh_daemon.features.approval.consent import NOBODY_THERE
from oh_daemon.protocol import plain
from oh_daemon.workspace.paths import path_from_uri

HOST_REFUSED = "hostRefused"
"""Code of the notice about a refused host; its `reason` is `noClient`, or `policy` if the user
wants no questions."""


class OpenEnds:
    """Collects from the records of a conversation and its sub-agents, in their order."""

    def __init__(self) -> None:
        self.needs_person = False
        """Whether a request could not be answered, or a change was not applied.

        Programs of the project that do not run without trust do not count, nor do hosts that are
        refused because the user wants no questions.
        """
        self._lines: dict[str, None] = {}
        self._titles: dict[str, str] = {}
        """By approval id."""
        self._plans: dict[str, plain.ChangesPlanned] = {}
        self._resolved_items = set[str]()
        """Items whose approval was answered or refused."""

    @property
    def lines(self) -> tuple[str, ...]:
        """One line for each, such as `"no one could answer: Run touch made"`."""
        return tuple(self._lines)

    def take(self, record: plain.Record) -> None:
        event, item_id = record["event"], record.get("itemId", "")
        match event["type"]:
            case "approval.requested":
                self._titles[event["approval"]["id"]] = event["approval"]["title"]
            case "approval.resolved":
                self._take_decision(event, item_id)
            case "changes.planned":
                self._plans[item_id] = event
            case "item.completed":
                self._take_result(event["item"])
            case _:
                pass

    def _take_decision(self, event: plain.ApprovalResolved, item_id: str) -> None:
        if event["by"] == "noClient" or event.get("feedback") == NOBODY_THERE:
            title = self._titles.get(event["approvalId"], "an approval request")
            self._add(f"no one could answer: {title}")
            self._resolved_items.add(item_id)
        elif event["by"] == "user":
            self._resolved_items.add(item_id)

    def _take_result(self, item: plain.Item) -> None:
        plan = self._plans.pop(item["id"], None)
        if plan is not None and item["id"] not in self._resolved_items:
            for part in _missing_parts(plan, item):
                self._add(f"not applied: {part}")
        if item["kind"] == "notice":
            is_host = item.get("code") == HOST_REFUSED
            has_no_client = item.get("reason") == "noClient"
            if is_host or has_no_client:
                self._lines[f"{item['title']}: {item.get('description', '')}"] = None
            self.needs_person |= is_host and has_no_client

    def _add(self, line: str) -> None:
        self.needs_person = True
        self._lines[line] = None


def _missing_parts(plan: plain.ChangesPlanned, item: Any) -> list[str]:
    """Return what could be applied and was not; the result of the command names all others."""
    applied_uris = {change["uri"] for change in item.get("changes", ())}
    uris = [change["uri"] for change in plan["changes"] if change["uri"] not in applied_uris]
    has_git = any(repository["summary"] for repository in plan.get("git", ()))
    git_parts = ["changes of git"] if has_git and not item.get("git") else []
    files = (str(path_from_uri(uri) or uri) for uri in uris)
    return [*files, *git_parts, *plan.get("refusals", ())]
