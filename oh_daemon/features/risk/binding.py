"""Binds approvals to the files that a command runs, by the hashes of their content.

Example: `bind(rate_command("sh x.sh", ["/home/u/project"]))` has the hash of `x.sh`. A script is
bound with its own text only; files that it loads are not.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from oh_daemon.features.risk.rating import Rating
from oh_daemon.protocol.approvals import ProgramFile
from oh_daemon.workspace.files import hash_file
from oh_daemon.workspace.paths import uri_from_path


class Binding(NamedTuple):
    """The files that a command names and runs, and whether it runs no others."""

    files: tuple[ProgramFile, ...]
    is_whole: bool


def bind(rating: Rating) -> Binding:
    """Read the files of a rated command; one that cannot be read leaves the binding incomplete."""
    hashes = {script: hash_file(Path(script)) for script in rating.scripts}
    files = (
        ProgramFile(uri=uri_from_path(Path(script)), sha256=sha256)
        for script, sha256 in hashes.items()
        if sha256 is not None
    )
    return Binding(tuple(files), rating.is_bound and None not in hashes.values())
