"""The tools `grep`, `glob` and `list`: what the folders hold, as the user sees it in the editor.

Unsaved text counts; files that git ignores do not; files with secrets are left out, with a note.
`workspace/file_names` finds the files; patterns run in `line_search`, a child process. Ripgrep is
not used: its dialect differs, so the same call would find other lines on other machines.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from oh_daemon.common.cancel import CancelToken
from oh_daemon.common.masking import Masker
from oh_daemon.features.search import line_search
from oh_daemon.kernel.ports import Footprint, Intent, Json, ToolContext, ToolResult, ToolSpec
from oh_daemon.kernel.prompt import true_spec
from oh_daemon.kernel.tool_schemas import TEXT, takes
from oh_daemon.protocol.approvals import ToolSubject
from oh_daemon.protocol.errors import ToolError
from oh_daemon.protocol.items import Location
from oh_daemon.system.spawner import Spawner
from oh_daemon.workspace.documents import Documents
from oh_daemon.workspace.excerpts import cap_text
from oh_daemon.workspace.file_names import MAX_FILES, fits, list_files, parse_glob
from oh_daemon.workspace.line_diff import escape_text
from oh_daemon.workspace.paths import Folders, printable, quoted, uri_from_path

_MATCH_TIMEOUT_S = 20.0
_SPAWN_TIMEOUT_S = 30.0
_MAX_NAMED = 3
_MAX_ENTRIES = 400
_DEFAULT_LIMIT = 100
_WANTED = ("pattern", "symbol", "query")
"""The arguments that say what to look for."""

_PATH: Json = {"type": "string", "description": "file or folder; default: all open folders"}
_GLOB: Json = {"type": "string", "description": "only such files, such as *.{ts,tsx}"}


def _number(minimum: int, maximum: int) -> Json:
    return {"type": "integer", "minimum": minimum, "maximum": maximum}


def spec(name: str, description: str, schema: Json) -> ToolSpec:
    """Return the spec of a tool that finds something and changes nothing."""
    return ToolSpec(name, description, schema, kind="search", read_only=True)


_GREP_SPEC = spec(
    "grep",
    "Search the lines of text files for a Python regular expression; one with \\n matches across"
    " lines. What git ignores is left out unless path names it. mode: content (lines with their"
    " numbers), files (names), count (matching lines per file). Example:"
    ' {"pattern": "def load_[a-z]+", "glob": "src/**/*.py", "context": 2}'
    "\n?buffers Text that the user has not saved counts.",
    takes(
        ["pattern"],
        pattern=TEXT,
        path=_PATH,
        glob=_GLOB,
        mode={"enum": ["content", "files", "count"]},
        context=_number(0, 20),
        ignore_case={"type": "boolean"},
        limit=_number(1, 1000),
    ),
)
_GLOB_SPEC = spec(
    "glob",
    "Find files by name: *, ?, [a-z], ** for any folders, {a,b}. A pattern without / fits at any"
    ' depth. What git ignores is left out. Example: {"pattern": "tests/**/test_*.py"}',
    takes(["pattern"], pattern=TEXT, path=_PATH),
)
_LIST_SPEC = spec(
    "list",
    "List folders. Those that git ignores are named but not entered.",
    takes(path=_PATH, depth=_number(1, 10)),
)


def search_tools(
    documents: Documents, folders: Folders, spawner: Spawner, facts: Collection[str] = ()
) -> tuple[SearchTool, ...]:
    """Return the three tools, which implement `kernel.ports.Tool`; for `facts` see `true_rows`."""
    search = _Search(documents, folders, spawner)
    finders = ((_GREP_SPEC, search.grep), (_GLOB_SPEC, search.glob), (_LIST_SPEC, search.list))
    return tuple(SearchTool(true_spec(spec, facts), folders, find) for spec, find in finders)


class WordSearch(Struct, frozen=True):
    """Finds a name in all files that `grep` searches."""

    documents: Documents
    folders: Folders
    spawner: Spawner

    def __call__(self, word: str, cancel: CancelToken) -> list[tuple[str, int]]:
        """Return the files that have it as a whole word, each with the number of lines.

        Raises `ToolError` and `Cancelled`.
        """
        search = _Search(self.documents, self.folders, self.spawner)
        return search.count_word(word, cancel)


class SearchTool(Struct, frozen=True):
    """A read-only tool whose answer is a text."""

    spec: ToolSpec
    folders: Folders
    find: Callable[[Json, ToolContext], str]

    def plan(self, args: Json) -> Intent:
        place, locations = "the open folders", ()
        if "path" in args:
            path = self.folders.resolve(args["path"], writing=False)
            if secret := self.folders.is_protected(args["path"], writing=False):
                raise ToolError(f"{secret}; view it with edit, which asks the user")
            place = self.folders.name(path)
            locations = (Location(uri=uri_from_path(self.folders.as_opened(path))),)
        what = next((args[name] for name in _WANTED if name in args), None)
        quoted_part = f" {quoted(what)} in" if what else ""
        return Intent(
            title=f"{self.spec.name.capitalize()}{quoted_part} {place}",
            subject=ToolSubject(tool=self.spec.name, args=args),
            risk="low",
            footprint=Footprint(writes=False),
            locations=locations,
            item_fields={"kind": "toolCall", "toolKind": "search"},
        )

    def run(self, args: Json, context: ToolContext) -> ToolResult:
        return ToolResult.of(cap_text(self.find(args, context), "the result"))


class _Search:
    def __init__(self, documents: Documents, folders: Folders, spawner: Spawner) -> None:
        self._documents = documents
        self._folders = folders
        self._name = self._folders.name
        self._spawner = spawner

    def grep(self, args: Json, context: ToolContext) -> str:
        cancel, masker = context.cancel, context.masker
        unsaved_texts = dict(self._documents.unsaved_texts())
        files, notes = self._files(args, args.get("glob", "**"), unsaved_texts, cancel)
        result = self._matches(args, files, unsaved_texts, cancel)
        hits: list[Json] = result["files"]
        n_lines = sum(hit["count"] for hit in hits)
        limit, n_found, unit = args.get("limit", _DEFAULT_LIMIT), len(hits), "files"
        match args.get("mode", "content"):
            case "content":
                n_found, unit = n_lines, "matching lines"
                blocks = [self._block(hit, unsaved_texts, masker) for hit in hits if hit["lines"]]
            case "count":
                blocks = [
                    f"{self._title(hit, unsaved_texts)}: {hit['count']}" for hit in hits[:limit]
                ]
            case _:
                blocks = [self._title(hit, unsaved_texts) for hit in hits[:limit]]
        lines, files_note = _count_text(n_lines, "matching line"), _count_text(len(files), "file")
        head = f"{lines} in {len(hits):,} of {files_note}"
        return _render(
            head, blocks, (*_cut_note(limit, n_found, unit), *_gaps(result, len(files)), *notes)
        )

    def count_word(self, word: str, cancel: CancelToken) -> list[tuple[str, int]]:
        """Return the names of files with this whole word, and in how many lines it is."""
        unsaved_texts = dict(self._documents.unsaved_texts())
        files, _ = self._files({}, "**", unsaved_texts, cancel)
        args = {"pattern": rf"(?<!\w){re.escape(word)}(?!\w)", "mode": "count"}
        hits = self._matches(args, files, unsaved_texts, cancel)["files"]
        return [(self._name(Path(hit["path"])), hit["count"]) for hit in hits]

    def glob(self, args: Json, context: ToolContext) -> str:
        unsaved_texts = dict(self._documents.unsaved_texts())
        files, notes = self._files(args, args["pattern"], unsaved_texts, context.cancel)
        names = [self._name(path) for path in files[:_MAX_ENTRIES]]
        notes += _cut_note(_MAX_ENTRIES, len(files), "files")
        return _render(_count_text(len(files), "file"), names, notes)

    def list(self, args: Json, context: ToolContext) -> str:
        lines: list[str] = []
        for base in self._bases(args):
            if self._folders.kind(base) != "folder":
                raise ToolError(f"{quoted(self._name(base))} is a file; view it with edit")
            files = self._list_files(base, context.cancel)
            paths = {*files, *(above for path in files for above in path.parents)}
            lines += (f"{printable(base)}/", *self._tree(base, args.get("depth", 1), paths, "  "))
        notes = _cut_note(_MAX_ENTRIES, len(lines), "entries")
        return _render("", lines[:_MAX_ENTRIES], notes)

    def _tree(
        self, folder: Path, depth: int, listed_paths: set[Path], indent: str
    ) -> Iterator[str]:
        """Yield the entries down to `depth`; folders that git ignores are named but not entered."""
        with self._folders.holding(folder / "*") as descriptor, os.scandir(descriptor) as entries:
            kinds = {e.name: (e.is_symlink(), e.is_dir(follow_symlinks=False)) for e in entries}
        for name, (is_link, is_folder) in sorted(kinds.items()):
            path = folder / name
            mark = "@ (link)" if is_link else "/" if is_folder else ""
            note = "" if is_link or path in listed_paths else " (ignored or empty)"
            yield f"{indent}{printable(name)}{mark}{note}"
            if is_folder and path in listed_paths and depth > 1:
                yield from self._tree(path, depth - 1, listed_paths, indent + "  ")

    def _bases(self, args: Json) -> tuple[Path, ...]:
        if "path" not in args:
            return self._folders.roots
        path = self._folders.resolve(args["path"], writing=False)
        if self._folders.kind(path) is None:
            raise ToolError(f"there is no {quoted(self._name(path))}; glob finds files by name")
        return (path,)

    def _files(
        self, args: Json, pattern: str, unsaved_paths: Iterable[Path], cancel: CancelToken
    ) -> tuple[list[Path], list[str]]:
        """Return the matching files, by name, and notes for the model on those left out."""
        glob = parse_glob(pattern)
        files: set[Path] = set()
        notes: list[str] = []
        for base in self._bases(args):
            if self._folders.kind(base) == "file":
                files.add(base)
                continue
            listing = self._list_files(base, cancel)
            if len(listing) > MAX_FILES:
                notes.append(
                    f"only {MAX_FILES:,} files of {quoted(self._name(base))} were considered"
                )
            new = (
                path for path in unsaved_paths if path.is_relative_to(base) and not path.exists()
            )
            files |= {p for p in (*listing[:MAX_FILES], *new) if fits(p.relative_to(base), glob)}
        secret = sorted(filter(self._folders.is_left_out, files))
        if secret:
            names = ", ".join(self._name(path) for path in secret[:_MAX_NAMED])
            notes.append(f"{len(secret)} files that may hold secrets were left out: {names}")
        # As paths compare themselves, but in a tenth of the time.
        return sorted(files.difference(secret), key=lambda path: path.parts), notes

    def _list_files(self, base: Path, cancel: CancelToken) -> list[Path]:
        where = self._folders.for_programs(base)
        with self._folders.holding(base / "*") as top:
            return [base / name for name in list_files(where, top, self._spawner, cancel)]

    def _matches(
        self, args: Json, files: list[Path], unsaved_texts: dict[Path, str], cancel: CancelToken
    ) -> Json:
        is_content = args.get("mode", "content") == "content"
        places = {str(self._folders.for_programs(path)): str(path) for path in files}
        job = {
            "pattern": args["pattern"],
            "ignore_case": args.get("ignore_case", False),
            "paths": [*places],
            "texts": {str(path): text for path, text in unsaved_texts.items()},
            "context": args.get("context", 0),
            "limit": args.get("limit", _DEFAULT_LIMIT) if is_content else 0,
            "timeout_s": _MATCH_TIMEOUT_S,
        }
        outcome = self._spawner.run(
            (sys.executable, "-IS", line_search.__file__),
            cwd=self._folders.for_programs(self._folders.roots[0]),
            timeout_s=_SPAWN_TIMEOUT_S,
            cancel=cancel,
            stdin=json.dumps(job).encode(),  # Arguments are limited in size.
        )
        if outcome.exit_code != 0:
            raise ToolError("the search ended early; narrow the pattern, path or glob")
        result: Json = json.loads(outcome.stdout)
        if "error" in result:
            raise ToolError(
                f"{args['pattern']!r} is not a Python regular expression: {result['error']}; escape"
                " characters that stand for themselves with a backslash"
            )
        for hit in result["files"]:
            hit["path"] = places[hit["path"]]
        return result

    def _block(self, hit: Json, unsaved_paths: Iterable[Path], masker: Masker) -> str:
        lines = (escape_text(_line(line, masker)) for line in hit["lines"])
        return "\n".join((self._title(hit, unsaved_paths), *lines, ""))

    def _title(self, hit: Json, unsaved_paths: Iterable[Path]) -> str:
        path = Path(hit["path"])
        return self._name(path) + (" (unsaved text)" if path in unsaved_paths else "")


def _line(line: Json, masker: Masker) -> str:
    text = line["text"]
    if "part" in line:
        part = masker.part(text, *line["part"])
        text = f"{part} [{line['n_cut']:,} characters of this line cut]"
    return line["place"] + text


def _gaps(result: Json, n_files: int) -> Iterator[str]:
    """Yield notes on what was not searched, and why."""
    if result["late"]:
        yield f"time ran out at file {result['n_searched']:,} of {n_files:,}; use a simpler pattern"
    if result["n_binary"]:
        yield f"{result['n_binary']:,} binary files skipped"
    if large := result["too_large"]:
        names = ", ".join(map(printable, large[:_MAX_NAMED]))
        yield f"{len(large)} files skipped for their size: {names}; use grep in the terminal"


def _cut_note(limit: int, n_found: int, unit: str) -> list[str]:
    if n_found <= limit:
        return []
    return [f"only {limit} of {n_found:,} {unit} are shown; narrow the search by pattern or path"]


def _count_text(n: int, unit: str) -> str:
    return f"{n:,} {unit}" if n == 1 else f"{n:,} {unit}s"


def _render(head: str, blocks: Iterable[str], notes: Iterable[str]) -> str:
    """Join the parts; the notes come before the blocks, whose end may be cut."""
    return "\n".join(filter(None, (head, *(f"[{note}]" for note in notes), *blocks)))
