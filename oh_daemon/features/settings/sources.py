"""Collects settings from files, environment, command line and client for `protocol.settings`.

Only the daemon and the command line read files and variables; the Python API does not.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from operator import is_
from pathlib import Path
from typing import Any, cast

from msgspec import Struct, field
from msgspec.structs import replace

from oh_daemon.features.approval.rules import check_rules
from oh_daemon.protocol.llm import LLMSettings
from oh_daemon.protocol.problems import Problem, Source
from oh_daemon.protocol.rules_and_hooks import HookTable, read_hooks
from oh_daemon.protocol.settings import Layer, Merged, Settings, merge_settings
from oh_daemon.system.environment import SECRET_NAME
from oh_daemon.system.private_files import CachedFile
from oh_daemon.workspace.files import read_plain

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


class _FileLayer(Struct, frozen=True):
    """What one file sets, and what is wrong with it."""

    layer: Layer
    problems: tuple[Problem, ...] = ()


class SettingsSources(Struct):
    """All sources of a process's settings. `client` changes with the editor's configuration."""

    environment: Mapping[str, str]
    user_file: Path
    own_file: Path | None = None
    """A file over that of the user, which the command line names."""
    command_line: Mapping[str, Any] = field(default_factory=dict[str, Any])
    client: Mapping[str, Any] = field(default_factory=dict[str, Any])
    _files: dict[Path | None, Sequence[CachedFile[_FileLayer]]] = field(
        default_factory=dict[Path | None, Any]
    )
    """By folder, the user's file and those of the project."""
    _merged: dict[Path | None, tuple[Sequence[object], Merged]] = field(
        default_factory=dict[Path | None, Any]
    )
    """By folder, the settings and what they were merged from."""

    def of_command(self) -> Mapping[str, Any]:
        """Return what the command line sets, with the file that it names."""
        if self.own_file is None:
            return self.command_line
        return {**self._files_of(None)[0].value().layer.values, **self.command_line}

    def merged(
        self, folder: Path | None = None, is_trusted: Callable[[Path], bool] = lambda _folder: True
    ) -> Merged:
        """Return the settings in force in `folder`; its project's count only if it is trusted.

        As long as nothing changed, that is the same object, so others can keep what they make of
        it. Thread-safe.
        """
        files = self._files.get(folder)
        if files is None:
            files = self._files[folder] = self._files_of(folder)
        read = [file.value() for file in files]
        n_own = 1 if self.own_file is None else 2
        own, project = read[:n_own], read[n_own:]
        # Most projects set nothing, and trust takes longer to find out than all the rest.
        is_set_there = any(file.layer.values for file in project)
        counts = folder is None or not is_set_there or is_trusted(folder)
        made_of = (self.client, counts, *read)
        cached_settings = self._merged.get(folder)
        if cached_settings is None or not all(map(is_, cached_settings[0], made_of)):
            cached_settings = made_of, self._merge(own, project, project_counts=counts)
            self._merged[folder] = cached_settings
        return cached_settings[1]

    def _files_of(self, folder: Path | None) -> Sequence[CachedFile[_FileLayer]]:
        own = [CachedFile(self.user_file, partial(_read_layer, "user"))]
        if self.own_file is not None:
            own.insert(0, CachedFile(self.own_file, partial(_read_layer, "command line")))
        if folder is None:
            return own
        of_project = CachedFile(folder / SETTINGS_FILE, partial(_read_layer, "project"))
        hooks = (CachedFile(folder / name, _read_hooks) for name in HOOK_FILES)
        return (*own, of_project, *hooks)

    def _merge(
        self, own: Sequence[_FileLayer], project: Sequence[_FileLayer], *, project_counts: bool
    ) -> Merged:
        problems = [problem for file in project for problem in file.problems]
        layers = [
            Layer("client", self.client),
            Layer("command line", self.command_line),
            Layer("environment", _from_environment(self.environment)),
        ]
        if project_counts:
            layers += [file.layer for file in project]
        else:
            problems.append(Problem("untrusted", "project"))
        problems += [problem for file in own for problem in file.problems]
        merged_settings = merge_and_check([*layers, *(file.layer for file in own)])
        return replace(merged_settings, problems=(*problems, *merged_settings.problems))


def merge_and_check(layers: Sequence[Layer]) -> Merged:
    """Merge the layers, the strongest first; rules that cannot be used are problems."""
    merged_settings = merge_settings(layers)
    rules, wrong = check_rules(merged_settings.settings.rules)
    settings = merged_settings.settings.model_copy(update={"rules": rules})
    return Merged(settings, merged_settings.sources, (*merged_settings.problems, *wrong))


def project_hooks(folder: Path) -> Iterator[tuple[Path, HookTable]]:
    """Yield each file of a project that has hooks, with them."""
    names = (SETTINGS_FILE, *HOOK_FILES)
    for path in (folder / name for name in names if os.access(f"{folder}/{name}", os.F_OK)):
        values = _read_layer("project", path).layer.values
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


def _read_hooks(path: Path) -> _FileLayer:
    """Return the hooks of a file that is for hooks alone, or has another agent's settings."""
    file = _read_layer("project", path)
    hooks = {key: value for key, value in file.layer.values.items() if key == "hooks"}
    return _FileLayer(Layer("project", hooks), file.problems)


def _read_layer(source: Source, path: Path) -> _FileLayer:
    """Return a file's values. An unreadable file is reported, and the stricter defaults apply."""
    try:
        values = json.loads(read_plain(path, _MAX_BYTES).decode())
    except FileNotFoundError:
        return _FileLayer(Layer(source, {}))
    except (OSError, ValueError, RecursionError) as exc:
        problem = Problem("unreadable", source, str(path), (str(exc),))
        return _FileLayer(Layer(source, {}), (problem,))
    if not isinstance(values, dict):
        problem = Problem("noObject", source, str(path))
        return _FileLayer(Layer(source, {}), (problem,))
    settings = cast("dict[str, Any]", values)
    llm = settings.get("llm")
    if not (isinstance(llm, dict) and {"apiKey", "api_key"} & cast("dict[str, Any]", llm).keys()):
        return _FileLayer(Layer(source, settings))
    problem = Problem("holdsKey", source, str(path))
    other_settings = {
        k: v for k, v in cast("dict[str, Any]", llm).items() if k not in {"apiKey", "api_key"}
    }
    return _FileLayer(Layer(source, {**settings, "llm": other_settings}), (problem,))
