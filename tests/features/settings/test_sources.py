"""Settings from files and variables, and what is reported of those that are ignored."""

import json
import os
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from oh_daemon.features.models.models import Models
from oh_daemon.features.settings.sources import SettingsSources
from oh_daemon.protocol.errors import ModelUnavailableError
from oh_daemon.protocol.problems import Problem, render_problem
from oh_daemon.protocol.settings import Project, Settings, problem_from_project


def test_what_is_wrong_with_a_settings_file_is_told_once(tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    file.write_text('{"maxStep": 5}')
    problems = SettingsSources({}, file).merged().problems
    assert tuple(map(render_problem, problems)) == (
        "user: unknown setting 'maxStep'; did you mean 'maxSteps'?",
    )


@pytest.mark.parametrize("kind", ["a pipe", "a folder", "too large", "nested"])
def test_what_a_repository_has_in_place_of_settings_holds_nothing_up(
    tmp_path: Path, kind: str
) -> None:
    path = tmp_path / ".openhands/settings.json"
    path.parent.mkdir()
    match kind:
        case "a pipe":
            os.mkfifo(tmp_path / "pipe")
            path.symlink_to("../pipe")
        case "a folder":
            path.mkdir()
        case "too large":
            path.write_text('{"maxSteps": 5}' + " " * (1 << 20))
        case _:
            path.write_text("[" * 100_000)
    merged_settings = SettingsSources({}, tmp_path / "none").merged(tmp_path)
    [problem] = merged_settings.problems
    assert problem.code == "unreadable"
    assert merged_settings.settings.max_steps == 100


@pytest.mark.parametrize(
    ("key", "users", "projects", "counts"),
    [
        *(("approval", "askRisky", "askNever", False), ("approval", "askRisky", "askAlways", True)),
        *(("mode", "ask", "full", False), ("mode", "autoEdit", "plan", True)),
        *(("sandbox", "auto", "overlay", True), ("sandbox", "off", "landlock", True)),
        *(("sandbox", "auto", "off", False), ("sandbox", "overlay", "landlock", False)),
        *(("sandbox", "auto", "landlock", False), ("sandbox", "landlock", "auto", False)),
        *(("maxCostUsd", 5, 50, False), ("maxCostUsd", 5, None, False), ("maxCostUsd", 5, 1, True)),
        *(("maxCostUsdPerDay", 5, 50, False), ("maxCostUsdPerConversation", 5, 50, False)),
        *(("model", "users", "theirs", False), ("llm", {}, {"baseUrl": "http://x"}, False)),
        *(("shareTools", False, True, False), ("browser", False, True, False)),
        ("memory", False, True, False),
        ("mcpServers", {}, {"bad": {"command": "touch"}}, False),
    ],
)
def test_a_project_makes_things_stricter_only(
    tmp_path: Path, key: str, users: Any, projects: Any, *, counts: bool
) -> None:
    user = tmp_path / "settings.json"
    user.write_text(json.dumps({key: users}))
    project = tmp_path / "project/.openhands/settings.json"
    project.parent.mkdir(parents=True)
    project.write_text(json.dumps({key: projects}))
    merged_settings = SettingsSources({}, user).merged(tmp_path / "project")
    settings_alone = SettingsSources({}, project if counts else user).merged()
    assert (merged_settings.settings, bool(merged_settings.problems)) == (
        settings_alone.settings,
        not counts,
    )


@pytest.mark.parametrize(
    ("source", "value"),
    [
        *product(("client", "user", "project"), ("view", "none", "Overlay", "", 3, None, ["off"])),
        *product(["environment"], ("view", "none", "Overlay")),
    ],
)
def test_bad_sandbox_puts_the_strictest_level_in_force(
    tmp_path: Path, source: str, value: Any
) -> None:
    """A release candidate called the level `view`; an old file must not lower it to another one."""
    user = tmp_path / "settings.json"
    project = tmp_path / "project/.openhands/settings.json"
    project.parent.mkdir(parents=True)
    user.write_text(json.dumps({"sandbox": value if source == "user" else "landlock"}))
    project.write_text(json.dumps({"sandbox": value} if source == "project" else {}))
    sources = SettingsSources(
        {"OH_DAEMON_SANDBOX": value} if source == "environment" else {},
        user,
        client={"sandbox": value} if source == "client" else {},
    )
    merged = sources.merged(tmp_path / "project")
    assert merged.settings.sandbox == "overlay"
    [problem] = merged.problems
    assert (problem.code, problem.source) == ("badSandbox", source)
    if value == "view":
        assert render_problem(problem) == (
            f"{source}: sandbox: 'view' is now called 'overlay'; 'overlay' is in force until this"
            " is corrected"
        )


def test_every_setting_states_what_a_project_may_set() -> None:
    unstated = [
        f"{name}: add one of `Project` to its annotation in protocol/settings.py"
        for name, field in Settings.model_fields.items()
        if not any(isinstance(each, Project) for each in field.metadata)
    ]
    assert unstated == []


def test_a_setting_that_states_no_class_is_refused_from_a_project() -> None:
    class Grown(Settings):
        telemetry_url: str = ""

    field = Grown.model_fields["telemetry_url"]
    refused = problem_from_project("telemetryUrl", field, "http://x", {})
    assert refused == Problem("notFromProject", "project", "telemetryUrl")


def test_a_wrong_way_to_reach_models_is_kept_so_that_nothing_goes_elsewhere(
    tmp_path: Path,
) -> None:
    file = tmp_path / "settings.json"
    file.write_text('{"llm": {"baseUrl": "http://localhost:1/v1", "temprature": 1}}')
    sources = SettingsSources({"OH_DAEMON_API_KEY": "sk-common-0123456789"}, file)
    merged_settings = sources.merged()
    [problem] = map(render_problem, merged_settings.problems)
    assert problem.startswith("user: llm.temprature: Extra inputs")
    with pytest.raises(ModelUnavailableError, match=r"llm\.temprature") as error_info:
        Models(lambda: merged_settings.settings, sources.environment).model_for("openai/local")
    assert "another place" in str(error_info.value.hint)
