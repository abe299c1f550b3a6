"""Handlers of `config/*` and `secret/*`: the settings in force, and secrets that a client sends."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from pathlib import Path

from oh_daemon.common.masking import Masker, SecretSource
from oh_daemon.features.settings.sources import merge_and_check
from oh_daemon.protocol import daemon_messages as m
from oh_daemon.protocol.errors import InvalidParamsError
from oh_daemon.protocol.problems import render_problem
from oh_daemon.protocol.settings import Layer, Merged

_HIDDEN = "***"


def config_read(
    settings: Callable[[Path | None], Merged], params: m.ConfigReadParams, folders: Sequence[Path]
) -> m.ConfigReadResult:
    """Return the settings in force in the first folder; what may be a secret is `***`."""
    merged_settings = settings(next(iter(folders), None))
    value = merged_settings.settings.model_dump(mode="json")
    for each in (value, *value["profiles"].values()):
        each["llm"] = {k: _HIDDEN if _is_secret(k) else v for k, v in each["llm"].items()}
    for server in value["mcpServers"].values():
        server |= {key: dict.fromkeys(server[key], _HIDDEN) for key in ("env", "headers")}
    if params.section is not None:
        if params.section not in value:
            what = f"no setting {params.section!r}; it is one of {', '.join(value)}"
            raise InvalidParamsError.at("section", what, "unknown")
        value = {params.section: value[params.section]}
    problems = tuple(map(render_problem, merged_settings.problems))
    return m.ConfigReadResult(value=value, sources=merged_settings.sources, problems=problems)


def _is_secret(name: str) -> bool:
    return any(word in name.lower() for word in ("key", "headers"))


def config_validate(params: m.ConfigValidateParams) -> m.ConfigValidateResult:
    merged_settings = merge_and_check([Layer(params.source, params.settings)])
    return m.ConfigValidateResult(problems=tuple(map(render_problem, merged_settings.problems)))


def secret_set(
    model_secrets: MutableMapping[str, str],
    command_secrets: MutableMapping[str, SecretSource],
    masker: Masker,
    params: m.SecretSetParams,
) -> m.SecretNames:
    """Keep a secret for models, or for the commands that name its variable."""
    value = params.value.get_secret_value()
    masker.add(value)
    if params.for_commands:
        command_secrets[params.name] = value
    else:
        model_secrets[params.name] = value
    return secret_list(model_secrets, command_secrets)


def secret_remove(
    model_secrets: MutableMapping[str, str],
    command_secrets: MutableMapping[str, SecretSource],
    params: m.SecretRemoveParams,
) -> m.SecretNames:
    model_secrets.pop(params.name, None)
    command_secrets.pop(params.name, None)
    return secret_list(model_secrets, command_secrets)


def secret_list(
    model_secrets: MutableMapping[str, str], command_secrets: MutableMapping[str, SecretSource]
) -> m.SecretNames:
    return m.SecretNames(
        names=tuple(sorted(model_secrets)), for_commands=tuple(sorted(command_secrets))
    )
