"""`make test-live`: a real model does what a person would try, and something is run to check it."""

import os
from pathlib import Path

import pytest
from scenarios import SCENARIOS, Done, carry_out, prepare

pytestmark = pytest.mark.live


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_real_model_does_it(name: str, tmp_path: Path) -> None:
    scenario, folder, home = SCENARIOS[name], tmp_path / "project", tmp_path / "home"
    folder.mkdir()
    prepare(scenario, folder)
    outcome = carry_out(scenario, folder, {**os.environ, "OH_DAEMON_HOME": str(home)})
    print(outcome.out, outcome.err)  # noqa: T201 - what was done and what it cost.
    assert outcome.code == 0
    scenario.check(Done(folder, outcome.out))
