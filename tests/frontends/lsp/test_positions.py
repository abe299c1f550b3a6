from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oh_daemon.frontends.lsp.positions import ClientOffsets, apply_changes, split_lines
from oh_daemon.protocol.base import Position

ENCODINGS = ("utf-8", "utf-16", "utf-32")
TEXTS = st.text(st.sampled_from("ab é😀\u2028\f\v\r\n"), max_size=30)


def span(start: tuple[int, int], end: tuple[int, int], text: str) -> dict[str, Any]:
    places = ({"line": line, "character": column} for line, column in (start, end))
    return {"range": dict(zip(("start", "end"), places, strict=True)), "text": text}


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", []),
        ("a\r\nb\rc\nd", ["a\r\n", "b\r", "c\n", "d"]),
        ("a\fb\vc\u2028d\x85e\n", ["a\fb\vc\u2028d\x85e\n"]),
        ("\n\n", ["\n", "\n"]),
    ],
)
def test_only_the_line_ends_of_lsp_end_a_line(text: str, lines: list[str]) -> None:
    assert split_lines(text) == lines


@pytest.mark.parametrize(
    ("encoding", "column"), [("utf-8", 4 + 2), ("utf-16", 2 + 1), ("utf-32", 1 + 1)]
)
def test_columns_count_in_units_of_the_encoding(encoding: str, column: int) -> None:
    change = span((0, column), (0, column), "|")
    assert apply_changes("😀éb", [change], encoding) == "😀é|b"


@pytest.mark.parametrize(
    ("text", "place", "after"),
    [
        ("ab\r\ncd", (0, 99), "ab|\r\ncd"),
        ("ab\ncd", (1, 99), "ab\ncd|"),
        ("ab\n", (1, 0), "ab\n|"),
        ("ab\n", (9, 9), "ab\n|"),
        ("é\n", (0, 99), "é|\n"),
        ("", (0, 0), "|"),
        ("a😀b", (0, 2), "a|😀b"),
    ],
    ids=["before CR LF", "end", "new last line", "past the end", "not ascii", "empty", "half char"],
)
def test_a_place_that_is_not_there_is_the_nearest_before_it(
    text: str, place: tuple[int, int], after: str
) -> None:
    assert apply_changes(text, [span(place, place, "|")], "utf-16") == after


def test_changes_apply_one_after_the_other_and_one_without_a_range_replaces_all() -> None:
    changes = [{"text": "one\ntwo"}, span((1, 0), (1, 3), "2"), span((0, 0), (1, 0), "")]
    assert apply_changes("old", changes, "utf-16") == "2"


@given(TEXTS, st.data(), st.sampled_from(ENCODINGS))
def test_an_offset_survives_the_way_to_a_position_and_back(
    text: str, data: st.DataObject, encoding: str
) -> None:
    offsets = ClientOffsets(text, encoding)
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    if offsets.is_inside_line_end(start) or offsets.is_inside_line_end(end):
        return
    places = {"start": offsets.position(start), "end": offsets.position(end)}
    new_text = apply_changes(text, [{"range": places, "text": "<>"}], encoding)
    assert new_text == text[:start] + "<>" + text[end:]


@given(TEXTS, st.sampled_from(ENCODINGS))
def test_a_place_that_the_client_names_leads_back_to_its_offset(text: str, encoding: str) -> None:
    offsets = ClientOffsets(text, encoding)
    for offset in range(len(text) + 1):
        if not offsets.is_inside_line_end(offset):
            place = Position.model_validate(offsets.position(offset))
            assert offsets.offset(place) == offset
    assert offsets.offset(Position(line=10**9, character=10**9)) == len(text)
