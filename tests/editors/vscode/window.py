"""One VS Code with the extension installed, driven by a browser: workbench, panel, files."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shutil
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import quote

import psutil
from code_server import WAIT_MS, Server
from fake_llm import FakeLLM, Step
from long_log import grow
from playwright.async_api import (
    Browser,
    FloatRect,
    Frame,
    FrameLocator,
    Locator,
    Page,
    async_playwright,
    expect,
)
from playwright.async_api import Error as PlaywrightError
from playwright.async_api import TimeoutError as WaitedTooLongError

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium-headless-shell", "chromium", "google-chrome"))), None
)
LAST_SIGHT = os.environ.get("OH_TEST_SCREENSHOTS")
N_SHOWN = 400
"""Characters of each request that are kept of a failed test."""
SIGHT_MS = 2000
"""A folder for a picture of each window, taken before it is closed."""
N_TRIES = 10
N_OPENINGS = 3
N_TABS = 20
HAS_FOCUS = "(element) => element === document.activeElement"

FIND_BY_PLACE = """{
  queryAll(root, place) {
    const inner = (frame) => frame?.contentDocument?.querySelector("#active-frame");
    const placeOf = (frame) => inner(frame)?.contentDocument?.documentElement.dataset.place;
    return [...root.querySelectorAll("iframe.webview")].filter((frame) => placeOf(frame) === place);
  },
}"""
"""The webviews whose page says that it is in this place: VS Code lays all in one layer."""

WAIT_UNTIL_KEPT = """async (text) => {
  const result = (request) => new Promise((done, failed) => {
    request.onsuccess = () => done(request.result);
    request.onerror = () => failed(request.error);
  });
  for (;;) {
    for (const {name} of await indexedDB.databases()) {
      if (!name.startsWith("vscode-web-state-db")) continue;
      const database = await result(indexedDB.open(name));
      const store = database.transaction("ItemTable").objectStore("ItemTable");
      const values = await result(store.getAll());
      database.close();
      if (values.some((value) => String(value).includes(text))) return;
    }
    await new Promise((next) => setTimeout(next, 100));
  }
}"""
"""Waits until a text is in what VS Code keeps of a window in the browser."""


@dataclass
class VSCode:
    """What one test has: a project, a scripted model, and a window on it."""

    project: Path
    llm: FakeLLM
    server: Server
    address: str
    page: Page
    complaints: list[str] = field(default_factory=list)
    """What the browser refused, for instance by the content policy."""

    @property
    def panel(self) -> FrameLocator:
        return self._page_in("side")

    @property
    def panel_in_tab(self) -> FrameLocator:
        """The page in the one tab with a conversation that is shown."""
        return self._page_in("editor")

    def _page_in(self, place: str) -> FrameLocator:
        return self.page.frame_locator(f"place={place}").frame_locator("iframe#active-frame")

    def frame(self) -> Frame:
        """Return the panel's own frame, for scripts."""
        return next(f for f in self.page.frames if f.name == "active-frame" or "fake.html" in f.url)

    def script(self, *steps: Step) -> None:
        self.llm.add(*steps)

    async def open(self, *, file: str | None = None, is_agent_shown: bool = True) -> None:
        """Open the project, one of its files, and the side panel.

        If the window has the project open already, open only the file and the panel.
        """
        if self.is_open:
            if file:
                await self.open_file(file)
            await self.show_agent()
            return
        root = f"vscode-remote://{self.address}{self.project}"
        payload = json.dumps([["openFile", f"{root}/{file}"]]) if file else "[]"
        await self.page.goto(
            f"http://{self.address}/?folder={self.project}&payload={quote(payload)}",
            wait_until="commit",
        )
        await self.page.locator(".monaco-workbench").wait_for()
        if file:
            await self.tab(file).wait_for()
        if is_agent_shown:
            await self.show_agent()

    async def open_workspace(self, file: Path, *, folder: str) -> None:
        """Open a workspace of several folders, one of which has this name, and the side panel.

        Over a slow connection, VS Code in a browser may take the workspace for empty, for good.
        """
        tree_item = self.page.get_by_role("treeitem", name=folder)
        for _ in range(N_OPENINGS):
            await self.page.goto(f"http://{self.address}/?workspace={file}", wait_until="commit")
            with contextlib.suppress(WaitedTooLongError):
                await tree_item.wait_for(timeout=WAIT_MS / N_OPENINGS)
                return await self.show_agent()
        raise AssertionError(await self.page.locator("body").aria_snapshot())

    @property
    def is_open(self) -> bool:
        return self.page.url.startswith(f"http://{self.address}/")

    async def open_file(self, name: str) -> None:
        await self._choose("Control+p", str(self.project / name), expected_text=name)
        await self.tab(name).wait_for()
        await self._expect_editor_focused()

    async def open_notebook(self, name: str) -> None:
        await self._choose("Control+p", str(self.project / name), expected_text=name)
        await self.tab(name).wait_for()

    async def another_window(self) -> VSCode:
        """Open the project as somebody else would: the windows share nothing but the files."""
        browser = self.page.context.browser
        assert browser
        page = await new_page(browser, self.complaints, width=1200, height=900)
        return replace(self, page=page)

    async def close_and_grow(
        self, daemon: psutil.Process, n_events: int, by: Callable[[Path, int], None] = grow
    ) -> None:
        """Close the window, and let the log of its conversation grow to so many events."""
        log = await self.expect_conversation_kept()
        await self.page.goto("about:blank")
        await expect_ended(daemon)
        by(log, n_events)

    async def show_agent(self) -> None:
        """Show the panel.

        A click on its tab would hide a panel that is shown, and after a reload VS Code may show the
        panel by itself, seconds after its tab. So wait until the side bar has its title.
        """
        await expect(self.page.locator(".part.sidebar .title-label h2").first).not_to_be_empty()
        # The name may be followed by what waits for the user.
        tab = self.page.get_by_role("tab", name=re.compile("^oh( - |$)"))
        await tab.wait_for()
        if await tab.get_attribute("aria-selected") != "true":
            await tab.click()
        await self.input.wait_for()

    async def expect_kept(self, text: str) -> None:
        """Wait until a text is kept: a browser cannot write on closing, so a reload may lose it."""
        await asyncio.wait_for(self.page.evaluate(WAIT_UNTIL_KEPT, text), WAIT_MS / 1000)

    async def expect_conversation_kept(self) -> Path:
        """Wait until the only conversation is kept; return its log."""
        [log] = (self.project / ".openhands/conversations").glob("*/events.jsonl")
        await self.expect_kept(log.parent.name)
        return log

    async def reload(self) -> None:
        """Reload the window, and show the conversation again."""
        await self.expect_conversation_kept()
        await self.page.reload(wait_until="commit")
        await self.page.locator(".monaco-workbench").wait_for()
        await self.show_agent()

    async def focus_agent(self) -> None:
        """Show the panel by its key, which is lost until VS Code knows the extension."""
        for _ in range(N_TRIES):
            await self.page.keyboard.press("Control+Alt+o")
            with contextlib.suppress(AssertionError):
                await expect(self.input).to_be_focused(timeout=WAIT_MS / N_TRIES)
                return
        raise AssertionError("the panel did not take the focus")

    async def tab_to(self, target: Locator) -> None:
        """Go back from where the focus is in the panel until it is there."""
        for _ in range(N_TABS):
            if await target.evaluate(HAS_FOCUS):
                return
            await self.page.keyboard.press("Shift+Tab")
        raise AssertionError(f"no focus on {target}")

    @property
    def input(self) -> Locator:
        return self.panel.get_by_label("Message to the agent")

    @property
    def approval(self) -> Locator:
        return self.panel.locator(".approval")

    @property
    def commands(self) -> Locator:
        return self.panel.locator('.card[data-kind="command"]')

    @property
    def fold(self) -> Locator:
        """The lines that stand for the work of turns, each of which a click opens."""
        return self.panel.locator(".fold")

    def tab(self, name: str) -> Locator:
        return self.page.locator(f'.tab[data-resource-name="{name}"]')

    async def say(self, text: str, *, key: str = "Enter") -> None:
        await self.input.fill(text)
        await self.input.press(key)

    async def start_anew(self) -> None:
        """Leave the conversation or the list, where typed text goes until the panel has heard.

        VS Code may draw its buttons anew between the press and the release, and lose the click.
        """
        welcome = self.panel.get_by_role("heading", name="What shall we do?")
        await expect(welcome, "nothing would say when the panel has heard").to_be_hidden()
        for _ in range(N_TRIES):
            await self.page.get_by_role("button", name="New Conversation").click()
            with contextlib.suppress(AssertionError):
                await expect(welcome).to_be_visible(timeout=WAIT_MS / N_TRIES)
                return
        raise AssertionError(await self.panel.locator("body").aria_snapshot())

    async def choose(self, option: str, value: str) -> None:
        """Choose, and wait until it holds: what is drawn anew then may move what is next."""
        picker = self.panel.locator(f'[data-option="{option}"]')
        if option == "model":
            await picker.click()
            search = self.panel.get_by_role("combobox", name="Search models")
            await search.fill(value)
            row = self.panel.get_by_role("option", selected=True)
            await expect(row.locator(".label")).to_have_text(value.rpartition("/")[2])
            await search.press("Enter")
        else:
            await picker.select_option(value)
        await expect(picker).to_have_attribute("data-value", value)

    @property
    def model(self) -> Locator:
        return self.panel.locator('[data-option="model"]')

    async def answer(self, option: str) -> None:
        """Click an answer, once the buttons take clicks; those that last are in a menu."""
        await self.expect_answerable()
        if await self.approval.locator(f'.menu [data-option="{option}"]').count():
            await self.approval.locator('[data-option="more"]').click()
        await self.approval.locator(f'[data-option="{option}"]').click()

    async def expect_answerable(self) -> None:
        """Wait until the question counts an answer; before that, keys and titles do nothing."""
        await expect(self.approval.locator('[data-option="reject"]')).to_be_enabled()

    async def hold(self, *conversations: tuple[str, str]) -> None:
        """Hold conversations, each a message and the answer to it; the last one stays open."""
        await self.open()
        for n, (words, answer) in enumerate(conversations):
            if n > 0:
                await self.start_anew()
            await self.say(words)
            await self.expect_answers(answer)

    async def expect_status(self, text: str) -> None:
        await expect(self.panel.locator(".status")).to_have_text(text)

    async def expect_answers(self, *texts: str) -> None:
        """Wait for all answers and the end of the turn, before which some requests are refused."""
        await expect(self.panel.locator(".agent")).to_have_text(texts)
        await expect(self.panel.get_by_label("Stop", exact=True)).to_be_hidden()

    async def width(self) -> float:
        """Return the width of the side panel."""
        return (await self._side_bar())["width"]

    async def set_width(self, width: float) -> None:
        """Drag the border. The panel's frame takes the mouse's moves until VS Code covers it."""
        box = await self._side_bar()
        x, y = box["x"] + box["width"], box["y"] + box["height"] - 80
        await self.page.mouse.move(x, y)
        await self.page.mouse.down()
        async with asyncio.timeout(WAIT_MS / 1000):
            while abs(await self.width() - width) > 1:
                await self.page.mouse.move(box["x"] + width + 5, y)
                await self.page.mouse.move(box["x"] + width, y)
        await self.page.mouse.up()
        await self.page.mouse.move(box["x"] + width + 300, y)

    async def _side_bar(self) -> FloatRect:
        box = await self.page.locator(".part.sidebar").bounding_box()
        assert box
        return box

    async def run_command(self, title: str) -> None:
        await self._choose("F1", f">{title}", expected_text=title)

    async def _choose(self, key: str, input_text: str, *, expected_text: str) -> None:
        """Choose from the list that the key opens.

        The key is lost while the focus goes elsewhere, and a panel that takes the focus late closes
        the list again.
        """
        field = self.page.locator('.quick-input-widget input[type="text"]')
        # Enter takes the row that has the list's focus, which comes later than its text.
        row = self.page.locator(
            ".quick-input-list .monaco-list-row.focused", has_text=expected_text
        )
        for _ in range(N_TRIES):
            await self.page.keyboard.press(key)
            with contextlib.suppress(WaitedTooLongError):
                await field.fill(input_text, timeout=WAIT_MS / N_TRIES)
                await row.wait_for(timeout=WAIT_MS / N_TRIES)
                return await field.press("Enter")
        raise AssertionError(await self.page.locator(".quick-input-widget").aria_snapshot())

    async def expect_editor(self, text: str) -> None:
        """Expect a text in the rendered lines of the open editor."""
        lines = self.page.locator(".editor-instance .view-lines").first
        await expect(lines).to_contain_text(text.replace(" ", "\u00a0"))

    async def focus_editor(self) -> None:
        """Focus the editor; keys go to the panel until the editor says that it has the focus."""
        await self.page.locator(".editor-instance .view-lines").first.click()
        await self._expect_editor_focused()

    async def _expect_editor_focused(self) -> None:
        """Wait until the editor has the focus.

        An editor takes the focus after its tab has appeared, also from what the test has focused
        meanwhile: what is then typed into the panel would end up in the file.
        """
        await self.page.locator(".editor-instance .monaco-editor.focused").first.wait_for()

    async def type_in_editor(self, text: str, *, at: str = "Control+End") -> None:
        await self.focus_editor()
        await self.page.keyboard.press(at)
        await self.page.keyboard.insert_text(text)


@asynccontextmanager
async def opened_window(server: Server, project: Path, llm: FakeLLM) -> AsyncGenerator[VSCode]:
    """Yield a window. The browser closes first, so that the extension host and its daemon end."""
    address = server.start()
    complaints: list[str] = []
    try:
        async with async_playwright() as playwright:
            await playwright.selectors.register("place", FIND_BY_PLACE)
            browser = await playwright.chromium.launch(
                executable_path=CHROMIUM, args=list(browser_options())
            )
            page = await new_page(browser, complaints, width=1200, height=900)
            window = VSCode(project, llm, server, address, page, complaints)
            try:
                yield window
            finally:
                await keep_last_sight(window, project.parent.name)
                await browser.close()
    finally:
        server.stop()
    assert complaints == []


async def expect_ended(*processes: psutil.Process) -> None:
    _, survivors = await asyncio.to_thread(psutil.wait_procs, processes, WAIT_MS / 1000)
    assert survivors == []


async def keep_last_sight(vscode: VSCode, name: str) -> None:
    """Write what the test has left to stderr, which pytest shows if the test has failed."""
    if LAST_SIGHT:
        await vscode.page.screenshot(path=Path(LAST_SIGHT) / f"{name}.png")
    last_messages = [
        str(each.body.get("messages", ())[-1:])[:N_SHOWN] for each in vscode.llm.requests
    ]
    with contextlib.suppress(PlaywrightError):
        last_messages.insert(0, await vscode.panel.locator("body").aria_snapshot(timeout=SIGHT_MS))
    last_messages += [
        each.read_text("utf-8", "replace")[-10 * N_SHOWN :]
        for each in vscode.server.home.glob("oh*/daemon.log")
    ]
    sys.stderr.write("\n".join(last_messages))


async def new_page(browser: Browser, complaints: list[str], *, width: int, height: int) -> Page:
    context = await browser.new_context(viewport={"width": width, "height": height})
    context.set_default_timeout(WAIT_MS)
    page = await context.new_page()

    def on_console(message: object) -> None:
        text = str(getattr(message, "text", ""))
        if "Content Security Policy" in text or "Refused to" in text:
            complaints.append(text)

    page.on("console", on_console)
    return page


def browser_options() -> Sequence[str]:
    return (
        "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync",
        "--disable-dev-shm-usage",
    )  # fmt: skip
