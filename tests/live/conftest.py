"""Tests with a real model: only with `--live`, and only when the environment names one."""

import os

import pytest

from oh_daemon.features.models.models import PROVIDERS

_ENOUGH = ("OH_DAEMON_MODEL", *PROVIDERS)
_NO_MODEL = (
    "these tests ask a real model, which costs money, and none is set: set a provider's key "
    f"({', '.join(PROVIDERS)}), or OH_DAEMON_MODEL with OH_DAEMON_API_KEY or OH_DAEMON_BASE_URL"
)


@pytest.fixture(scope="session", autouse=True)
def _real_model() -> None:  # pyright: ignore[reportUnusedFunction] - pytest finds it.
    if not any(os.environ.get(name) for name in _ENOUGH):
        pytest.exit(_NO_MODEL, returncode=pytest.ExitCode.USAGE_ERROR)
