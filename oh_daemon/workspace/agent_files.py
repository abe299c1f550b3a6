"""The files by which projects and users steer coding agents: one table, for readers and guards.

`features/instructions` reads rules and agents, `features/skills` reads skills, and `path_classes`
protects all of them. A file that is read as a rule has a row here; so has no other one.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

_CLAUDE = "code.claude.com/docs/en/memory"
_CODEX = "developers.openai.com/codex/guides/agents-md"
_CURSOR = "cursor.com/docs/context/rules"
_WINDSURF = "docs.windsurf.com/windsurf/cascade/memories"
_CLINE = "docs.cline.bot/features/cline-rules"
_COPILOT = "docs.github.com/en/copilot/how-tos/configure-custom-instructions"


class RuleFile(Struct, frozen=True):
    """A file with rules, by its path in each folder, as in ".claude/CLAUDE.md"."""

    path: str
    tool: str
    source: str
    """The page that documents it, without `https://`."""
    has_imports: bool = False
    """Whether `@path` in it imports another file."""
    replaces: str | None = None
    """The file of the same folder that is not read beside this one."""


RULE_FILES = (
    RuleFile("AGENTS.override.md", "Codex", _CODEX, replaces="AGENTS.md"),
    RuleFile("AGENTS.md", "Codex, Cursor and others", "agents.md"),
    RuleFile("agents.md", "Codex, Cursor and others", "agents.md"),
    RuleFile("AGENT.md", "Amp", "ampcode.com/AGENT.md"),
    RuleFile("CLAUDE.md", "Claude Code", _CLAUDE, has_imports=True),
    RuleFile(".claude/CLAUDE.md", "Claude Code", _CLAUDE, has_imports=True),
    RuleFile("CLAUDE.local.md", "Claude Code", _CLAUDE, has_imports=True),
    RuleFile("GEMINI.md", "Gemini CLI", "geminicli.com/docs/cli/gemini-md", has_imports=True),
    RuleFile(".github/copilot-instructions.md", "GitHub Copilot", _COPILOT),
    RuleFile(".cursorrules", "Cursor", _CURSOR),
    RuleFile(".windsurfrules", "Windsurf", _WINDSURF),
    RuleFile(".clinerules", "Cline", _CLINE),
    RuleFile(".openhands/microagents/repo.md", "OpenHands", "docs.openhands.dev"),
)
"""Read in the open folders, and in a subfolder at the first look into it."""

USER_RULE_FILES = (
    RuleFile(".codex/AGENTS.override.md", "Codex", _CODEX, replaces="AGENTS.md"),
    RuleFile(".codex/AGENTS.md", "Codex", _CODEX),
    RuleFile(".claude/CLAUDE.md", "Claude Code", _CLAUDE, has_imports=True),
)
"""Read in the user's home folder, for all projects."""


class RuleFolder(Struct, frozen=True):
    """A folder at the top of an open one with a file for each rule, which says when it holds."""

    path: str
    suffix: str
    tool: str
    source: str
    otherwise: Literal["always", "never"]
    """When a rule holds that says nothing about it; "never" is by hand, in the other tool."""


RULE_FOLDERS = (
    RuleFolder(".claude/rules", ".md", "Claude Code", _CLAUDE, "always"),
    RuleFolder(".cursor/rules", ".mdc", "Cursor", _CURSOR, "never"),
    RuleFolder(".github/instructions", ".instructions.md", "GitHub Copilot", _COPILOT, "never"),
    RuleFolder(".windsurf/rules", ".md", "Windsurf", _WINDSURF, "never"),
    RuleFolder(".clinerules", ".md", "Cline", _CLINE, "always"),
)


SKILL_FOLDERS = {
    ".agents/skills": True,
    ".openhands/skills": True,
    ".openhands/microagents": True,
    ".claude/skills": False,
}
"""Folders in projects and in the user's home folder, each with whether a plain file is a skill.

The last is Claude Code's (code.claude.com/docs/en/skills), where a skill is a folder.
"""
AGENT_FOLDERS = (".agents/agents", ".openhands/agents", ".claude/agents")
"""In projects and in the user's home folder. The last is that of Claude Code's sub-agents."""

STEERING_PATHS = (
    *(row.path for row in (*RULE_FILES, *USER_RULE_FILES, *RULE_FOLDERS)),
    *SKILL_FOLDERS,
    *AGENT_FOLDERS,
)
"""All of them, relative to a folder; a folder stands for all below it."""
