"""`oh-daemon login` and `logout`: asks how to reach a provider, tries it, and stores what works."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from getpass import getpass

from msgspec import Struct
from pydantic import ValidationError
from rich.console import Console

from oh_daemon.common.masking import Masker
from oh_daemon.features.models.logins import Login, Logins
from oh_daemon.features.models.models import LOCAL, PROVIDERS, connect, greet, without_retries
from oh_daemon.features.models.providers import PROVIDERS as ROWS
from oh_daemon.features.settings.places import Places
from oh_daemon.features.settings.sources import SettingsSources
from oh_daemon.frontends.cli.process import read_all
from oh_daemon.protocol.base import problem_in
from oh_daemon.protocol.errors import InvalidParamsError, ModelError
from oh_daemon.protocol.llm import LLMSettings
from oh_daemon.protocol.settings import Settings

_MODELS = {model.partition("/")[0]: model for model in PROVIDERS.values()}
"""By provider, the model to use when the user names none."""


class LoginRequest(Struct, frozen=True):
    """What the command line says; what it leaves out is asked, if a person is there."""

    provider: str = ""
    url: str = ""
    model: str = ""
    reads_key: bool = False
    """The key comes from stdin."""


def run_login(request: LoginRequest) -> None:
    """Raises `ModelError` when the provider does not answer; nothing is stored then."""
    console = Console(highlight=False)
    places = Places(os.environ)
    settings = SettingsSources(os.environ, places.settings_file).merged().settings
    login = _complete(request, settings, console)
    console.print(f"Trying {login.model}: one small request …", markup=False)
    try:
        greet(connect(_llm(login, settings), finds_key=False))
    except ModelError as exc:
        # A provider may repeat the key in its refusal.
        masker = Masker([login.key or ""])
        hint = masker.mask(exc.hint) if exc.hint else None
        raise type(exc)(f"{masker.mask(exc.message)}; nothing is stored", hint=hint) from None
    in_keyring = settings.key_store == "keyring"
    Logins(places.logins_file).add(login, in_keyring=in_keyring)
    where = f"the system keyring, and in {places.logins_file}" if in_keyring else places.logins_file
    console.print(
        f"It answers. Stored in {where}, for models of {login.provider} that have no "
        "key in the environment.",
        markup=False,
        soft_wrap=True,
    )


def run_logout(provider: str) -> None:
    logins = Logins(Places(os.environ).logins_file)
    is_removed = logins.remove(provider or None)
    if provider and not is_removed:
        names = ", ".join(logins.all()) or "none"
        raise InvalidParamsError(f"there is no login for {provider!r}; there is: {names}")
    sys.stdout.write(f"removed: {', '.join(is_removed) or 'nothing was stored'}\n")


def _complete(request: LoginRequest, settings: Settings, console: Console) -> Login:
    """Return the login, with what a person adds to the request. Raises `InvalidParamsError`."""
    # Read before anything is asked: stdin is no terminal then.
    key = read_all().strip() if request.reads_key else ""
    person = _Person(console, is_there=sys.stdin.isatty() and not request.reads_key)
    provider, url = _place(request, person)
    url = url or settings.llm.get("baseUrl") or _address_in_environment(provider)
    row = ROWS.get(provider)
    needs_key = not (url or (row and row.address.startswith("http://")))
    if person.is_there:
        key = person.ask_key("Key, which is not shown: " if needs_key else "Key, if it needs one: ")
    if needs_key and not key:
        raise InvalidParamsError(f"there is no key, and {provider} needs one: use --key-stdin")
    model = request.model or person.ask("Model", "--model", _MODELS.get(provider, ""))
    name = model if model.startswith(f"{provider}/") else f"{provider}/{model}"
    return Login(provider, name, url or None, key or None)


def _place(request: LoginRequest, person: _Person) -> tuple[str, str]:
    """Return the provider, and its address if it is not the usual one."""
    provider, url = request.provider, request.url
    if not provider and not url:
        what = f"Provider ({', '.join(_MODELS)}, …), or the URL of a server"
        provider = person.ask(what, "--provider")
    return (LOCAL, provider) if "://" in provider else (provider or LOCAL, url)


class _Person(Struct, frozen=True):
    """Whoever can answer, if anybody `is_there`."""

    console: Console
    is_there: bool

    def ask(self, what: str, option: str, default: str = "") -> str:
        """Return the answer. Raises `InvalidParamsError` when there is neither it nor a default."""
        answer = default
        if self.is_there:
            with suppress(EOFError):
                question = f"{what} [{default}]" if default else what
                answer = self.console.input(f"{question}: ", markup=False) or default
        if not answer.strip():
            raise InvalidParamsError(f"{option} is missing, and nobody has entered it")
        return answer.strip()

    def ask_key(self, what: str) -> str:
        # It asks only once nothing is echoed any more.
        with suppress(EOFError):
            return getpass(what).strip()
        return ""


def _address_in_environment(provider: str) -> str:
    row = ROWS.get(provider)
    variables = row.addresses_in if row else ()
    return next(filter(None, map(os.environ.get, variables)), "")


def _llm(login: Login, settings: Settings) -> LLMSettings:
    own = {"model": login.model, "baseUrl": login.base_url, "apiKey": login.key}
    try:
        return LLMSettings.model_validate(without_retries({**settings.llm, **own}))
    except ValidationError as exc:
        raise InvalidParamsError(problem_in(exc)) from None
