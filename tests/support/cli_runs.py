"""Runs of the command line as a child process."""

import subprocess
from typing import Any

from command_line import Ran, end, environment, start
from starts import SCRIPT
from world import World


def begin(world: World, *args: str, **streams: Any) -> subprocess.Popen[str]:
    env = environment(world.home, **world.environment)
    return start([SCRIPT, *args], world.project, env, **streams)


def run(world: World, *args: str) -> Ran:
    return end(begin(world, *args))
