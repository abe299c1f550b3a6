"""The tool `rename`: renames a symbol wherever the user's language server knows it.

The server says what would change; approval and writing then work as for any edit of several files.
Invariant: what runs is what was shown.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

from msgspec.structs import replace

from oh_daemon.common.cancel import Cancelled, CancelToken
from oh_daemon.features.edit.file_changes import FileChanges, Step
from oh_daemon.features.language.language import (
    CodePlaces,
    Watch,
    last_part,
    limit_names,
    loading_notes,
    unwatched,
)
from oh_daemon.kernel.editor_ports import LanguageServers, TextEdit
from oh_daemon.kernel.ports import Intent, Json, ToolContext, ToolResult, ToolSpec, for_model
from oh_daemon.kernel.tool_schemas import LINE, PATH, TEXT, takes
from oh_daemon.protocol.errors import StaleDocumentError, ToolError
from oh_daemon.protocol.language_servers import RangeEdit, WorkspaceEdit, parse_answer
from oh_daemon.workspace.documents import Documents
from oh_daemon.workspace.hunks import Rewrite
from oh_daemon.workspace.paths import printable, quoted
from oh_daemon.workspace.text_changes import apply_edits, with_newlines

FindWord = Callable[[str, CancelToken], Sequence[tuple[str, int]]]
"""Return the names of files with a whole word, each with the number of lines."""

_MAX_FILES = 500
_MAX_PLANS = 8

_DESCRIPTION = """Rename a symbol in all files, with what the user's language server knows: better \
than replacing text. `symbol` is the name as it stands in `path`, in `line` when it is there more \
than once. All files change or none; files and folders keep their names.
Example: {"path": "src/app.py", "line": 12, "symbol": "load", "new_name": "load_all"}"""

_SCHEMA = takes(["path", "symbol", "new_name"], path=PATH, line=LINE, symbol=TEXT, new_name=TEXT)


class RenameTool:
    """Implements `kernel.ports.Tool`."""

    spec = ToolSpec("rename", _DESCRIPTION, _SCHEMA, kind="edit")

    def __init__(
        self,
        documents: Documents,
        servers: LanguageServers,
        cancel: Callable[[], CancelToken],
        find_word: FindWord,
        watch: Watch = unwatched,
    ) -> None:
        """`cancel` returns the turn's token, since planning has to ask the client as well."""
        self._find_word = find_word
        self._documents = documents
        self._folders = documents.folders
        self._servers = servers
        self._cancel = cancel
        self._changes = FileChanges(documents, watch)
        self._steps_by_call: dict[str, Sequence[Step]] = {}
        """By arguments: what was shown is what runs, and the server is asked only once."""

    def plan(self, args: Json) -> Intent:
        steps = self._planned_steps(args) or self._require_steps(args)
        old, new = printable(args["symbol"]), printable(args["new_name"])
        return self._changes.intent(f"Rename {old!r} to {new!r} in", steps, args)

    def run(self, args: Json, context: ToolContext) -> ToolResult:
        steps = self._planned_steps(args)
        if steps is None:
            raise StaleDocumentError("a file changed just now, so nothing was renamed; try again")
        result = self._changes.make(f"rename {printable(args['symbol'])}", steps, args, context)
        if result.is_error:
            return result
        notes = [*self._leftovers(args, context.cancel)]
        notes += loading_notes(
            self._servers, self._folders.as_opened(steps[0].path), context.cancel
        )
        return replace(result, content=(*result.content, *map(for_model, notes)))

    def _leftovers(self, args: Json, cancel: CancelToken) -> Iterator[str]:
        """Yield where the old name still is: a server may know a part of the project only."""
        old = last_part(args["symbol"])
        # The files are changed, whatever becomes of this search.
        with suppress(ToolError, Cancelled):
            files = self._find_word(old, cancel)
            places = [f"{name} ({n} line{'' if n == 1 else 's'})" for name, n in files]
            if places:
                what = "other names, texts, or uses that the server does not know"
                names = ", ".join(limit_names(places))
                yield f"[{quoted(old)} still stands in {names}: {what}]"

    def _planned_steps(self, args: Json) -> Sequence[Step] | None:
        """Return what this call would change, as planned before, unless a text changed since."""
        steps = self._steps_by_call.get(_key(args))
        is_fresh = steps is not None and all(
            with_newlines(self._documents.look(step.path).text or "") == step.before
            for step in steps
        )
        return steps if is_fresh else None

    def _require_steps(self, args: Json) -> Sequence[Step]:
        path, position = CodePlaces(self._documents, self._servers).find(args)
        params = {"position": position, "newName": args["new_name"]}
        try:
            answer = self._servers.look_up(
                "textDocument/rename", params, about=path, cancel=self._cancel()
            )
        except Cancelled as exc:
            # Nothing has run, and planning may only raise errors; the turn ends all the same.
            raise ToolError("interrupted; nothing was renamed") from exc
        steps = self._steps(parse_answer(WorkspaceEdit | None, answer))
        if not steps:
            raise ToolError(f"the language server cannot rename {args['symbol']!r} there")
        for oldest in list(self._steps_by_call)[: -_MAX_PLANS + 1]:
            del self._steps_by_call[oldest]
        self._steps_by_call[_key(args)] = steps
        return steps

    def _steps(self, edit: WorkspaceEdit | None) -> Sequence[Step]:
        """Return the whole texts before and after. Raises `ToolError` unless all can be applied."""
        steps: dict[Path, Step] = {}
        for uri, version, edits in _documents_of(edit) if edit else ():
            path = self._folders.resolve(uri, writing=True)
            document = self._documents.look(path)
            name = self._folders.name(path)
            if document.text is None or path in steps:
                raise ToolError(
                    f"the language server names {quoted(name)} twice, or it is not there"
                )
            if version is not None and document.document and document.document.version != version:
                raise StaleDocumentError(f"{quoted(name)} changed just now; try again")
            before = with_newlines(document.text)
            after = with_newlines(
                apply_edits(document.text, self._text_edits(document.text, edits))
            )
            if after != before:
                rewrite, is_protected = Rewrite(before, after), self._folders.is_protected(path)
                steps[path] = Step(path, rewrite, before, after, rewrite.diff, is_protected)
        if len(steps) > _MAX_FILES:
            raise ToolError(f"that would change {len(steps)} files, and {_MAX_FILES} may")
        return tuple(steps.values())

    def _text_edits(self, text: str, edits: Sequence[RangeEdit]) -> list[TextEdit]:
        offsets = self._servers.offsets(text)
        text_edits = [
            TextEdit(offsets.offset(e.range.start), offsets.offset(e.range.end), e.new_text)
            for e in edits
        ]
        sorted_edits = sorted(text_edits, key=lambda edit: (edit.start, edit.end))
        overlap = any(first.end > second.start for first, second in pairwise(sorted_edits))
        if overlap or any(edit.start > edit.end for edit in sorted_edits):
            raise ToolError("the language server's edits make no sense; nothing was renamed")
        return sorted_edits


def _documents_of(edit: WorkspaceEdit) -> Iterator[tuple[str, int | None, Sequence[RangeEdit]]]:
    for change in edit.document_changes or ():
        if change.text_document is None:
            raise ToolError(
                "the language server would also make, move or remove files, which this cannot do;"
                " nothing was renamed. Move the files in the terminal, and edit what refers to them"
            )
        yield change.text_document.uri, change.text_document.version, change.edits
    if edit.document_changes is None:
        yield from ((uri, None, edits) for uri, edits in (edit.changes or {}).items())


def _key(args: Json) -> str:
    return json.dumps([args["path"], args.get("line"), args["symbol"], args["new_name"]])
