"""The identity of a program of the project: it changes with each file that the program runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from oh_daemon.features.trust.trust import (
    ProgramIdentity,
    command_identity,
    hook_identity,
    server_identity,
)
from oh_daemon.protocol.mcp import McpServerSettings

_FILES = ("x.sh", "scripts/x.py", "pkg/__main__.py", "Makefile", "package.json", "hook.js")


def _identity(kind: str, command: Any, folder: Path, *, is_sandboxed: bool) -> ProgramIdentity:
    if kind == "server":
        server = McpServerSettings(**command)
        return server_identity("s", server, folder, is_sandboxed=is_sandboxed)
    identify = hook_identity if kind == "hook" else command_identity
    return identify(command, folder, is_sandboxed=is_sandboxed)


@pytest.mark.parametrize(
    ("kind", "command", "is_bound"),
    [
        ("hook", "./x.sh --all", True),
        ("hook", '"$CLAUDE_PROJECT_DIR"/scripts/x.py', True),
        ("hook", "cd scripts && python3 ${OH_PROJECT_DIR}/x.sh", True),
        ("hook", "bash -c 'exec ./x.sh'", True),
        ("hook", "make -s check", False),
        ("hook", "npm run -s lint", False),
        ("hook", "cat x.sh | sh", False),
        ("hook", '"$(git rev-parse --show-toplevel)/x.sh"', False),
        ("hook", "python3 -m pkg", False),
        ("hook", "PATH=$PWD/bin fmt", False),
        ("hook", "xargs -a args.txt sh", False),
        ("skillCommand", "sh x.sh", True),
        ("skillCommand", "make", False),
        ("skillCommand", "$CLAUDE_PROJECT_DIR/x.sh", False),
        ("server", {"command": "node", "args": ["hook.js", "--port", "0"]}, True),
        ("server", {"command": "./x.sh", "env": {"LEVEL": "a b"}}, True),
        ("server", {"command": "npx", "args": ["-y", "some-server"]}, False),
        ("server", {"command": "node", "args": ["hook.js"], "env": {"NODE_OPTIONS": "x"}}, False),
        ("server", {"command": "node", "args": ["${NAME}", "hook.js"]}, False),
    ],
)
def test_program_is_another_one_when_what_it_runs_changes(
    tmp_path: Path, kind: str, command: Any, is_bound: bool
) -> None:
    (tmp_path / ".git").mkdir()

    def identities(text: str) -> tuple[ProgramIdentity, ProgramIdentity]:
        for name in _FILES:
            path = tmp_path / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        outside = _identity(kind, command, tmp_path, is_sandboxed=False)
        return outside, _identity(kind, command, tmp_path, is_sandboxed=True)

    outside, sandboxed = identities("exit 0\n")
    outside_later, sandboxed_later = identities("exit 1\n")
    assert (outside != outside_later) is is_bound
    assert (sandboxed != sandboxed_later) is is_bound
    assert outside.runs_other_files is not is_bound
    assert not sandboxed.runs_other_files
    assert (outside.sha256 == sandboxed.sha256) is is_bound


def test_server_that_runs_already_is_bound_to_its_address(tmp_path: Path) -> None:
    identity = _identity("server", {"url": "https://a.example"}, tmp_path, is_sandboxed=False)
    other = _identity("server", {"url": "https://b.example"}, tmp_path, is_sandboxed=False)
    assert not identity.runs_other_files
    assert identity.sha256 != other.sha256
