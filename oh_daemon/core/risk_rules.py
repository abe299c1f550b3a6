"""Tables of what is known about programs; `risk_commands` applies them.

A program without a row is unknown, which is never low. Patterns are searched in the arguments
joined by spaces. A space within an argument becomes U+00A0, which matches white space in a pattern
but not a literal space.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from oh_daemon.contract.items import Risk

MEANINGS: dict[str, tuple[Risk, str]] = {
    "text": ("low", "its arguments are only text"),
    "read": ("low", "reads files"),
    "pattern": ("low", "searches or filters files"),
    "names": ("medium", "gives variables other values"),
    "ask": ("medium", "acts in the workspace"),
    "run": ("medium", "runs code of the project"),
    "write": ("medium", "creates, changes or deletes files"),
    "unknown": ("medium", "is not known"),
    "fetch": ("medium", "fetches from the network"),
    "high": ("high", "reaches beyond the workspace, or cannot be undone"),
}

_PROGRAMS: dict[str, str] = {
    "text": """: true false sleep wait exit return break continue shift umask times let nproc
        tty whoami id groups uname uptime locale getconf seq expr cal which type whereis help clear
        pwd dirs echo basename dirname test [ jobs printf printenv export declare typeset local
        readonly date""",
    "names": "read mapfile readarray getopts unset",
    "read": """cd cat nl head tail wc tac rev od hexdump strings stat du df ls dir cut paste join
        comm diff cmp tr fold fmt column md5sum sha1sum sha256sum sha512sum b2sum cksum realpath
        readlink base64 base32 zcat bzcat xzcat tsort pr file tree xxd uniq sort shuf""",
    "pattern": "grep egrep fgrep zgrep rg fd fdfind ag ack sed gsed awk gawk mawk nawk jq yq",
    "ask": """popd pushd set shopt less more ps top git docker podman nerdctl
        docker-compose buildah kubectl helm terraform tofu pulumi aws
        gcloud az gh glab heroku apt apt-get aptitude dpkg yum dnf apk pacman snap flatpak brew
        conda""",
    "run": """npm pnpm yarn pip uv poetry pdm pipenv hatch cargo go composer bundle mvn gradle
        dotnet cabal stack mix sbt make gmake ninja just task rake cmake meson bazel nox tox gulp
        grunt gcc g++ cc clang clang++ rustc javac tsc pytest unittest coverage mypy ruff black isort
        flake8 pylint pyright eslint prettier jest vitest mocha webpack vite rspec phpunit ctest
        pre-commit shellcheck""",
    "write": """mkdir touch tee rmdir split gzip gunzip bzip2 xz unxz zstd truncate patch cp mv ln
        install rm unlink chmod tar zip unzip 7z""",
    "fetch": "curl wget",
    "code": """python pypy ipython node bun deno tsx ts-node perl ruby php lua rscript julia tclsh
        expect elixir groovy irb osascript gdb""",
    "shell": "sh bash zsh dash ksh ash fish csh tcsh pwsh source . eval trap watch",
    "find": "find",
    "wrap": """env timeout nice ionice stdbuf time nohup exec command builtin busybox xargs
        npx bunx uvx""",
    "high": """parallel coproc alias unalias hash enable bind complete disown at batch crontab systemctl
        service launchctl setsid screen tmux loginctl pm2 history fc shred wipe dd mkfs fdisk parted
        wipefs shutdown reboot halt poweroff init kill pkill killall fuser sudo doas su pkexec runuser
        chroot unshare nsenter setpriv setcap passwd useradd usermod visudo insmod modprobe sysctl
        mount umount iptables nft chattr chown chgrp nc ncat netcat telnet ssh scp sftp ftp socat
        rsync rclone mosh sshpass ssh-copy-id ssh-keygen ssh-add nmap dig nslookup host ping mail
        sendmail lftp ngrok cloudflared tcpdump aria2c ip ifconfig http openssl gpg sops vault pass
        op security xdg-open open xclip pbcopy wl-copy write wall psql mysql mongo mongosh redis-cli
        dropdb sqlite3 twine ansible ansible-playbook firebase vercel netlify pipx gem cpan rustup
        m4 dc ed ex vi vim nvim emacs http.server smtpd pty code timeit""",
}

VALUED = {
    "timeout": "ks", "nice": "n", "ionice": "cn", "stdbuf": "ioe", "time": "of", "env": "uC",
    "xargs": "nPILsdEa", "exec": "a", "bash": "oO", "sh": "o", "watch": "n", "grep": "ABCmdD",
    "rg": "ABCmtTgj", "awk": "Fv", "fd": "dteE", "python": "WX", "node": "r",
}  # fmt: skip
"""Letters of the options whose value is the next word."""

SECRET_NAME = r"(?i:key\b|keys\b|_key_|token|secret|passw|credential|_pat\b|auth)"  # noqa: S105 - a pattern
_LOOKS = r"""(get|list|describe|status|show|search|info|view|plan|validate|version|logs?|top|diff|lint
    |outdated|policy|checks|env|pr\ (view|list|diff|checks)|issue\ (view|list))(\ |$)"""
_SUBSTITUTE = "|".join(
    rf"[sy]{mark}(\\.|[^{mark}\\])*{mark}(\\.|[^{mark}\\])*{mark}[gpIi\d]*"
    for mark in ("/", r"\|", r"\#", ",", "@", ":")
)
_SED_STEP = rf"([\d,$~!]|/[^/]*/)*\s*([pdqhHgGxnN=]|{_SUBSTITUTE})\s*"
_GIT_OPTION = r"\ (-C\ \S+|--no-pager|-P|-c\ (user|color|core\.quotepath)\S+)"
_GIT_SAFE = """status|log|show|blame|shortlog|describe|ls-files|ls-tree|rev-parse|rev-list|cat-file
    |merge-base|diff|show-ref|cherry|grep|fsck|archive|format-patch|add|commit|merge|cherry-pick
    |revert|init|am|mv|apply|bisect|notes|tag|checkout|switch|branch|reset|restore|stash|remote
    |reflog|worktree|submodule|fetch|pull|ls-remote|lfs|clone|rm|clean|config|help|version"""

_IN_INDEX = r"\[.*(\$\(|`)"
"""Bash evaluates the index of a name, so a command substitution in it runs."""
_LISTS = r"^(\ -[px])?$"
"""Without names these programs print all variables, including secrets."""

# Options and words that make a program high, whatever its kind is.
_DANGERS = {
    "date": r"\ -[uR]*[fsr]|\ --(f|s|ref)|\ \d",
    "let": r"[A-Za-z_*?\0]",
    "test [": rf"\ -v\ (?!\w+(\ |$))|{_IN_INDEX}",
    "read mapfile readarray getopts unset": r"[*?\0]|\[(?!\d+\])",
    "readonly": r"\ .",
    "wait": r"\ -\w*p",
    "exec": r"\{",
    "set": rf"{_LISTS}|{_IN_INDEX}",
    "export": rf"{_LISTS}|{_IN_INDEX}|\ [^=\ ]*[*?\0]",
    "printf": rf"\ -v|{_IN_INDEX}",
    "declare typeset local": rf"\ -\w*[nir]|\ [^=\ ]*[*?\0]|{_LISTS}|{_IN_INDEX}",
    "jobs": r"\ -x",
    "printenv": rf"^$|{SECRET_NAME}",
    "env": r"^(\ -\S*|\ \w+=\S*)*(\ -\w*S|\ --s|$)",
    "sort": r"\ --comp",
    "rg fd fdfind ag ack": r"\ -[xX]|\ --(pre|exec|pager|hostname)",
    "jq yq": r"\benv\b|\$ENV|strenv|load|\0",
    "awk gawk mawk nawk": r"""system|getline|@|ENVIRON|PROCINFO|ARGV|print[^;}]*>|\0
        |(?<!-F)(?<!\|)\|(?!\|)|\ -[fiElo]|\ --""",
    "sed gsed": r"[\d$/;{}\s]\s*[ewW](\s|$)|[/|#,@:!][gpIi\d]*[ew]|\0",
    "find": r"\ -(fprint|fls|files0|ok)|\0|^(?!.*\ -i?name\ \S*\w).*\ -delete",
    "curl": r"""169\.254\.|metadata\.|file:|gopher:|dict:|[\0$@]|(?i:authorization)
        |\ -[a-zA-Z]*([dFTuxnbEK]|X\ ?(?!GET))|\ --(data|form|upload|user|proxy|netrc|cookie|cert
        |request|resolve|connect|unix|url|json|config|key|trace)""",
    "wget": r"""169\.254\.|metadata\.|[\0$]|\ -[ei]|\ --(post|body|method|header|execute|input|user
        |password|config|load|proxy|use-ask|no-check)""",
    "tar zip unzip": r"""\ -\w*[IFP]|\ -TT|\ --(to-com|checkpoint-a|use-comp|rsh|info-s|new-vol|remove
        |absolute|unzip)""",
    "chmod": r"\ [ugoa]*[+=]\w*s|\ [2467]\d{3}\ |\ \w*[oa]\w*[+=]\w*w|\ [0-7]*[2367]\ ",
    "git": rf"""^({_GIT_OPTION})*+(?!\ ({_GIT_SAFE})(\ |$)|$)
        |\ --(ext-diff|textconv|open-files|output|upload-pack|exec|receive-pack|template|force|config
        |separate-git|unsafe|global|system|discard)|\ clone\ .*-[cu]|\ tag\ .*-\w*[df]|\ stash\ (drop|cl)
        |\ branch\ .*-\w*[DMf]|\ reset\ .*--(h|m|k)|\ reflog\ (d|e)|\ submodule\ (?!update|status|init)
        |\ remote\ (a|s|r|p)|\ worktree\ (add\ (\.\.|/|~)|r|p)|\ (checkout|switch)\ (.*\ )?(-\w*[fCB]|\.|--
        |\S+/|\S+\.\w{{1,4}})(\ |$)|\ restore\ (?!.*--staged)|\ clean\ (?!.*-n)|\ grep\ .*-O|\ lfs\ p
        |\ bisect\ run|\ fetch\ .*-f|\ config\ (?!(--local\ )?(--?get|--list|-l|list|user\.|\S+$))""",
    "docker podman nerdctl buildah docker-compose": r"""\ (run|exec|cp|push|login|logout|rmi?|kill|stop
        |prune|down|export|save|commit|attach|create|start|swarm|context|plugin|update)(\ |$)|--privileged""",
    "kubectl helm terraform tofu pulumi aws gcloud az gh glab heroku apt apt-get aptitude dpkg yum dnf apk"
    " pacman snap flatpak brew conda": rf"secret|token|auth|^(?!(\ \S+)?\ {_LOOKS})",
    "npm pnpm yarn": r"""^(?!\ (run|test|start)).*(\ (publish|login|logout|adduser|token|owner|access
        |unpublish|deprecate|dist-tag|config|set|dlx|x|create|exec)(\ |$)|\ -g|\ --(global|location|reg
        |user|script|node)|://|git@|git\+)|\ init\ .""",
    "pip uv poetry pdm pipenv hatch": r"""\ (publish|config|self|tool|upload|x)(\ |$)|\ -[if]\ |://|git@
        |\ --(index|extra-index|find-links|trusted|user|break|root|proxy)""",
    "cargo go composer bundle mvn gradle dotnet mix": r"""\ (publish|login|logout|owner|yank|deploy)(\ |$)
        |\ --(exec|toolexec|config|git|registry)|\ \w\S*\.\w+/\S*@|^\ install""",
    "npx bunx uvx": r"\ -(y|p|c|-yes|-package|-call|-from|-with)",
    "make gmake cmake gcc g++ cc clang": r"\ --eval|\ -E|-fplugin|-wrapper|LAUNCHER",
}  # fmt: skip

# Options and words that make a program medium; its arguments then count as paths it writes to.
_WRITES = {
    "sort shuf": r"\ -[bcdfghiMnRrsuVz]*[oT]|\ --(o|t)",
    "tree": r"\ -\w*o",
    "xxd uniq": r"^(\ -[^ ]*)*\ [^- ][^ ]*\ [^-]|\ -r",
    "time": r"\ -\w*o|\ --o",
    "file": r"\ -C|\ --c",
    "jq yq": r"\ -\w*[if]|\ --(in|split|from)",
    "find": r"\ -(delete|exec)",
    "sed gsed": rf"^(?!(\ -[nErsuz]+|\ --quiet)*(\ (-e\ )?{_SED_STEP}([;\n]\s*{_SED_STEP})*)+(\ [^-]\S*)*$)",
}


@cache
def _kinds() -> dict[str, str]:
    return {name: kind for kind, names in _PROGRAMS.items() for name in names.split()}


@cache
def _patterns() -> tuple[dict[str, re.Pattern[str]], ...]:
    return tuple(
        {name: re.compile(p, re.VERBOSE) for names, p in table.items() for name in names.split()}
        for table in (_DANGERS, _WRITES)
    )


def bare_name(word: str) -> str:
    """Return the name of a system program without its directory."""
    return re.sub(r"^(/usr(/local)?)?/s?bin/(?=[^/]+$)", "", word)


def find_program(name: str) -> tuple[str, str]:
    """Return the name in the tables and its kind; python3.11 and mkfs.ext4 are there by stem."""
    kinds = _kinds()
    stems = (name, re.sub(r"(?<=[a-z])[-.]?[\d.]+$", "", name), name.partition(".")[0])
    known = next((stem for stem in stems if stem in kinds), name)
    return known, kinds.get(known, "unknown")


def find_effect(name: str, args: Sequence[str]) -> tuple[Risk, str]:
    """Return the risk that the arguments add (high, medium if they write, or low), and the match."""
    joined = "".join(" " + arg.replace(" ", "\xa0") for arg in args)
    for risk, table in zip(("high", "medium"), _patterns(), strict=True):
        match = table[name].search(joined) if name in table else None
        if match:
            return risk, match[0].strip().replace("\0", "…")
    return "low", ""
