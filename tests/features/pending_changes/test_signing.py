"""Commits of the sandbox are signed outside, with the user's program and key."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from applying import ASKS, VIEW, answer, wait_for_approval
from fake_llm import call, say
from git_projects import git, repository
from world import World, content_of, items

COMMIT = "echo two >> a.txt && git commit -qam 'Fix it'"
WHO = "Somebody <somebody@example.org>"


@pytest.fixture
def keys(world: World) -> Generator[Path]:
    """A short folder for keys, since the path of an agent's socket is limited; see unix(7)."""
    place = Path(tempfile.mkdtemp(prefix="oh-keys-"))
    world.variables |= dict.fromkeys(("DISPLAY", "WAYLAND_DISPLAY", "GPG_TTY"), "")
    world.variables["GNUPGHOME"] = str(place)
    yield place
    subprocess.run(
        ["gpgconf", "--kill", "all"], env={**os.environ, "GNUPGHOME": str(place)}, check=False
    )
    shutil.rmtree(place)


def configure(world: World, values: dict[str, str]) -> None:
    """Write the user's own settings of git."""
    for name, value in {"commit.gpgSign": "true", **values}.items():
        git(world.home, "config", "--file", str(world.home / ".gitconfig"), name, value)


def with_gpg(world: World, keys: Path) -> str:
    words = ("--batch", "--passphrase", "", "--quick-generate-key", WHO, "ed25519", "sign", "never")
    env = {**os.environ, "GNUPGHOME": str(keys)}
    subprocess.run(["gpg", "--quiet", *words], env=env, check=True, capture_output=True)
    configure(world, {"user.name": "Somebody", "user.email": "somebody@example.org"})
    return f"{shutil.which('gpg')} with {WHO}"


def with_ssh(world: World, keys: Path, passphrase: str = "") -> str:
    key = keys / "id"
    words = ("-q", "-t", "ed25519", "-N", passphrase, "-f", str(key))
    subprocess.run(["ssh-keygen", *words], check=True)
    public = (keys / "id.pub").read_text()
    (keys / "signers").write_text(f"somebody@example.org {public}")
    configure(
        world,
        {
            "gpg.format": "ssh",
            "user.signingKey": str(key),
            "gpg.ssh.allowedSignersFile": str(keys / "signers"),
        },
    )
    return f"{shutil.which('ssh-keygen')} with {key}"


def with_x509(world: World, keys: Path) -> str:
    env = {**os.environ, "GNUPGHOME": str(keys)}
    request = ("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "k.pem", "-out", "c.pem")
    subject = ("-subj", "/CN=Somebody/emailAddress=somebody@example.org")
    usage = ("-addext", "keyUsage=digitalSignature")
    pack = ("pkcs12", "-export", "-legacy", "-inkey", "k.pem", "-in", "c.pem", "-passout", "pass:")
    for words in ((*request, *subject, *usage), (*pack, "-out", "k.p12")):
        subprocess.run(["openssl", *words], cwd=keys, check=True, capture_output=True)
    ways = ("--batch", "--pinentry-mode", "loopback", "--passphrase-fd", "0", "--import", "k.p12")
    options: Any = {"cwd": keys, "env": env, "capture_output": True}
    subprocess.run(["gpgsm", *ways], check=True, input=b"\n", **options)
    listing = subprocess.run(["gpgsm", "-K", "--with-colons"], check=True, **options)
    rows = listing.stdout.decode().splitlines()
    number = next(row.split(":")[9] for row in rows if row.startswith("fpr"))
    (keys / "trustlist.txt").write_text(f"{number} S relax\n")
    (keys / "gpgsm.conf").write_text("disable-crl-checks\n")
    configure(world, {"gpg.format": "x509", "user.signingKey": "somebody@example.org"})
    return f"{shutil.which('gpgsm')} with somebody@example.org"


def needs(*programs: str) -> pytest.MarkDecorator:
    missing = [name for name in programs if shutil.which(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(with_gpg, marks=needs("gpg")),
        pytest.param(with_ssh, marks=needs("ssh-keygen")),
        pytest.param(with_x509, marks=[needs("gpgsm", "openssl"), pytest.mark.full]),
    ],
)
def test_commits_are_signed_outside_as_the_user_configured(
    world: World, keys: Path, make: Callable[[World, Path], str]
) -> None:
    place, words = repository(world.project), make(world, keys)
    evil = world.home / "evil"
    evil.write_text(f"#!/bin/sh\ntouch {world.home}/ran\n")
    evil.chmod(0o755)
    for name in ("gpg.program", "gpg.ssh.program", "gpg.x509.program", "user.signingKey"):
        git(place, "config", name, str(evil))
    second = "git commit -q --allow-empty --no-gpg-sign -m Plain"
    command = f"{COMMIT} && git tag -s v1 -m One && {second} && git stash list"
    world.script(call("terminal", command=command), call("terminal", command="git log --format=%H"))
    world.script(say("Done."))
    client = world.daemon(settings=VIEW)
    world.start(client, options=ASKS)
    approval = wait_for_approval(client)
    titles = [row["title"] for row in approval["subject"]["git"]]
    assert titles[0] == f"2 commits on main, the last: Plain, signed by {words}"
    answer(client, approval, "allow-once")
    world.turn(client)
    env = {**os.environ, "GNUPGHOME": str(keys), "HOME": str(world.home)}
    for check in (("verify-commit", "HEAD~1"), ("verify-tag", "v1")):
        programs = ("gpg.program=gpg", "gpg.ssh.program=ssh-keygen", "gpg.x509.program=gpgsm")
        settings = [word for program in programs for word in ("-c", program)]
        subprocess.run(
            ["git", *settings, *check], cwd=place, env=env, check=True, capture_output=True
        )
    assert "gpgsig" not in git(place, "cat-file", "commit", "HEAD")
    assert git(place, "rev-parse", "v1^{commit}") == git(place, "rev-parse", "HEAD~1")
    git(place, "fsck", "--strict", "--no-dangling")
    first, last = items(client, "command")
    assert first["git"][0]["after"] == git(place, "rev-parse", "HEAD")
    assert content_of(last).startswith(git(place, "rev-parse", "HEAD"))
    assert not (world.home / "ran").exists()


@needs("ssh-keygen")
def test_commit_without_signature_needs_the_user(world: World, keys: Path) -> None:
    place = repository(world.project)
    with_ssh(world, keys, passphrase="secret")
    plain = "git commit -q --allow-empty --no-gpg-sign -m Plain"
    world.script(call("terminal", command=COMMIT), call("terminal", command=plain), say("Done."))
    client = world.daemon(settings=VIEW)
    conversation = world.start(client, options={"approval": "askNever"})
    world.turn(client)
    locked, unsigned = (content_of(item) for item in items(client, "command"))
    assert "the commits cannot be signed here: ssh-keygen does not sign: " in locked
    assert "new commits are not signed, although commit.gpgsign is set" in unsigned
    assert git(place, "log", "--format=%s") == "First"
    world.script(call("terminal", command=COMMIT), say("Done."))
    params = {"conversationId": conversation, "optionId": "approval", "value": "askRisky"}
    client.request("conversation/setOption", params)
    world.send(client, conversation, "again")
    approval = wait_for_approval(client)
    [row] = approval["subject"]["git"]
    assert ", unsigned, since it cannot be signed here: ssh-keygen does not sign" in row["title"]
    answer(client, approval, "allow-once")
    world.turn(client, nth=2)
    assert git(place, "log", "--format=%s %G?") == "Fix it N\nFirst N"
    assert "gpgsig" not in git(place, "cat-file", "commit", "HEAD")
