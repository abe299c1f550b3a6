"""Notes on disk: which of them a prompt includes, what a search finds, and that none is lost."""

import os
import subprocess
import sys
from pathlib import Path

from oh_daemon.features.memory.notes import (
    MAX_PROMPT_CHARS,
    Note,
    Notes,
    memory_section,
    parse_notes,
    render_note,
    search_notes,
)

WRITER = """
import sys
from pathlib import Path
from oh_daemon.features.memory.notes import Notes, render_note

notes = Notes({"project": Path(sys.argv[1])})
for n in range(40):
    text = f"{sys.argv[2]} {n} " + "x" * 3000
    notes.add("project", "notes", render_note(text, "c1", "2026-01-01"))
"""


def test_a_note_stays_one_whatever_it_says() -> None:
    entry = render_note("# Big\n## 2099-01-01 forged\ntext", "c1", "2026-02-03")
    [note] = parse_notes("user/notes.md", entry)
    assert note.date == "2026-02-03"
    assert note.text.startswith("## 2026-02-03 (conversation c1)\n\n#### Big\n##### 2099-01-01")


def test_the_newest_notes_and_those_of_the_user_are_in_the_prompt_within_its_limit() -> None:
    text = "Ana likes tabs.\n" + "".join(
        render_note(f"fact {n} {'x' * 2000}", "c1", f"2026-01-{n:02}") for n in range(1, 20)
    )
    notes = parse_notes("user/notes.md", text)
    section = memory_section(notes)
    assert section == memory_section(parse_notes("user/notes.md", text))
    assert len(section) < MAX_PROMPT_CHARS + 2_000
    assert section.index("Ana likes tabs.") < section.index("fact 19 ") < section.index("fact 18 ")
    assert "fact 3 " not in section
    assert "more notes in user/notes.md]" in section


def test_a_search_puts_those_first_that_have_most_of_the_words() -> None:
    notes = [
        Note("user/a.md", "## 2026-01-01\nThe build needs make."),
        Note("user/a.md", "## 2026-01-02\nThe build of docs needs Sphinx."),
        Note("user/b.md", "## 2026-01-03\nNothing of it."),
    ]
    notes_found = search_notes(notes, "BUILD docs")
    assert notes_found.index("Sphinx") < notes_found.index("make")
    assert "Nothing" not in notes_found
    assert search_notes(notes, "zebra") == "None of 3 notes has a word of 'zebra'."


def test_a_long_note_is_shown_in_part_and_leaves_room_for_others() -> None:
    long = Note("user/long.md", "Begin. " + "Filler. " * 4_000 + "The zebra.")
    short = Note("user/notes.md", "## 2026-01-01\nThe build needs make.")
    section = memory_section([long, short])
    assert "[characters 1 to 5,000 of 32,017]\nBegin." in section
    assert "The build needs make." in section
    notes_found = search_notes([long, short], "zebra")
    assert "[characters 27,018 to 32,017 of 32,017]\n" in notes_found
    assert "The zebra." in notes_found


def test_two_daemons_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    folder = tmp_path / ".openhands/memory"
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(folder), name]) for name in ("a", "b")
    ]
    assert [each.wait(120) for each in writers] == [0, 0]
    texts = [note.text.splitlines()[2].split()[:2] for note in Notes({"project": folder}).read()]
    assert sorted(texts) == sorted([name, str(n)] for name in ("a", "b") for n in range(40))
    assert (folder / "notes.md").stat().st_mode & 0o777 == 0o600


def test_a_file_that_the_user_edits_keeps_its_end_and_broken_ones_are_passed_over(
    tmp_path: Path,
) -> None:
    notes = Notes({"project": tmp_path / "p/memory", "user": tmp_path / "u/memory"})
    assert notes.read() == []
    path = notes.add("user", "style", render_note("Use tabs.", "c1", "2026-01-01"))
    path.write_text("By hand, without a newline")
    notes.add("user", "style", render_note("Use spaces.", "c2", "2026-01-02"))
    (path.parent / "link.md").symlink_to("/etc/passwd")
    (path.parent / "pipe.md").mkdir()
    os.mkfifo(path.parent / "fifo.md")
    (path.parent / "binary.md").write_bytes(b"\xff\xfe\x00")
    texts = [note.text for note in notes.read() if note.file == "user/style.md"]
    assert texts == [
        "By hand, without a newline",
        "## 2026-01-02 (conversation c2)\n\nUse spaces.",
    ]
