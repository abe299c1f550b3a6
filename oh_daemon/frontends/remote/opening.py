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


def opened(params: Json, offer: Json, here: Settings) -> Json:
    """Return the params of `initialize` for there; `offer` has the models of here."""
    options = object_in(params, "initializationOptions")
    block = block_of(params)
    ours = block or {}
    untrusted = [each for each in _list(ours.get("trust")) if field_in(each, "trusted") is False]
    changed = {
        **ours,
        **({"plain": True} if block is None else {}),
        "features": {**object_in(ours, "features"), "modelRequests": True},
        "models": offer,
        "trust": untrusted,
        "settings": settings_there(object_in(ours, "settings"), offer.get("default"), here),
    }
    options = {**options, "ohDaemon": changed}
    return {**params, "processId": None, "initializationOptions": options}


def block_of(params: Json) -> Json | None:
    """Return what the editor says to us in `initialize`, None if it is a plain LSP client."""
    block = field_in(params, "initializationOptions", "ohDaemon")
    if block is None:
        block = field_in(params, "capabilities", "experimental", "ohDaemon")
    return None if block is None else object_in(block)


def settings_there(settings: Json, model: str | None, here: Settings) -> Json:
    """Return what goes there of the editor's settings, with what the user's own protect.

    Without a `model`, a name in the settings there would mean another model here, or none.
    """
    passed = {n: v for n, v in settings.items() if n not in {*ABOUT_MODELS, *_HERE_ONLY}}
    chosen = {} if model is None else {"model": model}
    return {**_protection(here), **chosen, **passed, **_rules(here, settings)}


def problem_of(answer: Json, version_here: str, target: str) -> UserError | None:
    """Return why the daemon there cannot be used, None if it can."""
    if "result" not in answer:
        return None
    result = object_in(answer["result"])
    ours = object_in(result, "capabilities", "experimental", "ohDaemon")
    features = _list(field_in(ours, "understood", "features"))
    if "modelRequests" in features:
        return None
    there = field_in(result, "serverInfo", "version")
    return UserError(
        f"the oh-daemon at {target} is version {there}, here it is {version_here}; that one cannot "
        "use the models of here",
        hint=f"`oh-daemon remote --install {shlex.quote(target)}` copies this one there",
    )


def plain(model: Contract) -> Json:
    """Return a model as it is sent."""
    return orjson.loads(encode(model))


def _protection(here: Settings) -> Json:
    """Return what the user's settings here limit, for where the daemon cannot read them."""
    usual, values = plain(Settings()), plain(here)
    strict = {"approval": "askAlways", "mode": "plan"}
    chosen = {n: v for n, v in values.items() if v != usual.get(n)}
    return {n: v for n, v in chosen.items() if n in _LIMITS or strict.get(n) == v}


def _rules(here: Settings, settings: Json) -> Json:
    own = [
        {name: value for name, value in plain(rule).items() if name != "scope"}
        for rule in here.rules
        if rule.decision != "allow"
    ]
    return {"rules": [*own, *_list(settings.get("rules"))]} if own else {}


def _list(value: object) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []
