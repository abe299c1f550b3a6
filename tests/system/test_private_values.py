"""What is kept of sign-ins is read only from plain files that belong to the user."""

import os
from pathlib import Path

import pytest

from oh_daemon.system.private_files import PrivateValues

NAME = "https://shop.example/mcp"


@pytest.mark.parametrize("planted_text", ["a link", "a pipe", "a list"])
def test_what_somebody_planted_in_its_place_is_nothing(tmp_path: Path, planted_text: str) -> None:
    private_values = PrivateValues(tmp_path / "mcp")
    private_values[NAME] = {"tokens": {"access_token": "ours"}}
    assert private_values.get(NAME, {}) == {"tokens": {"access_token": "ours"}}
    [file] = (tmp_path / "mcp").iterdir()
    file.rename(tmp_path / "elsewhere")
    if planted_text == "a link":
        file.symlink_to(tmp_path / "elsewhere")
    elif planted_text == "a pipe":
        os.mkfifo(file)
    else:
        file.write_text("[]")
    assert private_values.get(NAME, {"none": True}) == {"none": True}
