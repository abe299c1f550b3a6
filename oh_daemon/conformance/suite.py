"""Runs a suite, one check after another, and says what came of each, with the frames that show it.

Nothing in this package knows how our own server is made: it may be run against any other.
"""

from __future__ import annotations

import errno
import json
import shutil
import tempfile
import textwrap
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from itertools import groupby
from pathlib import Path

from oh_daemon.conformance.acp_checks import ACP
from oh_daemon.conformance.approval_checks import APPROVALS
from oh_daemon.conformance.base_checks import BASE
from oh_daemon.conformance.bench import WRONG, Bench, ConformanceCheck, Popen, Skipped, Violation
from oh_daemon.conformance.client_checks import CLIENT
from oh_daemon.conformance.conversation_checks import CONVERSATIONS
from oh_daemon.conformance.initialize_checks import INITIALIZE
from oh_daemon.conformance.order_checks import ORDER
from oh_daemon.conformance.restart_checks import MODULES, RESTARTS
from oh_daemon.conformance.scripted_model import ScriptedModel

SERVER = (*BASE, *INITIALIZE, *ORDER, *CONVERSATIONS, *APPROVALS, *RESTARTS, *MODULES)
SUITES: dict[str, Sequence[ConformanceCheck]] = {"server": SERVER, "acp": ACP, "client": CLIENT}
MAX_FRAME_CHARS = 2000
WIDTH = 90


@dataclass(frozen=True)
class CheckOutcome:
    """What came of one check."""

    id: str
    profile: str
    status: str
    """`passed`, `failed` or `skipped`."""
    rule: str
    problem: str
    frames: Sequence[str]
    seconds: float

    def as_json(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=False)

    def as_text(self) -> str:
        mark = {"passed": "ok", "failed": "FAILED", "skipped": "skipped"}[self.status]
        if self.status == "passed":
            return f"{mark:8}{self.id:21}{textwrap.shorten(self.rule, WIDTH, placeholder=' …')}"
        lines = [f"{mark:8}{self.id:21}{self.rule}", f"        {self.problem}"]
        return "\n".join([*lines, *(f"          {frame}" for frame in self.frames)])


@cache
def rules(name: str) -> dict[str, str]:
    """Return the rules of docs/protocol by their ids, as `make schema` wrote them, or ACP's."""
    lines = Path(__file__).with_name(f"{name}.txt").read_text("utf-8").splitlines()
    return dict(line.split("\t") for line in lines)


def rule_of(check: ConformanceCheck) -> str:
    """Return its rule; one of a module that has none is in the docstring."""
    rule_texts = rules("acp_rules" if check.profile == "acp" else "rules")
    return (
        rule_texts.get(check.id)
        or rule_texts.get(check.id.partition("-")[0])
        or check.run.__doc__
        or ""
    )


def run(
    suite: str,
    argv: Sequence[str],
    *,
    only: str = "",
    within_s: float = 20,
    popen: Popen | None = None,
) -> Iterator[CheckOutcome]:
    """Run the checks of a suite, or one of them; only the first if nothing at all comes.

    Raises `LookupError` if there is no such check, and `OSError` if there is no such program.
    """
    program = shutil.which(argv[0])
    if program is None:
        raise FileNotFoundError(errno.ENOENT, "there is no such program", argv[0])
    argv = [str(Path(program).absolute()), *argv[1:]]
    checks = [check for check in SUITES[suite] if only in {"", check.id}]
    if not checks:
        raise LookupError(only)
    home = tempfile.TemporaryDirectory(prefix="conformance-", ignore_cleanup_errors=True)
    with home as folder, ScriptedModel() as model:
        more = {"popen": popen} if popen else {}
        runtime = Bench(argv, Path(folder).resolve(), model, within_s=within_s, **more)
        try:
            for check in checks:
                outcome = _run_check(check, runtime)
                runtime.tidy(has_failed=outcome.status == "failed")
                yield outcome
                if outcome.status == "failed" and not runtime.has_heard and suite != "client":
                    return
        finally:
            runtime.tidy(has_failed=True)


def summary(outcomes: Sequence[CheckOutcome]) -> str:
    """Return a line for each profile, with what came of its checks."""
    lines: list[str] = []
    for profile, group in groupby(outcomes, key=lambda outcome: outcome.profile):
        counts = Counter(outcome.status for outcome in group)
        parts = (f"{counts[name]} {name}" for name in ("passed", "failed", "skipped"))
        lines.append(f"{profile}: {', '.join(parts)}")
    return "\n".join([*lines, f"{sum(outcome.seconds for outcome in outcomes):.1f} s"])


def _run_check(check: ConformanceCheck, runtime: Bench) -> CheckOutcome:
    start = time.monotonic()
    status, problem, frames = "passed", "", list[str]()
    try:
        check.run(runtime)
    except Skipped as exc:
        status, problem = "skipped", str(exc)
    except WRONG as exc:
        status, problem = "failed", f"{exc}" if str(exc) else type(exc).__name__
        shown_frames = exc.frames if isinstance(exc, Violation) else ()
        frames = [_frame(each) for each in shown_frames] or runtime.trace()
    seconds = round(time.monotonic() - start, 3)
    return CheckOutcome(check.id, check.profile, status, rule_of(check), problem, frames, seconds)


def _frame(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text[:MAX_FRAME_CHARS]
