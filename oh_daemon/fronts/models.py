"""Which models there are and how one is reached: the demo script, or litellm with retries.

A provider's key in the environment is enough: then its default model is used, and said to cost.
"""

from __future__ import annotations

import threading
from collections import ChainMap
from collections.abc import Callable, Mapping

from pydantic import SecretStr

from oh_daemon.contract.daemon_messages import ModelInfo
from oh_daemon.contract.errors import AuthRequiredError
from oh_daemon.contract.llm import LLMSettings
from oh_daemon.contract.settings import Settings
from oh_daemon.core.ports import Model
from oh_daemon.fronts.sources import llm_settings
from oh_daemon.model.demo import DemoModel

PROVIDERS: Mapping[str, str] = {
    "ANTHROPIC_API_KEY": "anthropic/claude-sonnet-4-5",
    "OPENAI_API_KEY": "openai/gpt-5",
    "GEMINI_API_KEY": "gemini/gemini-2.5-pro",
    "OPENROUTER_API_KEY": "openrouter/anthropic/claude-sonnet-4.5",
    "MISTRAL_API_KEY": "mistral/devstral-medium-2507",
    "DEEPSEEK_API_KEY": "deepseek/deepseek-chat",
    "XAI_API_KEY": "xai/grok-4",
    "GROQ_API_KEY": "groq/moonshotai/kimi-k2-instruct-0905",
}
"""A provider's variable and the model that is used when nothing but the key is set."""
DEMO = DemoModel()


class Models:
    """The models of one process; thread-safe."""

    def __init__(
        self,
        settings: Callable[[], Settings],
        environment: Mapping[str, str],
        on_key: Callable[[str], None] = lambda _key: None,
    ) -> None:
        """`on_key` hears each key before it is used, wherever it came from."""
        self._settings = settings
        self._on_key = on_key
        self.secrets: dict[str, str] = {}
        """What the editor has lent, by variable; held here and by the masker only."""
        self.variables: Mapping[str, str] = ChainMap(self.secrets, dict(environment))
        """The environment, under what the editor has lent."""
        self._lock = threading.Lock()
        self._made: dict[str, tuple[LLMSettings, Model]] = {}

    def default_name(self) -> str | None:
        """The model of the settings, or of the first provider whose key is there."""
        chosen = self._settings().model
        if chosen:
            return chosen
        return next((m for key, m in PROVIDERS.items() if self.variables.get(key)), None)

    def require_default(self) -> str:
        """Raises `AuthRequiredError` when there is no model to use."""
        name = self.default_name()
        if name is None:
            raise AuthRequiredError(
                "no model is set and no provider's key is in the environment",
                hint="set the setting `model` and its provider's key, for instance "
                "ANTHROPIC_API_KEY; or set the model to `demo` for the built-in script",
            )
        return name

    def model_for(self, name: str) -> Model:
        """The model of this name under the present settings."""
        if name == DEMO.name:
            return DEMO
        settings = self._with_key(llm_settings(self._settings(), name))
        with self._lock:
            made = self._made.get(name)
            # Two `SecretStr` compare by their values, so a new key makes a new client.
            if made is None or made[0] != settings:
                if settings.api_key is not None:
                    self._on_key(settings.api_key.get_secret_value())
                made = self._made[name] = (settings, connect(settings))
            return made[1]

    def _with_key(self, settings: LLMSettings) -> LLMSettings:
        """With the provider's own key when the settings have none.

        litellm looks into the environment only, where a key from an editor's secret store is not.
        """
        provider = settings.custom_llm_provider or settings.model.partition("/")[0]
        names = (f"{provider.upper()}_API_KEY", "OH_DAEMON_API_KEY")
        key = next(filter(None, map(self.variables.get, names)), None)
        if settings.api_key is not None or key is None:
            return settings
        return settings.model_copy(update={"api_key": SecretStr(key)})

    def listed(self) -> tuple[ModelInfo, ...]:
        default = self.default_name()
        own = [default] if default else []
        offered = {
            model: f"set {key} in the environment"
            for key, model in PROVIDERS.items()
            if not self.variables.get(key)
        }
        found = dict.fromkeys([*own, *self._settings().models, *PROVIDERS.values(), DEMO.name])
        return tuple(
            ModelInfo(
                id=name,
                label=DEMO.label if name == DEMO.name else name,
                available=name in own or name not in offered,
                reason=None if name in own else offered.get(name),
            )
            for name in found
        )


def connect(settings: LLMSettings, *, finds_key: bool = True) -> Model:
    """A model behind an endpoint. Nothing is imported or sent before its first call."""
    from oh_daemon.model.client import LiteLLM  # noqa: PLC0415 - keeps `initialize` quick.

    return LiteLLM(settings, finds_key=finds_key)
