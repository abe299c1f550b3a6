"""The agent's browser, with a real Chromium: what it reaches, and that the model sees its pages."""

import json
import os
import shutil
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from fake_llm import Step, call, say
from host_approvals import answer, approvals, one_host, wait_for_host_approval
from network_hosts import host
from places import TESTS
from world import World, content_of, items

from oh_daemon.features.browser.browser import PINNED

Json = dict[str, Any]
SERVERS = TESTS / "mcp_servers"
PAGE = "<h1>Tea</h1><script>document.title = 'Shop is open'</script>"
FORM = """<form><input name="email" autocomplete="email"><input name="address">
<input type="password"><textarea autofocus></textarea></form>"""
LOADS = """() => {
    fetch("http://three.test/a", {mode: "no-cors"});
    setTimeout(() => fetch("/late"), 3000);
}"""
TYPED = "() => document.querySelector('textarea').value"
SERVE = (
    "cd $(mktemp -d) && echo '<h1>Mine</h1>' >index.html; python3 -m http.server 8123 >log 2>&1 &"
    " curl -sS --retry 30 --retry-connrefused --retry-delay 1 localhost:8123"
)


@pytest.fixture
def browser(world: World) -> Json:
    """Return settings with the browser, which npx finds in the home folder."""
    npm = SERVERS / "node_modules"
    is_here = npm.exists() and any(map(shutil.which, PINNED["browsers"]))
    if not is_here and not os.environ.get("CI"):
        pytest.skip("`make mcp-servers browser` installs what it needs")
    (world.home / "node_modules").symlink_to(npm)
    return {"browser": True}


class Heard(list[str]):
    """What the user's proxy was asked for; `late` is set when it hears of that."""

    def __init__(self) -> None:
        self.late = Event()

    def append(self, line: str) -> None:
        super().append(line)
        if "/late" in line:
            self.late.set()


def visit(url: str) -> Step:
    return call("playwright__browser_navigate", url=url)


def test_in_a_view_each_host_of_the_browser_is_asked_about_and_the_model_sees_the_page(
    world: World, browser: Json
) -> None:
    heard = Heard()
    with one_host(world, heard) as server:
        (server / "one.test/shop.html").write_text(PAGE)
        world.script(
            visit("http://one.test/shop.html"),
            call("playwright__browser_snapshot"),
            call("playwright__browser_take_screenshot", type="png", scale="css"),
            visit("http://two.test/a"),
            visit("http://one.test/shop.html"),
            call("playwright__browser_evaluate", function=LOADS),
            call("terminal", command=SERVE),
            visit("http://localhost:8123/"),
            call("playwright__browser_snapshot"),
            say("Seen."),
        )
        client = world.daemon(settings={"sandbox": "overlay", **browser})
        world.start(client, options={"approval": "askRisky"})
        first = wait_for_host_approval(client)
        assert first["title"] == "Let the browser and commands connect to one.test?"
        assert first["reason"] == "`playwright: browser_navigate` connects to one.test"
        assert heard == []
        answer(client, first, "allow-conversation")
        second = wait_for_host_approval(client, 2)
        assert second["subject"] == {"kind": "host", "host": "two.test", "port": 80}
        answer(client, second, "reject")
        # A page may load what its call does not wait for; the question about it stays.
        third = wait_for_host_approval(client, 3)
        assert heard.late.wait(60)
        answer(client, third, "allow-once")
        assert world.turn(client)["finalText"] == "Seen."
    calls = [content_of(item) for item in items(client, "toolCall")]
    open_call, snapshot_call, refused_call, own = calls[0], calls[1], calls[3], calls[-1]
    assert "Shop is open" in open_call
    assert "Tea" in snapshot_call
    assert "data:image/png;base64,iVBORw0KGgo" in str(world.llm.requests[3].body["messages"])
    assert "[no connection to two.test: the user does not allow it" in refused_call
    assert not [line for line in heard if "two.test" in line]
    assert "Mine" in own
    assert len(approvals(client)) == 3


@pytest.mark.parametrize("name", [*filter(shutil.which, PINNED["browsers"])])
def test_browser_connects_to_no_host_but_that_of_the_page(
    world: World, browser: Json, tmp_path: Path, name: str
) -> None:
    # The name that is looked for first leads to the browser under test.
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / PINNED["browsers"][0]).symlink_to(str(shutil.which(name)))
    world.variables["PATH"] = f"{programs}:{os.environ['PATH']}"
    keys = ("h", "e", "l", "o", "Space", "w")
    heard: list[str] = []
    with one_host(world, heard) as served:
        (served / "one.test/form.html").write_text(FORM)
        world.script(
            visit("http://one.test/form.html"),
            *(call("playwright__browser_press_key", key=key) for key in keys),
            call("playwright__browser_evaluate", function=TYPED),
            call("playwright__browser_wait_for", time=3),
            say("Typed."),
        )
        client = world.daemon(settings={"sandbox": "overlay", **browser})
        world.start(client, options={"approval": "askRisky"})
        first = wait_for_host_approval(client)
        assert first["subject"] == {"kind": "host", "host": "one.test", "port": 80}
        answer(client, first, "allow-conversation")
        assert world.turn(client)["finalText"] == "Typed."
    assert "helo w" in content_of(items(client, "toolCall")[-2])
    assert approvals(client) == [first]
    assert {line.split("/")[2] for line in heard} == {"one.test"}


@pytest.mark.full
def test_without_a_view_its_calls_are_asked_about_and_a_notice_says_so(
    world: World, browser: Json, tmp_path: Path
) -> None:
    (tmp_path / "shop.html").write_text(PAGE)
    with host(tmp_path) as port:
        world.script(visit(f"http://127.0.0.1:{port}/shop.html"), say("Seen."))
        client = world.daemon(settings={"sandbox": "off", **browser})
        world.start(client, options={"approval": "askRisky"})
        approval = wait_for_host_approval(client)
        assert approval["title"] == "playwright: browser_navigate"
        answer(client, approval, "allow-once")
        world.turn(client)
    [shop] = map(content_of, items(client, "toolCall"))
    assert "Shop is open" in shop
    [notice] = items(client, "notice")
    assert (notice["code"], notice["severity"]) == ("browserNotHeld", "warning")


def test_what_is_missing_is_said_with_what_installs_it(world: World, tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("bash", "git"):
        (programs / name).symlink_to(str(shutil.which(name)))
    world.variables["PATH"] = str(programs)
    client = world.daemon(settings={"sandbox": "off", "browser": True})
    for nth, install in enumerate(("apt install npm", "apt install chromium"), 1):
        world.script(say("Hm."))
        world.start(client)
        world.turn(client, nth=nth)
        notice = items(client, "notice")[-1]
        assert install in notice["description"]
        (programs / "npx").write_text("#!/bin/false\n")
        (programs / "npx").chmod(0o755)


def test_the_server_under_test_is_the_one_that_users_get() -> None:
    versions = json.loads((SERVERS / "package.json").read_text())["dependencies"]
    assert versions[PINNED["package"]] == PINNED["version"]
