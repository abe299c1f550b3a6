"""The tool `rename`: renames a symbol wherever the user's language server knows it.

The server says what would change; approval and writing then work as for any edit of several files.
Invariant: what runs is what was shown.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from oh_daemon.contract.approvals import FileChangeSubject
from oh_daemon.contract.errors import StaleDocumentError, ToolError
from oh_daemon.contract.items import Location
from oh_daemon.contract.language import RangeEdit, WorkspaceEdit, parse_answer
from oh_daemon.core.cancel import Cancelled, CancelToken
from oh_daemon.core.editor_ports import LanguageServers, TextEdit
from oh_daemon.core.ports import Footprint, Intent, Json, ToolContext, ToolResult, ToolSpec
from oh_daemon.tools.code_places import CodePlaces
from oh_daemon.tools.edit import hidden_reason
from oh_daemon.tools.forms import LINE, PATH, TEXT, takes
from oh_daemon.tools.language import Watch, unwatched
from oh_daemon.workspace.documents import Documents
from oh_daemon.workspace.files import sha256_of
from oh_daemon.workspace.joint_edit import change_all
from oh_daemon.workspace.paths import shown
from oh_daemon.workspace.review import Rewrite
from oh_daemon.workspace.text_changes import applied, with_newlines

_MAX_FILES = 500
_MAX_PLANS = 8
_MAX_LABEL_CHARS = 40  # As in `edit`.

_DESCRIPTION = """Rename a symbol in all files, with what the user's language server knows: better \
than replacing text. `symbol` is the name as it stands in `path`, in `line` when it is there more \
than once. All files change or none; files and folders keep their names.
Example: {"path": "src/app.py", "line": 12, "symbol": "load", "new_name": "load_all"}"""

_SCHEMA = takes(["path", "symbol", "new_name"], path=PATH, line=LINE, symbol=TEXT, new_name=TEXT)

Rewrites = Mapping[Path, Rewrite]


class RenameTool:
    """Implements `core.ports.Tool`."""

    spec = ToolSpec("rename", _DESCRIPTION, _SCHEMA, kind="edit")

    def __init__(
        self,
        documents: Documents,
        servers: LanguageServers,
        cancel: Callable[[], CancelToken],
        watch: Watch = unwatched,
    ) -> None:
        """`cancel` returns the turn's token, since planning has to ask the client as well."""
        self._documents = documents
        self._folders = documents.folders
        self._servers = servers
        self._cancel = cancel
        self._watch = watch
        self._planned: dict[str, Rewrites] = {}
        """By arguments: what was shown is what runs, and the server is asked only once."""

    def plan(self, args: Json) -> Intent:
        rewrites = self._known(args) or self._asked(args)
        describe = self._documents.history.describe
        changes = tuple(describe(path, r.before, r.after) for path, r in rewrites.items())
        protected = [self._folders.is_protected(path) for path in rewrites]
        hidden = [hidden_reason(r.before, r.after) for r in rewrites.values()]
        reasons = tuple(dict.fromkeys(filter(None, (*protected, *hidden))))
        return Intent(
            title=f"Rename {shown(args['symbol'])!r} to {shown(args['new_name'])!r} in"
            f" {_files(len(changes))}",
            subject=FileChangeSubject(changes=changes),
            risk="high" if reasons else "medium",
            reasons=reasons,
            footprint=Footprint(writes=True, paths=frozenset(map(str, rewrites))),
            digest_material=tuple(sha256_of(rewrite.before) for rewrite in rewrites.values()),
            locations=tuple(Location(uri=change.uri) for change in changes),
            item_fields={"kind": "fileChange", "tool_kind": "edit", "changes": changes},
            outside_floor=any(protected),
        )

    def run(self, args: Json, context: ToolContext) -> ToolResult:
        rewrites = self._known(args)
        if rewrites is None:
            raise StaleDocumentError("a file changed just now, so nothing was renamed; try again")
        label = f"oh: rename {shown(args['symbol'])}"[:_MAX_LABEL_CHARS]
        news = self._watch(rewrites, context.cancel)
        done = change_all(self._documents, rewrites, label=label, cancel=context.cancel)
        rows = [
            " ".join(
                filter(None, (f"{self._folders.name(path)}: {each.change.added} lines.", each.note))
            )
            for path, each in done.items()
        ]
        return ToolResult.of(
            "\n".join(filter(None, (f"Renamed in {_files(len(done))}:", *rows, news()))),
            changes=tuple(each.change for each in done.values()),
            undo_label=label,
        )

    def _known(self, args: Json) -> Rewrites | None:
        """Return what this call would change, as planned before, unless a text changed since."""
        rewrites = self._planned.get(_key(args))
        is_fresh = rewrites is not None and all(
            with_newlines(self._documents.look(path).text or "") == rewrite.before
            for path, rewrite in rewrites.items()
        )
        return rewrites if is_fresh else None

    def _asked(self, args: Json) -> Rewrites:
        path, position = CodePlaces(self._documents, self._servers).find(args)
        params = {"position": position, "newName": args["new_name"]}
        try:
            answer = self._servers.look_up(
                "textDocument/rename", params, about=path, cancel=self._cancel()
            )
        except Cancelled as exc:
            # Nothing has run, and planning may only raise errors; the turn ends all the same.
            raise ToolError("interrupted; nothing was renamed") from exc
        rewrites = self._rewrites(parse_answer(WorkspaceEdit | None, answer))
        if not rewrites:
            raise ToolError(f"the language server cannot rename {args['symbol']!r} there")
        for oldest in list(self._planned)[: -_MAX_PLANS + 1]:
            del self._planned[oldest]
        self._planned[_key(args)] = rewrites
        return rewrites

    def _rewrites(self, edit: WorkspaceEdit | None) -> Rewrites:
        """Return the whole texts before and after. Raises `ToolError` unless all can be applied."""
        rewrites: dict[Path, Rewrite] = {}
        for uri, version, edits in _documents_of(edit) if edit else ():
            path = self._folders.resolve(uri, writing=True)
            look = self._documents.look(path)
            if look.text is None or path in rewrites:
                name = self._folders.name(path)
                raise ToolError(f"the language server names {name!r} twice, or it is not there")
            if version is not None and look.document and look.document.version != version:
                raise StaleDocumentError(
                    f"{self._folders.name(path)!r} changed just now; try again"
                )
            after = applied(look.text, self._text_edits(look.text, edits))
            if after != look.text:
                rewrites[path] = Rewrite(with_newlines(look.text), with_newlines(after))
        if len(rewrites) > _MAX_FILES:
            raise ToolError(f"that would change {len(rewrites)} files, and {_MAX_FILES} may")
        return rewrites

    def _text_edits(self, text: str, edits: Sequence[RangeEdit]) -> list[TextEdit]:
        offsets = self._servers.offsets(text)
        found = [
            TextEdit(offsets.offset(e.range.start), offsets.offset(e.range.end), e.new_text)
            for e in edits
        ]
        ordered = sorted(found, key=lambda edit: (edit.start, edit.end))
        overlap = any(first.end > second.start for first, second in pairwise(ordered))
        if overlap or any(edit.start > edit.end for edit in ordered):
            raise ToolError("the language server's edits make no sense; nothing was renamed")
        return ordered


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


def _files(n: int) -> str:
    return "1 file" if n == 1 else f"{n} files"
