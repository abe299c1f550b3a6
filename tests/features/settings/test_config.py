"""`config/read` as a plain function."""

from pathlib import Path
from typing import Any

import pytest

from oh_daemon.features.settings.handlers import config_read
from oh_daemon.protocol.daemon_messages import ConfigReadParams
from oh_daemon.protocol.errors import InvalidParamsError
from oh_daemon.protocol.settings import Layer, Merged, merge_settings

SECRET = "sk-0123456789"
HEADERS = {"extraHeaders": {"x": SECRET}, "temperature": 0.5}
SERVER = {"command": "server", "env": {"TOKEN": SECRET}}
REMOTE = {"url": "https://mcp.example/", "headers": {"authorization": SECRET}}


def settings_from(values: dict[str, Any], folders: list[Path | None]) -> Any:
    """Return a source of these settings that notes the folders it is asked for."""

    def settings(folder: Path | None) -> Merged:
        folders.append(folder)
        return merge_settings([Layer("user", values)])

    return settings


def test_every_place_that_may_hold_a_secret_is_hidden() -> None:
    values = {
        "llm": {**HEADERS, "apiKey": SECRET},
        "profiles": {"big": {"model": "openai/big", "llm": HEADERS}},
        "mcpServers": {"local": SERVER, "remote": REMOTE},
    }
    result = config_read(settings_from(values, []), ConfigReadParams(), [])
    hidden = {"extraHeaders": "***", "temperature": 0.5}
    assert result.problems == ()
    assert result.value["llm"] == {**hidden, "apiKey": "***"}
    assert result.value["profiles"]["big"]["llm"] == hidden
    servers = result.value["mcpServers"]
    assert servers["local"]["env"] == {"TOKEN": "***"}
    assert servers["remote"]["headers"] == {"authorization": "***"}
    assert SECRET not in str(result)


def test_the_first_folder_decides_and_an_unknown_section_is_refused() -> None:
    folders: list[Path | None] = []
    settings = settings_from({"mode": "plan"}, folders)
    opened = [Path("/a"), Path("/b")]
    result = config_read(settings, ConfigReadParams(section="mode"), opened)
    assert (result.value, folders) == ({"mode": "plan"}, [Path("/a")])
    with pytest.raises(InvalidParamsError, match="no setting 'colour'; it is one of model, "):
        config_read(settings, ConfigReadParams(section="colour"), [])
