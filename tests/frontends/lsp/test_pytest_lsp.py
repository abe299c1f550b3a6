"""An editor without a plugin for us: everything goes through what every LSP client supports."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest
from fake_llm import call, say
from lsprotocol import types as lsp
from pytest_lsp import LanguageClient, make_test_lsp_client
from world import World

WITHIN_S = 90


class PlainEditor:
    """An editor with one open document, and the answers that its user clicks."""

    def __init__(self, client: LanguageClient, world: World) -> None:
        self.client = client
        self.path = world.project / "a.txt"
        self.path.write_text("one\n")
        self.text, self.version = "one, typed\n", 1
        self.questions: list[str] = []
        self.labels: list[str | None] = []
        client.feature(lsp.WINDOW_SHOW_MESSAGE_REQUEST)(partial(self._on_question))
        client.feature(lsp.WORKSPACE_APPLY_EDIT)(partial(self._on_edit))

    def open(self) -> None:
        item = lsp.TextDocumentItem(self.path.as_uri(), "plaintext", self.version, self.text)
        self.client.text_document_did_open(lsp.DidOpenTextDocumentParams(item))

    def _on_question(self, params: lsp.ShowMessageRequestParams) -> lsp.MessageActionItem | None:
        self.questions.append(params.message)
        return (params.actions or [None])[0]

    def _on_edit(self, params: lsp.ApplyWorkspaceEditParams) -> lsp.ApplyWorkspaceEditResult:
        self.labels.append(params.label)
        [change] = (params.edit.changes or {}).values()
        [edit] = change
        line = edit.range.start.line
        lines = self.text.splitlines(keepends=True)
        head, tail = edit.range.start.character, edit.range.end.character
        lines[line] = lines[line][:head] + edit.new_text + lines[line][tail:]
        self.text, self.version = "".join(lines), self.version + 1
        document = lsp.VersionedTextDocumentIdentifier(self.version, self.path.as_uri())
        change_event = lsp.TextDocumentContentChangeWholeDocument(self.text)
        self.client.text_document_did_change(
            lsp.DidChangeTextDocumentParams(document, [change_event])
        )
        return lsp.ApplyWorkspaceEditResult(applied=True)

    async def command(self, name: str, argument: object) -> Any:
        params = lsp.ExecuteCommandParams(name, [argument])
        return await asyncio.wait_for(self.client.workspace_execute_command_async(params), WITHIN_S)


@pytest.fixture
async def editor(world: World) -> AsyncIterator[PlainEditor]:
    client = make_test_lsp_client()
    command = [sys.executable, "-m", "oh_daemon", "--stdio"]
    await client.start_io(*command, env={**os.environ, **world.environment}, cwd=world.project)
    plain = PlainEditor(client, world)
    progress = lsp.WindowClientCapabilities(
        work_done_progress=True, show_message=lsp.ShowMessageRequestClientCapabilities()
    )
    edits = lsp.WorkspaceClientCapabilities(apply_edit=True)
    folders = [lsp.WorkspaceFolder(world.project.as_uri(), "project")]
    capabilities = lsp.ClientCapabilities(workspace=edits, window=progress)
    params = lsp.InitializeParams(capabilities, workspace_folders=folders)
    result = await client.initialize_session(params)
    provider = result.capabilities.execute_command_provider
    assert provider is not None
    assert "ohDaemon.start" in provider.commands
    yield plain
    await client.shutdown_session()


async def test_an_editor_without_a_plugin_starts_approves_watches_and_gets_the_edit(
    editor: PlainEditor, world: World
) -> None:
    world.script(
        call("edit", command="view", path="a.txt"),
        call("edit", command="replace", path="a.txt", old_text="one", new_text="two"),
        say("Done."),
    )
    editor.open()
    start_result = await editor.command("ohDaemon.start", {"title": "Make it two"})
    message = {
        "conversationId": _field(start_result, "conversation", "id"),
        "content": [{"type": "text", "text": "Replace one by two"}],
        "wait": "completed",
    }
    send_result = await editor.command("ohDaemon.send", message)
    assert _field(send_result, "finalText") == "Done."
    assert editor.text == "two, typed\n"
    assert editor.path.read_text() == "one\n"
    assert [question.split(" ")[0] for question in editor.questions] == ["Trust", "Edit"]
    assert all(label is not None and label.startswith("oh: ") for label in editor.labels)
    [reports] = editor.client.progress_reports.values()
    kinds = [_field(report, "kind") for report in reports]
    assert (kinds[0], set(kinds[1:])) == ("begin", {"report", "end"})


async def test_code_actions_and_the_log_as_a_document_need_no_plugin(
    editor: PlainEditor, world: World
) -> None:
    world.script(say("It says one, because you typed so."), say("You are welcome."))
    editor.open()
    text_range = lsp.Range(lsp.Position(0, 0), lsp.Position(0, 3))
    problem = lsp.Diagnostic(text_range, "should be two", lsp.DiagnosticSeverity.Error)
    document = lsp.TextDocumentIdentifier(editor.path.as_uri())
    action_params = lsp.CodeActionParams(document, text_range, lsp.CodeActionContext([problem]))
    actions = await editor.client.text_document_code_action_async(action_params)
    assert [action.title for action in actions or ()] == [
        "Fix with agent",
        "Explain",
        "Write a test",
    ]
    command = list(actions or ())[1]
    assert isinstance(command, lsp.Command)
    [argument] = list(command.arguments or ())
    start_result = await editor.command(command.command, argument)
    conversation = _field(start_result, "conversation", "id")
    text = [{"type": "text", "text": "Thanks"}]
    params = {"conversationId": conversation, "content": text, "wait": "completed"}
    send_result = await editor.command("ohDaemon.send", {**params, "delivery": "queue"})
    assert _field(send_result, "finalText") == "You are welcome."
    messages = [(message.type, message.message) for message in editor.client.messages]
    assert messages == [
        (lsp.MessageType.Info, "It says one, because you typed so."),
        (lsp.MessageType.Info, "You are welcome."),
    ]
    log = await editor.client.workspace_text_document_content_async(
        lsp.TextDocumentContentParams(f"oh-log:/{conversation}")
    )
    assert "because you typed so" in log.text


def _field(value: Any, *path: str) -> Any:
    """Return a nested field; pygls gives results that it does not know as objects, not dicts."""
    for name in path:
        value = value[name] if isinstance(value, dict) else getattr(value, name)
    return value
