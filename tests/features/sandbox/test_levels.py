"""What the self-test's tries mean: which level is chosen, and what the user is told."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from oh_daemon.features.sandbox import landlock, seccomp
from oh_daemon.features.sandbox.causes import (
    APPARMOR,
    CLONE,
    MAX_NAMESPACES,
    CauseFacts,
    why_no_landlock,
    why_no_overlay,
)
from oh_daemon.features.sandbox.levels import Trial, choose, try_levels
from oh_daemon.protocol.settings import SandboxSetting
from oh_daemon.system.spawner import Spawner

BWRAP = Path("/usr/bin/bwrap")
VIEW, READING = (
    Trial("overlay", is_enforced=True, program=BWRAP),
    Trial("landlock", is_enforced=True),
)
NO_VIEW = Trial("overlay", is_enforced=False, cause="no namespaces", cure="sudo more")
NO_READING = Trial("landlock", is_enforced=False, cause="an old kernel", cure="a new one")


@pytest.mark.parametrize(
    ("setting", "rows", "level_report"),
    [
        ("auto", [VIEW, READING], {"level": "overlay"}),
        (
            "auto",
            [NO_VIEW, READING],
            {"level": "landlock", "cause": "no namespaces", "cure": "sudo more"},
        ),
        (
            "auto",
            [NO_VIEW, NO_READING],
            {"level": "off", "cause": "no namespaces", "cure": "sudo more"},
        ),
        ("landlock", [VIEW, READING], {"level": "landlock"}),
        (
            "landlock",
            [VIEW, NO_READING],
            {"level": "off", "cause": "an old kernel", "cure": "a new one"},
        ),
        ("overlay", [NO_VIEW, VIEW, READING], {"level": "overlay"}),
        (
            "overlay",
            [NO_VIEW, READING],
            {"level": "off", "cause": "no namespaces", "cure": "sudo more"},
        ),
        ("landlock", [NO_VIEW, READING], {"level": "landlock"}),
        ("off", [VIEW, READING], {"level": "off"}),
    ],
)
def test_the_level_that_is_wanted_is_chosen_or_its_absence_explained(
    setting: SandboxSetting, rows: list[Trial], level_report: dict[str, str]
) -> None:
    assert choose(setting, rows).report == {"setting": setting, **level_report}


def test_only_a_level_that_was_named_refuses_commands_when_it_is_not_there() -> None:
    assert choose("auto", [NO_VIEW, NO_READING]).refusal is None
    assert choose("off", [NO_VIEW, NO_READING]).refusal is None
    assert choose("overlay", [VIEW]).refusal is None
    assert choose("overlay", [NO_VIEW, READING]).refusal == (
        "the setting `sandbox` is 'overlay', and that level is not there: no namespaces. The user"
        " can change that: sudo more, or set `sandbox` to `auto`. Other tools work"
    )


@pytest.mark.parametrize(
    ("message", "facts", "cause", "cure"),
    [
        ("", CauseFacts(), "no bubblewrap outside", "pip install"),
        ("bwrap: Unknown option --overlay-src", CauseFacts(BWRAP), "too old", "pip install"),
        (
            "bwrap: Creating new namespace failed: No space left on device",
            CauseFacts(BWRAP, {MAX_NAMESPACES: "0"}),
            "user.max_user_namespaces is 0",
            "sudo sysctl -w user.max_user_namespaces=15000",
        ),
        (
            "bwrap: No permissions to create new namespace, likely because the kernel does not",
            CauseFacts(BWRAP, {CLONE: "0", MAX_NAMESPACES: "9999"}),
            "kernel.unprivileged_userns_clone is 0",
            "sudo sysctl -w kernel.unprivileged_userns_clone=1",
        ),
        (
            "bwrap: setting up uid map: Permission denied",
            CauseFacts(BWRAP, {APPARMOR: "1", CLONE: "1"}),
            "AppArmor restricts user namespaces",
            "profile oh-bwrap /usr/bin/bwrap flags=(unconfined) { userns, }",
        ),
        (
            "bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted",
            CauseFacts(BWRAP, {APPARMOR: "1"}),
            "AppArmor",
            "apparmor_parser",
        ),
        (
            "bwrap: Creating new namespace failed: Operation not permitted",
            CauseFacts(BWRAP, is_in_container=True),
            "the container",
            "--security-opt seccomp=unconfined",
        ),
        (
            "bwrap: Can't make overlay mount on /newroot/x: Invalid argument",
            CauseFacts(BWRAP, is_in_container=True),
            "EINVAL",
            "XDG_STATE_HOME",
        ),
        ("bwrap: what is this?", CauseFacts(BWRAP), "bwrap: what is this?", ""),
    ],
)
def test_why_there_is_no_view_is_said_with_the_command_that_cures_it(
    message: str, facts: CauseFacts, cause: str, cure: str
) -> None:
    failure = why_no_overlay(message, facts)
    assert cause in failure.cause
    assert cure in failure.cure


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        ("the program cannot be held: Function not implemented", "ENOSYS"),
        ("the program cannot be held: Operation not supported", "EOPNOTSUPP"),
        ("the program cannot be held: Landlock 3 is too old; 4 is needed", "too old"),
        ("the program cannot be held: Operation not permitted", "the container refuses"),
    ],
)
def test_why_there_is_no_landlock_is_said_with_a_cure(message: str, cause: str) -> None:
    failure = why_no_landlock(message, CauseFacts(is_in_container=True))
    assert cause in failure.cause
    assert failure.cure


def test_a_place_whose_file_system_cannot_hold_layers_gives_way_to_the_next(tmp_path: Path) -> None:
    """A file is where the first place would be, as good as a folder that takes no layers."""
    (tmp_path / "views").write_text("in the way")
    spawner = Spawner()
    rows = try_levels(spawner, tmp_path, {"PATH": os.environ["PATH"]})
    spawner.close()
    first, second = rows[:2]
    assert (first.is_enforced, second.is_enforced) == (False, True)
    assert first.place == tmp_path / "views"
    assert "nothing can be kept in" in first.cause
    assert second.place == Path(f"/var/tmp/oh-daemon-{os.getuid()}")


def test_the_self_test_leaves_nothing_behind(tmp_path: Path) -> None:
    spawner = Spawner()
    rows = try_levels(spawner, tmp_path, os.environ)
    spawner.close()
    assert [(row.level, row.is_enforced) for row in rows] == [("overlay", True), ("landlock", True)]
    assert list((tmp_path / "views").iterdir()) == []


def test_a_bubblewrap_of_the_project_is_not_tried(tmp_path: Path) -> None:
    evil = tmp_path / "project/bwrap"
    evil.parent.mkdir()
    evil.write_text(f"#!/bin/sh\ntouch {tmp_path}/pwned\n")
    evil.chmod(0o755)
    spawner = Spawner()
    path = f"{evil.parent}:{os.environ['PATH']}"
    try_levels(spawner, tmp_path / "state", {"PATH": path}, [evil.parent])
    spawner.close()
    assert not (tmp_path / "pwned").exists()


def _outcome(code: str, *before: str) -> str:
    words = [*before, sys.executable, "-c", f"import os, socket, ctypes\n{code}"]
    outcome = subprocess.run(words, capture_output=True, text=True, check=False)
    return (outcome.stderr.splitlines() or ["done"])[-1].partition(":")[0]


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        ("open('/dev/null', 'w').write('x')", "done"),
        ("os.write(1, b'x')", "done"),
        ("open('/proc/self/fd/2', 'w').write('')", "done"),
        ("socket.socketpair()", "done"),
        ("socket.socket()", "PermissionError"),
        ("os.chmod('.', 0o700)", "PermissionError"),
        ("os.kill(os.getppid(), 0)", "PermissionError"),
        ("os.kill(os.getpid(), 0)", "done"),
        ("os.fork() or os._exit(0)", "done"),
    ],
)
def test_what_is_held_by_landlock_reads_and_computes(code: str, outcome: str) -> None:
    assert _outcome(code, *landlock.words()) == outcome


def test_a_filter_is_small_and_whole() -> None:
    for program in (seccomp.for_overlay(), seccomp.for_landlock(keeps_signals=False)):
        assert len(program) % 8 == 0
        assert len(program) // 8 < 4096
