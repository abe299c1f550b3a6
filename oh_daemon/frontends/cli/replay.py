"""`oh-daemon replay`: runs a conversation again from its log and shows the first difference."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from rich.console import Console

from oh_daemon.common.plain_text import display_escaped
from oh_daemon.features.replay.compare import ReplayReport
from oh_daemon.features.replay.recordings import compare_runs, tasks_in
from oh_daemon.features.replay.replay import replay
from oh_daemon.frontends.cli.logs import find_log
from oh_daemon.frontends.cli.process import print_line
from oh_daemon.frontends.cli.signals import Signals
from oh_daemon.frontends.cli.status_line import status_line
from oh_daemon.protocol.errors import InvalidParamsError
from oh_daemon.storage.catalog import Catalog
from oh_daemon.system.git import run_git
from oh_daemon.system.spawner import Spawner

SAME, DIFFERS = 0, 6
_GIT_S = 600


def run_replay(
    folder: Path, recording: str, options: Mapping[str, object] | None, *, is_strict: bool
) -> int:
    """Replay the log and print how that went; return the exit code.

    With `options` of a run, tools run again.
    """
    place = Path(recording).absolute() if "/" in recording else find_log(folder, recording)
    if options is not None:
        return _report(_run_again(folder, place, options, is_strict=is_strict))
    print_line(
        "answers and results come from the log: nothing runs, no file changes, nothing is sent"
    )
    with status_line("replaying; Ctrl-C stops it", Console(stderr=True, highlight=False)):
        report = replay(place, is_strict=is_strict)
    return _report(report)


def _report(report: ReplayReport) -> int:
    steps = f"replayed {report.n_steps} steps"
    if report.difference is not None:
        lines = (f"{steps}; {report.difference.where} differs", *report.difference.lines())
        sys.stdout.write("".join(f"{display_escaped(line)}\n" for line in lines))
        return DIFFERS
    requests = f"{report.n_requests} requests" if report.n_requests else "requests were not logged"
    sys.stdout.write(f"{steps}, no difference ({requests})\n")
    if report.left_out:
        print_line(f"the replay ends before the log: {report.left_out}")
    return SAME


def _run_again(
    folder: Path, place: Path, options: Mapping[str, object], *, is_strict: bool
) -> ReplayReport:
    """Let tools run again, in a clone of the repository, and compare the two logs."""
    from oh_daemon.frontends.cli.headless import RunRequest, run_headless  # noqa: PLC0415 - slow.

    begun_at, tasks = tasks_in(place)
    home = Path(tempfile.mkdtemp(prefix="oh-replay-"))
    clone, again = _clone(folder, begun_at, home), None
    for task in tasks:
        run_options = {**options, "model": f"replay:{place}"}
        run_headless(RunRequest(task, clone, run_options, resume=again), Signals())
        summaries = Catalog(clone / ".openhands").summaries()
        again = next(each["id"] for each in summaries if each["parentId"] is None)
    new = clone / ".openhands" / "conversations" / (again or "")
    report = compare_runs(place, new, is_strict=is_strict)
    if report.difference is None:
        shutil.rmtree(home, ignore_errors=True)
    else:
        print_line(f"the clone with what was done stays in {clone}")
    return report


def _clone(folder: Path, begun_at: str, home: Path) -> Path:
    """Clone the repository as it was committed when the conversation began; return the folder.

    Raises `InvalidParamsError` when there is none.
    """
    with closing(Spawner()) as spawner:

        def git(*words: str) -> str:
            result = run_git(spawner, *words, cwd=folder, timeout_s=_GIT_S)
            if result.exit_code != 0:
                why = result.stderr.decode("utf-8", "replace").strip()
                raise InvalidParamsError(f"--execute works in a clone of {folder}: {why}")
            return result.stdout.decode("utf-8", "surrogateescape").strip()

        top = Path(git("rev-parse", "--show-toplevel"))
        commit = git("rev-list", "-1", f"--before={begun_at}", "HEAD")
        if not commit:
            raise InvalidParamsError(f"no commit in {top} is as old as the conversation")
        print_line(f"tools run again, in a clone of {commit[:12]}, the last commit before it began")
        clone = home / top.name
        git("clone", "-q", "--no-checkout", str(top), str(clone))
        branch = git("rev-parse", "--abbrev-ref", "HEAD")
        which = ("--detach",) if branch == "HEAD" else ("-B", branch)
        git("-C", str(clone), "checkout", "-q", *which, commit)
        return clone / folder.relative_to(top)
