"""The `edit` tool: view, create, replace, insert and undo, on the newest text of a file.

It turns arguments into a change and results into text; `workspace/documents` does the work.
"""

from __future__ import annotations

import os
import re
from base64 import b64encode
from collections.abc import Collection
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path

from oh_daemon.common.masking import Masker
from oh_daemon.common.plain_text import ends
from oh_daemon.features.edit.file_changes import FileChanges, Step, checked_text
from oh_daemon.features.edit.notebooks import render_notebook
from oh_daemon.features.language.language import Watch, unwatched
from oh_daemon.kernel.ports import Footprint, Intent, Json, ToolContext, ToolResult, ToolSpec
from oh_daemon.kernel.prompt import true_spec
from oh_daemon.kernel.tool_schemas import LINE, PATH, takes
from oh_daemon.protocol.approvals import PathSubject, ToolSubject
from oh_daemon.protocol.base import Position, Range
from oh_daemon.protocol.errors import ToolError
from oh_daemon.protocol.items import Location
from oh_daemon.workspace.arbiter import TextWithNote, fingerprint
from oh_daemon.workspace.documents import Documents
from oh_daemon.workspace.excerpts import MAX_SHOWN_BYTES
from oh_daemon.workspace.paths import printable, quoted, uri_from_path
from oh_daemon.workspace.pdf_text import HEAD, NO_TEXT, read_pdf_text
from oh_daemon.workspace.text_changes import (
    Change,
    Create,
    Insert,
    Replace,
    Replacement,
    Undo,
    with_newlines,
)

_MAX_LINE_CHARS = 2000
_IMAGES = {
    rb"\x89PNG\r\n\x1a\n": "image/png",
    rb"\xff\xd8\xff": "image/jpeg",
    rb"GIF8[79]a": "image/gif",
    rb"RIFF....WEBP": "image/webp",
}
"""How files begin that are images which models see."""
_NOTEBOOK = (
    "the cells of a notebook; view it with start_line for its JSON, which edits have to match"
)
_PDF = "the text of a PDF, which cannot be edited here"
_VERBS = {"create": "Create", "replace": "Edit", "insert": "Edit", "undo": "Undo the edit of"}

_DESCRIPTION = """View and edit text files.
?buffers Text that the user has not saved counts.
view: lines with their numbers and a tab, which are not part of the file; start_line and end_line \
page through long files; of a png, jpeg, gif or webp, the image.
create: a new file with `text`; folders are made, an existing file is never overwritten.
replace: `old_text` must be in the file exactly once, white space included; or set replace_all. \
`edits` takes several replacements at once: all are found in the present text, all or none happen.
insert: puts `text` after line `insert_line`; 0 is the start of the file.
undo: takes back your last edit of the file.
View a file before you use insert or replace_all. End lines with \\n: files keep their own line \
ends and encoding.
Example: {"command": "replace", "path": "src/app.py", "old_text": "x = 1\\n", \
"new_text": "x = 2\\n"}"""

_TEXT: Json = {"type": "string"}
_ENCODING: Json = {"type": "string", "description": "if not UTF-8, such as cp1251"}
_REPLACEMENT: Json = {"old_text": _TEXT, "new_text": _TEXT, "replace_all": {"type": "boolean"}}
_SCHEMA = takes(
    ["command", "path"],
    command={"enum": ["view", "create", "replace", "insert", "undo"]},
    path=PATH,
    **_REPLACEMENT,
    edits={
        "type": "array",
        "minItems": 1,
        "items": takes(["old_text", "new_text"], **_REPLACEMENT),
    },
    text=_TEXT,
    insert_line={"type": "integer", "minimum": 0},
    start_line=LINE,
    end_line=LINE,
    encoding=_ENCODING,
)
_VIEW_DESCRIPTION = """View text files and take back edits.
?buffers Text that the user has not saved counts.
view: lines with their numbers and a tab, which are not part of the file; start_line and end_line \
page through long files.
undo: takes back your last edit of the file, also one of `apply_patch`, which makes all changes.
Example: {"command": "view", "path": "src/app.py", "start_line": 1, "end_line": 200}"""
_VIEW_SCHEMA = takes(
    ["command", "path"],
    command={"enum": ["view", "undo"]},
    path=PATH,
    start_line=LINE,
    end_line=LINE,
    encoding=_ENCODING,
)


EDIT_SPEC = ToolSpec("edit", _DESCRIPTION, _SCHEMA, kind="edit")
VIEW_SPEC = ToolSpec("edit", _VIEW_DESCRIPTION, _VIEW_SCHEMA, kind="edit")
"""For use beside `apply_patch`: only what a patch cannot do."""
_LOOK_DESCRIPTION = """View text files. Lines come with their numbers and a tab, which are not \
part of the file; start_line and end_line page through long files.
?buffers Text that the user has not saved counts."""
_LOOK_SCHEMA = {
    **_VIEW_SCHEMA,
    "properties": {**_VIEW_SCHEMA["properties"], "command": {"enum": ["view"]}},
}
LOOK_SPEC = ToolSpec("edit", _LOOK_DESCRIPTION, _LOOK_SCHEMA, kind="read", read_only=True)
"""For an agent that only looks."""


SEEN = "seen"
"""In a result's meta: the fingerprint of a text that was viewed, for the time after a restart."""


class EditTool:
    """Implements `kernel.ports.Tool`."""

    def __init__(
        self,
        documents: Documents,
        watch: Watch = unwatched,
        spec: ToolSpec = EDIT_SPEC,
        facts: Collection[str] = (),
    ) -> None:
        """For `facts` see `true_rows`."""
        self.spec = true_spec(spec, facts)
        self._documents = documents
        self._changes = FileChanges(documents, watch)
        self._folders = documents.folders
        self._name = self._folders.name

    def plan(self, args: Json) -> Intent:
        self._choose_encoding(args)
        if args["command"] == "view":
            return self._plan_view(args)
        return self._changes.intent(_VERBS[args["command"]], [self._step(args)], args)

    def run(self, args: Json, context: ToolContext) -> ToolResult:
        self._choose_encoding(args)
        if args["command"] == "view":
            path = self._folders.resolve(args["path"], writing=False)
            return self._view(path, args, context.masker)
        step = self._step(args)
        label = f"{args['command']} {printable(step.path.name)}"
        return self._changes.make(label, [step], args, context)

    def _choose_encoding(self, args: Json) -> None:
        if "encoding" in args:
            writing = args["command"] != "view"
            path = self._folders.resolve(args["path"], writing=writing)
            self._documents.files.choose_encoding(path, args["encoding"])

    def _step(self, args: Json) -> Step:
        return self._changes.step(args["path"], _change(args))

    def _view(self, path: Path, args: Json, masker: Masker) -> ToolResult:
        try:
            view = self._read(path)
        except ToolError:
            if (other := self._image_or_pdf(path, args, masker)) is None:
                raise
            return other
        if view.text.startswith(HEAD.decode()) and (pdf := self._image_or_pdf(path, args, masker)):
            return pdf  # Some PDFs are bytes of ASCII.
        if path.suffix == ".ipynb" and not {"start_line", "end_line"} & args.keys():
            cells = render_notebook(view.text)
            if cells is not None:
                excerpt = ends(masker.mask(cells), MAX_SHOWN_BYTES // 2, _NOTEBOOK)
                return ToolResult(({"type": "text", "text": f"{excerpt}\n[{_NOTEBOOK}]"},))
        text = {"type": "text", "text": _render_view(view, args, masker)}
        return ToolResult((text,), meta={SEEN: fingerprint(view.text)})

    def _image_or_pdf(self, path: Path, args: Json, masker: Masker) -> ToolResult | None:
        try:
            raw = self._documents.files.read_bytes(path)
        except ToolError:
            return None
        if raw.startswith(HEAD):
            text = read_pdf_text(raw)
            if text is None:
                raise ToolError(
                    f"{quoted(self._name(path))} is a PDF of {len(raw):,} bytes; {NO_TEXT}"
                )
            return ToolResult.of(_render_view(TextWithNote(text, _PDF), args, masker))
        kind = next(
            (kind for head, kind in _IMAGES.items() if re.match(head, raw, re.DOTALL)), None
        )
        if kind is None:
            return None
        text = f"[{self._name(path)}: {kind}, {len(raw):,} bytes]"
        image = {"type": "image", "mimeType": kind, "data": b64encode(raw).decode()}
        return ToolResult(({"type": "text", "text": text}, image))

    def _read(self, path: Path) -> TextWithNote:
        """Return the newest text. The error for a path without a file suggests what to do."""
        try:
            return self._documents.read(path)
        except ToolError as exc:
            if path.is_dir():
                raise ToolError(f"{quoted(self._name(path))} is a folder; use list") from exc
            if path.exists():
                raise
            raise ToolError(f"{exc}; {self._near(path)}") from exc

    def _near(self, path: Path) -> str:
        names: list[str] = []
        with suppress(FileNotFoundError), self._folders.holding(path) as folder:
            siblings = os.listdir(folder)  # noqa: PTH208 - a descriptor has no path.
            names = get_close_matches(path.name, siblings)
        if not names:
            return "glob finds files by name"
        return f"beside it are {', '.join(map(repr, map(printable, names)))}"

    def _plan_view(self, args: Json) -> Intent:
        path = self._folders.resolve(args["path"], writing=False)
        uri = uri_from_path(self._folders.as_opened(path))
        secret = self._folders.is_protected(args["path"], writing=False)
        subject = PathSubject(uri=uri, access="read")
        return Intent(
            title=f"View {self._name(path)}",
            subject=subject if secret else ToolSubject(tool=self.spec.name, args=args),
            risk="high" if secret else "low",
            reasons=(secret,) if secret else (),
            footprint=Footprint(writes=False, paths=frozenset({str(path)})),
            digest_material=(str(path),),
            locations=(Location(uri=uri, range=_lines(args)),),
            item_fields={"kind": "toolCall", "toolKind": "read"},
            outside_floor=secret is not None,
        )


def _lines(args: Json) -> Range | None:
    first, last = args.get("start_line"), args.get("end_line")
    if first is None or last is None or first > last:
        return None
    start, end = (Position(line=line, character=0) for line in (first - 1, last))
    return Range(start=start, end=end)


def _change(args: Json) -> Change:
    match args["command"]:
        case "create":
            return Create(checked_text(args, "text"))
        case "undo":
            return Undo()
        case "insert" if "insert_line" not in args:
            raise ToolError("insert needs insert_line, the line after which the text goes")
        case "insert":
            return Insert(args["insert_line"], checked_text(args, "text"))
        case _:
            return _replace(args)


def _replace(args: Json) -> Replace:
    if "edits" in args and "old_text" in args:
        raise ToolError("give either edits or old_text and new_text, not both")
    replacements: list[Json] = args.get("edits") or [args]
    return Replace(
        tuple(
            Replacement(
                checked_text(r, "old_text"), checked_text(r, "new_text"), bool(r.get("replace_all"))
            )
            for r in replacements
        )
    )


def _render_view(view: TextWithNote, args: Json, masker: Masker) -> str:
    """Return the wanted lines with their line numbers, and notes on what is not shown."""
    text = with_newlines(view.text)
    lines = text.removesuffix("\n").split("\n") if text else []
    first, last = args.get("start_line", 1), min(args.get("end_line", len(lines)), len(lines))
    if lines and first > max(last, 1):
        raise ToolError(f"no lines from {first} to {last}; the file has {len(lines)} lines")
    notes = [f"[{view.note}]"] if view.note else []
    shown_lines: list[str] = []
    room = MAX_SHOWN_BYTES - 1024
    for number in range(first, last + 1):
        line = _numbered_line(number, lines[number - 1], masker)
        room -= len(line.encode("utf-8", "replace")) + 1
        if room < 0:
            break
        shown_lines.append(line)
    end = first + len(shown_lines) - 1
    if not lines:
        notes.append("[the file is empty]")
    elif end < len(lines):
        more = f"; view with start_line={end + 1} for more"
        notes.append(f"[lines {first}-{end} of {len(lines)}{more}]")
    elif not text.endswith("\n"):
        notes.append("[no newline at the end of the file]")
    return "\n".join((*shown_lines, *notes))


def _numbered_line(number: int, line: str, masker: Masker) -> str:
    n_cut = len(line) - _MAX_LINE_CHARS
    if n_cut > 0:
        line = f"{masker.part(line, 0, _MAX_LINE_CHARS)} [line cut, {n_cut:,} characters more]"
    return f"{number:>6}\t{line}"
