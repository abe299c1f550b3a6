"""Settings from files and variables, and what is reported of those that are ignored."""

from pathlib import Path

import pytest

from oh_daemon.contract.errors import ModelUnavailableError
from oh_daemon.fronts.models import Models
from oh_daemon.fronts.sources import SettingsSources


def test_what_is_wrong_with_a_settings_file_is_told_once(tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    file.write_text('{"maxStep": 5}')
    problems = SettingsSources({}, file).merged().problems
    assert problems == ("user: unknown setting 'maxStep'; did you mean 'maxSteps'?",)


def test_a_wrong_way_to_reach_models_is_kept_so_that_nothing_goes_elsewhere(
    tmp_path: Path,
) -> None:
    file = tmp_path / "settings.json"
    file.write_text('{"llm": {"baseUrl": "http://localhost:1/v1", "temprature": 1}}')
    sources = SettingsSources({"OH_DAEMON_API_KEY": "sk-common-0123456789"}, file)
    merged = sources.merged()
    [problem] = merged.problems
    assert problem.startswith("user: llm.temprature: Extra inputs")
    with pytest.raises(ModelUnavailableError, match=r"llm\.temprature") as caught:
        Models(lambda: merged.settings, sources.environment).model_for("openai/local")
    assert "another place" in str(caught.value.hint)
