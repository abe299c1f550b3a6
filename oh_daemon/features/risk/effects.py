"""Finds what a program does with its arguments, in the rows of `programs`.

Invariant: a word that only the shell knows, or that may be the value of an option nobody knows,
never makes an effect look better; a program without a row is never taken for one that reads.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from typing import NamedTuple

from oh_daemon.features.risk.programs import CHANGES, EFFECTS, ProgramPhrase, read_table
from oh_daemon.workspace.path_classes import UNKNOWN

_ORDER = {effect: n for n, effect in enumerate(EFFECTS)}
_HIGH = _ORDER["send"]
"""From here on effects are high."""

Args = Sequence[str]


class ProgramEffects(NamedTuple):
    """What the rows say of one program."""

    name: str
    usual: str
    phrases: Sequence[ProgramPhrase]
    before: Mapping[str, bool]
    """Options that may stand before words, and whether the next word is their value."""

    def has_verbs(self) -> bool:
        """Return whether its first words say what it does, and are no other program's."""
        return any(words and words[0][0] not in "-~$" for _, words in self.phrases)

    def runs_others(self) -> bool:
        """Return whether it runs other programs that it gets, or may."""
        is_high = _ORDER.get(self.usual, 0) >= _HIGH
        return self.usual in ("inner", "unknown") or (is_high and not self.has_verbs())

    def operands(self, args: Args) -> Args:
        """Return the arguments from the first that is neither an option nor the value of one."""
        while args and is_option(args[0]) and args[0] != "--":
            takes = self.before.get(args[0]) or self.before.get("-" + args[0][-1])
            args = args[2 if takes else 1 :]
        return args[1:] if args[:1] == ["--"] else args


def is_option(arg: str) -> bool:
    """Return whether an argument, or a word of a phrase, is an option and no operand."""
    return len(arg) > 1 and arg[0] in "-+"


def bare_name(word: str) -> str:
    """Return the name of a system program without its directory."""
    return re.sub(r"^(/usr(/local)?)?/s?bin/(?=[^/]+$)", "", word)


def find_program(name: str) -> ProgramEffects:
    """Return what is known of a program; python3.11 and mkfs.ext4 are there by their stems."""
    stems = (name, re.sub(r"(?<=[a-z])[-.]?[\d.]+$", "", name), name.partition(".")[0])
    return _program(next((stem for stem in stems if stem in _rows()), name))


def is_known(name: str) -> bool:
    """Return whether a program has a row."""
    return find_program(name).usual != "unknown"


def find_effect(program: ProgramEffects, args: Args) -> tuple[str, str]:
    """Return the effect of a program with these arguments, and the words that show it."""
    return _effect(program.name, tuple(args))


@lru_cache(maxsize=512)
def _effect(name: str, args: tuple[str, ...]) -> tuple[str, str]:
    """Return what `find_effect` does. Cached, as each step rates the project's hooks again."""
    program = _program(name)
    fits = [
        (part.kind, " ".join(phrase))
        for part in program.phrases
        if part.kind in EFFECTS and (phrase := _fit(part, program, args)) is not None
    ]
    has_verbs = program.usual != "unknown" and program.has_verbs()
    verbs = [arg for arg in args[:2] if has_verbs and re.fullmatch(r"[a-z][a-z:-]*", arg)]
    usual = (program.usual, " ".join(verbs))
    effect, words = max(fits, key=lambda fit: _ORDER[fit[0]], default=usual)
    return effect, re.sub(r"\s", " ", words.replace(UNKNOWN, "…"))[:60]


def find_inner(program: ProgramEffects, args: Args) -> Args:
    """Return the words of another command that the program runs, without options before it."""
    for words in [words for kind, words in reversed(program.phrases) if kind == "inner"]:
        remaining: Args | None = args
        for word in words:
            if word == "*":
                remaining = program.operands(remaining or ())[1:]
            elif is_option(word):
                remaining = args[args.index(word) + 1 :] if word in args else None
            else:
                remaining = _after(word, remaining or ())
        if remaining:
            return program.operands(remaining)
    return ()


def decides_others(variable: str) -> bool:
    """Return whether a variable decides what programs run, or what they send where."""
    return any(fnmatchcase(variable, words[0]) for _, words in _program("<variable>").phrases)


def _fit(part: ProgramPhrase, program: ProgramEffects, args: Args) -> list[str] | None:
    """Return the words of a call that a phrase names, or None if it does not fit."""
    is_worse = _ORDER[part.kind] >= min(_ORDER.get(program.usual, 0) + 1, _HIGH)
    words: list[str] = []
    for word in (word for word in part.words if is_option(word) or word[0] == "~"):
        arguments = [
            arg for arg in _where(word, program, args) if _has(arg, word, is_worse=is_worse)
        ]
        if not arguments:
            return None
        words += arguments[:1] if word[0] != "~" else ()
    remaining: Args | None = args
    for word in (word for word in part.words if not is_option(word) and word[0] not in "~$"):
        remaining = _after(word, remaining) if is_worse else _next(word, program.before, remaining)
        if remaining is None:
            return None
        words.append(args[len(args) - len(remaining) - 1])
    return words if part.words[-1] != "$" or all(map(is_option, remaining)) else None


def _where(word: str, program: ProgramEffects, args: Args) -> Args:
    """Return where options of a program may stand: not after `--`, or after a script's name."""
    if word[0] == "~":
        return args
    if program.usual in ("code", "shell"):
        return args[: len(args) - len(program.operands(args))]
    return args[: args.index("--")] if program.usual == "run" and "--" in args else args


def _has(arg: str, word: str, *, is_worse: bool) -> bool:
    if word[0] == "~":
        return re.search(word[1:], arg.replace(UNKNOWN, "…")) is not None
    if not is_worse:
        return fnmatchcase(arg, word)
    if len(word) == len("-x"):
        return re.match(rf"-\w*{word[1]}", arg) is not None
    name = arg.partition("=")[0]
    return fnmatchcase(name, word) or (len(name) > len("-x") and word.startswith(name))


def _after(word: str, args: Args) -> Args | None:
    """Return what follows a word, which may stand behind any options and their values."""
    before = ""
    for index, arg in enumerate(args):
        is_any = arg == UNKNOWN and "…" not in word
        if not is_option(arg) and (is_any or fnmatchcase(arg.replace(UNKNOWN, "…"), word)):
            return args[index + 1 :]
        if not is_option(arg) and not is_option(before):
            return None
        before = arg
    return None


def _next(word: str, before: Mapping[str, bool], args: Args) -> Args | None:
    """Return what follows a word that comes first, or after options that may stand before it."""
    while args and args[0].partition("=")[0] in before:
        name, sign, _ = args[0].partition("=")
        args = args[2 if before[name] and not sign else 1 :]
    if not args or UNKNOWN in args[0] or is_option(args[0]):
        return None
    is_wrong = word == "*" and (
        not re.fullmatch(r"[a-z][\w-]*", args[0]) or args[0].partition("-")[0] in CHANGES
    )
    return args[1:] if fnmatchcase(args[0], word) and not is_wrong else None


@cache
def _rows() -> Mapping[str, Sequence[ProgramPhrase]]:
    return read_table("programs.txt")


@cache
def _program(name: str) -> ProgramEffects:
    parts = _rows().get(name, ())
    usual = next((kind for kind, words in parts if not words), "unknown")
    shared_rows = _rows().get("git *" if name.startswith("git ") else f"<{usual}>", ())
    phrases = [part for part in (*parts, *shared_rows) if part.words or part.kind == "inner"]
    options = [word for kind, words in phrases if kind == "with" for word in words]
    before = {word.rstrip("="): word.endswith("=") for word in options}
    return ProgramEffects(name, usual, [part for part in phrases if part.kind != "with"], before)
