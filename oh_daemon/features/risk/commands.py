"""Rates one command whose words are known: by its program, its options and the paths it names.

Pure and lexical. Words that only the shell knows contain `UNKNOWN` and never lower a rating. Text
that a shell would run is handed back as `Inner`, for `script` to walk.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import filterfalse, pairwise
from typing import Literal, NamedTuple

from oh_daemon.features.risk.effects import (
    ProgramEffects,
    bare_name,
    decides_others,
    find_effect,
    find_inner,
    find_program,
    is_known,
    is_option,
)
from oh_daemon.features.risk.programs import EFFECTS, OPEN_ENDED, Use
from oh_daemon.protocol.items import Risk
from oh_daemon.workspace.path_classes import UNKNOWN, Place, RatingScope, holds_secrets


class Finding(NamedTuple):
    """The meaning of one part of a command; `script` is a file that is run, as an absolute path."""

    risk: Risk
    reason: str
    effect: str = "text"
    script: str | None = None
    words: tuple[str, ...] = ()
    """The words of a command, or another part of a script that a rule can name."""
    is_bound: bool = True
    """Whether it runs no file but `script` and programs of the system."""


class Inner(NamedTuple):
    """What a command runs in its turn: another command, as its words, or text for a shell."""

    code: Sequence[str] | str
    scope: RatingScope
    is_guess: bool = False
    """Whether it is only a guess that these words are a command."""


Findings = Iterator[Finding | Inner]


def rate_words(words: Sequence[str], scope: RatingScope) -> Findings:
    """Yield findings for all that a command, given as its words with the name first, does."""
    if not words:
        return
    name, *args = words
    yield Finding("low", "", words=(name, *args))
    if "/" not in name and (file := scope.disk.find_program(name, scope.cwd)):
        yield Finding("medium", f"it runs {file}, which is in the workspace", "run", file)
    if bare_name(name) == "docker-compose":
        name, args = "docker", ["compose", *args]
    program = find_program(bare_name(name))
    if re.search(r"[\0*?$`{]|\[.|[^ -~]|^[^/]* [^/]*$", name) or _SYNTAX.fullmatch(name):
        yield Finding("high", "which command runs is hidden", words=(UNKNOWN,))
    elif "/" in program.name:
        yield from _rate_script(name, scope)
        yield from rate_paths(args, scope, "write")
        # What a known tool does that lies in the workspace, such as `.venv/bin/python -c`.
        tool = find_program(program.name.rpartition("/")[2])
        if tool.usual == "run" or tool.usual in _RUNNERS:
            yield from _rate_call(tool, args, scope)
    elif args in (["--version"], ["--help"]) and program.usual != "inner":
        yield Finding("low", f"{program.name} shows a version or help")
    else:
        yield from _rate_call(program, args, scope)


_SYNTAX = re.compile(
    r"[}!-]|if|then|else|elif|fi|do|done|case|esac|for|while|until|select|function"
)
"""Words that name no program: where the grammar sees a command, bash reads something else."""


def _rate_call(program: ProgramEffects, args: Sequence[str], scope: RatingScope) -> Findings:
    inner = find_inner(program, args)
    own = args[: len(args) - len(inner)]
    effect, phrase = find_effect(program, own)
    if effect in EFFECTS:
        risk, use, meaning = EFFECTS[effect]
        reason = " ".join(filter(None, (program.name, phrase, meaning)))
        # Nobody sees here which commands the code holds.
        words = (UNKNOWN,) if effect == "inline" else ()
        # A word that only the shell knows may be any option.
        kinds = {phrase.kind for phrase in program.phrases} if _hides_words(args) else {effect}
        is_bound = not OPEN_ENDED & {program.usual, *kinds}
        yield Finding(risk, reason, effect, words=words, is_bound=is_bound)
        yield from _rate_folders(program, own, scope)
        paths = _without_pattern(own) if effect == "search" else own
        yield from rate_paths(paths if use != "text" else (), scope, use)
    if program.usual == "names":
        names = (arg.partition("=") for arg in args if not is_option(arg))
        yield from (rate_variable(name, value if sign else UNKNOWN) for name, sign, value in names)
    if program.usual in _RUNNERS:
        yield from (
            _RUNNERS[program.usual](program, effect, args, scope) if effect != "text" else ()
        )
    elif inner:
        is_text = len(inner) == 1 and " " in inner[0]
        yield Inner(inner[0] if is_text else inner, scope)
    if program.usual in ("run", "unknown"):
        yield from _rate_texts(program, args, scope)


def _hides_words(args: Sequence[str]) -> bool:
    """Return whether only the shell knows a word, which it may split into several."""
    return UNKNOWN in "".join(args)


def _rate_folders(
    program: ProgramEffects, args: Sequence[str], scope: RatingScope
) -> Iterator[Finding]:
    """Rate what a program does to all that is in the folders that it gets."""
    if program.usual in ("search", "deep") and any(map(holds_secrets, args)):
        yield Finding("high", f"{program.name} searches folders that hold secrets")
    if program.name == "rm" and any(map(scope.is_everything, filterfalse(is_option, args))):
        yield Finding("high", "rm may delete the whole workspace")


def _rate_texts(program: ProgramEffects, args: Sequence[str], scope: RatingScope) -> Findings:
    """Rate what a program may hand to a shell: `CC='sh -c id'`, or all from a known name on."""
    for arg in args:
        text = re.sub(r"^[A-Z_]+=", "", arg)
        is_text = " " in text and (text != arg or program.usual == "unknown")
        if is_text and is_known(bare_name(text.partition(" ")[0])):
            yield Inner(text, scope)
    if program.usual == "unknown":
        positions = (n for n, arg in enumerate(args) if arg != "." and is_known(arg))
        yield Inner(args[next(positions, len(args)) :], scope, is_guess=True)


def _without_pattern(args: Sequence[str]) -> Sequence[str]:
    """Return the arguments without the first operand, unless options give the pattern."""
    if any(re.match(r"-\w*[ef]|--(reg|fi|exp|fr)", arg) for arg in args):
        return args
    first = next((n for n, arg in enumerate(args) if not is_option(arg)), len(args))
    return [*args[:first], *args[first + 1 :]]


def _rate_inner(
    program: ProgramEffects, _: str, args: Sequence[str], scope: RatingScope
) -> Findings:
    """Rate what comes before another command, such as `env` and `xargs`, and that command."""
    words = list(find_inner(program, args))
    n_before = len(args) - len(words)
    options = filter(is_option, args[:n_before])
    # An unknown option may take the next word, so that another one is the command.
    is_understood = program.before.keys() >= {*options} - {"--"}
    if program.name in _FROM_PROJECT or not is_understood or _hides_words(args[:n_before]):
        yield Finding("low", "", is_bound=False)
    while words and re.match(r"\w+=", words[0]):
        yield rate_variable(*words.pop(0).split("=", 1))
    if program.name == "env" and not words:
        yield Finding("high", "env may show secrets")
    if program.name == "xargs":
        yield Finding("medium", "xargs runs a command on data")
        takes = any(re.match(r"-\w*[iI]|--rep", arg) for arg in args[:n_before])
        words = [*words[:1], *([UNKNOWN] if takes else words[1:]), UNKNOWN] if words else []
    if program.name in ("npx", "bunx", "uvx") and (
        not words or find_program(words[0]).usual not in ("run", "code")
    ):
        yield Finding("high", f"{program.name} fetches a program and runs it")
    yield Inner(words, scope)


_FROM_PROJECT = ("npx", "bunx", "uvx", "cross-env")
"""Programs that look up the names of others in the packages of the project."""


def _rate_text(
    program: ProgramEffects, _: str, args: Sequence[str], scope: RatingScope
) -> Findings:
    """Rate text that is run as a command now (`eval`) or later (`trap`, `watch`)."""
    is_later = program.name in ("trap", "watch")
    yield Finding("medium" if is_later else "low", f"{program.name} runs text as a command")
    operands = program.operands(args)
    text = " ".join(operands[:1] if program.name == "trap" else operands)
    yield _UNSEEN if UNKNOWN in text else Inner(text, scope)


def _rate_interpreter(
    program: ProgramEffects, effect: str, args: Sequence[str], scope: RatingScope
) -> Findings:
    """Rate a shell or another interpreter, whose code is in the command, a module or a file."""
    operands = program.operands(args)
    options = args[: len(args) - len(operands)]
    option_text = "".join(f" {option}" for option in options)
    flags = "".join(re.findall(r" [-+](\w+)", option_text))
    module = re.fullmatch(r"-[bBdEiIOqsSuvx]*m(.*)", " ".join(options[-1:]))
    is_shell = program.usual == "shell"
    loads_nothing = _LOAD_NOTHING.get("shell" if is_shell else program.name, "x")
    if not re.fullmatch(loads_nothing, option_text) or operands[:1] == ["inspect"]:
        yield Finding("low", "", is_bound=False)
    words = [*filter(None, [module and module[1]]), *operands]
    if module and words and program.name.startswith("py"):
        yield Finding("medium", f"{program.name} runs the module {words[0]}", "run")
        yield Inner(words, scope)
    elif is_shell and "c" in flags and operands and UNKNOWN not in operands[0]:
        yield Inner(operands[0], scope)
    elif effect == "inline" or not operands or (is_shell and {*"cis"} & {*flags}):
        yield _UNSEEN
    else:
        yield from rate_paths(options, scope, "run")
        yield from _rate_script(operands[0], scope)
        yield from rate_paths(operands[1:], scope, "write" if is_shell else "read")


_LOAD_NOTHING = {
    "shell": r"( [-+][a-hklnptuvxBCEHPT]+(o [a-z]+)?| -o [a-z]+)*",
    "python": r"( -[bBdEIOqsSuvx]+)*",
    "pypy": r"( -[bBdEIOqsSuvx]+)*",
    **dict.fromkeys(("node", "perl", "ruby", "php", "lua", "luajit", "Rscript", "tclsh"), ""),
}
"""The options of interpreters with which the first operand is all that they load by themselves.

Not so `node inspect`, which debugs the second operand. For python see its `--help`, for shells
SHELL BUILTIN COMMANDS, `set`, in bash(1)."""


def _rate_find(_: ProgramEffects, __: str, args: Sequence[str], scope: RatingScope) -> Findings:
    """Rate the commands that find runs on what it finds."""
    end = next((n for n, arg in enumerate(args) if arg.startswith("-exec")), len(args))
    yield from rate_paths(args[:end], scope, "read")
    if _hides_words(args):
        yield Finding("low", "", is_bound=False)
    for start, arg in enumerate(args, 1):
        if arg.startswith(("-exec", "-ok")):
            stop = next((n for n in range(start, len(args)) if args[n] in ";+"), len(args))
            words = [UNKNOWN if "{}" in word else word for word in args[start:stop]]
            # The command runs in the folder of each file.
            yield Inner(words, scope.moved_to("-") if arg.endswith("dir") else scope)


def _rate_git(_: ProgramEffects, __: str, args: Sequence[str], scope: RatingScope) -> Findings:
    """Rate a command of git, which stands after options that all commands take."""
    remaining, inner_ground, is_safe = list(args), scope, True
    folders: list[str] = []
    while remaining and is_option(remaining[0]) and remaining[0] not in ("--version", "--help"):
        option = remaining.pop(0)
        value = remaining.pop(0) if option in ("-C", "-c") and remaining else ""
        folders += [value] if option == "-C" else []
        inner_ground = inner_ground.moved_to(value) if option == "-C" else inner_ground
        is_setting = option == "-c" and re.match(r"(user|color|core\.quotepath)\b", value)
        is_safe = is_safe and (bool(is_setting) or option in ("-C", "--no-pager", "-P"))
    if not remaining and is_safe:
        yield Finding("low", "git shows its help")
        return
    program = find_program(" ".join(("git", *remaining[:1])))
    if program.usual == "unknown" or program.name.split()[1:] != remaining[:1] or not is_safe:
        why = "may be an alias for any command" if is_safe else "has options that name programs"
        name = program.name.replace(UNKNOWN, "…")
        yield Finding("high", f"{name} {why}", is_bound=False)
        return
    # In a folder outside every word would count as a path outside, even a message.
    is_inside = inner_ground.place(".", writing=False) == "inside"
    pairs = pairwise(remaining)
    args = [arg for before, arg in pairs if not re.fullmatch(r"-\w*m|--message", before)]
    findings = list(_rate_call(program, args, inner_ground if is_inside else scope))
    yield from findings
    if not all(isinstance(each, Finding) and each.risk == "low" for each in findings):
        yield from rate_paths(folders, scope, "run")
    elif program.usual != "text":
        yield _rate_repository(inner_ground)


def _rate_repository(scope: RatingScope) -> Finding:
    """Rate that git reads the repository of a folder, whose settings name programs to start."""
    if scope.cwd is not None and scope.disk.hides_repository(scope.cwd):
        why = "git may use a repository that came with the files here"
        return Finding("medium", why, is_bound=False)
    return rate_path(scope.cwd or UNKNOWN, scope, "read")


_UNSEEN = Finding(
    "high", "it runs code that is not in a file of the project", "run", words=(UNKNOWN,)
)
_RUNNERS: dict[str, Callable[[ProgramEffects, str, Sequence[str], RatingScope], Findings]] = {
    "inner": _rate_inner,
    "evals": _rate_text,
    "shell": _rate_interpreter,
    "code": _rate_interpreter,
    "find": _rate_find,
    "git": _rate_git,
}


def _rate_script(path: str, scope: RatingScope) -> Iterator[Finding]:
    """Rate a program that is a file: code of the project, unless it comes from elsewhere."""
    file = scope.file(path)
    if path == "-" or UNKNOWN in path or path.startswith("/dev") or "://" in path:
        yield _UNSEEN
    elif scope.place(path, writing=False) != "inside":
        reason = f"it runs {path}, which is outside the workspace"
        yield Finding("high", reason, script=file, is_bound=file is not None)
    else:
        reason = f"it runs {path}, which is in the workspace"
        yield Finding("medium", reason, "run", file, is_bound=file is not None)


def rate_paths(words: Sequence[str], scope: RatingScope, use: Use) -> Iterator[Finding]:
    """Rate every word that may be a path, values of options too; URLs are not paths."""
    for word in words:
        if re.match(r"(?!file)[a-z+]+://", word):
            continue
        is_attached = word.startswith("-")
        values = re.findall(r"(?<==).+|(?<=^-\w)[./~@\0].*", word) if is_attached else [word]
        for part in [part for value in values for part in (value, *re.split("[=:@]", value)[1:])]:
            yield rate_path(part or ".", scope, use if not _LOOKED_IN.match(word) else "read")


_LOOKED_IN = re.compile(r"-[DIL]|--(sysroot|config|with)|//[\w/]*(:|\.\.\.)")
"""Options that give a place where a program looks for something, and labels of bazel."""


def rate_path(path: str, scope: RatingScope, use: Use) -> Finding:
    """Rate what a program does with a path, by the place where that lies."""
    place = scope.place(path, writing=use == "write")
    place = "linked" if place == "inside" and scope.leads_away(path) else place
    reads, runs, writes, why = _PLACES[place]
    risks: dict[Use, tuple[Risk, str]] = {
        "text": ("low", ""),
        "read": (reads, "reads"),
        "run": (runs, "uses"),
        "write": (writes, "changes"),
    }
    risk, verb = risks[use]
    reason = f"it {verb} {path.replace(UNKNOWN, '…')}, {why}" if why and risk != "low" else ""
    return Finding(risk, reason)


_PLACES: dict[Place | Literal["linked"], tuple[Risk, Risk, Risk, str]] = {
    "device": ("low", "low", "low", ""),
    "inside": ("low", "low", "medium", ""),
    "outside": ("medium", "high", "high", "which is outside the workspace"),
    "linked": ("medium", "high", "high", "which leads out of the workspace or to a secret"),
    "unknown": ("medium", "medium", "high", "a place that is not known"),
    "protected": ("low", "low", "high", "which decides what other programs run"),
    "secret": ("high", "high", "high", "which may hold secrets or belongs to the system"),
}
"""The risk of reading, running and changing what is in a place, and what to say of it."""


def rate_variable(name: str, value: str) -> Finding:
    """Rate giving a variable another value."""
    base = re.sub(r"(\[.*\])?\+?$", "", name, flags=re.DOTALL)
    loads_code = base.endswith("PATH") and re.search(r"(^|:)[/~]|\.\.|\0", value)
    # Where bash reads a number it evaluates array indices, and a command in one runs.
    runs = re.search(r"\[.*(\$\(|`)", name + value, re.DOTALL)
    if runs or loads_code or decides_others(base):
        reason = f"it sets {name}, which decides what other programs run"
        return Finding("high", reason, is_bound=False)
    return Finding("low", f"it sets {name}")
