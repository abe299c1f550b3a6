"""Listing and finding conversations without opening their logs."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from oh_daemon.kernel.folding import fold
from oh_daemon.kernel.ports import Json
from oh_daemon.protocol.errors import ConversationNotFoundError, ReadOnlyError
from oh_daemon.storage.catalog import Catalog, summary_of
from oh_daemon.storage.commit import CommitThread
from oh_daemon.storage.event_log import open_log
from oh_daemon.storage.log_scan import LOG_NAME, read_log


def lines(title: str, minute: int = 0) -> bytes:
    agent = {"model": "m", "label": "M", "systemPrompt": "", "tools": []}
    events: list[Json] = [
        {
            "type": "conversation.created",
            "title": title,
            "folders": ["/w"],
            "agent": agent,
            "options": {"mode": "ask"},
            "maxSteps": 100,
        },
        {"type": "status.changed", "from": "idle", "to": "finished"},
    ]
    return b"".join(
        orjson.dumps({"v": 2, "seq": seq, "ts": f"2026-01-01T00:{minute:02}:00.000Z", "event": e})
        + b"\n"
        for seq, e in enumerate(events, 1)
    )


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "project" / ".openhands"


@pytest.fixture
def catalog(home: Path) -> Catalog:
    return Catalog(home)


@pytest.fixture
def commit() -> Iterator[CommitThread]:
    thread = CommitThread()
    yield thread
    thread.close()


def add(catalog: Catalog, commit: CommitThread, name: str, minute: int = 0) -> Path:
    folder = catalog.create(name)
    log = open_log(folder, commit, create=True).log
    log.append(lines(f"title of {name}", minute))
    log.close()
    return folder


def titles(catalog: Catalog) -> list[str]:
    return [summary["title"] for summary in catalog.summaries()]


def test_a_new_conversation_is_found_and_private(catalog: Catalog, commit: CommitThread) -> None:
    folder = add(catalog, commit, "a1")
    assert catalog.find_folder("a1") == folder
    for path in (folder, folder.parent):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700


def test_git_ignores_conversations_and_memory_unless_the_user_edits_it(
    catalog: Catalog, home: Path
) -> None:
    catalog.create("a1")
    assert (home / ".gitignore").read_text() == "conversations/\nmemory/\n.gitignore\n"
    (home / ".gitignore").write_text("")
    catalog.create("a2")
    assert (home / ".gitignore").read_text() == ""


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../x", "a\0b", "a\n", "ä", "x" * 129])
def test_an_id_that_is_a_path_trick_finds_nothing_and_makes_nothing(
    catalog: Catalog, home: Path, name: str
) -> None:
    catalog.create("ok")
    assert catalog.find_folder(name) is None
    with pytest.raises(ConversationNotFoundError):
        catalog.create(name)
    assert [path.name for path in (home / "conversations").iterdir()] == ["ok"]


def test_an_empty_catalog_lists_nothing(catalog: Catalog, home: Path) -> None:
    assert catalog.summaries() == []
    assert catalog.find_folder("a1") is None
    assert not home.exists()


def test_the_list_is_newest_first_and_made_from_the_logs(
    catalog: Catalog, commit: CommitThread
) -> None:
    for name, minute in (("old", 1), ("newest", 9), ("middle", 5)):
        add(catalog, commit, name, minute)
    assert titles(catalog) == ["title of newest", "title of middle", "title of old"]
    folder = catalog.find_folder("newest")
    assert folder is not None
    assert catalog.summaries()[0] == summary_of(fold("newest", read_log(folder)))


def test_a_current_summary_is_taken_without_reading_the_log(
    catalog: Catalog, commit: CommitThread
) -> None:
    folder = add(catalog, commit, "a1")
    summary_kept = {**summary_of(fold("a1", read_log(folder))), "title": "kept"}
    catalog.write_meta("a1", summary_kept)
    assert catalog.summaries() == [summary_kept]
    # Versions before did not count the files; to count them now would read every log.
    del summary_kept["fileCount"]
    catalog.write_meta("a1", summary_kept)
    assert catalog.summaries() == [summary_kept]


@pytest.mark.parametrize(
    "meta",
    [
        *(None, b"", b"{", b"[]", b"7", b"\xff", b"{}", b'{"title":"old","lastSeq":2}'),
        *(b'"title":5', b'"folders":"x"', b'"status":"odd"', b'"archived":null', b'"usage":[1]'),
    ],
)
def test_a_summary_that_is_missing_or_corrupt_is_made_again(
    catalog: Catalog, commit: CommitThread, meta: bytes | None
) -> None:
    folder = add(catalog, commit, "a1")
    if meta is not None:
        if meta.startswith(b'"'):  # One field of a whole summary.
            full_summary = summary_of(fold("a1", read_log(folder)))
            meta = orjson.dumps({**full_summary, **orjson.loads(b"{%b}" % meta)})
        (folder / "meta.json").write_bytes(meta)
    assert titles(catalog) == ["title of a1"]
    assert orjson.loads((folder / "meta.json").read_bytes())["lastSeq"] == 2
    assert stat.S_IMODE((folder / "meta.json").stat().st_mode) == 0o600


def test_a_pipe_in_place_of_a_summary_holds_nobody_up(
    catalog: Catalog, commit: CommitThread
) -> None:
    folder = add(catalog, commit, "a1")
    os.mkfifo(folder / "meta.json")
    assert titles(catalog) == ["title of a1"]


def test_a_summary_behind_its_log_is_made_again(catalog: Catalog, commit: CommitThread) -> None:
    folder = add(catalog, commit, "a1")
    stale_summary = {**summary_of(fold("a1", read_log(folder))), "title": "stale", "lastSeq": 1}
    catalog.write_meta("a1", stale_summary)
    assert titles(catalog) == ["title of a1"]


def test_what_cannot_be_read_does_not_hide_the_others(
    catalog: Catalog, commit: CommitThread, home: Path
) -> None:
    add(catalog, commit, "good")
    catalog.create("empty-folder")
    (home / "conversations" / "a-file").touch()
    catalog.create("piped")
    os.mkfifo(home / "conversations" / "piped" / LOG_NAME)
    (home / "conversations" / "not an id").mkdir()
    senseless = catalog.create("senseless") / LOG_NAME
    senseless.write_bytes(b'{"v":2,"seq":1,"ts":"","event":{"type":"conversation.created"}}\n')
    (add(catalog, commit, "odd") / LOG_NAME).write_bytes(lines("x").replace(b'"x"', b"5"))
    assert titles(catalog) == ["title of good"]


@pytest.mark.parametrize(
    "planted_data",
    [b"[1]", b"7", b"\xff", b'{"pid":"1"}', b'{"pid":-1}', b'{"pid":9e9}', b'{"pid":%d}'],
)
def test_a_lock_that_a_repository_brings_names_no_owner(
    catalog: Catalog, commit: CommitThread, planted_data: bytes
) -> None:
    text = planted_data % (1 << 60) if b"%d" in planted_data else planted_data
    (add(catalog, commit, "a1") / "lock").write_bytes(text)
    assert catalog.owner_of("a1") == {}


def test_a_home_that_is_a_link_is_refused(catalog: Catalog, home: Path, tmp_path: Path) -> None:
    """A repository can contain such a link, and git would create it on checkout."""
    (tmp_path / "elsewhere").mkdir()
    home.parent.mkdir()
    home.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ReadOnlyError, match="is a link"):
        catalog.create("a1")
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_summary_that_cannot_be_kept_is_no_error(
    catalog: Catalog, caplog: pytest.LogCaptureFixture
) -> None:
    catalog.write_meta("gone", {"title": "x"})
    assert "no meta.json for conversation gone" in caplog.text


def test_a_long_log_that_is_being_written_is_summed_up_by_its_end(
    catalog: Catalog, commit: CommitThread
) -> None:
    folder = add(catalog, commit, "a1")
    [before] = catalog.summaries()
    log = open_log(folder, commit).log
    events_made: list[Json] = [
        {"type": "conversation.updated", "title": "x" * (1 << 20)},
        *[{"type": "conversation.updated", "title": "y" * (1 << 20)}] * 8,
        {"type": "status.changed", "from": "finished", "to": "paused", "reason": "user"},
        {"type": "conversation.updated"},
    ]
    ts = "2026-01-01T01:00:00.000Z"
    for seq, event in enumerate(events_made, 3):
        log.append(orjson.dumps({"v": 2, "seq": seq, "ts": ts, "event": event}) + b"\n")
    now = {
        "status": "paused",
        "statusReason": "user",
        "updatedAt": ts,
        "lastSeq": len(events_made) + 2,
    }
    assert catalog.summaries() == [{**before, **now}]
    log.close()
    [read] = catalog.summaries()
    assert read["title"][0] == "y"
    assert read["lastSeq"] == now["lastSeq"]


def test_words_are_found_in_what_a_log_says_and_the_index_holds_none_of_it(
    catalog: Catalog, commit: CommitThread
) -> None:
    folder = add(catalog, commit, "a1")
    append_event(
        folder, "userMessage", content=[{"type": "text", "text": "Where is\nthe  Größe PARSED?"}]
    )
    append_event(
        folder, "command", command='grep "size', content=[{"type": "text", "text": "x.py: size=7"}]
    )
    append_event(folder, "userMessage", content=[{"type": "image", "data": "aGVsbG8gc2l6ZQ=="}])

    def find(query: str) -> str | None:
        assert len(catalog.summaries()) == 1
        return catalog.line_with("a1", tuple(query.casefold().split()))

    assert find("parse größe") == "the Größe PARSED?"
    assert find("size where") == "Where is", "of lines that have as many words, the first"
    assert find('"SIZE') == 'grep "size'
    assert [find("aGVsbG8"), find("size nowhere"), find("qq")] == [None, None, None]
    index = folder / "search"
    assert stat.S_IMODE(index.stat().st_mode) == 0o600
    assert b"size" not in index.read_bytes()

    before = index.read_bytes()
    append_event(folder, "agentMessage", text="It grew: " + "y" * 300 + " nowhere " + "y" * 300)
    assert find("nowhere grew") == "It grew: " + "y" * 151 + "…"
    assert index.read_bytes() != before
    for planted_data in (b"", b"ohs1", before, before[:-1], b"ohs1" + b"\xff" * 2000):
        catalog = Catalog(folder.parents[1])
        index.write_bytes(planted_data)
        assert find("nowhere") == "…" + "y" * 39 + " nowhere " + "y" * 112 + "…"
    append_event(folder, "agentMessage", text=" ".join(map(str, range(10_000))))
    assert find("9876 nowhere"), "an index that is too full is made anew"


def append_event(folder: Path, kind: str, **fields: object) -> None:
    item = {"kind": kind, "id": "i", "status": "completed", **fields}
    seq = len(read_log(folder)) + 1
    event = {"type": "item.completed", "item": item}
    record = {"v": 2, "seq": seq, "ts": "2026-01-01T00:00:00.000Z", "event": event}
    with (folder / LOG_NAME).open("ab") as log:
        log.write(orjson.dumps(record) + b"\n")
