"""The client's files through ACP, as an editor: what it does if the client does not answer."""

from pathlib import Path
from typing import Any

from oh_daemon.common.cancel import CancelToken
from oh_daemon.frontends.acp.client_facts import AcpClientFacts
from oh_daemon.frontends.acp.editor import ClientFiles, ClientQuirks, quirks_of
from oh_daemon.jsonrpc.client import ClientAnswer
from oh_daemon.kernel.editor_ports import TextEdit

FS = {"fs": {"readTextFile": True, "writeTextFile": True}}


class Answers:
    """The requests to a client, and what becomes of them."""

    def __init__(self, *answers: ClientAnswer) -> None:
        self.requests: list[str] = []
        self._answers = iter(answers)

    def __call__(self, method: str, _params: Any, **_how: Any) -> ClientAnswer:
        self.requests.append(method)
        return next(self._answers)


def files(answers: Answers, folder: Path, *, is_heard: bool = True) -> ClientFiles:
    habits = ClientQuirks(takes_writes=True)
    return ClientFiles(answers, "session", [folder], lambda: is_heard, habits)


def test_a_client_that_hangs_is_not_asked_again_for_a_while(tmp_path: Path) -> None:
    path, answers = tmp_path / "a.py", Answers(ClientAnswer("deadline"))
    path.write_text("x\n")
    editor = files(answers, tmp_path)
    assert editor.document(path) is None
    assert editor.document(tmp_path / "b.py") is None
    assert not editor.create(tmp_path / "c.py", "y\n", cancel=CancelToken())
    assert answers.requests == ["fs/read_text_file"]


def test_a_write_that_hangs_is_no_write(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("x\n")
    client_answer = ClientAnswer("answered", result={"content": "y\n"})
    editor = files(Answers(client_answer, client_answer, ClientAnswer("deadline")), tmp_path)
    document = editor.document(path)
    assert document is not None
    assert editor.documents() == (document,)
    edits = [TextEdit(0, 1, "z")]
    cancel = CancelToken()
    outcome = editor.apply_edit(document, edits, label="", save=True, cancel=cancel)
    assert (outcome.is_applied, outcome.failure) == (False, "timeout")


def test_outside_a_prompt_and_outside_the_folders_nothing_is_asked(tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "a.py"
    inside.mkdir()
    outside.write_text("x\n")
    (inside / "b.py").write_text("x\n")
    answers = Answers()
    assert files(answers, inside).document(outside) is None
    assert files(answers, inside, is_heard=False).document(inside / "b.py") is None
    assert answers.requests == []


def test_text_of_a_file_that_is_too_large_to_be_asked_for_is_unknown(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("small.txt", "large.txt", "new.txt")]
    for path, n_bytes in zip(paths, (1, 6 << 20), strict=False):
        path.write_bytes(b"x" * n_bytes)
    editor = files(Answers(), tmp_path)
    assert [editor.is_unknown(path) for path in paths] == [False, True, False]


def test_only_clients_whose_ways_are_known_are_written_to() -> None:
    quirks = {
        name: quirks_of(AcpClientFacts(name, FS))
        for name in ("Zed", "JetBrains IDE", "CodeCompanion.nvim", "acpx", "")
    }
    assert quirks == {
        "Zed": ClientQuirks(reads_buffers=True, takes_writes=True),
        "JetBrains IDE": ClientQuirks(reads_buffers=True, takes_writes=True),
        "CodeCompanion.nvim": ClientQuirks(reads_buffers=False, takes_writes=False),
        "acpx": ClientQuirks(reads_buffers=True, takes_writes=False),
        "": ClientQuirks(reads_buffers=True, takes_writes=False),
    }
    assert quirks_of(AcpClientFacts("zed", {})) == ClientQuirks(
        reads_buffers=False, takes_writes=False
    )
