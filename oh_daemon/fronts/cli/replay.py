"""`oh-daemon replay`: runs a conversation again from its log and shows the first difference."""

from __future__ import annotations

import sys
from pathlib import Path

from rich.console import Console

from oh_daemon.app.replay import replay
from oh_daemon.core.plain_text import display_escaped
from oh_daemon.fronts.cli.logs import find_log
from oh_daemon.fronts.cli.process import say
from oh_daemon.fronts.cli.status_line import status_line

SAME, DIFFERS = 0, 6


def run_replay(folder: Path, recording: str, *, is_strict: bool) -> int:
    """Replay the log and print how that went; return the exit code."""
    place = Path(recording) if "/" in recording else find_log(folder, recording)
    say("answers and results come from the log: nothing runs, no file changes, nothing is sent")
    with status_line("replaying; Ctrl-C stops it", Console(stderr=True, highlight=False)):
        report = replay(place, is_strict=is_strict)
    steps = f"replayed {report.n_steps} steps"
    if report.difference is not None:
        lines = (f"{steps}; {report.difference.where} differs", *report.difference.lines())
        sys.stdout.write("".join(f"{display_escaped(line)}\n" for line in lines))
        return DIFFERS
    requests = f"{report.n_requests} requests" if report.n_requests else "requests were not logged"
    sys.stdout.write(f"{steps}, no difference ({requests})\n")
    if report.left_out:
        say(f"the replay ends before the log: {report.left_out}")
    return SAME
