"""Signs commits and tags outside the sandbox, with the program and the key of the user's settings.

Both come from settings outside the repository, since commands may have changed the repository's
own. What is to be signed has the mark of `signature_mark` in the place of a signature.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct

from oh_daemon.common.plain_text import well_formed
from oh_daemon.features.sandbox.signature_mark import MARK
from oh_daemon.protocol.checkpoints import Signing
from oh_daemon.protocol.errors import ToolError
from oh_daemon.system.environment import git_env_of_user
from oh_daemon.system.git import Git, run_git
from oh_daemon.system.spawner import Spawner
from oh_daemon.workspace.paths import printable

_PROGRAMS: Mapping[str, str] = {"openpgp": "gpg", "x509": "gpgsm", "ssh": "ssh-keygen"}
_TIMEOUT_S = 120.0
"""A person types a passphrase."""
_TRIAL_TIMEOUT_S = 20.0
_TRIAL = b"A trial by oh-daemon: can this key sign?\n"
_SCOPES = frozenset({"system", "global", "command"})
"""Scopes of git-config(1) that no repository has."""
_PROMPTS: Mapping[str, Sequence[str]] = {
    "openpgp": ("DISPLAY", "WAYLAND_DISPLAY", "GPG_TTY"),
    "x509": ("DISPLAY", "WAYLAND_DISPLAY", "GPG_TTY"),
    "ssh": ("DISPLAY", "WAYLAND_DISPLAY"),
}
"""Variables with which a program can ask for a passphrase; gpg-agent(1), ssh(1) on SSH_ASKPASS."""
_SIGNATURE = re.compile(rb"^(gpgsig(?:-sha256)?) .*\n(?: .*\n)*", re.MULTILINE)
_LINK = re.compile(rb"^(parent|object) ([0-9a-f]+)$", re.MULTILINE)
_SHA1_CHARS = 40
_OF_TAG = re.compile(rb"^-----BEGIN (PGP|SSH) (SIGNATURE|MESSAGE)-----$|^-----BEGIN SIGNED ", re.M)


class UserSettings:
    """The user's settings of git that no repository has: the last value of each, by lower name."""

    def __init__(self, host: Spawner, where: Path, inside: Sequence[Path]) -> None:
        """`where` chooses conditional includes; files below `inside` do not count."""
        words = ("config", "--list", "--includes", "--show-scope", "--show-origin", "-z")
        variables = git_env_of_user(os.environ)
        answer = run_git(host, *words, cwd=where, variables=variables)
        self._values: dict[str, str] = {}
        parts = iter(os.fsdecode(answer.stdout).split("\0"))
        for scope, origin, row in zip(parts, parts, parts, strict=False):
            path = Path(origin.removeprefix("file:"))
            is_outside = not any(map(path.resolve().is_relative_to, inside))
            if scope in _SCOPES and is_outside:
                name, _, value = row.partition("\n")
                self._values[name] = value

    def get(self, *names: str) -> str | None:
        return next((value for name in names if (value := self._values.get(name))), None)


def describe(signing: Signing) -> str:
    """Return how something is signed, as people read it after its title."""
    if signing.problem is not None:
        return f", unsigned, since it cannot be signed here: {printable(signing.problem)}"
    return f", signed by {printable(signing.program)} with {printable(signing.key)}"


def find_signing(host: Spawner, where: Path, inside: Sequence[Path]) -> Signing:
    """Return how the user signs. If that cannot work here, `problem` says why.

    A trial is made if no program could ask for a passphrase. `inside` are real paths of folders
    from which no program and no setting is taken.
    """
    settings = UserSettings(host, where, inside)
    name = settings.get("gpg.format") or "openpgp"
    if name not in _PROGRAMS:
        return Signing(format="openpgp", program="", key="", problem=f"gpg.format is {name!r}")
    form: Literal["openpgp", "ssh", "x509"] = "ssh" if name == "ssh" else "openpgp"
    form = "x509" if name == "x509" else form
    names = (f"gpg.{form}.program", *(("gpg.program",) if form == "openpgp" else ()))
    program = settings.get(*names) or _PROGRAMS[form]
    path = shutil.which(os.path.expanduser(program), path=os.environ.get("PATH"))  # noqa: PTH111
    key = settings.get("user.signingkey") or _usual_key(host, where, form, settings)
    problem = None
    if path is None or any(map(Path(path).resolve().is_relative_to, inside)):
        problem = f"there is no program {program!r} outside the open folders"
    elif not key:
        problem = "no key is set outside the repository; set user.signingKey"
    signing = Signing(format=form, program=path or program, key=well_formed(key), problem=problem)
    if problem is None and not any(map(os.environ.get, _PROMPTS[form])):
        try:
            sign(host, signing, _TRIAL, timeout_s=_TRIAL_TIMEOUT_S)
        except ToolError as exc:
            return signing.model_copy(update={"problem": f"{exc}"})
    return signing


def _usual_key(host: Spawner, where: Path, form: str, settings: UserSettings) -> str:
    """Return the key that git uses without `user.signingKey`; see git-config(1)."""
    if form != "ssh":
        name, email = settings.get("user.name"), settings.get("user.email")
        return f"{name} <{email}>" if name and email else ""
    command = settings.get("gpg.ssh.defaultkeycommand")
    if command is None:
        return ""
    env = git_env_of_user(os.environ)
    answer = host.run(["sh", "-c", command], cwd=where, timeout_s=_TRIAL_TIMEOUT_S, env=env)
    return os.fsdecode(answer.stdout).partition("\n")[0].strip()


def sign(host: Spawner, signing: Signing, data: bytes, *, timeout_s: float = _TIMEOUT_S) -> bytes:
    """Return the signature of some bytes, as git makes it; see `gpg-interface.c`.

    Raises `ToolError` with the words of the program.
    """
    env = git_env_of_user(os.environ)
    with tempfile.TemporaryDirectory(prefix="oh-sign-") as apart:
        if signing.format == "ssh":
            key, words = _ssh_key_file(signing.key, Path(apart)), ("-Y", "sign", "-n", "git", "-f")
            file = Path(apart) / "data"
            file.write_bytes(data)
            argv = [signing.program, *words, key, str(file)]
        else:
            argv = [signing.program, "--status-fd=2", "-bsau", signing.key]
        stdin = b"" if signing.format == "ssh" else data
        answer = host.run(argv, cwd=Path("/"), timeout_s=timeout_s, env=env, stdin=stdin)
        signature, message = answer.stdout, answer.stderr.decode("utf-8", "replace")
        is_made = "[GNUPG:] SIG_CREATED " in message
        if signing.format == "ssh":
            file = Path(apart) / "data.sig"
            is_made = file.exists()
            signature = file.read_bytes() if is_made else b""
    if answer.exit_code or not is_made:
        lines = [row for row in message.splitlines() if row and not row.startswith("[GNUPG:]")]
        program = Path(signing.program).name
        raise ToolError(f"{program} does not sign: {lines[-1] if lines else answer.exit_code}")
    return signature.replace(b"\r\n", b"\n")


def _ssh_key_file(key: str, apart: Path) -> str:
    """Return the file of a key; a public key itself, whose other half an agent has, gets one."""
    if not key.startswith(("key::", "ssh-")):
        return os.path.expanduser(key)  # noqa: PTH111 - as git does it.
    file = apart / "key.pub"
    file.write_text(f"{key.removeprefix('key::')}\n")
    return str(file)


class NewObjects(Struct, frozen=True):
    """Commits and tags to which the repository's refs do not lead yet."""

    git: Git
    tips: Sequence[str]

    def parts(self) -> Mapping[str, tuple[bytes, bytes]]:
        """Return by name the signature or mark, which may be empty, and the bytes it is for."""
        rows = self._read(self.tips, ["--not", "--all"])
        return {name: _split(kind, raw) for name, kind, raw in rows}

    def signed(
        self, signing: Signing, tips_now: Sequence[str], tips_before: Sequence[str]
    ) -> Mapping[str, str]:
        """Write each marked object with its signature; return the new names by the old ones.

        With a `problem` only the mark is removed. An earlier application, which was cut off, may
        have signed them already: then its objects, to which `tips_now` lead, are used.
        """
        bases = [f"^{each}" for each in tips_before]
        rows = self._read([*tips_now, *bases] if tips_now else (), ())
        earlier = {_split(kind, raw)[1]: name for name, kind, raw in rows}
        mapping: dict[str, str] = {}
        for name, kind, raw in self._read(self.tips, ["--not", "--all"]):
            head, separator, rest = raw.partition(b"\n\n")
            data = _LINK.sub(lambda row: _renamed(row, mapping), head) + separator + rest
            signature, payload = _split(kind, data)
            is_marked = MARK in signature
            if data == raw and not is_marked:
                continue
            if payload in earlier:
                mapping[name] = earlier[payload]
                continue
            if is_marked and signing.problem is None:
                new_signature = sign(self.git.spawner, signing, payload)
                data = _joined(kind, payload, signature, new_signature)
            elif is_marked:
                data = payload
            words = ("hash-object", "-w", "-t", kind, "--stdin")
            mapping[name] = self.git.run(*words, stdin=data).decode().strip()
        return mapping

    def _read(self, tips: Sequence[str], words: Sequence[str]) -> Iterator[tuple[str, str, bytes]]:
        """Yield name, kind and content of commits, parents first, and then of tags."""
        if not tips:
            return
        tips_input = "".join(f"{each}\n" for each in tips).encode()
        order = ("rev-list", "--topo-order", "--reverse", "--stdin")
        commits = dict.fromkeys(self.git.rows(*order, *words, stdin=tips_input))
        names = [*commits, *(each for each in tips if each not in commits and each[0] != "^")]
        names_input = "".join(f"{name}\n" for name in names).encode()
        data, at = self.git.run("cat-file", "--batch", stdin=names_input), 0
        for name in names:
            start = data.index(b"\n", at) + 1
            kind, size = data[at:start].decode().split()[1:]
            at = start + int(size) + 1
            if name in commits or kind == "tag":
                yield name, kind, data[start : at - 1]


def _renamed(row: re.Match[bytes], mapping: Mapping[str, str]) -> bytes:
    return row[1] + b" " + mapping.get(row[2].decode(), row[2].decode()).encode()


def _split(kind: str, data: bytes) -> tuple[bytes, bytes]:
    """Return the signature in a commit or a tag, and the bytes that it is for."""
    head, _, _ = data.partition(b"\n\n")
    if kind == "tag":
        begin = _OF_TAG.search(data, len(head))
        return (data[begin.start() :], data[: begin.start()]) if begin else (b"", data)
    match = _SIGNATURE.search(head + b"\n")
    if match is None:
        return b"", data
    return match[0], data[: match.start()] + data[match.end() :]


def signed_commit(host: Spawner, signing: Signing, data: bytes) -> bytes:
    """Return a commit with its signature. Raises `ToolError`."""
    is_sha256 = len(data.partition(b"\n")[0]) > len("tree ") + _SHA1_CHARS
    name = b"gpgsig-sha256" if is_sha256 else b"gpgsig"
    return _joined("commit", data, name + b" ", sign(host, signing, data))


def _joined(kind: str, payload: bytes, mark: bytes, signature: bytes) -> bytes:
    """Return a commit or a tag with its signature where git puts it; see gitformat-signature(5)."""
    if kind == "tag":
        return payload + signature
    header = mark.partition(b" ")[0] + b" " + signature.rstrip(b"\n").replace(b"\n", b"\n ") + b"\n"
    head, separator, rest = payload.partition(b"\n\n")
    return head + b"\n" + header + b"\n" + rest if separator else payload
