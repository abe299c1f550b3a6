"""Approvals in tests that many units need."""

from typing import Any

from fake_llm import Step, call

from oh_daemon.conformance.rpc_process import NoAnswer

Json = dict[str, Any]
ASK: Json = {"options": {"approval": "askRisky"}}


def touch(name: str) -> Step:
    return call("terminal", command=f"touch {name}")


def keep_waiting(_params: Json) -> None:
    raise NoAnswer
