"""The page of `oh-daemon serve --web`: whom it refuses, and a conversation in a phone's browser."""

import json
import re
import resource
import threading
from collections.abc import Generator
from contextlib import closing
from http.client import HTTPConnection, HTTPResponse
from urllib.parse import urlsplit

import pytest
from approvals import ASK, keep_waiting, touch
from fake_llm import hold_step, say
from playwright.sync_api import Page, expect, sync_playwright
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect
from window import CHROMIUM, browser_options
from world import World, wait_for_status, wait_for_words

from oh_daemon.frontends.serve.web_gate import is_page_built

WAIT_MS = 60_000

if not (CHROMIUM and is_page_built()):
    pytest.skip("needs a Chromium on the PATH, and what `make page` makes", allow_module_level=True)


def serve_page(world: World) -> tuple[str, int]:
    """Start `serve --web`, and return the link that it prints, and its process id."""
    process = world.serve("--web")
    assert process.stdout is not None
    process.stdout.readline()
    return process.stdout.readline().decode().strip(), process.pid


def get(link: str, path: str, **headers: str) -> tuple[HTTPResponse, str]:
    with closing(HTTPConnection(urlsplit(link).netloc)) as connection:
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        return response, response.read().decode()


def test_only_the_link_lets_in_and_only_under_our_own_names(world: World) -> None:
    link, _ = serve_page(world)
    url = urlsplit(link)
    first, text = get(link, f"/?{url.query}")
    cookie = (first.getheader("Set-Cookie") or "").partition(";")[0]
    goal = re.search("url=(/[^/]+/)", text)
    assert first.status == 200
    assert goal
    page, _ = get(link, goal[1], Cookie=cookie)
    assert page.status == 200
    policy = page.getheader("Content-Security-Policy") or ""
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert get(link, goal[1])[0].status == 403
    assert get(link, "/?token=of-another-start")[0].status == 403
    assert get(link, f"/?{url.query}", Host="rebound.example")[0].status == 403

    def open_with(cookie: str = cookie, origin: str = f"http://{url.netloc}") -> ClientConnection:
        address = f"ws://{url.netloc}{goal[1]}socket" if goal else ""
        return connect(address, additional_headers={"Cookie": cookie}, origin=origin, proxy=None)  # pyright: ignore[reportArgumentType] - a NewType of str.

    for wrong in ({"cookie": ""}, {"cookie": "oh=stale"}, {"origin": "http://127.0.0.1:3000"}):
        with pytest.raises(InvalidStatus, match="403"):
            open_with(**wrong)
    with open_with() as socket:
        socket.send(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}))
        assert json.loads(socket.recv())["result"]["serverInfo"]["name"] == "oh-daemon"
    token = url.query.partition("=")[2]
    logs = [log for log in world.home.rglob("*.log") if log.is_file()]
    assert logs
    assert not any(token in log.read_text() for log in logs)


@pytest.fixture
def phone() -> Generator[Page]:
    complaints: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(browser_options()))
        context = browser.new_context(
            viewport={"width": 390, "height": 780}, is_mobile=True, has_touch=True
        )
        context.set_default_timeout(WAIT_MS)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        yield page
        browser.close()
    assert complaints == []


def test_a_phone_follows_approves_and_interrupts_what_an_editor_has_begun(
    world: World, phone: Page
) -> None:
    expect.set_options(timeout=WAIT_MS)
    gate = threading.Event()
    world.script(touch("made"), hold_step(say("Now the rest. And more.", n_chunks=2), gate))
    link, _ = serve_page(world)
    editor = world.daemon()
    editor.answer("approval/request", keep_waiting)
    world.start(editor, "Make the file", **ASK)
    wait_for_status(editor, "waiting")
    phone.goto(link)
    phone.locator(".conversation .row", has_text="Make the file").tap()
    assert "token" not in phone.url
    expect(phone.get_by_role("textbox", name="Command")).to_have_value("touch made")
    phone.get_by_role("button", name="Allow", exact=True).tap()
    expect(phone.locator(".log")).to_contain_text("Now the rest")
    assert (world.project / "made").exists()
    # Nothing is wider than the screen, and what only an editor can do is not there.
    assert phone.evaluate("document.documentElement.scrollWidth") == 390
    expect(phone.get_by_role("button", name="Open diff")).to_have_count(0)
    phone.get_by_role("button", name="Stop", exact=True).tap()
    assert world.turn(editor)["status"] == "interrupted"
    gate.set()
    phone.get_by_role("button", name="Conversations").tap()
    expect(phone.locator(".conversation")).to_have_count(1)


def test_a_browser_that_comes_while_no_more_files_can_be_opened_is_answered_later(
    world: World,
) -> None:
    link, daemon = serve_page(world)
    limits = resource.prlimit(daemon, resource.RLIMIT_NOFILE)
    resource.prlimit(daemon, resource.RLIMIT_NOFILE, (3, limits[1]))  # As in test_serve.
    with closing(HTTPConnection(urlsplit(link).netloc)) as early:
        early.request("GET", "/")
        wait_for_words(world.home / "daemon.log", b"no connection of a browser can be taken", 1)
        resource.prlimit(daemon, resource.RLIMIT_NOFILE, limits)
        assert early.getresponse().status == 403
