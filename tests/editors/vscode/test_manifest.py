"""What the extension promises in its manifest and types is what the daemon has."""

import json
import re
from pathlib import Path

from oh_daemon.contract.protocol import CLIENT_REQUESTS, NOTIFICATIONS, REQUESTS
from oh_daemon.contract.settings import KEYS, Settings

EXTENSION = Path(__file__).parents[3] / "editors/vscode"
METHOD = r'"((?:conversation|approval|output|model|config|editor|daemon)/\w+)"'


def test_every_setting_of_the_daemon_is_offered_with_its_default() -> None:
    manifest = json.loads((EXTENSION / "package.json").read_text())
    offered = manifest["contributes"]["configuration"]["properties"]
    ours = {
        k.removeprefix("ohDaemon."): v["default"] for k, v in offered.items() if "ohDaemon" in k
    }
    assert ours == json.loads(Settings().model_dump_json())
    assert set(ours) == set(KEYS)


def test_a_repository_cannot_set_what_keeps_the_user_safe() -> None:
    manifest = json.loads((EXTENSION / "package.json").read_text())
    offered = manifest["contributes"]["configuration"]["properties"]
    open_ones = {name for name, setting in offered.items() if setting["scope"] != "machine"}
    assert open_ones == {"ohDaemon.maxSteps", "ohDaemon.maxCostUsd", "ohDaemon.instructions"}


def test_the_extension_names_only_methods_that_exist() -> None:
    sources = "".join(p.read_text() for p in EXTENSION.glob("[sw]*/*.ts"))
    known = {m.name for m in (*REQUESTS, *NOTIFICATIONS, *CLIENT_REQUESTS)}
    assert set(re.findall(METHOD, sources)) <= known
