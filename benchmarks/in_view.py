"""Measures commands in a sandbox: their start, the unsaved texts before, the changes after."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import orjson
from measure import Figure, ms, p50, time_of
from scripted_editor import ScriptedEditor

from oh_daemon.common.cancel import CancelToken
from oh_daemon.common.masking import Masker
from oh_daemon.features.language.language import unwatched
from oh_daemon.features.pending_changes.pending_changes import PendingChanges
from oh_daemon.features.pending_changes.shared_overlay import SharedOverlay
from oh_daemon.features.sandbox import bwrap
from oh_daemon.features.sandbox.mounts import SandboxMounts
from oh_daemon.features.sandbox.overlay import OverlaySandbox
from oh_daemon.features.terminal.shell import Shells
from oh_daemon.kernel.ports import ToolContext
from oh_daemon.protocol.checkpoints import ChangesPlanned
from oh_daemon.storage.blobs import Blobs
from oh_daemon.storage.memory_log import MemoryLog
from oh_daemon.system.spawner import Spawner
from oh_daemon.workspace.concurrent_edits import PathLocks
from oh_daemon.workspace.documents import Documents
from oh_daemon.workspace.edit_history import EditHistory
from oh_daemon.workspace.paths import Folders

N_STARTS, N_BUFFERS, N_FILES = 9, 50, 5_000


class _Log(MemoryLog):
    """A log whose blobs are on the disk, as a conversation's are."""

    def __init__(self, blobs: Path) -> None:
        super().__init__()
        blobs.mkdir()
        store = Blobs(blobs)
        self.put_blob, self.read_blob = store.put, store.read


@dataclass
class _Workspace:
    project: Path
    editor: ScriptedEditor
    documents: Documents
    pending: PendingChanges
    shells: Shells

    def run(self, command: str) -> None:
        self.pending.begin()
        self.shells.open().run(command, timeout_s=600, cancel=CancelToken())


@contextmanager
def _workspace(host: Spawner) -> Generator[_Workspace]:
    with tempfile.TemporaryDirectory() as place:
        project = Path(place, "project")
        project.mkdir()
        editor, folders = ScriptedEditor(), Folders((project,))
        history = EditHistory(folders, _Log(Path(place, "blobs")))
        documents = Documents(folders, editor, history, PathLocks())
        program = next(bwrap.candidates(os.environ["PATH"], [project]))
        view = OverlaySandbox(
            host, SandboxMounts(program, [project], [], [Path("/run")]), Path(place, "views/one")
        )
        shells = Shells(view.spawner, project, lambda: os.environ, sandbox=view)
        overlay, replaced = SharedOverlay(view), Path(place, "replaced")
        pending = PendingChanges(overlay, shells, documents, unwatched, host, replaced)
        try:
            yield _Workspace(project, editor, documents, pending, shells)
        finally:
            shells.close()
            view.close()


def view_start() -> Iterator[Figure]:
    host = Spawner()
    firsts: list[float] = []
    laters: list[float] = []
    firsts_off: list[float] = []
    laters_off: list[float] = []
    for _ in range(N_STARTS):
        with _workspace(host) as workspace:
            firsts.append(time_of(lambda: workspace.run("true")))
            laters += [time_of(lambda: workspace.run("true")) for _ in range(20)]
            off = Shells(host, workspace.project, lambda: os.environ)

            run = partial(_run_off, off)
            firsts_off.append(time_of(run))
            laters_off += [time_of(run) for _ in range(20)]
            off.close()
    host.close()
    more = p50(firsts) - p50(firsts_off)
    floor = f"off {ms(p50(firsts_off))}"
    yield Figure("first command of a conversation, more than off", ms(more), "< 60 ms", floor)
    more = p50(laters) - p50(laters_off)
    yield Figure("later commands, more than off", ms(more), "< 2 ms", f"off {ms(p50(laters_off))}")


def _run_off(shells: Shells) -> None:
    shells.open().run("true", timeout_s=600, cancel=CancelToken())


def view_buffers() -> Iterator[Figure]:
    host, times = Spawner(), list[float]()
    with _workspace(host) as workspace:
        paths = [workspace.project / f"{n}.py" for n in range(N_BUFFERS)]
        for path in paths:
            path.write_text("x = 1\n" * 100)
            workspace.editor.open(path)
        workspace.run("true")
        for n in range(9):
            for path in paths:
                workspace.editor.type(path, f"x = {n}\n" * 100)
            times.append(time_of(workspace.pending.begin))
        floor = time_of(lambda: [path.write_text("x = 1\n" * 100) for path in paths])
    host.close()
    yield Figure("50 unsaved buffers put in", ms(p50(times)), "< 40 ms", f"write them {ms(floor)}")


def view_landing() -> Iterator[Figure]:
    host = Spawner()
    with _workspace(host) as workspace:
        paths = [workspace.project / f"d{n // 100}/f{n}.py" for n in range(N_FILES)]
        for path in paths:
            path.parent.mkdir(exist_ok=True)
            path.write_text("".join(f"x{line} = {line}\n" for line in range(20)))
        workspace.run("find . -name '*.py' | xargs sed -i 's/ = /=/'")
        start_s = time.perf_counter()
        plans: list[ChangesPlanned] = []
        workspace.pending.collect(
            {"exitCode": 0, "content": []}, lambda plan: not plans.append(plan)
        )
        kept_s = time.perf_counter() - start_s
        event = plans[0].model_dump_json(by_alias=True, exclude_none=True)
        start_s = time.perf_counter()
        tool = workspace.pending.tool(orjson.loads(event), asks=True)
        tool.plan({})
        tool.run({}, ToolContext("c", "i", CancelToken(), lambda _: None, Masker()))
        landed_s = time.perf_counter() - start_s
        texts = [path.read_text() for path in paths]
        floor_s = time_of(
            lambda: [p.write_text(text) for p, text in zip(paths, texts, strict=True)]
        )
    host.close()
    size = f"{len(event) / len(paths):.0f} bytes of log per file"
    yield Figure("5,000 changed files kept as a plan", f"{kept_s:.1f} s", "seconds", size)
    floor = f"write them unsynced {floor_s:.1f} s"
    yield Figure("5,000 changed files landed", f"{landed_s:.1f} s", "seconds", floor)
