"""Differences of lines: right for every pair of texts, and found in linear time in large ones."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from difflib import unified_diff
from itertools import pairwise

import pytest

from oh_daemon.kernel.editor_ports import TextEdit
from oh_daemon.workspace.line_diff import TextDiff, lines_of
from oh_daemon.workspace.text_changes import apply_edits

N_LINES = 60_000
RECORDS = [
    line
    for n in range(N_LINES // 4)
    for line in ("{\n", f'  "id": {n},\n', f'  "kind": {n % 97}\n', "},\n")
]
"""Three of four lines are there more than once, so a matcher of all lines takes minutes."""


def random_edits(chance: random.Random, text: str, alphabet: str) -> list[TextEdit]:
    places = sorted(chance.choices(range(len(text) + 1), k=2 * chance.randrange(4)))
    return [
        TextEdit(start, end, "".join(chance.choices(alphabet, k=chance.randrange(6))))
        for start, end in zip(places[::2], places[1::2], strict=True)
    ]


def patch_by_difflib(before: str, after: str) -> str:
    rows = list(unified_diff(lines_of(before), lines_of(after), "a/x", "b/x"))
    open_end = "\n\\ No newline at end of file\n"
    return "".join(row if row.endswith("\n") else row + open_end for row in rows)


@pytest.mark.parametrize("n_cases", [1_000, pytest.param(100_000, marks=pytest.mark.full)])
@pytest.mark.parametrize("alphabet", ["ab\n", "abcdefgh\n\n\n"])
def test_diff_of_generated_texts_turns_one_into_the_other(alphabet: str, n_cases: int) -> None:
    chance = random.Random(os.environ["OH_TEST_SEED"])
    n_same = 0
    for _ in range(n_cases):
        before = "".join(chance.choices(alphabet, k=chance.randrange(40)))
        edits = random_edits(chance, before, alphabet)
        after = apply_edits(before, edits)
        for diff in (TextDiff.between(before, after), TextDiff.of_edits(before, edits)):
            assert apply_edits(before, diff.edits) == after
            assert all(one.end < two.start for one, two in pairwise(diff.edits))
            patch = diff.patch("x")
            # The two may differ in which of two equal lines counts as the new one.
            n_same += patch == patch_by_difflib(before, after)
            rows = patch.splitlines()[2:]
            assert diff.added == sum(row.startswith("+") for row in rows)
            assert diff.removed == sum(row.startswith("-") for row in rows)
            if not diff.edits:
                assert patch == ""
    assert n_same > 1.8 * n_cases


def with_lines(*changes: tuple[int, int, Sequence[str]]) -> Callable[[], list[str]]:
    """Return what replaces lines, from and to, by others, given from the last to the first."""

    def change() -> list[str]:
        lines = [*RECORDS]
        for start, end, new in changes:
            lines[start:end] = new
        return lines

    return change


@pytest.mark.parametrize(
    ("change", "added", "removed", "n_edits"),
    [
        (with_lines((59_001, 59_002, ["x\n"]), (1_001, 1_002, ["y\n"])), 2, 2, 2),
        (with_lines((50_000, 50_004, []), (10, 10, ["{\n", "x\n", "},\n"])), 3, 4, 2),
        (with_lines((40_000, 40_000, RECORDS[:4_000]), (0, 4_000, [])), 4_000, 4_000, 2),
        (lambda: [line.replace("kind", "sort") for line in RECORDS], 15_000, 15_000, 15_000),
        (lambda: [f" {line}" for line in RECORDS], N_LINES, N_LINES, 1),
        (lambda: random.Random(1).sample(RECORDS, N_LINES), None, None, None),
    ],
    ids=[
        "two lines",
        "moved by some lines",
        "a block moved",
        "each record",
        "indented",
        "shuffled",
    ],
)
def test_diff_of_large_texts_has_few_lines(
    change: Callable[[], list[str]], added: int | None, removed: int, n_edits: int
) -> None:
    before, after = "".join(RECORDS), "".join(change())
    diff = TextDiff.between(before, after)
    assert apply_edits(before, diff.edits) == after
    if added is not None:
        assert (diff.added, diff.removed, len(diff.edits)) == (added, removed, n_edits)


def test_long_patch_is_cut_and_shows_how_many_lines_change() -> None:
    diff = TextDiff.between("", "".join(f"line {n}\n" for n in range(20_000)))
    patch = diff.patch("a.txt")
    assert patch.startswith("--- a/a.txt\n+++ b/a.txt\n@@ -0,0 +1,20000 @@\n+line 0\n+line 1\n")
    assert patch.endswith("\n[the diff is cut here: it is +20,000 -0 lines]\n")
    assert len(patch.encode()) <= 32 << 10
