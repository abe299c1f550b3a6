"""The GitHub Action: who may start it, and that no text of strangers becomes part of a script."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from places import REPO
from typer.testing import CliRunner

from oh_daemon.frontends.cli.app import app

FILE = REPO / "packaging/github-action/action.yml"
STEPS: list[Any] = yaml.safe_load(FILE.read_text("utf-8"))["runs"]["steps"]
RUN: dict[str, str] = {step["name"]: step["run"] for step in STEPS}


@pytest.mark.parametrize(
    ("sender", "author", "code"), [("alice", "bob", 0), ("alice", "eve", 1), ("eve", "bob", 1)]
)
def test_both_who_starts_it_and_who_wrote_the_issue_must_be_allowed(
    tmp_path: Path, sender: str, author: str, code: int
) -> None:
    event = {"sender": {"login": sender}, "issue": {"user": {"login": author}}}
    (tmp_path / "event.json").write_text(json.dumps(event))
    env = {"GITHUB_EVENT_PATH": str(tmp_path / "event.json"), "ALLOWED": "alice bob"}
    outcome = subprocess.run(
        ["bash", "-e", "-c", RUN["Who asks"]],
        env=os.environ | env,
        capture_output=True,
        check=False,
    )
    assert (outcome.returncode, b"eve" in outcome.stderr) == (code, code == 1)


def test_scripts_take_what_others_wrote_from_variables_and_the_agent_has_no_token() -> None:
    assert [name for name, script in RUN.items() if "${{" in script] == []
    resolve = next(step for step in STEPS if step["name"] == "Resolve")
    assert (resolve["env"]["GH_TOKEN"], resolve["env"]["GITHUB_TOKEN"]) == ("", "")
    with_token = [step["name"] for step in STEPS if "inputs.token" in str(step)]
    assert with_token == ["Open the pull request"]


def test_the_options_of_its_command_exist() -> None:
    words = RUN["Resolve"].split()
    help_text = CliRunner().invoke(app, ["resolve", "--help"]).output
    options = {word for word in words if word.startswith("--")}
    assert {"--check", "--max-cost", "--out"} <= options
    assert [option for option in options if option not in help_text] == []


def test_a_checkout_with_a_token_in_it_is_refused(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    script = ["bash", "-e", "-c", RUN["No credentials in the checkout"]]
    assert subprocess.run(script, cwd=tmp_path, check=False).returncode == 0
    header = ["git", "config", "http.https://github.com/.extraheader", "AUTHORIZATION: basic eA=="]
    subprocess.run(header, cwd=tmp_path, check=True)
    assert subprocess.run(script, cwd=tmp_path, check=False).returncode == 1
