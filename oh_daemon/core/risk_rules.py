"""Patterns for arguments that are a language of their own: of awk, sed, SQL, curl and the shell.

They are searched in the arguments joined by spaces. A space within an argument becomes U+00A0,
which matches white space in a pattern but not a literal space.
"""

from __future__ import annotations

import re

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
HIDES = r"(?i:secret|token|\bauth|passw|credential|\bkeys\b|access_?key|appsettings|connection-string|kubeconfig)"
"""What a server must not be asked for without a question."""
_SELECT = r"""(?i:select|show|describe|explain|pragma|\\[dl]\w*\+?|\.(tables|schema|indexes))(?!\w)
    (?!.*(?i:\b(into|update|delete|insert|drop|alter|create|truncate|grant|copy|attach|call|set)\b
    |file\(|_file|load_|edit\(|lo_|dblink|\\[!giow]))[^\0]*$"""
"""A query that only reads. What it calls could still change something: it is never low."""
_SUBSTITUTE = "|".join(
    rf"[sy]{mark}(\\.|[^{mark}\\])*{mark}(\\.|[^{mark}\\])*{mark}[gpIi\d]*"
    for mark in ("/", r"\|", r"\#", ",", "@", ":")
)
_SED_STEP = rf"([\d,$~!]|/[^/]*/)*\s*([pdqhHgGxnN=]|{_SUBSTITUTE})\s*"
_PERL_TEXT = r"(?!(?P=mark)|[$@\\{(]).|\((?!\?+\{)|\\.|\$\d(?![\[{-])|\$(?=[)|]|(?P=mark))"
_PERL_STEP = rf"""(s(?P<mark>[/|\#,!])({_PERL_TEXT})*(?P=mark)
    ((?!(?P=mark)|[$@\\]).|\\.|\$[\d&](?![\[{{-]))*(?P=mark)[gimsx]*;?
    |print\s+if\s+(/[^/$@({{\\]*/|\d+\.\.\d+|\$\.\s*[=<>]+\s*\d+))"""
"""A substitution or a filter in perl in which no code can stand."""
_KEYS = r"\ -(\w*key\w*|out|pass\w*|req|engine|provider|sign|hmac|CA|new|prverify|rand|writerand)"
_IN_INDEX = r"\[.*(\$\(|`)"
"""Bash evaluates the index of a name, so a command substitution in it runs."""
_GIT_SAFE = r"""(user\.|color\.|advice\.|pull\.rebase|init\.default|push\.(default|auto)|fetch\.prune
    |rerere\.|commit\.gpgsign|merge\.conflict
    |core\.(autocrlf|filemode|ignorecase|eol|quotepath|longpaths))"""

PATTERNS: tuple[tuple[str, str, str], ...] = (
    ("date", "system", r"\ -[uR]*[fsr]|\ --(f|s|ref)|(?<!\ -d)(?<!\ --date)\ \d"),
    ("let", "inline", r"[A-Za-z_*?\0]"),
    ("test;[", "inline", rf"\ -v\ (?!\w+(\ |$))|{_IN_INDEX}"),
    ("read;mapfile;readarray;getopts;unset", "inline", r"[*?\0]|\[(?!\d+\])|\ -C"),
    # Without names these print all variables, including secrets.
    ("set", "secret", "^$"),
    ("export;declare;typeset;local;readonly", "secret", r"^(\ [-+]\w+)*$"),
    ("set;export;declare;typeset;local;printf", "inline", _IN_INDEX),
    ("export;declare;typeset;local", "later", r"\ [^=\ ]*[*?\0]"),
    ("declare;typeset;local", "inline", r"\ -\w*[nir]"),
    ("printf", "later", r"\ -v"),
    ("printenv", "secret", rf"^(\ -\S*)*$|{SECRET_NAME}"),
    ("env", "secret", r"^(\ (-\w*[uC]|--(unset|chdir))\ \S+|\ -\S*|\ \w+=\S*)*$"),
    ("env", "inline", r"^(\ -\S*|\ \w+=\S*)*(\ -\w*[SC]|\ --(s|c))"),
    ("jq;yq", "secret", r"\benv\b|\$ENV|strenv|load|\0"),
    ("awk;gawk;mawk;nawk", "script", r"system|getline|@|ENVIRON|PROCINFO|ARGV|print[^;}]*>|\0|(?<!-F)(?<!\|)\|(?!\|)|\ -[fiElo]|\ --"),
    ("sed;gsed", "script", r"[\d$/;{}\s]\s*[ewW](\s|$)|[/|#,@:!][gpIi\d]*[ew]|\0"),
    ("sed;gsed", "write", rf"^(?!(\ -[nErsuz]+|\ --quiet)*(\ (-e\ )?{_SED_STEP}([;\n]\s*{_SED_STEP})*)+(\ [^-]\S*)*$)"),
    ("find", "lose", r"""\ -(fprint|fls|files0|ok)|\0|\ -o\ (?!.*-i?name).*-delete
        |^(?!.*(?<!\ !)(?<!\ -not)\ -i?name\ \S*\w).*\ -delete"""),
    ("curl", "send", r"""169\.254\.|metadata\.|file:|gopher:|dict:|[\0$@]|(?i:authorization)
        |\ -[a-zA-Z]*([dFTuxnbEK]|X\ ?(?!GET))|\ --(data|form|upload|user|proxy|netrc|cookie|cert
        |request|resolve|connect|unix|url|json|config|key|trace)"""),
    ("wget", "send", r"""169\.254\.|metadata\.|[\0$]|\ -[ei]|\ --(post|body|method|header|execute
        |input|user|password|config|load|proxy|use-ask|no-check)"""),
    ("chmod", "root", r"\ [ugoa]*[+=]\w*s|\ [2467]\d{3}\ |\ \w*[oa]\w*[+=]\w*w|\ [0-7]*[2367]\ "),
    ("npm;pnpm;yarn", "secret", rf"\ config\ get.*{HIDES}"),
    ("psql;mysql", "send", rf"\ -\w*[foL]|^(?!.*(\ -\w*[ce]|\ --(command|execute))[=\ ]?{_SELECT})(?!.*\ -l$)"),
    ("sqlite3", "read", rf"\ -readonly(\ -\w+)*\ [^-]\S*\ {_SELECT}"),
    ("sqlite3", "lose", r"""\ \.(?!tables|schema|indexes|headers|mode|dump)|\n\.|\0
        |(?i:\b(drop|truncate|attach)\b|file\(|load_|edit\(|vacuum\s+into|delete\s+from\s+\w+\s*(;|$))"""),
    ("sqlite3", "write", r"^(?!.*-readonly)(\ -(header|csv|json|column|markdown|table|line|readonly|noheader|bail|batch))*\ [^-\s]\S*\ [^-]"),
    ("ps", "secret", r"(?<!\ -[oCuUtgGp])\ (?=\w*e)[acefhjklmnrsuvwxASTLXZ]+(\ |$)|\ -E"),
    ("mlr", "script", r"\b(system|exec|tee|emit|split|ENV)\b"),
    ("perl", "read", rf"^(\ -[np0]+)?\ -[np0]+e\ {_PERL_STEP}(\ [^-]\S*)*$"),
    ("perl", "write", rf"^(?=.*\ -[np0]*i)(\ -[npi0]+(\.\w+)?)*\ -[npi0]*e\ {_PERL_STEP}(\ [^-]\S*)*$"),
    ("tar", "inline", r"^\ \w*[IF]"),
    ("tar", "read", r"^\ (-?[jJvzf]*t[jJvzf]*|--list)(\ |$)"),
    ("jar", "read", r"^\ -?-?t"),
    ("ar", "read", r"^\ -?[tp]v?\ "),
    ("sips", "read", r"^(\ -g\ \w+)+\ [^-]\S*$"),
    ("xxd;uniq", "write", r"^(\ -[lcsgo]\ \d+|\ -[^ ]*)*+\ [^- ][^ ]*\ [^-]|\ -r"),
    ("gh;glab", "send", r"^\ api\ .*(?<=\ )(-\w*X(?!\ ?GET(\ |$))|--method(?![=\ ]GET(\ |$)))"),
    ("man", "inline", r"\ -[PHC](?!\ ?cat(\ |$))|\ --(pa(?!ger=cat(\ |$))|ht)"),
    ("bat", "inline", r"\ --pager(?!=never(\ |$))"),
    ("node;npm;ruby;php;java;perl;bundle;gem", "text", r"^\ --?v(ersion)?$"),
    ("rustc;gcc;g++;clang;cargo;cmake", "text", r"^\ (--version|-V|-v|-vV|--list)(\ --verbose)?$"),
    ("adb;cargo;composer;docker;go;helm;npm;podman;terraform;tofu;uv;zig", "text", r"^\ (-v|-{0,2}version)(\ -json|\ --short)?$"),
    ("unzip", "read", r"^\ -[lvpZt1]+\ "),
    ("pdftotext", "read", r"\ -$"),
    ("gpg", "read", r"^\ (--verify|--list-(public-)?keys|--list-sigs|--fingerprint)(\ |$)(?!.*\ -(o|-o))"),
    ("php", "read", r"^\ -l(\ [^-]\S*)+$"),
    ("node", "read", r"^\ (-c|--check)\ [^-]\S*$"),
    ("ruby;perl", "run", r"^\ -\w*c\ [^-]\S*$"),
    ("brew", "text", r"^\ --prefix(\ [^\ -]\S*)?$"),
    ("kill", "text", r"^\ (-l.*|-0(\ [%\d\0]\S*)+)$"),
    ("kill", "act", r"^(\ -\w+|\ -s\ \w+)?(\ %[\w%+-]*)+$"),
    ("set", "text", r"^(\ ([-+][BCEefhmTuvx]*o?|pipefail|errexit|nounset|xtrace|nullglob))+$"),
    ("ip", "text", r"^(\ -\w+)*\ (a|addr|address|l|link|r|route|n|neigh)(\ (show|list|ls).*)?$"),
    ("dig;nslookup;host;ping;traceroute;whois", "ask", r"^[^\0]*$"),
    ("nc;ncat;netcat", "ask", r"^(\ -[vnu46]*z[vnu46]*|\ -[vnu46]+|\ -w\ ?\d+)+\ [\w.-]+\ [\d-]+$"),
    ("rsync", "write", r"^(?!.*(:|\ -[^-\ ]*[eM]|--(rsh|rsync-p|files-from|daemon|remove|del|info)))"),
    ("dd", "write", r"^(\ (if|of|bs|count|status|seek|skip|conv|iflag|oflag)=\S+)+$"),
    ("openssl", "read", rf"^\ (rand(\ -(hex|base64))?\ \d+$|(x509|req|crl|verify|version|dgst|asn1parse)(?!.*{_KEYS}))"),
    ("bash;sh;zsh;dash;ksh", "read", r"^\ -[uvx]*n[uvx]*(\ [^-]\S*)+$"),
    ("kind run;kind code;kind unknown", "lose", r"""\ (db:(drop|reset|purge|wipe)|migrate:(fresh|reset)|ecto\.(drop|reset)|reset_db
        |schema:drop|(doctrine:)?database[:\ ]drop|manage\.py\ (sql)?flush)(\ |$|:)
        |\ migrate\ reset|--force-reset|\ downgrade\ base"""),
    ("kind run;kind code;kind unknown", "inline", r"""\ runner\ (?![\w./-]+\.rb(\ |$))|\ tinker\ .*--execute
        |\ shell\ (.*\ )?(-c|--command)"""),
    ("kind unknown", "lose", r"""\ (erase|destroy|delete|purge|wipe|flash|reset|revert|forget|apply|remove)
        (\ |$)|\ --(delete|prune|purge)(\ |$)
        |(?i:\b(drop|truncate)\s(table|database|schema|keyspace)\b|\bdelete\sfrom\b)"""),
    ("kind unknown", "send", r"""\ (publish|deploy|upload|push|login|logout)(\ |$)
        |\ (?!https?|file|git)[a-z+]+://|\b0\.0\.0\.0\b"""),
    ("kind unknown", "inline", r"""\ install-\w+(\ |$)|\ (-e|-ex|--eval|--exec(ute)?)[=\ ]\S*[(;"'\xa0]
        |--shell-escape|--install-extension"""),
    ("git checkout", "lose", r"^(?!\ -b\ ).*\ (\.|\S+/|\S+\.[a-z]\w{0,3}|[A-Z]\w*file)(\ |$)"),
    ("git config", "secret", r"(?i:extraheader|password|token|cookie)"),
    ("git config", "read", r"^\ (--(local|global|system)\ )*(--get(-all)?\ |get\ )?(?!list$)[a-zA-Z][^\ ]*$"),
    ("git config", "ask", r"^(\ --(local|global|system|show-\w+))*\ (--get-(?!all\ )|(--list|-l|list)(\ |$))"),
    ("git config", "repo", rf"^(\ --local)?(\ set)?\ {_GIT_SAFE}\S*\ (?!.*\ --(global|system))"),
)  # fmt: skip
"""What programs do whose arguments are a language of their own; `risk_verbs` has all others."""
