"""The tools `diagnostics` and `lookup`, and places in code as a model and as a server name them.

Models count columns badly, so they give the name at a place. Invariant: no text of a file outside
the folders, or of one with secrets, is shown, wherever a server points.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from oh_daemon.common.cancel import Cancelled, CancelToken
from oh_daemon.features.search.search import SearchTool, spec
from oh_daemon.kernel.editor_ports import LanguageServers, ServerReport
from oh_daemon.kernel.ports import Json, ToolContext
from oh_daemon.kernel.tool_schemas import LINE, PATH, TEXT, takes
from oh_daemon.protocol.base import Range
from oh_daemon.protocol.errors import ToolError
from oh_daemon.protocol.language_servers import (
    CodeLocation,
    CodeSymbol,
    Diagnostic,
    Hover,
    LocationLink,
    Marked,
    parse_answer,
)
from oh_daemon.workspace.documents import Documents
from oh_daemon.workspace.excerpts import cap_text
from oh_daemon.workspace.line_diff import escape_text
from oh_daemon.workspace.paths import path_from_uri, printable, quoted, real_path
from oh_daemon.workspace.text_changes import as_editors_read

_MAX_LINE_CHARS = 200
_MAX_LINES_NAMED = 10


class CodePlaces:
    """Used for a single call, since it caches the texts that it reads."""

    def __init__(self, documents: Documents, servers: LanguageServers) -> None:
        self._documents = documents
        self._folders = documents.folders
        self._servers = servers
        self._texts: dict[str, str | None] = {}

    def find(self, args: Json) -> tuple[Path, Json]:
        """Return the file that the arguments name, and the position of `symbol` in it.

        Raises `ToolError`.
        """
        if "path" not in args or "symbol" not in args:
            raise ToolError("give path and symbol, the name as it stands in that file")
        path = self._folders.resolve(args["path"], writing=False)
        text = self._documents.look(path).text
        if text is None:
            name = quoted(self._folders.name(path))
            raise ToolError(f"there is no file {name}; glob finds files")
        offset = offset_of(text, args["symbol"], args.get("line"))
        return self._folders.as_opened(path), self._servers.offsets(text).position(offset)

    def path(self, uri: str) -> Path | None:
        """Return the real path, if tools may show the file."""
        path = path_from_uri(uri)
        real = real_path(path) if path else None
        is_open = real is not None and self._folders.contains(real)
        return real if real and is_open and not self._folders.is_left_out(real) else None

    def name(self, uri: str) -> str:
        real = self.path(uri)
        return self._folders.name(real) if real else printable(path_from_uri(uri) or uri)

    def text(self, uri: str) -> str | None:
        """Return the newest text; None when it must not or cannot be read."""
        if uri not in self._texts:
            self._texts[uri] = None
            with suppress(ToolError):
                path = self.path(uri)
                self._texts[uri] = self._documents.look(path).text if path else None
        return self._texts[uri]

    def column(self, uri: str, span: Range) -> int:
        """Return the column where `span` starts, one-based, in characters."""
        text = self.text(uri)
        if text is None:
            return span.start.character + 1
        starts, offset = _starts(text), self._servers.offsets(text).offset(span.start)
        return offset - starts[bisect_right(starts, offset) - 1] + 1

    def render(self, uri: str, span: Range | None) -> str:
        """Return file, line number and the text of that line."""
        line = span.start.line if span else 0
        text = self.text(uri)
        if text is None:
            note = "" if self.path(uri) else " (outside the workspace)"
            return f"{self.name(uri)}:{line + 1}{note}"
        lines = as_editors_read(text).split("\n")
        source_line = lines[line].strip()[:_MAX_LINE_CHARS] if line < len(lines) else ""
        return f"{self.name(uri)}:{line + 1}: {escape_text(source_line)}"


def offset_of(text: str, symbol: str, line: int | None) -> int:
    """Return the offset of the symbol in this line (one-based), or of its first use without one.

    Whole words are preferred. For a dotted name it is the offset of the last part. Raises
    `ToolError` that names the lines that do have the symbol.
    """
    word = rf"(?<!\w){re.escape(symbol)}(?!\w)"
    matches = list(re.finditer(word, text)) or list(re.finditer(re.escape(symbol), text))
    starts = _starts(text)
    last = len(symbol) - len(last_part(symbol))
    by_line: dict[int, int] = {}
    for match in matches:
        by_line.setdefault(bisect_right(starts, match.start()), match.start() + last)
    if not symbol or not by_line:
        raise ToolError(f"{symbol!r} is not in the file; give a name as it stands there")
    if line is None:
        return min(by_line.values())
    if line not in by_line:
        lines = ", ".join(map(str, [*by_line][:_MAX_LINES_NAMED]))
        raise ToolError(f"{symbol!r} is not in line {line}; it is in line {lines}")
    return by_line[line]


def last_part(symbol: str) -> str:
    """Return the last part of a dotted name: "save" of "Book.save"."""
    return re.split(r"\W+(?=\w)", symbol)[-1]


def _starts(text: str) -> list[int]:
    """Return the offset of each line, as LSP counts lines."""
    return [0, *(match.end() for match in re.finditer(r"\r\n|\r|\n", text))]


_MAX_ROWS = 100
_MAX_NAMES = 20
_MAX_SYMBOLS = 300
_MAX_HOVER_BYTES = 8 << 10
_MAX_MESSAGE_CHARS = 600
_MAX_NEW = 10
_WATCH_S = 1.0
_WARNING = 2
_SEVERITIES = ("error", "warning", "info", "hint")
_KINDS = (
    *("symbol", "file", "module", "namespace", "package", "class", "method", "property", "field"),
    *("constructor", "enum", "interface", "function", "variable", "constant", "string", "number"),
    *("boolean", "array", "object", "key", "null", "enum member", "struct", "event", "operator"),
    "type parameter",
)
"""LSP's SymbolKind counts from one."""

_Locations = tuple[LocationLink | CodeLocation, ...] | CodeLocation | None
_DIAGNOSTICS = spec(
    "diagnostics",
    "The errors and warnings that the user's editor shows, for a file, a folder, or without path"
    " for all it knows: path:line:column severity message [source code].",
    takes(
        path=PATH,
        severity={"enum": list(_SEVERITIES), "description": "the least to show, default warning"},
    ),
)
_LOOKUP = spec(
    "lookup",
    "Ask the user's language servers, which know names better than a search does."
    " definition, references, hover (type and documentation): of `symbol`, a name as it stands in"
    " `path`; give `line` when it is there more than once. symbols: the outline of `path`, or all"
    " symbols of the workspace whose names fit `query`."
    ' Example: {"operation": "references", "path": "src/app.py", "line": 12, "symbol": "load"}',
    takes(
        ["operation"],
        operation={"enum": ["definition", "references", "hover", "symbols"]},
        path=PATH,
        line=LINE,
        symbol=TEXT,
        query=TEXT,
    ),
)


Watch = Callable[[Iterable[Path], CancelToken], Callable[[], str]]
"""See `Problems.watch`."""


def unwatched(_paths: Iterable[Path], _cancel: CancelToken) -> Callable[[], str]:
    """Watch nothing, for clients that report no problems."""
    return str


def language_tools(documents: Documents, servers: LanguageServers) -> Iterable[SearchTool]:
    """Yield the tools that the client can support."""
    if servers.can_report:
        yield SearchTool(_DIAGNOSTICS, documents.folders, Problems(documents, servers).list)
    if servers.can_look_up:
        yield SearchTool(_LOOKUP, documents.folders, _Lookup(documents, servers).find)


class Problems:
    """The problems that the language servers report."""

    def __init__(self, documents: Documents, servers: LanguageServers) -> None:
        self._documents = documents
        self._folders = documents.folders
        self._servers = servers

    def list(self, args: Json, context: ToolContext) -> str:
        least = _SEVERITIES.index(args.get("severity", "warning")) + 1
        base = self._folders.resolve(args["path"], writing=False) if "path" in args else None
        is_file = base is not None and not base.is_dir()
        paths = [self._folders.as_opened(base)] if base and is_file else None
        report = self._servers.diagnostics(paths, min_severity=least, cancel=context.cancel)
        notes = [*self._scope_notes(base), *_loading_notes(report)]
        places = CodePlaces(self._documents, self._servers)
        n_by_severity: Counter[str] = Counter()
        rows: list[str] = []
        for uri, diagnostics in report.items:
            path = places.path(uri)
            if path is None or (base is not None and not path.is_relative_to(base)):
                continue
            n_by_severity.update(_severity(each) for each in diagnostics)
            rows += self.render(places, uri, diagnostics)
        if not rows:
            where = f"in {self._folders.name(base)}" if base else "in the open folders"
            nothing = f"nothing of severity {_SEVERITIES[least - 1]} or above"
            return "\n".join([f"The editor shows {nothing} {where}.", *notes])
        counts = [
            f"{n} {each}{'s' if n > 1 else ''}"
            for each in _SEVERITIES
            if (n := n_by_severity[each])
        ]
        return "\n".join([", ".join(counts), *limit_rows(rows, _MAX_ROWS), *notes])

    def _scope_notes(self, base: Path | None) -> Iterator[str]:
        """Yield which of the files below `base` the servers have certainly looked at."""
        paths = sorted(self._documents.open_texts())
        names = [self._folders.name(p) for p in paths if base is None or p.is_relative_to(base)]
        if base is not None and not base.is_dir():
            if not names:
                yield "[it is not open in the editor, whose servers may not have looked at it]"
            return
        files = ", ".join(limit_names(names)) or "none of them"
        yield f"[open in the editor: {files}; its servers may know nothing of other files]"

    def watch(self, paths: Iterable[Path], cancel: CancelToken) -> Callable[[], str]:
        """Note what is reported for open documents; the returned function renders what is new.

        Call that function once. Each takes a second at most; on any failure nothing is reported.
        """
        shown_ones = [path for path in paths if self._documents.look(path).document]
        open_paths = [self._folders.as_opened(path) for path in shown_ones]
        before = self._report(open_paths, cancel)
        if before is None:
            return str
        earlier = Counter(_same(each) for _, diagnostics in before for each in diagnostics)

        def news() -> str:
            places, rows = CodePlaces(self._documents, self._servers), list[str]()
            for uri, diagnostics in self._report(open_paths, cancel) or ():
                rows += self.render(places, uri, list(_new_diagnostics(earlier, diagnostics)))
            head = ["The editor shows new problems since this edit:"] if rows else []
            return "\n".join([*head, *limit_rows(rows, _MAX_NEW)])

        return news

    def _report(
        self, paths: Sequence[Path], cancel: CancelToken
    ) -> Sequence[tuple[str, Sequence[Diagnostic]]] | None:
        if not paths:
            return None
        try:
            return self._servers.diagnostics(
                paths, min_severity=_WARNING, timeout_s=_WATCH_S, cancel=cancel
            ).items
        except (ToolError, Cancelled):
            return None  # A failure here must not hide the result of the edit itself.

    def render(self, places: CodePlaces, uri: str, diagnostics: Sequence[Diagnostic]) -> list[str]:
        """Return one row per problem, sorted by line."""
        sorted_diagnostics = sorted(
            diagnostics, key=lambda each: (each.range.start.line, each.severity or 1)
        )
        return [self._row(places, uri, each) for each in sorted_diagnostics]

    @staticmethod
    def _row(places: CodePlaces, uri: str, diagnostic: Diagnostic) -> str:
        place = f"{diagnostic.range.start.line + 1}:{places.column(uri, diagnostic.range)}"
        message = escape_text(diagnostic.message[:_MAX_MESSAGE_CHARS]).replace("\n", "\n    ")
        origin = " ".join(
            printable(str(part)) for part in (diagnostic.source, diagnostic.code) if part
        )
        row = f"{places.name(uri)}:{place} {_severity(diagnostic)} {message}"
        return f"{row} [{origin}]" if origin else row


def _new_diagnostics(
    earlier: Counter[tuple[object, ...]], diagnostics: Iterable[Diagnostic]
) -> Iterator[Diagnostic]:
    """Yield the problems that are not among the known ones, each of which counts only once."""
    for each in diagnostics:
        if earlier[_same(each)] > 0:
            earlier[_same(each)] -= 1
        else:
            yield each


def _same(diagnostic: Diagnostic) -> tuple[object, ...]:
    """Return what identifies a problem even when lines above it were added or removed."""
    return diagnostic.severity or 1, diagnostic.message, diagnostic.source, diagnostic.code


def _severity(diagnostic: Diagnostic) -> str:
    return _SEVERITIES[max(1, diagnostic.severity or 1) - 1]


class _Lookup:
    def __init__(self, documents: Documents, servers: LanguageServers) -> None:
        self._documents = documents
        self._servers = servers

    def find(self, args: Json, context: ToolContext) -> str:
        operations: dict[str, Callable[[Json, CodePlaces, CancelToken], str]] = {
            "definition": self._locations,
            "references": self._locations,
            "hover": self._hover,
            "symbols": self._symbols,
        }
        places = CodePlaces(self._documents, self._servers)
        return operations[args["operation"]](args, places, context.cancel)

    def _locations(self, args: Json, places: CodePlaces, cancel: CancelToken) -> str:
        answer: _Locations = self._ask(args, places, _Locations, cancel)
        locations = answer if isinstance(answer, tuple) else (answer,) if answer else ()
        rows = [*dict.fromkeys(places.render(*_target(each)) for each in locations)]
        if not rows:
            rows = [
                f"No {args['operation']} of {args['symbol']!r} is known to the language servers."
            ]
        path = places.find(args)[0]
        notes = (
            loading_notes(self._servers, path, cancel) if args["operation"] == "references" else ()
        )
        return "\n".join([*limit_rows(rows, _MAX_ROWS), *notes])

    def _hover(self, args: Json, places: CodePlaces, cancel: CancelToken) -> str:
        hover: Hover | None = self._ask(args, places, Hover | None, cancel)
        if hover is None:
            return f"The language servers say nothing about {args['symbol']!r}."
        contents = hover.contents if isinstance(hover.contents, tuple) else (hover.contents,)
        texts = [each.value if isinstance(each, Marked) else each for each in contents]
        return cap_text(escape_text("\n\n".join(texts)), "this", _MAX_HOVER_BYTES)

    def _symbols(self, args: Json, places: CodePlaces, cancel: CancelToken) -> str:
        if ("path" in args) == ("query" in args):
            raise ToolError("symbols takes either path, for an outline, or query, for a search")
        about: Path | None = None
        method, params = "workspace/symbol", {"query": args.get("query")}
        if "path" in args:
            path = self._documents.folders.resolve(args["path"], writing=False)
            about = self._documents.folders.as_opened(path)
            method, params = "textDocument/documentSymbol", {}
        answer = self._servers.look_up(method, params, about=about, cancel=cancel)
        symbols: Sequence[CodeSymbol] = parse_answer(tuple[CodeSymbol, ...] | None, answer) or ()
        rows = [
            row for symbol in symbols for row in _outline(symbol, places, is_one_file=bool(about))
        ]
        return "\n".join(limit_rows(rows, _MAX_SYMBOLS)) or "No symbols are known there."

    def _ask(self, args: Json, places: CodePlaces, shape: Any, cancel: CancelToken) -> Any:
        path, position = places.find(args)
        params: Json = {"position": position}
        if args["operation"] == "references":
            params["context"] = {"includeDeclaration": True}
        method = f"textDocument/{args['operation']}"
        return parse_answer(shape, self._servers.look_up(method, params, about=path, cancel=cancel))


def _target(location: LocationLink | CodeLocation) -> tuple[str, Any]:
    if isinstance(location, LocationLink):
        return location.target_uri, location.target_selection_range
    return location.uri, location.range


def _outline(
    symbol: CodeSymbol, places: CodePlaces, *, is_one_file: bool, indent: str = ""
) -> Iterable[str]:
    kind = _KINDS[symbol.kind] if 0 < symbol.kind < len(_KINDS) else _KINDS[0]
    what = f"{kind} {printable(symbol.name)}"
    if symbol.container_name:
        what += f" in {printable(symbol.container_name)}"
    span = symbol.location.range if symbol.location else symbol.range
    line = span.start.line + 1 if span else 1
    if is_one_file or symbol.location is None:
        yield f"{line:>6}\t{indent}{what}"
    else:
        yield f"{places.name(symbol.location.uri)}:{line} {what}"
    for child in symbol.children:
        yield from _outline(child, places, is_one_file=is_one_file, indent=indent + "  ")


def loading_notes(servers: LanguageServers, about: Path, cancel: CancelToken) -> list[str]:
    """Return a line for the model if servers still load the project that a file belongs to."""
    if servers.can_report:
        # The client says so with the diagnostics of a file only.
        with suppress(ToolError, Cancelled):
            report = servers.diagnostics([about], min_severity=1, timeout_s=_WATCH_S, cancel=cancel)
            return _loading_notes(report)
    return []


def _loading_notes(report: ServerReport) -> list[str]:
    if not report.loading:
        return []
    verb = "is" if len(report.loading) == 1 else "are"
    names = ", ".join(map(printable, limit_names(report.loading)))
    return [f"[{names} {verb} still loading the project and may not know all of it]"]


def limit_names(names: Sequence[str]) -> list[str]:
    """Return the first names, and how many more there are."""
    more = len(names) - _MAX_NAMES
    return [*names[:_MAX_NAMES], *([f"{more:,} more"] if more > 0 else [])]


def limit_rows(rows: Sequence[str], limit: int) -> list[str]:
    """Return the first rows, and a last one that says how many more there are."""
    more = len(rows) - limit
    return [*rows[:limit], *([f"[{more:,} more]"] if more > 0 else [])]
