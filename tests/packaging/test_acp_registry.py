"""What `packaging/acp` gives the registry of ACP agents keeps the rules of its own checks.

Its `CONTRIBUTING.md` names them; `tests/frontends/acp/test_acp_sign_in.py` has sign-in.
"""

import json
import tomllib
from typing import Any
from xml.etree import ElementTree

from jsonschema import Draft202012Validator
from places import REPO

ROOT = REPO
FOLDER = ROOT / "packaging" / "acp"
TEXT = {"type": "string", "minLength": 1}
URL = {"type": "string", "pattern": "^https://"}
PACKAGE: dict[str, Any] = {
    "type": "object",
    "required": ["package"],
    "additionalProperties": False,
    "properties": {
        "package": TEXT,
        "cmd": TEXT,
        "args": {"type": "array", "items": TEXT},
        "env": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}
AGENT: dict[str, Any] = {
    "type": "object",
    "required": ["id", "name", "version", "description", "license_url", "distribution"],
    "additionalProperties": False,
    "properties": {
        "id": {"type": "string", "pattern": "^[a-z][a-z0-9-]*$"},
        "version": {"type": "string", "pattern": r"^\d+\.\d+\.\d+$"},
        **dict.fromkeys(("name", "description", "license"), TEXT),
        **dict.fromkeys(("repository", "website", "license_url"), URL),
        "authors": {"type": "array", "items": TEXT},
        "distribution": {
            "type": "object",
            "minProperties": 1,
            "additionalProperties": False,
            "properties": {"npx": PACKAGE, "uvx": PACKAGE},
        },
    },
}


def test_the_agent_of_the_registry_is_the_one_of_this_release() -> None:
    agent = json.loads((FOLDER / "agent.json").read_text("utf-8"))
    assert [error.message for error in Draft202012Validator(AGENT).iter_errors(agent)] == []
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    # The registry knows no candidates.
    version = project["version"].partition("rc")[0]
    assert (agent["id"], agent["version"]) == (project["name"], version)
    assert (agent["license"], agent["repository"]) == (
        project["license"],
        project["urls"]["Repository"],
    )
    package = f"{project['name']}@{version}"
    assert agent["distribution"] == {"uvx": {"package": package, "args": ["acp"]}}
    assert project["name"] in project["scripts"], "the package's own command is the one to start"


def test_its_icon_is_small_and_takes_the_color_of_the_theme() -> None:
    icon = ElementTree.parse(FOLDER / "icon.svg").getroot()
    assert (icon.get("width"), icon.get("height"), icon.get("viewBox")) == (
        *("16", "16"),
        "0 0 16 16",
    )
    colors = {each.get(name) for each in icon.iter() for name in ("fill", "stroke")}
    assert colors <= {"currentColor", "none", None}
    assert not any("style" in each.keys() or each.tag.endswith("style") for each in icon.iter())  # noqa: SIM118 - an element is no mapping.
