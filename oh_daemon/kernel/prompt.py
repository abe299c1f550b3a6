"""The system prompt: a packaged text, then what is particular to this conversation.

The packaged part comes first and is byte for byte the same for the same tools, so that providers
can cache it. The log has the whole prompt.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

MAX_CHARS = 32 << 10
_LINES = Path(__file__).with_name("system_prompt.md").read_text("utf-8").splitlines()
_CONDITIONS = re.compile(r"(?:\?!?\w+ )+")
"""The conditions of a line: facts with or without which it is in the prompt."""


@dataclass(frozen=True, slots=True)
class ContextFile:
    """A text that the project has for agents; the model can view it under `name`."""

    name: str
    text: str


def packaged_prompt(facts: Collection[str]) -> str:
    """Return the text that fits an agent: the lines of `system_prompt.md` that are true of it.

    `facts` are the names of its tools, `changes` if any of them edits files, and `editor` if the
    user sees the workspace in one. `?changes ?!apply_patch ` begins a line that is true with the
    one and without the other.
    """
    lines: list[str] = []
    for line in _LINES:
        match = _CONDITIONS.match(line)
        conditions = match[0].split() if match else []
        if all((each.lstrip("?!") in facts) != ("!" in each) for each in conditions):
            lines.append(line[match.end() :] if match else line)
    return "\n".join(lines) + "\n"


def render_system_prompt(
    folders: Sequence[str],
    *,
    environment: Mapping[str, str],
    context_files: Sequence[ContextFile] = (),
    sections: Sequence[str] = (),
    instructions: str | None = None,
    packaged: str,
) -> str:
    """Return the whole prompt; the user's `instructions` come last, where they weigh most.

    A program may have a text of its own in place of the `packaged` one. What differs from one
    conversation to the next comes as late as possible.
    """
    places = "\n".join(f"- {folder}" for folder in folders) or "- none: there is no workspace"
    parts = [packaged, f"# This workspace\nFolders, the first is the default:\n{places}"]
    if context_files:
        text = "\n".join(map(render_context_file, context_files))
        parts.append(f"# What the project says to agents\n{text}")
    parts.extend(sections)
    parts.append(f"# Environment\n{render_rows(environment)}")
    if instructions:
        parts.append(f"# From the user\n{instructions.strip()}")
    return "\n".join(parts) + "\n"


def render_rows(facts: Mapping[str, str]) -> str:
    return "\n".join(f"{key}: {value}" for key, value in facts.items())


def cap_text(text: str) -> str:
    """Return at most `MAX_CHARS` characters of a file, then a note of what was cut."""
    if len(text) <= MAX_CHARS:
        return text
    cut_note = (
        f"\n[cut after {MAX_CHARS:,} of {len(text):,} characters; view the file for the rest]"
    )
    return text[:MAX_CHARS] + cut_note


def render_context_file(file: ContextFile) -> str:
    return f"<context file={file.name!r}>\n{file.text.strip()}\n</context>"
