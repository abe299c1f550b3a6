"""When the key of `oh-daemon login` is used: where nothing else says a key or an address."""

from pathlib import Path
from typing import Any

import pytest

from oh_daemon.features.models.logins import Login, Logins
from oh_daemon.features.models.models import Models
from oh_daemon.protocol.errors import AuthRequiredError
from oh_daemon.protocol.llm import LLMSettings
from oh_daemon.protocol.settings import Settings

AT_HOME = Login("openai", "openai/one", key="key-at-home")
ELSEWHERE = Login("groq", "groq/two", "http://localhost:1/v1", "key-elsewhere")


def models(
    tmp_path: Path,
    settings: dict[str, Any] | None = None,
    environment: dict[str, str] | None = None,
) -> Models:
    logins = Logins(tmp_path / "config" / "credentials.json")
    for login in (AT_HOME, ELSEWHERE):
        logins.add(login)
    merged_settings = Settings.model_validate(settings or {})
    return Models(lambda: merged_settings, environment or {}, logins=logins)


USED: list[tuple[str, dict[str, Any], dict[str, str], tuple[str | None, str | None]]] = [
    ("openai/other", {}, {}, ("key-at-home", None)),
    ("gpt-4o", {}, {}, ("key-at-home", None)),
    ("groq/two", {}, {}, ("key-elsewhere", "http://localhost:1/v1")),
    ("mistral/any", {}, {}, (None, None)),
    ("openai/one", {}, {"OPENAI_API_KEY": "key-of-shell"}, ("key-of-shell", None)),
    ("groq/two", {}, {"OH_DAEMON_API_KEY": "key-of-shell"}, ("key-of-shell", None)),
    # It goes only to the address for which it was entered.
    ("openai/one", {}, {"OPENAI_BASE_URL": "http://other"}, (None, None)),
    ("openai/one", {"llm": {"baseUrl": "http://other"}}, {}, (None, "http://other")),
    (
        "groq/two",
        {"llm": {"baseUrl": "http://localhost:1/v1"}},
        {},
        ELSEWHERE_AT := ("key-elsewhere", "http://localhost:1/v1"),
    ),
    ("p", {"profiles": {"p": {"model": "groq/three"}}}, {}, ELSEWHERE_AT),
]


@pytest.mark.parametrize(("name", "settings", "environment", "endpoint"), USED)
def test_a_login_counts_where_nothing_else_does(
    tmp_path: Path,
    name: str,
    settings: dict[str, Any],
    environment: dict[str, str],
    endpoint: tuple[str | None, str | None],
) -> None:
    llm: LLMSettings = models(tmp_path, settings, environment).llm_of(name)
    assert (llm.key, llm.base_url) == endpoint


def test_the_newest_login_says_the_model_and_a_change_counts_at_once(tmp_path: Path) -> None:
    at = models(tmp_path)
    own_logins = Logins(tmp_path / "config" / "credentials.json")
    assert at.require_default() == "groq/two"
    first = at.model_for("openai/one")
    assert at.model_for("openai/one") is first
    own_logins.add(Login("openai", "openai/one", key="another key"))
    assert at.require_default() == "openai/one"
    assert at.model_for("openai/one") is not first
    assert own_logins.remove("groq") == ("groq",)
    assert own_logins.remove() == ("openai",)
    with pytest.raises(AuthRequiredError):
        at.require_default()


def test_a_key_is_masked_from_when_it_is_read_and_is_in_no_text(tmp_path: Path) -> None:
    path = tmp_path / "credentials.json"
    Logins(path).add(AT_HOME)
    texts: list[str] = []
    [login] = Logins(path, texts.append).all().values()
    assert (login, texts) == (AT_HOME, ["key-at-home"])
    assert "key-at-home" not in repr(login)
    path.write_text('{"openai": {"model": 3}, "groq": [], "xai": {"model": "xai/x"}}')
    assert [*Logins(path).all()] == ["xai"]
    path.write_text("{")
    assert Logins(path).all() == {}
