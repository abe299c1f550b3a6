"""The mark in commits and tags that git would sign, if it had the user's keys in the sandbox.

git decides what is to be signed (settings, `-S`, `git tag -s`, `git rebase`) and starts a program
for that. In a sandbox it is this script, since the keys are hidden there; the daemon puts real
signatures in the place of the mark when it applies the commits.
"""

from __future__ import annotations

from pathlib import Path

MARK = b"oh-daemon signs this when it is applied."
_SCRIPT = f"""#!/bin/sh
case " $* " in *" --verify "*) exec gpg "$@";; esac
cat >/dev/null
echo '[GNUPG:] SIG_CREATED ' >&2
echo '-----BEGIN PGP SIGNATURE-----'
echo
echo '{MARK.decode()}'
echo '-----END PGP SIGNATURE-----'
"""
"""git requires this line on stderr and takes what comes on stdout; see `gpg-interface.c`."""


def signing_program(place: Path) -> Path:
    """Return the path of the script for a sandbox whose files lie in `place`."""
    return place / "sign"


def write_signing_program(place: Path) -> Path:
    """Write the script, and return its path. Raises `OSError`."""
    program = signing_program(place)
    program.unlink(missing_ok=True)
    program.write_text(_SCRIPT, "ascii")
    program.chmod(0o555)
    return program


def settings(place: Path) -> tuple[tuple[str, str], ...]:
    """Return the settings of git with which it starts the script, whatever it is to sign with."""
    program = str(signing_program(place))
    return (("gpg.format", "openpgp"), ("gpg.program", program), ("gpg.openpgp.program", program))
