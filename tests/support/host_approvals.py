"""Approvals of hosts that commands connect to."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from network_hosts import proxy_of_user
from raw_client import RawClient
from world import World

Json = dict[str, Any]


def answer(client: RawClient, approval: Json, option: str, **more: Any) -> None:
    params = {"approvalId": approval["id"], "digest": approval["digest"], "optionId": option}
    client.request("approval/respond", {**params, **more})


def wait_for_host_approval(client: RawClient, nth: int = 1) -> Json:
    return client.wait_for_event("approval.requested", nth=nth)["event"]["approval"]


def approvals(client: RawClient) -> list[Json]:
    events = (each["event"] for each in client.events)
    return [event["approval"] for event in events if event["type"] == "approval.requested"]


@contextmanager
def one_host(world: World, heard: list[str] | None = None) -> Generator[Path]:
    """Let the user's own proxy know `one.test`; yields where what hosts serve lies."""
    served_folder = world.home / "served"
    (served_folder / "one.test").mkdir(parents=True)
    (served_folder / "one.test/a").write_text("this is one.test\n")
    with proxy_of_user(served_folder, [] if heard is None else heard) as variables:
        world.variables |= variables
        yield served_folder
