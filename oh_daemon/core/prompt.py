"""The system prompt: a packaged text, then what is particular to this conversation.

The static part comes first and is the same to the byte for every conversation, so providers can
cache it; the whole of it is in the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

MAX_CHARS = 32 << 10
STATIC = Path(__file__).with_name("system_prompt.md").read_text("utf-8")


@dataclass(frozen=True, slots=True)
class ContextFile:
    """A text of the project for its agents, by the name that the model can view it under."""

    name: str
    text: str


def render_system_prompt(
    folders: Sequence[str],
    *,
    platform: str,
    context_files: Sequence[ContextFile] = (),
    sections: Sequence[str] = (),
    instructions: str | None = None,
) -> str:
    """The whole prompt. `instructions` come from the user and are last, where they weigh most."""
    places = "\n".join(f"- {folder}" for folder in folders) or "- none: there is no workspace"
    here = f"Platform: {platform}. Folders, the first is the default:\n{places}"
    parts = [STATIC, f"# This workspace\n{here}"]
    if context_files:
        told = "\n".join(map(render_context_file, context_files))
        parts.append(f"# What the project says to agents\n{told}")
    parts.extend(sections)
    if instructions:
        parts.append(f"# From the user\n{instructions.strip()}")
    return "\n".join(parts) + "\n"


def capped(text: str) -> str:
    """At most so much of a file, and at its end what was cut."""
    if len(text) <= MAX_CHARS:
        return text
    cut = f"\n[cut after {MAX_CHARS:,} of {len(text):,} characters; view the file for the rest]"
    return text[:MAX_CHARS] + cut


def render_context_file(file: ContextFile) -> str:
    return f"<context file={file.name!r}>\n{file.text.strip()}\n</context>"
