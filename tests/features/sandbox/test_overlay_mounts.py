"""Mounts where a sandbox would lie: what commands have all the same, and what users are told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fake_llm import call, say
from raw_client import RawClient
from world import World, content_of, items


def start_with_mounts(
    world: World, *places: Path, sandbox: str
) -> tuple[RawClient, dict[str, Any]]:
    """Start the daemon with a file system of its own at each place."""
    for place in places:
        place.mkdir(parents=True)
    each = 'for at; do case $at in /*) mount -t tmpfs none "$at";; *) break;; esac; shift; done'
    apart = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", f'{each}; shift; "$@"')
    client = world.raw(prefix=(*apart, "sh", *map(str, places), "--"))
    trust = [{"folder": world.project.as_uri(), "trusted": True}]
    client.initialize([world.project], trust=trust, settings={"sandbox": sandbox})
    return client, client.request("daemon/status")["sandbox"]


def test_with_mounts_in_the_home_and_the_temporary_folder_there_is_a_view(world: World) -> None:
    temporary = world.home.with_name("tmp")
    world.variables["TMPDIR"] = str(temporary)
    places = (world.home / "deep/volume", temporary / "mounted")
    client, level_report = start_with_mounts(world, *places, sandbox="auto")
    cause = (
        f"{places[1]} is mounted, so that {temporary} is empty in a sandbox; {places[0]} is"
        f" mounted, so that files directly in {world.home} cannot be changed in a sandbox"
    )
    assert level_report == {"level": "overlay", "setting": "auto", "cause": cause}
    each = f'for at in ~ ~/deep/volume "{temporary}" .; do echo x > "$at/own"; done'
    world.script(call("terminal", command=each), say("Done."))
    world.start(client)
    world.turn(client)
    (content,) = (content_of(item) for item in items(client, "command"))
    assert "[exit code 0" in content
    assert (world.project / "own").read_text() == "x\n"
    assert not (world.home / "own").exists()


@pytest.mark.parametrize("sandbox", ["auto", "overlay"])
def test_with_a_mount_in_an_open_folder_no_view_is_there_and_the_user_is_told(
    world: World, sandbox: str
) -> None:
    mount = world.project / "node_modules"
    client, level_report = start_with_mounts(world, mount, sandbox=sandbox)
    level = {"auto": "landlock", "overlay": "off"}[sandbox]
    cause = f"{mount} is mounted in the open folder, which therefore cannot be covered"
    cure = f"sudo umount {mount}"
    assert level_report == {"level": level, "setting": sandbox, "cause": cause, "cure": cure}
    told_at_start = client.capabilities["experimental"]["ohDaemon"].get("sandbox")
    if told_at_start is not None:
        warning = client.wait_for(lambda m: m.get("method") == "daemon/statusChanged")
        assert warning["params"]["message"].endswith(f"{level}, since {cause}")
    hidden_command = "true [[ a =~ x;touch own ]]; sed -n 1p a.txt"
    world.script(call("terminal", command=hidden_command), say("Done."))
    world.start(client, options={"approval": "askRisky"})
    world.turn(client)
    if sandbox == "overlay":
        message = (
            f"is 'overlay', and that level is not there: {cause}. The user can change that: {cure}"
        )
        assert message in str(world.llm.requests[-1].body["messages"][-1])
        return
    (command_item,) = items(client, "command")
    assert command_item["terminalId"] == "reading"
    assert "touch: cannot touch 'own': Permission denied" in content_of(command_item)
