"""Random scripts run in a real bash: none that is rated below high may get to run `sudo`.

Neither may one that passes a rule which denies `sudo`, whatever its risk.

Their `sudo` is a program that this test provides. Variables hold what an earlier command may have
left in them: text that runs when bash evaluates it.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
from pathlib import Path

import pytest

from oh_daemon.features.approval.rules import ruling_of
from oh_daemon.features.risk.rating import rate_command
from oh_daemon.protocol.rules_and_hooks import Rule

_LEFT = """x='a[$(sudo id)]'; y='$(sudo id)'; a=(1 2); set -- "$x" "$y"; shopt -s extglob
eval "$SCRIPT"
"""
_DENY = Rule(decision="deny", argv=("sudo",), match=("sudo id",))
_TIMEOUT_S = 60
_DEPTH = 4
_GRAMMAR = {
    "command": r"""sudo id¦sudo id¦sudo id¦ls¦echo <word>¦: <word> <word>¦x=<word>¦cat <<< <word>
        ¦[[ <word> == <word> ]]¦[[ <word> -eq <word> ]]¦[[ -v <word> ]]¦[ <word> = a ]
        ¦(( <number> ))¦case <word> in <word>) <command>;; esac¦for i in <word>; do <command>; done
        ¦for ((<number>;<number>;<number>)); do break; done¦if <command>; then <command>; fi
        ¦{ <command>; }¦(<command>)¦! <command>¦<command> | <command>¦<command> && <command>
        ¦<command> || <command>¦<command>; <command>¦<command> & wait¦a[<number>]=<word>
        ¦a=(<word> [<number>]=<word>)¦cat <<E⏎<text>⏎E⏎¦cat <<-'E'⏎<text>⏎E⏎¦ls < <word>
        ¦cat <<E | cat <<'F'⏎<text>⏎E⏎<text>⏎F⏎¦x=<word> y=<word> <command>¦f() { <command>; }; f
        ¦printf <word> <word>¦test -v <word>¦let <word>¦export x=<word>¦declare <word>¦unset <word>
        ¦read x <<< <word>¦# <text>⏎<command>¦<command> # <text>¦<command> 2>&1 > <word>""",
    "word": r"""a¦$x¦'b'¦1¦*¦~¦a\ b¦\$x¦{a,b}¦$(sudo id)¦`sudo id`¦$1¦$@¦\`¦$(<command>)¦`<command>`
        ¦"<text>"¦'$(sudo id)'¦"${x+'$(sudo id)'}"¦$'\x24(sudo id)'¦$((<number>))¦$[<number>]
        ¦<expansion>¦<expansion>¦<word><word>¦{<word>,<word>}¦<(<command>)¦>(<command>)¦@(<word>|<word>)
        ¦\<word>¦1#<word>""",
    "text": r"""a ¦'¦\$(sudo id)¦\`sudo id\`¦\\¦#¦$x¦(¦<expansion>¦$(<command>)¦`<command>`
        ¦$((<number>))¦<text><text>¦<text><text>""",
    "expansion": r"""${<name>}¦${#<name>}¦${!<name>}¦${<name>@P}¦${<name>@Q}¦${<name>:-<text>}
        ¦${<name>=<word>}¦${<name>+<word>}¦${<name>?<text>}¦${<name>#<word>}¦${<name>%%<text>}
        ¦${<name>/<word>/<word>}¦${<name>//<text>}¦${<name>^<word>}¦${<name>,,<text>}
        ¦${<name>:<number>}¦${<name>:1:<number>}""",
    "name": "x¦y¦1¦@¦a[0]¦a[@]¦a[<number>]",
    "number": r"""1¦x¦$x¦a[x]¦i¦${x}¦$(sudo id)¦`sudo id`¦'1'¦"x"¦10#1¦x++¦<number>+<number>
        ¦<number>=<number>¦(<number>)¦-<number>¦<number>?1:<number>¦a[<number>]¦<expansion>""",
}
_RULES = {name: re.split(r"\n? *¦", rules) for name, rules in _GRAMMAR.items()}


def _compose(choose: random.Random, symbol: str, depth: int) -> str:
    rules = _RULES[symbol]
    flat = [rule for rule in rules if not re.search(r"<[a-z]+>", rule)]
    rule = choose.choice(rules if depth > 0 or not flat else flat)
    return re.sub(r"<([a-z]+)>", lambda found: _compose(choose, found[1], depth - 1), rule)


@pytest.fixture
def ran(tmp_path: Path) -> Path:
    """The file that the test's `sudo` leaves behind."""
    (tmp_path / "bin").mkdir()
    sudo = tmp_path / "bin/sudo"
    sudo.write_text(f"#!/bin/sh\n: > {tmp_path}/ran\necho 1\n")
    sudo.chmod(0o755)
    return tmp_path / "ran"


def _check(ran: Path, n_scripts: int) -> None:
    folder = ran.parent / "work"
    folder.mkdir()
    seed = os.environ["OH_TEST_SEED"]
    choose = random.Random(seed)
    for _ in range(n_scripts):
        script = _compose(choose, "command", _DEPTH).replace("⏎", "\n")
        rating = rate_command(script, [folder])
        if rating.risk == "high" and ruling_of([_DENY], ("terminal",), rating.segments):
            continue
        environment = {"PATH": f"{ran.parent}/bin:{os.defpath}", "SCRIPT": script}
        # This waits until the output ends, because something may go on in the background.
        subprocess.run(
            ["bash", "-c", _LEFT],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
        assert not ran.exists(), (seed, rating, script)


def test_what_runs_a_command_of_high_risk_is_high_however_it_is_written(ran: Path) -> None:
    _check(ran, 1500)


@pytest.mark.full
def test_the_same_holds_for_many_scripts(ran: Path) -> None:
    _check(ran, 100_000)
