"""The tasks of a fleet, read from JSON: our own rows, those of SWE-bench, or a list of issues."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, cast

import orjson
from pydantic import ConfigDict, Field, ValidationError

from oh_daemon.protocol.base import Contract, problem_in
from oh_daemon.protocol.errors import InvalidParamsError

_ON_GITHUB = re.compile(r"[\w.-]+/[\w.-]+")
_OF_AN_ISSUE = re.compile(r"(https://github\.com/[\w.-]+/[\w.-]+)/issues/\d+")


class FleetTask(Contract):
    """One task: what to do, in a clone of which repository, and how to check it."""

    model_config = ConfigDict(extra="forbid")

    id: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
    repo: Annotated[str, Field(min_length=1)]
    """A folder with a git repository, or what else `git clone` takes."""
    base: str = ""
    """The commit to begin with; by default the one that a clone checks out."""
    prompt: Annotated[str, Field(pattern=r"\S")]
    setup: str = ""
    """A command for the clone before the agent works in it. After a kill it may run again."""
    check: str = ""
    """A command for the clone when the agent is done; exit code 0 is a pass."""


def read_tasks(file: Path, repo: str = "") -> tuple[FleetTask, ...]:
    """Read JSON lines or one JSON array; `repo` is that of rows which name none.

    Raises `InvalidParamsError` with the row, and `OSError`.
    """
    text = file.read_bytes()
    try:
        rows = orjson.loads(text) if text.lstrip()[:1] == b"[" else _lines(text)
    except orjson.JSONDecodeError as exc:
        raise InvalidParamsError(f"{str(file)!r} is not JSON: {exc}") from exc
    tasks = tuple(_task(n, row, file, repo) for n, row in enumerate(rows, 1))
    if not tasks:
        raise InvalidParamsError(f"{str(file)!r} has no tasks")
    # Some file systems take names for the same that differ only in case.
    counts = Counter(task.id.lower() for task in tasks)
    if twice := [name for name, count in counts.items() if count > 1]:
        raise InvalidParamsError(f"{str(file)!r}: more than one task has the id {twice[0]!r}")
    return tasks


def _lines(text: bytes) -> Iterable[Any]:
    return [orjson.loads(line) for line in text.splitlines() if line.strip()]


def _task(n: int, row: object, file: Path, repo: str) -> FleetTask:
    try:
        fields = _fields(cast("dict[str, Any]", row)) if isinstance(row, dict) else {}
        fields["repo"] = _place(fields.get("repo") or repo, file.parent)
        return FleetTask.model_validate(fields)
    except ValidationError as exc:
        raise InvalidParamsError(f"{str(file)!r}, task {n}: {problem_in(exc)}") from None


def _fields(row: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a task in whatever form it came."""
    if "instance_id" in row:
        names = {"id": "instance_id", "base": "base_commit", "prompt": "problem_statement"}
        return {name: row.get(source_name) for name, source_name in names.items()} | {
            "repo": row["repo"]
        }
    if "number" in row and "title" in row:
        url = row.get("html_url") or row.get("url") or ""
        match = _OF_AN_ISSUE.fullmatch(url)
        prompt = f"Resolve this issue.\n\n# {row['title']}\n\n{row.get('body') or ''}"
        return {"id": f"issue-{row['number']}", "repo": match and match[1], "prompt": prompt}
    own = dict(row)
    if "folder" in own:
        own["repo"] = own.pop("folder")
    return own


def _place(repo: str, home: Path) -> str:
    """Return where to clone from; folders are relative to that of the file with the tasks."""
    folder = home / Path(repo).expanduser()
    if not repo or folder.exists():
        return str(folder.resolve()) if repo else ""
    return f"https://github.com/{repo}.git" if _ON_GITHUB.fullmatch(repo) else repo
