"""Settings from files and variables, and what is reported of those that are ignored."""

from pathlib import Path

from oh_daemon.fronts.sources import SettingsSources


def test_what_is_wrong_with_a_settings_file_is_told_once(tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    file.write_text('{"maxStep": 5}')
    problems = SettingsSources({}, file).merged().problems
    assert problems == ("user: unknown setting 'maxStep'; did you mean 'maxSteps'?",)
