"""The two forms of what a log holds: models, which are written, and plain dicts, which are read.

Here alone the one is made from the other; `plain` has the types of the dicts. What crosses the wire
and is never logged, such as params and settings, has models only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict, overload

from pydantic import ConfigDict, TypeAdapter

from oh_daemon.protocol import plain
from oh_daemon.protocol.base import Contract
from oh_daemon.protocol.items import Item

if TYPE_CHECKING:
    from oh_daemon.protocol import approvals, checkpoints, items, status
    from oh_daemon.protocol import events as e

_ITEM: TypeAdapter[Item] = TypeAdapter(Item, config=ConfigDict(defer_build=True))


class ToolFields(TypedDict, total=False):
    """The fields of a call's item that its tool may set, by their names in the log."""

    kind: Literal["toolCall", "command", "fileChange", "plan"]
    toolKind: items.ToolKind
    command: str
    cwd: str
    terminalId: str
    exitCode: int | None
    signal: int | None
    truncated: bool | None
    outputRef: str | None
    durationMs: int
    changes: Sequence[items.FileChange]
    git: Sequence[items.GitChange]
    route: Literal["editor", "disk"] | None
    undoLabel: str
    entries: Sequence[items.PlanEntry]


class ItemFields(ToolFields, total=False):
    """All fields of a call's item."""

    id: str
    status: items.ItemStatus
    reason: str | None
    startedAt: str
    endedAt: str
    tool: str
    title: str
    args: dict[str, Any]
    risk: items.Risk
    selfRating: items.Risk | None
    summary: str | None
    locations: Sequence[items.Location]
    content: Sequence[dict[str, Any]]
    meta: dict[str, Any] | None
    call: items.ModelCall


class CutFields(ItemFields, total=False):
    """What an item that was cut off gets; a call has no text."""

    text: str


def new_item(fields: ItemFields) -> Item:
    """Raises `ValueError` if fields are missing that the kind needs."""
    return _ITEM.validate_python(fields)


def item_with(item: plain.Item, fields: ItemFields) -> Item:
    """Return the item of the log with other values of these fields; `kind` may differ, too."""
    return _ITEM.validate_python({**item, **fields})


def observed_by(planned_changes: plain.ChangesPlanned) -> ItemFields:
    """Return the fields that the command itself gave its item, which the caller may change."""
    return ItemFields(**planned_changes["itemFields"])


@overload
def model_of(model: type[e.Record], record: plain.Record) -> e.Record: ...
@overload
def model_of(model: type[e.UsageUpdated], record: plain.UsageUpdated) -> e.UsageUpdated: ...
@overload
def model_of(model: type[approvals.Approval], record: plain.Approval) -> approvals.Approval: ...
@overload
def model_of(model: type[items.FileChange], record: plain.FileChange) -> items.FileChange: ...
@overload
def model_of(
    model: type[approvals.InputRequest], record: plain.InputRequest
) -> approvals.InputRequest: ...
@overload
def model_of(
    model: type[items.QueuedMessage], record: plain.QueuedMessage
) -> items.QueuedMessage: ...
@overload
def model_of(
    model: type[checkpoints.RepositoryChanges], record: plain.RepositoryChanges
) -> checkpoints.RepositoryChanges: ...
@overload
def model_of(
    model: type[approvals.TrustSubject], record: plain.TrustSubject
) -> approvals.TrustSubject: ...
@overload
def model_of(model: type[items.Turn], record: plain.Turn) -> items.Turn: ...
@overload
def model_of(model: type[status.Usage], record: plain.Usage) -> status.Usage: ...
@overload
def model_of(
    model: type[items.UserMessageItem], record: plain.UserMessageItem
) -> items.UserMessageItem: ...
def model_of(model: type[Contract], record: Any) -> Any:
    """Raises `ValueError` if the record does not fit, as one of somebody else's log may not."""
    return model.model_validate(record)


@overload
def plain_form(model: checkpoints.ChangesPlanned) -> plain.ChangesPlanned: ...
@overload
def plain_form(model: e.KnownEvent) -> plain.Event: ...
@overload
def plain_form(model: items.AgentInfo) -> plain.AgentInfo: ...
@overload
def plain_form(model: approvals.Subject) -> plain.Subject: ...
def plain_form(model: Contract) -> Any:
    """Return what reading gives back once this is written."""
    return model.model_dump(mode="json", exclude_none=True)


def line_of(record: e.Record) -> str:
    """Return the record as it is written, before secrets are masked."""
    return record.model_dump_json(exclude_none=True, serialize_as_any=True)
