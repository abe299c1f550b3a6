"""PDFs in messages: as documents for models that read them, and as text for all others."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest
from fake_llm import FakeLLM, Json, error, say
from model_calls import ask, claude, settings_for
from pdf_files import pdf

from oh_daemon.features.models.prices import price_table
from oh_daemon.features.models.remote_model import RemoteModel
from oh_daemon.kernel.ports import ModelRequest

DATA = b64encode(pdf("Total: 12 EUR")).decode()
URL = f"data:application/pdf;base64,{DATA}"
FILE = {"filename": "bill.pdf", "file_data": URL}
REQUEST = ModelRequest(
    [
        {
            "role": "user",
            "content": [{"type": "text", "text": "Sum?"}, {"type": "file", "file": FILE}],
        }
    ]
)
READS = "gpt-5.1"
"""A model that reads PDFs by litellm's table."""
SOURCE = {"type": "base64", "media_type": "application/pdf", "data": DATA}
TEXT = "<document name='bill.pdf'>\n--- page 1 of 1 ---\nTotal: 12 EUR\n\n</document>"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"model": f"openai/{READS}", "api": "chat"}, {"type": "file", "file": FILE}),
        ({"model": f"openai/{READS}", "api": "responses"}, {"type": "input_file", **FILE}),
        (
            {"model": "anthropic/claude-sonnet-4-5"},
            {"type": "document", "source": SOURCE, "title": "bill.pdf"},
        ),
        ({"model": "openai/fake"}, {"type": "text", "text": TEXT}),
        ({"model": "groq/fake"}, {"type": "text", "text": TEXT}),
    ],
)
def test_document_is_sent_as_the_model_takes_it(changes: Any, expected: Json):
    is_anthropic = changes["model"].startswith("anthropic")
    with FakeLLM([claude(stop="end_turn") if is_anthropic else say("12")]) as fake:
        assert RemoteModel(settings_for(fake, **changes)).traits.reads_pdfs == (
            expected["type"] != "text"
        )
        ask(fake, REQUEST, **changes)
        [request] = fake.requests
    messages = request.body.get("input") or request.body["messages"]
    part = messages[-1]["content"][-1]
    part.pop("cache_control", None)
    assert part == expected


def test_model_of_the_table_reads_pdfs():
    assert price_table()[READS]["supports_pdf_input"]


def test_refused_document_is_sent_once_more_as_text():
    refusal = error(400, "Invalid content: file inputs are not supported")
    with FakeLLM([refusal, say("12")]) as fake:
        answer = ask(fake, REQUEST, model=f"openai/{READS}", api="chat")
        last_part = fake.requests[1].body["messages"][-1]["content"][-1]
    assert (answer.text, last_part) == ("12", {"type": "text", "text": TEXT})
    assert [caveat.about for caveat in answer.caveats] == ["PDFs were sent as text"]
