"""What programs do with certain arguments: only read, for example, or run another command.

The patterns are searched as `risk_rules` says, whose dangers count in any case.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from oh_daemon.core import risk_git
from oh_daemon.core.risk_rules import IN_SERVICE, SELECT, Table, compiled, first_fit, join_words

_PERL_TEXT = r"(?!(?P=mark)|[$@\\{(]).|\((?!\?+\{)|\\.|\$\d(?![\[{-])|\$(?=[)|]|(?P=mark))"
_PERL_STEP = rf"""(s(?P<mark>[/|\#,!])({_PERL_TEXT})*(?P=mark)
    ((?!(?P=mark)|[$@\\]).|\\.|\$[\d&](?![\[{{-]))*(?P=mark)[gimsx]*;?
    |print\s+if\s+(/[^/$@({{\\]*/|\d+\.\.\d+|\$\.\s*[=<>]+\s*\d+))"""
"""A substitution or a filter in perl in which no code can stand."""
_KEYS = (
    r"""\ -(\w*key\w*|out|pass\w*|req|engine|provider|sign|hmac|CA|new|prverify|rand|writerand)"""
)
_TABLES = r"-(header|csv|json|column|markdown|table|line|readonly|noheader|bail|batch)"

# With these arguments a program counts as one of another kind: the first that fits.
_USES = (
    ("gh glab", "fetch", r"^\ \w+\ (clone|download|checkout)\b"),
    ("kill", "text", r"^\ (-l.*|-0(\ [%\d\0]\S*)+)$"),
    ("set", "text", r"^(\ ([-+][BCEefhmTuvx]*o?|pipefail|errexit|nounset|xtrace|nullglob))+$"),
    ("ulimit", "text", r"^(\ -[a-zA-Z]+)*$"),
    ("systemctl", "text",
     r"^(\ --(user|no-pager|failed))*\ (status|is-\w+|list-\S+|show|cat)(\ |$)"),
    ("service", "text", r"^\ \S+\ status$"),
    ("ip", "text", r"^(\ -\w+)*\ (a|addr|address|l|link|r|route|n|neigh)(\ (show|list|ls).*)?$"),
    ("ifconfig mount alias", "text", r"^(\ -[al])?$"),
    ("dig nslookup host ping traceroute whois", "ask", r"^[^\0]*$"),
    ("nc ncat netcat", "ask",
     r"^(\ -[vnu46]*z[vnu46]*|\ -[vnu46]+|\ -w\ ?\d+)+\ [\w.-]+\ [\d-]+$"),
    ("rsync", "write",
     r"^(?!.*(:|\ -[^-\ ]*[eM]|--(rsh|rsync-p|files-from|daemon|remove|del|info)))"),
    ("dd", "write", r"^(\ (if|of|bs|count|status|seek|skip|conv|iflag|oflag)=\S+)+$"),
    ("gpg", "read", r"^\ (--verify|--list-(public-)?keys|--list-sigs|--fingerprint)(\ |$)"),
    ("openssl", "text", r"^\ rand(\ -(hex|base64))?\ \d+$"),
    ("nvm pyenv rbenv asdf mise volta", "text", r"^\ (versions?|current|list|ls|which)(\ |$)"),
    ("nvm pyenv rbenv asdf", "act", r"^\ (use|local|shell)\ "),
    ("firebase vercel netlify wrangler serverless sls cdk sam packer vagrant", "run",
     r"^\ (dev|build|synth|diff|local|emulators:\S+|validate|package|fmt|ls|list|status)(\ |$)"),
    ("gem", "run", r"^\ build\ "),
    ("zig adb", "text", r"^\ version$"),
    ("adb", "ask", r"^\ (devices|logcat|get-\w+)"),
    ("ar", "read", r"^\ -?[tp]v?\ "),
    ("pdftotext", "read", r"\ -$"),
    ("plutil", "read", r"^\ -(p|lint)\ "),
    ("sips", "read", r"^(\ -g\ \w+)+\ [^-]\S*$"),
    ("tailscale chezmoi restic borg virsh VBoxManage multipass limactl minikube k3d", "ask",
     r"^(\ -\S+)*\ (status|list|ls|info|version|snapshots|diff|show\w*|get|doctor)(\ |$)"),
    ("ansible-playbook skaffold helmfile", "run",
     r"^(?!\ (apply|sync|destroy|run|deploy|dev)\b).*(--syntax-check|\ render|\ template|\ lint)"),
    ("pg_dump mysqldump mongodump", "fetch", ""),
    ("perl", "read", rf"^(\ -[np]+)?\ -[np]+e\ {_PERL_STEP}(\ [^-]\S*)*$"),
    ("perl", "write", rf"^(\ -[npi0]+(\.\w+)?)*\ -[npi0]*e\ {_PERL_STEP}(\ [^-]\S*)*$"),
    ("sqlite3", "read", rf"\ -readonly(\ -\w+)*\ [^-]\S*\ {SELECT}"),
    ("sqlite3", "write", rf"^(\ {_TABLES})*\ [^-\s]\S*\ [^-]"),
    ("bash sh zsh dash ksh", "read", r"^\ -[uvx]*n[uvx]*(\ [^-]\S*)+$"),
    ("php", "read", r"^\ -l(\ [^-]\S*)+$"),
    ("ruby perl", "run", r"^\ -\w*c\ [^-]\S*$"),
    ("node", "read", r"^\ (-c|--check)\ [^-]\S*$"),
    ("node npm ruby php java perl bundle gem", "text", r"^\ --?v(ersion)?$"),
    ("go npm terraform tofu helm composer", "text", r"^\ -{0,2}version(\ -json|\ --short)?$"),
    ("rustc gcc g++ clang cargo cmake", "text", r"^\ (--version|-V|-vV|--list)(\ --verbose)?$"),
    ("kubectl", "text", r"^\ (version\ .*--client|config\ (current|get)-contexts?)"),
    ("terraform tofu", "read", r"^\ fmt(\ -(diff|recursive|list=\w+))*\ -(check|write=false)"),
    ("helm", "read", r"^\ lint\ "),
    ("dotnet", "text", r"^\ --(list-sdks|list-runtimes|info)$"),
    ("rustup", "text", r"^\ (show|toolchain\ list|target\ list)"),
    ("go", "text", r"^\ (doc|env(\ [A-Z\d]+)*$|help)"),
    ("npm pnpm", "text", r"^\ (ls|list|ll|la|root|prefix|bin|help|why|(pkg|config)\ get)(\ |$)"),
    ("pip", "text", r"^\ (list|show|freeze|check|help|debug)(?!.*\ (-\w*o|--(out|upt|index|ext)))"),
    ("uv", "text", r"^\ (pip\ (list|show|freeze|check)|python\ list|version$)"),
    ("gem", "text", r"^\ (list|info|which|contents|environment|spec\w*)(?!.*\ -\w*[ra])"),
    ("conda mamba", "text", r"^\ (list|info|env\ list)"),
    ("brew snap flatpak", "text", r"^\ (list|ls|deps|leaves|--prefix)(\ |$)"),
    ("apt apt-cache apt-get", "text", r"^\ (list|show|search|policy|r?depends|madison)(\ |$)"),
    ("dpkg", "text", r"^\ -"),
    ("ruff", "read", r"^\ (check(?!.*(--(fix|unsafe|output-file|add-noqa)|\ -o))|rule)(\ |$)"),
    ("ruff black isort yapf autopep8", "read", r"\ (--check|--diff|-c|--check-only)(\ |$)"),
    ("gofmt goimports shfmt", "read", r"^(?!.*\ -\w*w)"),
    ("rustfmt stylua", "read", r"\ (--check|-c)(\ |$)"),
    ("clang-format", "read", r"^(?!.*\ (-i|--i))"),
    ("biome", "read", r"^\ (check|lint|format|ci)\b(?!.*--(write|fix|apply|unsafe))"),
    ("black isort ruff gofmt goimports shfmt rustfmt stylua clang-format biome", "write", ""),
    ("yapf autopep8 php-cs-fixer pint", "write", ""),
    ("prettier eslint stylelint rubocop golangci-lint ktlint", "write",
     r"\ (-w|--write|--fix[\w-]*|-a|-A|--auto-?correct\S*|-F)(\ |$)"),
    ("tar", "read", r"^\ (-?[jJvzf]*t[jJvzf]*|--list)(\ |$)"),
    ("unzip", "read", r"^\ -[lvpZt1]+\ "),
    ("gzip gunzip bzip2 xz unxz zstd", "read", r"\ (-\w*[clt]\w*|--(stdout|list|test))(\ |$)"),
    ("jar", "read", r"^\ -?-?t"),
    ("openssl", "read", rf"^\ (x509|req|crl|verify|version|dgst|asn1parse)(?!.*{_KEYS})"),
    ("docker podman", "text", r"^\ (--version|-v)$"),
)  # fmt: skip

# Words after which another program and its arguments stand.
_INNER = {
    "uv rye pdm poetry pipenv hatch pixi conda mamba": r"^(\ -\S+)*\ run\ ",
    "bundle pnpm yarn": r"^\ exec\ ",
    "nix": r"^\ develop\ (.*\ )?(-c|--command)\ ",
    "cargo": r"^\ watch\ .*(-s|--shell)\ ",
    "docker podman": rf"^\ compose{IN_SERVICE}\ ",
    "docker-compose": rf"^{IN_SERVICE}\ ",
}

_SOUNDS_HIGH = re.compile(
    r"""\ (publish|deploy|upload|push|login|logout|erase|destroy|delete|purge|wipe|flash|reset
        |revert|forget|apply|remove|install-\w+)(\ |$)|\ --(delete|prune|purge)(\ |$)
    |(?i:\b(drop|truncate)\s(table|database|schema|keyspace)\b|\bdelete\sfrom\b)
    |\ (-e|-ex|--eval|--exec(ute)?)[=\ ]\S*[(;"'\xa0]|--shell-escape|--install-extension
    |\ (?!https?|file|git)[a-z+]+://""",
    re.VERBOSE,
)
"""Words with which a program that nobody knows would send or destroy something, or run code."""

# Tasks of many frameworks, whichever program runs them.
_TASKS = (
    ("deletes what is in a database", r"""\ (db:(drop|reset|purge|wipe)|migrate:(fresh|reset)
        |ecto\.(drop|reset)|schema:drop|reset_db|(doctrine:)?database[:\ ]drop
        |manage\.py\ (sql)?flush)(\ |$|:)|\ migrate\ reset|--force-reset|\ downgrade\ base"""),
    ("runs code that stands in the command",
     r"""\ runner\ (?![\w./-]+\.rb(\ |$))|\ tinker\ .*--execute
        |\ shell\ (.*\ )?(-c|--command)"""),
)  # fmt: skip


@cache
def _uses() -> Table:
    return {**compiled(_USES), **compiled(risk_git.USES, "git ")}


@cache
def _inner() -> Table:
    own, git = ([(n, "", p) for n, p in rows.items()] for rows in (_INNER, risk_git.INNER))
    return {**compiled(own), **compiled(git, "git ")}


@cache
def _tasks() -> Table:
    return compiled(("any", task, pattern) for task, pattern in _TASKS)


def find_use(name: str, args: Sequence[str]) -> str | None:
    """Return the kind that a program has with these arguments, if it differs from its own."""
    found = first_fit(_uses(), name, args)
    return found and found[0]


def find_inner(name: str, args: Sequence[str]) -> Sequence[str]:
    """Return the words of another command that the program runs, from its options on."""
    found = first_fit(_inner(), name, args)
    return args[found[1][0].count(" ") - 1 :] if found else ()


def find_task(args: Sequence[str]) -> str | None:
    """Return what a task of high risk does that these arguments name."""
    found = first_fit(_tasks(), "any", args)
    return found and found[0]


def sounds_high(args: Sequence[str]) -> bool:
    """Return whether these arguments of any program sound as if it did something of high risk."""
    return _SOUNDS_HIGH.search(join_words(args)) is not None
