"""What releases: workflows without secrets, and one command that changes the version everywhere."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from places import REPO

ROOT = REPO
WORKFLOWS: dict[str, Any] = {
    path.stem: yaml.safe_load(path.read_text("utf-8"))
    for path in (ROOT / ".github/workflows").glob("*.yml")
}
VERSIONED = (
    *("pyproject.toml", "CHANGELOG.md", "packaging/acp/agent.json"),
    "packaging/devcontainer/src/oh-daemon/devcontainer-feature.json",
    *("editors/vscode/package.json", "editors/vscode/package-lock.json"),
    "clients/typescript/package.json",
)


def jobs(workflow: str) -> dict[str, Any]:
    return WORKFLOWS[workflow]["jobs"]


def scripts(workflow: str) -> list[str]:
    return [
        step["run"] for job in jobs(workflow).values() for step in job["steps"] if "run" in step
    ]


def test_no_job_may_do_more_than_its_place_needs_and_none_has_a_secret() -> None:
    assert [each["permissions"] for each in WORKFLOWS.values()] == [{"contents": "read"}] * 2
    may = {name: job.get("permissions") for name, job in jobs("release").items()}
    assert may == {
        "build": None,
        "python": {"id-token": "write"},
        "image": {"contents": "read", "packages": "write"},
        "page": {"contents": "write"},
        "client": {"id-token": "write"},
        "extension": {"id-token": "write"},
    }
    assert all("environment" in job for name, job in jobs("release").items() if name != "build")
    assert "secrets." not in json.dumps(WORKFLOWS)


def test_what_the_workflows_run_exists_and_no_text_of_others_is_part_of_it() -> None:
    lines = [line for name in WORKFLOWS for line in scripts(name)]
    actual_targets = set(
        re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    )
    targets = {word for line in lines if line.startswith("make ") for word in line.split()[1:]}
    assert targets == {"release-check", "vsix"}
    assert targets <= actual_targets
    own = {line.split()[0] for line in lines if line.startswith(".ci/")}
    assert own == {".ci/run", ".ci/set-version"}
    assert all((ROOT / name).is_file() for name in own)
    names_inserted = {
        actual_name for line in lines for actual_name in re.findall(r"\$\{\{.*?\}\}", line)
    }
    assert names_inserted == {"${{ matrix.publish }}"}


@pytest.mark.parametrize(("version", "of_stores"), [("9.8.7rc1", "9.8.7"), ("9.8.7", "9.8.7")])
def test_one_command_changes_the_version_everywhere(
    tmp_path: Path, version: str, of_stores: str
) -> None:
    for name in (".ci/set-version", *VERSIONED):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)

    def run(*words: str) -> int:
        argv = [sys.executable, tmp_path / ".ci/set-version", *words]
        return subprocess.run(argv, check=False, capture_output=True).returncode

    assert run("--check", version) == 1
    assert (run(version), run("--check", version)) == (0, 0)
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    old = re.findall(r'^version = "(.+?)(?:rc\d+)?"', project, re.M)[0]
    for name in VERSIONED:
        text, before = (tmp_path / name).read_text("utf-8"), (ROOT / name).read_text("utf-8")
        expected = of_stores if name.startswith(("packaging/", "editors/", "clients/")) else version
        assert expected in text, name
        changed_lines = set(text.splitlines()) ^ set(before.splitlines())
        assert changed_lines, name
        assert all(old in line or expected in line for line in changed_lines), name
    assert (run("1.0"), run("--check", "9.9.9")) == (1, 1)
