"""Model requests and answers are kept as masked files; failing to write one stops no call."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from core_world import SECRET, StandingClock
from fake_llm import FakeLLM, Json, error, say
from model_calls import complete, retrying

from oh_daemon.common.masking import Masker
from oh_daemon.kernel.ports import ModelRequest
from oh_daemon.protocol.errors import ModelError
from oh_daemon.storage.completions import Completions

PICTURE = "data:image/png;base64," + "A" * 2000


def test_each_request_and_its_answer_or_error_is_a_masked_file(tmp_path: Path) -> None:
    completions = Completions(tmp_path, Masker([SECRET]), StandingClock())
    image = {"type": "image_url", "image_url": {"url": PICTURE}}
    content: list[Json] = [{"type": "text", "text": f"Say {SECRET}, \U0001f40d."}, image]
    request = ModelRequest(messages=[{"role": "user", "content": content}], purpose="ask")
    with FakeLLM([say(f"It is {SECRET}."), error(400, "no")]) as fake:
        model = completions.of(retrying(fake))
        assert complete(model, request).text == f"It is {SECRET}."
        with pytest.raises(ModelError):
            complete(model)
    first, second = sorted((tmp_path / "completions").iterdir())
    assert first.name == "20260102030405678-0001-ask.json"
    assert first.stat().st_mode & 0o777 == 0o600
    assert SECRET not in first.read_text()
    answered_call, failed_call = json.loads(first.read_text()), json.loads(second.read_text())
    text, picture = answered_call["request"]["messages"][0]["content"]
    assert text["text"] == "Say <secret hidden>, \U0001f40d."
    assert picture["image_url"]["url"] == "data:image/png;base64,…"
    assert answered_call["answer"]["text"] == "It is <secret hidden>."
    assert answered_call["answer"]["usage"]["inputTokens"] == 100
    assert (failed_call["model"], "no" in failed_call["error"]) == ("openai/fake", True)


def test_a_folder_that_cannot_be_written_holds_no_answer_up(tmp_path: Path) -> None:
    (tmp_path / "completions").write_text("in the way")
    completions = Completions(tmp_path, Masker(), StandingClock())
    with FakeLLM([say("Hello.")]) as fake:
        assert complete(completions.of(retrying(fake))).text == "Hello."
