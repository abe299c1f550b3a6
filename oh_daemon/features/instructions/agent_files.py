"""Named agents for sub-agents' tasks, read from the files of trusted folders and of the user."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from pathlib import Path

from oh_daemon.features.subagents.agents import AgentSource, NamedAgent, parse_agent
from oh_daemon.workspace.agent_files import AGENT_FOLDERS
from oh_daemon.workspace.files import read_plain

logger = logging.getLogger(__name__)

_MAX_BYTES = 64 << 10
_MAX_FILES = 100


def find_agents(trusted_folders: Iterable[Path], home: Path | None) -> Iterator[NamedAgent]:
    """Yield the agents of these folders, then the user's own.

    In the folders, links that lead outside are ignored.
    """
    for folder in trusted_folders:
        yield from _agents_in(folder, "project")
    if home is not None:
        yield from _agents_in(home, "user")


def _agents_in(folder: Path, source: AgentSource) -> Iterator[NamedAgent]:
    for place in AGENT_FOLDERS:
        for path in sorted((folder / place).glob("*.md"))[:_MAX_FILES]:
            try:
                inside = source == "user" or path.resolve().is_relative_to(folder.resolve())
                data = read_plain(path, _MAX_BYTES) if inside else b""
            except OSError as exc:
                logger.warning("no agent from %s: %s", path, exc)
                continue
            agent = parse_agent(data.decode("utf-8", "replace"), path.stem, source, str(path))
            if agent is not None:
                yield agent
            else:
                logger.warning("%s defines no agent: it needs a description and a prompt", path)
