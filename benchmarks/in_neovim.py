"""Measures Neovim beside a busy agent: opening a long log, typing while an answer streams.

Everything is real except the model. Without an installed Neovim there are no figures.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
from fake_llm import call, chunks, hang, say, slow
from long_log import grow
from measure import Figure, ms, p50, p99
from neovim_editor import Neovim, find_nvim
from neovim_workspace import Workspace, workspace_in

N_EVENTS = 5000
N_LONG_EVENTS = 3400
N_KEYS = 300
_KEY_PAUSE_S = 0.01
_CHUNK_PAUSE_S = 0.01


@contextmanager
def _workspace() -> Generator[Workspace]:
    with (
        tempfile.TemporaryDirectory(prefix="oh-bench-") as folder,
        workspace_in(Path(folder)) as workspace,
    ):
        yield workspace


def neovim() -> Iterator[Figure]:
    if find_nvim() is None:
        sys.stderr.write("no Neovim here, so no figures of it\n")
        return
    yield from _opening()
    yield from _long_outputs()
    yield from _typing()


def _opening() -> Iterator[Figure]:
    with _workspace() as workspace:
        _log_of(workspace, "echo one; echo two", N_EVENTS)
        editor, start_s = _open_last(workspace)
        editor.wait(f"#(require('oh').conversation() or {{ entries = {{}} }}).entries > {_ITEMS}")
        editor.wait(f"vim.api.nvim_buf_line_count({_CHAT}) > {N_EVENTS}")
        opened_s = time.perf_counter() - start_s
        floor = f"the same lines into an empty buffer {ms(_set_lines_s(editor))}"
    yield Figure(f"Neovim shows {N_EVENTS:,} events", f"{opened_s:.2f} s", "< 1.5 s", floor)


def _long_outputs() -> Iterator[Figure]:
    """Open a log of long outputs, each of them another text."""
    with _workspace() as workspace:
        log = _log_of(workspace, "seq 1 6000", N_LONG_EVENTS)
        records = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
        for record in records:
            for part in record.get("event", {}).get("item", {}).get("content") or ():
                part["text"] = f"{record['seq']}\n{part['text']}"
        log.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
        size_mb = log.stat().st_size / 1e6
        editor, start_s = _open_last(workspace)
        process = psutil.Process(editor.pid)
        before = process.memory_info().rss
        editor.wait("#(require('oh').conversation() or { entries = {} }).entries > 9")
        assert "Run seq 1 6000" in editor.screen()
        readable_s = time.perf_counter() - start_s
        editor.wait(f"vim.api.nvim_buf_line_count({_CHAT}) > {N_LONG_EVENTS - 50}")
        whole_s = time.perf_counter() - start_s
        more_mb = (process.memory_info().rss - before) / 1e6
    name = f"Neovim opens {size_mb:.0f} MB of output: readable / whole"
    yield Figure(name, f"{readable_s:.2f} s / {whole_s:.2f} s", "< 1 s readable", "")
    yield Figure("memory of Neovim for that", f"+{more_mb:.0f} MB", "< 100 MB", "")


def _log_of(workspace: Workspace, command: str, n_events: int) -> Path:
    """Make a conversation with this command, over and over; return its log."""
    workspace.script(call("terminal", command=command), say("Ready."))
    editor = workspace.start(settings={"approval": "askNever"})
    editor.edit(workspace.file)
    editor.command("Oh begin")
    editor.wait_for_event("TurnFinished")
    editor.quit()
    [log] = (workspace.project / ".openhands/conversations").glob("*/events.jsonl")
    grow(log, n_events)
    return log


def _open_last(workspace: Workspace) -> tuple[Neovim, float]:
    """Choose the last conversation in a new editor; return also when."""
    editor = workspace.start()
    editor.edit(workspace.file)
    editor.command("Oh toggle")
    editor.wait_for_event("Started")
    editor.lua("""
    vim.ui.select = function(items, _, choose)
      _G.choose = function() choose(items[1]) end
    end
    """)
    editor.command("Oh conversations")
    editor.wait("_G.choose ~= nil")
    start_s = time.perf_counter()
    editor.lua("_G.choose()")
    return editor, start_s


_ITEMS = N_EVENTS // 2 - 10
_CHAT = "require('oh.chat').of(require('oh').conversation()).buf"


def _set_lines_s(editor: Neovim) -> float:
    nanoseconds: int = editor.lua(f"""
    local lines = vim.api.nvim_buf_get_lines({_CHAT}, 0, -1, false)
    local buf = vim.api.nvim_create_buf(false, true)
    local started = vim.uv.hrtime()
    vim.api.nvim_buf_set_lines(buf, 0, -1, false, lines)
    return vim.uv.hrtime() - started
    """)
    return nanoseconds / 1e9


def _typing() -> Iterator[Figure]:
    with _workspace() as workspace:
        # The answer never ends, so that text streams for as long as keys are pressed.
        workspace.script(slow(hang(chunks(20_000, "word `x` ")), _CHUNK_PAUSE_S))
        editor = workspace.start()
        editor.nvim.ui_attach(120, 40, rgb=True)
        editor.edit(workspace.file)
        editor.command("Oh toggle")
        editor.wait_for_event("Started")
        editor.type("<Esc>")
        editor.command("wincmd t")
        idle_times = _latencies(editor)
        editor.command("Oh write a lot")
        editor.wait_for_chat("word")
        busy_times = _latencies(editor)
        text = editor.chat().count("word")
    latency = f"{ms(p50(busy_times))} / {ms(p99(busy_times))}"
    floor = f"the same without it {ms(p50(idle_times))} / {ms(p99(idle_times))}"
    name = f"key pressed in Neovim while {text:,} chunks stream, p50 / p99"
    yield Figure(name, latency, "", floor)


def _latencies(editor: Neovim) -> list[float]:
    """Return the time from each key press until Neovim has handled it and answers again."""
    editor.type("Go")
    times: list[float] = []
    for _ in range(N_KEYS):
        start_s = time.perf_counter()
        editor.type("x")
        editor.nvim.eval("1")
        times.append(time.perf_counter() - start_s)
        time.sleep(_KEY_PAUSE_S)
    editor.type("<Esc>")
    return times
