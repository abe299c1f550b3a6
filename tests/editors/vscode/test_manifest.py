"""What the extension declares, names and packs fits the daemon."""

import json
import re
import zipfile
from pathlib import Path

import pytest

from oh_daemon.protocol.methods import METHODS

EXTENSION = Path(__file__).parents[3] / "editors/vscode"
NOUNS = (
    "approval attachment changes command config context conversation daemon editor input mcp model"
)
METHOD = rf'"((?:{"|".join(NOUNS.split())}|checkpoint|output|usage)/\w+)"'


def test_a_repository_cannot_set_what_keeps_the_user_safe() -> None:
    manifest = json.loads((EXTENSION / "package.json").read_text())
    properties = manifest["contributes"]["configuration"]["properties"]
    open_ones = {name for name, setting in properties.items() if setting["scope"] != "machine"}
    names = ("maxSteps", "condenser", "instructions")
    assert open_ones == {f"ohDaemon.{name}" for name in names}
    # In a folder that is not trusted, not even those count.
    restricted_settings = manifest["capabilities"]["untrustedWorkspaces"][
        "restrictedConfigurations"
    ]
    assert open_ones < set(restricted_settings)


def test_the_extension_names_only_methods_that_exist() -> None:
    sources = "".join(p.read_text() for p in EXTENSION.glob("[sw]*/*.ts"))
    method_names = {method.name for method in METHODS}
    assert set(re.findall(METHOD, sources)) <= method_names


def test_the_extension_itself_talks_to_nobody_but_the_daemon_and_models_on_this_machine() -> None:
    """And the panel's content policy forbids the panel to."""
    words = (
        r"fetch\(|WebSocket|XMLHttpRequest|sendBeacon|EventSource|elemetry|node:(?:https?|net|tls)"
    )
    uses = {p.name: re.findall(words, p.read_text()) for p in EXTENSION.glob("[sw]*/*.ts")}
    assert {name: each for name, each in uses.items() if each} == {"localservers.ts": ["fetch("]}


def test_the_package_holds_the_daemon_and_is_small_without_it() -> None:
    if not (EXTENSION / "oh.vsix").exists():
        pytest.skip("needs what `make vsix` makes")
    with zipfile.ZipFile(EXTENSION / "oh.vsix") as package:
        sizes = {each.filename: each.compress_size for each in package.infolist()}
    wheels = [name for name in sizes if name.endswith(".whl")]
    assert [Path(name).parent.as_posix() for name in wheels] == ["extension/daemon"]
    assert "extension/daemon/requirements.lock" in sizes
    assert sum(sizes.values()) - sizes[wheels[0]] < 360_000
