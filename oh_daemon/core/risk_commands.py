"""Rates one command whose words are known: by its program, its options and the paths it names.

Pure and lexical. Words that only the shell knows contain `UNKNOWN` and never lower a rating.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile
from typing import Literal, NamedTuple

from oh_daemon.contract.items import Risk
from oh_daemon.core.risk_git import GIT_OPTION, TEXT_OPTION
from oh_daemon.core.risk_paths import UNKNOWN, Ground, Place, holds_secrets
from oh_daemon.core.risk_programs import MEANINGS, Use, bare_name, find_program, has_value
from oh_daemon.core.risk_rules import DECISIVE, SEARCHED
from oh_daemon.core.risk_uses import find_inner, find_use, join_words


class Finding(NamedTuple):
    """What one part of a command means; `kind` is the program's, `script` a file that is run."""

    risk: Risk
    reason: str
    kind: str = "text"
    script: str | None = None
    words: tuple[str, ...] = ()
    """The words of a command, or another part of a script that a rule can name."""


class Around(NamedTuple):
    """What a command stands in. `rate_code` rates text that a shell runs."""

    ground: Ground
    rate_code: Callable[[str, Ground], Iterator[Finding]]
    depth: int = 0
    """How many commands it stands in: each is looked at from its name to its end."""

    def rate(self, words: Sequence[str]) -> Iterator[Finding]:
        """Yield findings for a command that the one that stands here runs."""
        return rate_words(words, self._replace(depth=self.depth + 1))


def rate_words(words: Sequence[str], around: Around) -> Iterator[Finding]:
    """Yield findings for all that a command, given as its words with the name first, does."""
    if not words:
        return
    if around.depth > _MAX_DEPTH:
        yield Finding("high", "too many commands stand in each other", words=(UNKNOWN,))
        return
    name, *args = words
    yield Finding("low", "", words=(name, *args))
    if bare_name(name) == "docker-compose":
        name, args = "docker", ["compose", *args]
    program, kind = find_program(bare_name(name))
    if re.search(r"[\0*?$`]|\[.|[^ -~]|^[^/]* [^/]*$", name) or _SYNTAX.fullmatch(name):
        yield Finding("high", "which command runs is hidden")
    elif "/" in program:
        yield from _rate_script(name, around.ground)
        yield from rate_paths(args, around.ground, "write")
        # What a known tool does that lies in the workspace, such as `.venv/bin/python -c`.
        tool, kind = find_program(program.rpartition("/")[2])
        if kind in ("run", "code", "shell", "wrap"):
            yield from _rate_call(tool, kind, args, around)
    elif args in (["--version"], ["--help"], ["-V"]) and program != "coproc" and kind != "wrap":
        yield Finding("low", f"{program} shows a version or help")
    else:
        yield from _rate_call(program, kind, args, around)


_MAX_DEPTH = 16
_SYNTAX = re.compile(
    r"[{}!-]|if|then|else|elif|fi|do|done|case|esac|for|while|until|select|function"
)
"""Words that name no program: where the grammar sees a command, bash reads something else."""


def _rate_call(program: str, kind: str, args: Sequence[str], around: Around) -> Iterator[Finding]:
    inner = _operands(program, find_inner(program, args))
    own = args[: len(args) - len(inner)]
    effect, words = find_use(program, own)
    risk, use, meaning = MEANINGS.get(effect) or MEANINGS["text"]
    if effect in MEANINGS:
        yield Finding(risk, f"{' '.join(filter(None, (program, words)))} {meaning}", effect)
    is_nested = risk == "high" or effect in _NESTED or kind in ("find", "wrap")
    if is_nested and kind in _NESTED:
        yield from _NESTED[kind](program, args, around)
        return
    if kind in ("text", "names"):
        yield from _rate_names(args, are_given=kind == "names")
    kind = kind if risk == "high" else effect
    paths = () if kind in ("text", "names") else _paths(program, own)
    yield from rate_paths(paths, around.ground, use)
    yield from _rate_tree(program, kind, paths, around.ground)
    if len(inner) == 1 and " " in inner[0]:
        yield from around.rate_code(inner[0], around.ground)
    else:
        yield from around.rate(inner)
    texts = args if kind == "unknown" else [arg for arg in args if re.match(r"[A-Z_]+=", arg)]
    yield from _rate_texts(texts if kind in ("run", "unknown") else (), around)
    if kind == "unknown":
        yield from _rate_guess(args, around)


def _rate_tree(program: str, kind: str, paths: Sequence[str], ground: Ground) -> Iterator[Finding]:
    """Rate what a program does to all that is in the folders that it gets."""
    if (
        kind in ("pattern", "deep")
        and program not in ("fd", "fdfind")
        and any(map(holds_secrets, paths))
    ):
        yield Finding("high", f"{program} searches folders that hold secrets")
    if program == "rm" and any(ground.is_everything(path) for path in paths if path[:1] != "-"):
        yield Finding("high", "rm may delete the whole workspace")


def _rate_texts(args: Sequence[str], around: Around) -> Iterator[Finding]:
    """Rate texts that a program may hand to a shell: `CC='sh -c id'`, or a whole argument."""
    for arg in args:
        text = re.sub(r"^[A-Z_]+=", "", arg)
        name, is_text, _ = text.partition(" ")
        if is_text and find_program(bare_name(name))[1] not in ("unknown", "text"):
            yield from around.rate_code(text, around.ground)


def _rate_guess(args: Sequence[str], around: Around) -> Iterator[Finding]:
    """Rate what a program that nobody knows may do, as its arguments sound, or run."""
    inner = (n for n, arg in enumerate(args) if arg != "." and find_program(arg)[1] != "unknown")
    guess = tuple(args[next(inner, len(args)) :])
    for found in around.rate(guess):
        yield found._replace(words=()) if found.words == guess else found


def _rate_names(args: Sequence[str], *, are_given: bool) -> Iterator[Finding]:
    """Rate variables that get a value here; `are_given` says that the program gives it to them."""
    for arg in args:
        match = re.match(r"(\w+(?:\[.*\])?\+?)(?:=(.*))?$", arg, re.DOTALL)
        if match and (are_given or match[2] is not None):
            yield rate_variable(match[1], UNKNOWN if are_given else match[2])


def _operands(program: str, args: Sequence[str]) -> Sequence[str]:
    """Return the arguments from the first that is neither an option nor the value of one."""
    signs = ("-", "+") if find_program(program)[1] == "shell" else "-"
    index = 0
    while index < len(args) and args[index].startswith(signs) and len(args[index]) > 1:
        if args[index] == "--":
            return args[index + 1 :]
        word = args[index]
        index += 2 if has_value(program, word if word.startswith("--") else "-" + word[-1]) else 1
    return args[index:]


def _paths(program: str, args: Sequence[str]) -> Sequence[str]:
    """Return the arguments that may be paths: no patterns, and no messages of git."""
    if find_program(program)[1] == "pattern":
        return _without_pattern(program, args)
    pairs = zip(("", *args), args, strict=False)
    return [arg for before, arg in pairs if not TEXT_OPTION.fullmatch(f"{program} {before}")]


def _without_pattern(program: str, args: Sequence[str]) -> Sequence[str]:
    """Return the arguments without the pattern: the first operand unless options give it."""
    if any(re.match(r"-\w*[ef]$|--(reg|fi|exp)", arg) for arg in args):
        values = [n + 1 for n, arg in enumerate(args) if re.match(r"-\w*e$|--(reg|exp)", arg)]
        return [arg for n, arg in enumerate(args) if n not in values]
    rest = _operands(program, args)
    return [*args[: len(args) - len(rest)], *rest[1:]]


def _wrapped(program: str, args: Sequence[str], around: Around) -> Iterator[Finding]:
    words = list(_operands(program, args))
    options = join_words(args[: len(args) - len(words)])
    if program == "env" and _UNSETS.search(options):
        yield Finding("medium", "env runs a program without settings that all others get here")
    while program in ("env", "cross-env") and words and re.match(r"\w+=", words[0]):
        yield rate_variable(*words.pop(0).split("=", 1))
    if program == "xargs":
        yield Finding("medium", "xargs runs a command on data")
        marks = ["{}", *re.findall(r" -I ?(\S+)", " " + " ".join(args))]
        known = (UNKNOWN if any(mark in word for mark in marks) else word for word in words)
        words = [*known, UNKNOWN] if words else []
    runs_project = bool(words) and find_program(words[0])[1] in ("run", "code")
    if program in ("npx", "bunx", "uvx") and not runs_project:
        yield Finding("high", f"{program} fetches a program and runs it")
    words = words[1:] if program in ("timeout", "flock") else words
    if program != "command" or not re.match(r"-[vV]", next(iter(args), "")):
        yield from around.rate(words)


_UNSETS = re.compile(r"\ (-\w*i|--ig)|\ (-\w*u|--unset)[ =]?(GIT_|\w*PAGER)")


def _git(program: str, args: Sequence[str], around: Around) -> Iterator[Finding]:
    """Rate a command of git, which stands after options that all commands take."""
    options = re.match(rf"({GIT_OPTION})*+", join_words(args), re.VERBOSE)
    n_options = options[0].count(" ") if options else 0
    if n_options == len(args):
        yield Finding("low", f"{program} shows its help")
        return
    command = f"{program} {args[n_options]}"
    known, kind = find_program(command)
    if known != command or kind == "unknown":
        yield Finding("high", f"{command} may be an alias for any command".replace(UNKNOWN, "…"))
        return
    ground = around.ground
    folders = [args[n + 1] for n in range(n_options) if args[n] == "-C"]
    for folder in folders:
        ground = ground.moved(folder)
    # In a folder outside every word would count as a path outside, even a message.
    is_inside = ground.place(".", writing=False) == "inside"
    there = around._replace(ground=ground) if is_inside else around
    found = list(_rate_call(command, kind, args[n_options + 1 :], there))
    yield from found
    only_reads = all(finding.risk == "low" for finding in found)
    if not only_reads:
        yield from rate_paths(folders, around.ground, "run")
    elif kind != "text":
        yield _rate_repository(ground)


def _rate_repository(ground: Ground) -> Finding:
    """Rate that git reads the repository of a folder, whose settings name programs to start."""
    if ground.cwd is not None and ground.disk.hides_repository(ground.cwd):
        return Finding("medium", "git may use a repository that came with the files here")
    return rate_path(ground.cwd or UNKNOWN, ground, "read")


def _searched(_: str, args: Sequence[str], around: Around) -> Iterator[Finding]:
    """Rate what find does, and the commands that it runs on what it finds."""
    end = next((n for n, arg in enumerate(args) if arg.startswith("-exec")), len(args))
    # A path that is left out makes what is found no wider.
    wider = re.sub(r" (-not|!) -(i|whole)?(path|name) \S+", "", " ".join(args)).split(" ")
    found = UNKNOWN if _WIDENS & {*wider} else _found(args[:end])
    named = takewhile(lambda arg: not arg.startswith("-exec"), wider)
    yield from rate_paths([*named], around.ground, "write" if "-delete" in args else "read")
    for start, arg in enumerate(args, 1):
        if arg in ("-exec", "-execdir"):
            stop = next((n for n in range(start, len(args)) if args[n] in ";+"), len(args))
            # The name of a file is no code to trust.
            names = [found if re.fullmatch(r"[\w./{}-]+", word) else UNKNOWN for word in args]
            pairs = zip(args[start:stop], names[start:stop], strict=True)
            yield from around.rate([word.replace("{}", name) for word, name in pairs])


def _found(args: Sequence[str]) -> str:
    """Return a pattern for what find finds by name in one place, or `UNKNOWN`."""
    first = next((n for n, arg in enumerate(args) if arg.startswith("-")), len(args))
    names = [
        value
        for before, arg, value in zip(("", *args), args, args[1:], strict=False)
        if arg in ("-name", "-iname") and before not in ("-not", "!")
    ]
    if first > 1 or len(names) != 1 or not _NARROW.search(names[0]):
        return UNKNOWN
    return f"{args[0] if first else '.'}/{names[0]}"


_WIDENS = {"-o", "-or", "-not", "!", ",", "(", "-L", "-H", "-P", "-path", "-wholename", "-regex"}
_NARROW = re.compile(r"^(?!.*\.(ya?ml|json|toml|sh|md|cfg|pth)$).*\w")
"""Names of which none is likely in folders that steer builds, editors or agents."""


def _interpreted(program: str, args: Sequence[str], around: Around) -> Iterator[Finding]:
    """Rate a shell or another interpreter, whose code is in the command, a module or a file."""
    ground = around.ground
    operands = _operands(program, args)
    flags = "".join(re.findall(r" -(\w+)", " " + " ".join(args[: len(args) - len(operands)])))
    is_shell = find_program(program)[1] == "shell"
    module = re.search(r"(?: |^)-[bBdEiIOqsSuvx]*m([a-zA-Z][\w.]+)(?: |$)", " ".join(args))
    if program == "python" and module:
        flags, operands = "m", [module[1], *operands]
    if program in ("eval", "trap", "watch") or (is_shell and "c" in flags):
        is_later = program in ("trap", "watch")
        yield Finding("medium" if is_later else "low", f"{program} runs text as a command")
        text = " ".join(operands if program in ("eval", "watch") else operands[:1])
        yield from [_UNSEEN] if UNKNOWN in text else around.rate_code(text, ground)
    elif "m" in flags and operands and not is_shell:
        yield Finding("medium", f"{program} runs the module {operands[0]}", "run")
        yield from around.rate(operands)
    elif "--test" in args:
        yield Finding("medium", f"{program} runs the tests", "run")
    elif not operands or set(flags) & set(
        "is" if is_shell else _GIVES_CODE.get(program, "ceEnpri")
    ):
        yield _UNSEEN
    else:
        yield from rate_paths(args[: len(args) - len(operands)], ground, "run")
        yield from _rate_script(operands[0], ground)
        yield from rate_paths(operands[1:], ground, "write" if is_shell else "read")


_GIVES_CODE = {"python": "ci", "node": "epi", "tsx": "epi", "ruby": "enpi"}
"""Letters of options after which code stands or is read; elsewhere they may mean something else."""
_UNSEEN = Finding("high", "it runs code that is not in a file of the project", words=(UNKNOWN,))
_NESTED: dict[str, Callable[[str, Sequence[str], Around], Iterator[Finding]]] = {
    "git": _git,
    "wrap": _wrapped,
    "find": _searched,
    "code": _interpreted,
    "shell": _interpreted,
}


def _rate_script(path: str, ground: Ground) -> Iterator[Finding]:
    """Rate a program that is a file: code of the project, unless it comes from elsewhere."""
    if path == "-" or UNKNOWN in path or path.startswith("/dev") or "://" in path:
        yield _UNSEEN
    elif ground.place(path, writing=False) != "inside":
        yield Finding("high", f"it runs {path}, which is outside the workspace")
    else:
        yield Finding(
            "medium", f"it runs {path}, which is in the workspace", "run", ground.absolute(path)
        )


def rate_paths(words: Sequence[str], ground: Ground, use: Use) -> Iterator[Finding]:
    """Rate every word that may be a path, values of options too; URLs are not paths."""
    for word in words:
        if re.match(r"(?!file)[a-z+]+://", word):
            continue
        is_option = word.startswith("-")
        values = re.findall(r"(?<==).+|(?<=^-\w)[./~@\0].*", word) if is_option else [word]
        for part in [part for value in values for part in (value, *re.split("[=:@]", value)[1:])]:
            yield rate_path(part or ".", ground, use if not _LOOKED_IN.match(word) else "read")


_LOOKED_IN = re.compile(r"-[DIL]|--(sysroot|config|with)|//[\w/]*(:|\.\.\.)")
"""Options that give a place where a program looks for something, and labels of bazel."""


def rate_path(path: str, ground: Ground, use: Use) -> Finding:
    place = ground.place(path, writing=use == "write")
    place = "linked" if place == "inside" and ground.leads_away(path) else place
    reads, runs, writes, why = _PLACES[place]
    risks: dict[Use, Risk] = {"read": reads, "run": runs, "write": writes}
    risk = risks[use]
    verb = {"read": "reads", "run": "uses", "write": "changes"}[use]
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
    loads_code = SEARCHED.fullmatch(base) and re.search(r"(^|:)[/~]|\.\.|\0", value)
    # Where bash reads a number it evaluates array indices, and a command in one runs.
    runs = re.search(r"\[.*(\$\(|`)", name + value, re.DOTALL)
    if runs or loads_code or DECISIVE.fullmatch(base):
        return Finding("high", f"it sets {name}, which decides what other programs run")
    return Finding("low", f"it sets {name}")
