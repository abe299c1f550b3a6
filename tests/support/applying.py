"""Projects and answers for tests of applying changes."""

import os
import signal
from typing import Any

from raw_client import RawClient
from world import World

Json = dict[str, Any]
VIEW = {"sandbox": "overlay"}
ASKS = {"approval": "askRisky"}
ADDS = (
    "mkdir -p __pycache__; echo > __pycache__/a.pyc; echo two >> a.txt; echo new > b.txt; rm c.txt"
)


def project_of(world: World) -> None:
    for name, text in {"a.txt": "one\n", "c.txt": "gone\n"}.items():
        (world.project / name).write_text(text)


def files_of(world: World) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(world.project.glob("*.txt"))}


def answer(client: RawClient, approval: Json, option: str, **more: Any) -> None:
    params = {"approvalId": approval["id"], "digest": approval["digest"], "optionId": option}
    client.request("approval/respond", {**params, **more})


def wait_for_approval(client: RawClient, nth: int = 1) -> Json:
    return client.wait_for_event("approval.requested", nth=nth)["event"]["approval"]


def allowed_after_a_kill(world: World, client: RawClient, conversation: str) -> RawClient:
    """Kill the daemon, and allow in the next one, which is returned, what waits."""
    os.kill(client.process.pid, signal.SIGKILL)
    client.process.wait()
    again = world.daemon(settings=VIEW)
    again.request("conversation/open", {"conversationId": conversation})
    [approval] = again.request("approval/list")["pending"]
    answer(again, approval, "allow-once")
    again.request("conversation/resume", {"conversationId": conversation})
    world.turn(again)
    return again
