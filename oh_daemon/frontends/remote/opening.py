"""What `initialize` says to a daemon elsewhere, and whether its answer will do. Pure.

Invariant: a key, the word of trust in a folder here, and the number of a process here do not get
there; what protects the user here protects there.
"""

from __future__ import annotations

import shlex
from typing import Any, cast

import orjson

from oh_daemon.jsonrpc.framing import encode
from oh_daemon.jsonrpc.reading import field_in, object_in
from oh_daemon.kernel.ports import Json
from oh_daemon.protocol.base import Contract
from oh_daemon.protocol.errors import UserError
from oh_daemon.protocol.settings import Settings

ABOUT_MODELS = ("llm", "profiles", "routers", "models", "keyStore")
"""Settings that are used where the models are asked, which is here."""
_HERE_ONLY = ("mcpServers", "shareTools")
"""They name programs and keys of this machine; servers there are named in the settings there."""
_LIMITS = ("maxSteps", "maxCostUsd", "maxCostUsdPerConversation", "maxCostUsdPerDay", "maxMinutes")


def opened_params(params: Json, offer: Json, settings: Settings) -> Json:
    """Return the params of `initialize` for there; `offer` has the models of here."""
    options = object_in(params, "initializationOptions")
    block = block_of(params)
    block_fields = block or {}
    untrusted_folders = [
        each for each in _list(block_fields.get("trust")) if field_in(each, "trusted") is False
    ]
    new_block = {
        **block_fields,
        **({"plain": True} if block is None else {}),
        "features": {**object_in(block_fields, "features"), "modelRequests": True},
        "models": offer,
        "trust": untrusted_folders,
        "settings": settings_there(
            object_in(block_fields, "settings"), offer.get("default"), settings
        ),
    }
    options = {**options, "ohDaemon": new_block}
    return {**params, "processId": None, "initializationOptions": options}


def block_of(params: Json) -> Json | None:
    """Return what the editor says to us in `initialize`, None if it is a plain LSP client."""
    block = field_in(params, "initializationOptions", "ohDaemon")
    if block is None:
        block = field_in(params, "capabilities", "experimental", "ohDaemon")
    return None if block is None else object_in(block)


def settings_there(settings: Json, model: str | None, local_settings: Settings) -> Json:
    """Return what goes there of the editor's settings, with what the user's own protect.

    Without a `model`, a name in the settings there would mean another model here, or none.
    """
    remote_values = {n: v for n, v in settings.items() if n not in {*ABOUT_MODELS, *_HERE_ONLY}}
    model_values = {} if model is None else {"model": model}
    return {
        **_protection(local_settings),
        **model_values,
        **remote_values,
        **_rules(local_settings, settings),
    }


def problem_of(answer: Json, version_here: str, target: str) -> UserError | None:
    """Return why the daemon there cannot be used, None if it can."""
    if "result" not in answer:
        return None
    result = object_in(answer["result"])
    server_block = object_in(result, "capabilities", "experimental", "ohDaemon")
    features = _list(field_in(server_block, "understood", "features"))
    if "modelRequests" in features:
        return None
    remote_version = field_in(result, "serverInfo", "version")
    return UserError(
        f"the oh-daemon at {target} is version {remote_version}, here it is {version_here}; that"
        " one cannot use the models of here",
        hint=f"`oh-daemon remote --install {shlex.quote(target)}` copies this one there",
    )


def plain(model: Contract) -> Json:
    """Return a model as it is sent."""
    return orjson.loads(encode(model))


def _protection(settings: Settings) -> Json:
    """Return what the user's settings here limit, for where the daemon cannot read them."""
    usual, values = plain(Settings()), plain(settings)
    strict = {"approval": "askAlways", "mode": "plan"}
    changed_values = {n: v for n, v in values.items() if v != usual.get(n)}
    return {n: v for n, v in changed_values.items() if n in _LIMITS or strict.get(n) == v}


def _rules(local_settings: Settings, settings: Json) -> Json:
    own = [
        {name: value for name, value in plain(rule).items() if name != "scope"}
        for rule in local_settings.rules
        if rule.decision != "allow"
    ]
    return {"rules": [*own, *_list(settings.get("rules"))]} if own else {}


def _list(value: object) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []
