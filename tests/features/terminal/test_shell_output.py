"""A terminal's output becomes clean text of bounded size."""

from __future__ import annotations

import codecs
import re
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oh_daemon.common.masking import Masker
from oh_daemon.features.terminal.output import (
    HEAD_BYTES,
    MAX_SCROLLBACK_CHARS,
    MAX_SPILL_BYTES,
    TAIL_BYTES,
    Capture,
    CleanText,
    Scrollback,
)

CASES = {
    "plain": (b"a\tb\nc", "a\tb\nc"),
    "windows line ends": (b"a\r\nb\r\n", "a\nb\n"),
    "colors": (b"\x1b[1;31mred\x1b[0m \x1b[38;5;12mblue\x1b[m", "red blue"),
    "clipboard and title (OSC)": (b"a\x1b]52;c;ZXZpbA==\x07b\x1b]0;title\x1b\\c", "abc"),
    "link (OSC 8)": (b"\x1b]8;;http://x.y\x1b\\text\x1b]8;;\x1b\\", "text"),
    "device control": (b"a\x1bPq#0;2\x1b\\b\x1b_apc\x1b\\c\x1b^pm\x1b\\d", "abcd"),
    "8-bit forms": ("a\x9b31mb\x9d0;t\x07c\x90q\x9cd\x85e".encode(), "abcde"),
    "character sets and modes": (b"\x1b(B\x1b=\x1b>\x1b7a\x1b8\x1b[?2004h", "a"),
    "other controls": (b"a\x00b\x07c\x0bd\x7fe\x0ef", "abcdef"),
    "a string without an end stops at the line": (b"a\x1b]0;title\nb", "a]0;title\nb"),
    "progress bar": (b"start\n 10%\r 50%\r100%\ndone\n", "start\n100%\ndone\n"),
    "progress bar with erased lines": (b"\x1b[2K\r1/2\x1b[2K\r2/2\n", "2/2\n"),
    "progress bar by cursor column": (b"one\x1b[1Gtwo\x1b[Gthree\n", "three\n"),
    "line cleared at last": (b"working\r        \r\nok\n", "working\nok\n"),
    "backspaces": (b"ab\x08c\n", "ac\n"),
    "invalid UTF-8": (b"a\xff\xfeb\xc3", "a\ufffd\ufffdb\ufffd"),
    "lone escape at the end": (b"a\x1b", "a"),
    "unfinished escape at the end": (b"a\x1b[3", "a[3"),
}


@pytest.mark.parametrize(("data", "text"), CASES.values(), ids=CASES.keys())
def test_text_for_the_model_has_no_terminal_escapes(data: bytes, text: str) -> None:
    cleaner = CleanText()
    assert cleaner.feed(data) + cleaner.flush() == text


@given(st.data())
def test_pieces_give_the_same_text_as_the_whole_when_no_line_is_overwritten(
    data: st.DataObject,
) -> None:
    parts = [
        b"caf\xc3\xa9 ",
        "漢字🎉".encode(),
        b"\x1b[31m",
        b"\x1b]0;t\x07",
        b"x\n",
        b"\r\n",
        b"\x1bPq\x1b\\",
    ]
    actual_data = b"".join(data.draw(st.lists(st.sampled_from(parts))))
    cuts = sorted(data.draw(st.sets(st.integers(0, len(actual_data)))))
    pieces = [actual_data[a:b] for a, b in zip([0, *cuts], [*cuts, len(actual_data)], strict=True)]
    one, many = CleanText(), CleanText()
    expected = one.feed(actual_data) + one.flush()
    assert "".join(map(many.feed, pieces)) + many.flush() == expected


class _SimpleCleaner:
    """What `CleanText` does, with each pattern tried everywhere."""

    escape = re.compile(
        r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
        r"|(?:\x1b\]|\x9d)[^\x07\x1b\x80-\x9f\n]*(?:\x07|\x1b\\|\x9c)"
        r"|(?:\x1b[PX^_]|[\x90\x98\x9e\x9f])[^\x1b\x80-\x9f\n]*(?:\x1b\\|\x9c)"
        r"|\x1b[ -/]*[0-OQ-WYZ\\`a-~]"
    )
    open_escape = re.compile(
        r"(?:(?:\x1b\[|\x9b)[0-?]*[ -/]*"
        r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d\x9e\x9f])[^\x07\x1b\x80-\x9f\n]*\x1b?"
        r"|\x1b[ -/]*)\Z"
    )

    def __init__(self) -> None:
        self.decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self.held_text = ""

    def feed(self, data: bytes) -> str:
        return self.clean(self.held_text + self.decode(data))

    def flush(self) -> str:
        text = self.clean(self.held_text + self.decode(b"", final=True) + "\x1b")
        return text + self.without_controls(self.collapse(self.held_text[:-1]))

    def clean(self, text: str) -> str:
        text = text.replace("\r\n", "\n")
        last_line = max(0, text.rfind("\n"))
        match = self.open_escape.search(text, last_line)
        end = match.start() if match else len(text)
        line_start = text.rfind("\n", 0, end) + 1
        if "\r" in self.with_returns(text[line_start:end]):
            end = line_start
        self.held_text = text[end:]
        text = self.escape.sub("", self.with_returns(text[:end]))
        lines = [self.collapse(line) if "\r" in line else line for line in text.split("\n")]
        return self.without_controls(re.sub(r"[^\n\x08]\x08", "", "\n".join(lines)))

    def with_returns(self, text: str) -> str:
        return re.sub(r"(?:\x1b\[|\x9b)[01]?G", "\r", text)

    def collapse(self, line: str) -> str:
        states = self.escape.sub("", self.with_returns(line)).split("\r")
        return next((state for state in reversed(states) if state.strip()), "")

    def without_controls(self, text: str) -> str:
        return re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", "", text)


_BITS = [
    *(bytes([byte]) for byte in b"\x1b[]PX\\\x07G01m\r\n\x08\x00 /a\x7f\xff\xc2"),
    *(bytes([0xC2, byte]) for byte in b"\x85\x90\x98\x9b\x9c\x9d\x9e\x9f"),
    *(b"\r\n", b"\x1b[31m", "é漢🎉".encode()),
]


@given(st.lists(st.lists(st.sampled_from(_BITS), max_size=20).map(b"".join), max_size=5))
def test_cleaning_skips_patterns_only_where_they_match_nothing(pieces: list[bytes]) -> None:
    quick, simple = CleanText(), _SimpleCleaner()
    assert [*map(quick.feed, pieces), quick.flush()] == [*map(simple.feed, pieces), simple.flush()]


@given(st.lists(st.binary()))
def test_no_bytes_whatever_leave_a_control_character_behind(pieces: list[bytes]) -> None:
    cleaner = CleanText()
    text = "".join(map(cleaner.feed, pieces)) + cleaner.flush()
    assert not any(
        ord(char) < 0x20 or 0x7F <= ord(char) < 0xA0 for char in text if char not in "\n\t"
    )


def test_a_prompt_without_a_line_break_shows_at_once() -> None:
    assert CleanText().feed(b"Name: ") == "Name: "


def test_a_progress_bar_in_pieces_leaves_its_first_and_its_last_state() -> None:
    cleaner = CleanText()
    pieces_shown = [cleaner.feed(piece) for piece in (b"1%", b"\r2%", b"\r3%", b"\r4%\n", b"end\n")]
    assert "".join(pieces_shown) == "1%4%\nend\n"


def test_an_escape_that_never_ends_is_not_held_for_ever() -> None:
    cleaner = CleanText()
    assert cleaner.feed(b"\x1b]52;c;" + b"A" * 100_000).endswith("A")


@pytest.mark.parametrize(
    "unit", ["\x90", "\x9da", "\x1b]", "\x9b0", "\x1bPa", "a\r", "a\x08", "\x1b[1"]
)
def test_no_output_makes_cleaning_slow(unit: str) -> None:
    """While a pattern is matched no other thread runs, so the whole daemon would wait."""
    data = (unit * 40_000).encode()
    cleaner = CleanText()
    start_s = time.thread_time()
    for start in range(0, len(data), 4096):
        cleaner.feed(data[start : start + 4096])
    cleaner.flush()
    assert time.thread_time() - start_s < 1


def test_short_output_is_whole_and_touches_no_file(tmp_path: Path) -> None:
    capture = Capture(tmp_path / "spill")
    text = "é" * ((HEAD_BYTES + TAIL_BYTES) // 2)
    for char in text:
        capture.add(char)
    output = capture.finish()
    assert (output.head, output.tail, output.n_cut_bytes, output.spill) == (text, "", 0, None)
    assert list(tmp_path.iterdir()) == []


def test_long_output_keeps_its_ends_in_memory_and_all_of_it_in_a_file(tmp_path: Path) -> None:
    capture = Capture(tmp_path / "spill")
    text = "".join(f"line {n} é\n" for n in range(20_000))
    for start in range(0, len(text), 777):
        capture.add(text[start : start + 777])
    output = capture.finish()
    assert output.spill == tmp_path / "spill"
    assert output.spill is not None
    assert output.spill.read_text() == text
    assert text.startswith(output.head)
    assert text.endswith(output.tail)
    n_kept = len(output.head.encode()) + len(output.tail.encode())
    assert output.n_cut_bytes == len(text.encode()) - n_kept
    assert n_kept > HEAD_BYTES + TAIL_BYTES - 8


def test_the_file_stops_at_its_limit_and_the_count_goes_on(tmp_path: Path) -> None:
    capture = Capture(tmp_path / "spill")
    piece = "x" * (1 << 20)
    n_pieces = (MAX_SPILL_BYTES >> 20) + 3
    for _ in range(n_pieces):
        capture.add(piece)
    output = capture.finish()
    assert output.spill is not None
    assert output.spill.stat().st_size == MAX_SPILL_BYTES
    assert output.n_cut_bytes == n_pieces * len(piece) - HEAD_BYTES - TAIL_BYTES


def test_a_disk_that_takes_nothing_costs_only_the_middle() -> None:
    capture = Capture(Path("/proc/none/spill"))
    for _ in range(10):
        capture.add("x" * 10_000)
    output = capture.finish()
    assert (len(output.head), len(output.tail)) == (HEAD_BYTES, TAIL_BYTES)
    assert (output.n_cut_bytes, output.spill) == (100_000 - HEAD_BYTES - TAIL_BYTES, None)


def test_people_see_no_secret_that_came_in_pieces_and_nothing_of_it_before_its_end():
    masker = Masker()
    masker.add("sk-0123456789abcdef")
    screen = Scrollback(masker)
    screen.add("the key sk-012345")
    assert screen.read(0, 100) == ("the key ", 8)
    screen.add("6789abcdef\nThe e")
    screen.add_line("$ next\n")
    screen.settle()
    full_text = "the key <secret hidden>\nThe e\n$ next\n"
    assert screen.read(0, 100) == (full_text, len(full_text))
    assert screen.read(8, 5) == ("<secr", 13)
    assert screen.read(999, 5) == ("", len(full_text))
    assert screen.size_bytes == len(full_text)


@pytest.mark.parametrize("reads_between", [False, True])
def test_people_see_the_last_lines_of_a_flood(reads_between: bool):
    screen = Scrollback(Masker())
    lines = [f"line {n:06} of a flood\n" for n in range(200_000)]
    for start in range(0, len(lines), 1000):
        screen.add("".join(lines[start : start + 1000]))
        if reads_between:
            screen.read(0, 1)
    text, end = screen.read(0, 1 << 30)
    assert "".join(lines).endswith(text)
    assert 0 <= len(text) - MAX_SCROLLBACK_CHARS <= (0 if reads_between else 50_000)
    assert end == screen.end == len("".join(lines))
    assert screen.read(end - 5, 9) == (text[-5:], end)
