"""Measures the panel in a real VS Code: prints a Markdown table, then the same as JSON.

`make bench-vscode` runs it, with BENCH_ARGS="typing coloring" only these parts. Asserts nothing.
The browser draws at most 60 frames per second, so no frame is shorter than 17 ms.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from code_server import WAIT_MS, Server, install_extension
from fake_llm import FakeLLM, Step, chunks, say, slow
from long_log import repeat_turn
from measure import Figure, ms, p50, p99, render_json, render_table
from mixed_turn import FILE, LAST_WORDS, TEXT, mixed_turn
from playwright.async_api import Frame, expect
from window import VSCode, opened_window

N_EVENTS = 20_000
N_TIMES = 9
DOUBLE_CLICK_S = 0.4
N_KEYS = 100
N_LINES = 500
LOAD_ALL = """async () => {
  // In the page: the driver looks whether a page has come only now and then.
  const earlier = document.querySelector(".earlier");
  const started = performance.now();
  while (!earlier.hidden) {
    const top = document.querySelector("[data-item]");
    earlier.click();
    while (document.querySelector("[data-item]") === top) await new Promise(requestAnimationFrame);
  }
  return (performance.now() - started) / 1000;
}"""
TO_END = """async () => {
  const scroller = document.querySelector(".scroller");
  scroller.scrollTop = scroller.scrollHeight;
  // The browser clears up after the change of all that it shows.
  await new Promise((done) => setTimeout(done, 1000));
}"""
MAKE_PLAIN = """() => {
  const log = document.querySelector(".scroller .log");
  const shown = [...log.querySelectorAll("[data-item]:not([hidden])")];
  log.replaceChildren(...shown.map(({textContent}) =>
    Object.assign(document.createElement("p"), {textContent})));
}"""
SCROLL_UP = """async (step) => {
  const scroller = document.querySelector(".scroller");
  const frame = () => new Promise(requestAnimationFrame);
  const frames = [];
  let last = await frame();
  for (let n = 0; n < 300; n++) {
    scroller.scrollTop -= step;
    const now = await frame();
    frames.push(now - last);
    last = now;
  }
  return frames;
}"""
SPEEDS = {"a fling": 300, "the bar dragged": 1500}
"""How far one frame scrolls, in pixels. A hand flings 3,000 to 18,000 a second."""
WATCH_OPENING = """() => {
  // Timers outlive VS Code's writing of the page; listeners of the document and frames do not.
  const timer = setInterval(() => {
    const now = performance.timeOrigin + performance.now();
    if (document.querySelector("textarea.input")) window.inputAt ??= now;
    if (!document.querySelector(".log .agent")) return;
    window.conversationAt = now;
    clearInterval(timer);
  }, 1);
  window.addEventListener("pointerdown", (event) => {
    window.pressedAt = performance.timeOrigin + event.timeStamp;
  }, true);
}"""
WATCH_COLORS = """() => {
  const found = {};
  window.colored = new Promise((done) => new MutationObserver(() => {
    const code = document.querySelector(".code-block code");
    if (code) found.shown ??= performance.now();
    if (code?.querySelector(".token")) done((performance.now() - found.shown) / 1000);
  }).observe(document.body, {subtree: true, childList: true}));
}"""
OPENED = """async () => {
  while (!window.conversationAt) await new Promise(requestAnimationFrame);
  return [window.inputAt, window.conversationAt];
}"""
WATCH_KEYS = """() => {
  window.latencies = [];
  let pressed;
  window.addEventListener("keydown", (event) => { pressed = event.timeStamp; }, true);
  const onText = () => {
    if (pressed === undefined) return;
    const since = pressed;
    pressed = undefined;
    requestAnimationFrame(() => window.latencies.push(performance.now() - since));
  };
  document.querySelector("textarea.input")?.addEventListener("input", onText);
  const lines = document.querySelector(".editor-instance .view-lines");
  const all = {subtree: true, childList: true, characterData: true};
  if (lines) new MutationObserver(onText).observe(lines, all);
}"""
"""In the workbench the editor's lines are watched, in the panel its input."""


async def main() -> None:
    expect.set_options(timeout=WAIT_MS)
    figures = [figure async for figure in measure()]
    print(render_table(figures))
    print()
    print(render_json(figures))


async def measure() -> AsyncIterator[Figure]:
    with tempfile.TemporaryDirectory(prefix="oh-bench-") as folder:
        extensions = Path(folder, "extensions")
        await asyncio.to_thread(install_extension, Path(folder, "installer"), extensions)
        for part in (opening, scrolling, typing, coloring):
            if sys.argv[1:] and part.__name__ not in sys.argv:
                continue
            sys.stderr.write(f"measuring {part.__name__} …\n")
            with tempfile.TemporaryDirectory(prefix="oh-bench-") as place:
                async for figure in part(Path(place), extensions):
                    yield figure


async def opening(place: Path, extensions: Path) -> AsyncIterator[Figure]:
    """Show a hidden panel, whose page is built anew, while the daemon runs.

    The pages measure the time, because the driver looks for a frame only every 100 ms.
    """
    async with window(place, extensions, say("Done.")) as (vscode, _):
        await vscode.page.add_init_script(f"({WATCH_OPENING})()")
        await vscode.open()
        await vscode.say("go")
        answer = vscode.panel.locator(".agent")
        await expect(answer).to_have_text("Done.")
        times: list[tuple[float, float]] = []
        floors: list[float] = []
        for _ in range(N_TIMES):
            # VS Code treats two clicks on a tab within 300 ms as a double click.
            await asyncio.sleep(DOUBLE_CLICK_S)
            start_s = time.perf_counter()
            await vscode.page.get_by_role("tab", name="Search").click()
            await vscode.page.locator(".search-view").wait_for()
            floors.append(time.perf_counter() - start_s)
            await vscode.page.get_by_role("tab", name="oh", exact=True).click()
            await answer.wait_for()
            pressed_ms: float = await vscode.page.evaluate("() => window.pressedAt")
            usable, shown_ms = await vscode.frame().evaluate(OPENED)
            times.append(((usable - pressed_ms) / 1000, (shown_ms - pressed_ms) / 1000))
    floor = f"VS Code's own search view {ms(p50(floors))}"
    usable, shown_ms = (ms(p50(list(each))) for each in zip(*times, strict=True))
    name = "click to a panel that takes input / with its conversation, daemon runs, p50"
    yield Figure(name, f"{usable} / {shown_ms}", "< 300 ms", floor)


async def scrolling(place: Path, extensions: Path) -> AsyncIterator[Figure]:
    async with window(place, extensions, *mixed_turn()) as (vscode, server):
        (vscode.project / FILE).write_text(TEXT)
        await vscode.open()
        await vscode.choose("mode", "full")
        await vscode.say("Make the prices right.")
        await expect(vscode.panel.locator(".agent").last).to_contain_text(LAST_WORDS)
        await vscode.close_and_grow(server.daemon(), N_EVENTS, repeat_turn)
        await vscode.open()
        await expect(vscode.panel.locator(".earlier")).to_be_visible()
        all_s: float = await vscode.frame().evaluate(LOAD_ALL)
        frames = await _scroll_up(vscode)
        await vscode.frame().evaluate(MAKE_PLAIN)
        floors = await _scroll_up(vscode)
    for speed, step in SPEEDS.items():
        name = f"worst of 300 scroll frames, {N_EVENTS:,} events, {speed} ({step:,} px a frame)"
        floor = f"the same text as plain paragraphs {floors[speed]}"
        yield Figure(name, frames[speed], "< 50 ms", floor)
    yield Figure("all of them loaded backwards, page by page", f"{all_s:.1f} s", "", "")


async def _scroll_up(vscode: VSCode) -> dict[str, str]:
    """Scroll from the end, at each speed on from where the last one came to."""
    await vscode.frame().evaluate(TO_END)
    text_by_place: dict[str, str] = {}
    for speed, step in SPEEDS.items():
        frames: list[float] = await vscode.frame().evaluate(SCROLL_UP, step)
        text_by_place[speed] = f"{max(frames):.0f} ms, p50 {statistics.median(frames):.0f} ms"
    return text_by_place


async def typing(place: Path, extensions: Path) -> AsyncIterator[Figure]:
    """Type into a file and into the panel, without a turn and beside one that streams."""
    async with window(place, extensions, slow(chunks(100_000, "word "), 0.01)) as (vscode, _):
        await vscode.open(file="notes.txt")
        frames = {"a file": vscode.page.main_frame, "the panel": vscode.frame()}
        for frame in frames.values():
            await frame.evaluate(WATCH_KEYS)
        quiet = {where: await _latencies(vscode, frame) for where, frame in frames.items()}
        await vscode.say("talk")
        await expect(vscode.panel.locator(".agent")).to_contain_text("word word")
        streaming = {where: await _latencies(vscode, frame) for where, frame in frames.items()}
    for where, times in streaming.items():
        latency = f"{ms(p50(times))} / {ms(p99(times))}"
        floor = f"without a turn {ms(p50(quiet[where]))} / {ms(p99(quiet[where]))}"
        name = f"key to painted text in {where} while 100 deltas/s stream, p50 / p99"
        yield Figure(name, latency, "", floor)


async def coloring(place: Path, extensions: Path) -> AsyncIterator[Figure]:
    """Show the same code twice: the first time, the language's grammar is read."""
    lines = (Path(__file__).read_text().splitlines() * 2)[:N_LINES]
    code = "\n".join(["```python", *lines, "```"])
    times: list[float] = []
    async with window(place, extensions, say(code), say(code)) as (vscode, _):
        await vscode.open()
        for n in range(2):
            if n > 0:
                await vscode.start_anew()
            await vscode.frame().evaluate(WATCH_COLORS)
            await vscode.say("show it")
            times.append(await vscode.frame().evaluate("() => window.colored"))
    name = f"{N_LINES} lines of code to their colors, the first of a language / later ones"
    yield Figure(name, " / ".join(map(ms, times)), "", "")


async def _latencies(vscode: VSCode, frame: Frame) -> list[float]:
    if frame is vscode.page.main_frame:
        await vscode.focus_editor()
    else:
        await vscode.input.fill("")
    await frame.evaluate("() => { window.latencies = []; }")
    for n in range(N_KEYS):
        await vscode.page.keyboard.press("x")
        await frame.wait_for_function("(n) => window.latencies.length > n", arg=n)
    times: list[float] = await frame.evaluate("() => window.latencies")
    return [each / 1000 for each in times]


@asynccontextmanager
async def window(
    place: Path, extensions: Path, *script: Step
) -> AsyncGenerator[tuple[VSCode, Server]]:
    project = place / "project"
    project.mkdir()
    (project / "notes.txt").write_text("")
    with FakeLLM(list(script)) as llm:
        server = Server.with_model(place / "home", extensions, llm.url)
        async with opened_window(server, project, llm) as actual_window:
            yield actual_window, server


if __name__ == "__main__":
    asyncio.run(main())
