"""Attacks on the walls of a real overlay sandbox: whatever commands plant, nothing opens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from view_desk import Desk, desk_at

TARGETS = ("/run", "/proc", "/dev/shm")


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with desk_at(tmp_path) as desk:
        yield desk


def mounts(desk: Desk) -> list[str]:
    """Return the mounts outside the project and the home folder, as commands see them."""
    places = desk.run("cut -d' ' -f5 /proc/self/mountinfo").split()
    return sorted(place for place in places if not place.startswith(str(desk.home)))


def wait_in_background(desk: Desk, script: str) -> None:
    (desk.project / "job.py").write_text(script)
    desk.run("python3 job.py & until [ -e begun ]; do sleep 0.01; done")


SECRETS = {
    "table": ".netrc",
    "table, in a folder": ".docker/config.json",
    "pattern": "project/late.pem",
    "pattern, at home": "late.pem",
    "pattern, in a folder": "project/gen/late.pem",
    "pattern, in a folder that is a link": "project/gen/deep/late.pem",
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("secret", SECRETS)
def test_secret_that_comes_and_goes_mounts_and_unmounts_nothing_behind_a_link(
    desk: Desk, secret: str, target: str
) -> None:
    place = desk.home / SECRETS[secret]
    link = place.parents[1] if "link" in secret else place
    away = f"{target}/x" if "link" in secret else target
    desk.run(f"mkdir -p {link.parent} /run/x/deep /dev/shm/x/deep; ln -s /dev/shm {link}")
    before = mounts(desk)
    for step in (f"ln -sfn {away} {link}", f"rm -f {link}; ln -s {away} {link}", "true"):
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("TOKEN=S3CR3T\n")
        desk.view.refresh()
        assert mounts(desk) == before
        desk.run(step)
        place.unlink()
        desk.view.refresh()
        assert mounts(desk) == before


@pytest.mark.parametrize("name", [".netrc", ".ssh/id_rsa", ".config/gh/hosts.yml", ".docker/a"])
@pytest.mark.parametrize("before", ["true", "mkdir -p {0}; rm -rf {0}", "touch {0}; rm -rf {1}"])
def test_secret_of_the_table_that_comes_later_is_never_seen(
    desk: Desk, name: str, before: str
) -> None:
    secret = desk.home / name
    desk.run(f"mkdir -p {secret.parent}; {before.format(secret, desk.home / Path(name).parts[0])}")
    secret.parent.mkdir(parents=True, exist_ok=True)
    secret.write_text("TOKEN=S3CR3T\n")
    for _ in range(2):
        assert desk.run(f"grep -rs S3CR3T --exclude-dir=state {desk.home}") == ""
        desk.view.refresh()


RACE = """
import os, sys
name, away, target = {name!r}, {name!r} + ".away", {target!r}
os.symlink(target, name)
open("begun", "w").close()
while not os.path.exists("stop"):
    os.rename(name, away)
    os.rename(away, name)
"""
APPEAR: dict[str, Callable[[Path], object]] = {
    "once": lambda place: place.write_text("TOKEN=S3CR3T\n"),
    "again and again": lambda place: place.unlink() if place.exists() else place.write_text("K"),
}


@pytest.mark.parametrize("n_looks", [20, pytest.param(200, marks=pytest.mark.full)])
@pytest.mark.parametrize("how", APPEAR)
def test_name_that_a_job_exchanges_mounts_and_unmounts_nothing_behind_it(
    desk: Desk, how: str, n_looks: int
) -> None:
    place = desk.project / "late.pem"
    wait_in_background(desk, RACE.format(name="late.pem", target="/run"))
    before = mounts(desk)
    for number in range(n_looks):
        if number == 0 or how != "once":
            APPEAR[how](place)
        desk.view.refresh()
        assert mounts(desk) == before
        assert desk.run("ls -A /run") == ""
    desk.run("touch stop; wait")


@pytest.mark.parametrize("moved", ["the folder of all views", "a folder above a layer"])
def test_what_was_mounted_at_the_start_cannot_be_moved_away(desk: Desk, moved: str) -> None:
    place = desk.home / ("state/views/one" if "views" in moved else "project")
    told = desk.run(f"mv {place} {place}-moved 2>&1; mkdir -p {place}; ls -A {place}")
    assert "cannot move" in told
    (desk.project / "late.pem").write_text("TOKEN=S3CR3T\n")
    desk.view.refresh()
    assert desk.run("cat late.pem") == ""
