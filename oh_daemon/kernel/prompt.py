"""The system prompt: a packaged text, then what is particular to this conversation.

The packaged part comes first and is byte for byte the same for the same tools, so that providers
can cache it. The log has the whole prompt.

Texts for the model are rows, each with the facts under which it is true; `true_rows` leaves out the
others. Prompt, descriptions of tools and rows of the environment all go through it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from oh_daemon.kernel.ports import ToolSpec

MAX_CHARS = 32 << 10
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
INSTRUCTIONS_TAG = "agent_instructions"
"""The tag around texts that the model follows; `escape_instructions` keeps it out of all others."""
_BREAKS = r"\n\r\v\f\x1c-\x1e\x85\u2028\u2029"
_BLANKS = r"[ \t\xa0\xad\u1680\u2000-\u200f\u202f\u205f\u2060-\u2064\u3000\ufeff]*"
_INSTRUCTIONS = re.compile(
    rf"((?:\A|[{_BREAKS}]){_BLANKS})<(?={_BLANKS}/?{_BLANKS}{INSTRUCTIONS_TAG})", re.IGNORECASE
)
"""The tag where a model may take it for a tag: first in a line, however blank or broken."""


@dataclass(frozen=True, slots=True)
class ContextFile:
    """Instructions of the project, or of a `skill`; the model can view them under `name`."""

    name: str
    text: str
    skill: str | None = None


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


def cap_text(text: str) -> str:
    """Return at most `MAX_CHARS` characters of a file, then a note of what was cut."""
    if len(text) <= MAX_CHARS:
        return text
    cut_note = (
        f"\n[cut after {MAX_CHARS:,} of {len(text):,} characters; view the file for the rest]"
    )
    return text[:MAX_CHARS] + cut_note


def render_context_file(file: ContextFile) -> str:
    """Return the text in its tag, which it cannot close before its end.

    >>> print(render_context_file(ContextFile("web/AGENTS.md", "Use tabs.")))
    <agent_instructions file='web/AGENTS.md'>
    Use tabs.
    </agent_instructions>
    """
    skill = "" if file.skill is None else f" skill={file.skill!r}"
    head = f"<{INSTRUCTIONS_TAG}{skill} file={file.name!r}>"
    return f"{head}\n{escape_instructions(file.text.strip())}\n</{INSTRUCTIONS_TAG}>"


def instructions_part(file: ContextFile) -> dict[str, Any]:
    """Return the text as a part of a tool's result, with the mark that only the daemon sets."""
    text = render_context_file(file)
    return {"type": "text", "text": text, "_meta": {"oh-daemon/instructions": file.name}}


def is_instructions(part: Mapping[str, Any]) -> bool:
    """Return whether a part of a result has the mark; a tool's own parts never keep it."""
    match part:
        case {"type": "text", "_meta": {"oh-daemon/instructions": _}}:
            return True
        case _:
            return False


def escape_instructions(text: str) -> str:
    """Return a text of others so that no line of it begins with the tag of instructions.

    Within a line the tag stays as it is, so that code that contains it can be edited.
    """
    return _INSTRUCTIONS.sub(r"\1&lt;", text)
