from __future__ import annotations

import codecs
import os
import shutil
import socket
import stat
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from oh_daemon.protocol.errors import EditRejectedError, StaleDocumentError, ToolError
from oh_daemon.workspace.files import MAX_TEXT_BYTES, Files, FileText, parse_text, sha256_of
from oh_daemon.workspace.paths import Folders
from oh_daemon.workspace.text_changes import Replace, Replacement, apply_edits, locate_edits


class Kept:
    """Collects the bytes that are made durable before a file is overwritten in place."""

    def __init__(self) -> None:
        self.data: list[bytes] = []

    def __call__(self, data: bytes) -> None:
        self.data.append(data)


@pytest.fixture
def kept() -> Kept:
    return Kept()


@pytest.fixture
def files(tmp_path: Path, kept: Kept) -> Files:
    return Files(Folders((tmp_path,)), kept)


def write(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    return sha256_of(data)


FRENCH = "# Réglages\nnom = 'Éléonore'\n# où sont les fichiers déjà traités\n"
WESTERN = "He said “hello” — it’s fine…\nPrice: 5 €\n"
JAPANESE = "# 設定ファイルの説明\nname = 'こんにちは世界'\n"


@pytest.mark.parametrize(
    ("raw", "text", "encoding", "is_mixed"),
    [
        (b"a\nb\n", "a\nb\n", "utf-8", False),
        (b"a\r\nb", "a\r\nb", "utf-8", False),
        (b"a\rb\r", "a\rb\r", "utf-8", True),
        (b"a\r\nb\n", "a\r\nb\n", "utf-8", True),
        (b"", "", "utf-8", False),
        (codecs.BOM_UTF8 + "ä".encode(), "ä", "utf-8", False),
        (codecs.BOM_UTF16_LE + "ä\n".encode("utf-16-le"), "ä\n", "utf-16-le", False),
        (codecs.BOM_UTF16_BE + "😀".encode("utf-16-be"), "😀", "utf-16-be", False),
        (codecs.BOM_UTF32_LE + "x".encode("utf-32-le"), "x", "utf-32-le", False),
        (FRENCH.encode("latin-1"), FRENCH, "cp1252", False),
        ("x = 'café'\n".encode("latin-1"), "x = 'café'\n", "cp1252", False),
        (WESTERN.encode("cp1252"), WESTERN, "cp1252", False),
        (b"a\n" * 50_000 + FRENCH.encode("latin-1"), "a\n" * 50_000 + FRENCH, "cp1252", False),
        (JAPANESE.encode("shift_jis"), JAPANESE, "cp932", False),
        ("print('テスト')\r\n".encode("shift_jis"), "print('テスト')\r\n", "cp932", False),
        (FRENCH.encode("utf-16-le"), FRENCH, "utf-16-le", False),
        (JAPANESE.encode("utf-16-be"), JAPANESE, "utf-16-be", False),
    ],
)
def test_a_text_is_read_with_its_form(
    raw: bytes, text: str, encoding: str, *, is_mixed: bool
) -> None:
    file_text = parse_text(raw)
    assert file_text is not None
    assert (file_text.text, file_text.encoding, file_text.has_mixed_line_ends) == (
        text,
        encoding,
        is_mixed,
    )
    assert file_text.encode(file_text.text) == raw


@pytest.mark.parametrize(
    "raw",
    [
        *("é".encode("latin-1"), "中文".encode("gbk"), b"a\0b", b"\x89PNG\r\n\x1a\n", b"\xff\xfea"),
        FRENCH.encode("latin-1") + b"\x01",
        FRENCH.encode("latin-1") + b"\x81",
        bytes(range(1, 256)) * 9,
        Path("/bin/true").read_bytes(),
        Path("/bin/true").read_bytes().replace(b"\0", b""),
    ],
)
def test_what_is_not_surely_text_is_refused(files: Files, tmp_path: Path, raw: bytes) -> None:
    write(tmp_path / "x", raw)
    with pytest.raises(ToolError, match=r"is not UTF-8, .* view it with its `encoding`"):
        files.read(tmp_path / "x")
    assert (tmp_path / "x").read_bytes() == raw


MARKS = st.sampled_from(
    [
        (b"", "utf-8"),
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
    ]
)
PIECES = st.lists(
    st.one_of(st.sampled_from(["\n", "\r\n", "\r", "\t", "👩‍👧", "漢", "\u2028", "a"]),
              st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0§"))),
    max_size=12,
).map("".join)  # fmt: skip


@pytest.mark.parametrize("n_cases", [400, pytest.param(10_000, marks=pytest.mark.full)])
def test_bytes_outside_the_edited_span_stay_the_same(n_cases: int) -> None:
    # Hypothesis does not let settings be applied to the same function twice.
    check = given(head=PIECES, tail=PIECES, new=PIECES, mark=MARKS)(_check_outside_of_span)
    seed(int(os.environ["OH_TEST_SEED"]))(settings(max_examples=n_cases)(check))()


def _check_outside_of_span(head: str, tail: str, new: str, mark: tuple[bytes, str]) -> None:
    bom, encoding = mark
    raw = bom + f"{head}§§{tail}".encode(encoding)
    file = parse_text(raw)
    # A text that begins like another encoding's byte order mark is read in that encoding.
    if file is None or file.encoding != encoding or file.bom != bom:
        return
    try:
        edits = locate_edits(file.text, Replace((Replacement("§§", new),)).edits).edits
    except EditRejectedError:  # The edit would join a lone CR and a LF.
        return
    data = file.encode(apply_edits(file.text, edits))
    frontend, back = bom + head.encode(encoding), tail.encode(encoding)
    assert data.startswith(frontend)
    assert data.endswith(back)
    middle = data[len(frontend) : len(data) - len(back)].decode(encoding)
    assert middle.replace("\r\n", "\n").replace("\r", "\n") == new.replace("\r\n", "\n").replace(
        "\r", "\n"
    )


def test_a_write_keeps_mode_attributes_and_owner(files: Files, tmp_path: Path, kept: Kept) -> None:
    path = tmp_path / "run.sh"
    sha256 = write(path, b"old\n")
    path.chmod(0o4755)
    os.setxattr(path, "user.note", b"mine")
    if os.geteuid() == 0:
        os.chown(path, -1, 1234)
    before = path.stat()
    files.replace(path, b"new\n", sha256)
    after = path.stat()
    assert path.read_bytes() == b"new\n"
    assert (after.st_mode, after.st_uid, after.st_gid) == (
        before.st_mode, before.st_uid, before.st_gid,
    )  # fmt: skip
    assert os.getxattr(path, "user.note") == b"mine"
    assert after.st_ino != before.st_ino, "this file was replaced in one step"
    assert kept.data == []
    assert [entry.name for entry in tmp_path.iterdir()] == ["run.sh"]


def test_a_write_gives_nobody_access_by_the_rules_of_the_folder(
    files: Files, tmp_path: Path
) -> None:
    """A new file inherits the ACL that its folder has for new files; the old one had another."""
    access, inherited_acl = "system.posix_acl_access", "system.posix_acl_default"
    plain, listed_file = tmp_path / "plain", tmp_path / "listed"
    hashes = {path: write(path, b"old\n") for path in (plain, listed_file)}
    try:
        os.setxattr(listed_file, access, _acl(reader=4321))
        os.setxattr(tmp_path, inherited_acl, _acl(reader=1234))
    except OSError:
        pytest.skip("this file system has no ACLs")
    plain.chmod(0o640)
    acl = os.getxattr(listed_file, access)
    for path, sha256 in hashes.items():
        files.replace(path, b"new\n", sha256)
    assert os.listxattr(plain) == []
    assert stat.S_IMODE(plain.stat().st_mode) == 0o640
    assert os.getxattr(listed_file, access) == acl


def _acl(reader: int) -> bytes:
    """Return an ACL by which one more user may read, in the form of Linux's extended attributes."""
    nobody = 0xFFFFFFFF
    entries = [(1, 6, nobody), (2, 4, reader), (4, 0, nobody), (16, 4, nobody), (32, 0, nobody)]
    return b"".join((struct.pack("<I", 2), *(struct.pack("<HHI", *entry) for entry in entries)))


def test_a_hard_link_stays_one_and_the_old_bytes_are_kept_first(
    files: Files, tmp_path: Path, kept: Kept
) -> None:
    path, other_file = tmp_path / "a", tmp_path / "b"
    for old, new in ((b"old\n", b"longer than old\n"), (b"longer than old\n", b"x")):
        sha256 = write(path, old)
        if not other_file.exists():
            os.link(path, other_file)
        files.replace(path, new, sha256)
        assert other_file.read_bytes() == new
        assert path.samefile(other_file)
        assert kept.data[-1] == old


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_somebody_else_keeps_its_owner(files: Files, tmp_path: Path, kept: Kept) -> None:
    path = tmp_path / "theirs"
    sha256 = write(path, b"old")
    os.chown(path, 4321, 4321)
    files.replace(path, b"new", sha256)
    assert (path.stat().st_uid, path.read_bytes(), kept.data) == (4321, b"new", [b"old"])


def test_a_change_on_disk_of_the_same_size_and_time_is_noticed(
    files: Files, tmp_path: Path
) -> None:
    path = tmp_path / "a"
    sha256 = write(path, b"one\n")
    status = path.stat()
    write(path, b"two\n")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises(StaleDocumentError, match="changed on disk"):
        files.replace(path, b"three", sha256)
    with pytest.raises(StaleDocumentError, match="changed on disk"):
        files.delete(path, sha256)
    assert path.read_bytes() == b"two\n"
    path.unlink()
    with pytest.raises(StaleDocumentError, match="was removed"):
        files.replace(path, b"three", sha256)


def test_a_new_file_gets_its_folders_and_never_replaces_another(
    files: Files, tmp_path: Path
) -> None:
    path = tmp_path / "deep" / "er" / "a.py"
    files.create(path, b"x\n")
    umask = os.umask(0)
    os.umask(umask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~umask
    with pytest.raises(EditRejectedError, match="exists already"):
        files.create(path, b"y\n")
    assert path.read_bytes() == b"x\n"
    assert [entry.name for entry in path.parent.iterdir()] == ["a.py"]


def test_a_read_only_file_is_left_alone(files: Files, tmp_path: Path) -> None:
    path = tmp_path / "a"
    sha256 = write(path, b"x")
    path.chmod(0o444)
    with pytest.raises(EditRejectedError, match="read-only"):
        files.replace(path, b"y", sha256)
    assert path.read_bytes() == b"x"


@pytest.mark.parametrize("name", ["n" * 256, "ä" * 128])
def test_a_name_too_long_is_said(files: Files, tmp_path: Path, name: str) -> None:
    with pytest.raises(EditRejectedError, match="File name too long"):
        files.create(tmp_path / name, b"")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("is_linked", [False, True])
def test_a_program_that_runs_is_replaced_or_left_alone(
    files: Files, tmp_path: Path, *, is_linked: bool
) -> None:
    """A file with two names is overwritten in place, which fails while it runs (ETXTBSY)."""
    path = tmp_path / "program"
    program = shutil.which("sleep")
    assert program is not None
    shutil.copy(program, path)
    old = path.read_bytes()
    if is_linked:
        (tmp_path / "other").hardlink_to(path)
    with subprocess.Popen([path, "1000"]) as process:
        try:
            if is_linked:
                with pytest.raises(EditRejectedError, match="Text file busy"):
                    files.replace(path, b"new", sha256_of(old))
            else:
                files.replace(path, b"new", sha256_of(old))
            assert path.read_bytes() == (old if is_linked else b"new")
            assert process.poll() is None
        finally:
            process.kill()


def test_a_name_may_end_with_a_dot_and_change_in_case_only(files: Files, tmp_path: Path) -> None:
    for name in ("name.", "Name.", "name. ", "..name.."):
        files.create(tmp_path / name, name.encode())
        files.replace(tmp_path / name, b"new", sha256_of(name.encode()))
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        ["name.", "Name.", "name. ", "..name.."]
    )


def test_names_that_look_alike_are_different_files(files: Files, tmp_path: Path) -> None:
    names = ("a", "A", "a.", "é", "e\u0301", "n" * 200)
    for name in names:
        files.create(tmp_path / name, name.encode())
    assert {path.name: path.read_bytes().decode() for path in tmp_path.iterdir()} == {
        name: name for name in names
    }


def test_pipes_sockets_devices_folders_and_giants_are_refused_at_once(
    files: Files, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        # Bind to a short path, since the path of a socket has at most 108 bytes.
        descriptor = os.open(tmp_path, os.O_RDONLY)
        server.bind(f"/proc/self/fd/{descriptor}/socket")
        os.close(descriptor)
        (tmp_path / "folder").mkdir()
        with (tmp_path / "giant").open("wb") as file:
            file.truncate(5 << 30)
        for name, why in (
            ("pipe", "is a pipe"),
            ("socket", "cannot be opened"),
            ("folder", "is a folder"),
            ("giant", f"more than the {MAX_TEXT_BYTES >> 20} MiB"),
        ):
            with pytest.raises(ToolError, match=why):
                files.read(tmp_path / name)
    with pytest.raises(ToolError, match="pipe, socket or device"):
        Files(Folders((Path("/dev"),)), Kept()).read(Path("/dev/zero"))


def test_a_write_takes_away_what_the_dead_left_and_nothing_else(
    files: Files, tmp_path: Path
) -> None:
    orphan = tmp_path / ".oh-0123456789abcdef.tmp"
    for path in (orphan, tmp_path / "a.tmp", tmp_path / ".oh-notes"):
        path.write_bytes(b"x")
    (tmp_path / ".oh-link.tmp").symlink_to("a.tmp")
    files.create(tmp_path / "new", b"")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        ".oh-link.tmp",
        ".oh-notes",
        "a.tmp",
        "new",
    ]


def count_calls(act: Callable[[], object]) -> int:
    """Return how many functions, of Python and of C, are called in this thread."""
    counts = Counter[str]()
    sys.setprofile(lambda _frame, event, _arg: counts.update([event]))
    try:
        act()
    finally:
        sys.setprofile(None)
    return counts["call"] + counts["c_call"]


def test_cost_of_a_write_is_independent_of_other_files_in_the_folder(
    files: Files, tmp_path: Path
) -> None:
    """`sys.setprofile` counts each listed name, since the names are compared one by one."""
    files.create(tmp_path / "first", b"old")
    costs: list[tuple[int, int]] = []
    for n in (10, 200):
        for number in range(n):
            (tmp_path / f"{n}-{number}").touch()
        create = partial(files.create, tmp_path / f"new-{n:03}", b"old")
        replace = partial(files.replace, tmp_path / f"new-{n:03}", b"new", sha256_of(b"old"))
        costs.append((count_calls(create), count_calls(replace)))
    assert costs[0] == costs[1]


def test_nothing_is_read_through_a_link(files: Files, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc/passwd")
    with pytest.raises(ToolError, match="cannot be opened"):
        files.read(tmp_path / "link")
    assert files.read(tmp_path / "none") is None
    write(tmp_path / "a", b"x")
    mode = stat.S_IMODE((tmp_path / "a").stat().st_mode)
    assert files.read(tmp_path / "a") == FileText("x", sha256_of(b"x"), mode=mode)
