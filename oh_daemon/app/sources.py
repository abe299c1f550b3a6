"""Collects settings from files, environment, command line and client for `contract.settings`.

Only the daemon and the command line read files and variables; the Python API does not.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from oh_daemon.contract.hooks import HookTable, read_hooks
from oh_daemon.contract.llm import LLMSettings
from oh_daemon.contract.settings import Layer, Merged, Settings, Source, merge_settings
from oh_daemon.core.rules import check_rules
from oh_daemon.workspace.files import read_plain
from oh_daemon.workspace.spawner import SECRET_NAME

SETTINGS_FILE = Path(".openhands") / "settings.json"
HOOK_FILES = (Path(".openhands") / "hooks.json", Path(".claude") / "settings.json")
_VARIABLES = {
    "OH_DAEMON_MODEL": "model",
    "OH_DAEMON_APPROVAL": "approval",
    "OH_DAEMON_MODE": "mode",
    "OH_DAEMON_SANDBOX": "sandbox",
    "OH_DAEMON_MAX_STEPS": "maxSteps",
    "OH_DAEMON_MAX_COST_USD": "maxCostUsd",
    "OH_DAEMON_MAX_MINUTES": "maxMinutes",
    "OH_DAEMON_TITLES": "titles",
    "OH_DAEMON_LOG_LEVEL": "logLevel",
}
_LLM_VARIABLES = {
    "OH_DAEMON_API_KEY": "apiKey",
    "OH_DAEMON_BASE_URL": "baseUrl",
    "OH_DAEMON_API_VERSION": "apiVersion",
}
_MAX_BYTES = 1 << 20


@dataclass(slots=True)
class SettingsSources:
    """All sources of a process's settings. `client` changes with the editor's configuration."""

    environment: Mapping[str, str]
    user_file: Path
    command_line: Mapping[str, Any] = field(default_factory=dict[str, Any])
    client: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def merged(self, folder: Path | None = None, *, is_trusted: bool = True) -> Merged:
        """Return the settings in force in `folder`; its project's count only if it is trusted."""
        problems: list[str] = []
        layers = [
            Layer("client", self.client),
            Layer("command line", self.command_line),
            Layer("environment", _from_environment(self.environment)),
        ]
        if folder is not None:
            settings = _from_file(folder / SETTINGS_FILE, "project", problems)
            project = [settings, *_project_hooks(folder, problems)]
            if is_trusted:
                layers += project
            elif any(layer.values for layer in project):
                why = "because the folder is not trusted"
                problems.append(f"project: its settings and hooks are not used, {why}")
        layers.append(_from_file(self.user_file, "user", problems))
        merged = merge_settings(layers)
        rules, wrong = check_rules(merged.settings.rules)
        settings = merged.settings.model_copy(update={"rules": rules})
        return Merged(settings, merged.sources, (*problems, *merged.problems, *wrong))


def project_hooks(folder: Path) -> Iterator[tuple[Path, HookTable]]:
    """Yield each file of a project that has hooks, with them."""
    for path in (folder / name for name in (SETTINGS_FILE, *HOOK_FILES)):
        values = _from_file(path, "project", []).values
        if "hooks" in values:
            yield path, read_hooks(values["hooks"], "project")[0]


def secret_values(environment: Mapping[str, str]) -> list[str]:
    """Return the values of variables whose names suggest a secret, to be masked everywhere."""
    return [value for name, value in environment.items() if SECRET_NAME.search(name)]


def llm_settings(settings: Settings, model: str) -> LLMSettings:
    """Return how to reach `model` under these settings."""
    return LLMSettings.model_validate({**settings.llm, "model": model})


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    values = {key: environment[name] for name, key in _VARIABLES.items() if environment.get(name)}
    llm = {key: environment[name] for name, key in _LLM_VARIABLES.items() if environment.get(name)}
    return {**values, "llm": llm} if llm else values


def _project_hooks(folder: Path, problems: list[str]) -> list[Layer]:
    """Return the hooks that the project keeps in separate files."""
    found = [_from_file(folder / name, "project", problems).values for name in HOOK_FILES]
    return [Layer("project", {"hooks": values["hooks"]}) for values in found if "hooks" in values]


def _from_file(path: Path, source: Source, problems: list[str]) -> Layer:
    """Return a file's values. An unreadable file is reported, and the stricter defaults apply."""
    try:
        values = json.loads(read_plain(path, _MAX_BYTES).decode())
    except FileNotFoundError:
        return Layer(source, {})
    except (OSError, ValueError, RecursionError) as exc:
        problems.append(f"{source}: {path} cannot be read ({exc}); it is left out")
        return Layer(source, {})
    if not isinstance(values, dict):
        problems.append(f"{source}: {path} must hold a JSON object; it is left out")
        return Layer(source, {})
    found = cast("dict[str, Any]", values)
    llm = found.get("llm")
    if isinstance(llm, dict) and {"apiKey", "api_key"} & cast("dict[str, Any]", llm).keys():
        problems.append(
            f"{source}: {path} holds a key; keys belong in the environment or the editor's secret "
            "store, so it is left out"
        )
        kept = {
            k: v for k, v in cast("dict[str, Any]", llm).items() if k not in {"apiKey", "api_key"}
        }
        found = {**found, "llm": kept}
    return Layer(source, found)
