"""Harbor's runner, which benchmarks of others use, runs a whole task with the SDK for Python."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import forked_daemons
import pytest
from command_line import environment
from fake_llm import call, say
from world import World

Json = dict[str, Any]
HARBOR = Path(sys.prefix) / "harbor"
RUNNER = HARBOR / "harbor/agents/installed/acp_runner.py"


@pytest.mark.full
def test_harbor_s_runner_runs_a_task(world: World) -> None:
    if not RUNNER.exists() and not os.environ.get("CI"):
        pytest.skip("`make acp-clients` installs Harbor's runner")
    settings = {"llm": {"inputCostPerToken": 0.01, "outputCostPerToken": 0.02}}
    (world.home / "settings.json").write_text(json.dumps(settings))
    launcher = world.home / "launch.sh"
    launcher.write_text(f"#!/bin/sh\nexec {shlex.join(forked_daemons.command())} acp\n")
    launcher.chmod(0o755)
    (world.project / "a.py").write_text("x = 1\n")
    world.script(
        call("edit", command="view", path="a.py"),
        call("edit", command="replace", path="a.py", old_text="1", new_text="2"),
        call("terminal", command="touch made"),
        say("Done."),
    )
    logs = world.home / "logs"
    outcome = subprocess.run(
        [
            # Without the folder of the script, in which there is another `acp`.
            *(sys.executable, "-P", str(RUNNER), "--instruction", "Make it two"),
            *("--logs-dir", str(logs), "--launcher", str(launcher)),
        ],
        cwd=world.project,
        env={
            **environment(world.home, **world.environment),
            "PYTHONPATH": str(HARBOR),
            "HARBOR_ACP_REQUESTED_MODEL": world.environment["OH_DAEMON_MODEL"],
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert logs.exists(), outcome.stderr
    summary: Json = json.loads((logs / "acp-summary.json").read_text())
    assert outcome.returncode == 0, (summary.get("error"), outcome.stderr)
    assert summary["prompt_response"] == {"stopReason": "end_turn"}
    # The folder, the edit and the command: nobody was asked before.
    assert summary["permissions_requested"] == 3
    assert summary["latest_usage_update"]["cost"]["currency"] == "USD"
    assert (world.project / "a.py").read_text() == "x = 2\n"
    assert (world.project / "made").exists()
    assert outcome.stdout.replace("\n", "").endswith("Done.")
