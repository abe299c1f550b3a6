"""Decides which commands run unasked where no kernel holds them: a short list, in plain words.

It has a tokenizer of its own and knows no shell grammar. Invariant: in a plain command bash finds
the words that were judged here, and nothing else to do; whatever is not known is not plain.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import takewhile
from posixpath import join
from typing import NamedTuple

from oh_daemon.features.risk.commands import rate_path
from oh_daemon.features.risk.programs import read_table
from oh_daemon.workspace.path_classes import RatingScope


class Form(NamedTuple):
    """How a program may be called: its operands, and by option what follows: `#`, `=` or ""."""

    operands: str
    options: Mapping[str, str]


def _options(texts: Sequence[str]) -> Iterator[tuple[str, str]]:
    for text in texts:
        if text.startswith("--"):
            yield text, ""
        elif text[-1] in "#=":
            yield text[:-1], text[-1]
        else:
            yield from (("-" + letter, "") for letter in text[1:])


class ShortList(NamedTuple):
    """What is plain: the forms of programs, and a pattern for words without quotes."""

    forms: Mapping[str, Form]
    word: str


# Bash expands `~` at the start of a word and after `:` and `=`. A word with `=` in it is an option
# here, never an assignment.
WORD = r"-[\w./:=@%+,^-]*|([\w./:@%+,^-]|(?<=[\w^])~)+"


@cache
def short_list() -> ShortList:
    forms = {
        name: Form(part.kind, dict(_options(part.words)))
        for name, [part] in read_table("short_list.txt").items()
    }
    return ShortList(forms, WORD)


def why_not_plain(command: str, scope: RatingScope, plain: ShortList | None = None) -> str | None:
    """Return why a command may not run unasked, in words for people, or None if it may."""
    parts = _split(command, (plain or short_list()).word)
    if parts is None:
        return _ONLY_PLAIN
    return next(_reasons(*parts, scope, (plain or short_list()).forms), None)


def _split(text: str, word: str) -> tuple[list[list[str]], list[str]] | None:
    """Return the words of each command and what joins the commands, or None for other syntax."""
    piece = re.compile(_PIECE.format(word=word), re.ASCII | re.VERBOSE)
    commands: list[list[str]] = [[]]
    joints: list[str] = []
    end, text = 0, text.strip(" ")
    while end < len(text):
        match = piece.match(text, end) if text.isprintable() else None
        if match is None:
            return None
        end = match.end()
        if joint := match["joint"]:
            joints.append(joint)
            commands.append([])
        else:
            quoted_text = match["single"] if match["single"] is not None else match["double"]
            commands[-1].append(match["word"] if quoted_text is None else quoted_text)
    return (commands, joints) if all(commands) else None


_ONLY_PLAIN = (
    "only commands in plain words run unasked: on one line, without redirects, variables, patterns"
    " or other syntax than `&&`, `||`, `|`, `;` and simple quotes"
)
_PIECE = r"""\ *(?:(?P<joint>&&|\|\||[|;])
    |(?:(?P<word>{word})|'(?P<single>[^'\\]*)'|"(?P<double>[^"\\$`!]*)")(?=[ |;&]|\Z))"""


def _reasons(
    commands: list[list[str]], joints: list[str], scope: RatingScope, forms: Mapping[str, Form]
) -> Iterator[str]:
    if commands[0][0] == "cd":
        # What follows runs only if the folder was entered, and then in that folder.
        yield from _entering(commands[0], joints, scope)
        scope = scope.moved_to(commands[0][-1])
        commands = commands[1:]
    yield from _reading(".", scope)
    for words in commands:
        yield from _calling(words, scope, forms)


def _entering(words: list[str], joints: list[str], scope: RatingScope) -> Iterator[str]:
    # Where a link leads, bash and other programs read `..` after it differently.
    is_sure = len(words) == 2 and not re.match(r"-|$|(.*/)?\.\.(/|$)", words[1])  # noqa: PLR2004
    if not is_sure or {*joints[:1]} - {"&&"} or {*joints} - {"&&", "|"}:
        yield "of cd, only `cd FOLDER && …` with a folder below runs unasked"
    else:
        yield from _reading(words[1], scope)


def _calling(words: list[str], scope: RatingScope, forms: Mapping[str, Form]) -> Iterator[str]:
    name, *args = words
    if name == "git":
        args = args[1:] if args[:1] == ["--no-pager"] else args
        name, args = " ".join(("git", *args[:1])), args[1:]
        if scope.disk.hides_repository(scope.cwd or "/"):
            yield "git may use a repository that came with the files here"
    if name not in forms:
        yield f"{name} {_UNLISTED}"
    elif args != ["--version"]:
        call = _read_call(name, forms[name], args)
        judge = _OPERANDS[call.form.operands]
        yield from (
            judge(call, scope) if call.wrong is None else [f"{name} {call.wrong} {_UNLISTED}"]
        )


_UNLISTED = "is not on the short list of what runs unasked"


class _Call(NamedTuple):
    """The operands of a program, the options that it gets, and the first that it may not have."""

    program: str
    form: Form
    operands: Sequence[str]
    options: frozenset[str]
    wrong: str | None


def _read_call(program: str, form: Form, args: Sequence[str]) -> _Call:
    operands: list[str] = []
    option_names: set[str] = set()
    wrong: str | None = None
    remaining = iter(args)
    for arg in remaining:
        name, sign, _ = arg.partition("=")
        is_long = arg[:2] == "--"
        if form.operands in _WITHOUT_OPTIONS or arg[:1] != "-" or arg == "-":
            operands.append(arg)
        elif arg == "--":
            operands += remaining
        elif is_long or re.fullmatch(r"-[0-9]+", arg):
            option_names.add(name + sign if is_long else "-")
            wrong = wrong or (arg if option_names - form.options.keys() else None)
        elif not _read_letters(arg, remaining, form.options, option_names):
            wrong = wrong or arg
    return _Call(program, form, operands, frozenset(option_names), wrong)


def _read_letters(
    arg: str, remaining: Iterator[str], options: Mapping[str, str], names: set[str]
) -> bool:
    """Read `-abc`, and the next word if that is the last one's value; return if all is allowed."""
    for end, letter in enumerate(arg[1:], 2):
        sign = options.get("-" + letter)
        if sign is None:
            return False
        names.add("-" + letter)
        if sign:
            value = arg[end:] or next(remaining, None)
            return value is not None and _VALUES[sign].match(value) is not None
    return True


# A text that looks like an option might be taken for one.
_VALUES = {"#": re.compile(r"[+-]?[0-9]+[kKMG]?\Z"), "=": re.compile(r"(?!-(?![0-9]))")}


def _reading(path: str, scope: RatingScope) -> Iterator[str]:
    """Yield why a path may not be read."""
    findings = rate_path(path, scope, "read")
    if re.search(r"[*?[]", path) or findings.risk != "low":
        yield findings.reason or f"it reads {path}"
    elif scope.place(path, writing=False) != "inside":
        yield f"it reads {path}, which is outside the workspace"


def _names(call: _Call, scope: RatingScope) -> Iterator[str]:
    for path in call.operands:
        yield from _reading(path, scope) if path != "-" else ()


def _files(call: _Call, scope: RatingScope, n_folders: int = 0) -> Iterator[str]:
    yield from _names(call, scope)
    places = (join(scope.cwd or "/", path) for path in call.operands)
    if sum(map(scope.disk.is_folder, places)) > n_folders:
        yield f"{call.program} may read all that is in a folder"


def _file(call: _Call, scope: RatingScope) -> Iterator[str]:
    yield from _files(call, scope)
    if len(call.operands) > 1:
        yield f"{call.program} writes to {call.operands[1]}"


def _pattern(call: _Call, scope: RatingScope) -> Iterator[str]:
    is_given = not {"-e", "--regexp="}.isdisjoint(call.options)
    yield from _files(call._replace(operands=call.operands[0 if is_given else 1 :]), scope)


def _tracked_paths(call: _Call, scope: RatingScope) -> Iterator[str]:
    """Judge revisions, and paths in them; without a repository git compares whole folders."""
    parts = [part for each in call.operands for part in each.split(":") if part]
    if not all(re.fullmatch(r"[\w./@%+,^~-]*", part, re.ASCII) for part in parts):
        yield f"{call.program} has more than names after it"
    yield from _files(call._replace(operands=parts), scope, n_folders=1)


def _search(call: _Call, scope: RatingScope) -> Iterator[str]:
    paths = [*takewhile(lambda word: word[:1] not in {"-", "(", "!"}, call.operands)]
    yield from _names(call._replace(operands=paths), scope)
    tests = iter(call.operands[len(paths) :])
    for test in tests:
        if f"-{test}=" in call.form.options:
            next(tests, None)
        elif f"-{test}" not in call.form.options and test not in {"(", ")", "!"}:
            yield f"{call.program} {test} {_UNLISTED}"


def _formats(call: _Call, _ground: RatingScope) -> Iterator[str]:
    """Judge the operands of date, which sets the clock by any other."""
    yield from (f"{call.program} {arg} {_UNLISTED}" for arg in call.operands if arg[:1] != "+")


def _none(call: _Call, _ground: RatingScope) -> Iterator[str]:
    yield from (f"{call.program} {arg} {_UNLISTED}" for arg in call.operands)


def _texts(_call: _Call, _ground: RatingScope) -> Iterator[str]:
    yield from ()


_WITHOUT_OPTIONS = ("words", "search")
_OPERANDS: Mapping[str, Callable[[_Call, RatingScope], Iterator[str]]] = {
    "words": _texts,
    "texts": _texts,
    "none": _none,
    "formats": _formats,
    "names": _names,
    "search": _search,
    "files": _files,
    "file": _file,
    "pattern": _pattern,
    "tracked": _tracked_paths,
}
"""What operands are, and how they are judged.

`words` are texts, as is all that looks like an option. `names` are paths whose names, sizes and so
on are shown; of `files` the text is shown, of a `pattern` that of all files after it.
"""
