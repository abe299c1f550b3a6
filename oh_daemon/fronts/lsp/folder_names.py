"""Folders as clients name them: by a file URI or an absolute path."""

from __future__ import annotations

from pathlib import Path

from oh_daemon.contract.errors import InvalidParamsError
from oh_daemon.workspace.paths import path_from_uri


def parse_folder(name: str, field: str) -> Path:
    """Return the folder of a URI or absolute path. Raises `InvalidParamsError` naming the field."""
    path = path_from_uri(name) if ":" in name.split("/", maxsplit=1)[0] else Path(name)
    if path is None or not path.is_absolute():
        what = f"{name!r} must be a file URI or an absolute path"
        raise InvalidParamsError.at(field, what, "not_a_path")
    return path
