"""Answers of language servers, in LSP's form. Fields that the agent does not use are left out."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from oh_daemon.protocol.base import Contract, Range, problem_in
from oh_daemon.protocol.errors import ToolError


class Diagnostic(Contract):
    """A problem in a document, in LSP's form."""

    range: Range
    message: str
    """What is wrong."""
    severity: int | None = None
    """1 error, 2 warning, 3 information, 4 hint; an error if absent."""
    source: str | None = None
    """What found it, such as a linter."""
    code: int | str | None = None
    """Its code there."""


class CodeLocation(Contract):
    """LSP's Location; without a range, the whole document."""

    uri: str
    range: Range | None = None


class LocationLink(Contract):
    target_uri: str
    target_selection_range: Range


class CodeSymbol(Contract):
    """LSP's DocumentSymbol (with `range`), SymbolInformation or WorkspaceSymbol."""

    name: str
    kind: int = 0
    range: Range | None = None
    children: tuple[CodeSymbol, ...] = ()
    location: CodeLocation | None = None
    container_name: str | None = None


class Marked(Contract):
    """LSP's MarkupContent and MarkedString."""

    value: str


class Hover(Contract):
    contents: str | Marked | tuple[str | Marked, ...]


class RangeEdit(Contract):
    range: Range
    new_text: str


class VersionedDocument(Contract):
    uri: str
    version: int | None = None


class DocumentChange(Contract):
    """Edits of one document; with a `kind`, the creation, renaming or deletion of a file."""

    kind: str | None = None
    text_document: VersionedDocument | None = None
    edits: tuple[RangeEdit, ...] = ()


class WorkspaceEdit(Contract):
    """The changes that a rename would make."""

    changes: dict[str, tuple[RangeEdit, ...]] | None = None
    document_changes: tuple[DocumentChange, ...] | None = None


class CodeActionContext(Contract):
    diagnostics: tuple[dict[str, Any], ...] = ()
    only: tuple[str, ...] | None = None
    trigger_kind: int = 1
    """1 when the user asked, 2 when the editor asks by itself, for instance for a light bulb."""


class CodeActionParams(Contract):
    """LSP's `textDocument/codeAction`."""

    text_document: VersionedDocument
    range: Range
    context: CodeActionContext = CodeActionContext()


class ChosenAction(Contract):
    """The argument of `ohDaemon.codeAction`."""

    command: Literal["fix", "explain", "test"]
    uri: str
    range: Range
    diagnostics: tuple[dict[str, Any], ...] = ()


class ChatNamed(Contract):
    """The argument of the commands about a chat; without any field, the one that changed last."""

    uri: str | None = None
    """The file's."""
    name: str | None = None
    """The file's name, without `.md`."""
    new: bool = False
    """Begin another."""
    conversation_id: str | None = None
    """The conversation whose chat is meant, or whose changes."""


class ChangesShown(Contract):
    """The argument of `ohDaemon.showChanges`; without a URI, all files that wait for review."""

    conversation_id: str | None = None
    """By default the conversation that changed last."""
    uri: str | None = None


def parse_answer(shape: Any, answer: object) -> Any:
    """Parse an editor's answer as `shape`. Raises `ToolError` naming what is wrong with it."""
    try:
        return TypeAdapter(shape).validate_python(answer)
    except ValidationError as exc:
        raise ToolError(
            f"the editor's answer makes no sense: {problem_in(exc)}. Search with grep instead"
        ) from exc
