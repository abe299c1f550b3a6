"""Rates one command whose words are known: which rule applies, and what its words mean for it.

Pure and lexical. Words that only the shell knows hold `UNKNOWN` and never lower a rating.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from oh_daemon.contract.items import Risk
from oh_daemon.core.risk_paths import UNKNOWN, Ground
from oh_daemon.core.risk_rules import (
    GIT_OPTIONS,
    KIND_RISK,
    KINDS,
    Rule,
    find_rule,
    git_rules,
)

ORDER: tuple[Risk, ...] = ("low", "medium", "high")


class Finding(NamedTuple):
    """What one part of a command means."""

    risk: Risk
    reason: str
    kind: str = ""
    """What matters to the commands around it: `fetch` or `run`."""


@dataclass(frozen=True, slots=True)
class Scene:
    """What rating one command needs to know about the rest of the script."""

    ground: Ground
    functions: frozenset[str]
    rate_code: Callable[[str], Finding]
    """Rates a text that a shell will run."""


def worst(*findings: Finding) -> Finding:
    """The first of those with the highest risk."""
    return max(findings, key=lambda finding: ORDER.index(finding.risk))


def rate_words(words: Sequence[str], scene: Scene) -> Finding:
    """Rate a command given as its words, the name first."""
    if not words:
        return Finding("low", "does nothing")
    name, args = words[0], list(words[1:])
    if UNKNOWN in name or (any(c in name for c in "*?[$`") and name != "[") or not name.isascii():
        return Finding("high", "which command runs is hidden")
    if name in scene.functions:
        return Finding("medium", f"calls the function {name} of this command")
    plain = name.rpartition("/")[2]
    if "/" in name and not re.match(r"(/usr(/local)?)?/s?bin/[^/]+\Z", name):
        return _rate_program(name, args, scene)
    rule = find_rule(plain)
    if rule is None:
        reason = f"what {plain} does is not known"
        return worst(Finding("medium", reason, "run"), _rate_paths(args, scene, writing=True))
    return _rate_call(_Call(plain, args, rule, scene))


def rate_path(path: str, ground: Ground, *, writing: bool) -> Finding:
    place = ground.place(path, writing=writing)
    shown = path.replace(UNKNOWN, "…")
    if place == "secret":
        return Finding("high", f"touches {shown}, which may hold secrets or belongs to the system")
    if place == "protected":
        return Finding("high", f"changes {shown}, which decides what other programs run")
    if place in ("outside", "unknown"):
        where = "outside the workspace" if place == "outside" else "at a place that is not known"
        risk: Risk = "high" if writing else "medium"
        return Finding(risk, f"{'changes' if writing else 'reads'} {shown} {where}")
    if writing and place == "inside":
        return Finding("medium", f"changes {shown}")
    return Finding("low", "reads files of the workspace")


class _Call(NamedTuple):
    name: str
    args: list[str]
    rule: Rule
    scene: Scene

    def finding(self, kind: str = "") -> Finding:
        kind = kind or self.rule.kind
        return Finding(KIND_RISK.get(kind, "high"), f"{self.name} {KINDS[kind]}", kind)

    def high(self, why: str) -> Finding:
        return Finding("high", f"{self.name} {why}")

    def medium(self, why: str) -> Finding:
        return Finding("medium", f"{self.name} {why}")

    def paths(self, args: Sequence[str], *, writing: bool = False) -> Finding:
        return _rate_paths(args, self.scene, writing=writing)

    def nested(self, words: Sequence[str]) -> Finding:
        return rate_words(words, self.scene)

    def operands(self) -> list[str]:
        return self.args[_first_operand(self.args, self.rule.valued) :]

    def flags(self) -> str:
        """All letters of the short options."""
        return "".join(a[1:] for a in self.args if re.match(r"-[A-Za-z]", a))


def _rate_call(call: _Call) -> Finding:
    if call.name in _EVALUATES and any(_CODE_IN_INDEX.search(a) for a in call.args):
        return call.high("evaluates an index that runs a command")
    if call.args in (["--version"], ["--help"], ["-V"]) and call.rule.kind in _ANSWERS_VERSION:
        return Finding("low", "shows a version or help")
    effects: set[str] = set()
    for arg in _until_nested(call):
        effects |= call.rule.effects_of(arg)
    found = _by_kind(call, writing="write" in effects)
    if "high" in effects:
        return worst(found, call.high("gets an option that reaches further"))
    if effects & {"medium", "write"}:
        return worst(found, call.medium("gets an option that changes something"))
    return found


# Bash evaluates the index of an array in a name, and what stands in it runs.
_EVALUATES = [
    "let",
    "test",
    "[",
    "declare",
    "typeset",
    "local",
    "export",
    "readonly",
    "read",
    "printf",
    "unset",
    "mapfile",
]
_CODE_IN_INDEX = re.compile(r"\[.*(\$\(|`)", re.DOTALL)

_ANSWERS_VERSION = (
    "read",
    "pattern",
    "run",
    "code",
    "manager",
    "ask",
    "sed",
    "awk",
    "git",
    "cloud",
)


def _until_nested(call: _Call) -> list[str]:
    """The arguments that are the command's own: those of a command in them are its affair."""
    nests = call.rule.kind.startswith(("wrap", "xargs", "env", "code", "shell"))
    end = _first_operand(call.args, call.rule.valued) if nests else len(call.args)
    options = [a for a in call.args[:end] if a.startswith("-") and len(a) > 1]
    return call.args[:end] if call.rule.kind == "ask" else options


def _by_kind(call: _Call, *, writing: bool) -> Finding:
    kind = call.rule.kind
    special = _KINDS.get(kind.split()[0])
    if special:
        found = special(call)
        return worst(found, call.paths(call.args, writing=True)) if writing else found
    if kind == "data" or kind not in KIND_RISK:
        return call.finding()
    if kind == "pattern":
        return worst(call.finding(), call.paths(_without_pattern(call)))
    return worst(call.finding(), call.paths(call.args, writing=writing or kind == "write"))


def _rate_program(name: str, args: Sequence[str], scene: Scene) -> Finding:
    """A program named by its path: part of the project, or from anywhere."""
    if scene.ground.place(name, writing=True) != "inside":
        return Finding("high", f"runs {name} from outside the workspace", "run")
    rest = _rate_paths(args, scene, writing=True)
    return worst(Finding("medium", f"runs {name} of the workspace", "run"), rest)


def _rate_paths(args: Iterable[str], scene: Scene, *, writing: bool) -> Finding:
    """Every word that may be a path, values of options too; a URL is none."""
    found = [Finding("low", "reads files of the workspace")]
    for arg in args:
        values = [arg]
        if arg.startswith("-"):
            values = [arg.partition("=")[2], "" if arg.startswith("--") else arg[2:]]
        elif ("=" in arg or ":" in arg) and not re.match(r"(?!file)[a-z+]+://", arg):
            values = [arg, *re.split("[=:]", arg)]
        elif arg.startswith("@"):
            values = [arg[1:]]
        found += [rate_path(value, scene.ground, writing=writing) for value in values if value]
    return worst(*found)


def _first_operand(args: Sequence[str], valued: str) -> int:
    """The index of the first word that is neither an option nor the value of one."""
    index = 0
    while index < len(args) and args[index].startswith("-") and len(args[index]) > 1:
        if args[index] == "--":
            return index + 1
        short = not args[index].startswith("--")
        index += 2 if short and args[index][-1] in valued else 1
    return index


def _without_pattern(call: _Call) -> list[str]:
    """The arguments without the pattern, which is no path, unless an option may have given it."""
    given = [a for a in call.args if re.match(r"-[A-Za-z]*[ef]|--(re|fi|typ)", a)]
    index = _first_operand(call.args, call.rule.valued)
    if not given:
        return call.args[:index] + call.args[index + 1 :]
    after = [n + 1 for n, a in enumerate(call.args) if a in ("-e", "--regexp")]
    return [a for n, a in enumerate(call.args) if n not in after]


def _copy(call: _Call) -> Finding:
    operands = [a for a in call.args if not a.startswith("-")]
    found = worst(
        call.finding("copy"), call.paths(call.args), call.paths(operands[-1:], writing=True)
    )
    reads = call.name in ("xxd", "uniq") and len(operands) < len(("from", "to"))
    return call.paths(call.args) if reads else found


def _rm(call: _Call) -> Finding:
    targets = [a for a in call.args if not a.startswith("-") or a == "-"]
    for target in targets:
        parent, _, last = target.rstrip("/").rpartition("/")
        everything = last and not last.strip("*?.[]!^") and call.scene.ground.is_root(parent or ".")
        if everything or call.scene.ground.is_root(target):
            return call.high("deletes a whole workspace, or what lies above it")
    return worst(call.medium("deletes files"), call.paths(targets, writing=True))


def _sed(call: _Call) -> Finding:
    in_place = any(re.match(r"-[nErsuz]*i|--in", a) for a in call.args)
    if any(re.match(r"-[nErsuz]*f|--fi", a) for a in call.args):
        return worst(call.medium("runs a script file"), call.paths(call.args, writing=in_place))
    scripts = [b for a, b in pairwise(call.args) if a in ("-e", "--expression")]
    operands = [a for a in call.args if not a.startswith("-")]
    scripts = scripts or operands[:1]
    files = [a for a in operands if a not in scripts]
    found = call.paths(files, writing=in_place)
    if all(_SED.fullmatch(script) for script in scripts):
        return worst(found, call.medium("edits files in place")) if in_place else found
    if any(
        re.search(r"(^|[;{}\d$/\s])e(\s|$)|[^\w\s]\w*e\w*\s*($|;|\})|[wW]\s*[\w/~.]", s)
        for s in scripts
    ):
        return call.high("may run commands or write files from its script")
    return worst(found, call.medium("runs a script that is not understood"))


_SED = re.compile(
    r"""(\s*(\d+|\$|/[^/]*/)?\s*(,\s*([\d+~]+|\$|/[^/]*/))?\s*!?\s*
    ([pdq=hHgGxnNDPl]|[sy]([/|#,@:!])(\\.|(?!\6).)*\6(\\.|(?!\6).)*\6[gpIiM\d]*)?\s*(;|\n|\Z))*""",
    re.VERBOSE,
)


def _awk(call: _Call) -> Finding:
    program, *files = [*call.operands(), ""]
    options = call.args[: len(call.args) - len(files)]
    if _AWK_ACTS.search(program) or any(re.match(r"-[filEedop]|--", a) for a in options):
        return call.high("may run commands or write files from its program")
    return worst(call.finding("read"), call.paths(files))


_AWK_ACTS = re.compile(
    r"""system|(?<!\|)\|(?!\|)|getline|@|ENVIRON|PROCINFO|ARGV|print[^;}]*>|\0""", re.VERBOSE
)


def _jq(call: _Call) -> Finding:
    if re.search(r"\benv\b|\$ENV|strenv|\bload|\0", " ".join(call.args)):
        return call.high("may show secrets of the environment")
    return worst(call.finding("read"), call.paths(_without_pattern(call)))


def _find(call: _Call) -> Finding:
    index = next(
        (n for n, a in enumerate(call.args) if re.match(r"-[a-zA-Z]{2}|[(!]", a)), len(call.args)
    )
    starts = [a for a in call.args[:index] if not a.startswith("-")] or ["."]
    tests = call.args[index:]
    names = [b for a, b in pairwise(tests) if re.match(r"-i?(name|path)$", a)]
    matches = [f"{start}/{name}" for start in starts for name in names or ["*"]]
    found = [call.paths(starts)]
    if "-delete" in tests:
        found.append(_rm(call._replace(args=matches)))
    for n, test in enumerate(tests):
        if test in ("-exec", "-execdir", "-ok", "-okdir"):
            words = tests[n + 1 :]
            end = next((i for i, w in enumerate(words) if w in (";", "+", r"\;")), len(words))
            found.extend(
                call.nested([w.replace("{}", match) for w in words[:end]]) for match in matches
            )
            found.append(call.medium("runs a command on what it finds"))
        elif test.startswith(("-fprint", "-fls")):
            found.append(call.paths(tests[n + 1 : n + 2], writing=True))
        elif test == "-files0-from" or UNKNOWN in test:
            found.append(call.medium("gets words that are not known"))
    return worst(*found)


def _xargs(call: _Call) -> Finding:
    words = call.operands()
    if not words:
        return worst(call.medium("prints what it reads"), call.paths(call.args))
    own = call.args[: -len(words)]
    found = call.paths(own)
    marks = [
        a.partition("=")[2] or a[2:] or after
        for a, after in zip(own, [*own[1:], ""], strict=False)
        if a.startswith(("-I", "--replace="))
    ]
    for mark in {"{}", *filter(None, marks)}:
        words = [word.replace(mark, UNKNOWN) for word in words]
    return worst(call.medium("runs a command on data"), found, call.nested([*words, UNKNOWN]))


def _cd(call: _Call) -> Finding:
    return worst(call.paths(call.args), Finding("low", "changes the folder"))


def _printenv(call: _Call) -> Finding:
    if not call.operands() or any(is_secret_name(name) for name in call.operands()):
        return call.high("shows secrets of the environment")
    return call.finding("data")


def _env(call: _Call) -> Finding:
    words = call.operands()
    found = [Finding("low", "sets variables")]
    while words and re.match(r"\w+=", words[0]):
        found.append(rate_variable(*words.pop(0).split("=", 1)))
    if not words:
        return call.high("shows secrets of the environment")
    return worst(*found, call.nested(words))


def _variables(call: _Call) -> Finding:
    if (any(a in ("-p", "-x") for a in call.args[:1]) and len(call.args) == 1) or not call.args:
        return call.high("shows secrets of the environment")
    names = (a.partition("=") for a in call.args)
    return worst(call.finding("data"), *(rate_variable(n, value) for n, _, value in names))


def rate_variable(name: str, value: str) -> Finding:
    """What it means to give a variable another value."""
    if _CODE_IN_INDEX.search(name + value):
        return Finding("high", f"sets {name} to what may run when it is used as a number")
    if _LOADED.fullmatch(name.rstrip("+")):
        return Finding(
            "high", f"sets {name}, which decides what other programs run or where they connect"
        )
    if re.fullmatch(r"(PYTHON|NODE_|CLASS|GO|\w+_)?PATH", name) and re.search(
        r"(^|:)[/~]|\.\.|\0", value
    ):
        return Finding("high", f"lets programs load code from {value.replace(UNKNOWN, '…')}")
    return Finding("low", f"sets {name}")


_LOADED = re.compile(
    r"""LD_\w+|DYLD_\w+|PATH|GIT_(?!AUTHOR|COMMITTER)\w+|BASH_ENV|ENV|\w*PAGER|EDITOR|VISUAL|BROWSER|SHELL|HOME
    |NODE_OPTIONS|PYTHON(STARTUP|HOME|BREAKPOINT|INSPECT|WARNINGS)|PERL5?\w*(LIB|OPT|DB)|RUBY(LIB|OPT)|IFS|PS[0-4]
    |PROMPT_COMMAND|CDPATH|SHELLOPTS|BASHOPTS|BASH_FUNC\w*|\w*_PROXY|\w*_proxy|\w*ASKPASS|LESS(OPEN|CLOSE)
    |JAVA_TOOL_OPTIONS|_JAVA_OPTIONS|\w*RUSTC_\w*WRAPPER|RUSTC|NPM_CONFIG_\w+|npm_config_\w+|PIP_\w+
    |UV_\w*INDEX\w*|HIST\w+|GLIBC_TUNABLES|GCONV_PATH|DOCKER_HOST|KUBECONFIG|SSH_\w+|MAKEFLAGS|TAR_OPTIONS|RSYNC_\w+
    |\w*BASE_URL|GREP_\w+|XDG_CONFIG\w*|SUDO_\w+|CMAKE_\w*LAUNCHER|RIPGREP_CONFIG_PATH|WGETRC|CURL_HOME|SSLKEYLOGFILE""",
    re.VERBOSE,
)


def is_secret_name(name: str) -> bool:
    """Whether a variable of this name usually holds a secret."""
    return bool(
        re.search(r"(?i)key$|keys$|_key_|token|secret|passw|pwd_|credential|_pat$|auth", name)
    )


def _trap(call: _Call) -> Finding:
    return worst(call.medium("runs a command later"), _code_of(call, call.args[:1]))


def _wrap(call: _Call) -> Finding:
    _, *how = call.rule.kind.split()
    words = call.operands()[1 if "1" in how else 0 :]
    if call.name in ("command", "builtin") and set(call.flags()) & set("vV"):
        return Finding("low", "shows where a command is")
    if not words:
        return call.medium("gets no command that is known") if how else call.finding("data")
    # Some of them, like watch, hand a text to a shell.
    nested = _code_of(call, words) if len(words) == 1 and " " in words[0] else call.nested(words)
    return worst(nested, call.medium("starts a command")) if "medium" in how else nested


def _eval(call: _Call) -> Finding:
    return worst(call.medium("runs text as a command"), _code_of(call, [" ".join(call.args)]))


def _code_of(call: _Call, code: Sequence[str]) -> Finding:
    text = "".join(code)
    if UNKNOWN in text:
        return call.high("runs text that only the shell will know")
    return call.scene.rate_code(text)


def _source(call: _Call) -> Finding:
    return _script(call, call.args[:1])


def _script(call: _Call, script: Sequence[str]) -> Finding:
    """A script that is a file: code of the project, unless it comes from elsewhere."""
    if not script or script[0] == "-" or UNKNOWN in script[0]:
        return call.finding("inline")
    if call.paths(script).risk != "low" or script[0].startswith("/dev"):
        return call.high(f"runs {script[0]} from outside the workspace")
    return Finding("medium", f"runs {script[0]} of the workspace", "run")


def _shell(call: _Call) -> Finding:
    operands = call.operands()
    flags = call.flags()
    if set(flags) & set("is") or any(a.startswith(("--rc", "--init")) for a in call.args):
        return call.finding("inline")
    if "c" in flags:
        return worst(call.finding("data"), _code_of(call, operands[:1]))
    return worst(_script(call, operands[:1]), call.paths(operands[1:], writing=True))


def _code(call: _Call) -> Finding:
    if "-m" in call.args:
        return _module(call, call.args[call.args.index("-m") + 1 :])
    operands = call.operands()
    if (
        call.name in ("node", "bun", "deno")
        and operands[:1]
        and operands[0] in ("test", "run", "install", "--test")
    ):
        return call.finding("run")
    if any("://" in a for a in operands[:2]):
        return call.high("runs code from the network")
    return worst(_script(call, operands[:1]), call.paths(operands[1:]))


def _module(call: _Call, words: Sequence[str]) -> Finding:
    if words[:1] and words[0] in ("http.server", "smtpd", "pyftpdlib", "pty", "code"):
        return call.finding("network")
    if words[:2] == ["json.tool"]:
        return worst(call.finding("run")._replace(kind=""), call.paths(words[1:]))
    known = find_rule(words[0]) if words else None
    if known and known.kind in ("manager", "run"):
        return worst(call.finding("run"), call.nested(words))
    return worst(call.finding("run"), call.paths(words[1:], writing=True))


def _curl(call: _Call) -> Finding:
    text = " ".join(call.args)
    if re.search(
        r"(?i)169\.254\.|metadata\.|file:|gopher:|dict:|(^|\s)@|=@|\0|\$|authorization", text
    ):
        return call.high("sends data, or asks an address that is not for it")
    return worst(
        call.finding("fetch"), call.paths([a for a in call.args if a.startswith(("/", "~", "."))])
    )


def _archive(call: _Call) -> Finding:
    operands = [a for a in call.args if not a.startswith("-")]
    return worst(
        call.medium("packs or unpacks files"), call.paths(call.args[:0] + operands, writing=True)
    )


def _chmod(call: _Call) -> Finding:
    mode, *targets = [a for a in call.args if not re.match(r"-(?![rwxst])|--", a)] or [""]
    if re.search(r"s|^[2467]\d{3}$|o.*w|a.*w|[0-7][0-7][2367]$", mode):
        return call.high("opens files to everybody, or gives them the rights of their owner")
    return worst(call.medium("changes rights"), call.paths(targets, writing=True))


def _git(call: _Call) -> Finding:
    args = list(call.args)
    found = [call.medium("reads or writes the repository, and may run programs that it names")]
    while args and args[0].startswith("-") and args[0] not in git_rules():
        option = args.pop(0)
        if option == "-C" and args:
            found.append(call.paths([args.pop(0)]))
        elif (
            option == "-c" and args and re.match(r"(user|color|advice|core\.quotepath)\b", args[0])
        ):
            args.pop(0)
        elif option not in GIT_OPTIONS:
            return call.high("gets settings that may run programs")
    if not args:
        return worst(*found)
    rule = git_rules().get(args[0])
    if rule is None:
        return call.high(f"{args[0]} reaches further than the work tree, or cannot be undone")
    name = f"git {args[0]}"
    if rule.kind == "data":
        return Finding("low", f"{name} shows help")
    return worst(_rate_call(_Call(name, args[1:], rule, call.scene)), *found)


def _checkout(call: _Call) -> Finding:
    if any(re.search(r"^\.|/$|\.[a-z]\w{0,4}$", a) for a in call.operands()):
        return call.high("throws away changes")
    return worst(call.medium("changes the work tree"), call.paths(call.args))


def _restore(call: _Call) -> Finding:
    if "--staged" in call.args and not {"-W", "--worktree"} & {*call.args}:
        return call.medium("changes the index")
    return call.high("throws away changes")


def _clean(call: _Call) -> Finding:
    dry = "--dry-run" in call.args or "n" in call.flags()
    return call.medium("lists files") if dry else call.high("deletes untracked files of the user")


def _config(call: _Call) -> Finding:
    operands = [a for a in call.args if not a.startswith("-")]
    options = [a for a in call.args if a.startswith("-")]
    if {*options} <= {"--get", "--list", "-l", "--get-all", "--show-origin", "--local"} and (
        (options and options != ["--local"])
        or len(operands) == 1
        or operands[:1] in (["get"], ["list"])
    ):
        return call.medium("reads settings")
    if not options and operands[0].startswith("user."):
        return call.medium("sets who commits")
    return call.high("changes settings that may run programs")


def _cloud(call: _Call) -> Finding:
    words = set(call.operands()[:3])
    if words & _LOOKS and not any(re.search("secret|token|auth|credential", a) for a in call.args):
        return call.medium("asks for information")
    return call.high("changes the system, or things on other machines")


_LOOKS = frozenset(
    [
        "get",
        "list",
        "describe",
        "status",
        "show",
        "search",
        "info",
        "view",
        "plan",
        "validate",
        "fmt",
        "version",
        "logs",
        "log",
        "top",
        "diff",
        "template",
        "lint",
        "policy",
        "outdated",
        "env",
        "which",
        "checks",
        "output",
        "graph",
        "checkout",
        "build",
        "test",
    ]
)


def _manager(call: _Call) -> Finding:
    words = [a for a in call.args if not a.startswith("-")]
    if {*words[:2]} & _PUBLISHES and words[0] not in ("run", "test", "start"):
        return call.high("publishes, or changes accounts or settings of the user")
    if call.name in ("uv", "poetry", "pdm", "pipenv", "hatch", "rye", "bundle") and words[:1] in (
        ["run"],
        ["exec"],
    ):
        return worst(call.finding("run"), call.nested(call.args[call.args.index(words[0]) + 1 :]))
    if (
        (words[:1] and words[0] in ("dlx", "x", "create", "exec"))
        or words[:2] == ["tool", "run"]
        or (words[:2] == ["init", *words[1:2]] != ["init"] and call.name in ("npm", "yarn", "pnpm"))
    ):
        return call.high("fetches a program and runs it")
    if (words[:1] == ["install"] and call.name in ("cargo", "go")) or any(
        re.match(r"\w.*\.\w+/.*@", w) for w in words
    ):
        return call.high("fetches a program and installs it for the user")
    if any(re.match(r"(git\+|https?:|ssh:|git@|file:)", w) for w in words):
        return call.high("installs from an address instead of a registry")
    return worst(call.finding("run"), call.paths(call.args))


_PUBLISHES = frozenset(
    [
        "publish",
        "login",
        "logout",
        "adduser",
        "token",
        "owner",
        "access",
        "unpublish",
        "deprecate",
        "dist-tag",
        "yank",
        "set",
        "config",
        "profile",
        "team",
        "auth",
        "release",
        "deploy",
        "self",
        "upload",
        "unlink",
        "hook",
        "global",
    ]
)


def _package(call: _Call) -> Finding:
    words = call.operands()
    rule = find_rule(words[0]) if words else None
    if rule and rule.kind == "run":
        return call.nested(words)
    return call.high("fetches a program and runs it")


_KINDS: dict[str, Callable[[_Call], Finding]] = {
    "copy": _copy, "rm": _rm, "sed": _sed, "awk": _awk, "jq": _jq,
    "checkout": _checkout, "find": _find, "xargs": _xargs, "cd": _cd,
    "printenv": _printenv, "env": _env, "variables": _variables, "trap": _trap, "wrap": _wrap,
    "eval": _eval, "source": _source, "shell": _shell, "code": _code, "curl": _curl,
    "archive": _archive, "chmod": _chmod, "git": _git, "restore": _restore, "clean": _clean,
    "config": _config, "cloud": _cloud, "manager": _manager, "package": _package,
}  # fmt: skip
