"""Text above the size that the daemon follows: the agent reads and edits it in Neovim."""

from pathlib import Path

import forked_daemons
import pytest
from fake_llm import call, say
from neovim_workspace import workspace_in

from oh_daemon.frontends.lsp.sync import MAX_DOCUMENT_BYTES

EDIT = {"command": "replace", "path": "large.txt", "old_text": "one", "new_text": "two"}


@pytest.mark.full
@pytest.mark.parametrize("is_grown", [False, True], ids=["opened large", "grown large"])
def test_unsaved_text_of_a_large_buffer_is_read_and_edited_there(
    tmp_path: Path, *, is_grown: bool
) -> None:
    with workspace_in(tmp_path, [*forked_daemons.command(), "--stdio"]) as setup:
        path, rest = setup.project / "large.txt", "x" * MAX_DOCUMENT_BYTES
        path.write_text("one\n" if is_grown else f"one\n2\n3\n4\n{rest}\n")
        on_disk = path.read_bytes()
        setup.script(call("edit", command="view", path="large.txt"), call("edit", **EDIT))
        setup.script(say("Done."))
        editor = setup.start(settings={"mode": "autoEdit"})
        buffer = editor.edit(path)
        editor.command("Oh toggle | wincmd t | stopinsert")
        editor.wait("(require('oh').status_table() or {}).status == 'ready'")
        buffer.append(["2", "3", "4", rest] if is_grown else ["typed"])
        editor.command("Oh edit it")
        editor.wait_for_event("TurnFinished")
        assert "typed" in buffer[:] or is_grown
        assert buffer[0] == "two"
        assert path.read_bytes() == on_disk
        editor.command("buffer large.txt | undo")
        assert buffer[0] == "one"
