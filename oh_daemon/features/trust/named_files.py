"""The files of a project that a command names, by hash: its script, what that is given to read.

A heuristic: what a program loads by itself is not seen, and what `cat` shows does not count.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import stat
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path, PurePath

_OPERATORS = ";|&()<>`"
_PROJECT = re.compile(r"\$\{?(?:CLAUDE_PROJECT_DIR|OH_PROJECT_DIR|PWD)\b\}?")
_READERS = frozenset({"cat", "git", "grep", "head", "jq", "ls", "rg", "stat", "tail", "wc"})


def named_files(command: str, cwd: Path, inside: Path) -> list[tuple[str, str]]:
    """Return word and SHA-256 for each file below `inside` that a command for bash names."""
    files: set[tuple[str, str]] = set()
    bases, text = [cwd], _PROJECT.sub(lambda _name: str(cwd), command)
    for words in _parse_lines(text):
        if words[0] == "cd":
            bases += [cwd / word for word in words[1:]]
        if PurePath(words[0]).name in _READERS:
            continue
        names = [*words, *(word.partition("=")[2] for word in words if "=" in word)]
        pairs = ((name, _hash_of(base / name, inside)) for name in names for base in bases)
        files.update((name, sha256) for name, sha256 in pairs if sha256)
    return sorted(files)


@lru_cache(maxsize=512)
def _parse_lines(text: str) -> tuple[list[str], ...]:
    """Return the simple commands. Cached, as the same ones come again at each step."""
    return tuple(_simple_commands(text))


def _simple_commands(text: str) -> Iterator[list[str]]:
    """Yield the words of each command, also of those in quotes, without what output goes to."""
    words: list[str] = []
    is_target = False
    for token in (*_tokens(text), ";"):
        if not set(_OPERATORS).issuperset(token):
            if not is_target:
                words.append(token)
            is_target = False
        elif ">" in token:
            is_target = True
        elif "<" not in token and words:
            yield words
            words = []
        if " " in token or "\t" in token:
            yield from _simple_commands(token)


def _tokens(text: str) -> list[str]:
    lexer = shlex.shlex(text.replace("\n", " ; "), posix=True, punctuation_chars=_OPERATORS)
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        return list(lexer)
    except ValueError:  # A quote has no end.
        return re.split(r"[\s'\"]+", text)


def _hash_of(path: Path, inside: Path) -> str | None:
    try:
        status = path.stat()
        real = path.resolve()
        if not (stat.S_ISREG(status.st_mode) and real.is_relative_to(inside.resolve())):
            return None
        # Whoever changes a file cannot set its `ctime`.
        return _hash_now(
            real, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
        )
    except (OSError, ValueError, RuntimeError):  # No file, or no name of one.
        return None


@lru_cache(maxsize=256)
def _hash_now(path: Path, *_version: int) -> str:
    # Should a pipe have taken the file's place, it must not block.
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
