"""Which models there are and how each is reached: the demo script, or litellm with retries.

A provider's key in the environment, or of `oh-daemon login`, is enough: its default model is then
used, and the user is told that this costs money.
"""

from __future__ import annotations

import math
import os
import threading
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from operator import is_
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from pydantic import SecretStr, ValidationError

from oh_daemon.common.cancel import CancelToken
from oh_daemon.common.hosts import reach_of_url
from oh_daemon.features.models.demo_model import DemoModel
from oh_daemon.features.models.logins import Login, Logins
from oh_daemon.features.models.routing import WithFallbacks
from oh_daemon.features.settings.sources import llm_settings
from oh_daemon.kernel.ports import Json, Model, ModelRequest, Progress
from oh_daemon.protocol.base import problem_in
from oh_daemon.protocol.daemon_messages import ModelInfo
from oh_daemon.protocol.errors import (
    AuthRequiredError,
    InvalidParamsError,
    ModelUnavailableError,
    UserError,
)
from oh_daemon.protocol.llm import LLMSettings
from oh_daemon.protocol.profiles import Router
from oh_daemon.protocol.settings import Settings

if TYPE_CHECKING:
    from oh_daemon.features.models.providers import Provider

PROVIDERS: Mapping[str, str] = {
    "ANTHROPIC_API_KEY": "anthropic/claude-sonnet-5-5",
    "OPENAI_API_KEY": "openai/gpt-6.1-sol",
    "GEMINI_API_KEY": "gemini/gemini-4-argon",
    "OPENROUTER_API_KEY": "openrouter/~anthropic/claude-sonnet-latest",
    "MISTRAL_API_KEY": "mistral/devstral-latest",
    "DEEPSEEK_API_KEY": "deepseek/deepseek-v4-pro",
    "XAI_API_KEY": "xai/grok-4.7",
    "GROQ_API_KEY": "groq/openai/gpt-oss-120b",
}
"""By the variable of a provider's key, the model to use when only that key is set."""
LOCAL = "hosted_vllm"
"""The provider of a URL alone: any server that speaks OpenAI's chat completions."""
DEMO = DemoModel()
REPLAY = "replay:"
"""Begins the name of a model that answers from the log in the folder that follows."""
_NO_LOGINS: Mapping[str, Login] = {}
_HELLO = {"role": "user", "content": "Answer with the word yes."}
_PATIENCE_S = 20
_LOADING_S = 300
"""Seconds for a server of the user's own, which may have to load the model from the disk first."""
_HIDDEN = {"apiKey", "api_key", "extraHeaders", "extra_headers"}


class ModelCatalog(Protocol):
    """The models of this machine, or those that a client reaches itself."""

    secrets: dict[str, str]
    """Keys that the editor exposes to models, by variable, such as `OPENAI_API_KEY`."""

    def model_infos(self) -> Sequence[ModelInfo]: ...

    def default_name(self) -> str | None: ...

    def require_default(self) -> str:
        """Return the default model's name. Raises `AuthRequiredError` when there is none."""
        ...

    def model_for(self, name: str) -> Model: ...

    def efforts_of(self, name: str) -> Sequence[str]:
        """Return the model's reasoning efforts, such as `("low", "high")`."""
        ...


class Models:
    """The models of one process; thread-safe."""

    def __init__(
        self,
        settings: Callable[[], Settings],
        environment: Mapping[str, str],
        on_key: Callable[[str], None] = lambda _key: None,
        own: Mapping[str, LLMSettings | Model] | None = None,
        logins: Logins | None = None,
    ) -> None:
        """`on_key` is called with each key before its use, wherever the key came from.

        If `own` is given, there are no other models, and no keys are looked up.
        """
        self._settings = settings
        self._on_key = on_key
        self._own = own
        self._logins = logins
        self.secrets: dict[str, str] = {}
        """Secrets that the editor has exposed, by variable; only this and the masker hold them."""
        self.variables: Mapping[str, str] = ChainMap(self.secrets, dict(environment))
        """The environment, overridden by what the editor has exposed."""
        self._lock = threading.Lock()
        self._cache: dict[str, tuple[object, Model]] = {}
        self._current: tuple[Sequence[object], Mapping[str, str], dict[str, Model]] = (
            (None, None),
            {},
            {},
        )
        """Models by name, and the settings, logins and secrets under which they were made."""

    def default_name(self) -> str | None:
        """Return the model of the settings, or of the first provider with a key, or None.

        Keys in the environment come first, then the newest login.
        """
        model_name = self._settings().model
        if model_name:
            return model_name
        models = [model for key, model in PROVIDERS.items() if self.variables.get(key)]
        return next(iter([*models, *self._login_models]), None)

    def for_trial(self) -> Models:
        """Return the models for one impatient question."""
        settings = self._settings()
        settings = settings.model_copy(update={"llm": without_retries(settings.llm)})
        return Models(lambda: settings, self.variables, self._on_key, self._own, self._logins)

    def at_address(self, name: str, base_url: str) -> Models:
        """Return the model for a trial at this address, where no key for another may go."""
        now, own = self._settings(), "HOSTED_VLLM_API_KEY"
        llm = {key: value for key, value in now.llm.items() if key not in _HIDDEN}
        llm = without_retries({**llm, "baseUrl": base_url})
        settings = now.model_copy(update={"llm": llm, "profiles": {}})
        keys = {own: self.variables.get(own, "")}
        models = Models(lambda: settings, keys, own=self._own, logins=self._logins)
        model_name = now.profiles[name].model if name in now.profiles else name
        return Models(Settings, {}, self._on_key, {name: models.llm_of(model_name)})

    @property
    def logins(self) -> Mapping[str, Login]:
        """What the user has entered by `oh-daemon login`, by provider."""
        return self._logins.all() if self._logins else _NO_LOGINS

    def log_out(self) -> None:
        """Forget all logins, for other processes too. Raises `ReadOnlyError`."""
        if self._logins:
            self._logins.remove()

    @property
    def _login_models(self) -> list[str]:
        return [login.model for login in reversed([*self.logins.values()])]

    def require_default(self) -> str:
        """Return `default_name()`. Raises `AuthRequiredError` when it is None."""
        name = self.default_name()
        if name is None:
            raise AuthRequiredError(
                "no model is set and no provider's key is in the environment",
                hint="run `oh-daemon login`; or set the setting `model` and its provider's key, "
                "for instance ANTHROPIC_API_KEY; or set the model to `demo`, a built-in script",
            )
        return name

    def require_key(self) -> None:
        """Raise `AuthRequiredError` when the default model certainly cannot be asked.

        What is behind a router or through litellm is not known.
        """
        name = self.require_default()
        if is_free(name) or name in self._settings().routers:
            return
        llm = self.llm_of(name)
        provider = _provider_of(llm)
        if provider and (error := provider.missing_key(llm, self.variables)):
            raise error

    def model_for(self, name: str) -> Model:
        """Return the model, profile or router of this name under the present settings.

        Raises `ModelUnavailableError` for a profile or router that leads back to itself, and for
        a name that is not among the models of a program.
        """
        now = (self._settings(), self.logins)
        made_under, secrets, models = self._current
        if not all(map(is_, made_under, now)) or secrets != self.secrets:
            models = dict[str, Model]()
            self._current = now, dict(self.secrets), models
        if name not in models:
            models[name] = self._find(name, ())
        return models[name]

    def check(self, name: str) -> None:
        """Raise `ModelError` if the name cannot be the name of a model; no endpoint is asked.

        It waits for litellm's import, which takes seconds, if only litellm may know the name.
        """
        self.model_for(name)  # It finds routers that lead back to themselves.
        router = self._settings().routers.get(name)
        if router is not None:
            for each in router.names:
                self.check(each)
        elif not is_free(name):
            check_provider(self.llm_of(name))

    def costs_nothing(self, name: str) -> bool:
        """Return whether no answer of this model is paid for, as of one on this machine."""
        from oh_daemon.features.models.capabilities import costs_nothing  # noqa: PLC0415 - see connect.
        from oh_daemon.features.models.prices import price_table  # noqa: PLC0415 - likewise.
        from oh_daemon.features.models.providers import server_address  # noqa: PLC0415 - likewise.

        if is_free(name) or name in self._settings().routers:
            return is_free(name)
        llm = self.llm_of(name)
        return costs_nothing(llm, server_address(llm, price_table()), price_table())

    def require_price(self, name: str) -> None:
        """Raise `InvalidParamsError` when no limit of cost would hold for lack of a price."""
        router = self._settings().routers.get(name)
        for each in router.names if router else (name,):
            if each != DEMO.name and math.isinf(self.model_for(each).traits.input_price):
                raise InvalidParamsError(
                    f"a limit of cost would not hold: the price of {each!r} is not known; set "
                    "`llm.inputCostPerToken` and `llm.outputCostPerToken`, or name no limit"
                )

    def _find(self, name: str, inside: tuple[str, ...]) -> Model:
        settings, path = self._settings(), (*inside, name)
        if name in inside:
            raise ModelUnavailableError(
                f"{' -> '.join(path)}: these profiles and routers lead back to {name!r}",
                hint="change `fallbacks` or `models` in the settings `profiles` and `routers`",
            )
        if name == DEMO.name:
            return DEMO
        if name.startswith(REPLAY):
            return self._reuse(name, name, lambda: _recorded_model(name))
        if (router := settings.routers.get(name)) is not None:
            models = {each: self._find(each, path) for each in router.names}
            return self._reuse(name, (router, models), lambda: _route(name, router, models))
        own = self._reach(name)
        profile = settings.profiles.get(name)
        if profile is None:
            return own
        models = (own, *(self._find(each, path) for each in profile.fallbacks))
        return self._reuse(f"profile {name}", models, lambda: WithFallbacks(name, models))

    def _reach(self, name: str) -> Model:
        """Return the one model behind the name of a model or a profile, without fallbacks."""
        own = (self._own or {}).get(name)
        if own is not None and not isinstance(own, LLMSettings):
            return own
        settings = self.llm_of(name)
        if settings.key is not None:
            self._on_key(settings.key)
        # Two `SecretStr` compare by their values, so a new key makes a new client.
        return self._reuse(name, settings, lambda: connect(settings, finds_key=self._own is None))

    def _reuse(self, name: str, made_of: object, make: Callable[[], Model]) -> Model:
        """Return the earlier model as long as `made_of` is equal; otherwise make a new one."""
        with self._lock:
            if name not in self._cache or self._cache[name][0] != made_of:
                self._cache[name] = (made_of, make())
            return self._cache[name][1]

    def llm_of(self, name: str) -> LLMSettings:
        """Return how this model or profile is reached. Raises `ModelUnavailableError`."""
        settings = self._settings()
        if self._own is not None:
            if isinstance(llm := self._own.get(name), LLMSettings):
                return llm
            names = ", ".join(map(repr, (*self._own, *settings.routers)))
            raise ModelUnavailableError(f"this agent has no model {name!r}; it has {names}")
        profile = settings.profiles.get(name)
        try:
            llm = profile.llm_over(settings.llm) if profile else llm_settings(settings, name)
        except ValidationError as exc:
            raise ModelUnavailableError(
                f"no model is asked, because a setting is wrong: {problem_in(exc, 'llm')}",
                hint="correct the setting `llm`: without it, requests could go to another place",
            ) from None
        if profile is None:
            return self._with_key(llm)
        if self.variables.get(_variable_of(llm)):
            # This provider has a key of its own; that of the setting `llm` is for other models.
            llm = llm.model_copy(update={"api_key": None})
        return self._with_key(llm)

    def efforts_of(self, name: str) -> tuple[str, ...]:
        """Return how much this model can be told to think; none behind a router, or if unknown."""
        from oh_daemon.features.models.capabilities import efforts_of  # noqa: PLC0415 - see connect.
        from oh_daemon.features.models.prices import price_table  # noqa: PLC0415 - likewise.

        if is_free(name) or name in self._settings().routers:
            return ()
        try:
            return efforts_of(self.llm_of(name), price_table())
        except UserError:
            return ()

    def _with_key(self, settings: LLMSettings) -> LLMSettings:
        """Add the provider's own key when the settings have none.

        litellm reads only the environment, which lacks keys from the editor's secret store.
        """
        names = (_variable_of(settings), "OH_DAEMON_API_KEY")
        key = next(filter(None, map(self.variables.get, names)), None)
        if settings.key is not None:
            return settings
        if key is None:
            return self._with_login(settings) if self.logins else settings
        return settings.model_copy(update={"api_key": SecretStr(key)})

    def _with_login(self, settings: LLMSettings) -> LLMSettings:
        """Add key and address of the user's login, unless something else says one of them."""
        from oh_daemon.features.models.providers import PROVIDERS as ROWS  # noqa: PLC0415 - see connect.

        login = self.logins.get(provider_name(settings))
        if login is None or settings.base_url not in {None, login.base_url}:
            return settings
        row = ROWS.get(login.provider)
        keys, addresses = ((*row.keys_in, *row.tokens_in), row.addresses_in) if row else ((), ())
        other_addresses = {self.variables.get(name) for name in addresses} - {
            None,
            "",
            login.base_url,
        }
        if other_addresses or any(map(self.variables.get, keys)):
            return settings
        try:
            key = login.find_key()
        except UserError as exc:
            raise AuthRequiredError(exc.message, hint=exc.hint) from exc
        fields = {"api_key": SecretStr(key) if key else None, "base_url": login.base_url}
        return settings.model_copy(update=fields)

    def model_infos(self) -> tuple[ModelInfo, ...]:
        """List what can be chosen: the user's profiles and routers first, then models."""
        settings, default = self._settings(), self.default_name()
        own = [*([default] if default else []), *self._login_models]
        models = dict.fromkeys([*own, *settings.models, *PROVIDERS.values(), DEMO.name])
        all_models = (
            *(ModelInfo(id=n, label=n, kind="profile", available=True) for n in settings.profiles),
            *(ModelInfo(id=n, label=n, kind="router", available=True) for n in settings.routers),
        )
        names = {info.id for info in all_models}
        return (*all_models, *(self._info(name, default) for name in models if name not in names))

    def _info(self, name: str, default: str | None) -> ModelInfo:
        key = next((key for key, model in PROVIDERS.items() if model == name), None)
        has_key = key is None or self.variables.get(key) or name.partition("/")[0] in self.logins
        is_usable = name == default or bool(has_key)
        return ModelInfo(
            id=name,
            label=DEMO.label if name == DEMO.name else name,
            available=is_usable,
            reason=None if is_usable else f"set {key} in the environment, or run `oh-daemon login`",
        )


def greet(model: Model, cancel: CancelToken | None = None) -> None:
    """Ask the model for a word, which costs a little. Raises `ModelError` and `Cancelled`."""
    model.complete(ModelRequest([_HELLO]), Progress(cancel or CancelToken()))


def without_retries(llm: Json) -> Json:
    """Return the setting `llm` for a trial, for which nobody waits until a problem has passed."""
    is_public = reach_of_url(str(llm.get("baseUrl", "https://provider.example"))) == "public"
    patience_s = _PATIENCE_S if is_public else _LOADING_S
    return {"firstTokenTimeoutS": patience_s, **llm, "maxAttempts": 1}


def _variable_of(settings: LLMSettings) -> str:
    """The variable that holds the key of the model's provider."""
    provider = settings.custom_llm_provider or settings.model.partition("/")[0]
    return f"{provider.upper()}_API_KEY"


def provider_name(settings: LLMSettings) -> str:
    """Return the name of whoever serves the model, as litellm has it."""
    if provider := _provider_of(settings):
        return provider.name
    return settings.custom_llm_provider or settings.model.partition("/")[0]


def connect(settings: LLMSettings, *, finds_key: bool) -> Model:
    """Return the model behind an endpoint; it connects on its first call."""
    from oh_daemon.features.models.remote_model import RemoteModel  # noqa: PLC0415 - keeps `initialize` quick.

    if needs_litellm(settings):
        from oh_daemon.features.models.litellm_calls import start_litellm  # noqa: PLC0415 - few need it.

        start_litellm()
    return RemoteModel(settings, finds_key=finds_key)


def check_provider(settings: LLMSettings) -> None:
    """Raise `ModelError` unless somebody is known to serve the model, and a key that it needs."""
    provider = _provider_of(settings)
    if provider is None:
        from oh_daemon.features.models.litellm_calls import litellm_provider_of  # noqa: PLC0415 - few need it.

        litellm_provider_of(settings)
    elif error := provider.missing_key(settings, os.environ):
        raise error


def needs_litellm(settings: LLMSettings) -> bool:
    return _provider_of(settings) is None


def _provider_of(settings: LLMSettings) -> Provider | None:
    from oh_daemon.features.models.prices import price_table  # noqa: PLC0415 - keeps `initialize` quick.
    from oh_daemon.features.models.providers import find_provider  # noqa: PLC0415 - likewise.

    return find_provider(settings, price_table())


def is_free(name: str) -> bool:
    """Return whether this model asks nobody."""
    return name == DEMO.name or name.startswith(REPLAY)


def _recorded_model(name: str) -> Model:
    from oh_daemon.features.replay.recordings import recorded_model  # noqa: PLC0415 - few need it.

    return recorded_model(name, Path(name.removeprefix(REPLAY)).expanduser())


def _route(name: str, router: Router, models: Mapping[str, Model]) -> Model:
    from oh_daemon.features.models.routing import Routed  # noqa: PLC0415 - only few need it.

    return Routed(name, router, models)
