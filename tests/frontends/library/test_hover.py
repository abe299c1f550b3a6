"""Editors with pyright (Pylance, basedpyright) show our words and types for a call."""

import asyncio
import sys
from pathlib import Path

import pytest
from lsprotocol import types as lsp
from pytest_lsp import LanguageClient, make_test_lsp_client

CALLS = {
    "LLM": ("model: str", "base_url:", "Describe a model and how to reach it."),
    "Agent": ("llm:", "approval: Literal", "Describe an agent: its model, tools"),
    "Conversation": ("agent: Agent", "Start a conversation of `agent`, or reopen"),
}
SOURCE = f"from oh_daemon import {', '.join(CALLS)}\n" + "".join(f"{name}(\n" for name in CALLS)
WITHIN_S = 90


@pytest.mark.full
@pytest.mark.asyncio
async def test_hovering_over_a_call_shows_our_words_and_the_types(tmp_path: Path) -> None:
    client: LanguageClient = make_test_lsp_client()
    server = Path(sys.executable).with_name("pyright-langserver")
    await client.start_io(str(server), "--stdio")
    settings = {"python": {"pythonPath": sys.executable}}
    client.set_configuration(settings)
    folder = lsp.WorkspaceFolder(tmp_path.as_uri(), "project")
    forms = lsp.HoverClientCapabilities(content_format=[lsp.MarkupKind.Markdown])
    capabilities = lsp.ClientCapabilities(
        workspace=lsp.WorkspaceClientCapabilities(configuration=True),
        text_document=lsp.TextDocumentClientCapabilities(hover=forms),
    )
    await client.initialize_session(
        lsp.InitializeParams(capabilities=capabilities, workspace_folders=[folder])
    )
    uri = (tmp_path / "program.py").as_uri()
    document = lsp.TextDocumentItem(uri, lsp.LanguageKind.Python, 1, SOURCE)
    client.text_document_did_open(lsp.DidOpenTextDocumentParams(document))
    for line, (name, expected_texts) in enumerate(CALLS.items(), 1):
        place = lsp.HoverParams(lsp.TextDocumentIdentifier(uri), lsp.Position(line, 1))
        hover = await asyncio.wait_for(client.text_document_hover_async(place), WITHIN_S)
        assert hover is not None, name
        assert isinstance(hover.contents, lsp.MarkupContent)
        missing_texts = [text for text in expected_texts if text not in hover.contents.value]
        assert not missing_texts, hover.contents.value
    await client.shutdown_session()
    await client.stop()
