"""The system prompt: a packaged text, then what is particular to this conversation.

The packaged part comes first and is byte for byte the same for the same tools, so that providers
can cache it. The log has the whole prompt.

Texts for the model are rows, each with the facts under which it is true; `true_rows` leaves out the
others. Prompt, descriptions of tools and rows of the environment all go through it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from oh_daemon.common.instructions import ContextFile, render_context_file
from oh_daemon.kernel.ports import ToolSpec

_PACKAGED = Path(__file__).with_name("system_prompt.md").read_text("utf-8")
_CONDITIONS = re.compile(r"(?:\?!?\w+ )+")
"""The conditions of a row: facts with or without which it is true."""
FACTS: Mapping[str, str] = {
    "attended": "a user can answer, if only with the next message",
    "changes": "at least one tool changes files",
    "editor": "the user sees the workspace in an editor, which takes edits",
    "buffers": "tools see the editor's unsaved text and edit it there: not if `isolated`",
    "isolated": "all changes stay apart from the user's files until the user applies them",
    "overlay": "commands run in a sandbox, with a network of its own",
    "landlock": "commands that only read run where they can neither write nor use the network",
    "subagent": "the agent works for another agent",
}
"""The facts of an agent in conditions, next to the names of its tools."""


def true_rows(text: str, facts: Collection[str]) -> str:
    r"""Return the lines of a text that are true under `facts`, without their conditions.

    Facts are those of `FACTS` and the names of tools. `?changes ?!apply_patch ` begins a line that
    is true with the one and without the other; a line without conditions is always true.

        true_rows("Be brief.\n?ask Ask the user.", {"ask"})  # "Be brief.\nAsk the user."
    """
    rows: list[str] = []
    for line in text.splitlines():
        match = _CONDITIONS.match(line)
        conditions = match[0].split() if match else []
        if all((each.lstrip("?!") in facts) != ("!" in each) for each in conditions):
            rows.append(line[match.end() :] if match else line)
    return "\n".join(rows)


def true_spec(spec: ToolSpec, facts: Collection[str]) -> ToolSpec:
    """Return the spec with the rows of its description that are true under `facts`."""
    return replace(spec, description=true_rows(spec.description, facts))


def packaged_prompt(facts: Collection[str]) -> str:
    """Return the rows of `system_prompt.md` that are true of an agent with these facts."""
    return true_rows(_PACKAGED, facts) + "\n"


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
