"""Patches as pure values: how they are read, where hunks are found, and what is refused."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from oh_daemon.protocol.errors import ToolError
from oh_daemon.workspace.patch import Hunks, PatchHunk, parse_patch
from oh_daemon.workspace.text_changes import locate_edits

TEXT = """class A:
    def run(self):
        start()
        return 1


class B:
    def run(self):
        start()
        return 2
"""


def patch(*lines: str) -> str:
    return "\n".join(("*** Begin Patch", *lines, "*** End Patch"))


def update(text: str, *lines: str) -> str:
    [section] = parse_patch(patch("*** Update File: a.py", *lines))
    return locate_edits(text, section.hunks.edits).after


def test_each_section_says_what_becomes_of_its_file() -> None:
    add, change, move, delete = parse_patch(
        patch(
            "*** Add File: docs/new file.md",
            "+# New",
            "+",
            "+*** End Patch",
            "",
            "*** Update File: a.py",
            "@@ class A:",
            "@@     def run(self):",
            "-        return 1",
            "+        return 3",
            "*** End of File",
            "*** Update File: old.py",
            "*** Move to: new.py",
            "*** Delete File: gone.py",
        )
    )
    assert (add.op, add.path, add.text) == ("Add", "docs/new file.md", "# New\n\n*** End Patch\n")
    headers = ("class A:", "    def run(self):")
    hunk = PatchHunk(headers, ("        return 1",), ("        return 3",), at_end=True)
    assert change.hunks == Hunks((hunk,))
    assert (move.path, move.move_to, move.hunks) == ("old.py", "new.py", Hunks(()))
    assert (delete.op, delete.path) == ("Delete", "gone.py")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "begins with the line '*** Begin Patch'"),
        ("*** Begin Patch\n*** Add File: a\n+x", "ends with '*** End Patch'"),
        (patch(), "line 2 of the patch must be"),
        (patch("+x", "*** Add File: a"), "line 2 of the patch must be"),
        (patch("*** Add File: a", "+x", "y"), "line 4 of the patch: each line of a new file"),
        (patch("*** Delete File: a", "-x"), "line 3 of the patch: nothing follows"),
        (patch("*** Update File: a"), "line 2 of the patch: nothing is said"),
        (patch("*** Update File: a", "@@ x"), "line 3 of the patch: no lines follow the '@@'"),
        (patch("*** Update File: a", "-x", "y"), "line 4 of the patch: 'y' begins with none of"),
        (
            patch("*** Update File: a", "-x", "*** End of File", "+y"),
            "line 3 of the patch: no hunk",
        ),
        (patch("*** Update File: a", "+x", "*** Move to: b"), "line 4 of the patch: '*** Move"),
        (patch("*** Update File: a", "@@", "", "@@", "-x"), "line 4 of the patch: no hunk"),
    ],
)
def test_what_is_no_patch_is_refused_with_the_line(text: str, why: str) -> None:
    with pytest.raises(ToolError) as error_info:
        parse_patch(text)
    assert why in str(error_info.value)


def test_a_hunk_is_found_by_its_lines_or_by_what_stands_above_it() -> None:
    assert update(TEXT, "-        return 2", "+        return 3") == TEXT.replace("2", "3")
    nested_patch = ("@@ class B:", "@@ def run(self):", "-        start()", "+        begin()")
    assert update(TEXT, *nested_patch) == TEXT[:60] + TEXT[60:].replace("start", "begin")
    twice = ("@@ class A:", "-        start()", "@@ class B:", "-        start()")
    assert update(TEXT, *twice) == TEXT.replace("        start()\n", "")
    in_order = ("         return 1", "+", "@@", "-        start()", "+        go()")
    assert update(TEXT, *in_order).count("go()") == 1
    assert update(TEXT, *in_order).index("go()") > TEXT.index("class B")


def test_lines_without_a_sign_are_empty_lines_or_gaps() -> None:
    assert update("a\n\nb\n", " a", "", "-b", "", "@@", "-a", "") == "\n"


def test_lines_are_added_where_the_patch_says() -> None:
    assert update(TEXT, "@@ class B:", "+    x = 1") == TEXT.replace("B:\n", "B:\n    x = 1\n")
    assert update(TEXT, "+# end", "*** End of File") == TEXT + "# end\n"
    assert update("", "+one") == "one\n"
    assert update("one", "+two", "*** End of File") == "one\ntwo"
    with pytest.raises(ToolError, match="does not say where to add its lines"):
        update(TEXT, "+somewhere")


def test_line_ends_and_a_missing_newline_stay() -> None:
    assert update("a\r\nb\r\nc", "-b", "+B", " c", "+d") == "a\r\nB\r\nc\r\nd"
    assert update("a\nb", "-b") == "a"
    assert update("a\nb\n", "-a", "-b") == ""


def test_white_space_is_never_made_to_fit() -> None:
    with pytest.raises(ToolError, match="differ from it only in whitespace") as error_info:
        update("if x:\n\tgo()\n", "-    go()", "+    stop()")
    assert "Lines 2-2" in str(error_info.value)
    assert "\tgo()" in str(error_info.value)


def test_the_beginning_of_a_line_is_no_header_of_a_hunk() -> None:
    with pytest.raises(ToolError, match=r"as a whole\. The nearest is line 1:\ndef run\(self\):$"):
        update("def run(self):\n    go()\n", "@@ def run", "-    go()", "+    stop()")


def test_every_hunk_that_does_not_fit_is_told_with_what_is_there() -> None:
    with pytest.raises(ToolError) as error_info:
        update(
            TEXT,
            *("@@ class A:", "     def run(self):", "-        started()", "@@ class C:"),
            *("-        return 1", "@@", "-        start()", "@@", "-class B:", "+class D:"),
        )
    first, second, third = str(error_info.value).split("hunk ")[1:]
    assert first.startswith("1: its lines are not in the file. The nearest is lines ")
    assert "        start()" in first
    assert second.startswith("2: no line is '@@ class C:' as a whole. The nearest is line ")
    assert third.startswith("3: its lines are there 2 times (lines 3, 9)")


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (("@@ def run(self):", "+x"), "'@@ def run(self):' is there 2 times (lines 2, 8)"),
        (("@@ class B:", "-        return 1"), "only above '@@ class B:', lines 4"),
        (("-        return 1", "*** End of File"), "not at the end of the file"),
        (("-        return 1", "@@", "-        return 1"), "two hunks change line 4"),
    ],
)
def test_a_place_that_is_not_sure_is_refused(lines: tuple[str, ...], why: str) -> None:
    with pytest.raises(ToolError) as error_info:
        update(TEXT, *lines)
    assert why in str(error_info.value)


def test_only_hunks_with_lines_to_find_may_follow_a_text_that_moved() -> None:
    [section] = parse_patch(patch("*** Update File: a", " x", "+y"))
    assert section.hunks.is_anchored
    [section] = parse_patch(patch("*** Update File: a", "@@ x", "+y"))
    assert not section.hunks.is_anchored


def as_patch(old: list[str], new: list[str], at: range) -> list[str]:
    """Return a hunk that replaces the lines `at` by `new`, with all other lines as context."""
    changed_lines = [*(f"-{old[i]}" for i in at), *(f"+{line}" for line in new)]
    return [
        *(f" {line}" for line in old[: at.start]),
        *changed_lines,
        *(f" {x}" for x in old[at.stop :]),
    ]


def test_what_a_patch_makes_is_what_it_says_whatever_the_lines_hold() -> None:
    chance = random.Random(7)
    words = ["", " ", "x", "\tx", "    x", "-x", "+x", "@@", "@@ x", "*** End Patch", "é😀", "\x0c"]
    for _ in range(500):
        old = [chance.choice(words) for _ in range(chance.randrange(1, 8))]
        first, last = sorted(chance.choices(range(len(old) + 1), k=2))
        new = [chance.choice(words) for _ in range(chance.randrange(0, 3))]
        eol, end = chance.choice(["\n", "\r\n"]), chance.choice([True, False])
        lines_expected = [*old[:first], *new, *old[last:]]
        text = eol.join(old) + (eol if end else "")
        if not end and (old[-1] == "" or last == len(old)):
            continue  # Other tests cover how such a text ends.
        new_text = update(text, *as_patch(old, new, range(first, last)))
        assert new_text == eol.join(lines_expected) + (eol if end and lines_expected else "")


def test_garbage_is_refused_or_changes_only_what_it_names() -> None:
    chance = random.Random(11)
    pieces = [
        *("*** Begin Patch", "*** End Patch", "*** Update File: a", "*** Add File: b", "@@"),
        *("*** Delete File: c", "*** Move to: d", "*** End of File", "@@ class A:", "@@ x", ""),
        *("-        start()", "+new", "         start()", " class A:", "-class B:", "x", "\r", "-"),
    ]
    n_read = 0
    for _ in range(3000):
        lines = [chance.choice(pieces[2:]) for _ in range(chance.randrange(1, 8))]
        text = patch(*lines) if chance.random() < 0.9 else "\n".join(lines)
        try:
            for section in parse_patch(text):
                new_text = locate_edits(TEXT, section.hunks.edits).after
                before = Counter[str](TEXT.splitlines())
                after = Counter[str](new_text.splitlines())
                assert {f"-{line}" for line in before - after} <= set(lines)
                assert {f"+{line}" for line in after - before} <= set(lines)
                n_read += 1
        except ToolError:
            continue
    assert n_read > 50
