"""The system prompt: a packaged text, then what is particular to this conversation.

The static part comes first and is the same to the byte for every conversation, so providers can
cache it; the whole of it is in the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

STATIC = Path(__file__).with_name("system_prompt.md").read_text("utf-8")


def render_system_prompt(
    folders: Sequence[str], *, platform: str, instructions: str | None = None
) -> str:
    """The whole prompt. `instructions` come from the user and are last, where they weigh most."""
    places = "\n".join(f"- {folder}" for folder in folders) or "- none: there is no workspace"
    here = f"Platform: {platform}. Folders, the first is the default:\n{places}"
    parts = [STATIC, f"# This workspace\n{here}"]
    if instructions:
        parts.append(f"# From the user\n{instructions.strip()}")
    return "\n".join(parts) + "\n"
