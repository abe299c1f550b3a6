"""Git's commands: the usual effect of each, and what its words make of it, as in `risk_verbs`.

What is low starts no program in a fresh clone, whatever that clone contains (decision 56).
"""

from __future__ import annotations

import re

COMMANDS = {
    "text": "version --version",
    "read": """annotate blame cat-file check-attr check-ignore check-mailmap cherry count-objects
        describe diff diff-files diff-index diff-tree for-each-ref log ls-files ls-tree merge-base
        name-rev range-diff reflog rev-list rev-parse shortlog show show-branch show-ref status
        whatchanged""",
    "pattern": "grep",
    "ask": "ls-remote",
    "repo": """add am apply archive bisect branch bundle checkout cherry-pick commit fetch
        format-patch fsck gc hash-object init merge merge-tree notes pull rebase remote rerere
        reset revert sparse-checkout stash switch stage tag update-index worktree write-tree""",
    "fetch": "clone",
    "start": "help var",
    "write": "mv rm",
    "send": "push send-email send-pack",
    "lose": "clean restore symbolic-ref update-ref filter-branch filter-repo prune replace",
    "later": "config submodule lfs",
}
"""All others are high, because they may be an alias for anything."""
GIT_OPTION = r"\ (-C\ [^\ ]+|--no-pager|-P|-c\ (user|color|core\.quotepath)[^\ ]+)"
"""An option before the command, and the settings among them that start nothing."""
TEXT_OPTION = re.compile(
    r"git (commit|tag|merge|stash) (-\w*m|--message)"
    r"|git (log|blame|diff|show) (-[SGL]|--grep|--author|--since|--until)"
    r"|.* (--jq|--query|--format|--template|--body|--title)"
)
"""A command and an option whose value is no path, though it may look like one."""

# The first row is for all commands; for what is "start" there, settings name programs.
ROWS = """
*: inline --{ext-diff,textconv,open-files-in-pager*}, ~*ext::*
    inline --{upload-pack,exec,receive-pack,template,separate-git,unsafe}*
    start ~{*%G*,*%(signature*}, --{show-sig,remerge,diff-merges,alternate-refs}*
    lose --{force,discard,output}*
cat-file: start --*
var: read GIT_* $
branch: lose {-D,-M,-C,-f}
    repo {-d,-m,-c,-u}, --{delete,move,copy,edit*,set-up*,unset*,track*}
tag: lose {-d,-f,--delete}; repo {-a,-s,-m,-F}
branch tag: read $, -l, --{list,contains,no-contains,merged,no-merged,points-at}
checkout switch fetch: lose {-f,-C,-B}, ~--
clean: repo -n, --dry-run
clone: inline {-c,-u}, --config*
gc: lose -*
grep: inline -O; deep --{no-index,untracked}
diff: deep --no-index
lfs: read {ls-files,status,env,version}; repo {fetch,pull,checkout,track}
help: read {-a,-g}
rebase: lose {-i,--interactive,--root,--autosquash}; inline -x
reflog: lose {delete,expire,write}
remote: later {add,set-*,remove,rename,rm,prune}; read $, get-url *
reset: lose --{hard,merge,keep}
restore: lose -W, --worktree; repo -S, --staged
rm: lose ~{:/,.,./,[*],./[*],/}; write --cached ~{:/,.,./,[*],./[*],/}
stash: lose {drop,clear}; read {list,show}
submodule: repo $, {update,status,init,sync,foreach,summary}; inner foreach
symbolic-ref: read * $; lose -d, --delete, -m
worktree: read list; later {remove,repair}, add {..*,/*,[~]*}
bisect: inner run
"""
