"""The rules of a project and of the user (AGENTS.md, CLAUDE.md, …), for the agent's prompt.

Files at the top of the open folders go into the system prompt. A file in a subfolder, or a rule
for some files only, comes with the first result about such a place. The agent is given each file
and each text once. `workspace/agent_files` lists the files.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct, field

from oh_daemon.common.cancel import CancelToken
from oh_daemon.common.instructions import ContextFile, cap_text
from oh_daemon.features.instructions.rules import find_imports, names_a_file, parse_rule
from oh_daemon.kernel.extension_points import Feature
from oh_daemon.kernel.state import State
from oh_daemon.protocol.errors import ToolError
from oh_daemon.protocol.items import Location
from oh_daemon.workspace.agent_files import RULE_FILES, RULE_FOLDERS, USER_RULE_FILES, RuleFile
from oh_daemon.workspace.documents import Documents
from oh_daemon.workspace.files import read_plain
from oh_daemon.workspace.paths import looks_secret, printable, real_path, real_paths

MAX_TOTAL_CHARS = 128 << 10
"""Limit of all rules that the prompt, or one result, contains."""
_RULE_ENDINGS = tuple(f"/{row.path}" for row in RULE_FILES)
_MAX_BYTES = 256 << 10
_MAX_DEPTH = 5
"""How many imports lead to a file at most, as in Claude Code: code.claude.com/docs/en/memory."""
_MAX_IMPORTS = 50
_MAX_RULES = 100
"""Limit of the files that are read in each folder of rules."""
_HOME_SUFFIXES = {".md", ".txt"}
"""Suffixes of files that the home folder's imports may have; keys and settings have others."""


class ContextFiles(Feature):
    """Thread-safe. Reads each file as the editor shows it, unsaved text included."""

    def __init__(
        self, documents: Documents, home: Path | None, is_trusted: Callable[[], bool]
    ) -> None:
        """`is_trusted` is whether files of the folders may import files of the `home` folder."""
        self._documents = documents
        self._folders = documents.folders
        self._home = home
        self._is_trusted = is_trusted
        self._lock = threading.Lock()
        self._names: set[str] = set()

    def restore(self, state: State) -> None:
        """Mark the files that the agent was given; it is given all others again."""
        names = {*state.agent.get("contextFiles", ())}
        for item in state.items:
            names.update((item.get("meta") or {}).get("contextFiles", ()))
        with self._lock:
            self._names = names
        for folder in self._folders.roots[:1]:
            self._folders.rule_files.update(folder / name for name in names)

    def of_roots(self) -> tuple[ContextFile, ...]:
        """Return the new files of the user and of the open folders, in the order of the table."""
        with self._lock:
            texts = _Texts(self._names)
            if self._home is not None:
                for row in USER_RULE_FILES:
                    self._add(texts, row, self._home / row.path)
            for root in self._folders.roots:
                for row in RULE_FILES:
                    self._add(texts, row, root / row.path)
                self._add_rules(texts, root, ())
            return tuple(texts.files)

    def texts_for(
        self, locations: Sequence[Location], _cancel: CancelToken
    ) -> tuple[ContextFile, ...]:
        """Return the new files of every folder from the open ones down to these places."""
        open_texts = self._documents.open_texts()
        with self._lock:
            texts = _Texts(self._names)
            paths = real_paths(locations)
            open_rules = {str(path) for path in open_texts if str(path).endswith(_RULE_ENDINGS)}
            for place in dict.fromkeys(path if path.is_dir() else path.parent for path in paths):
                # Only what may be there is read: a read opens every folder from the root down.
                for folder, descriptor in self._folders.down_to(place):
                    for row in RULE_FILES:
                        is_open = open_rules and f"{folder}/{row.path}" in open_rules
                        if is_open or _exists(row.path, descriptor):
                            self._add(texts, row, folder / row.path)
            for root in self._folders.roots:
                if below := [p.relative_to(root) for p in paths if p.is_relative_to(root)]:
                    self._add_rules(texts, root, below)
            return tuple(texts.files)

    def _add(self, texts: _Texts, row: RuleFile, path: Path) -> None:
        """Add a file of the table, and those that it imports."""
        name = self._name(path)
        text = None if name in texts.names or path in texts.replaced else self._read(path)
        if row.replaces and (text or name in texts.names):
            texts.replaced.add(path.with_name(row.replaces))
        if text and row.has_imports:
            self._add_with_imports(texts, text, path, 0)
        elif text:
            self._give(texts, path, text)

    def _add_with_imports(self, texts: _Texts, text: str, path: Path, depth: int) -> None:
        texts.visited.add(path)
        imports: list[tuple[Path, str]] = []
        refusals: list[str] = []
        for word in find_imports(cap_text(text)):
            place = self._place_of(word, path)
            try:
                imported_path = self._importable(place, path)
                if imported_path in texts.visited:
                    continue
                imported_text = self._require_text(imported_path)
            except ToolError as exc:
                # Other words with an "@" are names of people and packages.
                is_meant = names_a_file(word) or os.path.lexists(place)
                refusals += [f"@{word}: {exc}"] if is_meant else []
                continue
            if depth == _MAX_DEPTH or len(texts.visited) > _MAX_IMPORTS:
                refusals.append(f"@{word}: beyond {_MAX_DEPTH} levels or {_MAX_IMPORTS} files")
                continue
            texts.visited.add(imported_path)
            imports.append((imported_path, imported_text))
        note = f"\n[not imported: {'; '.join(refusals)}]" if refusals else ""
        self._give(texts, path, text, note)
        for imported_path, imported_text in imports:
            self._add_with_imports(texts, imported_text, imported_path, depth + 1)

    def _place_of(self, word: str, importer: Path) -> Path:
        """Return the path that an import names, relative to its file or below `~`."""
        if word.startswith("~/") and self._home is not None:
            return self._home / word[2:]
        return importer.parent / word

    def _importable(self, path: Path, importer: Path) -> Path:
        """Return the real path of an import. Raises `ToolError` if it must not be read."""
        home, real = self._home, real_path(path)
        if self._folders.contains(real):
            if self._folders.is_protected(str(path), writing=False):
                raise ToolError("it may hold secrets")
            return self._folders.resolve(str(path), writing=False)
        if home is None or not real.is_relative_to(real_path(home)):
            raise ToolError("it is outside the open folders and the home folder")
        if self._folders.contains(real_path(importer)) and not self._is_trusted():
            raise ToolError("it is outside the folder, and the folder is not trusted")
        if real.suffix not in _HOME_SUFFIXES:
            raise ToolError("outside the open folders, only .md and .txt files are imported")
        if looks_secret(str(real.relative_to(real_path(home)))):
            raise ToolError("it may hold secrets")
        return real

    def _add_rules(self, texts: _Texts, root: Path, paths: Sequence[Path]) -> None:
        """Add the rules that always hold, and those for one of the `paths` relative to the root."""
        for row in RULE_FOLDERS:
            for rule_path in self._files_in(root / row.path, row.suffix):
                text = None if self._name(rule_path) in texts.names else self._read(rule_path)
                rule = parse_rule(text or "", row.otherwise)
                is_matching = any(map(rule.holds_for, paths))
                if rule.when == "always" or (rule.when == "matching" and is_matching):
                    self._give(texts, rule_path, rule.text)
                elif rule.when == "described":
                    note = f"[not read yet; view this file before work on: {rule.description}]"
                    self._give(texts, rule_path, note)

    def _files_in(self, folder: Path, suffix: str) -> Iterator[Path]:
        for place, descriptor in self._folders.down_to(folder):
            if place == folder:
                names = sorted(name for name in os.listdir(descriptor) if name.endswith(suffix))  # noqa: PTH208 - a descriptor.
                yield from (folder / name for name in names[:_MAX_RULES])

    def _give(self, texts: _Texts, path: Path, text: str, note: str = "") -> None:
        if texts.add(self._name(path), cap_text(text) + note):
            self._folders.rule_files.add(path)

    def _name(self, path: Path) -> str:
        if self._folders.contains(path):
            return self._folders.name(path)
        if self._home is not None and path.is_relative_to(self._home):
            return printable(Path("~") / path.relative_to(self._home))
        return printable(path)

    def _read(self, path: Path) -> str | None:
        with suppress(ToolError):
            return self._require_text(path)
        return None

    def _require_text(self, path: Path) -> str:
        """Return the text of a file. Raises `ToolError`."""
        if self._folders.contains(path):
            return self._documents.read(self._folders.resolve(str(path), writing=False)).text
        try:
            return read_plain(path, _MAX_BYTES).decode("utf-8-sig").replace("\r\n", "\n")
        except OSError as exc:
            raise ToolError(exc.strerror or str(exc)) from exc
        except UnicodeDecodeError as exc:
            raise ToolError("it is not a text file") from exc


class _Texts(Struct):
    """The texts that are given at once."""

    names: set[str]
    """The files that the agent was given, with those of now."""
    files: list[ContextFile] = field(default_factory=list[ContextFile])
    replaced: set[Path] = field(default_factory=set[Path])
    visited: set[Path] = field(default_factory=set[Path])
    """The files whose imports were followed."""
    n_chars: int = 0

    def add(self, name: str, text: str) -> bool:
        """Add a text, unless the agent has it; return whether it is a rule of the agent."""
        if name in self.names or not text.strip():
            return False
        self.names.add(name)
        # Many projects keep the same text under several names.
        if all(text != file.text for file in self.files):
            self.n_chars += len(text)
            if self.n_chars > MAX_TOTAL_CHARS:
                limit = f"all rules have more than {MAX_TOTAL_CHARS:,} characters"
                text = f"[not read, since {limit}; view the file if it matters]"
            self.files.append(ContextFile(name, text))
        return True


def _exists(name: str, folder: int) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return False
    return True
