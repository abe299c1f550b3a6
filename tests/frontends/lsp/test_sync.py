import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from oh_daemon.common.cancel import Cancelled, CancelToken
from oh_daemon.frontends.lsp.sync import MAX_DOCUMENT_BYTES, OpenDocuments
from oh_daemon.kernel.editor_ports import OpenDocument
from oh_daemon.workspace.files import sha256_of

WITHIN_S = 90.0


class Client:
    """The client's side of the synchronization of documents."""

    def __init__(self, *folders: Path) -> None:
        self.documents = OpenDocuments("utf-16", [folder.as_uri() for folder in folders])
        self._handlers = self.documents.notifications()

    def open(self, path: Path | str, text: str, version: int = 1) -> None:
        uri = path if isinstance(path, str) else path.as_uri()
        self._notify("didOpen", uri=uri, version=version, text=text)

    def change(self, path: Path, *changes: dict[str, Any], version: int | None = 2) -> None:
        params = {"uri": path.as_uri(), "version": version}
        self._handlers["textDocument/didChange"](
            {"textDocument": params, "contentChanges": list(changes)}
        )

    def close(self, path: Path) -> None:
        self._notify("didClose", uri=path.as_uri())

    def save(self, path: Path) -> None:
        self._notify("didSave", uri=path.as_uri())

    def change_folders(self, added_folders: list[Path], removed_folders: list[Path]) -> None:
        event = {
            "added": [{"uri": path.as_uri()} for path in added_folders],
            "removed": [{"uri": path.as_uri()} for path in removed_folders],
        }
        self._handlers["workspace/didChangeWorkspaceFolders"]({"event": event})

    def _notify(self, what: str, **value: Any) -> None:
        self._handlers[f"textDocument/{what}"]({"textDocument": value})


def in_background(run: Callable[[], object]) -> Callable[[], object]:
    """Start `run` on a thread; return a function that waits for its result or its `Cancelled`."""
    values: list[object] = []

    def work() -> None:
        try:
            values.append(run())
        except Cancelled as error:
            values.append(error)

    thread = threading.Thread(target=work)
    thread.start()

    def join() -> object:
        thread.join(WITHIN_S)
        return values[0]

    return join


def test_an_open_document_is_followed_until_it_is_closed(tmp_path: Path) -> None:
    client, path = Client(), tmp_path / "a.py"
    assert client.documents.document(path) is None
    client.open(path, "one\n")
    first = client.documents.document(path)
    client.change(path, {"text": "two\n"})
    second = OpenDocument(path, 2, "two\n")
    assert first == OpenDocument(path, 1, "one\n")
    assert client.documents.document(path) == second
    assert client.documents.documents() == (second,)
    client.close(path)
    assert client.documents.documents() == ()


def test_a_change_without_a_version_keeps_the_last_one(tmp_path: Path) -> None:
    client, path = Client(), tmp_path / "a.py"
    client.open(path, "one", version=7)
    client.change(path, {"text": "two"}, version=None)
    assert client.documents.document(path) == OpenDocument(path, 7, "two")


def test_a_file_opened_through_a_link_is_found_under_both_names(tmp_path: Path) -> None:
    client, path, link = Client(), tmp_path / "a.py", tmp_path / "link.py"
    path.touch()
    link.symlink_to(path)
    client.open(link, "through the link")
    assert client.documents.document(path) == OpenDocument(link, 1, "through the link")
    assert client.documents.uri_of(path) == link.as_uri()
    client.open(path, "by its name")
    assert client.documents.document(link) == OpenDocument(path, 1, "by its name")
    client.close(path)
    assert client.documents.document(path) == OpenDocument(link, 1, "through the link")


def test_the_uri_is_kept_letter_by_letter(tmp_path: Path) -> None:
    client = Client()
    client.open(f"file://{tmp_path}/a%2Db.py", "x")
    assert client.documents.uri_of(tmp_path / "a-b.py") == f"file://{tmp_path}/a%2Db.py"


@pytest.mark.parametrize("uri", ["untitled:Untitled-1", "oh-diff:/x", "file://host/x"])
def test_what_is_no_file_here_is_not_kept(uri: str) -> None:
    client = Client()
    client.open(uri, "x")
    assert client.documents.documents() == ()


def test_text_above_5_mib_is_unknown_but_for_a_text_that_was_read_until_its_next_change(
    tmp_path: Path,
) -> None:
    client, path = Client(), tmp_path / "big"
    largest = "é" * (MAX_DOCUMENT_BYTES // 2)
    client.open(path, largest)
    assert (client.documents.document(path) is None, client.documents.unknown_uri(path)) == (
        False,
        None,
    )
    for text in (f"{largest}x", "small again, but nobody knows the rest"):
        client.change(path, {"text": text})
        assert client.documents.document(path) is None
        assert client.documents.unknown_uri(path) == path.as_uri()
    client.documents.adopt(path.as_uri(), f"{largest}y", 3)
    client.change(path, {"text": "late"}, version=3)
    assert client.documents.document(path) == OpenDocument(path, 3, f"{largest}y")
    client.change(path, {"text": "z"}, version=4)
    assert client.documents.unknown_uri(path) == path.as_uri()
    client.close(path)
    assert client.documents.unknown_uri(path) is None
    client.open(path, f"{largest}x")
    assert client.documents.unknown_uri(path) == path.as_uri()


@pytest.mark.parametrize(
    "change",
    [{}, {"text": 5}, {"range": {}, "text": ""}, {"range": {"start": {}, "end": {}}, "text": ""}],
)
def test_a_change_that_cannot_be_understood_ends_the_following(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    client, path = Client(), tmp_path / "a.py"
    client.open(path, "one")
    with pytest.raises((KeyError, TypeError, AttributeError)):
        client.change(path, {"text": "two"}, change)
    assert client.documents.document(path) is None


@pytest.mark.parametrize(
    ("head", "names_left"), [(b'{"uri" : "%s"', ["b"]), (b'{"uri":"file:%%2f', []), (b"{", [])]
)
def test_after_a_lost_message_the_document_it_names_is_unknown(
    tmp_path: Path, head: bytes, names_left: list[str]
) -> None:
    client = Client()
    for name in ("a", "b"):
        client.open(tmp_path / name, name)
    uri = (tmp_path / "a").as_uri().replace("/", "\\/").encode()
    client.documents.on_lost_frame(head % uri if b"%s" in head else head)
    assert [document.text for document in client.documents.documents()] == names_left


def test_a_document_that_was_lost_is_known_by_its_uri_until_it_is_followed_again(
    tmp_path: Path,
) -> None:
    client, path = Client(), tmp_path / "a.py"
    client.open(path, "one")
    client.documents.on_lost_frame(b"{")
    assert client.documents.document(path) is None
    assert client.documents.unknown_uri(path) == path.as_uri()
    client.documents.follow(path.as_uri(), 7, "seven")
    assert client.documents.document(path) == OpenDocument(path, 7, "seven")
    assert client.documents.unknown_uri(path) is None


@pytest.mark.parametrize(
    ("event", "text"), [("change", "one two three"), ("save", "one"), ("other", "one two")]
)
def test_text_without_a_change_counts_until_the_client_reports_its_own(
    tmp_path: Path, event: str, text: str
) -> None:
    """The next change starts at the text before; a save shows that there was no change."""
    client, path = Client(), tmp_path / "a.py"
    client.open(path, "one")
    before = OpenDocument(path, 1, "one")
    assert client.documents.assume(before, "one and")
    assert not client.documents.assume(before, "one four")
    assert client.documents.assume(OpenDocument(path, 1, "one and"), "one two")
    end = {"line": 0, "character": 3}
    match event:
        case "change":
            change = {"range": {"start": end, "end": end}, "text": " two three"}
            client.change(path, change)
        case "save":
            client.save(path)
        case _:
            client.open(tmp_path / "b.py", "b")
    document = client.documents.document(path)
    assert document is not None
    assert document.text == text


def test_folders_follow_the_client(tmp_path: Path) -> None:
    first, second, third = (tmp_path / name for name in "abc")
    client = Client(first, second)
    client.change_folders([third, second], [first])
    assert client.documents.folders() == (third, second)


@pytest.mark.parametrize("is_open", [True, False])
def test_waiting_for_a_text_ends_when_it_is_there(tmp_path: Path, *, is_open: bool) -> None:
    client, path = Client(), tmp_path / "a.py"
    if is_open:
        client.open(path, "one")
    join = in_background(
        lambda: client.documents.wait_for_text(
            path, sha256_of("three"), timeout_s=WITHIN_S, cancel=CancelToken()
        )
    )
    client.open(path, "two")
    client.change(path, {"text": "three"})
    assert join() == OpenDocument(path, 2, "three")


def test_waiting_for_a_text_that_is_there_already_takes_no_time(tmp_path: Path) -> None:
    client, path = Client(), tmp_path / "a.py"
    client.open(path, "one")
    document = client.documents.wait_for_text(
        path, sha256_of("one"), timeout_s=0, cancel=CancelToken()
    )
    assert document == OpenDocument(path, 1, "one")


def test_waiting_for_a_text_that_does_not_come_ends_with_nothing(tmp_path: Path) -> None:
    client, path = Client(), tmp_path / "a.py"
    client.open(path, "one")
    sha256 = sha256_of("two")
    documents, token = client.documents, CancelToken()
    assert documents.wait_for_text(path, sha256, timeout_s=0.01, cancel=token) is None


def test_a_cancel_wakes_whoever_waits_for_a_text(tmp_path: Path) -> None:
    client, token = Client(), CancelToken()
    join = in_background(
        lambda: client.documents.wait_for_text(
            tmp_path / "a", "0", timeout_s=WITHIN_S, cancel=token
        )
    )
    token.cancel()
    assert isinstance(join(), Cancelled)
