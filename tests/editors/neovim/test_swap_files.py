"""Unsaved text in another Neovim of the user, which the daemon knows by its swap file."""

from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import forked_daemons
import pynvim
import pytest
from fake_llm import call, say
from neovim_editor import find_nvim
from neovim_workspace import workspace_in

from oh_daemon.workspace.swap_files import unsaved_elsewhere


@contextmanager
def another_neovim(file: Path, home: Path, directory: str = ".") -> Generator[pynvim.Nvim]:
    """Start a Neovim without the plugin that has typed into the file; end it by force."""
    options = ["--clean", "--cmd", f"set directory={directory}"]
    nvim = pynvim.attach(
        "child", argv=["env", f"HOME={home}", str(find_nvim()), "--embed", "--headless", *options]
    )
    try:
        nvim.command(f"edit {file}")
        nvim.current.buffer[0] = "typed"
        yield nvim
    finally:
        with suppress(OSError, EOFError):
            nvim.exec_lua("vim.uv.kill(vim.uv.os_getpid(), 'sigkill')")
        nvim.close()


@pytest.mark.parametrize("directory", [".", "{}", "{}//"])
@pytest.mark.parametrize("way", ["file", "link", "home"])
def test_text_counts_as_unsaved_elsewhere_until_it_is_saved_or_its_neovim_ends(
    tmp_path: Path, directory: str, way: str
) -> None:
    path, namesake, link = (tmp_path / name for name in ("one/a.txt", "two/one/a.txt", "link.txt"))
    swaps, home = tmp_path / "swaps", tmp_path if way == "home" else Path.home()
    for folder in (path.parent, namesake.parent, swaps):
        folder.mkdir(parents=True)
    for file in (path, namesake):
        file.write_text("old\n")
    link.symlink_to(path)
    buffer = link if way == "link" else path
    with another_neovim(buffer, home, directory.format(swaps)) as nvim:
        pid = nvim.call("getpid")
        [(other, swap)] = unsaved_elsewhere([path, namesake]).items()
        assert (other, swap.pid, swap.program) == (path, pid, "nvim")
        nvim.command("silent write")
        assert unsaved_elsewhere([path]) == {}
        nvim.current.buffer[0] = "more"
        assert unsaved_elsewhere([path]).keys() == {path}
    assert [*tmp_path.rglob("*.swp"), *tmp_path.rglob(".*.swp")], "a killed Neovim leaves it behind"
    assert unsaved_elsewhere([path]) == {}


def test_question_about_an_edit_names_unsaved_text_of_another_neovim(tmp_path: Path) -> None:
    with workspace_in(tmp_path, [*forked_daemons.command(), "--stdio"]) as setup:
        notes = setup.project / "notes.txt"
        notes.write_text("old\n", "utf-8")
        view = call("edit", command="view", path="notes.txt")
        edit = call("edit", command="replace", path="notes.txt", old_text="old", new_text="new")
        setup.script(view, edit, say("Rejected."), edit, say("Done."))
        editor = setup.start(settings={"mode": "autoEdit"})
        editor.set(swapfile=True, updatecount=200, directory=".")
        own_buffer = editor.edit(notes)
        with another_neovim(notes, setup.project) as other:
            editor.command("Oh change the notes")
            approval = editor.wait_for_event("ApprovalRequested")["approval"]
            pid = other.call("getpid")
            holder = f"nvim (process {pid}) holds unsaved text of 'notes.txt'"
            assert approval["reason"] == f"{holder}, which this does not include"
            editor.command("Oh reject")
            editor.wait_for_event("TurnFinished")
            assert notes.read_text("utf-8") == "old\n"
        editor.command("Oh again")
        editor.wait_for_event("TurnFinished", nth=2)
        assert (notes.read_text("utf-8"), own_buffer[:]) == ("new\n", ["new"])


@pytest.mark.parametrize(
    "is_running",
    [pytest.param(False, id="killed"), pytest.param(True, id="running", marks=pytest.mark.full)],
)
def test_keys_that_open_a_file_open_no_dialog(tmp_path: Path, *, is_running: bool) -> None:
    with (
        workspace_in(tmp_path, [*forked_daemons.command(), "--stdio"]) as setup,
        ExitStack() as stack,
    ):
        notes = setup.project / "notes.txt"
        create = call("edit", command="create", path="notes.txt", text="old\nnew\n")
        setup.script(create, say("Look at `notes.txt:2`."))
        editor = setup.start(settings={"mode": "autoEdit"})
        editor.edit(setup.file)
        # Neovim opens a dialog only on a screen.
        editor.nvim.ui_attach(100, 30)
        editor.set(swapfile=True, updatecount=200, directory=".")
        editor.command("Oh make notes")
        editor.wait_for_chat("Look at `notes.txt:2`.")
        stack.enter_context(another_neovim(notes, setup.project))
        if not is_running:
            stack.close()
        for keys in ("review", "chat"):
            if keys == "review":
                editor.command("Oh diff")
                editor.wait("vim.bo.filetype == 'oh-review' and vim.fn.line('$') == 2")
                editor.type("Ggf")
            else:
                editor.focus("oh-chat")
                editor.type("gg/notes.txt:2<CR>gf")
            assert editor.nvim.api.get_mode()["blocking"] is False, keys
            is_open = editor.lua(
                "return { vim.fn.expand('%:t'), vim.fn.line('.'), vim.bo.readonly }"
            )
            assert is_open == ["notes.txt", 2, not is_running]
            assert ("is opened read-only" in editor.messages()) == (not is_running)
            editor.command("messages clear | tabfirst | tabonly | bwipeout! notes.txt")
