"""Git's commands: the kind of each, and what its arguments make of it; one row per command.

Patterns are searched in the arguments after the command, as `risk_rules` says. What is low starts
no program in a fresh clone, whatever that clone contains (decision 56).
"""

from __future__ import annotations

KINDS = {
    "text": "version --version",
    "read": """annotate blame cat-file check-attr check-ignore check-mailmap cherry count-objects
        describe diff diff-files diff-index diff-tree for-each-ref grep log ls-files ls-tree
        merge-base name-rev range-diff reflog rev-list rev-parse shortlog show show-branch show-ref
        status symbolic-ref var whatchanged""",
    "ask": "ls-remote",
    "repo": """add am apply archive bisect branch bundle checkout cherry-pick clean commit config
        fetch format-patch fsck gc hash-object init lfs merge merge-tree notes pull
        rebase remote rerere reset restore revert sparse-checkout stage stash submodule switch tag
        update-index worktree write-tree""",
    "fetch": "clone",
    "start": "help",
    "write": "mv rm",
}
"""All others are high: they send, rewrite history, or are an alias."""
GIT_OPTION = r"\ (-C\ [^\ ]+|--no-pager|-P|-c\ (user|color|core\.quotepath)[^\ ]+)"
"""An option before the command, and the settings among them that start nothing."""

_CONFIG_READ = r"""(--(local|global|system|show-\w+)\ )*(--get[\w-]*\ |get\ |(--list|-l|list)(\ |$)
    |[a-zA-Z][^\ ]*$)"""
_CONFIG_SAFE = r"""(user\.|color\.|advice\.|pull\.rebase|init\.default|push\.(default|auto)
    |fetch\.prune|rerere\.|commit\.gpgsign|merge\.conflict|core\.(autocrlf|filemode|ignorecase|eol|quotepath|longpaths)
    )"""
_HEADERS = r"(?i:extraheader|password|token|cookie)"
_ALL = " ".join(KINDS.values())

DANGERS = {
    _ALL: r"""ext::|\ --(ext|textc|op|output|upload-pack|exec|receive-pack|template|force
        |separate-git|unsafe|discard)""",
    KINDS["read"]: r"\ --ou",
    "branch": r"\ -\w*[DMfC]",
    "checkout": r"^(?!\ -b\ ).*\ (\.|\S+/|\S+\.[a-z]\w{0,3}|[A-Z]\w*file)(\ |$)",
    "checkout switch": r"\ (-\w*[fCB]|--)(\ |$)",
    "clean": r"^(?!.*\ (-[dfxXq]*n[dfxXq]*|--dry-run)(\ |$))",
    "clone": r"\ (-\w*[cu]|--config)",
    "config": rf"""^\ (?!({_CONFIG_READ})
        |(--local\ )?(set\ )?{_CONFIG_SAFE}(?!.*\ --(global|system)))|{_HEADERS}""",
    "fetch": r"\ -\w*f",
    "gc": r"\ .",
    "grep": r"\ -\w*O",
    "lfs": r"^\ (?!(fetch|pull|track|ls|status)\b)",
    "rebase": r"\ (-\w*[ix]|--(in|ro|auto))",
    "reflog": r"^\ (d|e|write)",
    "remote": r"^\ (a|se|re|rm|p)",
    "reset": r"\ --(h|me|k)",
    "restore": r"^(?!.*--staged)",
    "rm": r"^(?!.*--cached).*\ (:?/|\.?/?\*?)(\ |$)",
    "stash": r"^\ (drop|cl)",
    "submodule": r"^\ (?!update|status|init|sync|foreach|summary)",
    "symbolic-ref": r"^(?!(\ -q|\ --short)*\ \S+$)",
    "tag": r"\ -\w*[df]",
    "worktree": r"^\ (add\ (\.\.|/|~)|r)",
}

_LISTING = r"(-l|--list|--(no-)?(contains|merged)|--points-at)(\ [^-\ ][^\ ]*)*"

USES = (
    # These check signatures, merge again or list other stores: programs are configured for that.
    (_ALL, "start", r"%G|signature|\ --(show-sig|remerge|diff-merges|alternate)"),
    ("cat-file", "start", r"\ --"),
    ("var", "start", r"^(?!\ GIT_\w+$)"),
    ("branch", "read",
     rf"""^(\ (-[arv]+|--(all|remotes|show-current|verbose|sort|format|column|no-color)[^\ ]*)
         |\ {_LISTING})*$"""),
    ("config", "read",
     r"^\ (--(local|global|system)\ )*(--get(-all)?\ |get\ )?[a-zA-Z][^\ ]*$"),
    ("help", "read", r"^\ -[ag]"),
    ("remote", "read", r"^(\ -v|\ get-url\ [^\ ]+)?$"),
    ("stash", "read", r"^\ (list|show)(\ |$)"),
    ("tag", "read", rf"^(\ --(sort|format)=[^\ ]*|\ -n\d*|\ {_LISTING})*$"),
    ("worktree", "read", r"^\ list(\ |$)"),
)  # fmt: skip

INNER = {"bisect": r"^\ run\ ", "submodule": r"^\ foreach(\ --\w+)*\ "}
