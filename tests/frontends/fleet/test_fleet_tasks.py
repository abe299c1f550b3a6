"""What is taken for the tasks of a fleet, and what is refused with its row."""

import json
from pathlib import Path
from typing import Any

import pytest

from oh_daemon.frontends.fleet.tasks import FleetTask, read_tasks
from oh_daemon.protocol.errors import InvalidParamsError

OWN = {"id": "a", "repo": "x/y", "prompt": "Go."}
ON_GITHUB = "https://github.com/x/y"


def read(folder: Path, *rows: Any, repo: str = "") -> tuple[FleetTask, ...]:
    file = folder / "tasks.json"
    file.write_text("\n".join(map(json.dumps, rows)))
    return read_tasks(file, repo)


def test_rows_of_three_kinds_are_tasks(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    rows = (
        {"id": "a", "folder": "here", "prompt": "Go.", "check": "true"},
        {"instance_id": "x__y-1", "repo": "x/y", "base_commit": "abc", "problem_statement": "No."},
        {"number": 7, "title": "Add", "body": "Is wrong.", "url": f"{ON_GITHUB}/issues/7"},
        {"number": 8, "title": "Sub", "body": None, "url": f"{ON_GITHUB}/issues/8"},
    )
    tasks = read(tmp_path, list(rows))
    prompt = "Resolve this issue.\n\n# Add\n\nIs wrong."
    assert tasks == read(tmp_path, *rows)
    assert tasks[:3] == (
        FleetTask(id="a", repo=str(tmp_path / "here"), prompt="Go.", check="true"),
        FleetTask(id="x__y-1", repo=f"{ON_GITHUB}.git", base="abc", prompt="No."),
        FleetTask(id="issue-7", repo=ON_GITHUB, prompt=prompt),
    )
    [own] = read(tmp_path, {"number": 9, "title": "Mine"}, repo="here")
    assert own.repo == str(tmp_path / "here")


@pytest.mark.parametrize(
    ("rows", "final_text"),
    [
        ([], "has no tasks"),
        ([{**OWN, "id": "../a"}], "task 1: id: "),
        ([OWN, {**OWN, "promt": "Go."}], "task 2: id: 'a'|task 2: promt: "),
        ([OWN, {**OWN, "id": "A"}], "more than one task has the id 'a'"),
        ([{**OWN, "repo": ""}], "task 1: repo: "),
        ([7], "task 1: "),
    ],
)
def test_what_is_no_task_is_refused_with_its_number(
    tmp_path: Path, rows: list[Any], final_text: str
) -> None:
    with pytest.raises(InvalidParamsError, match=final_text):
        read(tmp_path, *rows)
