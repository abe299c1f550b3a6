"""Tables of what is known about programs; `risk_commands` applies them.

A program without a row is unknown, which is never low. Patterns are searched in the arguments
joined by spaces. A space within an argument becomes U+00A0, which matches white space in a pattern
but not a literal space.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from oh_daemon.contract.items import Risk
from oh_daemon.core import risk_git

SECRET_NAME = r"(?i:key\b|keys\b|_key_|token|secret|passw|credential|_pat\b|auth)"  # noqa: S105 - a pattern
SEARCHED = re.compile(r"(PYTHON|NODE_|CLASS|GO|\w+_)PATH")
"""Variables with folders in which programs look for code."""
DECISIVE = re.compile(
    r"""LD_\w+|DYLD_\w+|PATH|GIT_(?!AUTHOR|COMMITTER)\w+|BASH_\w+|ENV|\w*PAGER|EDITOR|VISUAL|BROWSER
    |SHELL|HOME|NODE_OPTIONS|PYTHON(STARTUP|HOME|BREAKPOINT|INSPECT)|PERL\w*|RUBY(LIB|OPT)|IFS|PS[0-4]
    |PROMPT_COMMAND|CDPATH|SHELLOPTS|BASHOPTS|(?i:\w*_proxy)|\w*ASKPASS|LESS(OPEN|CLOSE)|_?JAVA_\w*
    |\w*RUSTC\w*|(?i:npm_config_\w+)|PIP_\w+|UV_\w*INDEX\w*|HIST\w+|DOCKER_HOST|KUBECONFIG|SSH_\w+
    |(S?RANDOM|OPTIND|SECONDS|BASHPID)  # Numbers, which bash evaluates.
    |MAKEFLAGS|TAR_OPTIONS|RSYNC_\w+|\w*BASE_URL|XDG_CONFIG\w*|SUDO_\w+|RIPGREP_CONFIG_PATH|WGETRC|ZDOTDIR""",
    re.VERBOSE,
)
"""Variables that decide what programs run, or what they send where."""
_N_SHOWN = 3
_MAX_SHOWN = 60
_GLOBAL = r"""(\ -[nclsp]\ [^-\ ]\S*|\ --(context|namespace|profile|region|project|kube-context|output)\ [^-\ ]\S*
    |\ -(?!-?(version|help))\S+)*+"""
"""Options before the verb of a program that asks a server."""
_ASKS = r"(get|list|ls|describe|show|search|info|head|lookup|filter|query|wait|tail|status|version|help)"
_CHANGES = r"(?!(create|delete|rm|remove|update|set|put|apply|cp|mv|sync|run|start|stop|ssh)\b)"
_TELLS = rf"{_GLOBAL}\ -{{0,2}}(version|help)(\ |$)"
_HIDES = r"(?i:secret|token|\bauth|passw|credential|\ keys\ |access_?key|appsettings|connection-string|kubeconfig)"
SELECT = r"""(?i:select|show|describe|explain|pragma|\\[dl]|\.(tables|schema|indexes))\b
    (?!.*(?i:\b(into|update|delete|insert|drop|alter|create|truncate|grant|copy|attach|call|set)\b
    |file\(|_file|load_|edit\(|lo_|dblink|\\[!giow]))[^\0]*$"""
"""A query that only reads. What it calls could still change something: it is never low."""
_SUBSTITUTE = "|".join(
    rf"[sy]{mark}(\\.|[^{mark}\\])*{mark}(\\.|[^{mark}\\])*{mark}[gpIi\d]*"
    for mark in ("/", r"\|", r"\#", ",", "@", ":")
)
_SED_STEP = rf"([\d,$~!]|/[^/]*/)*\s*([pdqhHgGxnN=]|{_SUBSTITUTE})\s*"
_COMPOSE_OPTION = r"(\ (-f|--file|--profile|-p)\ \S+)*"
IN_SERVICE = rf"{_COMPOSE_OPTION}\ (exec|run)(\ -[Tid]+|\ --(rm|no-deps|build))*\ \w[^\ ]*"
"""In a container of the project's."""
_COMPOSED = rf"""({IN_SERVICE}|{_COMPOSE_OPTION}\ (stop|start|restart|kill|create|pull|build|up
    |down(?!.*\ (-\w*v|--v|--rmi))))(\ |$)"""
_CONTAINS = """run|exec|cp|push|login|logout|rmi?|kill|stop|prune|down|export|save|commit|attach|create|start
    |swarm|context|plugin|update|load|import"""

_IN_INDEX = r"\[.*(\$\(|`)"
"""Bash evaluates the index of a name, so a command substitution in it runs."""
_LISTS = r"^(\ -[px])?$"
"""Without names these programs print all variables, including secrets."""

# Options and words that make a program high, whatever its kind is.
_DANGERS = {
    "date": r"\ -[uR]*[fsr]|\ --(f|s|ref)|(?<!\ -d)(?<!\ --date)\ \d",
    "let": r"[A-Za-z_*?\0]",
    "test [": rf"\ -v\ (?!\w+(\ |$))|{_IN_INDEX}",
    "read mapfile readarray getopts unset": r"[*?\0]|\[(?!\d+\])|\ -C",
    "readonly": r"\ .",
    "wait": r"\ -\w*p",
    "exec": r"\{|^\ -\w*c",
    "set": rf"{_LISTS}|{_IN_INDEX}",
    "export": rf"{_LISTS}|{_IN_INDEX}|\ [^=\ ]*[*?\0]",
    "printf": rf"\ -v|{_IN_INDEX}",
    "declare typeset local": rf"\ -\w*[nir]|\ [^=\ ]*[*?\0]|{_LISTS}|{_IN_INDEX}",
    "jobs": r"\ -x",
    "printenv": rf"^$|{SECRET_NAME}",
    "env": r"^(\ -\S*|\ \w+=\S*)*(\ -\w*[SC]|\ --(s|c)|$)",
    "sort": r"\ --comp",
    "rg fd fdfind ag ack": r"\ -[xX]|\ --(pre|exec|pager|hostname)",
    "jq yq": r"\benv\b|\$ENV|strenv|load|\0",
    "awk gawk mawk nawk": r"""system|getline|@|ENVIRON|PROCINFO|ARGV|print[^;}]*>|\0
        |(?<!-F)(?<!\|)\|(?!\|)|\ -[fiElo]|\ --""",
    "sed gsed": r"[\d$/;{}\s]\s*[ewW](\s|$)|[/|#,@:!][gpIi\d]*[ew]|\0",
    "find": r"""\ -(fprint|fls|files0|ok)|\0|\ -o\ (?!.*-i?name).*-delete
        |^(?!.*(?<!\ !)(?<!\ -not)\ -i?name\ \S*\w).*\ -delete""",
    "curl": r"""169\.254\.|metadata\.|file:|gopher:|dict:|[\0$@]|(?i:authorization)
        |\ -[a-zA-Z]*([dFTuxnbEK]|X\ ?(?!GET))|\ --(data|form|upload|user|proxy|netrc|cookie|cert
        |request|resolve|connect|unix|url|json|config|key|trace)""",
    "wget": r"""169\.254\.|metadata\.|[\0$]|\ -[ei]|\ --(post|body|method|header|execute|input|user
        |password|config|load|proxy|use-ask|no-check)""",
    "tar zip unzip": r"""\ -\w*[IFP]|\ -TT|\ --(to-com|checkpoint-a|use-comp|rsh|info-s|new-vol|remove
        |absolute|unzip)""",
    "chmod": r"\ [ugoa]*[+=]\w*s|\ [2467]\d{3}\ |\ \w*[oa]\w*[+=]\w*w|\ [0-7]*[2367]\ ",
    "docker podman nerdctl buildah": rf"^(?!\ compose{_COMPOSED}).*\ ({_CONTAINS})(\ |$)|--(privileged|push)|^\ \0|\ build\ .*(://|git@)",
    "docker-compose": rf"^(?!{_COMPOSED}).*\ ({_CONTAINS})(\ |$)",
    "kubectl oc": rf"""{_HIDES}|\ view.*\ --raw|^(?!{_GLOBAL}\ (({_ASKS}|logs|top|explain|diff|events)(\ |$)
        |api-|cluster-info|rollout\ (status|history)|config\ (current|get|view)))(?!.*\ --dry-run=[cs])""",
    "helm": rf"{_HIDES}|^(?!{_GLOBAL}\ ({_ASKS}|lint|template|history|dep|repo\ list|pull|package|create))"
    r"|--post-renderer",
    "terraform tofu terragrunt": rf"""{_HIDES}|^(?!{_GLOBAL}\ -{{0,2}}({_ASKS}|init|plan|validate|fmt
        |providers|graph|state\ (list|show)|workspace\ (list|show))(\ |$))|-from-module""",
    "aws": rf"{_HIDES}|with-decryption|^(?!{_GLOBAL}\ [\w-]+\ {_CHANGES}{_ASKS}(-[\w-]+)?(\ |$)|{_TELLS})"
    r"|get-object\ ",
    "gcloud az": rf"{_HIDES}|print-|^(?!{_GLOBAL}(\ {_CHANGES}[a-z][\w-]*){{1,3}}\ ({_ASKS}|read)(\ |$)"
    rf"|{_TELLS})",
    "gh glab": rf"""{_HIDES}|\ --hostname|^(?!\ ([a-z-]+)\ ({_ASKS}|view|diff|checks|checkout|download|clone|watch)
        (\ |$)|\ (search|status|version)\b|\ api\ (?!(.*\ )?(-\w*[XfF]|--(method|field|raw-f|input)))|{_TELLS})
        |\ gist\ clone""",
    "pulumi heroku": rf"{_HIDES}|^(?!\ (preview|logs|ps|apps|releases|stack\ ls|version)(\ |$))",
    "apt apt-get apt-cache aptitude yum dnf apk snap flatpak brew": rf"""^(?!\ ({_ASKS}|policy|depends
        |rdepends|madison|changelog|deps|leaves|uses|outdated|config|--prefix)(\ |$)|\ (-s|--simulate)\ )""",
    "dpkg": r"^(?!\ (-[lLsS]|--list|--status|--search)(\ |$))",
    "pacman": r"^(?!\ (-Q\w*|-S[si]+)(\ |$))",
    "conda mamba": rf"{_HIDES}|^(?!\ (list|info|search|run|env\ (list|export)|compare)(\ |$)|{_TELLS})",
    "psql mysql": rf"\ -\w*[foL]|^(?!.*(\ -\w*[ce]|\ --(command|execute))[=\ ]?{SELECT})(?!.*\ -l$)",
    "redis-cli": r"\ (--eval|--pipe)|^(?!.*\ (?i:get|mget|keys|scan|info|ping|ttl|type|llen|lrange|hgetall"
    r"|hget|exists|dbsize|smembers|zrange)(\ |$))",
    "npm pnpm yarn": rf"""^(?!\ (run|test|start|ls|list|root|bin|prefix)\ ).*(\ (publish|login|logout|adduser
        |token|owner|access|unpublish|deprecate|dist-tag|config(?!\ (get|list))|dlx|x|create|link|global)(\ |$)
        |\ -g|://|git@|git\+|\ --(global|location|reg|user|script|node))|^\ (set\ |\0)|\ init\ (?!-\S+$).|\ config\ get.*{_HIDES}""",
    "npm": r"^\ exec\ ",
    "pip uv poetry pdm pipenv hatch rye pixi": r"""^(\ -\S+)*\ (\0|publish|config|self|tool|upload|x
        |python\ install|cache|global)(\ |$)|(?<!\ show)\ -[if]\ |://|git@|\ --(index|extra-index|find-links|trusted|user|break|root
        |proxy|system)""",
    "cargo go composer bundle": r"""^\ \0|\ (login|logout|owner|yank|publish|deploy|self-update|global
        |create-project|binstall)(\ |$)|\ --(global|config|git|registry)|\ --?(exec|toolexec|vettool)""",
    "mvn gradle mix sbt lein": r"\ [\w:.-]*([pP]ublish|[dD]eploy|[uU]pload|release:)",
    "cargo go": r"^(\ \+\S+)?\ (un)?install|\ env\ (.*\ )?-[wu]|\ clean\ .*cache|\ (run|tool)\ .*\.\w+/\S*@",
    "dotnet": r"""\ (push|user-secrets|dev-certs|workload)(\ |$)|\ -(g|-global|-tool-path)|\ new\ install
        |\ (trust|--api-key)""",
    "make gmake ninja meson": r"\ --eval|\ -E|\ (un)?install(?!.*DESTDIR=[^/~])(\ |$)",
    "cmake gcc g++ cc clang clang++ ld": r"\ -E|-fplugin|-wrapper|LAUNCHER|\ --install",
    "npx bunx uvx": r"^(\ -\S+)*\ -(y|p|c|-yes|-package|-call|-from|-with)",
    "python node deno bun ruby perl php julia tsx ts-node": r"^(\ -\S+)*\ --(eval|print|execute)",
    "deno bun": r"^\ (eval|x|create|repl|upgrade|publish|(add|install)\ .*(-g|--global|://)|run\ .*(https?|npm|jsr):)",
    "sqlite3": r"\ \.(?!tables|schema|indexes|headers|mode|dump)|(?i:\b(drop|truncate|attach)\b|file\(|load_|edit\()|\n\."
    r"|(?i:delete\s+from\s+\w+\s*(;|$))|(?i:vacuum\s+into)|\0",
    "ps": r"\ (e[wlf]*|[auxwlf]+e\w*)(\ |$)|\ -E",
    "ss": r"\ -\w*K|\ --k",
    "actionlint": r"-(shellcheck|pyflakes)",
    "less more": r"\ \+|\ -[ok]|\ --(log|lesskey)",
    "man bat": r"\ -[PHC](?!\ cat)|\ --(pager|html)(?!=never)",
    "objdump nm size cloc javap": r"--plugin|--extract|--config|\ -J|--sql",
    "xmllint": r"--(shell|noent|dtd|valid|xinclude|path|load)",
    "jar": r"\ -J|\ @",
    "composer": r"^\ config\ .*-g",
    "mix": r"^\ (archive|run\ .*-e\b|escript)",
    "lerna nx ng mkdocs changeset vsce ovsx flit flutter dart pod": r"^\ (pub\ |trunk\ )?(\S*publish"
    r"|\S*deploy|release|push)(\ |$)",
    "pre-commit husky lefthook": r"^\ (un)?(install|init)(\ |$)",
    "cabal stack opam luarocks dvc platformio pio arduino-cli west idf.py": r"""\ (upload|publish|push|login
        |flash|\S*upload)(\ |$)""",
    "nix": r"^\ (run|shell|profile|copy|store|registry)\ (?!\.)|^\ (profile|store|copy)\ ",
    "nix-shell": r"\ --(run|command)|\ -p",
    "ghc": r"\ -e|-fplugin|-pgm",
    "pdflatex xelatex lualatex latexmk": r"-shell-escape|-enable-write18|-e\ ",
    "prove": r"\ -\w*e|--exec",
    "exiftool": r"\ -(config|@|if|p)\b",
    "pandoc": r"\ -\w*F|--(\w+-)?filter|--pdf-engine",
    "mlr": r"\b(system|exec|tee|emit|split|ENV)\b",
    "svn": r"\ (commit|ci|revert|delete|del|rm|import|mkdir|propset|ps|switch|relocate)(\ |$)|--config-",
    "hg": r"\ (push|revert|strip|purge|rollback|serve|email)(\ |$)|\ up\w*\ .*(-C|--clean)|\ --config",
    "jj": r"\ (push|abandon|restore|undo|op|config)(\ |$)",
    "hostname": r"\ (?!-)|\ -\w*[Fb]",
    "kill": r"^(?!(\ -\w+|\ -s\ \w+)?(\ %[\w%+-]*)+$|\ -l|\ -0\ )",
}  # fmt: skip

# Options and words that make a program medium; its arguments then count as paths it writes to.
_WRITES = {
    "sort shuf": r"\ -[bcdfghiMnRrsuVz]*[oT]|\ --(o|t)",
    "tree": r"\ -\w*o",
    "xxd uniq": r"^(\ -[lcsgo]\ \d+|\ -[^ ]*)*+\ [^- ][^ ]*\ [^-]|\ -r",
    "iconv xmllint scc": r"\ -\w*o|\ --o",
    "xmllint ffprobe mediainfo": r"://",
    "exiftool": r"=|\ -(o|overwrite|delete)",
    "pandoc xsv qsv": r"\ -o|\ --o|://",
    "mlr": r"\ -I",
    "cloc": r"\ --(out|rep|cou|fou|ign)",
    "ss": r"\ -\w*D|\ --d",
    "time": r"\ -\w*o|\ --o",
    "file": r"\ -C|\ --c",
    "jq yq": r"\ -\w*[if]|\ --(in|split|from)",
    "find": r"\ -(delete|exec)",
    "sed gsed": rf"^(?!(\ -[nErsuz]+|\ --quiet)*(\ (-e\ )?{_SED_STEP}([;\n]\s*{_SED_STEP})*)+(\ [^-]\S*)*$)",
}


Table = Mapping[str, Sequence[tuple[str, re.Pattern[str]]]]
"""For the name of each program: what its arguments may mean, and the pattern for each meaning."""


def compiled(rows: Iterable[tuple[str, str, str]], prefix: str = "") -> Table:
    """Return rows of names, meaning and pattern as a table; `prefix` begins each name in it."""
    table: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
    for names, meaning, pattern in rows:
        row = (meaning, re.compile(pattern, re.VERBOSE))
        for name in names.split():
            table.setdefault(prefix + name, []).append(row)
    return table


def first_fit(table: Table, name: str, args: Sequence[str]) -> tuple[str, re.Match[str]] | None:
    """Return the first meaning whose pattern is found in the arguments, with the match."""
    joined = join_words(args)
    found = ((meaning, pattern.search(joined)) for meaning, pattern in table.get(name, ()))
    return next(((meaning, match) for meaning, match in found if match), None)


@cache
def _effects() -> Table:
    high, medium = _with("high", _DANGERS), _with("medium", _WRITES)
    return {**compiled([*high, *medium]), **compiled(_with("high", risk_git.DANGERS), "git ")}


def _with(risk: Risk, table: Mapping[str, str]) -> Iterable[tuple[str, str, str]]:
    return ((names, risk, pattern) for names, pattern in table.items())


def find_effect(name: str, args: Sequence[str]) -> tuple[Risk, str]:
    """Return the risk that the arguments add: high, medium if they write, or low; and which."""
    found = first_fit(_effects(), name, args)
    if found is None:
        return "low", ""
    return "high" if found[0] == "high" else "medium", _words_at(found[1])


def _words_at(match: re.Match[str]) -> str:
    """Return the whole words of a match; the first words if nothing but their lack matched."""
    joined, (begin, end) = match.string, match.span()
    if not match[0].strip():
        words = joined.split(" ")[1 : _N_SHOWN + 1]
    else:
        begin = joined.rfind(" ", 0, begin + 1) + 1
        end = joined.find(" ", end - match[0].endswith(" "))
        words = joined[begin : end if end >= 0 else None].split(" ")
    return " ".join(words).replace("\0", "…").replace("\xa0", " ").replace("\n", " ")[:_MAX_SHOWN]


def join_words(args: Sequence[str]) -> str:
    return "".join(" " + arg.replace(" ", "\xa0") for arg in args)
